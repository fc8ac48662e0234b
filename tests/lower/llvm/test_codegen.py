"""Native functions become machine code, once; it is freed, found again, and vectorised."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import shutil
import subprocess
import sys
import uuid
import weakref

import numpy as np
import pytest

from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen import processor
from hybridc.lower.llvm.codegen.native_function import NativeFunction, load_functions
from hybridc.tools.loop_form import loop_form
from tests.lower.llvm.loops import elementwise, region
from tests.lower.llvm.native import call, parse, run

DOUBLE = elementwise(["f32"], "f32", "%r = arith.addf %0, %0 : f32")


def function(source, key=None):
    """A native function; with a key of its own that nobody has compiled before."""
    return NativeFunction(key or f"test {uuid.uuid4()}", loop_form(lambda: parse(source)))


def doubled(code, values):
    x = np.array(values, "f4")
    y = np.zeros_like(x)
    call(code, [x.ctypes.data, y.ctypes.data], (), 0, len(x))
    return y


def process(text, cache, **environment):
    """What a fresh process prints that has this cache folder."""
    env = {**os.environ, "HYBRIDC_CACHE_DIR": str(cache), **environment}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, env=env, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_equal_keys_are_built_once():
    built = []

    def build():
        built.append(1)
        return parse(DOUBLE)

    key = f"test {uuid.uuid4()}"
    first, again = load_functions([NativeFunction(key, loop_form(build)), NativeFunction(key, loop_form(build))])
    (later,) = load_functions([NativeFunction(key, loop_form(build))])
    assert first is again is later
    assert len(built) == 1
    np.testing.assert_array_equal(doubled(first, [1, 2.5]), [2, 5])


def test_several_functions_are_one_object():
    source = elementwise(["f32"], "f32", "%c = arith.constant 3.0 : f32\n%r = arith.mulf %0, %c : f32")
    double, treble = load_functions([function(DOUBLE), function(source)])
    assert double.memory is treble.memory
    np.testing.assert_array_equal(doubled(double, [1, 2.5]), [2, 5])
    np.testing.assert_array_equal(doubled(treble, [1, 2.5]), [3, 7.5])


def test_nothing_is_loaded_for_nothing():
    assert load_functions([]) == []


def test_code_is_freed_with_its_last_user():
    first, second = load_functions([function(DOUBLE), function(DOUBLE)])
    memory = weakref.ref(first.memory)
    del first
    gc.collect()
    np.testing.assert_array_equal(doubled(second, [1]), [2])
    assert memory() is not None
    del second
    gc.collect()
    assert memory() is None


_PLATEAU = """
import resource
from tests.lower.llvm.test_codegen import DOUBLE, function, load_functions
def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
from hybridc.lower.llvm.codegen import native_function as codegen
made = codegen.object_of(codegen.llvm_text([f := function(DOUBLE)]))
for i in range(300):
    codegen._place([made], [f])
    if i == 100:
        before = used()
print(used() - before < 1_000_000)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_of_code_stays_on_a_plateau(tmp_path):
    assert process(_PLATEAU, tmp_path) == "True\n"


# The compiler stays the same although somebody may edit it while tests run.
_LOAD = """
from hybridc.lower.llvm.codegen import native_function as codegen
codegen.compiler_version = lambda: "the same"
from tests.lower.llvm.test_codegen import DOUBLE, NativeFunction, doubled, load_functions, loop_form, parse
def build():
    print("built")
    return parse(DOUBLE)
codes = load_functions([NativeFunction(f"{i}", loop_form(build)) for i in range(3)])
print([doubled(code, [1, 2]).tolist() for code in codes] == [[2, 4]] * 3)
"""


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """A cache folder that a process has filled."""
    folder = tmp_path_factory.mktemp("cached")
    assert process(_LOAD, folder) == "built\nbuilt\nbuilt\nTrue\n"
    return folder


@pytest.fixture
def cache(cached, tmp_path):
    """Such a folder for one test."""
    return shutil.copytree(cached, tmp_path / "cache")


def test_another_process_finds_the_code(cache):
    more = _LOAD.replace("range(3)", "range(4)").replace("* 3", "* 4")
    assert process(more, cache) == "built\nTrue\n"  # only what is missing


def entries(folder):
    """The files of functions in a cache folder, the smallest first."""
    files = (path for path in folder.rglob("*") if path.is_file() and b"function " in path.read_bytes())
    return sorted(files, key=lambda path: path.stat().st_size)


def test_damaged_code_is_compiled_again(cache):
    paths = entries(cache)
    assert len(paths) == 3
    for path, size in ((paths[0], -10), (paths[2], 1000)):
        path.write_bytes(path.read_bytes()[:size] + bytes(10))
    assert process(_LOAD, cache) == "built\nbuilt\nTrue\n"
    assert process(_LOAD, cache) == "True\n"


def test_code_of_another_processor_is_not_taken(cache):
    other = (
        "from hybridc.lower.llvm.codegen import native_function\nnative_function.target_key = lambda: 'an older one'\n"
    )
    assert process(other + _LOAD, cache) == "built\nbuilt\nbuilt\nTrue\n"


def test_the_cache_may_be_a_folder_that_cannot_be(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    text = "import warnings\nwarnings.simplefilter('ignore')\n" + _LOAD
    assert process(text, path) == "built\nbuilt\nbuilt\nTrue\n"


_MANY = """
import os, time, warnings
warnings.simplefilter("ignore")
from hybridc.lower.llvm.codegen import native_function as codegen
codegen.compiler_version = lambda: "the same"
from tests.lower.llvm.test_codegen import DOUBLE, doubled, function, load_functions
start, children = time.time() + 1, []
for _ in range(16):
    children.append(os.fork())
    if children[-1] == 0:
        time.sleep(max(0, start - time.time()))
        codes = load_functions([function(DOUBLE, f"{i}") for i in range(3)])
        os._exit(any(doubled(code, [1]).tolist() != [2] for code in codes))
print([os.waitpid(child, 0)[1] for child in children] == [0] * 16)
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_many_processes_compile_the_same_at_once(tmp_path):
    assert process(_MANY, tmp_path) == "True\n"
    assert process(_LOAD, tmp_path) == "True\n"
    assert len(entries(tmp_path)) == 3


CALLS = region(
    "%x: memref<?xf64>",
    """%v = memref.load %x[%zero] : memref<?xf64>
    %y = func.call @NAME(%v) : (f64) -> f64
    memref.store %y, %x[%zero] : memref<?xf64>""",
    "func.func private @NAME(f64) -> f64",
)


def test_functions_of_other_libraries_are_called_by_name():
    add_one = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x + 1)
    codegen.declare_symbol("hybridc_test_add_one", ctypes.cast(add_one, ctypes.c_void_p).value)
    (got,) = run(CALLS.replace("NAME", "hybridc_test_add_one"), [np.array([41.0])])
    assert got[0] == 42


def test_a_function_that_nobody_has_is_named():
    source = CALLS.replace("NAME", "hybridc_test_nowhere")
    with pytest.raises(LookupError, match=r"undefined symbols hybridc_test_nowhere in native functions; define each"):
        load_functions([function(source)])


def vectors(source):
    """The optimised LLVM IR of a parallel region, and the widths of float vectors in it."""
    text = function(source).explain("optimised")
    return text, {int(n) for n in re.findall(r"<(\d+) x float>", text)}


FLOATS = processor.vector_bits() // 32
EXP = """
  func.func private @exp_f32(%x: f32) -> f32 {
    %one = arith.constant 1.0 : f32
    %half = arith.constant 0.5 : f32
    %0 = math.fma %x, %half, %one : f32
    %1 = math.fma %x, %0, %one : f32
    %b = arith.bitcast %1 : f32 to i32
    %k = arith.constant 23 : i32
    %s = arith.shli %b, %k : i32
    %t = arith.addi %s, %b : i32
    %2 = arith.bitcast %t : i32 to f32
    %big = arith.cmpf ogt, %x, %one : f32
    %3 = arith.select %big, %one, %2 : f32
    func.return %3 : f32
  }"""


def rows(combine, start):
    """The rows of a matrix, taken together."""
    body = f"""%z = arith.constant {start} : f32
    scf.for %i = %lo to %hi step %one {{
      %row = arith.muli %i, %n : index
      %s = scf.for %j = %zero to %n step %one iter_args(%a = %z) -> (f32) {{
        %p = arith.addi %row, %j : index
        %v = memref.load %x[%p] : memref<?xf32>
        %w = {combine} : f32
        scf.yield %w : f32
      }}
      memref.store %s, %y[%i] : memref<?xf32>
    }}"""
    return region("%x: memref<?xf32>, %y: memref<?xf32>, %n: index", body)


SUM = rows("arith.addf %a, %v fastmath<reassoc, nsz, contract>", "0.0")
GREATEST = rows("arith.maximumf %a, %v", "0xFF800000")


@pytest.mark.parametrize(
    "source",
    [
        DOUBLE,
        SUM,
        GREATEST,
        elementwise(["f32"], "f32", "%r = func.call @exp_f32(%0) : (f32) -> f32", EXP),
        elementwise(["f32", "f32"], "f32", "%r = arith.maximumf %0, %1 : f32"),
        elementwise(["i1", "f32"], "f32", "%n = arith.negf %1 : f32\n%r = arith.select %0, %1, %n : f32"),
    ],
    ids=["elementwise", "sum", "greatest", "function", "maximum", "choice"],
)
def test_loops_are_vectorised(source):
    text, widths = vectors(source)
    assert widths == {FLOATS}
    assert "memcheck" not in text  # arrays do not overlap: nothing to find out
    assert "exp_f32" not in text  # inlined


def test_vectors_are_filled_whatever_the_type():
    text = function(elementwise(["f64"], "f64", "%r = arith.negf %0 : f64")).explain("optimised")
    assert f"<{FLOATS // 2} x double>" in text
    body = """%w = arith.extf %0 : f32 to f64
      %u = arith.mulf %w, %w : f64
      %v = arith.mulf %u, %w : f64
      %r = arith.truncf %v : f64 to f32"""
    text, _ = vectors(elementwise(["f32"], "f32", body))
    assert re.search(rf"fmul <({FLOATS // 2}|{FLOATS}) x double>", text)


ABREAST = 2 if FLOATS == 16 else 1  # with 32 registers


@pytest.mark.parametrize(
    ("source", "abreast"), [(DOUBLE, ABREAST), (SUM, 4), (GREATEST, 4)], ids=["elementwise", "sum", "greatest"]
)
def test_as_many_vectors_at_a_time_as_hide_what_operations_take(source, abreast):
    text, _ = vectors(source)
    assert len(re.findall(rf"load <{FLOATS} x float>", text)) == abreast * source.count("memref.load")


@pytest.mark.parametrize(
    ("columns", "abreast"), [(4 * FLOATS, 4), (6 * FLOATS, 2), (7 * FLOATS, 1), (1000 * FLOATS, 4)]
)
def test_no_vectors_abreast_that_leave_much_for_single_elements(columns, abreast):
    known = f"%m = arith.constant {columns} : index\n%s = scf.for %j = %zero to %m"
    text = function(SUM.replace("%s = scf.for %j = %zero to %n", known)).explain("llvm")
    assert re.findall(r"interleave.count., i32 (\d)", text) == [str(abreast)]


def test_llvm_says_nothing(capfd):
    """What it cannot vectorise is nobody's concern."""
    body = "%a = arith.remf %0, %1 : f32\n%c = arith.cmpf olt, %a, %0 : f32\n%r = arith.select %c, %a, %1 : f32"
    function(elementwise(["f32", "f32"], "f32", body)).explain("optimised")
    function(rows("arith.addf %a, %v", "0.0")).explain("optimised")
    assert capfd.readouterr() == ("", "")


def test_sums_in_order_stay_in_order():
    x = np.array([1e8, 1.0, -1e8, 1.0] * 64, "f4")
    _, got = run(rows("arith.addf %a, %v", "0.0"), [x, np.zeros(1, "f4")], [len(x)])
    expected = np.float32(0)
    for value in x:
        expected += value
    assert got[0] == expected
    assert got[0] != x.astype("f8").sum()


def test_nan_is_the_greatest_whatever_its_place():
    for place in (0, 5, 16, 37, 99):
        x = np.random.default_rng(place).standard_normal((2, 100)).astype("f4")
        x[0, place] = np.nan
        _, got = run(GREATEST, [x, np.zeros(2, "f4")], [100], extent=2)
        np.testing.assert_array_equal(got, x.max(1))


def test_far_elements():
    body = """scf.for %i = %lo to %hi step %one {
      %p = arith.muli %i, %n : index
      %v = memref.load %x[%p] : memref<?xf32>
      memref.store %v, %y[%i] : memref<?xf32>
    }"""
    source = region("%x: memref<?xf32>, %y: memref<?xf32>, %n: index", body)
    x = np.arange(100, dtype="f4")
    _, got = run(source, [x, np.zeros(34, "f4")], [3], extent=34)
    np.testing.assert_array_equal(got, x[::3])


def test_functions_of_several_kernels_are_written_once():
    body = "%r = func.call @exp_f32(%0) : (f32) -> f32"
    other = "%c = func.call @exp_f32(%0) : (f32) -> f32\n%r = arith.addf %c, %0 : f32"
    different = EXP.replace("0.5", "0.25")
    sources = [(body, EXP), (other, EXP), (body, different)]
    text = codegen.llvm_text([function(elementwise(["f32"], "f32", b, f)) for b, f in sources])
    assert len(re.findall(r"define internal float @exp_f32", text)) == 2
    assert len(re.findall(r"define void @region_", text)) == 3


def test_equal_functions_are_told_apart():
    body = "%r = func.call @exp_f32(%0) : (f32) -> f32"
    one, other = load_functions(
        [function(elementwise(["f32"], "f32", body, f)) for f in (EXP, EXP.replace("0.5", "0.25"))]
    )
    x = np.full(1, 0.5, "f4")
    assert doubled(one, x) != doubled(other, x)


def test_every_stage_can_be_read():
    stages = {name: function(DOUBLE).explain(name) for name in ("tiles", "llvm", "optimised", "assembly")}
    assert stages["tiles"] == "// no tile program"  # it was written as loops
    assert "fadd float" in stages["llvm"]
    assert f"fadd <{FLOATS} x float>" in stages["optimised"]
    assert "addps" in stages["assembly"] or not re.search("x86", codegen.machine().triple)


_BUSY = """
import threading
import numpy as np
from tests.lower.llvm.test_codegen import SUM, call, function, load_functions
(code,) = load_functions([function(SUM)])
x, y = np.ones((1000, 1000), "f4"), np.zeros(1000, "f4")
def forever():
    while True:
        call(code, [x.ctypes.data, y.ctypes.data], [1000], 0, 1000)
threading.Thread(target=forever, daemon=True).start()
print("leaves")
"""


def test_a_process_ends_while_code_runs(tmp_path):
    assert process(_BUSY, tmp_path) == "leaves\n"


_FORK = """
import os, threading
from tests.lower.llvm.test_codegen import DOUBLE, doubled, function, load_functions
stop = []
def compiles():
    while not stop:
        load_functions([function(DOUBLE)])
thread = threading.Thread(target=compiles)
thread.start()
fine = []
for _ in range(10):
    child = os.fork()
    if child == 0:
        (code,) = load_functions([function(DOUBLE)])
        os._exit(0 if doubled(code, [1]).tolist() == [2] else 1)
    fine.append(os.waitpid(child, 0)[1] == 0)
stop.append(1)
thread.join()
print(all(fine))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_compiles_whatever_its_parent_was_doing(tmp_path):
    text = "import warnings\nwarnings.simplefilter('ignore')\n" + _FORK
    assert process(text, tmp_path) == "True\n"


_THREADS = """
from concurrent.futures import ThreadPoolExecutor
from tests.lower.llvm.test_codegen import DOUBLE, doubled, function, load_functions
def one(i):
    (code,) = load_functions([function(DOUBLE, f"{i % 5}")])
    return doubled(code, [i]).tolist() == [2 * i]
with ThreadPoolExecutor(8) as pool:
    print(all(pool.map(one, range(200))))
"""


def test_threads_load_at_once(tmp_path):
    assert process(_THREADS, tmp_path) == "True\n"
