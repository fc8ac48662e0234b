"""The reference: a page for each namespace, and one for each group of operators, made of signatures and docstrings.

``python docs/site/reference.py`` prints how many parameters have no description, ``--list`` names them.
"""

from __future__ import annotations

import contextlib
import doctest
import functools
import importlib
import inspect
import io
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import generate  # noqa: E402
import numpy as np  # noqa: E402

import hybridc as mx  # noqa: E402
from hybridc import options  # noqa: E402
from hybridc.array.fluent import METHODS, Fluent  # noqa: E402
from hybridc.array.functions import function  # noqa: E402
from hybridc.dialects import operator_registry, scalar  # noqa: E402
from hybridc.dialects.operator_attribute import REQUIRED  # noqa: E402
from hybridc.dialects.scalar.table import STEPS  # noqa: E402

# Namespaces with a page of their own, in the sections of the reference: the title, and the module. A name that several
# have is described at the first.
SECTIONS = {
    "Arrays": (
        ("Arrays", "hybridc.nd"),
        ("Random arrays", "hybridc.nd.random"),
        ("Loops and branches", "hybridc.nd.contrib"),
        ("Sparse arrays", "hybridc.nd.sparse"),
        ("Automatic differentiation", "hybridc.autograd"),
        ("Devices", "hybridc.context"),
        ("Random numbers", "hybridc.random"),
        ("NumPy's functions", "hybridc.np"),
        ("NumPy's linear algebra", "hybridc.np.linalg"),
        ("NumPy's random numbers", "hybridc.np.random"),
        ("Operators on NumPy's arrays", "hybridc.npx"),
        ("More random numbers on NumPy's arrays", "hybridc.npx.random"),
    ),
    "Networks": (
        ("Gluon", "hybridc.gluon"),
        ("Layers", "hybridc.gluon.nn"),
        ("Further layers", "hybridc.gluon.contrib.nn"),
        ("Deformable convolutions", "hybridc.gluon.contrib.cnn"),
        ("Recurrent layers", "hybridc.gluon.rnn"),
        ("Further recurrent layers", "hybridc.gluon.contrib.rnn"),
        ("Unrolled cells", "hybridc.gluon.contrib.rnn.rnn_cell"),
        ("Losses", "hybridc.gluon.loss"),
        ("Initializers", "hybridc.initializer"),
        ("Networks for images", "hybridc.gluon.model_zoo.vision"),
        ("Files of trained networks", "hybridc.gluon.model_zoo.model_store"),
        ("Functions for Gluon", "hybridc.gluon.utils"),
    ),
    "Training": (
        ("Optimizers", "hybridc.optimizer"),
        ("Further optimizers", "hybridc.optimizer.contrib"),
        ("Learning rates", "hybridc.lr_scheduler"),
        ("Metrics", "hybridc.metric"),
        ("Estimator", "hybridc.gluon.contrib.estimator"),
        ("Mixed precision", "hybridc.contrib.amp"),
        ("Loss scaling", "hybridc.contrib.amp.loss_scaler"),
        ("Callbacks", "hybridc.callback"),
        ("TensorBoard", "hybridc.contrib.tensorboard"),
        ("Monitor", "hybridc.monitor"),
    ),
    "Data": (
        ("Data", "hybridc.gluon.data"),
        ("Batches of samples", "hybridc.gluon.data.batchify"),
        ("Data sets of images", "hybridc.gluon.data.vision"),
        ("Transformations of images", "hybridc.gluon.data.vision.transforms"),
        ("Further samplers", "hybridc.gluon.contrib.data"),
        ("Data sets of text", "hybridc.gluon.contrib.data.text"),
        ("Iterators", "hybridc.io"),
        ("Arrays of iterators", "hybridc.io.utils"),
        ("Loaders as iterators", "hybridc.contrib.io"),
        ("Images", "hybridc.image"),
        ("Record files", "hybridc.recordio"),
        ("Vocabularies", "hybridc.contrib.text.vocab"),
        ("Vectors of words", "hybridc.contrib.text.embedding"),
        ("Words of texts", "hybridc.contrib.text.utils"),
    ),
    "Symbols and modules": (
        ("Symbols", "hybridc.symbol"),
        ("Executors", "hybridc.executor"),
        ("Modules", "hybridc.module"),
        ("Executors of modules", "hybridc.module.executor_group"),
        ("Executors of several devices", "hybridc.executor_manager"),
        ("Variance-reduced training", "hybridc.contrib.svrg_optimization.svrg_module"),
        ("Recurrent cells of symbols", "hybridc.rnn"),
        ("Models and checkpoints", "hybridc.model"),
        ("Attributes of symbols", "hybridc.attribute"),
        ("Names of symbols", "hybridc.name"),
        ("Pictures of networks", "hybridc.visualization"),
        ("Older interface of gradients", "hybridc.contrib.autograd"),
    ),
    "Files and exchange": (
        ("ONNX", "hybridc.onnx"),
        ("A backend of ONNX", "hybridc.onnx.backend"),
        ("ONNX under MXNet's names", "hybridc.contrib.onnx"),
        ("Quantization", "hybridc.contrib.quantization"),
    ),
    "Operators and the compiler": (
        ("hybridc", "hybridc"),
        ("Debugging", "hybridc.debug"),
        ("Profiler", "hybridc.profiler"),
        ("Custom operators", "hybridc.operator"),
        ("Compiled operators", "hybridc.op"),
        ("Libraries of operators", "hybridc.library"),
        ("Parts of networks", "hybridc.subgraph"),
        ("Kernels in CUDA", "hybridc.rtc"),
        ("Bulks of operators", "hybridc.engine"),
        ("Features", "hybridc.runtime"),
    ),
    "Several devices and machines": (
        ("Stores of several devices", "hybridc.kvstore"),
        ("Stores of one process", "hybridc.kvstore.base"),
        ("Stores that sum", "hybridc.kvstore.summing_store"),
        ("Several machines", "hybridc.distributed"),
        ("Horovod", "hybridc.horovod"),
    ),
    "Utilities": (
        ("Errors", "hybridc.errors"),
        ("Errors under MXNet's names", "hybridc.error"),
        ("Utilities", "hybridc.util"),
        ("Checks for tests", "hybridc.test_utils"),
        ("Registries", "hybridc.registry"),
        ("Log", "hybridc.log"),
        ("Values of C", "hybridc.base"),
        ("Files of the library", "hybridc.libinfo"),
        ("Documentation of arrays", "hybridc.ndarray_doc"),
        ("Documentation of symbols", "hybridc.symbol_doc"),
    ),
}
NAMESPACES = tuple(page for pages in SECTIONS.values() for page in pages)
# Modules whose names are those of a namespace, too.
MORE = {
    "hybridc.io": ("hybridc.image.record_iter", "hybridc.image.det_record_iter"),
    "hybridc.np": (
        *("hybridc.np.constants", "hybridc.np.making", "hybridc.np.shaping", "hybridc.np.selection"),
        *("hybridc.np.by_element", "hybridc.np.reducing", "hybridc.np.sums_of_products"),
        *("hybridc.np.derived.editing", "hybridc.np.derived.grids", "hybridc.np.derived.statistics_of"),
        *("hybridc.np.derived.einsum_paths", "hybridc.np.memory_facts", "hybridc.np.numpy_fallback"),
    ),
}
# Names whose value is None.
NONES = ("newaxis",)
# What parameters of NumPy's functions are, where the function does not say it.
NUMPY_WORDS = {
    "out": "an array of the result's shape into which it is written; None makes a new one",
    "ctx": "the device of the result; None is the current one",
    "device": "the device of the result; None is the current one",
    **dict.fromkeys(("x", "a", "arr", "m", "ary", "prototype"), "an array, a number, or nested lists of numbers"),
    **dict.fromkeys(("x1", "x2"), "an array or a number; both broadcast to a common shape"),
    "dtype": "the dtype of the result; None is float32, or what follows from the arrays",
    "keepdims": "whether reduced axes stay, with size 1",
    "ddof": "what is subtracted from the number of elements in the divisor",
    "size": "the shape of the result; None is one number, or the shape that the other parameters broadcast to",
    "low": "the lower bound, which is included",
    "high": "the upper bound, which is excluded",
    "loc": "the mean or place of the distribution, a number or an array",
    "scale": "the standard deviation or scale of the distribution, a number or an array, not negative",
    "UPLO": "whether the lower (`'L'`) or the upper triangle (`'U'`) is read",
}
# Folders of operators, and what they are of.
GROUPS = {
    "math": "mathematics",
    "array": "arrays",
    "nn": "neural networks",
    "linalg": "linear algebra",
    "elements": "elements",
    "vision": "images and boxes",
    "sparse": "sparse arrays",
    "quantized": "integers for floats",
    "updates": "updates of optimizers",
    "control": "control flow",
}
# Namespaces whose functions and parameters are NumPy's, where nothing else is said of them, and its documentation.
_OF_NUMPY = ("hybridc.np", "hybridc.np.linalg", "hybridc.np.random")
_NUMPY_PAGE = "https://numpy.org/doc/stable/reference/{}generated/{}.html"
# Methods of Python's protocols are no names that a reader looks for.
_SPECIAL = ("__call__",)
# Blocks override these; they are described where they are defined first.
_FORWARDS, _BASES = ("forward", "hybrid_forward"), ("Block", "HybridBlock")
_ROLE = re.compile(r":\w+:`(~?)([\w.]+)`")
_STAR = re.compile(r"(?<=[\w)\]])\*(?=[\w(\[])")
# Names in annotations that a reader knows, beside those of the reference.
_TYPES = {"None", "NDArray", "Context", "Callable", "Iterable", "Mapping", "Sequence", "Path", "PathLike"}
_SECTION = re.compile(r"^(\w[\w ]*)\n(-{3,})$", re.MULTILINE)
# What the examples of docstrings find without an import; tests/docs/test_docstring_examples.py gives it to them.
IMPORTS = """import numpy as np

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.gluon import nn
"""
OF_BLOCKS = (
    "Where a call has `prefix`, `params` or `**kwargs`, these name a block and share its parameters: see "
    "[`Block`](gluon.md#block)."
)


@dataclass
class Parameter:
    """A parameter with what is said of it."""

    name: str
    kind: str = ""
    text: str = ""


@dataclass
class Entry:
    """A name of the reference: its call, its text, its parameters, examples, other names, what it has inside."""

    title: str
    call: str
    text: str
    parameters: list[Parameter] = field(default_factory=list[Parameter])
    example: str = ""
    aliases: list[str] = field(default_factory=list[str])
    members: list[Entry] = field(default_factory=list["Entry"])
    differs: list[str] = field(default_factory=list[str])  # from MXNet 1.9
    elsewhere: bool = False  # whether another page describes it


# --- docstrings -------------------------------------------------------------------------------------------------------


def markdown(text: str) -> str:
    """A docstring's text as Markdown, in which a star between words is one."""
    text = _ROLE.sub(_linked, text).replace("``", "`").replace("`hybridc.", "`mx.").strip()
    return "`".join(part if i % 2 else _STAR.sub(r"\\*", part) for i, part in enumerate(text.split("`")))


def _linked(role: re.Match[str]) -> str:
    """What a role names: classes and their methods lead to the class, others have their path but for a ``~``."""
    *path, name = role[2].split(".")
    cls = path[-1] if path and path[-1][0].isupper() else ""
    target = _classes().get(cls or name)
    if cls or target or role[1]:
        shown_name = f"`{cls}.{name}`" if cls else f"`{name}`"
        return f"[{shown_name}]({target})" if target else shown_name
    return f"`{role[2]}`"


@functools.cache
def _classes() -> dict[str, str]:
    """Where classes are described, by their names; without names that several classes have."""
    found: dict[str, dict[int, str]] = {}
    for _, path in NAMESPACES:
        for name, value in namespace_entries(importlib.import_module(path)):
            if inspect.isclass(value):
                found.setdefault(name, {}).setdefault(id(value), f"{page_of(path)}#{name.lower()}")
    return {name: next(iter(places.values())) for name, places in found.items() if len(places) == 1}


def parsed(doc: str | None) -> tuple[str, list[Parameter]]:
    """The text of a docstring without its examples, and the parameters that its sections describe."""
    text = inspect.cleandoc(doc or "")
    first, *rest = _SECTION.split(text)
    parameters: list[Parameter] = []
    for name, _, body in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if name == "Examples":
            continue
        if name not in ("Parameters", "Attributes"):
            first += f"\n\n**{name}**\n\n{body.strip()}"
            continue
        group: list[Parameter] = []  # those of one line have one description
        for line in body.strip("\n").splitlines():
            if line and not line[0].isspace():
                names, _, kind = line.partition(":")
                group = [Parameter(each.strip().lstrip("*"), kind.strip()) for each in names.split(",")]
                parameters += group
            for each in group if not line or line[0].isspace() else ():
                each.text = f"{each.text} {line.strip()}".strip()
    return markdown(first), parameters


def examples(doc: str | None) -> str:
    """The examples of a docstring: blocks of a session with Python, and what is said between them."""
    _, *rest = _SECTION.split(inspect.cleandoc(doc or ""))
    body = "".join(body for name, body in zip(rest[::3], rest[2::3], strict=True) if name == "Examples")
    parts: list[str] = []
    session = ""
    for part in doctest.DocTestParser().parse(body.strip("\n") + "\n"):
        if isinstance(part, doctest.Example):
            first, *more = part.source.splitlines()
            session += "".join(f"{line.rstrip()}\n" for line in (f">>> {first}", *(f"... {line}" for line in more)))
            session += part.want.replace("<BLANKLINE>", "")
        elif part.strip():
            parts += [f"```pycon\n{session}```"] * bool(session) + [markdown(part)]
            session = ""
        elif part and session:  # an empty line inside the session
            session += part
    return "\n\n".join(parts + [f"```pycon\n{session.rstrip()}\n```"] * bool(session))


def described(text: str, parameters: list[Parameter], given: list[inspect.Parameter]) -> list[Parameter]:
    """The parameters of a call; one that the text names in quotes is described there."""
    known = {p.name: p for p in parameters}
    found: list[Parameter] = []
    for each in given:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) and each.name not in known:
            continue
        parameter = known.get(each.name, Parameter(each.name))
        known_kind = "default" in parameter.kind or "required" in parameter.kind
        default = "" if each.default is each.empty or known_kind else f"default `{shown(each.default)}`"
        kind = ", ".join(filter(None, (parameter.kind or _annotated(each), default)))
        words = parameter.text or ("see above" if re.search(rf"`[^`]*\b{re.escape(each.name)}\b[^`]*`", text) else "")
        found.append(Parameter(each.name, kind, words))
    return found


def _annotated(parameter: inspect.Parameter) -> str:
    """The type that a parameter is annotated with, if it is short and readers know its names."""
    text = parameter.annotation if isinstance(parameter.annotation, str) else ""
    is_known = {*re.findall(r"\b[A-Z]\w*", text)} <= _TYPES | _classes().keys()
    return f"`{text}`" if text and len(text) < 32 and is_known else ""


def shown(value: Any) -> str:
    """A default as it is written."""
    if value is REQUIRED:
        return "required"
    if inspect.isclass(value):
        return f"np.{value.__name__}" if value.__module__ == "numpy" else value.__name__
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value)) if not inspect.isfunction(value) else value.__name__


# --- differences from MXNet -------------------------------------------------------------------------------------------


@functools.cache
def _differences() -> dict[tuple[str, str], list[str]]:
    """The marked differences by module and name in it, of which they are the table in docs/mxnet_differences.md."""
    found: dict[tuple[str, str], list[str]] = {}
    for path, where, note in generate.differences():
        found.setdefault((generate.module_of(path), where), []).append(note)
    return found


def differs(value: Any, apart: Collection[str] = ()) -> list[str]:
    """How a class or function differs from MXNet's, itself and in what is inside, but for the methods ``apart``."""
    module, own = getattr(value, "__module__", ""), getattr(value, "__qualname__", "?")
    found: list[str] = []
    for (place, where), notes in _differences().items():
        method, _, _ = where.removeprefix(f"{own}.").partition(".")
        if place == module and (where == own or (where.startswith(f"{own}.") and method not in apart)):
            found += notes
    return found


def with_differences(made: Entry, value: Any) -> Entry:
    """An entry, and those of its members, with how they differ from MXNet's."""
    members_by_name = {member.title.rpartition(".")[2]: member for member in made.members}
    made.differs = differs(value, members_by_name)
    for name, member in members_by_name.items():
        inner = inspect.getattr_static(value, name, None)
        member.differs = differs(getattr(inner, "__func__", getattr(inner, "fget", inner)))
    return made


def operator_differs(cls: Any) -> list[str]:
    """How an operator differs from MXNet's: what is marked in its class, and in bases in the same file."""
    found: list[str] = []
    for base in cls.__mro__ if cls.function() is None else (*cls.__mro__, cls.function()):
        for (place, where), notes in _differences().items():
            if place == cls.__module__ == base.__module__ and where.partition(".")[0] == base.__name__:
                found += notes
    return found


# --- entries ----------------------------------------------------------------------------------------------------------


def signature_of(value: Any) -> list[inspect.Parameter]:
    """The parameters of a function or class; none if Python does not know them."""
    with contextlib.suppress(ValueError, TypeError):
        return [p for p in inspect.signature(value).parameters.values() if p.name not in ("self", "cls")]
    return []


def call_of(path: str, parameters: list[inspect.Parameter]) -> str:
    """The call, without annotations."""
    parts: list[str] = []
    for each in parameters:
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        default = "" if each.default is each.empty or each.default is REQUIRED else f"={shown(each.default)}"
        parts.append(f"{stars}{each.name}{default}")
    call = f"{path}({', '.join(parts)})"
    return call if len(call) <= 80 else f"{path}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def entry(path: str, value: Any, inside: bool = True) -> Entry:
    """The entry of a function, a class or a constant."""
    if inspect.isclass(value) and not value.__module__.startswith("hybridc"):
        return Entry(path.rpartition(".")[2], path, f"`{value.__module__}.{value.__qualname__}`, as it is.")
    if inspect.isclass(value):
        parameters = signature_of(value)
        text, said = parsed(value.__doc__)
        made = vars(value).get("__init__")
        more, of_init = parsed(made.__doc__ if made is not None else None)
        bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__ if not base.__name__.startswith("_"))
        kind = f"Caught as {bases}, too." if issubclass(value, Exception) and bases else ""
        text = "\n\n".join(filter(None, (text, more, kind)))
        inherited = [p for base in reversed(value.__mro__[1:]) for p in parsed(vars(base).get("__doc__"))[1]]
        found = Entry(path.rpartition(".")[2], call_of(path, parameters), text)
        if issubclass(value, mx.gluon.Block) and value is not mx.gluon.Block:  # the page says what these are
            own = {p.name for p in (*said, *of_init)}
            parameters = [p for p in parameters if p.name not in {"prefix", "params"} - own]
        found.parameters = described(text, [*inherited, *said, *of_init], parameters)
        found.example = examples(value.__doc__)
        if inside and value is not mx.op.Steps:  # which has a page
            found.members = list(members(value))
        return found
    if callable(value):
        parameters = signature_of(value)
        text, said = parsed(value.__doc__)
        call, known = call_of(path, parameters), described(text, said, parameters)
        return Entry(path.rpartition(".")[2], call, text, known, examples(value.__doc__))
    return Entry(path.rpartition(".")[2], path, f"`{shown(value)}`")


def members(cls: type) -> Iterator[Entry]:
    """The methods and properties that a class defines itself, and of a block what private bases add.

    A forward is what the class is. An override has the descriptions of the methods that it overrides. One without a
    docstring is what a public base says of it: it stands there alone.
    """
    for name, value in {**vars(cls), **(_added(cls) if issubclass(cls, mx.gluon.Block) else {})}.items():
        if (name.startswith("_") and name not in _SPECIAL) or (name in _FORWARDS and cls.__name__ not in _BASES):
            continue
        overridden = [base for base in cls.__mro__[1:-1] if getattr(vars(base).get(name), "__doc__", None)]
        if not value.__doc__ and overridden and not overridden[0].__name__.startswith("_"):
            continue
        if isinstance(value, property):
            yield Entry(name, f".{name}", parsed(value.__doc__)[0], example=examples(value.__doc__))
        elif isinstance(value, staticmethod | classmethod) or inspect.isfunction(value):
            inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if name in _SPECIAL and not inner.__doc__:
                continue
            parameters = signature_of(inner)
            text, said = parsed(inner.__doc__ or next((vars(base)[name].__doc__ for base in overridden), None))
            inherited = [p for base in reversed(overridden) for p in parsed(vars(base)[name].__doc__)[1]]
            found = described(text, [*inherited, *said], parameters)
            yield Entry(name, call_of(f".{name}", parameters), text, found, examples(inner.__doc__))


def _added(cls: type) -> dict[str, Any]:
    """What private bases have that no public one has, or how they are called."""
    bases = [base for base in cls.__mro__[1:] if base is not object]
    public = {name for base in bases if not base.__name__.startswith("_") for name in vars(base)} - {*_SPECIAL}
    private = [base for base in bases if base.__name__.startswith("_")]
    found = {name: value for base in reversed(private) for name, value in vars(base).items()}
    return {name: value for name, value in found.items() if name not in public and name not in vars(cls)}


def operator_entry(name: str, cls: Any) -> Entry:
    """The entry of an operator, with the examples of its docstring, or one of its samples."""
    made = function(name)
    parameters = signature_of(made)
    text, said = parsed(made.__doc__)
    inputs = {p.name for p in said if p.kind == "NDArray or Symbol"}
    found = Entry(name, call_of(f"mx.nd.{name}", [p for p in parameters if p.name not in ("ctx", "kwargs")]), text)
    hidden = {"out", "name", "ctx", "kwargs"}
    found.parameters = described(text, said, [p for p in parameters if p.name not in hidden])
    for parameter in found.parameters:
        if parameter.name in inputs:
            parameter.kind = "array"
    found.example = examples(made.__doc__) or example(name, cls)
    found.differs = operator_differs(cls)
    return found


def example(name: str, cls: Any) -> str:
    """A call of an operator on small arrays, and what it prints; nothing where none is small, or where it draws."""
    for sample in () if cls.DRAWS else cls.samples():
        attrs = {key: value for key, value in sample.attrs.items() if key != "train"}
        arrays = [_values(_small(cls, given), sample, i) for i, given in enumerate(sample.inputs)]
        if sample.attrs.get("train") or sample.attrs.get("p") or any(not 0 < x.size <= 36 for x in arrays):
            continue
        names = _names(cls, attrs, len(arrays))
        lines = ["import hybridc as mx", ""]
        for n, x in zip(names, arrays, strict=True):
            numbers = np.round(x.astype("float64"), 4) if x.dtype.kind == "f" else x
            text = re.sub(r"\b(nan|inf)\b", r"np.\1", str(numbers.tolist()))
            lines.append(f"{n} = mx.nd.array({text}, dtype={x.dtype.name!r})")
        by_name = names[len(names) - cls.KEYWORD_INPUTS :]  # these follow the attributes
        call = _call(name, [*names[: len(names) - cls.KEYWORD_INPUTS], *(f"{n}={n}" for n in by_name)], attrs)
        lines[1:1] = ["import numpy as np"] if "np." in "".join([*lines, call]) else []
        several = f"for result in {call}:\n    print(result)"
        code = "\n".join([*lines, several if _gives_list(lines, call) else f"print({call})"])
        text = _printed(code)
        if 0 < len(text) < 1000 and len(call) < 500:
            return f"```py\n{code}\n```\n\n```text\n{text}\n```"
    return ""


def _gives_list(lines: list[str], call: str) -> bool:
    """Whether a call after these lines gives several results."""
    scope: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        exec("\n".join([*lines, f"found = {call}"]), scope)
    return isinstance(scope.get("found"), list)


def _printed(code: str) -> str:
    """What an example prints; nothing if it fails."""
    written = io.StringIO()
    with np.printoptions(precision=4, suppress=True), contextlib.redirect_stdout(written):
        try:
            exec(code, {})
        except Exception:
            return ""
    return written.getvalue().strip("\n")


def _names(cls: Any, attrs: dict[str, Any], count: int) -> list[str]:
    """The names of the inputs of an example: the operator's own if there are several."""
    own = cls.bind(**attrs).input_names()
    if count == 1 or cls.VARIADIC or len(own) != count:
        return ["xyzuvw"[i] if i < 6 else f"x{i}" for i in range(count)]
    return list(own)


def _call(name: str, inputs: list[str], attrs: dict[str, Any]) -> str:
    """The call of an example, on lines of its own where it is long."""
    attributes = [f"{key}={_written(value)}" for key, value in attrs.items()]
    call = f"mx.nd.{name}({', '.join([*inputs, *attributes])})"
    if len(call) < 90:
        return call
    return f"mx.nd.{name}(\n" + "".join(f"    {part},\n" for part in (", ".join(inputs), *attributes)) + ")"


def _small(cls: Any, given: Any) -> Any:
    """The input of a sample; updates of optimizers take weights of any shape, of which two by two show enough."""
    is_update = cls.__module__.startswith("hybridc.dialects.updates.")
    return (2, min(given[1], 2)) if is_update and isinstance(given, tuple) and len(given) == 2 else given


def _values(given: Any, sample: Any, number: int) -> np.ndarray:
    """The input of an example: that of the sample, or numbers that are easily read."""
    if not isinstance(given, tuple):
        value = np.asarray(given)
        return value.astype(sample.dtypes[0]) if value.dtype.kind == "f" else value
    size = int(np.prod(given, dtype=int))
    steps = np.arange(1 + number, 1 + number + size).reshape(given) / 2
    low, high = sample.low, sample.high
    numbers = (low + (steps * 2 % 7) / 7 * (high - low)).round(2) if size else np.zeros(given)
    return numbers.astype(sample.dtypes[0])


def _written(value: Any) -> str:
    return repr(value) if not isinstance(value, np.dtype) else repr(value.name)


# --- pages ------------------------------------------------------------------------------------------------------------


def namespace_entries(module: Any) -> Iterator[tuple[str, Any]]:
    """The public names of a module, and of those whose names are its, too."""
    seen: set[str] = set()
    for each in (module, *map(importlib.import_module, MORE.get(module.__name__, ()))):
        said = getattr(each, "__all__", None)
        for name in dict.fromkeys(said or [n for n in dir(each) if not n.startswith("_")]):
            value = getattr(each, name, None)
            if inspect.ismodule(value) or isinstance(value, TypeVar) or (value is None and name not in NONES):
                continue
            if (said is None and getattr(value, "__module__", "") != each.__name__) or name in seen:
                continue
            seen.add(name)
            yield name, value


@dataclass
class Page:
    """A page: its file, title and introduction, and its entries."""

    file: str
    title: str
    intro: str
    entries: list[Entry] = field(default_factory=list[Entry])


def page_of(path: str) -> str:
    """The file of a namespace's page."""
    return f"{path.removeprefix('hybridc.').replace('.', '_')}.md"


def namespaces() -> dict[str, list[Page]]:
    """The pages of namespaces, by their sections; a function or class of several is an entry of the first."""
    pages: dict[str, Page] = {}
    for title, path in NAMESPACES:
        intro, short = parsed(importlib.import_module(path).__doc__)[0], path.replace("hybridc", "mx", 1)
        intro = intro if short in intro.partition("\n")[0] else f"`{short}`: {intro}"
        pages[path] = Page(page_of(path), title, intro)
    homes: dict[Any, tuple[Page, Entry]] = {}
    for path in sorted(pages, key=lambda path: path != "hybridc.errors"):  # where errors are, whoever has them, too
        _fill(pages[path], path, homes)
    return {section: [pages[path] for _, path in listed] for section, listed in SECTIONS.items()}


def _fill(page: Page, path: str, homes: dict[Any, tuple[Page, Entry]]) -> None:
    """Put the entries of a namespace on its page; ``homes`` has what was described before, and gets what is now."""
    short = path.replace("hybridc", "mx", 1)
    named = list(namespace_entries(importlib.import_module(path)))
    if any(inspect.isclass(v) and issubclass(v, mx.gluon.Block) for _, v in named):
        page.intro += f"\n\n{OF_BLOCKS}"
    own = {n for n, v in named if getattr(v, "__name__", n) == n}
    for name, value in sorted(named, key=lambda pair: pair[0] not in own):  # other names come last
        home, known = homes.get(value, (page, None)) if callable(value) else (page, None)
        if known is not None:
            known.aliases.append(f"{short}.{name}")
        if known is None:
            page.entries.append(_described_entry(path, f"{short}.{name}", value))
            if callable(value):
                homes[value] = page, page.entries[-1]
        elif home is not page:
            page.entries.append(other_name(f"{short}.{name}", known, home, value))
    order = sorted((name for name, _ in named), key=str.lower) if path in MORE else [name for name, _ in named]
    page.entries.sort(key=lambda each: (each.elsewhere, order.index(each.title)))


def _described_entry(path: str, name: str, value: Any) -> Entry:
    """The entry of a name, with what only some namespaces have."""
    made = with_differences(entry(name, value), value)
    if path in _OF_NUMPY:
        as_numpys(made, path.removeprefix("hybridc.np").lstrip("."))
    if path == "hybridc.nd":  # functions that call an operator of their name
        of_name = operator_registry.functions().get(made.title)
        made.differs += operator_differs(of_name) if of_name is not None else []
        if value is mx.nd.NDArray:  # what arrays share with symbols, but for operators, which have pages of their own
            known = {*METHODS.split(), *(each.title for each in made.members)}
            made.members += [each for each in members(Fluent) if each.title not in known]
    return made


def other_name(path: str, known: Entry, home: Page, value: Any) -> Entry:
    """The entry of a class or function that another page describes."""
    what = "class" if inspect.isclass(value) else "function"
    call = known.call.partition("(")[0]
    text = f"The same {what} as [`{call}`]({home.file}#{known.title.lower()})."
    return Entry(path.rpartition(".")[2], path, text, elsewhere=True)


def as_numpys(made: Entry, namespace: str) -> None:
    """Say of parameters that have NumPy's meaning what it is: a few words, or where NumPy describes them."""
    name = ".".join(filter(None, ("numpy", namespace, made.title)))
    theirs = getattr(getattr(np, namespace) if namespace else np, made.title, None)
    known = {p.name for p in signature_of(theirs)} if callable(theirs) else set[str]()
    page = _NUMPY_PAGE.format(f"{namespace}/" if namespace == "random" else "", name)
    for parameter in made.parameters:
        if not parameter.text:
            words = NUMPY_WORDS.get(parameter.name, "")
            link = f"as for [`{name}`]({page})" if theirs is not None and (not known or parameter.name in known) else ""
            parameter.text = words or link


def named_operators() -> Iterator[tuple[str, Any]]:
    """Each public operator with the first of its names.

    Left out are those that ``mx.nd`` has a function of its own for, and those that only tracing makes, such as loops.
    """
    seen: set[Any] = set()
    by_hand: set[str] = set(importlib.import_module("hybridc.nd").__all__)
    for name, cls in sorted(operator_registry.functions().items()):
        if cls in seen or name in by_hand or name.startswith("_") or "." in name or cls.NAME.startswith("hybrid._"):
            continue
        if not cls.__module__.startswith("hybridc."):  # a user's
            continue
        is_made = function(name).__name__ == "_refuse" or (
            len(cls.ATTRIBUTES) > 1 and all(a.doc.startswith("internal") for a in cls.ATTRIBUTES.values())
        )
        if not is_made:
            seen.add(cls)
            yield name, cls


def operators() -> list[Page]:
    """The pages of operators."""
    named: dict[Any, list[str]] = {}
    for name, cls in sorted(operator_registry.functions().items()):
        if not name.startswith("_"):
            named.setdefault(cls, []).append(f"mx.nd.{name}")
    groups: dict[str, list[Entry]] = {group: [] for group in GROUPS}
    for name, cls in named_operators():
        made = operator_entry(name, cls)
        made.aliases = [each for each in named[cls] if each != f"mx.nd.{name}"]
        group = cls.__module__.split(".")[2]
        groups[group if group in GROUPS else "control"].append(made)
    intro = "Operators of `mx.nd`, which are those of `mx.sym`, of `mx.npx` and of `F` in a forward: "
    return [Page(f"operators_{g}.md", f"Operators: {of}", f"{intro}{of}.", groups[g]) for g, of in GROUPS.items()]


def scalar_steps() -> Page:
    """The page of the steps of scalar bodies, by their table: what each means and gives, and an example of it."""
    said = markdown(inspect.cleandoc(scalar.__doc__ or "").partition("\n\n")[2])
    lines = ["| step | meaning | float32 | int32 | uint8 | bool | exact | derivative | example |", "|" + "---|" * 9]
    for step in STEPS.values():
        cells = [f"`b.{step.name}({', '.join(o.partition(':')[0] for o in step.operands)})`", markdown(step.doc)]
        cells += [_step_type(step, np.dtype(name)) for name in ("float32", "int32", "uint8", "bool")]
        cells += ["yes" if step.exact else "", "0" if step.flat else "", _step_example(step)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return Page("scalar_steps.md", "Steps of a scalar body", "\n".join([_STEPS_INTRO.format(said), "", *lines, ""]))


_STEPS_INTRO = """What `b` has in `def scalar(self, b: mx.op.Steps, x: mx.op.Value)`; [operators](../operators.md) says
how they are used. Operands are values of the body, or numbers of Python, which take the dtype of the others. Signs are
steps, too: `x * y + 1` is `b.add(b.mul(x, y), 1)`; `&`, `|` and `~` are those of conditions.

{}

The columns of dtypes say what a step gives of operands of that dtype; *none*: it takes none such. A result is *exact*
that IEEE arithmetic rounds once or not at all; how near others are in native code, [its page](../native.md#functions)
says. A derivative of *0* says that gradients stop there. The examples are computed as the page is made.
"""
# What the operands of the examples are, by the names of parameters.
_OPERANDS: dict[str, Any] = {"x": 0.5, "y": 2.0, "condition": True, "count": 2, "dtype": "int32", "value": 300.0}


def _step_operands(step: Any, dtype: np.dtype[Any]) -> list[Any]:
    """Operands of the example: numbers of a dtype, but for those that are given as they are."""
    names = [operand.partition(":")[0] for operand in step.operands]
    values = {name: _OPERANDS[name] for name in names}
    if dtype.kind in "iu":
        values |= {name: value for name, value in {"x": 6, "y": 3}.items() if name in values}
    if dtype.kind == "b":
        values |= {name: value for name, value in {"x": True, "y": False}.items() if name in values}
    fixed = ("condition", "dtype", "value")
    return [value if name in fixed else np.asarray(value, dtype) for name, value in values.items()]


def _step_value(step: Any, dtype: np.dtype[Any]) -> Any:
    """What a step gives of numbers of a dtype; None if it takes none such."""
    with contextlib.suppress(TypeError, ValueError), np.errstate(all="ignore"):
        return np.asarray(getattr(scalar.NUMPY, step.name)(*_step_operands(step, dtype)))
    return None


def _step_type(step: Any, dtype: np.dtype[Any]) -> str:
    value = _step_value(step, dtype)
    if value is None:
        return "none"
    if not (step.function or step.loops):
        return value.dtype.name
    return scalar.loop_dtypes(step.name, (dtype,) * len(step.operands))[-1].name


def _step_example(step: Any) -> str:
    dtype = next(d for d in map(np.dtype, ("float32", "int32", "bool")) if _step_value(step, d) is not None)
    if step.logical:
        dtype = np.dtype(bool)
    given = ", ".join(str(x.item() if isinstance(x, np.ndarray) else x) for x in _step_operands(step, dtype))
    value = _step_value(step, dtype).item()
    return f"`{step.name}({given})` = {round(value, 6) if isinstance(value, float) else value}"


def settings() -> Page:
    """The page of settings, which the environment says: the text of the module that reads them."""
    _, _, text = markdown(inspect.cleandoc(options.__doc__ or "")).partition("\n\n")
    intro = "Variables of the environment, read once, when hybridc is imported."
    return Page("settings.md", "Settings", f"{intro}\n\n{text}\n")


def sections() -> dict[str, list[Page]]:
    """All pages by the sections of the reference."""
    found = {"Operators": operators(), **namespaces()}
    found["Operators and the compiler"] += [scalar_steps(), settings()]
    return found


def page_text(page: Page) -> str:
    """The text of a page."""
    lines: list[str] = []
    for each in page.entries:
        lines += [f"## {each.title}", "", *_body(each, 3)]
    start = [f"Examples that begin with `>>>` need these imports:\n\n```py\n{IMPORTS}```", ""]
    return "\n".join([
        *(f"# {page.title}", "", page.intro, "", *contents(page.entries)),
        *(start if "```pycon" in "".join(lines) else ()),
        *lines,
    ])  # fmt: skip


def contents(entries: list[Entry]) -> list[str]:
    """A table of what a page describes, with the first line of each."""
    if len(entries) < 4:
        return []
    rows = [(each.title, each.text.partition("\n")[0].replace("|", "\\|")) for each in entries]
    return ["| name | meaning |", "|---|---|", *(f"| [`{n}`](#{n.lower()}) | {text} |" for n, text in rows), ""]


def _body(each: Entry, level: int) -> list[str]:
    lines = ["```py", each.call, "```", ""]
    if each.text:
        lines += [each.text, ""]
    if each.aliases:
        lines += [f"Also {', '.join(f'`{name}`' for name in each.aliases)}.", ""]
    if each.parameters:
        lines += ["| parameter | kind and default | meaning |", "|---|---|---|"]
        for p in each.parameters:
            cells = [f"`{p.name}`", p.kind, markdown(p.text)]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    if each.example:
        lines += [each.example, ""]
    for note in each.differs:
        lines += [f"Differs from MXNet 1.9 (*there*): {note}", ""]
    for member in each.members:
        title = f"`{member.title}`" if member.title in _SPECIAL else member.title  # whose underscores would be stars
        lines += [f"{'#' * level} {title}", "", *_body(member, level + 1)]
    return lines


def pages() -> dict[str, str]:
    """All pages by their files, and the page that lists them."""
    found: dict[str, str] = {}
    index = ["# Reference", "", "Signatures and descriptions are those of the library; examples ran as they stand."]
    index += [
        "Those of operators print four digits, as after `numpy.set_printoptions(precision=4, suppress=True)`.",
        "",
    ]
    for heading, listed in sections().items():
        index += [f"## {heading}", "", "| page | names of | how many |", "|---|---|---|"]
        for page in listed:
            found[page.file] = page_text(page)
            of = page.entries[0].call.partition("(")[0].rpartition(".")[0] if page.entries else ""
            count = len(page.entries) or (len(STEPS) if page.file == "scalar_steps.md" else "")
            index.append(f"| [{page.title}]({page.file}) | {f'`{of}`' if of else ''} | {count} |")
        index.append("")
    found["index.md"] = "\n".join(index)
    return found


def undescribed() -> Iterator[str]:
    """The parameters of which nothing is said, as ``mx.nd.softmax: axis``."""

    def inside(entries: list[Entry]) -> Iterator[str]:
        for each in entries:
            yield from (f"{each.call.partition('(')[0]}: {p.name}" for p in each.parameters if not p.text)
            for member in inside(each.members):
                yield each.call.partition("(")[0] + member

    for listed in sections().values():
        for page in listed:
            yield from inside(page.entries)


if __name__ == "__main__":
    names = list(undescribed())
    if "--list" in sys.argv:
        print("\n".join(names))
    print(f"{len(names)} parameters without a description")
