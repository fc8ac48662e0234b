"""``mx.subgraph``: backends that take parts of a graph, and passes that rewrite it.

A backend is a name with partitioners and passes, applied in the order of their registration by
``sym.optimize_for(name)``, ``net.hybridize(backend=name)`` and ``net.optimize_for(x, backend=name)``. A
:class:`Partitioner` says which operations it wants and runs the parts that they form; a pass is a function of the
module, or an xDSL ``ModulePass``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.dialects import operator_registry
from hybridc.dialects.checked import lasting
from hybridc.dialects.error_context import user_code
from hybridc.errors import MXNetError
from hybridc.ground.cached import cached_property
from hybridc.ground.hooks import HOOKS
from hybridc.ground.nesting import as_list

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from hybridc.dialects.mlir.hybrid import HybridOp
    from hybridc.dialects.operator_attribute import DType, Shape
    from hybridc.subgraph.subgraph_operator import Subgraph

__all__ = ["Part", "Partitioner", "list_backends", "register_partitioner", "register_pass", "rewrite"]


class Partitioner:
    """Selects the operations of a backend's partitions, and runs these; instantiated for each use, with the options.

    ``ops`` names them, as functions (``"exp"``) or as operations (``"hybrid.exp"``); override :meth:`match` to check
    each, and the ``select`` methods to choose which neighbours join a part.
    """

    ops: ClassVar[Collection[str]] = ()
    # The prefix of its subgraphs' names, before a number; by default the backend's name.
    prefix: ClassVar[str] = ""
    # The operator's name in files, whose attributes then are the subgraph's properties; by default it
    # is ``subgraph``, with the names of the backend and of the partitioner.
    operator: ClassVar[str] = ""
    # ``def backward(self, part, ograds, inputs, outputs)`` gives a gradient for each input, or None. Without it the
    # part is differentiated by the rules of its operators.
    backward: Any = None
    # The values of the graph's arguments that are known at partitioning: NDArrays by name.
    arrays: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, **options: Any) -> None:
        self.options = options

    def begin(self, module: ModuleOp) -> None:
        """Inspect the whole graph, ``module``, before anything of it is selected; do not change it."""

    def match(self, op: HybridOp) -> bool:
        """Whether the backend can run the operation ``op``."""
        return op.name in self._operations

    @cached_property
    def _operations(self) -> set[str]:
        return operation_names(self.ops)

    def select(self, op: HybridOp) -> bool:
        """Whether ``op`` may be the seed of a part."""
        return self.match(op)

    def select_input(self, op: HybridOp, producer: HybridOp) -> bool:
        """Whether the part that has ``op`` may grow to ``producer``, of one of its operands."""
        return self.match(producer)

    def select_output(self, op: HybridOp, user: HybridOp) -> bool:
        """Whether the part that has ``op`` may grow to ``user``, of one of its results."""
        return self.match(user)

    def filter(self, ops: Sequence[HybridOp]) -> Sequence[HybridOp]:
        """Those of ``ops``, the operations of a candidate part, to keep."""
        return ops

    def review(self, part: Part) -> bool | Mapping[str, Any]:
        """Whether to accept the ``part``; a dict accepts it and is attached as its ``properties``."""
        return True

    def create(self, part: Part) -> Any:
        """State for running the part, made once for each use in a compiled graph: ``part.state``."""
        return None

    def run(self, part: Part, *arrays: NDArray) -> Any:
        """The results of the ``part``: an NDArray, or a list for several; by default computed by hybridc."""
        return part(*arrays)


class Part:
    """A part of a graph, ``op``, for its backend; calling it runs hybridc's own code of it.

    ``backend`` and ``name``, ``options`` (the backend's), ``properties`` (the review's), ``state`` (what ``create``
    returned), ``arguments`` (names), ``shapes`` and ``dtypes`` of the inputs; of a symbol that is being partitioned
    a shape may be unknown: None, or with sizes of -1. ``str(part)`` is its text.
    """

    def __init__(self, op: Subgraph, shapes: Sequence[Shape | None], dtypes: Sequence[DType]) -> None:
        self.op = op
        self.name = op.name
        self.backend = op.backend
        self.options: dict[str, Any] = dict(as_list(op.options))
        self.properties: dict[str, Any] = dict(as_list(op.properties))
        self.arguments: tuple[str, ...] = op.input_names()
        self.shapes = [None if s is None else tuple(max(n, -1) for n in s) for s in shapes]
        self.dtypes = list(dtypes)
        self.state: Any = None
        self._runner: Any = None
        self._graphs: dict[bool, Any] = {}  # by train mode
        self._types: dict[bool, list[tuple[Shape, DType]]] = {}

    @property
    def operators(self) -> list[Any]:
        """The operators inside, bound, in order."""
        return [step.op for step in self.op.running.operators()]

    @property
    def module(self) -> ModuleOp:
        """The part as a function of the graph dialect; each call gives a copy."""
        from hybridc.dialects.mlir.hybrid import open_type
        from hybridc.trace.trace_to_graph import body_to_function

        types = [open_type(s, d) for s, d in zip(self.shapes, self.dtypes, strict=True)]
        return body_to_function(self.op.running, self.name, self.arguments, types)

    def __str__(self) -> str:
        return str(self.module)

    def __call__(self, *arrays: NDArray) -> Any:
        """Run hybridc's code of the part, compiled at the first call."""
        train = bool(self.op.train)
        if train not in self._graphs:
            trace = self.op.running.trace(self.arguments, self._known(), self.dtypes, train)
            self._graphs[train] = HOOKS.compile(trace)
        return self._graphs[train](*arrays)

    def _known(self) -> list[Shape]:
        unknown = [n for n, s in zip(self.arguments, self.shapes, strict=True) if s is None or -1 in s]
        if unknown:
            raise MXNetError(
                f"{self.name} of backend {self.backend!r} cannot be computed: the shape of {unknown[0]!r} is unknown "
                "while a symbol is partitioned; give optimize_for the arrays (args=…) or shapes (shape_dict=…)"
            )
        return [s for s in self.shapes if s is not None]

    # --- what the operator calls ---------------------------------------------------------------------------

    def prepare(self, runner: Partitioner) -> Part:
        """Call ``create`` of the partitioner ``runner``."""
        self._runner = runner
        with user_code(self._where("create")):
            self.state = runner.create(self)
        return self

    def _where(self, method: str) -> str:
        return f"backend {self.backend!r}: {type(self._runner).__name__}.{method} of {self.name}"

    def forward(self, op: Subgraph, arrays: Sequence[Any]) -> list[Any]:
        """The results of ``run``, checked; ``op`` is the operator in train mode or not."""
        self.op = op
        with user_code(self._where("run")):
            results: Any = self._runner.run(self, *[NDArray(lasting(a)) for a in arrays])
        train = bool(op.train)
        if train not in self._types:
            _, shapes = op.running.infer_shape(self._known())
            _, dtypes = op.running.infer_type(self.dtypes)
            self._types[train] = list(zip(shapes, dtypes, strict=True))
        return self._checked("run", results, self._types[train], "results")

    def backward(
        self,
        op: Subgraph,
        needed: Sequence[bool],
        ograds: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
    ) -> list[Any]:
        """The results of the partitioner's ``backward``, checked.

        ``op`` is the operator in train mode or not, ``needed`` says for each input whether its gradient is wanted;
        ``ograds``, ``inputs`` and ``outputs`` are those of the backward.
        """
        self.op = op
        groups = [[NDArray(lasting(a)) for a in group] for group in (ograds, inputs, outputs)]
        with user_code(self._where("backward")):
            grads: Any = self._runner.backward(self, *groups)
        types = [t if n else None for t, n in zip(zip(self._known(), self.dtypes, strict=True), needed, strict=True)]
        return self._checked("backward", grads, types, "gradients, one for each input")

    def _checked(self, method: str, values: Any, types: Sequence[Any], what: str) -> list[Any]:
        given = as_list(values)
        where = self._where(method)
        if len(given) != len(types):
            raise MXNetError(f"{where} gave {len(given)} arrays, expected {len(types)} {what}")
        found: list[Any] = []
        for i, (value, wanted) in enumerate(zip(given, types, strict=True)):
            array: Any = value.asnative() if isinstance(value, NDArray) else value
            if wanted is None or (array is None and method == "backward"):
                found.append(None if wanted is None else np.zeros(*wanted))
                continue
            shape, dtype = cast("tuple[Shape, DType]", wanted)
            if array is None or array.__class__ is not np.ndarray:
                raise MXNetError(f"{where} gave a {type(value).__name__} as number {i}; return NDArrays")
            if array.shape != shape or array.dtype != dtype:
                raise MXNetError(
                    f"{where} gave {array.dtype}{list(array.shape)} as number {i}, expected {dtype}{list(shape)}"
                )
            found.append(array)
        return found


# --- the registry ------------------------------------------------------------------------------------------

Optimizer = Any  # a Partitioner class, a ModulePass class, or a function of the module
_BACKENDS: dict[str, dict[str, Optimizer]] = {}
Found = TypeVar("Found", bound=Callable[..., Any])


def register_partitioner(backend: str) -> Callable[[Found], Found]:
    """Class decorator: add a :class:`Partitioner` to the backend whose name is ``backend``."""

    def enter(cls: Found) -> Found:
        given: Any = cls
        if not isinstance(given, type) or not issubclass(given, Partitioner):
            raise MXNetError(
                f"register_partitioner({backend!r}) takes a subclass of mx.subgraph.Partitioner, got {given!r}"
            )
        _enter(backend, given)
        return cls

    return enter


def register_pass(backend: str) -> Callable[[Found], Found]:
    """Decorator: add a pass to the backend whose name is ``backend``.

    A pass is a function ``f(module, **options)``, or a subclass of xDSL's ``ModulePass``, whose fields are options.
    """

    def enter(made: Found) -> Found:
        if not callable(made):
            raise MXNetError(
                f"register_pass({backend!r}) takes a function of the module or a ModulePass class, got {made!r}"
            )
        _enter(backend, made)
        return made

    return enter


def _enter(backend: str, step: Optimizer) -> None:
    """A step of the same name from the same place is a newer version, and replaces the old one."""
    steps = _BACKENDS.setdefault(backend, {})
    name = str(getattr(step, "__name__", type(step).__name__))
    old = steps.get(name)
    if old is not None and _place(old) != _place(step):
        raise MXNetError(
            f"backend {backend!r} has {name!r} already, from {_place(old)}; give one of the two another name or backend"
        )
    steps[name] = step


def _place(step: Optimizer) -> str:
    name = getattr(step, "__qualname__", None) or type(step).__qualname__
    return f"{step.__module__}.{name}"


def list_backends() -> list[str]:
    """The names of all backends."""
    return sorted(_BACKENDS)


def backend_steps(backend: str) -> list[tuple[str, Optimizer]]:
    """The partitioners and passes of a backend by name, in order."""
    if backend not in _BACKENDS:
        known = ", ".join(map(repr, list_backends())) or "none so far"
        raise MXNetError(
            f"Error optimizing for backend {backend!r}: it cannot be found (registered: {known}); load its library "
            "with mx.library.load(…), or register it with @mx.subgraph.register_partitioner or register_pass"
        )
    return list(_BACKENDS[backend].items())


def partitioner(backend: str, name: str, options: Mapping[str, Any]) -> Partitioner:
    """A partitioner of a backend, with these options."""
    steps = dict(backend_steps(backend))
    if name not in steps:
        raise MXNetError(f"backend {backend!r} has no partitioner {name!r}; it has {', '.join(steps)}")
    with user_code(f"backend {backend!r}: {name}.__init__ with options {dict(options)}"):
        return steps[name](**options)


def operator_of(backend: str, name: str) -> str:
    """The operator's name in files, for the subgraphs of a partitioner; empty for the default."""
    return getattr(_BACKENDS.get(backend, {}).get(name), "operator", "")


def partitioner_of(operator: str) -> tuple[str, str] | None:
    """The backend and the partitioner with this operator name in files; None if there is none."""
    for backend, steps in _BACKENDS.items():
        for name, step in steps.items():
            if getattr(step, "operator", "") == operator:
                return backend, name
    return None


def operation_names(ops: Collection[str]) -> set[str]:
    """Names of operations in the IR, from names of functions or of operations."""
    names: set[str] = set()
    for name in ops:
        found = operator_registry.operators().get(name) or operator_registry.functions().get(name)
        if found is None:
            raise MXNetError(f"no operator is called {name!r}; a partitioner's ops are names such as 'exp'")
        names.add(found.NAME)
    return names


def rewrite(module: ModuleOp, rule: Callable[[Any, HybridOp, Callable[[Any], Any]], Any]) -> None:
    """Apply ``rule(F, op, symbol)`` to every operation of ``module``: its result replaces the operation's results.

    It returns None to leave the operation alone. ``symbol(value)`` gives an operand, of this or of another operation,
    as a value for functions of ``F``.
    """
    from xdsl.transforms.dead_code_elimination import region_dce

    from hybridc.transforms.graph.splice import Splicer
    from hybridc.transforms.graph.splice import rewrite as rewrite_graph

    def step(splicer: Splicer, op: HybridOp) -> Any:
        return splicer.replace(op, lambda F, _: rule(F, op, splicer.symbol))

    rewrite_graph(module, step)
    region_dce(module.body)
