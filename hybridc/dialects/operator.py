"""The operator interfaces: one class defines an operator, and everything else asks that class.

A subclass of one of the *kinds* (:class:`Elementwise`, :class:`Reduction`, :class:`Contraction`, :class:`Movement`,
:class:`Composite`, :class:`Opaque`), registered with :func:`register`, is an operation of the dialect, a function of
``mx.nd`` and ``mx.sym``, an eager kernel, a gradient rule and a lowering. An *instance* is the operator with its
attributes bound; instances with equal attributes are one object.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from hybridc.dialects import checked, operator_registry
from hybridc.dialects.array.shape_rules import broadcast_shapes, filled_shapes, reduced_axes, reduced_shape
from hybridc.dialects.control.loop_steps import CompiledLoop
from hybridc.dialects.derived import completed_shapes, evaluate_decomposed, inferred_shapes
from hybridc.dialects.handwritten import ArraySpec, Kernel
from hybridc.dialects.interchange import Interchange
from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.numpy_rules import PROMOTES, NumpyRule
from hybridc.dialects.operator_attribute import REQUIRED, Attribute, Axis, DType, Shape, attribute, from_annotation
from hybridc.dialects.operator_registry import called_later, recorded, unrecorded
from hybridc.dialects.scalar import NUMPY, Scalar, depends_on_all, numpy_step, record, replay
from hybridc.dialects.sparse.sparse_elements import at_common_places, result_stype
from hybridc.dtypes import COMPUTED, is_float
from hybridc.errors import (
    ArgumentTypeError,
    AttributeValueError,
    CustomOpError,
    DTypeError,
    MXNetError,
    UnsupportedError,
)
from hybridc.ground.hooks import HOOKS
from hybridc.ground.location import user_location
from hybridc.ground.nesting import as_list
from hybridc.ground.sizes import Place
from hybridc.sparse_storage import converted, stype_of, zeros

__all__ = [
    "Composite",
    "Contraction",
    "Elementwise",
    "Movement",
    "Opaque",
    "Operator",
    "Reduction",
    "attribute",
    "register",
]

Array = npt.NDArray[Any]

# --- samples, from which tests are generated --------------------------------------------------------------------------

# A bad call: inputs, attributes, the error's text.
Bad = tuple[tuple[Any, ...], dict[str, Any], str]
# One Protocol per number of arguments, so that pyright knows the types of a lambda's parameters.
Reference = (
    Callable[[], Any]
    | Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
)


class Sample:
    """A valid call of an operator with an independent NumPy reference.

    ``Sample((x, y), axis=1, reference=lambda x, y: …)``: ``inputs`` are arrays (or shapes, filled from a fixed seed),
    ``reference`` maps float64 arrays to the result or a tuple of results. ``grad=False`` where there is no gradient to
    test; ``low``/``high`` bound the random values of shapes; ``dtypes`` are those in which it is tested.
    """

    __slots__ = ("attrs", "dtypes", "grad", "high", "inputs", "low", "reference")

    def __init__(
        self,
        inputs: Sequence[Any],
        reference: Reference,
        *,
        grad: bool = True,
        low: float = -2.0,
        high: float = 2.0,
        dtypes: tuple[str, ...] = ("float32", "float64"),
        **attrs: Any,
    ) -> None:
        self.inputs = tuple(inputs)
        self.reference: Callable[..., Any] = reference
        self.grad = grad
        self.low = low
        self.high = high
        self.dtypes = dtypes
        self.attrs = attrs


# --- operators --------------------------------------------------------------------------------------------------------


class OperatorType(type):
    """The class of operator classes: counts changes of their attributes, as a method replaced by a user."""

    def __setattr__(cls, name: str, value: Any) -> None:
        operator_registry.Revision.number += 1
        super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        operator_registry.Revision.number += 1
        super().__delattr__(name)


class Operator(Interchange, metaclass=OperatorType):
    """An operator with its attributes bound.

    Class fields that a subclass may set: ``INPUTS`` (names of the inputs), ``OUTPUTS`` (names of the outputs, where
    they are not "output" alone, or "output0" and so on), ``INPUT_DOCS`` (what they are), ``VARIADIC`` (any number of
    inputs under one name), ``OPTIONAL`` (how many trailing inputs may be missing), ``PURE`` (a function of its inputs
    without side effects), ``DRAWS`` (it uses random samples: a key is passed as the last input and an attribute, draw,
    numbers the uses in one graph), ``TRAIN_MODE`` (its attribute ``train`` follows ``autograd.is_training()``),
    ``INPLACE`` (pairs of input and output that may share memory), ``MUTATES`` (indices of the inputs that it updates:
    its last outputs, hidden ones, are their new values), ``KEYWORD_INPUTS`` (how many trailing inputs are parameters
    behind the attributes), ``ORDER`` (the attributes in the order of parameters, where that is not the one of the
    declarations; others of its bases have their defaults), ``LINEAR`` (of sums of its inputs it gives the sum of its
    results), ``ON_DEVICE`` (``call_out`` of a host call takes arrays where they are, also those of a device),
    ``INFERS_PARTLY`` (see :meth:`infers_partly`), ``KEEPS_SHAPE`` (the first result has the shape of the first input),
    ``COMPUTES_IN`` (a table from dtypes of inputs to the dtype that the operator computes in: ``eager`` and
    ``decompose`` get the inputs cast to it, and their results are cast to the inferred dtypes; the default is that of
    the floats in which nothing is computed, and is used by ``eager`` alone, as compiled each step of a decomposition is
    computed so), ``GRADIENT_TOO`` (the arguments of ``gradient`` are cast so, too), ``NUMPY`` (what becomes of the
    dtypes of ``mx.np`` arrays).

    ``recorded``, ``called_later`` and ``unrecorded`` say what the cache on the disk makes of a user's override.
    """

    NAME: ClassVar[str] = ""
    ALIASES: ClassVar[tuple[str, ...]] = ()
    ATTRIBUTES: ClassVar[dict[str, Attribute]] = {}
    INPUTS: ClassVar[tuple[str, ...]] = ("data",)
    OUTPUTS: ClassVar[tuple[str, ...]] = ()
    INPUT_DOCS: ClassVar[dict[str, str]] = {}
    VARIADIC: ClassVar[bool] = False
    OPTIONAL: ClassVar[int] = 0
    KEYWORD_INPUTS: ClassVar[int] = 0
    ORDER: ClassVar[tuple[str, ...]] = ()
    PURE: ClassVar[bool] = True
    DRAWS: ClassVar[bool] = False
    TRAIN_MODE: ClassVar[bool] = False
    INPLACE: ClassVar[tuple[tuple[int, int], ...]] = ()
    MUTATES: ClassVar[tuple[int, ...]] = ()
    LINEAR: ClassVar[bool] = False
    ON_DEVICE: ClassVar[bool] = False
    INFERS_PARTLY: ClassVar[bool] = False
    KEEPS_SHAPE: ClassVar[bool] = False
    SAME_DTYPE: ClassVar[bool] = True
    SHAPES_ARE_KNOWN: ClassVar[bool] = True  # results' shapes follow from the inputs' shapes, whatever the values
    COMPUTES_IN: ClassVar[Mapping[DType, DType]] = COMPUTED
    GRADIENT_TOO: ClassVar[bool] = False
    NUMPY: ClassVar[NumpyRule] = PROMOTES
    CONVERTS: ClassVar[bool] = False  # its caller casts ``eager``'s results to the inferred dtype
    _BOUND: ClassVar[dict[tuple[Any, ...], Any]] = {}

    key: tuple[Any, ...]
    arity: int  # the number of inputs for these attributes, if some are optional
    mutated: tuple[int, ...]  # mutates(), cached
    results: int  # num_outputs(), cached
    foreign: bool = False  # whether a user wrote its methods on arrays, which are then checked

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fields: dict[str, Attribute] = {}
        for base in reversed(cls.__bases__):
            fields |= getattr(base, "ATTRIBUTES", {})
        for name, annotation in inspect.get_annotations(cls).items():
            declared = cls.__dict__.get(name)
            if isinstance(declared, Attribute):  # "num_outputs_" is the attribute num_outputs, beside the method
                fields[name.rstrip("_")] = from_annotation(declared, annotation)
        typed = inspect.get_annotations(cls)
        bare = next((n for n, v in vars(cls).items() if isinstance(v, Attribute) and n not in typed), None)
        if bare is not None:
            kind = type(vars(cls)[bare].default).__name__
            kind = kind if kind in ("bool", "int", "float", "str") else "float"
            raise ArgumentTypeError(
                f"operator class {cls.__qualname__}: attribute {bare} has no type; write {bare}: {kind} = attribute(…)"
            )
        if "ORDER" in vars(cls):
            for name in fields.keys() - set(cls.ORDER):
                setattr(cls, name, fields[name].default)
            fields = {name: fields[name] for name in cls.ORDER}
        setattr(cls, "ATTRIBUTES", fields)  # noqa: B010 - a constant of each class, computed once
        setattr(cls, "_BOUND", {})  # noqa: B010

    # --- attributes ----------------------------------------------------------------------------------------

    @classmethod
    @unrecorded
    def bind(cls, **attrs: Any) -> Operator:
        """The operator with these attributes; missing ones take their defaults."""
        unknown = attrs.keys() - cls.ATTRIBUTES.keys()
        if unknown:
            takes = ", ".join(cls.ATTRIBUTES) or "no attributes"
            raise AttributeValueError(f"{cls.title()}: no attribute {sorted(unknown)[0]!r}; it takes {takes}")
        return cls.bind_values(tuple(attrs.get(name, a.default) for name, a in cls.ATTRIBUTES.items()))

    @classmethod
    @unrecorded
    def bind_values(cls, values: tuple[Any, ...]) -> Operator:
        """As :meth:`bind`, with all the values in the order of ``ATTRIBUTES``; equal values give the same object."""
        try:
            found = cls._BOUND.get(values)
        except TypeError:
            values = tuple(tuple(as_list(v)) if isinstance(v, list) else v for v in values)
            found = None
        if found is not None:
            return found
        self = cls._parse(values)
        if len(cls._BOUND) > 4096:  # attributes that change at every call must not fill the memory
            cls._BOUND.clear()
        try:
            self = cls._BOUND.setdefault(self.key[1:], self)
            cls._BOUND[values] = self
        except TypeError:
            pass
        return self

    @classmethod
    def _parse(cls, values: tuple[Any, ...]) -> Operator:
        self = cls()
        parsed: list[Any] = []
        for (name, declared), value in zip(cls.ATTRIBUTES.items(), values, strict=True):
            if value is REQUIRED:
                raise AttributeValueError(
                    f"{cls.title()}: attribute {name} is required; it takes {declared.describe()}"
                )
            value = declared.parse(cls.title(), name, value)
            setattr(self, f"{name}_" if hasattr(cls, f"{name}_") else name, value)
            parsed.append(value)
        self.key = (cls, *parsed)
        self.check()
        self.arity = len(self.input_names())
        self.mutated = tuple(self.mutates())
        self.results = self.num_outputs()
        self.foreign = self.is_foreign()
        return self

    @unrecorded
    def is_foreign(self) -> bool:
        """Whether a user wrote its methods on arrays."""
        return checked.on_arrays(type(self))

    @recorded
    def check(self) -> None:
        """Raise if the attributes contradict each other; the base class accepts all."""

    @property
    @unrecorded
    def attrs(self) -> dict[str, Any]:
        """The bound attributes by name."""
        return dict(zip(self.ATTRIBUTES, self.key[1:], strict=True))

    @classmethod
    @called_later
    def title(cls) -> str:
        """The name that users know: ``FullyConnected`` for ``hybrid.fully_connected``."""
        names = [alias.rpartition(".")[2] for alias in cls.ALIASES]  # without contrib
        return next((name for name in names if name[:1].isupper()), cls.NAME.rpartition(".")[2])

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self.attrs.items() if v != self.ATTRIBUTES[k].default)
        return f"{self.NAME}({shown})"

    @classmethod
    @called_later
    def function(cls) -> Callable[..., Any] | None:
        """The function of ``mx.nd`` if it is written by hand; None to generate it from the attributes."""
        return None

    # --- inputs and outputs --------------------------------------------------------------------------------

    @recorded
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs for these attributes (a variadic operator has one name for all)."""
        return self.INPUTS

    @unrecorded
    def rows_inside(self) -> int:
        """Of so many inputs, the first ones, a graph inside the operator has a row, not the whole."""
        return 0

    @recorded
    def num_samples(self) -> int:
        """Number of counters of a random key that it takes."""
        return int(self.DRAWS)

    @recorded
    def num_outputs(self) -> int:
        """The number of outputs, hidden ones included."""
        return 1

    @recorded
    def num_visible_outputs(self) -> int:
        """The number of outputs that a caller sees; the others are for the gradient, or new values of inputs."""
        return self.num_outputs() - len(self.mutated)

    @recorded
    def output_names(self) -> tuple[str, ...]:
        """Names of the visible outputs."""
        count = self.num_visible_outputs()
        if self.OUTPUTS:
            return self.OUTPUTS[:count]
        return ("output",) if count == 1 else tuple(f"output{i}" for i in range(count))

    @recorded
    def mutates(self) -> tuple[int, ...]:
        """Indices of the inputs that the operator updates, such as running statistics (auxiliary states).

        The operator itself is functional: its last outputs are the new values, one for each of these inputs. The
        caller writes them back: eager calls at once, a compiled graph after its run; operators traced later
        use the new value.
        """
        return self.MUTATES

    @called_later
    def index_sizes(self, shapes: Sequence[Shape]) -> Mapping[int, int]:
        """For inputs whose values are indices, by their number: the size of the axis into which they go.

        Only where an index out of range is no error by itself: ``mx.debug.check_indices`` makes it one.

        Parameters
        ----------
        shapes:
            The shapes of the inputs.
        """
        return {}

    @recorded
    def auxiliary(self) -> tuple[int, ...]:
        """Indices of the inputs that are auxiliary states, not arguments: those it mutates, in training at least."""
        return self.mutated

    @recorded
    def complete_shapes(
        self,
        shapes: list[Shape | None],
        outputs: list[Shape | None],
    ) -> list[Shape | None]:
        """The inputs' shapes from what is not None of ``shapes`` and ``outputs``; -1 where a size stays unknown."""
        if self.KEEPS_SHAPE and shapes[0] is None:
            return [outputs[0], *shapes[1:]]
        return shapes

    @recorded
    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """Inference of the inputs' unknown ``dtypes`` (None): that of the known ones, if all must be equal."""
        known = next((d for d in dtypes if d is not None), None)
        return [known if d is None else d for d in dtypes] if self.SAME_DTYPE else dtypes

    @recorded
    def infers_partly(self) -> bool:
        """Whether ``infer_shape`` takes unknown sizes, -1: then what it raises is wrong whatever they are."""
        return self.INFERS_PARTLY

    @recorded
    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """Shapes of the inputs (unknown sizes in ``shapes``, -1, filled in) and of all outputs."""
        raise MXNetError(f"{self.title()} has no shape inference")

    @recorded
    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """Dtypes of the inputs, ``dtypes``, and of all outputs; by default all are equal."""
        self.require_same_dtype(dtypes)
        return dtypes, [dtypes[0]] * self.num_outputs()

    @recorded
    def require_same_dtype(self, dtypes: list[DType]) -> None:
        """Raise :class:`DTypeError` unless all ``dtypes``, those of the inputs, are one."""
        if self.SAME_DTYPE and any(d != dtypes[0] for d in dtypes):
            names = self.input_names() if not self.VARIADIC else tuple(f"input {i}" for i in range(len(dtypes)))
            got = ", ".join(f"{name} is {d}" for name, d in zip(names, dtypes, strict=False))
            wanted = max(dtypes, key=lambda d: (dtypes.count(d), is_float(d)))
            others = ", ".join(name for name, d in zip(names, dtypes, strict=False) if d != wanted)
            raise DTypeError(
                f"{self.title()}: all inputs must have one dtype, but {got}; use .astype('{wanted}') on {others}"
            )

    @unrecorded
    def as_number(self) -> Any:
        """The operator's value, if it is a scalar constant, which kernels hold as a literal; else None."""
        return None

    @unrecorded
    def undecided(self) -> Operator:
        """The operator as a symbol has it: without a train mode, which is that of the call."""
        return self.bind(**{**self.attrs, "train": None}) if self.TRAIN_MODE else self

    @unrecorded
    def owned(self) -> Operator:
        """The operator as one executor uses it: with a state of its own, if it is stateful."""
        return self

    # --- meaning -------------------------------------------------------------------------------------------

    @called_later
    def eager(self, *arrays: Any, **_: Any) -> Any:
        """The NumPy implementation: one array, or a tuple of them for several outputs."""
        raise MXNetError(f"{self.title()} has no eager implementation")

    @called_later
    def evaluate(self, *arrays: Any, **_: Any) -> Any:
        """As :meth:`eager`, computed in the dtypes of ``COMPUTES_IN``, and rounded once at the end."""
        dtypes, other = [x.dtype for x in arrays], self.COMPUTES_IN
        if other.keys().isdisjoint(dtypes):
            return self.eager(*arrays)
        wanted = self.infer_type(dtypes)[1]
        results: Any = self.eager(*[x.astype(other.get(d, d), copy=False) for x, d in zip(arrays, dtypes, strict=True)])
        if results.__class__ is not tuple:
            return np.asarray(results).astype(wanted[0], copy=False)
        return tuple(np.asarray(y).astype(d, copy=False) for y, d in zip(results, wanted, strict=True))

    @unrecorded
    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        """The storage type of each result, where at least one input is sparse.

        The ``inputs`` are buffers; a number beside arrays is one without axes. None means that the operator has no
        implementation for these storage types: then it gets dense copies, and a warning says so.
        """
        return None

    @called_later
    def eager_sparse(self, *arrays: Any) -> Any:
        """As :meth:`evaluate`, where :meth:`infer_storage_type` gave storage types: in these are the results."""
        raise MXNetError(f"{self.title()} has no implementation for sparse arrays")

    @called_later
    def eager_out(self, outs: Sequence[Array], *arrays: Any) -> None:
        """As :meth:`evaluate`, into the arrays ``outs``; override if NumPy can write there directly."""
        results: Any = self.evaluate(*arrays)
        if self.foreign:
            results = checked.matching(self, "eager", results, [(y.shape, y.dtype) for y in outs])
        for out, result in zip(outs, as_list(results), strict=True):
            np.copyto(out, result, casting="unsafe")

    @called_later
    def call_out(self, outs: Sequence[Array], *arrays: Any) -> None:
        """``eager_out(outs, *arrays)`` as compiled graphs call it: users' methods get read-only inputs."""
        self.eager_out(outs, *(map(checked.readonly, arrays) if self.foreign else arrays))

    @unrecorded
    def compiled_loops(self, _ins: Sequence[ArraySpec]) -> list[CompiledLoop]:
        """The loops that a call on arrays like ``_ins`` runs, for targets that run all steps at once; or none."""
        return []

    @called_later
    def run_kernel(self, function: Callable[..., Any], outs: Sequence[Array], *arrays: Any) -> None:
        """Run a NumPy kernel that :meth:`kernel` returned: ``function(*arrays, out=outs)``."""
        made = function(*map(checked.readonly, arrays), out=outs[0] if len(outs) == 1 else tuple(outs))
        if made is not None and any(y is not out for y, out in zip(as_list(made), outs, strict=False)):
            raise CustomOpError(
                f"operator {self.NAME}: the kernel {getattr(function, '__name__', function)} returned {made!r}; it "
                "writes its results into out=, and returns nothing or out"
            )

    @recorded
    def move(self, m: MovementBuilder[Any], *xs: Any, **_: Any) -> Any:
        """The movement, built with ``m`` (see :mod:`hybridc.dialects.movement`); None if it has none."""
        return None

    @unrecorded
    def kernel(self, target: str, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec]) -> Kernel | None:
        """The handwritten kernel for a ``target``, from ``inputs`` to ``outputs``; None to compile it by its kind.

        What it returns for ``"numpy"``, ``"llvm"`` and ``"triton"`` is in :mod:`hybridc.dialects.handwritten`.
        """
        return None

    @recorded
    def gradient(self, F: Any, *values: Any, **_: Any) -> Any:
        """Gradients of the inputs, given ``F`` and ``(*ograds of visible outputs, *inputs, *outputs)``.

        Written with ``F`` as a forward is; one value, or a tuple with None where an input has no gradient. An
        operator that does not override this has the gradient of its scalar body or decomposition (see
        :mod:`hybridc.dialects.gradient`); one that has neither cannot be differentiated. ``gradient = no_gradient``
        stops all gradients.
        """
        raise UnsupportedError(
            f"operator {self.NAME} has no gradient: give it a rule, gradient(self, F, …), or say gradient = "
            "mx.op.no_gradient if none is to flow"
        )

    @unrecorded
    def summed(self, F: Any, *rows: Any) -> Any:
        """The sum, by ``F``, of the results for all rows, along the first axis, of the inputs; see ``sums_rows``."""
        raise MXNetError(f"{self.title()} has no sum over rows")

    @unrecorded
    def sums_rows(self) -> bool:
        """Whether ``summed`` is better than adding up the results for each row."""
        return False

    @unrecorded
    def placed(self) -> tuple[int, ...] | None:
        """Where the input begins in the result, if that is zeros around the input; else None."""
        return None

    @unrecorded
    def rows_added(self, F: Any, *inputs: Any) -> tuple[Any, Any] | None:
        """The rows, by ``F``, that it adds to zeros, and their numbers, if it does that alone; else None."""
        return None

    @recorded
    def gradient_of(self, needed: Sequence[bool], F: Any, *values: Any) -> Any:
        """As ``gradient(F, *values)``, given for each input whether it is ``needed``."""
        return self.gradient(F, *(self._cast(F, values) if self.GRADIENT_TOO else values))

    @unrecorded
    def simplify(self, F: Any, inputs: Sequence[Any]) -> Any:
        """An equal, cheaper value by ``F``, or None: ``x`` for ``x * 1``. ``inputs`` are Symbols: see ``constant``."""
        return None

    @recorded
    def decomposes(self) -> bool:
        """Whether the compiler replaces this operator by ``decompose``."""
        return False

    @recorded
    def decompose(self, F: Any, *inputs: Any, **_: Any) -> Any:
        """The same value by simpler operators of ``F``; one value or a tuple for several outputs."""
        raise MXNetError(f"{self.title()} has no decomposition")

    @recorded
    def expanded(self, F: Any, *inputs: Any) -> Any:
        """As ``decompose(F, *inputs)``, in the dtypes of ``COMPUTES_IN``, and rounded once at the end."""
        dtypes = [np.dtype(x.dtype) for x in inputs]
        if self.COMPUTES_IN is COMPUTED or self.COMPUTES_IN.keys().isdisjoint(dtypes):
            return self.decompose(F, *inputs)
        wanted = self.infer_type(dtypes)[1]
        results = as_list(self.decompose(F, *self._cast(F, inputs)))
        rounded = [y if y.dtype == d else F.cast(y, d) for y, d in zip(results, wanted, strict=True)]
        return rounded[0] if len(rounded) == 1 else tuple(rounded)

    def _cast(self, F: Any, values: Sequence[Any]) -> list[Any]:
        """Values in the dtypes of ``COMPUTES_IN``."""
        pairs = [(x, self.COMPUTES_IN.get(np.dtype(x.dtype))) for x in values]
        return [x if dtype is None else F.cast(x, dtype) for x, dtype in pairs]

    @classmethod
    @called_later
    def samples(cls) -> Sequence[Sample]:
        """Good calls with their NumPy reference, from which tests are generated."""
        return ()

    @classmethod
    @called_later
    def bad_samples(cls) -> Sequence[Bad]:
        """Bad calls: ``(inputs, attributes, the error's text)``."""
        return ()


@classmethod
def bind_anew(cls: type[Operator], values: tuple[Any, ...]) -> Operator:
    """Bind without the cache of bound operators, which would keep alive what the values refer to."""
    return cls._parse(values)  # pyright: ignore[reportPrivateUsage]


def no_gradient(self: Operator, F: Any, *values: Any) -> Any:  # noqa: ARG001 - a method
    """A gradient rule, of any ``F``: no gradient flows to any input."""
    return None


def invoke_bound(op: Operator, *inputs: Any) -> Any:
    """Apply a bound operator, inside ``decompose`` and ``gradient``."""
    return HOOKS.invoke(op, inputs)


class Elementwise(Operator):
    """The result's elements are one scalar function of the inputs' elements, which broadcast.

    A subclass defines ``scalar``: its eager implementation, its lowering on every target, and what fusion sees.
    """

    INPLACE = ((0, 0), (1, 0), (2, 0))
    BROADCASTS: ClassVar[bool] = True
    ABSORBING: ClassVar[tuple[int, ...]] = ()  # the inputs whose zeros make the result zero, whatever the others are
    TAKES_BOTH: ClassVar[bool] = False  # sparse and dense arrays together, without a warning; the result is dense
    CONVERTS = True  # booleans and widened integers are cast to the inputs' dtype
    _whole: bool | None = None  # whether the body depends on all inputs; cached
    _powers: tuple[list[Scalar], Any] | None = (
        None  # the recorded body, if it has powers, which NumPy's own ``**`` computes otherwise; cached
    )

    # A user's method may name its inputs, as ``def scalar(self, b, x, y)``: ``**_`` tells type checkers so.
    @recorded
    def scalar(self, b: Any, *xs: Any, **_: Any) -> Any:
        """The scalar function, built with ``b`` (see :mod:`hybridc.dialects.scalar`)."""
        raise MXNetError(f"{self.title()} has no scalar body")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """All inputs broadcast; an unknown one of ``shapes`` takes the shape of the known ones."""
        if any(-1 in s for s in shapes):
            shapes = filled_shapes(shapes, broadcast=True)
        return shapes, [broadcast_shapes(self.title(), self.input_names(), shapes)]

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """An unknown input, None in ``shapes``, has the shape of ``outputs``, or else of a known input."""
        known = next((s for s in (*outputs, *shapes) if s is not None and -1 not in s), None)
        return [known if s is None else s for s in shapes]

    def eager(self, *arrays: Any) -> Any:
        """The scalar body on NumPy arrays; booleans and widened integers are cast to the input's dtype."""
        if self._whole is None:
            arguments, steps, result = record(self, len(arrays))
            self._powers = (steps, result) if any(s.step == "pow" for s in steps) else None
            self._whole = depends_on_all(arguments, result)
        powers = self._powers
        result: Any = self.scalar(NUMPY, *arrays) if powers is None else replay(*powers, arrays, numpy_step)
        dtype = arrays[0].dtype
        if not self._whole:  # the result may be an input, a constant, or not broadcast
            return np.broadcast_to(result, np.broadcast_shapes(*[a.shape for a in arrays])).astype(dtype)
        return result if result.dtype is dtype else result.astype(dtype)

    @unrecorded
    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        """Sparse if the function of zeros is zero, or where an ``ABSORBING`` one of ``inputs`` is sparse."""
        stype = result_stype(inputs, self.ABSORBING, self.evaluate)
        if stype is None and self.TAKES_BOTH and any(stype_of(x) == "default" and x.ndim for x in inputs):
            stype = "default"  # sums with dense arrays are dense
        return None if stype is None else (stype,)

    def eager_sparse(self, *arrays: Any) -> Any:
        if self.infer_storage_type(arrays) == ("default",):
            return self.evaluate(*(converted(x, "default") for x in arrays))
        values, stored_there = at_common_places(arrays, self.ABSORBING)
        dtype = self.infer_type([a.dtype for a in arrays])[1][0]
        result = stored_there(np.asarray(self.evaluate(*values)).astype(dtype, copy=False))
        is_constant = not isinstance(record(self, len(arrays))[2], Scalar)  # 0 everywhere, so no values are stored
        return zeros(result.stype, result.shape, dtype) if is_constant else result


class AxisRules(Operator):
    """The attributes ``axis``, ``keepdims`` and ``exclude``."""

    axis: Any = None
    keepdims: Any = False
    exclude: Any = False

    def check(self) -> None:
        # NumPy's axis argument; None where the rank decides.
        self.numpy_axis = None if self.exclude or self.axis == () else self.axis

    @unrecorded
    def axes(self, rank: int) -> tuple[int, ...]:
        """The reduced axes, counted from 0 and sorted."""
        return reduced_axes(self.title(), self.axis, bool(self.exclude), rank)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """The input's shape without the reduced axes (or with 1 there); a full reduction gives ``(1,)``."""
        (shape,) = shapes
        return shapes, [reduced_shape(shape, self.axes(len(shape)), bool(self.keepdims))]

    @unrecorded
    def drop(self, F: Any, y: Any, x: Any) -> Any:
        """The result ``y``, computed with keepdims, in its final shape.

        Axes are dropped last, so that the consumers of a reduction can be fused with it.
        """
        shape = self.infer_shape([x.shape])[1][0]
        return y if y.shape == shape else F.reshape_to(y, shape=shape)


class Reduction(AxisRules):
    """A reduction along ``axis``: subclasses name the combining ufunc.

    ``COMBINE`` is one of ``"add"``, ``"mul"``, ``"max"`` and ``"min"``. All further reductions (mean, norm, …) are
    composites of these and of elementwise operators.
    """

    COMBINE: ClassVar[str] = "add"

    axis: Axis = attribute(None, "the axes to combine; None for all")
    keepdims: bool = attribute(False, "keep the combined axes, with size 1")
    exclude: bool = attribute(False, "combine all axes but these")

    def eager(self, *arrays: Any) -> Any:
        """``ufunc.reduce`` of the combining function."""
        (x,) = arrays
        shape = self.infer_shape([x.shape])[1][0]
        return self.combine().reduce(x, axis=self.axes(x.ndim), dtype=x.dtype).reshape(shape)

    def decomposes(self) -> bool:
        """Only reductions that keep their axes are primitive."""
        return not self.keepdims

    def decompose(self, F: Any, *inputs: Any) -> Any:
        """The reduction with keepdims, then a reshape, by ``F``."""
        (x,) = inputs
        axes = self.axes(len(x.shape))
        if not axes:  # () would mean all of them
            return self.drop(F, F.identity(x), x)
        kept = invoke_bound(self.bind(**{**self.attrs, "axis": axes, "keepdims": True, "exclude": False}), x)
        dropped = axes if len(axes) < len(x.shape) else axes[1:]
        return F.squeeze(kept, axis=dropped) if dropped else kept

    @classmethod
    @unrecorded
    def combine(cls) -> Any:
        """The NumPy ufunc that combines two elements."""
        return getattr(NUMPY, cls.COMBINE)


class Contraction(Operator):
    """A sum of products: ``matmul`` and ``contract`` are the primitive ones, the others decompose into them."""

    @recorded
    def loops(self, rank: int) -> tuple[tuple[Place, ...], tuple[Place, ...], tuple[int, ...]]:
        """For inputs of ``rank`` axes: the loops that index lhs, rhs and the result; others are reduced.

        An operand may be read at an affine sum of loops along an axis, if each loop is alone along some other axis.
        """
        raise MXNetError(f"{self.title()} does not define loops")


class Movement(Operator):
    """Elements are moved, not changed: views, transposes, gathers, concatenation.

    ``move`` defines it, in a small vocabulary; a movement that the vocabulary lacks (scatter-add to indices that may
    coincide) is a host call.

    ``LAYOUT`` of a view: ``"strided"`` (any strides), ``"same"`` (row-major if the input is), or ``"row-major"`` (as
    ``"same"``, and a view of row-major inputs only: a reshape copies a transposed array).
    ``REARRANGES``: the result has each element of the inputs once, so the gradient, given it, gives the inputs.
    """

    LAYOUT: ClassVar[str] = "strided"
    REARRANGES: ClassVar[bool] = False

    def evaluate(self, *arrays: Any) -> Any:
        """As :meth:`eager`: nothing is computed."""
        return self.eager(*arrays)

    @recorded
    def is_view(self) -> bool:
        """Whether NumPy's ``eager`` returns a view, so that no copy is planned."""
        return False

    @unrecorded
    def row(self, shape: Shape, output: int) -> tuple[int, int] | None:
        """Where result ``output`` lies in the one input, of this ``shape``: axis and index; None if it is no row."""
        return None

    @unrecorded
    def joined_axis(self, rank: int) -> int | None:
        """The axis of a result of ``rank`` axes along which the inputs, which may lack it, follow each other."""
        return None


class Composite(Operator):
    """An operator that the compiler expands: ``decompose`` is written like a forward function.

    Shapes and eager values are those of the decomposition, unless the class overrides them: ``infer_shape`` may fill in
    sizes, ``eager`` may be faster.
    """

    def decomposes(self) -> bool:
        """Always."""
        return True

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """As the decomposition, for inputs of these ``shapes``."""
        return inferred_shapes(self, shapes)

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """As the decomposition, for what is known of ``shapes`` and ``outputs``."""
        shapes = super().complete_shapes(shapes, outputs)
        return completed_shapes(self, shapes, outputs) if None in shapes else shapes

    def eager(self, *arrays: Any) -> Any:
        """The decomposition, eagerly."""
        return evaluate_decomposed(self, arrays)


class Opaque(Operator):
    """A host call, opaque to the compiler: random numbers, sorting, Python custom operators."""

    def evaluate(self, *arrays: Any) -> Any:
        """As :meth:`eager`, on the arrays as they are."""
        return self.eager(*arrays)


Class = TypeVar("Class", bound=type[Operator])
Base = TypeVar("Base", bound=Operator)


def register(name: str, *aliases: str, override: bool = False) -> Callable[[Class], Class]:
    """Class decorator: register an operator as ``dialect.name``; its functions are ``nd.name`` and ``nd.<alias>``.

    A function name that another operator has is an error, unless ``override`` replaces it.
    """

    def enter(cls: Class) -> Class:
        require_operator(cls, name, aliases)
        cls.NAME = name
        cls.ALIASES = aliases
        operator_registry.add(cls, override)
        return cls

    return enter


def define(
    base: type[Base], name: str, doc: str, *aliases: str, class_name: str = "", module: str = "", **fields: Any
) -> type[Base]:
    """A subclass of ``base``, registered as by :func:`register`: a row in a table of operators that are much alike.

    ``fields`` are its class fields; an attribute among them has the type of its default. The variable that the class is
    assigned to has its name, by default ``RandomNormal`` for ``hybrid.random_normal``, in the module of ``base``.
    """
    class_name = class_name or "".join(word.capitalize() for word in name.partition(".")[2].split("_"))
    kinds_of = {key: type(value.default).__name__ for key, value in fields.items() if isinstance(value, Attribute)}
    fields |= {"__doc__": doc, "__module__": module or base.__module__, "__annotations__": kinds_of}
    return register(name, *aliases)(type(base)(class_name, (base,), fields))


# --- what a class must have to be registered --------------------------------------------------------------------------

NAME = r"[a-z][a-z0-9_]*\.[a-z_][a-z0-9_]*"
ALIAS = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?"

# The methods that each kind requires, and their descriptions.
_SHAPE = ("infer_shape", "def infer_shape(self, shapes): return shapes, [shape of the result]")
_EAGER = ("eager", "def eager(self, *arrays), which returns NumPy arrays")
_KINDS: dict[type[Operator], tuple[tuple[str, str], ...]] = {
    Elementwise: (("scalar", "def scalar(self, b, x), which computes with the builder b"),),
    Reduction: (),
    Contraction: (_SHAPE,),
    Movement: (_EAGER, _SHAPE),
    Composite: (("decompose", "def decompose(self, F, x), which returns the value by other operators"),),
    Opaque: (_EAGER, _SHAPE),
}
# As Opaque, if it has a state: the class of these methods is not known here, as its module registers operators itself.
_STATE = (
    ("create_state", "def create_state(self, shapes, dtypes), which returns the state"),
    ("forward", "def forward(self, state, *arrays), which returns NumPy arrays"),
)


def kinds(cls: type[Operator]) -> list[type[Operator]]:
    """The kinds of a class; there should be one."""
    return [kind for kind in _KINDS if issubclass(cls, kind)]


def missing(cls: type[Operator]) -> tuple[str, str] | None:
    """The first method that the class's kind requires and that it lacks, with its description."""
    for kind in kinds(cls):
        stateful = hasattr(cls, "create_state")
        base = next((c for c in cls.__mro__ if c.__name__ == "Stateful"), kind) if stateful else kind
        for method, says in _STATE if stateful else _KINDS[kind]:
            if getattr(cls, method) is getattr(base, method):
                return method, says
    return None


def require_operator(cls: Any, name: str, aliases: tuple[str, ...]) -> None:
    """Raise, with the user's line, unless the class can be registered under these names."""
    problem = _problem_of_names(name, aliases) or _problem_of_class(cls, name)
    if problem is not None:
        raise MXNetError(f"{user_location()}: {problem}")


def _problem_of_names(name: Any, aliases: tuple[str, ...]) -> str | None:
    if not isinstance(name, str) or isinstance(name, type):
        return f"mx.op.register takes a name, got {name!r}; write @mx.op.register('mylib.my_op')"
    if "." not in name:
        return f"operator name {name!r} has no dialect; put your library's name before it: 'mylib.{name.lower()}'"
    if not re.fullmatch(NAME, name):
        return (
            f"operator name {name!r} must be a dialect, a dot and a name, of lower-case letters, digits and _; other "
            f"spellings are aliases: register({_lower(name)!r}, {name.rpartition('.')[2]!r})"
        )
    wrong = next((a for a in aliases if not re.fullmatch(ALIAS, a)), None)
    return None if wrong is None else f"alias {wrong!r} of operator {name!r} cannot be the name of a Python function"


def _lower(name: str) -> str:
    return re.sub(r"[^a-z0-9_.]", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def _problem_of_class(cls: Any, name: str) -> str | None:
    names = ", ".join(kind.__name__ for kind in _KINDS)
    if not inspect.isclass(cls) or not issubclass(cls, Operator):
        return f"operator {name!r} must be a class derived from one of mx.op's kinds ({names}), got {cls!r}"
    found = kinds(cls)
    if len(found) != 1:
        of = " and ".join(kind.__name__ for kind in found) or "no kind"
        return f"operator {name!r}: class {cls.__name__} is of {of}; derive it from one of {names}"
    hidden = [n for n in cls.ATTRIBUTES if isinstance(cls.__dict__.get(n), Attribute) and hasattr(Operator, n)]
    if hidden:
        return (
            f"operator {name!r}: the attribute {hidden[0]} of class {cls.__name__} has the name of a method of all "
            f"operators; declare it as {hidden[0]}_, which calls and files know as {hidden[0]}"
        )
    lacks = missing(cls)
    if lacks is not None:
        kind = "Stateful" if hasattr(cls, "create_state") else found[0].__name__
        return f"operator {name!r}: class {cls.__name__} is {kind} and has no {lacks[0]}; write {lacks[1]}"
    if found[0] is Composite and cls.kernel is not Operator.kernel:
        return (
            f"operator {name!r}: class {cls.__name__} is Composite, of which only its decomposition reaches a target; "
            "for a kernel of its own derive it from Opaque, with a gradient"
        )
    return None
