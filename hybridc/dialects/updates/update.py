"""Bases of the update operators, which MXNet's optimizers are made of.

An update's mathematics is its ``formula``, written with ``+ - * /`` and the functions of ``F``. The operator uses it
with its attributes, an optimizer of :mod:`hybridc.optimizer` with the scalars of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar

import numpy as np

from hybridc.dialects.operator import Bad, Composite, Sample, attribute, define
from hybridc.dialects.operator_attribute import REQUIRED, DType, Shape
from hybridc.dtypes import is_float
from hybridc.errors import AttributeValueError, DTypeError, MXNetError, ShapeError, UnsupportedError
from hybridc.ground.nesting import as_list
from hybridc.sparse_storage import put_rows, rows_of, stype_of

FLOAT32 = np.dtype(np.float32)

# The attributes that most updates have.
LR: Any = attribute(doc="learning rate")
MOMENTUM: Any = attribute(0.0, "how much of the momentum stays")
WD: Any = attribute(0.0, "weight decay: how much of the weight is added to the gradient")
RESCALE: Any = attribute(1.0, "factor of the gradient")
CLIP: Any = attribute(-1.0, "bound of the gradient's magnitude; below 0 there is none")
BETA1: Any = attribute(0.9, "decay rate of the mean")
BETA2: Any = attribute(0.999, "decay rate of the variance")
EPSILON: Any = attribute(1e-8, "added to the denominator")
COUNT: Any = attribute(1, "number of weights", low=1)


def limited(F: Any, x: Any, bound: Any) -> Any:
    """``x`` limited to ``[-bound, bound]``; all of ``x`` if the bound is None. NaN stays."""
    return x if bound is None else F.maximum(F.minimum(x, bound), -bound)


def bound(value: float) -> float | None:
    """A bound of an update operator: none if it is negative."""
    return value if value >= 0 else None


def not_differentiable(self: Composite, F: Any, *values: Any) -> Any:  # noqa: ARG001 - a method
    """A gradient rule: it raises, as in MXNet."""
    raise UnsupportedError(
        f"{self.title()} is not differentiable: it is a step of training, no part of a loss; write it with arithmetic "
        "to differentiate through it"
    )


class Update(Composite):
    """The new values of a weight and of its states; the states are written in place, the weight is the result.

    With ``out=weight`` the weight is updated in place, too. ``INPUTS`` are the weight, its gradient and its states; in
    a ``MASTER`` update the last is a float32 copy of the weight, which the update works on, and the other states have
    float32, too. ``ORDER`` are the attributes that an update has, of those below and its own.
    """

    INPUTS = ("weight", "grad")
    MASTER: ClassVar[bool] = False
    BY_ROWS: ClassVar[bool] = False  # the new values of a row follow from that row alone

    lr: float = LR
    momentum: float = MOMENTUM
    beta1: float = BETA1
    beta2: float = BETA2
    epsilon: float = EPSILON
    wd: float = WD
    rescale_grad: float = RESCALE
    clip_gradient: float = CLIP
    lazy_update: bool = attribute(True, "a row_sparse gradient updates its own rows alone")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        """The result for a weight and the new states; ``h`` has the scalars, a bound is None where there is none."""
        raise MXNetError("an update defines formula()")

    def numbers(self) -> SimpleNamespace:
        """The scalars that :meth:`formula` finds in ``h``."""
        return scalars(self.attrs)

    def states(self) -> int:
        """The number of states, with the float32 copy."""
        return len(self.INPUTS) - 2

    def mutates(self) -> tuple[int, ...]:
        return tuple(range(2, 2 + self.states()))

    def num_outputs(self) -> int:
        return 1 + self.states()

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """All have one shape."""
        known = next((s for s in (*shapes, *outputs) if s is not None and -1 not in s), None)
        return [known if s is None else s for s in shapes]

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """All have one dtype, but float32 beside a weight and a gradient of another in a ``MASTER`` update."""
        same = 2 if self.MASTER else len(dtypes)
        known = next((d for d in dtypes[:same] if d is not None), None)
        return [(known if i < same else FLOAT32) if d is None else d for i, d in enumerate(dtypes)]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shape = same_shape(self.title(), self.INPUTS, shapes)
        return [shape] * len(shapes), [shape] * self.num_outputs()

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_types(self.title(), self.INPUTS, dtypes, 2 if self.MASTER else len(dtypes))
        return dtypes, [dtypes[0], *dtypes[2:]]

    gradient = not_differentiable

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return updated(self, F, inputs, self.numbers())

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        self.infer_type([x.dtype for x in arrays])
        with np.errstate(all="ignore"):  # infinities and NaN are the user's, as in MXNet
            return super().eager(*arrays)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        of_rows = self.BY_ROWS and self.lazy_update and stype_of(inputs[1]) == "row_sparse"
        return tuple(stype_of(inputs[i]) for i in (0, *self.mutated)) if of_rows else None

    def eager_sparse(self, *arrays: Any) -> Any:
        weight, grad, *states = arrays
        rows = grad.indices
        new = as_list(self.eager(rows_of(weight, rows), grad.data, *[rows_of(x, rows) for x in states]))
        found = tuple(put_rows(x, rows, y) for x, y in zip((weight.copy(), *states), new, strict=True))
        return found if states else found[0]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        """A gradient of another shape."""
        text = f"{cls.title()}: grad has shape (2, 1), expected (2, 3), the shape of all its inputs"
        attrs = {name: 1 for name, a in cls.ATTRIBUTES.items() if a.default is REQUIRED}
        return [(((2, 3), (2, 1), *((2, 3),) * (len(cls.INPUTS) - 2)), attrs, text)]


OneUpdate = TypeVar("OneUpdate", bound=Update)


def of_copy(update: type[OneUpdate], name: str) -> type[OneUpdate]:
    """``mp_sgd_update`` of ``sgd_update``: the update of a float32 copy of the weight, which is its last input."""
    doc = (
        f"``{update.title()}`` of the float32 copy ``weight32``, in place; the result is the copy in the weight's dtype"
    )

    def samples() -> list[Sample]:
        sample = update.samples()[0]

        def reference(*xs: Any) -> Any:
            return sample.reference(xs[-1], *xs[1:-1])

        inputs = (*sample.inputs, sample.inputs[0])
        return [Sample(inputs, reference, grad=False, dtypes=("float32",), **sample.attrs)]

    return define(
        update,
        name,
        doc,
        class_name=f"MP{update.__name__}",
        INPUTS=(*update.INPUTS, "weight32"),
        MASTER=True,
        samples=staticmethod(samples),
    )


def updated(update: type[Update] | Update, F: Any, inputs: Sequence[Any], h: Any) -> tuple[Any, ...]:
    """The results of an update with the scalars ``h``: the weight, and the new values of its states."""
    weight, grad, *states = inputs
    if not update.MASTER:
        return update.formula(F, weight, grad, tuple(states), h)
    *others, master = states
    result, *found = update.formula(F, master, F.cast(grad, dtype="float32"), tuple(others), h)
    return F.cast(result, dtype=np.dtype(weight.dtype).name), *found, result


def scalars(attrs: dict[str, Any]) -> SimpleNamespace:
    """The attributes as a formula wants them."""
    clip = attrs.get("clip_gradient", attrs.get("clip_grad", -1.0))
    return SimpleNamespace(**{**attrs, "rescale": attrs.get("rescale_grad", 1.0), "clip": bound(clip)})


def unbiased(beta1: float, beta2: float, t: int) -> tuple[float, float]:
    """``1 - beta1**t`` and ``1 - beta2**t``: what the averages at update ``t`` are too small by."""
    with np.errstate(all="ignore"):
        first, second = (1 - np.power(np.float64(beta), float(t)) for beta in (beta1, beta2))
    return float(first), float(second)


def same_shape(title: str, names: Sequence[str], shapes: Sequence[Shape]) -> Shape:
    """The one shape that all inputs have; unknown sizes are those of the others."""
    known = next((s for s in shapes if -1 not in s), shapes[0])
    for name, shape in zip(names, shapes, strict=True):
        if len(shape) != len(known) or any(n not in (-1, m) for n, m in zip(shape, known, strict=True)):
            raise ShapeError(f"{title}: {name} has shape {shape}, expected {known}, the shape of all its inputs")
    return known


def require_types(title: str, names: Sequence[str], dtypes: Sequence[DType], count: int) -> None:
    """Raise unless the first ``count`` inputs have one floating-point dtype and the others float32."""
    first = dtypes[0]
    if not is_float(first):
        raise DTypeError(f"{title}: {names[0]} is {first}, expected floating point; use .astype('float32')")
    for i, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        want = first if i < count else FLOAT32
        if dtype != want:
            raise DTypeError(f"{title}: {name} is {dtype}, expected {want}; use .astype('{want}')")


class MultiUpdate(Composite):
    """The update ``UPDATE`` of several weights.

    The inputs are the weight, gradient and states of the first weight, those of the second, and so on, then those
    named in ``LAST``. ``LISTS`` are the attributes that have a value for each weight, and what the formula calls them.
    """

    INPUTS = ("data",)
    VARIADIC = True
    SAME_DTYPE = False
    UPDATE: ClassVar[type[Update]]
    LISTS: ClassVar[dict[str, str]] = {"lrs": "lr", "wds": "wd"}
    LAST: ClassVar[tuple[str, ...]] = ()
    NUMBER: ClassVar[str] = "num_weights"

    def count(self) -> int:
        """The number of weights."""
        return self.attrs[self.NUMBER]

    def stride(self) -> int:
        """The number of inputs for each weight."""
        return len(self.UPDATE.INPUTS)

    def check(self) -> None:
        attrs = self.attrs
        for name in self.LISTS:
            if len(attrs[name]) != self.count():
                raise AttributeValueError(
                    f"{self.title()}: {name} has {len(attrs[name])} values, expected one for each of the "
                    f"{self.NUMBER}={self.count()} weights"
                )

    def mutates(self) -> tuple[int, ...]:
        step = self.stride()
        return tuple(i * step + j for i in range(self.count()) for j in range(2, step))

    def num_outputs(self) -> int:
        return self.count() * (self.stride() - 1)

    def _names(self) -> list[str]:
        """What each input is."""
        return [f"{name} {i}" for i in range(self.count()) for name in self.UPDATE.INPUTS] + list(self.LAST)

    def _groups(self, inputs: Sequence[Any]) -> list[list[Any]]:
        """The inputs of each weight."""
        step = self.stride()
        if len(inputs) != self.count() * step + len(self.LAST):
            each = ", ".join(self.UPDATE.INPUTS)
            last = "".join(f", then {name}" for name in self.LAST)
            raise MXNetError(
                f"{self.title()}: got {len(inputs)} arrays, expected {self.count() * step + len(self.LAST)}: {each} of "
                f"each of the {self.NUMBER}={self.count()} weights{last}"
            )
        return [list(inputs[i * step : (i + 1) * step]) for i in range(self.count())]

    def last_shape(self, name: str) -> Shape:
        """The shape of an input that is for all weights."""
        return (self.count(),)

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        found: list[Shape | None] = []
        for i, group in enumerate(self._groups(shapes)):
            known = next((s for s in (*group, *outputs[i : i + 1]) if s is not None and -1 not in s), None)
            found += [known if s is None else s for s in group]
        last = zip(self.LAST, shapes[len(found) :], strict=True)
        return found + [self.last_shape(name) if s is None else s for name, s in last]

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        found: list[DType | None] = []
        for group in self._groups(dtypes):
            same = 2 if self.UPDATE.MASTER else len(group)
            known = next((d for d in group[:same] if d is not None), None)
            found += [(known if j < same else FLOAT32) if d is None else d for j, d in enumerate(group)]
        return found + [FLOAT32 if d is None else d for d in dtypes[len(found) :]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        names, ins = self._names(), list[Shape]()
        for group in self._groups(shapes):
            ins += [same_shape(self.title(), names[len(ins) :][: len(group)], group)] * len(group)
        for name, shape in zip(self.LAST, shapes[len(ins) :], strict=True):
            want = self.last_shape(name)
            if shape not in (want, (-1,)) and not (shape == () and want == (1,)):
                raise ShapeError(f"{self.title()}: {name} has shape {shape}, expected {want}")
            ins.append(shape if shape == () else want)
        return ins, [ins[i] for i in (*range(0, self.count() * self.stride(), self.stride()), *self.mutates())]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        names, step = self._names(), self.stride()
        for i, group in enumerate(self._groups(dtypes)):
            require_types(self.title(), names[i * step :][:step], group, 2 if self.UPDATE.MASTER else step)
        for name, dtype in zip(self.LAST, dtypes[self.count() * step :], strict=True):
            if dtype != FLOAT32:
                raise DTypeError(f"{self.title()}: {name} is {dtype}, expected float32; use .astype('float32')")
        return dtypes, [dtypes[i] for i in (*range(0, self.count() * step, step), *self.mutates())]

    def numbers(self, F: Any, index: int, last: Sequence[Any], dtype: Any) -> SimpleNamespace:
        """The scalars for the weight of this index, which is updated in ``dtype``."""
        attrs = self.attrs
        return scalars({**attrs, **{to: attrs[name][index] for name, to in self.LISTS.items()}})

    def updated(self, F: Any, group: Sequence[Any], h: Any) -> tuple[Any, ...]:
        """The results for one weight."""
        return updated(self.UPDATE, F, group, h)

    gradient = not_differentiable

    def decompose(self, F: Any, *inputs: Any) -> Any:
        groups, last = self._groups(inputs), inputs[self.count() * self.stride() :]
        weights: list[Any] = []
        states: list[Any] = []
        for i, group in enumerate(groups):
            dtype = FLOAT32 if self.UPDATE.MASTER else np.dtype(group[0].dtype)
            weight, *others = self.updated(F, group, self.numbers(F, i, last, dtype))
            weights.append(weight)
            states += others
        return (*weights, *states)

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        self.infer_type([x.dtype for x in arrays])
        with np.errstate(all="ignore"):
            return super().eager(*arrays)


def two_weights(update: type[Update], reference: Any, *last: Any, master: bool = False, **attrs: Any) -> list[Sample]:
    """A sample of an update of two weights, given the new weights' reference."""
    shapes = [shape for shape in ((2, 3), (4,)) for _ in update.INPUTS]
    dtypes = ("float32",) if master or last else ("float32", "float64")
    return [Sample([*shapes, *last], reference, grad=False, low=0.1, dtypes=dtypes, num_weights=2, **attrs)]
