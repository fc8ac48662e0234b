"""What goes wrong with compiled libraries: each way has a text of its own, with the library's own words."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from libraries import HERE, Function, compiled

import hybridc as mx
from hybridc import autograd
from hybridc.errors import ArgumentTypeError, DTypeError, MXNetError, ShapeError

TOLD = (
    "Found 1 operators in library\n\tOp[0] foreign_double\n"
    "Found 0 partitioners in library\nFound 0 graph passes in library\n"
)

LINE = re.compile(r"[^\s]*library_ops\.cc\[\d+\]")


def error(call, kind=MXNetError):
    """The text of the error, without folders and line numbers of the library's source."""
    with pytest.raises(kind) as info:
        call()
    assert type(info.value) is kind
    return LINE.sub("library_ops.cc[…]", str(info.value))


# --- loading -------------------------------------------------------------------------------------------------


def test_no_file():
    assert error(lambda: mx.library.load("/nowhere/ops.so")) == "load path /nowhere/ops.so does NOT exist"


def test_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.so").write_text("")
    assert error(lambda: mx.library.load("ops.so")) == "load path ops.so is not an absolute path"


def test_no_library_by_its_name(tmp_path):
    path = tmp_path / "ops.txt"
    path.write_text("")
    assert error(lambda: mx.library.load(str(path))) == f"load path {path} is NOT a library file"


def test_no_library_by_its_contents(tmp_path):
    path = tmp_path / "ops.so"
    path.write_text("hello")
    expected = f"Error loading library: '{path}'\n{path}: file too short"
    assert error(lambda: mx.library.load(str(path))) == expected


def test_other_version():
    path = compiled("library_foreign.cc", "-DVERSION=10")
    assert error(lambda: mx.library.load(path)) == (
        f"Library version (10) does not match MXNet version (11): {path} was compiled for another MXNet; compile it "
        "again with the headers of MXNet 1.9 or of hybridc (mx.library.include_path())"
    )


def test_functions_missing():
    path = compiled("library_foreign.cc", "-DINCOMPLETE")
    expected = f"Error getting function 'initialize' from library\n{path}: undefined symbol: initialize"
    assert error(lambda: mx.library.load(path)) == expected


def test_initialize_refuses():
    path = compiled("library_foreign.cc", "-DINITIALIZE=0")
    expected = "Library failed to initialize\nExtension Traceback:\n\t[0] foreign.cc[1]: not today\n"
    assert error(lambda: mx.library.load(path)) == expected


def test_initialize_throws():
    path = compiled("library_foreign.cc", "-DINITIALIZE=2")
    expected = "Library failed to initialize\nExtension Traceback:\n\t[0] C++ exception: no licence\n"
    assert error(lambda: mx.library.load(path)) == expected


@pytest.mark.parametrize(
    ("lacks", "text"),
    [
        ("ParseAttrs", "Error loading 'foreign_double' custom op, ParseAttrs function was not set."),
        ("Forward", "Error loading 'foreign_double' custom op, Forward or CreateOpState function was not set."),
        ("InferType", "Error loading 'foreign_double' custom op, InferType function was not set."),
        ("InferShape", "Error loading 'foreign_double' custom op, InferShape function was not set."),
        ("CreateOpState", "Error loading 'foreign_double' custom subgraph op, CreateOpState function was not set."),
    ],
)
def test_operator_lacks_a_function(lacks, text):
    path = compiled("library_foreign.cc", f"-DLACKS={lacks}")
    assert error(lambda: mx.library.load(path, verbose=False)) == text


# --- calls ---------------------------------------------------------------------------------------------------


def ones(*shape, dtype="float32"):
    return mx.nd.ones(shape, dtype=dtype)


def backward(call):
    x = ones(2, 2)
    x.attach_grad()
    with autograd.record():
        y = call(x)
    y.backward()


CALLS = {
    "too few inputs": (
        lambda: mx.nd.lib_gemm(ones(2, 2)),
        "Operator lib_gemm expects 2 inputs, but got 1 instead; pass them by position: lib_gemm(input0, input1)",
    ),
    "too few symbols": (
        lambda: mx.sym.lib_gemm(mx.sym.var("a")),
        "Operator lib_gemm expects 2 inputs, but got 1 instead; pass them by position: lib_gemm(input0, input1)",
    ),
    "shapes": (
        lambda: mx.nd.lib_gemm(ones(2, 2), ones(3, 3)),
        "Error calling InferShape for custom operator 'lib_gemm'\nExtension Traceback:\n"
        "\t[0] library_ops.cc[…]: first input's columns must match second input's rows\n",
    ),
    "dtypes": (
        lambda: mx.nd.lib_gemm(ones(2, 2), ones(2, 2, dtype="float64")),
        "Error calling InferType for custom operator 'lib_gemm'\nExtension Traceback:\n"
        "\t[0] library_ops.cc[…]: Expected all inputs to be float32\n",
    ),
    "forward": (
        lambda: mx.nd.lib_scale(ones(2, dtype="int8"), scale=2),
        "Error calling FCompute for custom operator 'lib_scale'\nExtension Traceback:\n"
        "\t[0] library_ops.cc[…]: scale works on float32, float64 and int32 only\n",
    ),
    "backward": (
        lambda: backward(lambda x: mx.nd.lib_fail(x, where="backward")),
        "Error calling FCompute for custom operator 'lib_fail'\nExtension Traceback:\n"
        "\t[0] library_ops.cc[…]: told to fail in backward\n",
    ),
    "no backward": (
        lambda: backward(lambda x: mx.nd.lib_noise(x)),
        "Operator lib_noise is non-differentiable because it didn't register a backward function; give it one with "
        "setBackward, or keep gradients from it with BlockGrad",
    ),
    "state without backward": (
        lambda: backward(lambda x: mx.nd.lib_state_no_backward(x)),
        "Error calling FStatefulCompute for custom operator 'lib_state_no_backward'\nExtension Traceback:\n"
        "\t[0] operators.h[…]: Operator does not support backward\n",
    ),
    "state that is not made": (
        lambda: mx.nd.lib_state_gemm(ones(2, 2), ones(2, 2), start=-1),
        "Error calling CreateOpState CPU for custom operator 'lib_state_gemm'\nExtension Traceback:\n"
        "\t[0] library_ops.cc[…]: start must not be negative\n",
    ),
    "for GPUs only": (
        lambda: mx.nd.lib_gpu_only(ones(2)),
        "Operator lib_gpu_only is not implemented for CPU. Its library has it for gpu only, and hybridc runs the "
        'operators of libraries on the CPU; register its functions under "cpu"',
    ),
    "type that no library has": (
        lambda: mx.nd.lib_gemm(ones(2, 2), ones(2, 2).astype("bool")),
        "custom operator 'lib_gemm': input 1 is bool, which a library cannot take; use .astype with one of float32, "
        "float64, float16, uint8, int32, int8, int64",
        DTypeError,
    ),
    "shape that the library wants otherwise": (
        lambda: mx.nd.lib_seen(ones(2, 2), ones(2)),
        "custom operator 'lib_seen': input 1: Shape inconsistent, Provided = [2], inferred shape=[1]; reshape it to "
        "what InferShape says",
        ShapeError,
    ),
    "array as attribute": (
        lambda: mx.nd.lib_gemm(ones(2, 2), b=ones(2, 2)),
        "lib_gemm: b is an array; an operator of a library takes its inputs by position, keywords are its attributes",
        ArgumentTypeError,
    ),
    "generic call without name": (
        lambda: mx.nd.CustomOp(ones(2)),
        "CustomOp: op_type is missing; give the name of an operator of a loaded library",
    ),
}
FAILS = {
    "parse": "Error calling ParseAttrs for custom operator 'lib_fail'",
    "type": "Error calling InferType for custom operator 'lib_fail'",
    "shape": "Error calling InferShape for custom operator 'lib_fail'",
    "mutate": "Error calling MutateInputs for custom operator 'lib_fail'",
    "storage": "Error calling InferSType for custom operator 'lib_fail'",
    "forward": "Error calling FCompute for custom operator 'lib_fail'",
}
WRONG = {
    "num_inputs": "Error calling ParseAttrs::num_inputs for custom operator 'lib_fail': it must set the number, "
    "found -1",
    "num_outputs": "Error calling ParseAttrs::num_outputs for custom operator 'lib_fail': it must set the number, "
    "found -1",
    "bad type": "custom operator 'lib_fail': InferType gives output 0 the unknown type 77; types are 0 float32, "
    "1 float64, 2 float16, 3 uint8, 4 int32, 5 int8, 6 int64",
    "bad index": "custom operator 'lib_fail': MutateInputs names input 7, but there are 1",
    "sparse": "custom operator 'lib_fail': it did not ask for memory of output 0, which is row_sparse; call "
    "OpResource::alloc_sparse",
}


@pytest.mark.parametrize("case", CALLS)
def test_failing_calls(loaded, case):
    call, text, *kind = CALLS[case]
    found = re.sub(r"^\S+test_library_errors\.py:\d+: ", "", error(call, *kind))  # symbols name the user's line
    assert re.sub(r"[^\s]*operators\.h\[\d+\]", "operators.h[…]", found) == text


@pytest.mark.parametrize("where", FAILS)
def test_failing_functions(loaded, where):
    for _ in range(2):  # what the library said before is not repeated
        assert error(lambda: mx.nd.lib_fail(ones(2), where=where)) == (
            f"{FAILS[where]}\nExtension Traceback:\n\t[0] library_ops.cc[…]: told to fail in {where}\n"
        )


@pytest.mark.parametrize("where", sorted(FAILS.keys() - {"storage"} | {"backward"}))
def test_throwing_functions_of_our_header(loaded, where):
    call = lambda x: mx.nd.lib_fail(x, where=f"throw {where}")  # noqa: E731
    expected = f"{FAILS.get(where, FAILS['forward'])}\nExtension Traceback:\n\t[0] C++ exception: thrown in {where}\n"
    assert error(lambda: backward(call)) == expected


@pytest.mark.parametrize("where", WRONG)
def test_wrong_answers(loaded, where):
    assert error(lambda: mx.nd.lib_fail(ones(2), where=where)) == WRONG[where]


def test_unknown_generic_call(loaded):
    text = error(lambda: mx.nd.CustomOp(ones(2), op_type="nothing"))
    assert text.startswith("CustomOp: no loaded library has an operator 'nothing' (there are: '_contrib_lib_scale', ")
    assert text.endswith(
        "load the library with mx.library.load(path). Operators written in Python are called by mx.nd.Custom"
    )


def test_second_derivative(loaded):
    x = ones(2, 2)
    x.attach_grad()
    with autograd.record():
        y = mx.nd.lib_gemm(x, x)
        (dx,) = autograd.grad([y], [x], create_graph=True)
    assert error(dx.backward) == (
        "custom operator 'lib_gemm' cannot be differentiated twice: its library has a backward, but no gradient of "
        "that; leave out create_graph=True"
    )


def test_error_in_a_hybridized_block_names_the_line(loaded):
    block = Function(lambda F, x: F.lib_gemm(x, x))
    block.hybridize()
    text = error(lambda: block(ones(2, 3)))
    assert re.match(r".*test_library_errors\.py:\d+ \(in function\d+\): Error calling InferShape for custom", text)


def test_error_while_a_compiled_graph_runs(loaded):
    block = Function(lambda F, x: F.lib_scale(x, scale="no number"))
    block.hybridize()
    where, _, text = error(lambda: block(ones(2, 3))).partition(": ")
    assert re.fullmatch(rf"{re.escape(__file__)}:\d+ \(in function\d+\)", where)
    assert text == "Error calling FCompute for custom operator 'lib_scale'\nExtension Traceback:\n" + (
        "\t[0] C++ exception: stod\n"
    )


# --- exceptions that leave a library of another header, and life without a compiler -----------------------------

FOREIGN = """
import sys
import hybridc as mx
mx.library.load(sys.argv[1])
x = mx.nd.array([1.0, 2.0])
print(mx.nd.foreign_double(x).asnumpy())
for where in ("parse", "type", "shape", "compute"):
    try:
        mx.nd.foreign_double(x, throw=where)
    except mx.MXNetError as error:
        print(error)
print(mx.nd.foreign_double(x).asnumpy())
"""


def python(program, *args, **environment):
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), **environment}
    command = [sys.executable, "-c", program, *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)


def thrown(function, text):
    called = f"Error calling {function} for custom operator 'foreign_double'"
    return called, "Extension Traceback:", f"\t[0] C++ exception: {text}", ""


def test_exceptions_of_a_foreign_library(tmp_path):
    done = python(FOREIGN, compiled("library_foreign.cc"), HYBRIDC_CACHE_DIR=str(tmp_path / "cache"))
    assert done.stdout.splitlines() == [
        "[2. 4.]",
        *thrown("ParseAttrs", "cannot parse"),
        *thrown("InferType", "a plain text"),
        *thrown("InferShape", "an exception that is no std::exception"),
        *thrown("FCompute", "vector::at"),
        "[2. 4.]",
    ]
    assert done.stderr == TOLD
    (made,) = (tmp_path / "cache").iterdir()
    assert made.name.startswith("extension_shim-")


def test_damaged_cache(tmp_path):
    for _ in range(2):
        done = python(FOREIGN, compiled("library_foreign.cc"), HYBRIDC_CACHE_DIR=str(tmp_path))
        assert "vector::at" in done.stdout
        (made,) = tmp_path.iterdir()
        made.write_bytes(made.read_bytes()[:100])


@pytest.mark.long
def test_cached_file_that_others_may_write(tmp_path):
    """It is not loaded, but made anew."""
    python(FOREIGN, compiled("library_foreign.cc"), HYBRIDC_CACHE_DIR=str(tmp_path))
    (made,) = tmp_path.iterdir()
    made.chmod(0o777)
    done = python(FOREIGN, compiled("library_foreign.cc"), HYBRIDC_CACHE_DIR=str(tmp_path))
    assert "vector::at" in done.stdout
    (made,) = tmp_path.iterdir()
    assert made.stat().st_mode & 0o022 == 0


def test_without_compiler(tmp_path):
    program = FOREIGN.partition("for where")[0]
    path = compiled("library_foreign.cc")
    done = python(program, path, HYBRIDC_CXX="no-compiler", HYBRIDC_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0
    assert done.stdout == "[2. 4.]\n"
    assert (
        "<string>:4: UserWarning: no C++ compiler was found (looked for no-compiler). Extension libraries work all the "
        "same, but a C++ exception that leaves an operator of theirs ends the process; install a C++ compiler, or name "
        "one in HYBRIDC_CXX\n"
    ) in done.stderr


def test_compiler_that_fails(tmp_path):
    program = FOREIGN.partition("for where")[0]
    done = python(program, compiled("library_foreign.cc"), HYBRIDC_CXX="false", HYBRIDC_CACHE_DIR=str(tmp_path))
    assert done.stdout == "[2. 4.]\n"
    assert "false cannot compile extension_shim.cc: it returned 1. Extension libraries work all the same" in done.stderr
    assert list(tmp_path.iterdir()) == []


ALL_WITHOUT_COMPILER = """
import sys, warnings
warnings.simplefilter("ignore")
import hybridc as mx
mx.library.load(sys.argv[1], verbose=False)
x = mx.nd.array([[1.0, 2.0], [3.0, 4.0]])
x.attach_grad()
seen = mx.nd.zeros(1)
with mx.autograd.record():
    y = mx.nd.lib_state_gemm(mx.nd.lib_gemm(x, x), mx.nd.lib_scale(x, scale=2), start=3) + mx.nd.lib_seen(x, seen)
y.backward()
mx.random.seed(7)
print(y.asnumpy().tolist(), x.grad.asnumpy().tolist(), seen.asnumpy(), mx.nd.lib_noise(mx.nd.zeros(1)).asnumpy())
"""


def test_all_kinds_of_operators_without_compiler(loaded, tmp_path):
    with_shim = python(ALL_WITHOUT_COMPILER, loaded)
    without = python(ALL_WITHOUT_COMPILER, loaded, HYBRIDC_CXX="no-compiler", HYBRIDC_CACHE_DIR=str(tmp_path))
    assert with_shim.stdout == without.stdout
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert without.stdout.startswith(str((x @ x @ (2 * x) + 3 + x).tolist()))


def test_cache_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    done = python(FOREIGN, compiled("library_foreign.cc"), HYBRIDC_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert "vector::at" in done.stdout
