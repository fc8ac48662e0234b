"""LLVM by the C functions of two libraries: errors are reported, threads compile at once, code runs until closed."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
import threading

import pytest
from llvmlite import binding

from hybridc.errors import OptionError
from hybridc.lower.llvm.codegen import llvm, llvm_c
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen.object_file import undefined_symbols

ADD = """
declare i64 @hybridc_test_other(i64)
define i64 @add(i64 %x) {{
  %y = add i64 %x, {0}
  ret i64 %y
}}
define i64 @other(i64 %x) {{
  %y = call i64 @hybridc_test_other(i64 %x)
  ret i64 %y
}}
"""


@pytest.fixture(autouse=True, params=["llvmlite", ""], ids=["llvmlite", "release"])
def library(request, monkeypatch):
    """Each library compiles; the release build is a dependency on Linux and x86-64, and absent elsewhere."""
    chosen = llvm._chosen(request.param)
    if not request.param and chosen.name != "release":
        assert (sys.platform, platform.machine()) != ("linux", "x86_64"), "karellen-llvm-core is not installed"
        pytest.skip("there is no release build of LLVM for this system")
    monkeypatch.setattr(llvm, "library", lambda triple="": chosen)
    return chosen


def made(text):
    """The object of a text, and the functions that it lacks."""
    machine, module = codegen.machine(), llvm.LLVMModule(text)
    machine.optimise(module)
    return (code := machine.object(module)), undefined_symbols(code)


def test_text_that_is_none_is_an_error():
    with pytest.raises(RuntimeError, match="expected top-level entity"):
        llvm.LLVMModule("this is no module")


INVALID = """
declare i64 @llvm.ctlz.i64(i64, i1 immarg)
define i64 @f(i64 %x, i1 %b) {
  %a = call i64 @llvm.ctlz.i64(i64 %x, i1 %b)
  ret i64 %a
}
"""


def test_a_module_that_is_invalid_is_an_error():
    with pytest.raises(RuntimeError, match="the module fails LLVM's verifier"):
        codegen.optimised(INVALID, codegen.machine())


def test_what_a_module_calls_and_has_not():
    assert made(ADD.format(1))[1] == ("hybridc_test_other",)
    assert not llvm_c.has_symbol("hybridc_test_other_too")


def test_functions_of_the_c_library_are_found_before_anything_is_loaded():
    """Code for processors without fused multiply-add calls them."""
    text = (
        "from hybridc.lower.llvm.codegen.llvm_c import has_symbol; "
        "print(*[has_symbol(n) for n in ('fma', 'fmaf', 'memset', 'no')])"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "True True True False\n"


def test_threads_compile_at_once():
    alone = [made(ADD.format(i))[0] for i in range(8)]
    together = [b""] * 8
    begin = threading.Barrier(8)

    def work(i):
        begin.wait()
        together[i] = made(ADD.format(i))[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_objects_of_one_engine_run_until_it_is_closed():
    text = "define i64 @f{0}(i64 %x) {{\n  %y = mul i64 %x, {0}\n  ret i64 %y\n}}"
    engine = llvm_c.Engine([made(text.format(i))[0] for i in (2, 3, 5)])
    functions = [ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.address(f"f{i}")) for i in (2, 3, 5)]
    assert [f(7) for f in functions] == [14, 21, 35]
    assert not engine.closed
    engine.close()
    engine.close()
    assert engine.closed


def test_the_host_is_the_one_that_llvmlite_finds(library):
    assert llvm.host_name() == binding.get_host_cpu_name()
    ours, theirs = llvm.host_features(), dict(binding.get_host_cpu_features())
    assert {name: ours[name] for name in ours.keys() & theirs.keys()} == {
        n: theirs[n] for n in ours.keys() & theirs.keys()
    }
    assert len(ours.keys() ^ theirs.keys()) < 10  # each version knows some of its own
    if library.name == "llvmlite":
        assert llvm.llvm_version() == f"llvmlite {'.'.join(map(str, binding.llvm_version_info))}"


def test_a_library_that_is_none_is_an_error_that_names_the_option(tmp_path):
    (tmp_path / "libLLVM.so").write_text("no library")
    with pytest.raises(OptionError, match=r"HYBRIDC_LLVM=.*libLLVM.so: this is no library of LLVM"):
        llvm._chosen(str(tmp_path / "libLLVM.so"))
