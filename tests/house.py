"""The structure of the package as its imports say it: ``python -m tests.house`` prints it as a table.

``LAYERS`` are the folders and files of ``hybridc/`` in the order in which they may import each other: each only itself
and those before it. Imports inside functions count, those for type checkers, and modules that are imported by name.
``LATE`` are the imports that are not at the top of their files, and why.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "hybridc"

LAYERS: tuple[tuple[str, str], ...] = (
    (
        "ground",
        "ground attribute context dtypes errors name options random registry sparse_storage",
    ),
    ("communication", "communication"),
    ("files of arrays", "array_files"),
    ("operators", "dialects"),
    ("arrays", "array autograd"),
    ("traces", "trace"),
    ("analyses", "ir"),
    ("passes", "transforms"),
    ("targets", "lower"),
    ("runtime", "runtime"),
    ("backends", "subgraph"),
    ("compiler", "compile"),
    ("front end: arrays", "operator op nd np util npx base error ndarray_doc profiler"),
    ("front end: graphs", "symbol executor visualization symbol_doc"),
    ("front end: libraries", "library libinfo"),
    ("front end: training", "initializer lr_scheduler misc optimizer metric callback kvstore engine log rtc"),
    ("front end: data", "recordio io image"),
    ("front end: networks", "gluon module model executor_manager rnn contrib"),
    ("front end: what goes wrong", "debug monitor"),
    ("front end: interchange", "interchange onnx contrib.onnx"),
    ("front end: several machines", "distributed horovod"),
    ("tools", "tools test_utils connect"),
    ("names of the package", "aliases"),
    ("the package", ""),
    ("programs that import MXNet, and types of the package", "alias launch __main__ stubs"),
)

# By the reason: the modules that import others when a function is called, and which (a pattern may stand for several).
# Each costs those a noticeable part of their time who do without it, or may be missing.
LATE: dict[str, dict[str, str]] = {
    "SciPy's sparse matrices take 100 ms, and few programs have sparse arrays": {
        "hybridc.sparse_storage": "scipy.sparse",
    },
    "the compiler: eager calls, and graphs that are on the disk, do without it; xDSL alone takes 100 ms": {
        "hybridc.compile.new_sizes": "hybridc.compile.* hybridc.ir.sized_module",
        "hybridc.compile.pipeline": "hybridc.ir.spec",
        "hybridc.compile.stages": "hybridc.compile.* hybridc.dialects.mlir.late_formats",
        "hybridc.gluon.export": "hybridc.compile.compiled_file hybridc.symbol.optimize",
        "hybridc.gluon.hybridize.cached_graph": "hybridc.compile.background.background_graph",
        "hybridc.gluon.hybridize.report": "hybridc.compile.explanation.explain_page",
        "hybridc.library": "hybridc.library.extension_backend",
        "hybridc.module.module": "hybridc.compile.compiled_file",
        "hybridc.tools.compile_network": "hybridc.compile.compiled_file",
        "hybridc.lower.llvm.codegen.native_function": "hybridc.lower.llvm.codegen.*",
        "hybridc.lower.llvm.executor.runtime_object": "hybridc.lower.llvm.executor.emit_runtime",
        "hybridc.subgraph": "hybridc.dialects.mlir.hybrid hybridc.trace.trace_to_graph hybridc.transforms.graph.splice "
        "xdsl.transforms.dead_code_elimination",
        "hybridc.symbol.composed": "hybridc.symbol.symbol_to_graph hybridc.symbol.optimize",
        "hybridc.test_utils": "hybridc.tools.check_op",
    },
    "operators that not every program uses: all of them take 25 ms": {
        "hybridc.dialects.library": "hybridc.dialects.*",
    },
    "a target: only graphs that are compiled for it need its passes and what runs its programs": {
        "hybridc": "hybridc.runtime.native",
        "hybridc.compile.pipeline": "hybridc.lower.llvm.* hybridc.transforms.code.tile_kernels",
        "hybridc.compile.targets": "hybridc.lower.llvm.* hybridc.lower.numpy.* hybridc.lower.triton.* "
        "hybridc.runtime.* hybridc.transforms.code.array_code hybridc.transforms.code.blocks.*",
        "hybridc.compile.warm_start": "hybridc.runtime.device_executable",
    },
    "namespaces, when they are first used": {
        "hybridc.__main__": "hybridc.tools.*",
        "hybridc.tools.convert_files": "hybridc.onnx",
        "hybridc.stubs": "hybridc hybridc.nd hybridc.np* hybridc.symbol",
        "hybridc": "hybridc.*",
        "hybridc.connect": "hybridc.compile.stages hybridc.contrib.onnx hybridc.image hybridc.library "
        "hybridc.nd.on_device hybridc.np hybridc.npx hybridc.onnx hybridc.symbol hybridc.symbol.infer "
        "hybridc.symbol.recorded hybridc.runtime.devices.choose",
    },
    "a rank: the process beside it does without the package, and is there in a few milliseconds": {
        "hybridc.launch.rank_process": "hybridc.launch.rank_program",
    },
    "the cache on the disk: what is only called eagerly does without it, and hashlib, json and tempfile take 15 ms": {
        "hybridc.ground.machine": "hybridc.ground.store",
        "hybridc.options": "tempfile",
    },
    "formats of files: what saves and loads MXNet's alone does without them; json, mmap and zipfile take 15 ms": {
        "hybridc.array_files.formats": "hybridc.array_files.*",
    },
    "images: record files of other things do without them": {
        "hybridc.io.io": "hybridc.image.record_iter hybridc.image.det_record_iter",
        "hybridc.recordio": "hybridc.image.codec",
    },
    "what notebooks show: programs do without it": {
        "hybridc.array.ndarray": "hybridc.ground.display.html",
        "hybridc.array.sparse": "hybridc.ground.display.html",
        "hybridc.ground.display.stage_views": "hybridc.ground.display.html",
        "hybridc.gluon.hybrid_block": "hybridc.ground.display.block_html",
        "hybridc.gluon.parameter": "hybridc.ground.display.block_html",
        "hybridc.gluon.trainer": "hybridc.ground.display.html",
        "hybridc.optimizer.base_optimizer": "hybridc.ground.display.html",
    },
    "heavy modules of others": {
        "hybridc.dialects.operator_registry": "importlib.metadata",
        "hybridc.test_utils.distributions": "scipy",
        "hybridc.dtypes": "ml_dtypes",
        "hybridc.gluon.data.vision.datasets": "tarfile",
    },
    "modules of others that may be missing, or are no matter of ours until they are used": {
        "hybridc.communication.world": "hybridc.communication.* mpi4py",
        "hybridc.communication.links": "fcntl",
        "hybridc.horovod.ranks": "mpi4py",
        "hybridc.launch.rank_process": "ctypes",
        "hybridc.gluon.download": "hashlib ssl urllib.request",
        "hybridc.io.progress": "tqdm",
        "hybridc.image.codec": "PIL.Image cv2",
        "hybridc.image.detection": "PIL.* cv2",
        "hybridc.lower.llvm.codegen.llvm_c": "llvmlite llvmlite.utils",
        "hybridc.onnx": "hybridc.interchange.onnx.* hybridc.onnx.backend",
        "hybridc.runtime.devices.nvidia.compiled": "triton.*",
        "hybridc.runtime.devices.nvidia.cupy_gpu": "cupy",
        "hybridc.runtime.devices.nvidia.torch_gpu": "torch",
        "hybridc.runtime.native.native_library": "numpy._core._multiarray_umath",
        "hybridc.runtime.triton_interpreter": "triton.*",
        "hybridc.runtime.triton_kernel": "triton triton.language",
        "hybridc.tools.fuzz.damaged_files": "hybridc.tools.fuzz.onnx_files",
        "hybridc.tools.onnx_operators": "onnx onnxruntime openvino",
        "hybridc.tools.triton_report": "triton",
        "hybridc.visualization": "graphviz",
    },
}

# MXNet's own names for two things each: a layer and its operator, an initializer and a parameter, and the like.
LAYERS_AND_OPERATORS = {
    *(
        "Activation",
        "BatchNorm",
        "CTCLoss",
        "Cast",
        "Constant",
        "Dropout",
        "Embedding",
        "Flatten",
        "Identity",
        "LayerNorm",
    ),
    *("DeformableConvolution", "GroupNorm", "InstanceNorm", "LeakyReLU", "Loss", "ModulatedDeformableConvolution"),
    *("Pad", "Parameter", "Stack", "SyncBatchNorm"),
    # Cells of symbols and of arrays.
    *("BidirectionalCell", "ConvGRUCell", "ConvLSTMCell", "ConvRNNCell", "DropoutCell", "GRUCell", "LSTMCell"),
    *("ModifierCell", "RNNCell", "ResidualCell", "SequentialRNNCell", "ZoneoutCell"),
    "Compression",  # Horovod's name for its choice, and ours for how values are rounded
}
# Files whose names are MXNet's, such as ``mx.op`` and ``mx.nd.op``, ``gluon.rnn.rnn_cell`` and that in contrib, or
# Python's.
MODULES_OF_MXNET = {"__init__.py", "__main__.py", "base.py", "io.py", "op.py", "random.py", "rnn.py", "rnn_cell.py"}
MODULES_OF_MXNET |= {"contrib.py", "linalg.py", "sampler.py", "sparse.py", "utils.py"}
# Of mx.contrib, and of ONNX's interface, which is what setuptools calls its own, too.
MODULES_OF_MXNET |= {"backend.py"}
MODULES_OF_MXNET |= {"autograd.py", "ndarray.py"}
# Folders whose names are MXNet's, or whose files have one idea each that nothing groups better.
MOST_FILES = {"hybridc": 40, "hybridc.ground": 22, "hybridc.symbol": 18}

# The compiler: of its public functions each has a name of its own.
COMPILER = ("compile", "dialects.mlir", "ir", "lower", "runtime", "trace", "transforms")
# Names of types that are declared once for the package, and where.
ALIASES = {"DType": "hybridc.dtypes", "Shape": "hybridc.dialects.operator_attribute"}

# Modules of nothing but figures, which their docstrings explain.
EXPLAINED = {"hybridc.ground.machine", "hybridc.ir.costs", "hybridc.dialects.scalar.coefficients"}

# A target prints: of the layers below it, ``lower`` imports what it prints and what describes that, as data.
PRINTED = {
    "hybridc.ir": "values scalars structured structured_builder planned library_matmul tiles.* kernels.kernel "
    "kernels.kernel_module kernels.kernel_notes kernels.grid_kernel",
    "hybridc.transforms.code": "array_code choose_code kernel_cache loop_target parallel_regions",
    "hybridc.transforms.schedules": "arrays.array_steps loop_machine matmul_shape schedule_blas",
}

_DECIDE = ("hybridc.ir.", "hybridc.transforms.")

_IMPORTER, _REGISTER = "importlib.import_module", "LATE_MODULES"


@dataclass(frozen=True)
class Import:
    """A line of a module that imports another.

    ``late`` says that it does so when a function is called, ``by_name`` that it names the module in a string, and
    ``typing`` that it is for type checkers only.
    """

    source: str
    target: str
    line: int
    late: bool
    typing: bool
    by_name: bool = False

    def __str__(self) -> str:
        kind = " (by name)" if self.by_name else " (inside a function)" if self.late else ""
        kind = " (for type checkers)" if self.typing else kind
        return f"{self.source}, line {self.line}: imports {self.target}{kind}"


def modules() -> dict[str, Path]:
    """All modules of the package, by name."""
    found: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(known: Mapping[str, Path]) -> list[Import]:
    """All imports among them."""
    return ours(all_imports(known))


def ours(found: list[Import]) -> list[Import]:
    """Those of modules of the package."""
    return [each for each in found if each.target.partition(".")[0] == "hybridc"]


def decisions(found: list[Import]) -> list[Import]:
    """The imports of targets that are neither data which they print nor a description of it."""
    allowed = [f"{folder}.{name}" for folder, names in PRINTED.items() for name in names.split()]
    asked = [i for i in found if i.source.startswith("hybridc.lower.") and i.target.startswith(_DECIDE)]
    return [i for i in asked if not any(fnmatchcase(i.target, pattern) for pattern in allowed)]


def all_imports(known: Mapping[str, Path]) -> list[Import]:
    """All that they import."""
    found: list[Import] = []
    for name, path in known.items():
        text, tree = parsed(path)
        found += _imports(known, name, tree)
        if _IMPORTER in text or _REGISTER in text:
            found += _named(known, name, tree)
    return found


def _imports(
    known: Mapping[str, Path], source: str, node: ast.AST, late: bool = False, typing: bool = False
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            for name in {f"{child.module}.{alias.name}" for alias in child.names}:
                yield Import(source, name if name in known else str(child.module), child.lineno, late, typing)
        elif isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(source, alias.name, child.lineno, late, typing)
        else:
            inside = late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            checked = typing or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
            yield from _imports(known, source, child, inside, checked)


def _named(known: Mapping[str, Path], source: str, tree: ast.AST) -> Iterator[Import]:
    """What a module imports by name: those of ours whose names stand in it, and those of others that it gives."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in known and node.value != source:
            yield Import(source, str(node.value), node.lineno, True, False, by_name=True)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == _IMPORTER:
            name = node.args[0]
            if isinstance(name, ast.Constant) and name.value not in known:
                yield Import(source, str(name.value), node.lineno, True, False, by_name=True)


def layer(module: str) -> int:
    """The number of a module's layer."""
    parts = module.split(".")[1:] or [""]
    of_name = {name: i for i, (_, names) in enumerate(LAYERS) for name in names.split() or [""]}
    return of_name.get(".".join(parts[:2]), of_name.get(parts[0], len(LAYERS)))


def upwards(found: list[Import]) -> list[Import]:
    """The imports of a layer that comes later."""
    return [i for i in found if layer(i.target) > layer(i.source)]


def not_listed(found: list[Import]) -> list[Import]:
    """The late imports for which ``LATE`` gives no reason."""
    return [i for i in found if i.late and not any(_stands_for(entry, i) for entry in _entries())]


def not_needed(found: list[Import]) -> list[str]:
    """The entries of ``LATE`` that stand for no late import."""
    late = [i for i in found if i.late]
    return [": ".join(entry) for entry in _entries() if not any(_stands_for(entry, i) for i in late)]


def _entries() -> list[tuple[str, str]]:
    groups = [group.items() for group in LATE.values()]
    return [(source, pattern) for group in groups for source, names in group for pattern in names.split()]


def _stands_for(entry: tuple[str, str], found: Import) -> bool:
    return entry[0] == found.source and fnmatchcase(found.target, entry[1])


def circles(found: list[Import], typing: bool = False) -> list[set[str]]:
    """The groups of modules that import each other, the largest first."""
    graph: dict[str, set[str]] = {}
    for each in found:
        if typing or not each.typing:
            graph.setdefault(each.source, set()).add(each.target)
    reached = {start: _reached(graph, start) for start in graph}
    groups = {frozenset(b for b in ahead if start in reached.get(b, ())) for start, ahead in reached.items()}
    return sorted(({*g} for g in groups if len(g) > 1), key=len, reverse=True)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    work = [start]
    while work:
        for target in graph.get(work.pop(), ()):
            if target not in seen:
                seen.add(target)
                work.append(target)
    return seen


@functools.cache
def parsed(path: Path) -> tuple[str, ast.Module]:
    text = path.read_text()
    return text, ast.parse(text)


def classes(known: Mapping[str, Path]) -> dict[str, list[str]]:
    """The modules in which a class of each name is."""
    found: dict[str, list[str]] = {}
    for module, path in known.items():
        for node in ast.walk(parsed(path)[1]):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    return found


def compiler_functions(known: Mapping[str, Path]) -> dict[str, list[str]]:
    """The modules of the compiler in which a public function of each name is; methods are not counted."""
    found: dict[str, list[str]] = {}
    for module, path in known.items():
        if module.startswith(tuple(f"hybridc.{folder}." for folder in COMPILER)):
            for node in parsed(path)[1].body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, []).append(module)
    return found


def aliases(known: Mapping[str, Path]) -> dict[str, list[str]]:
    """The modules that declare each of :data:`ALIASES`."""
    found: dict[str, list[str]] = {name: [] for name in ALIASES}
    for module, path in known.items():
        for node in parsed(path)[1].body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ALIASES:
                found[ast.unparse(node.targets[0])].append(module)
    return found


def files(known: Mapping[str, Path]) -> dict[str, list[Path]]:
    """The files of each name, but for :data:`MODULES_OF_MXNET`."""
    found: dict[str, list[Path]] = {}
    for path in known.values():
        if path.name not in MODULES_OF_MXNET:
            found.setdefault(path.name, []).append(path)
    return found


def constants(known: Mapping[str, Path]) -> list[tuple[str, bool]]:
    """The numbers that modules name, where they stand, and whether a comment there says why they have their values.

    A comment is on the same lines, or above the first of several that follow each other. Figures of machines, the cost
    model, and coefficients of polynomials are not counted: their modules say where they are from.
    """
    found: list[tuple[str, bool]] = []
    for module, path in known.items():
        if module in EXPLAINED:
            continue
        text, tree = parsed(path)
        lines, end, headed = text.splitlines(), 0, False
        for node in tree.body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or not _is_number(node.value):
                continue
            headed = lines[node.lineno - 2].startswith("#") or (headed and end == node.lineno - 1)
            end = node.end_lineno or node.lineno
            beside = any("#" in line for line in lines[node.lineno - 1 : end])
            found.append((f"{module}, line {node.lineno}: {lines[node.lineno - 1]}", headed or beside))
    return found


def _is_number(node: ast.expr | None) -> bool:
    """Whether a value is made of numbers alone."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.Tuple(elts=parts) | ast.Dict(values=parts):
            return bool(parts) and all(map(_is_number, parts))
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case _:
            return False


def root_logger_calls(known: Mapping[str, Path]) -> list[str]:
    """Calls of ``logging.info`` and the like, which add a handler to the root logger before a program does."""
    functions = {"basicConfig", "critical", "debug", "error", "exception", "info", "log", "warn", "warning"}
    return [
        f"{name}, line {node.lineno}: logging.{node.func.attr}"
        for name, path in known.items()
        for node in ast.walk(parsed(path)[1])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in functions
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "logging"
    ]


def slow_dataclasses(known: Mapping[str, Path]) -> list[str]:
    """Modules that define dataclasses by the standard library, which takes longer, for no other reason than habit.

    Those with slots are another class than the body's, and what starts a rank imports nothing of hybridc.
    """
    return [
        name
        for name, path in known.items()
        for node in ast.walk(parsed(path)[1])
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(alias.name == "dataclass" for alias in node.names)
        if "slots=True" not in parsed(path)[0] and name != "hybridc.communication.launched_rank"
    ]


def attributes_by_name(known: Mapping[str, Path]) -> list[str]:
    """Texts that are the name of a :class:`~hybridc.dialects.mlir.note.Note`, where it is not defined."""
    texts: list[tuple[str, ast.Constant]] = []
    notes: dict[str, ast.Constant] = {}
    for module, path in known.items():
        for node in ast.walk(parsed(path)[1]):
            match node:
                case ast.Constant(value=str(text)) if text.startswith("hybrid."):
                    texts.append((module, node))
                case ast.Call(func=function, args=[ast.Constant(value=str(name)) as first, *_]):
                    if ast.unparse(function).partition(".")[0] == "Note":
                        notes[name] = first
                case _:
                    pass
    return [
        f"{module}, line {node.lineno}: {node.value!r}"
        for module, node in texts
        if notes.get(node.value, node) is not node
    ]


def folders(known: Mapping[str, Path]) -> dict[str, int]:
    """How many files each folder has."""
    return Counter(".".join(path.relative_to(PACKAGE.parent).parent.parts) for path in known.values())


def main() -> None:
    """Print the table."""
    known = modules()
    found = imports(known)
    sizes = folders(known)
    rows = {
        "files": len(known),
        "lines": sum(path.read_text().count("\n") for path in known.values()),
        "folders": len(sizes),
        "files in the largest folder": max(sizes.values()),
        "folders with more than 16 files": sum(n > 16 for n in sizes.values()),
        "imports": len(found),
        "imports inside functions": sum(i.late and not i.by_name for i in found),
        "modules imported by name": sum(i.by_name for i in found),
        "imports of a later layer": len(upwards(found)),
        "files in circles": sum(map(len, circles(found))),
        "largest circle": max(map(len, circles(found)), default=0),
        "names of two or more classes": sum(len(w) > 1 for w in classes(known).values()),
        "names of two or more functions": sum(len({*w}) > 1 for w in compiler_functions(known).values()),
        "names of two or more files": sum(len(paths) > 1 for paths in files(known).values()),
        "numbers that modules name": len(constants(known)),
        "those without a comment": sum(not explained for _, explained in constants(known)),
    }
    for title, number in rows.items():
        print(f"{title:34} {number:7}")


if __name__ == "__main__":
    main()
