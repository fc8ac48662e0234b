"""Operators with state: host calls that own a Python object, which the backward gets from its forward.

The state is in a *cell*, an array of one Python object, a hidden output. Eagerly every call makes a cell, which
the tape keeps for the backward. A compiled graph has one cell for each use in each of its workspaces: successive calls
share the state, concurrent calls have their own, and a call whose backward is
still to come keeps its own until then. An executor has one state for each use, in a :class:`Holder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects import checked
from hybridc.dialects.operator import Opaque, Operator, attribute, bind_anew, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.operator_registry import called_later, recorded
from hybridc.errors import MXNetError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.nesting import as_list

CELL = np.dtype(object)


class Holder:
    """The state of one use of an operator in an executor, from its first forward on."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: Any = None

    def __repr__(self) -> str:
        return "kept"


class Stateful(Opaque):
    """A stateful host call: override ``create_state``, ``forward`` and, for gradients, ``backward``.

    Outputs are those of ``result_shapes`` and ``result_types``, then the cell of the state, then the new
    values of mutated inputs. ``FRESH`` makes a new state at every forward, also in compiled graphs.
    """

    PURE = False
    SAME_DTYPE = False
    FRESH: ClassVar[bool] = False

    holder: object = attribute(None, "internal: the Holder of the executor that uses it")

    # --- methods of subclasses -----------------------------------------------------------------------------

    @called_later
    def create_state(self, shapes: Sequence[Shape], dtypes: Sequence[DType]) -> Any:
        """A new state for inputs of these ``shapes`` and ``dtypes``."""
        raise MXNetError(f"{self.title()} must override create_state(self, shapes, dtypes)")

    @called_later
    def forward(self, state: Any, *arrays: Any) -> Any:
        """The results, and the new values of mutated inputs: one NumPy array, or a tuple for several."""
        raise MXNetError(f"{self.title()} must override forward(self, state, *arrays)")

    @called_later
    def backward(
        self, state: Any, needed: Sequence[bool], ograds: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Sequence[Any]:
        """The gradient of each input that needs one, as a NumPy array; None for the others.

        ``state`` is that of the forward, ``needed`` says for each input whether its gradient is wanted, and ``ograds``,
        ``inputs`` and ``outputs`` are NumPy arrays: the gradients of the outputs, and what the forward had. Those that
        :meth:`reads` does not list are None.
        """
        raise MXNetError(f"{self.described()} has no backward; override it, or use it outside autograd.record()")

    @recorded
    def result_shapes(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """Shapes of the inputs, unknown sizes in ``shapes`` filled in, and of the results; by default the first's."""
        return shapes, [shapes[0]] * self.num_visible_outputs()

    @recorded
    def result_types(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """Dtypes of the inputs, ``dtypes``, and of the results; by default that of the first input."""
        return dtypes, [dtypes[0]] * self.num_visible_outputs()

    def num_visible_outputs(self) -> int:
        """The number of results."""
        return 1

    @recorded
    def reads(self) -> Sequence[int]:
        """The arrays that ``backward`` reads: indices into output gradients, then inputs, then outputs."""
        visible = self.num_visible_outputs()
        return range(2 * visible + len(self.input_names()))

    @called_later
    def described(self) -> str:
        """Its name in error texts."""
        return f"operator {self.NAME}"

    # --- the operator --------------------------------------------------------------------------------------

    def num_outputs(self) -> int:
        """The results, the cell and the new values of mutated inputs."""
        return self.num_visible_outputs() + 1 + len(self.mutated)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """As ``result_shapes(shapes)`` says."""
        ins, outs = self.result_shapes(shapes)
        return ins, [*outs, (1,), *[ins[i] for i in self.mutated]]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """As ``result_types(dtypes)`` says."""
        ins, outs = self.result_types(dtypes)
        return ins, [*outs, CELL, *[ins[i] for i in self.mutated]]

    def eager(self, *arrays: Any) -> Any:
        """The results of a forward with a new state."""
        visible = self.num_visible_outputs()
        cell = np.empty(1, CELL)
        wanted = None
        if self.foreign:
            shapes, dtypes = [a.shape for a in arrays], [a.dtype for a in arrays]
            found = zip(self.infer_shape(shapes)[1], self.infer_type(dtypes)[1], strict=True)
            wanted = [w for i, w in enumerate(found) if i != visible]
        results = self._run(cell, arrays, wanted)
        return (*results[:visible], cell, *results[visible:])

    def eager_out(self, outs: Sequence[Any], *arrays: Any) -> None:
        """As :meth:`eager`, with the state in the cell among ``outs``."""
        visible = self.num_visible_outputs()
        places = [*outs[:visible], *outs[visible + 1 :]]
        results = self._run(outs[visible], arrays, [(y.shape, y.dtype) for y in places])
        for out, result in zip(places, results, strict=True):
            np.copyto(out, result, casting="unsafe")

    def nnvm_outputs(self) -> int:
        """Without the cell, which MXNet does not have as an output."""
        return self.num_visible_outputs()

    def owned(self) -> Operator:
        """The operator with one state for an executor, in train and predict mode."""
        return self.bind(**{**self.attrs, "holder": Holder()})

    def _state(self, cell: Any, arrays: Sequence[Any]) -> Any:
        """The state for this forward, which is put into the cell."""
        holder = self.holder
        if isinstance(holder, Holder):
            if holder.state is None:
                holder.state = self.create_state([a.shape for a in arrays], [a.dtype for a in arrays])
            cell[0] = holder.state
        elif cell[0] is None or self.FRESH:
            cell[0] = self.create_state([a.shape for a in arrays], [a.dtype for a in arrays])
        return cell[0]

    def _run(self, cell: Any, arrays: Sequence[Any], wanted: Sequence[checked.Wanted] | None) -> list[Any]:
        """The results of forward; checked, unless ``wanted`` is None."""
        found = self.forward(self._state(cell, arrays), *arrays)
        return as_list(found) if wanted is None else checked.matching(self, "forward", found, wanted)

    def gradient(self, F: Any, *values: Any) -> Any:
        """As ``gradient_of(needed, F, *values)``, for all inputs."""
        return self.gradient_of([True] * (len(values) - 2 * self.num_visible_outputs() - 1), F, *values)

    def gradient_of(self, needed: Sequence[bool], F: Any, *values: Any) -> Any:
        """The backward as another host call, whatever ``F`` is, for the ``needed`` inputs only."""
        visible = self.num_visible_outputs()
        count = len(needed)
        wanted = tuple(bool(n) and i not in self.mutated for i, n in enumerate(needed))
        if not any(wanted):
            return [None] * count
        inputs = values[visible : visible + count]
        there = [*values[: visible + count], *values[visible + count :][:visible]]
        read = tuple(i for i in self.reads() if i < len(there))
        cell = values[2 * visible + count]
        op = StatefulBackward.bind(
            of=self,
            needed=wanted,
            read=read,
            shapes=tuple(x.shape for x in inputs),
            dtypes=tuple(np.dtype(x.dtype) for x in inputs),
        )
        grads = iter(as_list(HOOKS.invoke(op, [*[there[i] for i in read], cell])))
        return [next(grads) if n else None for n in wanted]


@register("hybrid.stateful_backward")
class StatefulBackward(Opaque):
    """The backward of a stateful operator."""

    INPUTS = ("data",)
    VARIADIC = True
    PURE = False
    SAME_DTYPE = False

    of: object = attribute(None, "internal: the operator whose backward it is")
    needed: object = attribute((), "internal: for each input, whether its gradient is wanted")
    read: object = attribute((), "internal: which arrays it gets, see Stateful.reads")
    shapes: object = attribute((), "internal: the shapes of the inputs")
    dtypes: object = attribute((), "internal: the dtypes of the inputs")

    bind_values = bind_anew

    def __repr__(self) -> str:
        return f"backward of {self.of!r}"

    @property
    def forward_op(self) -> Stateful:
        """The operator whose backward this is."""
        if not isinstance(self.of, Stateful):
            raise MXNetError(f"{self.NAME} cannot be made directly; differentiate an operator that has a state")
        return self.of

    def check(self) -> None:
        """Only ``gradient`` makes this operator."""
        assert self.forward_op is self.of

    def is_foreign(self) -> bool:
        """As the forward's operator."""
        return self.forward_op.foreign

    def _wanted(self, values: Any) -> list[Any]:
        needed: Any = self.needed
        return [v for v, n in zip(values, needed, strict=True) if n]

    def num_outputs(self) -> int:
        """One gradient for each input that needs one."""
        return len(self._wanted(self.shapes))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """Gradients have the shapes of their inputs."""
        return shapes, self._wanted(self.shapes)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """Gradients have the dtypes of their inputs."""
        return dtypes, self._wanted(self.dtypes)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        """Any: what the operator's own backward gives."""
        return ["default"] * self.num_outputs()

    def eager_sparse(self, *arrays: Any) -> Any:
        """The gradients, by the operator's own backward, which takes sparse arrays."""
        grads = [g for g in self._run(arrays) if g is not None]
        return grads[0] if len(grads) == 1 else tuple(grads)

    def eager(self, *arrays: Any) -> Any:
        """The gradients, by the operator's own backward."""
        shapes, dtypes = as_list(self.shapes), as_list(self.dtypes)
        wanted = [(s, d) if n else None for s, d, n in zip(shapes, dtypes, as_list(self.needed), strict=True)]
        grads = checked.gradients(self.forward_op, self._run(arrays), wanted)
        return grads[0] if len(grads) == 1 else tuple(grads)

    def _run(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The gradients of all inputs, as the ``backward`` of the operator's class returns them."""
        op, needed, read = self.forward_op, self.needed, self.read
        assert isinstance(needed, tuple)
        assert isinstance(read, tuple)
        visible, count = op.num_visible_outputs(), len(as_list(needed))
        there: list[Any] = [None] * (2 * visible + count)
        for i, array in zip(as_list(read), arrays, strict=False):
            there[i] = array
        groups = there[:visible], there[visible : visible + count], there[visible + count :]
        return op.backward(arrays[-1][0], as_list(needed), *groups)

    def gradient(self, F: Any, *values: Any) -> Any:
        """Raises: a backward on arrays has no gradient rule."""
        raise MXNetError(
            f"{self.forward_op.described()} cannot be differentiated twice: its backward is Python code, "
            "which has no gradient. Write the operation with F's operators, or leave out create_graph=True"
        )
