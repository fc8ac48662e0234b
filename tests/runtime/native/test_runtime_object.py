"""The native runtime as an object: what the package has, for which architectures, and when it is used."""

from __future__ import annotations

import shutil

import pytest

from hybridc.ground import store
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen import processor
from hybridc.lower.llvm.codegen.object_file import ElfObject, undefined_symbols
from hybridc.lower.llvm.executor import runtime_object as objects
from hybridc.lower.llvm.executor.emit_runtime import runtime_text
from hybridc.tools import ship_objects
from tests import house

# ELF's numbers of machines, at byte 18 of an object.
MACHINES = {"x86_64": 62, "aarch64": 183}
FUNCTIONS = {"entry", "wrapped", "grid", "loop", "run", "stop"}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder in place of the package's, with the objects in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "SHIPPED", tmp_path_factory.mktemp("package") / "objects")
        ship_objects.main()
        yield store.SHIPPED


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("architecture", MACHINES)
def test_each_architecture_has_an_object(package, architecture, records):
    code = store.shipped(objects.runtime_key("linux", architecture, records), bytes)
    assert int.from_bytes(code[18:20], "little") == MACHINES[architecture]
    defined = {symbol.name for symbol in ElfObject.of(code).symbols if symbol.section}
    assert defined >= FUNCTIONS
    assert not undefined_symbols(code)
    assert processor.TRIPLES.keys() == MACHINES.keys()


def test_what_the_package_has_is_not_compiled(package, monkeypatch):
    monkeypatch.setattr(objects.platform, "machine", lambda: "aarch64")  # of which no cache folder here has an object
    monkeypatch.setattr(objects.sys, "platform", "linux")
    for records in (False, True):
        code = objects.runtime_object(records)
        assert code == store.shipped(objects.runtime_key("linux", "aarch64", records), bytes)
        assert store.kept(objects.runtime_key("linux", "aarch64", records), bytes) is None


def test_objects_that_are_there_stay(package):
    def times():
        return {path: path.stat().st_mtime_ns for path in package.iterdir()}

    before = times()
    ship_objects.main()
    assert times() == before
    assert len(before) == 2 * len(MACHINES)


def test_objects_of_other_sources_are_not_found_and_go(package, monkeypatch, tmp_path):
    """The key follows from the content of the sources, not from where they are or when they were written."""
    copy = tmp_path / "hybridc"
    shutil.copytree(objects._PACKAGE, copy, ignore=lambda folder, names: [n for n in names if n == "__pycache__"])
    key = objects.runtime_key("linux", "x86_64", False)
    monkeypatch.setattr(store, "SHIPPED", shutil.copytree(package, tmp_path / "objects"))
    monkeypatch.setattr(objects, "_PACKAGE", copy)
    objects._sources_hash.cache_clear()
    try:
        assert objects.runtime_key("linux", "x86_64", False) == key
        with (copy / "lower" / "llvm" / "executor" / "emit_loop.py").open("a") as file:
            file.write("# Another line.\n")
        objects._sources_hash.cache_clear()
        other = objects.runtime_key("linux", "x86_64", False)
        assert other != key
        assert store.shipped(other, bytes) is None
        store.ship(other, b"code")
        assert store.shipped(other, bytes) == b"code"
        store.unship()
        assert store.shipped(other, bytes) is store.shipped(key, bytes) is None
    finally:
        objects._sources_hash.cache_clear()


def test_a_damaged_object_counts_as_missing(package, monkeypatch, tmp_path):
    monkeypatch.setattr(store, "SHIPPED", shutil.copytree(package, tmp_path / "objects"))
    for path in store.SHIPPED.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert store.shipped(objects.runtime_key("linux", "x86_64", False), bytes) is None


def test_all_sources_of_the_code_are_in_its_key():
    """Whoever writes the IR, or a number in it, is a source; what these import in turn is none."""
    known = house.modules()
    sources = {path for pattern in objects._SOURCES for path in objects._PACKAGE.glob(pattern)}
    writers = {name for name, path in known.items() if path in sources and not name.startswith("hybridc.ground.")}
    writers -= {objects.__name__}
    found = [i for name in writers for i in house._imports(known, name, house.parsed(known[name])[1])]
    used = {i.target for i in house.ours(found) if not i.typing} - {"hybridc.ground.records"}  # which defines classes
    assert {known[name] for name in used} <= sources
    assert "hybridc.lower.llvm.codegen.ir_text" in writers
    assert "hybridc.ground.machine" in used


def test_it_runs_on_every_processor_of_the_architecture():
    machine = codegen.generic_machine(processor.TRIPLES["x86_64"])
    assembly = machine.assembly(codegen.optimised(runtime_text("x86_64"), machine))
    assert "%xmm" in assembly
    assert "%ymm" not in assembly
    assert "%zmm" not in assembly
