"""One use of a Python custom operator: calls the user's Prop and CustomOps, and checks their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from hybridc.array.ndarray import NDArray, buffer_of, wrap
from hybridc.array.numpy_array import as_default
from hybridc.context import Context
from hybridc.dialects.checked import lasting, readonly
from hybridc.dialects.error_context import user_code
from hybridc.dialects.operator import Array
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import CustomOpError, DTypeError, MXNetError, ShapeError
from hybridc.ground.events import recorded
from hybridc.sparse_storage import STORAGE_TYPES, stype_of, zeros


class _Undeclared:
    """Stands in a backward's lists for an array that the Prop did not ask for."""

    def __init__(self, what: str, prop: str) -> None:
        self._what = what
        self._prop = prop

    def _refuse(self, *args: Any) -> NoReturn:
        raise MXNetError(
            f"{self._what} is not available in backward: {self._prop} was made with need_top_grad=False or "
            "leaves it out in declare_backward_dependency"
        )

    def __getattr__(self, name: str) -> Any:
        self._refuse()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __getitem__ = __neg__ = __array__ = _refuse


class CustomCall:
    """One use of a custom operator: its Prop, what that says of shapes and dtypes, and how its CustomOps are run."""

    def __init__(self, op_type: str, prop: Any, params: dict[str, str], context: Context) -> None:
        self.op_type = op_type
        self.prop = prop
        self.params = params
        self.context = context
        self.arguments = self._names("list_arguments")
        self.outputs = self._names("list_outputs")
        self.auxiliary = self._names("list_auxiliary_states")
        self._shapes: dict[tuple[Shape, ...], tuple[list[Shape], list[Shape]]] = {}
        self._types: dict[tuple[DType, ...], tuple[list[DType], list[DType]]] = {}

    def __repr__(self) -> str:
        params = ", ".join(f"{k}={v!r}" for k, v in self.params.items())
        return f"{self.op_type}({params})"

    @property
    def _prop_name(self) -> str:
        return type(self.prop).__name__

    def where(self, method: str, owner: Any = None) -> str:
        """The name of a method of this operator in error texts."""
        return f"custom operator {self.op_type!r}: {type(owner or self.prop).__name__}.{method}"

    # --- what the Prop says --------------------------------------------------------------------------------

    def _names(self, method: str) -> list[str]:
        where = self.where(method)
        with user_code(where):
            said: Any = getattr(self.prop, method)()
        names = entries(said)
        if names is None or not all(isinstance(n, str) for n in names):
            raise MXNetError(f"{where} must return a list of names, got {said!r}")
        return names

    def storage_types(self, stypes: Sequence[str]) -> list[str] | None:
        """The storage types of the outputs for those of all inputs; None if the Prop takes others than these."""
        if not self._overrides("infer_storage_type"):
            return None if set(stypes) - {"default"} else ["default"] * len(self.outputs)
        count = len(self.arguments)
        ins, outs, _ = self._ask("infer_storage_type", list(stypes[:count]), _stype)
        return outs if ins == list(stypes[:count]) else None

    def gradient_types(self, ograds: Sequence[str], inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
        """The storage types of the gradients of the arguments, for those of the arrays of a backward."""
        count = len(self.arguments)
        dense = ["default"] * count
        if not self._overrides("infer_storage_type_backward"):
            return dense
        where, states = self.where("infer_storage_type_backward"), ["default"] * len(self.auxiliary)
        with user_code(where):
            answer: Any = self.prop.infer_storage_type_backward(
                list(ograds), list(inputs), list(outputs), dense, states
            )
        parts = entries(answer)
        if parts is None or len(parts) != 5:
            raise MXNetError(
                f"{where} must return five lists (of output gradients, inputs, outputs, input gradients, auxiliary "
                f"states), got {answer!r}"
            )
        return _read(f"{where} returned {parts[3]!r} for the input gradients", self.arguments, parts[3], _stype)

    def _overrides(self, method: str) -> bool:
        """Whether the user's Prop has a method of its own."""
        prop_cls: Any = self.prop.__class__
        return not str(getattr(getattr(prop_cls, method), "__module__", "")).startswith("hybridc.")

    def _ask(self, method: str, given: list[Any], read: Callable[[Any], Any]) -> list[list[Any]]:
        """The three lists that ``infer_shape`` or ``infer_type`` returns, each entry read by ``read``."""
        where = self.where(method)
        with user_code(where):
            answer: Any = getattr(self.prop, method)(given)
        parts = entries(answer)
        if parts is None or len(parts) not in (2, 3):
            raise MXNetError(
                f"{where} must return two or three lists (of the inputs, the outputs, the auxiliary states), "
                f"got {answer!r}"
            )
        kinds = ("inputs", self.arguments), ("outputs", self.outputs), ("auxiliary states", self.auxiliary)
        return [
            _read(f"{where} returned {part!r} for the {kind}", names, part, read)
            for (kind, names), part in zip(kinds, [*parts, ()][:3], strict=True)
        ]

    def infer_shape(self, shapes: Sequence[Shape]) -> tuple[list[Shape], list[Shape]]:
        """Shapes of arguments and auxiliary states, unknown dimensions filled in, and of the outputs."""
        key = tuple(shapes)
        if key not in self._shapes:
            found = self._infer_shape(key)
            # What depends on dimensions that were unknown is right only when asked again.
            self._shapes[key] = found if key == tuple(found[0]) else self._infer_shape(found[0])
        return self._shapes[key]

    def _infer_shape(self, shapes: Sequence[Shape]) -> tuple[list[Shape], list[Shape]]:
        count = len(self.arguments)
        ins, outs, aux = self._ask("infer_shape", [list(s) for s in shapes[:count]], _sizes)
        names = [*self.arguments, *self.auxiliary]
        merged = [self._merge(*entry) for entry in zip(names, shapes, [*ins, *aux], strict=True)]
        if any(-1 in s for s in merged):
            return merged, [tuple(n or -1 for n in s) for s in outs]
        # COMPAT(mxnet): () means "unknown" there and fails for an output; here it is an array of one element.
        return merged, [s or (1,) for s in outs]

    def _merge(self, name: str, given: Shape, said: Shape) -> Shape:
        """A shape that is known in part, completed by what the Prop says."""
        if not said and -1 in given:
            said = given
        fits = len(given) == len(said) and all(g in (-1, s) for g, s in zip(given, said, strict=True))
        if fits and -1 not in given:
            return given
        if not fits:
            shown = tuple("?" if n == -1 else n for n in given)
            raise ShapeError(
                f"custom operator {self.op_type!r}: input {name!r} has shape {_shape_text(shown)}, but "
                f"{self._prop_name}.infer_shape says {said}; reshape the input or correct infer_shape"
            )
        return tuple(s if s > 0 else g for g, s in zip(given, said, strict=True))

    def complete_shapes(self, shapes: Sequence[Shape | None]) -> list[Shape | None]:
        """Shapes of inputs of which nothing is known (None), as the Prop says; it gets [] for them."""
        if None not in shapes:
            return list(shapes)
        given = [list(s or ()) for s in shapes[: len(self.arguments)]]
        said = [tuple(n or -1 for n in s) or None for s in self._ask_early("infer_shape", given, shapes, _sizes)]
        return [t if s is None else s for s, t in zip(shapes, said, strict=True)]

    def complete_types(self, dtypes: Sequence[DType | None]) -> list[DType | None]:
        """Dtypes of inputs of which nothing is known (None), as the Prop says, which gets None for them too."""
        if None not in dtypes:
            return list(dtypes)
        given = [None if d is None else d.type for d in dtypes[: len(self.arguments)]]
        said = self._ask_early("infer_type", given, dtypes, lambda d: None if d is None else _dtype(d))
        # COMPAT(mxnet): what the Prop leaves open remains unknown there, and binding fails.
        said = [dtypes[0] if d is None else d for d in said]
        return [t if d is None else d for d, t in zip(dtypes, said, strict=True)]

    def _ask_early(
        self, method: str, given: list[Any], known: Sequence[Any], read: Callable[[Any], Any]
    ) -> Sequence[Any]:
        """The shapes or dtypes that the Prop infers; nothing if it fails because the first argument's is unknown."""
        try:
            ins, _, aux = self._ask(method, given, read)
        except CustomOpError:
            if known[0] is not None:
                raise
            # COMPAT(mxnet): there inference fails; most Props read the first input without asking.
            return [() if method == "infer_shape" else None] * len(known)
        return [*ins, *aux]

    def infer_type(self, dtypes: Sequence[DType]) -> tuple[list[DType], list[DType]]:
        """Dtypes of arguments and auxiliary states, and of the outputs."""
        key = tuple(dtypes)
        if key not in self._types:
            self._types[key] = self._infer_type(key)
        return self._types[key]

    def _infer_type(self, dtypes: tuple[DType, ...]) -> tuple[list[DType], list[DType]]:
        count = len(self.arguments)
        ins, outs, _ = self._ask("infer_type", [d.type for d in dtypes[:count]], _dtype)
        for name, given, said in zip(self.arguments, dtypes, ins, strict=False):
            if given != said:
                raise DTypeError(
                    f"custom operator {self.op_type!r}: input {name!r} is {given}, but "
                    f"{self._prop_name}.infer_type says {said}; use .astype('{said}') or correct infer_type"
                )
        return list(dtypes), outs

    def dependencies(self) -> list[int]:
        """The arrays that the backward reads: indices into output gradients, then arguments, then outputs."""
        outs, ins = len(self.outputs), len(self.arguments)
        where = self.where("declare_backward_dependency")
        numbers = list(range(outs + ins + outs))
        groups = numbers[:outs], numbers[outs : outs + ins], numbers[outs + ins :]
        with user_code(where):
            said: Any = self.prop.declare_backward_dependency(*groups)
        read = entries(said)
        if read is None or any(n not in numbers for n in read):
            raise MXNetError(f"{where} must return some of the numbers it got, {groups}, not {said!r}")
        return sorted(set(read))

    # --- running -------------------------------------------------------------------------------------------

    def create(self, shapes: Sequence[Shape], dtypes: Sequence[DType]) -> CustomState:
        """A CustomOp for inputs of these shapes and dtypes."""
        where = self.where("create_operator")
        # COMPAT(mxnet): there in_dtypes are type numbers (0 is float32); here they are dtypes, as documented.
        with user_code(where):
            op = self.prop.create_operator(self.context, [list(s) for s in shapes], [d.type for d in dtypes])
        if not callable(getattr(op, "forward", None)) or not callable(getattr(op, "backward", None)):
            raise MXNetError(f"{where} must return a CustomOp, got {type(op).__name__}")
        return CustomState(op, shapes, dtypes)

    def forward(self, state: CustomState, train: bool, arrays: Sequence[Array]) -> list[Array]:
        """The outputs, and the new values of the auxiliary states."""
        count = len(self.arguments)
        _, shapes = self.infer_shape([a.shape for a in arrays])
        _, dtypes = self.infer_type([a.dtype for a in arrays])
        stypes = self.storage_types([stype_of(a) for a in arrays]) or ["default"] * len(shapes)
        results = [as_default(wrap(zeros(stype, s, d))) for stype, s, d in zip(stypes, shapes, dtypes, strict=True)]
        given = list(results)
        state.auxiliary = [lasting(a) for a in arrays[count:]]
        auxiliary = [as_default(NDArray(a.copy())) for a in arrays[count:]]
        where = self.where("forward", state.op)
        # COMPAT(mxnet): there an operator can write in_data, and so its caller's arrays.
        with (
            user_code(where, train, "is_train, req, in_data, out_data, aux"),
            recorded("custom operator", f"{self.op_type}.forward"),
        ):
            state.op.forward(
                is_train=train,
                req=["write"] * len(results),
                in_data=[as_default(wrap(readonly(lasting(a)))) for a in arrays[:count]],
                out_data=given,
                aux=auxiliary,
            )
        _check_filled(where, "out_data", given, results)
        return [buffer_of(r) for r in (*results, *auxiliary)]

    def backward(
        self,
        state: CustomState,
        needed: Sequence[bool],
        ograds: Sequence[Array | None],
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None],
    ) -> list[Array | None]:
        """The gradients of the needed arguments; the auxiliary states have none.

        These it gets as they are now, and may change, as in MXNet.
        """
        ins = len(self.arguments)
        known = [[stype_of(a) for a in group] for group in (ograds, inputs[:ins], outputs)]
        stypes = self.gradient_types(*known)
        shapes = zip(stypes, state.shapes, state.dtypes, strict=False)
        results = [as_default(wrap(zeros(stype, s, d))) for stype, s, d in shapes]
        given = list(results)
        where = self.where("backward", state.op)
        takes = "req, out_grad, in_data, out_data, in_grad, aux"
        with user_code(where, takes=takes), recorded("custom operator", f"{self.op_type}.backward"):
            state.op.backward(
                req=["write" if n else "null" for n in needed[:ins]],
                out_grad=self._values("out_grad", ograds),
                in_data=self._values("in_data", inputs[:ins]),
                out_data=self._values("out_data", outputs),
                in_grad=given,
                aux=[as_default(NDArray(a)) for a in state.auxiliary],
            )
        _check_filled(where, "in_grad", given, results)
        grads = [buffer_of(r) if n else None for r, n in zip(results, needed, strict=False)]
        return [*grads, *[None] * len(self.auxiliary)]

    def _values(self, what: str, arrays: Sequence[Array | None]) -> list[Any]:
        """Arrays as the backward gets them; what the Prop did not ask for says so when it is used."""
        return [
            _Undeclared(f"{what}[{i}]", self._prop_name) if a is None else as_default(wrap(readonly(a)))
            for i, a in enumerate(arrays)
        ]


class CustomState:
    """The state of a forward for its backward: the user's CustomOp, its inputs' shapes, its auxiliary states."""

    __slots__ = ("auxiliary", "dtypes", "op", "shapes")

    def __init__(self, op: Any, shapes: Sequence[Shape], dtypes: Sequence[DType]) -> None:
        self.op = op
        self.shapes = shapes
        self.dtypes = dtypes
        self.auxiliary: list[Array] = []


def entries(value: Any) -> list[Any] | None:
    """The entries of a list or tuple; None for anything else."""
    entries: Any = value
    return list(entries) if isinstance(value, list | tuple) else None


def _read(what: str, names: Sequence[str], part: Any, read: Callable[[Any], Any]) -> list[Any]:
    try:
        values = [read(v) for v in part]
    except (TypeError, ValueError):
        raise MXNetError(f"{what}; it must be a list with one entry each: {', '.join(names)}") from None
    if len(values) != len(names):
        listed = f"{len(names)} ({', '.join(names)})" if names else "none"
        raise MXNetError(f"{what}: {len(values)} entries, but there are {listed}")
    return values


def _sizes(said: Any) -> Shape:
    return tuple(int(n) for n in said)


def _stype(said: Any) -> str:
    if said not in STORAGE_TYPES:
        raise ValueError(said)
    return said


def _dtype(said: Any) -> DType:
    if said is None:  # NumPy would take it for float64
        raise TypeError(said)
    return np.dtype(said)


def _shape_text(shape: tuple[Any, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _check_filled(where: str, name: str, given: Sequence[Any], buffers: Sequence[NDArray]) -> None:
    """Raise if the user replaced an entry of the list, which is lost, instead of writing into its array."""
    for i, buffer in enumerate(buffers):
        if len(given) != len(buffers) or given[i] is not buffer:
            raise MXNetError(
                f"{where} replaced {name}[{i}] in the list, which has no effect; write "
                f"self.assign({name}[{i}], req[{i}], value) or {name}[{i}][:] = value"
            )
