"""``mx.library``: operators from files: libraries compiled for MXNet 1.9, and Python files or packages."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from hybridc.dialects import operator_registry
from hybridc.errors import MXNetError
from hybridc.ground.compiler_output import say
from hybridc.ground.locks import ForkLock
from hybridc.library import extension_graph
from hybridc.library import extension_operator as extension
from hybridc.library.extension import ExtensionLibrary

__all__ = ["include_path", "load"]

_COMPILED = (".so", ".dll")
# By the path of its file: a library stays until the process ends, because operators refer to its functions.
_LIBRARIES: dict[str, Any] = {}
_LOCK = ForkLock()


def load(path: str, verbose: bool = True) -> ModuleType | None:
    """Load operators from a file: they appear as ``mx.nd.<op>``, ``mx.sym.<op>`` and ``F.<op>``.

    Parameters
    ----------
    path : str
        A library (.so, .dll) compiled for MXNet 1.9, as an absolute path, see :func:`include_path`; or a Python file
        or package, whose module is returned.
    verbose : bool
        Whether to list on stderr what was found.
    """
    path = str(path)
    file = Path(path)
    if not file.exists():
        raise MXNetError(f"load path {path} does NOT exist")
    if file.suffix == ".py" or (file.is_dir() and (file / "__init__.py").exists()):
        return _load_python(file.resolve(), verbose)
    if not file.is_absolute():
        raise MXNetError(f"load path {path} is not an absolute path")
    if file.suffix not in _COMPILED:
        raise MXNetError(f"load path {path} is NOT a library file")
    _load_library(path, verbose)
    return None


def include_path() -> str:
    """The folder with the headers for libraries: ``g++ -std=c++11 -shared -fPIC -I<folder> my_ops.cc -o my_ops.so``."""
    return str(Path(__file__).parents[1] / "include")


def _load_library(path: str, verbose: bool) -> None:
    # COMPAT(mxnet): there the third load of one library fails; here every load is like the first.
    with _LOCK.current:
        library = _opened(path)
    if verbose:
        say(f"Found {len(library.ops)} operators in library")
    for number, op in enumerate(library.ops):
        if verbose:
            say(f"\tOp[{number}] {op.name}" + "\n\t\tisSubgraphOp" * op.is_subgraph)
        extension.define(op)
    _load_backends(library, verbose)


def _opened(path: str) -> Any:
    key = str(Path(path).resolve())
    library = _LIBRARIES.get(key)
    if library is None:
        library = _LIBRARIES[key] = ExtensionLibrary(path)
    else:
        library.initialize()
        if library.changed():
            warnings.warn(
                f"{path} changed since it was loaded, but a process keeps the library that it loaded first; start "
                "a new process to use the new one",
                stacklevel=4,
            )
    return library


def _load_backends(library: Any, verbose: bool) -> None:
    """Enter partitioners and graph passes, if there are any: they bring in the compiler."""
    partitioners, passes = extension_graph.partitioners(library), extension_graph.passes(library)
    if partitioners or passes:
        from hybridc.library import extension_backend

        extension_backend.define(partitioners, passes)
    if not verbose:
        return
    say(f"Found {len(partitioners)} partitioners in library")
    for number, (name, strategies) in enumerate(partitioners.items()):
        say(f"\tPartitioner[{number}] {name}")
        for i, strategy in enumerate(strategies):
            say(f"\t\tStrategy[{i}] {strategy.name} subgraphOp: '{strategy.op}'")
    say(f"Found {len(passes)} graph passes in library")
    for number, graph_pass in enumerate(passes):
        say(f"\tGraph Pass [{number}] {graph_pass.name}")


def _described(error: Exception, file: Path) -> str:
    """The text of an exception, and its line in the user's files."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(str(file))]
    where = f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _load_python(file: Path, verbose: bool) -> ModuleType:
    """Import a file or package under its name, or under a longer one if another module has it."""
    before = set(operator_registry.operators())
    source = file / "__init__.py" if file.is_dir() else file
    name = file.stem
    known = sys.modules.get(name)
    if not name.isidentifier() or (known is not None and getattr(known, "__file__", None) != str(source)):
        name = f"{name}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    folders = [str(file)] if file.is_dir() else None
    spec = importlib.util.spec_from_file_location(name, source, submodule_search_locations=folders)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    previous = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name)
        if previous is not None:
            sys.modules[name] = previous
        if isinstance(error, MXNetError) or not isinstance(error, Exception):
            raise
        raise MXNetError(f"Error loading library: '{file}'\n{_described(error, file)}") from error
    if verbose:
        found = [n for n in operator_registry.OPERATORS if n not in before]
        say(f"Found {len(found)} operators in library")
        for number, op in enumerate(found):
            say(f"\tOp[{number}] {op}")
    return module
