"""Functions for arrays of all sizes: compiled for a level, and taken from the package if it has their objects."""

from __future__ import annotations

import dataclasses
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

import hybridc as mx
from hybridc.ground import store
from hybridc.ir.tiles.tile_parser import parse
from hybridc.lower.llvm.codegen import llvm, processor
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen.host import HostProcessor
from hybridc.lower.llvm.codegen.llvm_c import Llvmlite
from hybridc.lower.llvm.codegen.object_file import ElfObject
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.lower.llvm.native_target import print_program
from hybridc.transforms.schedules.loop_machine import Registers
from hybridc.transforms.schedules.schedule_register_tiles import RegisterTile, tile_program
from tests.lower.llvm.test_processor import LEVELS, choose

x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the levels of x86-64 are there only")

ROWS = """tile_program {
  buffer b0 : f32
  buffer b1 : f32
  axes i0 < n0, i1 < 100
  inner i1
  parallel i0 {
    sweep i1 {
      %0 = load b0[i0*100 + i1] : f32
      store %0, b1[i0*100 + i1]
    }
  }
}
"""


@x86
@pytest.mark.parametrize("level", LEVELS)
def test_a_level_shares_its_own_code(monkeypatch, level):
    choose(monkeypatch, level)
    assert processor.shared_level() == processor.name()


@x86
def test_the_host_shares_the_code_of_its_highest_level(monkeypatch):
    choose(monkeypatch, "host")
    level = processor.shared_level()
    assert not processor.lacking(level)
    above = [name for name in LEVELS if name > level and name != "generic"]
    assert all(map(processor.lacking, above))


def test_which_programs_are_for_all_sizes():
    rows = parse(ROWS)
    assert not rows.for_all_sizes
    assert dataclasses.replace(rows, sizes=(None, None)).for_all_sizes
    matmul = tile_program(RegisterTile(np.dtype("float32"), Registers(32, 16)), 2).program
    assert matmul.for_all_sizes
    packed = parse(PACKED)
    assert packed.for_all_sizes
    assert not parse(PACKED.replace("tile i2 by 16 whole in 8", "tile i2 by n2 whole in 8")).for_all_sizes


# The columns are those of a register tile.
PACKED = """tile_program {
  buffer b0 : f32
  buffer b1 : f32
  buffer b2 : f32
  scratch t0 over i1, i3, i1 : f32
  strides 5
  axes i0 < n0, i1 < n1, i2 < 16, i3 < n3
  tile i1 by 48 range masked in 6, 4
  tile i2 by 16 whole in 8
  tile i3 by n3 whole in 1
  parallel i1 {
    sweep {
      %0 = load b0[i1*s0 + i3*s1] : f32
      store %0, t0[i1 + i3]
    }
    sweep i0 {
      %1 = load t0[i1 + i3] : f32
      %2 = load b1[i0*s2 + i2 + i3*16] : f32
      %total = contract %1, %2 over i3 : f32
      store %total, b2[i0*s3 + i1*s4 + i2]
    }
  }
}
"""


def test_code_for_all_sizes_is_that_of_the_level(monkeypatch):
    choose(monkeypatch, "host")
    if (vectors := registers()) is None:
        pytest.skip("this processor has no registers for tiles")
    matmul = tile_program(RegisterTile(np.dtype("float32"), vectors), 2).program
    own, shared = print_program(parse(ROWS)), print_program(matmul)
    level, width = processor.shared_level(), processor.vector_bits()
    assert (own.cpu, shared.cpu) == ("host", level)
    made = shared.explain("assembly")
    choose(monkeypatch, level)
    assert processor.vector_bits() != width or shared.explain("assembly") == made


@x86
def test_what_the_package_has_is_not_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr(store, "SHIPPED", tmp_path / "objects")
    choose(monkeypatch, "x86-64-v2")
    ir = codegen.llvm_text([print_program(parse(ROWS))])
    compiled: list[str] = []
    optimised = codegen.optimised

    def counted(text, target):
        compiled.append(text)
        return optimised(text, target)

    monkeypatch.setattr(codegen, "optimised", counted)
    codegen.ship_object(ir, "x86-64-v2")
    made = codegen.object_of(ir, "x86-64-v2")
    assert compiled == [ir]
    assert made == codegen.object_of(ir)  # for HYBRIDC_CPU, which is the same
    assert compiled == [ir]
    codegen.object_of(ir, "x86-64-v3")
    codegen.object_of(ir + "\n", "x86-64-v2")
    assert len(compiled) == 3
    another = dataclasses.replace(codegen.host(), llvm="another")
    monkeypatch.setattr(codegen, "host", lambda: another)
    assert codegen.object_of(ir, "x86-64-v2") == made  # of this text LLVM makes the same to the byte
    assert len(compiled) == 4


# Linux's 64-bit ARM, described on whatever computer the tests run on.


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder in place of the package's, with what a wheel's build ships for 64-bit ARM."""
    folder = tmp_path_factory.mktemp("package") / "objects"
    env = {**os.environ, "HYBRIDC_CPU": "aarch64", "HYBRIDC_MACHINE": "nominal", "HYBRIDC_TARGET": "llvm"}
    subprocess.run([sys.executable, "-c", SHIP, str(folder)], env=env, check=True)
    return folder


SHIP = """
import pathlib, sys
from hybridc.ground import store
from hybridc.tools import ship_objects

store.SHIPPED = pathlib.Path(sys.argv[1])
ship_objects.ship_functions("how many")
"""

# A Neoverse N1's features, of which the level needs the first.
FEATURES = dict.fromkeys(("neon", "fp-armv8", "crc", "lse", "fullfp16", "rdm", "rcpc", "dotprod", "aes", "sha2"), True)


@pytest.fixture
def describe(monkeypatch, package):
    """Makes the described machine the host, for which this process then compiles."""
    monkeypatch.setattr(store, "SHIPPED", package)
    choose(monkeypatch, "host")

    def describe(**fields):
        neoverse = HostProcessor("neoverse-n1", FEATURES, codegen.llvm_of("aarch64"), "aarch64", "linux")
        machine = dataclasses.replace(neoverse, **fields)
        monkeypatch.setattr(processor, "host", lambda: machine)
        monkeypatch.setattr(codegen, "host", lambda: machine)

    return describe


@pytest.fixture
def without_llvm(monkeypatch):
    """Makes it an error to ask for a target machine, which all that is compiled needs."""

    def refused(cpu=None):
        raise LookupError("it is not part of the package")

    monkeypatch.setattr(codegen, "machine", refused)


def shared_functions(net, *arrays):
    """The functions for all sizes that a network's first call needs."""
    net.initialize()
    programs = net.trace(*arrays).optimize().lower("llvm").programs.values()
    called = [f for program in programs if isinstance(program, NativeSource) for f in program.functions_called()]
    return [function for function in called if function.for_all_sizes]


# Graphs of sizes that no network has of which the package has the functions.


def product():
    """A matmul."""
    net = mx.gluon.nn.HybridLambda(lambda F, x, y: F.dot(x, y))
    return shared_functions(net, mx.nd.ones((96, 200)), mx.nd.ones((200, 80)))


def layers():
    """Two dense layers."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(160, activation="relu"), mx.gluon.nn.Dense(24))
    return shared_functions(net, mx.nd.ones((100, 500)))


def transpose():
    """A transpose of matrices."""
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.transpose(x, (0, 2, 1)))
    return shared_functions(net, mx.nd.ones((3, 30, 50)))


@pytest.mark.parametrize("graph", [product, layers, transpose])
def test_a_machine_of_64_bit_arm_compiles_no_function_for_all_sizes(describe, without_llvm, graph):
    describe()
    assert processor.shared_level() == "aarch64"
    functions = graph()
    assert functions
    for function in functions:
        made = codegen.object_of(codegen.llvm_text([function]), function.cpu)
        assert made.code[:20] == b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x01\x00\xb7\x00"  # relocatable, AArch64
        defined = [s.name for s in ElfObject.of(made.code).symbols if s.section and s.binding]
        assert defined == [function.symbol]
        assert {*made.needs} <= {"memcpy", "memset"}


@pytest.mark.parametrize(
    "fields",
    [{"system": "darwin"}, {"llvm": "llvmlite 99.1.0"}, {"features": {"crc": True}}, {"architecture": "riscv64"}],
    ids=["another system", "another LLVM", "without NEON", "another architecture"],
)
def test_a_machine_for_which_the_objects_are_not_compiles_them(describe, without_llvm, fields):
    describe()
    functions = product()
    describe(**fields)
    with pytest.raises(LookupError, match="not part"):
        codegen.object_of(codegen.llvm_text(functions[:1]), functions[0].cpu)


def test_what_is_compiled_for_a_triple_is_what_its_system_compiles():
    """So that a cross-compiled object is the one that the machine would have made, to the byte."""
    native = Llvmlite()
    if native.triple not in processor.TRIPLES.values():
        pytest.skip("nothing is shipped for this system")
    ir = codegen.llvm_text([print_program(parse(PACKED))])
    made = []
    for library in (native, Llvmlite(native.triple)):
        module = llvm.LLVMModule(ir, library)
        machine = library.machine("generic", "", 2)
        library.optimise(machine, module.pointer, 2)
        made.append(library.emitted(machine, module.pointer, assembly=False))
        library.dispose_machine(machine)
    assert made[0] == made[1]
