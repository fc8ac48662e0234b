"""Operators of compiled libraries as operations of the dialect ``extension``: host calls, equals of our own.

``mx.library.load`` is what users see, :mod:`hybridc.library.extension` and its neighbours what runs. Each operator of
a library becomes a class made from one of those here. Its attributes are whatever keywords a call has, as strings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.array.dispatch import invoke
from hybridc.array.fluent import Fluent
from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Opaque, Operator, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import Attribute, DType, Shape
from hybridc.dialects.stateful import CELL, Holder, Stateful
from hybridc.dtypes import is_float
from hybridc.errors import ArgumentTypeError, MXNetError, ShapeError
from hybridc.ground.nesting import as_list
from hybridc.library import extension_sparse
from hybridc.library.extension import LibraryOp
from hybridc.library.extension_call import Call, ExtensionState
from hybridc.library.extension_compute import ExtensionKernel
from hybridc.nd.creation import array
from hybridc.sparse_storage import converted, stype_of

_DIALECT = "extension"
# Beginnings of names that put an operator into a namespace of mx.nd.
_NAMESPACES = ("contrib", "linalg", "sparse", "image", "random")

Pairs = tuple[tuple[str, str], ...]


class _OfLibrary(Operator):
    """Base of operators of libraries: attributes of any name; the library answers everything else."""

    INPUTS = ("data",)
    VARIADIC = True
    PURE = False  # it may draw random numbers
    SAME_DTYPE = False

    OP: ClassVar[LibraryOp]
    implementation: ExtensionKernel

    # --- attributes ----------------------------------------------------------------------------------------

    @classmethod
    def bind(cls, **attrs: Any) -> Operator:
        """The operator with these attributes, each as the string that ``str`` makes of it."""
        return cls.bind_values(tuple(sorted([(k, str(v)) for k, v in attrs.items()])))

    @classmethod
    def from_nnvm(cls, attrs: Mapping[str, str]) -> Operator:
        """The operator with the attributes of a file."""
        return cls.bind(**attrs)

    @classmethod
    def bind_values(cls, values: tuple[Any, ...]) -> Operator:
        """As :meth:`bind`, with sorted pairs of name and string; equal pairs give the same object."""
        found = cls._BOUND.get(values)
        if found is None:
            if len(cls._BOUND) > 256:
                cls._BOUND.clear()
            found = cls._BOUND.setdefault(values, cls._parse(values))
        return found

    @classmethod
    def _parse(cls, values: tuple[Any, ...]) -> Operator:
        self = cls()
        # The attributes of this object, not of the class: every call may have others.
        fields = {name: Attribute(None, "", None, None, None, "str") for name, _ in values}
        vars(self)["ATTRIBUTES"] = fields
        self.key = (cls, *[text for _, text in values])
        self.implementation = self._kernel(values)
        self.arity = len(self.input_names())
        self.mutated = self.mutates()
        self.results = self.num_outputs()
        return self

    @classmethod
    def _kernel(cls, values: Pairs) -> ExtensionKernel:
        return ExtensionKernel(Call(cls.OP, values))

    @property
    def call(self) -> Call:
        """The library's description of the operator with these attributes."""
        return self.implementation.call

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """It takes any keyword, so it is not generated from the attributes."""
        return _function(cls)

    # --- inference -----------------------------------------------------------------------------------------

    def input_names(self) -> tuple[str, ...]:
        """As many as ParseAttrs says; a library does not name them."""
        return tuple(f"input{i}" for i in range(self.call.num_inputs))

    def mutates(self) -> tuple[int, ...]:
        """As MutateInputs says."""
        return self.call.mutated

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """As InferShape says; unchanged if it needs to know more."""
        try:
            return self.call.infer_shape(shapes)[0]
        except MXNetError:
            return shapes

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """As InferType says; unchanged if it needs to know more."""
        try:
            return self.call.infer_type(dtypes)[0]
        except MXNetError:
            return dtypes

    def said_shapes(self, shapes: Sequence[Shape]) -> tuple[list[Shape], list[Shape]]:
        """As InferShape says, for inputs of known rank."""
        ins, outs = self.call.infer_shape(shapes)
        found = [s for s in outs if s is not None]
        if len(found) < len(outs):
            raise ShapeError(
                f"custom operator '{self.OP.name}': InferShape leaves the shape of output {outs.index(None)} open for "
                f"inputs of shapes {', '.join(map(str, shapes))}"
            )
        return [g if s is None else s for s, g in zip(ins, shapes, strict=True)], found


class LibraryOperator(_OfLibrary, Opaque):
    """An operator of a library without state."""

    BACKWARD: ClassVar[type[LibraryBackward]]

    def num_outputs(self) -> int:
        """As ParseAttrs says, and the new values of mutated inputs."""
        return self.call.num_outputs + len(self.mutated)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """As InferShape says."""
        ins, outs = self.said_shapes(shapes)
        return ins, [*outs, *[ins[i] for i in self.mutated]]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """As InferType says."""
        ins, outs = self.call.known_types(dtypes)
        return ins, [*outs, *[ins[i] for i in self.mutated]]

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        """As InferSType says."""
        return self.call.infer_storage([stype_of(x) for x in inputs])

    def eager_sparse(self, *arrays: Any) -> Any:
        """The library's forward, with sparse inputs or outputs."""
        results = extension_sparse.forward(self.call, arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def _gives_sparse(self, arrays: Sequence[Any]) -> bool:
        """Whether dense inputs give a sparse output."""
        stypes = self.call.infer_storage(["default"] * len(arrays)) if self.OP.infer_storage else None
        return stypes is not None and set(stypes) != {"default"}

    def eager(self, *arrays: Any) -> Any:
        """The library's forward."""
        if self._gives_sparse(arrays):
            return self.eager_sparse(*arrays)
        results, new = self.implementation.forward(arrays)
        return results[0] if len(results) == 1 and not new else (*results, *new)

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        """The library's forward, straight into ``outs``."""
        if self._gives_sparse(arrays):
            for out, result in zip(outs, as_list(self.eager_sparse(*arrays)), strict=True):
                out[...] = converted(result, "default")
            return
        count = self.call.num_outputs
        _, new = self.implementation.forward(arrays, outs=outs[:count])
        for out, value in zip(outs[count:], new, strict=True):
            out[...] = value

    def gradient(self, F: Any, *values: Any) -> Any:
        """As :meth:`gradient_of`, for all inputs."""
        return self.gradient_of([True] * self.call.num_inputs, F, *values)

    def gradient_of(self, needed: Sequence[bool], F: Any, *values: Any) -> Any:
        """The library's backward, as one more host call."""
        inputs, outputs = self.call.num_inputs, self.call.num_outputs
        wanted = [bool(n) and i not in self.mutated for i, n in enumerate(needed)]
        integers = not any(is_float(np.dtype(g.dtype)) for g in values[:outputs])
        if not any(wanted) or (integers and not self.OP.backward):
            return [None] * len(wanted)
        op = self.BACKWARD.bind(**self.attrs)
        grads = as_list(invoke(op, values[: outputs + inputs + outputs]))
        return [g if n else None for g, n in zip(grads, wanted, strict=True)]


class LibraryBackward(_OfLibrary, Opaque):
    """The backward of an operator of a library: from output gradients, inputs and outputs to input gradients."""

    FORWARD: ClassVar[type[LibraryOperator]]

    @classmethod
    def _kernel(cls, values: Pairs) -> ExtensionKernel:
        forward = cls.FORWARD.bind_values(values)
        assert isinstance(forward, LibraryOperator)
        return forward.implementation

    def _groups(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        inputs, outputs = self.call.num_inputs, self.call.num_outputs
        return values[:outputs], values[outputs : outputs + inputs], values[outputs + inputs :]

    def input_names(self) -> tuple[str, ...]:
        """Output gradients, inputs, outputs."""
        inputs, outputs = range(self.call.num_inputs), range(self.call.num_outputs)
        names = [f"ograd{i}" for i in outputs], [f"input{i}" for i in inputs], [f"output{i}" for i in outputs]
        return tuple(n for group in names for n in group)

    def mutates(self) -> tuple[int, ...]:
        """Nothing: what the forward mutates, the backward reads only."""
        return ()

    def num_outputs(self) -> int:
        """A gradient for each input."""
        return self.call.num_inputs

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """Gradients have the shapes of their inputs."""
        return shapes, list(self._groups(shapes)[1])

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """Gradients have the dtypes of their inputs."""
        return dtypes, list(self._groups(dtypes)[1])

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """Nothing follows: a gradient rule knows all shapes."""
        return shapes

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """Nothing follows: a gradient rule knows all dtypes."""
        return dtypes

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        """As InferSType says, if there is one; else gradients of dense copies."""
        return ["default"] * self.num_outputs() if self.OP.infer_storage else None

    def eager_sparse(self, *arrays: Any) -> Any:
        """The library's backward, with sparse arrays."""
        grads = extension_sparse.backward(self.call, *self._groups(arrays))
        return grads[0] if len(grads) == 1 else tuple(grads)

    def eager(self, *arrays: Any) -> Any:
        """The library's backward."""
        grads = self.implementation.backward(*self._groups(arrays))
        return grads[0] if len(grads) == 1 else tuple(grads)

    def gradient(self, F: Any, *values: Any) -> Any:
        """Raises: a compiled backward has no gradient rule of its own."""
        raise MXNetError(
            f"custom operator '{self.OP.name}' cannot be differentiated twice: its library has a backward, but no "
            "gradient of that; leave out create_graph=True"
        )


class StatefulLibraryOperator(_OfLibrary, Stateful):
    """An operator of a library that owns state, which its forward and backward share."""

    @classmethod
    def bind(cls, **attrs: Any) -> Operator:
        """As for every operator of a library; an executor's has its holder beside the library's attributes."""
        holder = attrs.get("holder")
        if not isinstance(holder, Holder):
            return super().bind(**attrs)
        del attrs["holder"]
        self: Any = cls._parse(tuple(sorted([(k, str(v)) for k, v in attrs.items()])))
        self.ATTRIBUTES["holder"] = Stateful.ATTRIBUTES["holder"]
        self.key = (*self.key, holder)
        self.holder = holder
        return self

    def described(self) -> str:
        """The name in error texts."""
        return f"custom operator '{self.OP.name}'"

    def num_visible_outputs(self) -> int:
        """As ParseAttrs says."""
        return self.call.num_outputs

    def result_shapes(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """As InferShape says."""
        return self.said_shapes(shapes)

    def result_types(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """As InferType says."""
        return self.call.known_types(dtypes)

    def create_state(self, shapes: Sequence[Shape], dtypes: Sequence[DType]) -> ExtensionState:
        """As CreateOpState makes it."""
        self.call.require_inputs(len(shapes))
        return self.call.create_state(shapes, dtypes)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        """As InferSType says."""
        stypes = self.call.infer_storage([stype_of(x) for x in inputs])
        return None if stypes is None else [*stypes, "default"]

    def eager_sparse(self, *arrays: Any) -> Any:
        """The results of a forward with a new state, of sparse arrays."""
        cell = np.empty(1, CELL)
        return (*extension_sparse.forward(self.call, arrays, self._state(cell, arrays)), cell)

    def forward(self, state: Any, *arrays: Any) -> Any:
        """The state's forward."""
        results, new = self.implementation.forward(arrays, state)
        return (*results, *new)

    def backward(
        self, state: Any, needed: Sequence[bool], ograds: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Sequence[Any]:
        """The state's backward."""
        if any(stype_of(x) != "default" for x in (*ograds, *inputs, *outputs)):
            return extension_sparse.backward(self.call, ograds, inputs, outputs, state)
        return self.implementation.backward(ograds, inputs, outputs, state)


# --- arrays of graph passes ----------------------------------------------------------------------------------


class Held:
    """An array as an attribute: equal to itself alone."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __repr__(self) -> str:
        return f"array {self.array.dtype}{list(self.array.shape)}"


@register("extension.array")
class ConstantArray(Opaque):
    """An array that a library's graph pass added to a graph."""

    gradient = no_gradient

    INPUTS = ()

    held: object = attribute(None, "internal: the array, as Held")

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """Arrays are made by ``nd.array``."""
        return array

    def check(self) -> None:
        """Only a graph pass makes it."""
        if not isinstance(self.held, Held):
            raise MXNetError(f"{self.NAME} cannot be made directly; use mx.nd.array")

    @property
    def array(self) -> Any:
        """The array itself."""
        assert isinstance(self.held, Held)
        return self.held.array

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """That of the array."""
        return shapes, [self.array.shape]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """That of the array."""
        return dtypes, [self.array.dtype]

    def eager(self, *arrays: Any) -> Any:
        """The array."""
        return self.array.copy()


# --- making classes ----------------------------------------------------------------------------------------


def define(op: LibraryOp) -> None:
    """Register an operator of a library under its name, replacing one that has this name.

    An operator that runs subgraphs has no function: its library's partitioner puts it to use.
    """
    op.check()
    if op.is_subgraph:
        return
    base = StatefulLibraryOperator if op.stateful else LibraryOperator
    made = _class(base, op, f"The operator ``{op.name}`` of the library {op.library.path}.", op.name)
    if not op.stateful:
        backward = _class(LibraryBackward, op, f"The backward of ``{op.name}``.", f"_backward_{op.name}")
        setattr(backward, "FORWARD", made)  # noqa: B010 - each class refers to the other
        setattr(made, "BACKWARD", backward)  # noqa: B010
        operator_registry.add(backward, override=True)
    operator_registry.add(made, override=True)


def _class(base: type[_OfLibrary], op: LibraryOp, doc: str, name: str) -> type[_OfLibrary]:
    spaces = [n for n in _NAMESPACES if name.startswith(f"_{n}_")]
    body: dict[str, Any] = {
        "__doc__": doc,
        "__module__": __name__,
        "OP": op,
        "NAME": f"{_DIALECT}.{name}",
        "ALIASES": tuple(f"{n}.{name.removeprefix(f'_{n}_')}" for n in spaces),
    }
    return type(name, (base,), body)


def _function(cls: type[_OfLibrary]) -> Callable[..., Any]:
    """The function of ``mx.nd``: inputs by position, any attributes by keyword."""
    plain: list[Any] = []

    def call(
        *data: Any,
        out: Any = None,
        name: str | None = None,  # noqa: ARG001
        ctx: Any = None,  # noqa: ARG001
        **attributes: Any,
    ) -> Any:
        if attributes:
            op = _with_attributes(cls, attributes)
        elif plain:
            op = plain[0]
        else:
            op = cls.bind()
            plain.append(op)
        if len(data) != op.arity:
            data = _inputs(op, data)
        return invoke(op, data, out)

    call.__name__ = call.__qualname__ = cls.NAME.partition(".")[2]
    call.__module__ = "hybridc.nd"
    call.__doc__ = (
        f"{cls.__doc__}\n\nParameters\n----------\n*data : NDArray or Symbol\n    The inputs.\n"
        "**attributes : the operator's attributes, which its library gets as strings."
    )
    return call


def _with_attributes(cls: type[_OfLibrary], attributes: dict[str, Any]) -> Operator:
    for key, value in attributes.items():
        if isinstance(value, Fluent):
            raise ArgumentTypeError(
                f"{cls.title()}: {key} is an array; an operator of a library takes its inputs by position, keywords "
                "are its attributes"
            )
    return cls.bind(**attributes)


def _inputs(op: Operator, data: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs given as one list; an error if their number is wrong."""
    first: Any = data[0] if len(data) == 1 else None
    given: tuple[Any, ...] = tuple(first) if first.__class__ in (list, tuple) else data
    assert isinstance(op, _OfLibrary)
    op.call.require_inputs(len(given))
    return given
