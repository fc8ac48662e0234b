"""Levels of processors: code and choices are those of the level, whatever computer they are made on."""

from __future__ import annotations

import dataclasses
import platform
import re
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import options
from hybridc.errors import OptionError
from hybridc.lower.llvm.codegen import llvm, processor
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.lower.llvm.native_target import native_target
from hybridc.transforms.code.choose_matmul import regions_of_matmul
from hybridc.transforms.schedules.loop_machine import Registers
from tests.lower.llvm.test_gemm import contraction_kernel

X86 = platform.machine() == "x86_64"
LEVELS = {
    "generic": (128, None),
    "x86-64-v2": (128, None),
    "x86-64-v3": (256, Registers(32, 16)),
    "x86-64-v4": (256, Registers(64, 32)),
}
x86 = pytest.mark.skipif(not X86, reason="the levels of x86-64 are there only")


def choose(monkeypatch, level):
    monkeypatch.setattr(processor, "OPTIONS", dataclasses.replace(options.OPTIONS, cpu=level))
    monkeypatch.setattr(codegen, "OPTIONS", processor.OPTIONS)


@x86
@pytest.mark.parametrize("level", LEVELS)
def test_choices_are_those_of_the_level(monkeypatch, level):
    choose(monkeypatch, level)
    assert (processor.vector_bits(), registers()) == LEVELS[level]
    assert processor.converts_halves() == (level in ("x86-64-v3", "x86-64-v4"))


@x86
@pytest.mark.parametrize("level", LEVELS)
def test_code_is_that_of_the_level(monkeypatch, level):
    """A loop and a matmul: no wider registers than the level has, and the widest of those in the matmul."""
    choose(monkeypatch, level)
    net = mx.gluon.nn.HybridLambda("square")
    loops = net.trace(mx.nd.ones((4096,))).optimize().lower("llvm").programs["forward"].code("assembly")
    width = processor.vector_bits()
    assert ("ymm" in loops, "zmm" in loops) == (width == 256, False)
    (region,) = regions_of_matmul(contraction_kernel("ik,kj->ij", {"i": 24, "j": 64, "k": 32}), native_target(1))
    assert region.algorithm == ("blas" if registers() is None else "tiles")
    if region.algorithm == "tiles":
        assembly = region.function.explain("assembly")
        found = {int(x[1]) for x in re.finditer(r"vfmadd\w+\s.*%(?:[xyz]mm)(\d+)", assembly)}
        assert ("zmm" in assembly) == (level == "x86-64-v4")
        assert max(found) >= 2 * registers().count // 3


@x86
@pytest.mark.parametrize(
    ("level", "rows", "algorithm"),
    [
        *(("x86-64-v2", rows, "blas") for rows in (8, 64, 512)),
        *(
            ("x86-64-v3", rows, algorithm)
            for rows, algorithm in ((5, "dots"), (16, "turned"), (64, "turned"), (512, "tiles"))
        ),
        *(
            ("x86-64-v4", rows, algorithm)
            for rows, algorithm in ((16, "dots"), (32, "turned"), (64, "turned"), (512, "tiles"))
        ),
    ],
)
def test_how_rows_meet_a_weight_follows_from_the_level(monkeypatch, level, rows, algorithm):
    choose(monkeypatch, level)
    (region,) = regions_of_matmul(contraction_kernel("ik,jk->ij", {"i": rows, "j": 512, "k": 512}), native_target(2))
    assert region.algorithm == algorithm


@x86
def test_levels_have_keys_of_their_own(monkeypatch):
    keys = set()
    for level in ("host", *LEVELS):
        choose(monkeypatch, level)
        keys.add(codegen.target_key())
    assert len(keys) == 1 + len(LEVELS)


@x86
@pytest.mark.parametrize("level", LEVELS)
def test_features_are_those_that_llvm_gives_the_level(monkeypatch, level):
    """LLVM's own definition is the oracle: a feature of the level is an instruction that it can select."""
    choose(monkeypatch, level)
    named, told = (
        llvm.TargetMachine(processor.name(), text, 2).assembly(llvm.LLVMModule(_OPERATIONS))
        for text in ("", processor.features_text())
    )
    assert _instructions(named) == _instructions(told)


# Half precision, a fused product and sum, bits counted, bytes swapped, sixteen floats, eight words rotated.
_OPERATIONS = """
declare float @llvm.fma.f32(float, float, float)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare <8 x i64> @llvm.fshl.v8i64(<8 x i64>, <8 x i64>, <8 x i64>)
define <16 x float> @wide(<16 x float> %x, <16 x float> %y) { %z = fmul <16 x float> %x, %y ret <16 x float> %z }
define float @fused(float %x) { %z = call float @llvm.fma.f32(float %x, float %x, float %x) ret float %z }
define float @half(half %x) { %z = fpext half %x to float ret float %z }
define i64 @count(i64 %x) { %z = call i64 @llvm.ctpop.i64(i64 %x) ret i64 %z }
define i64 @zeros(i64 %x) { %z = call i64 @llvm.ctlz.i64(i64 %x, i1 false) ret i64 %z }
define <8 x i64> @product(<8 x i64> %x) { %z = mul <8 x i64> %x, %x ret <8 x i64> %z }
define <64 x i8> @bytes(<64 x i8> %x) { %z = add <64 x i8> %x, %x ret <64 x i8> %z }
"""


def _instructions(assembly):
    return re.findall(r"^\t([a-z]\w*)", assembly, re.MULTILINE)


def test_another_architecture_has_its_own_choices_and_code(monkeypatch):
    """Code for 64-bit ARM is cross-compiled, and can be looked at; calling it is an error that says what is lacking."""
    choose(monkeypatch, "aarch64")
    assert (processor.architecture(), processor.name(), processor.vector_bits()) == ("aarch64", "generic", 128)
    assert registers() == Registers(16, 32)
    assert processor.converts_halves()
    (region,) = regions_of_matmul(contraction_kernel("ik,kj->ij", {"i": 24, "j": 64, "k": 32}), native_target(1))
    assert region.algorithm == "tiles"
    assembly = region.function.explain("assembly")
    accumulators = {int(x[1]) for x in re.finditer(r"fmla\s+v(\d+)\.4s", assembly)}
    assert len(accumulators) >= registers().count // 2


@x86
def test_code_of_another_architecture_is_not_called(monkeypatch):
    choose(monkeypatch, "aarch64")
    assert processor.triple() == processor.TRIPLES["aarch64"]
    lowered = mx.gluon.nn.HybridLambda("square").trace(mx.nd.ones((3,))).optimize().lower("llvm")
    with pytest.raises(OptionError, match=r"HYBRIDC_CPU=aarch64: .* lacks neon; unset HYBRIDC_CPU, or choose"):
        lowered.compile()


def test_the_lowest_level_is_that_of_the_architecture(monkeypatch):
    for architecture, level, name in (
        ("x86_64", "x86-64", "x86-64"),
        ("aarch64", "aarch64", "generic"),
        ("riscv64", "generic", "generic"),
    ):
        machine = dataclasses.replace(codegen.host(), architecture=architecture)
        monkeypatch.setattr(processor, "host", lambda machine=machine: machine)
        choose(monkeypatch, "generic")
        assert (processor.shared_level(), processor.name(), processor.architecture()) == (level, name, architecture)
        assert not processor.triple()


def test_features_of_aarch64_are_those_that_llvm_gives_it():
    """LLVM's own definition is the oracle, as for the levels of x86-64."""
    triple = processor.TRIPLES["aarch64"]
    named, told = (
        machine.assembly(llvm.LLVMModule(_OPERATIONS, machine.library))
        for text in ("", processor.features_text("aarch64"))
        for machine in [llvm.TargetMachine(processor.name("aarch64"), text, 2, triple)]
    )
    assert _instructions(named) == _instructions(told)


def test_another_level_is_an_error():
    with pytest.raises(OptionError, match=r"HYBRIDC_CPU=foo: it takes host \(the default\), .*generic"):
        options.read({"HYBRIDC_CPU": "foo"})
    assert options.read({"HYBRIDC_CPU": ""}).cpu == options.read({}).cpu == "host"
    assert options.read({"HYBRIDC_CPU": "generic"}).cpu == "generic"


def test_other_architectures_have_no_levels_of_x86(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(OptionError, match=r"HYBRIDC_CPU=x86-64-v3: it takes host .*, generic or aarch64$"):
        options.read({"HYBRIDC_CPU": "x86-64-v3"})


@x86
def test_what_cannot_run_here_says_why(monkeypatch):
    """On a processor with less than the level, code is not called; it could be looked at before."""
    choose(monkeypatch, "x86-64-v4")
    here = {f: f != "avx512bw" for f in processor.features()}
    monkeypatch.setattr(
        processor, "_features", lambda cpu, features=processor._features: here if cpu == "host" else features(cpu)
    )
    lowered = mx.gluon.nn.HybridLambda("square").trace(mx.nd.ones((3,))).optimize().lower("llvm")
    with pytest.raises(OptionError, match=r"HYBRIDC_CPU=x86-64-v4: .* lacks avx512bw; unset HYBRIDC_CPU, or choose"):
        lowered.compile()
    choose(monkeypatch, "generic")
    (found,) = lowered.compile().forward(np.ones(3, np.float32))
    np.testing.assert_array_equal(found, np.ones(3))


def test_every_level_is_documented():
    text = Path("docs/native.md").read_text(encoding="utf-8")
    assert all(f"| `{level}` |" in text for level in options._X86_CPU if level != "host")
