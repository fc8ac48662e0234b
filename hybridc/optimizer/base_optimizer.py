"""The base of all optimizers: counts, learning rates, weight decays, states, and running the formula."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from hybridc.array.ndarray import NDArray, wrap
from hybridc.dtypes import is_half
from hybridc.errors import ArgumentTypeError, AttributeValueError, CheckError, MXNetError
from hybridc.ground.display.arguments_text import called, settings
from hybridc.ground.location import user_depth
from hybridc.ground.watches import written
from hybridc.lr_scheduler import LRScheduler
from hybridc.optimizer.runner import Row, Runner
from hybridc.registry import enter

C = TypeVar("C", bound=type[Any])


class Optimizer:
    """The base of optimizers, which update weights from gradients. A :class:`~hybridc.gluon.Trainer` calls them.

    A subclass says how many states a weight has (:meth:`state_count`), which numbers its mathematics needs
    (:meth:`numbers`), and the mathematics (:meth:`formula`). Or it overrides :meth:`create_state` and
    :meth:`update`, as optimizers written for MXNet do. An optimizer object serves one thread at a time.

    Parameters
    ----------
    rescale_grad:
        A factor of gradients; a Trainer sets it to 1 over the batch size.
    param_idx2name:
        The names of parameters by their indices, for their factors of the learning rate and of ``wd``.
    wd:
        The factor of weight decay, ``wd`` in the formulas: most add ``wd * w`` to the gradient.
    clip_gradient:
        Elements of gradients are clipped to this and its negative, after ``rescale_grad``; None or 0: they are not.
    learning_rate:
        The learning rate; None: that of ``lr_scheduler``, 0.01 without. Given beside a scheduler, it replaces the
        scheduler's ``base_lr``, with a warning. NaN and what is no number raise.
    lr_scheduler:
        A schedule of ``mx.lr_scheduler``, or any function of the number of updates that gives the learning rate.
    sym:
        A symbol whose variables have attributes ``__lr_mult__`` and ``__wd_mult__``.
    begin_num_update:
        The number of updates that were done before, from which schedules go on.
    multi_precision:
        Whether weights of 16 bits have a copy in float32, which is updated and rounded to the weight.
    param_dict:
        Parameters by their indices, for their ``lr_mult`` and ``wd_mult``; a Trainer sets it.
    lazy_update:
        Whether a row_sparse gradient updates its own rows alone; the other rows then have no weight decay, and their
        states stay.
    momentum:
        The share of the last update that the next one has, from 0 to 1; with 0 there is no state for it.
    **kwargs:
        Arguments of ``Optimizer`` by name, as ``learning_rate``, ``lr_scheduler``, ``wd`` and ``clip_gradient``.

    Examples
    --------
    An optimizer of your own, and a step of it:

    >>> class Plain(mx.optimizer.Optimizer):
    ...     def formula(self, F, w, g, state, h):
    ...         return (w - h.lr * h.rescale * g,)
    >>> optimizer = Plain(learning_rate=0.5)
    >>> w = mx.nd.array([1, 2])
    >>> optimizer.update(0, w, mx.nd.array([1, -1]), optimizer.create_state(0, w))
    >>> w.asnumpy()
    array([0.5, 2.5], dtype=float32)
    """

    opt_registry: ClassVar[dict[str, type[Optimizer]]] = {}
    #: Whether a float32 copy follows the states, as in MXNet's SGD, NAG and LARS, or comes before them, as elsewhere.
    COPY_LAST: ClassVar[bool] = False
    #: Whether an ``update_multi_precision`` of a subclass takes lists; those written for MXNet may not.
    TAKES_LISTS: ClassVar[bool] = False
    #: Whether the new values of a row follow from that row alone, so that a row_sparse gradient updates its own rows.
    BY_ROWS: ClassVar[bool] = False
    lazy_update: bool = True

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: Mapping[Any, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: LRScheduler | None = None,
        sym: Any = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: Mapping[Any, Any] | None = None,
    ) -> None:
        _check_rate(learning_rate)
        for what, value, effect in (("the learning rate", learning_rate, "the loss"), ("wd", wd, "weights")):
            if value is not None and value < 0:
                warnings.warn(f"{what} is {value}: as it is negative, {effect} will grow", stacklevel=user_depth())
        if isinstance(lr_scheduler, type):
            raise ArgumentTypeError(f"lr_scheduler is the class {lr_scheduler.__name__}; make a scheduler of it")
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        self.lr = 0.01 if learning_rate is None and lr_scheduler is None else learning_rate
        if lr_scheduler is not None and learning_rate is not None and lr_scheduler.base_lr != learning_rate:
            warnings.warn(
                f"the scheduler's base_lr {lr_scheduler.base_lr} is overwritten by the optimizer's "
                f"learning_rate {learning_rate}",
                UserWarning,
                stacklevel=user_depth(),
            )
            lr_scheduler.base_lr = learning_rate
        self.wd = wd
        self.lr_mult: dict[Any, float] = {}
        self.wd_mult: dict[Any, float] = {}
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        # Update counts by parameter; one table for each device, as MXNet's optimizers have.
        self._all_index_update_counts: dict[int, dict[Any, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num = 0
        if not isinstance(param_idx2name, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CheckError(f"param_idx2name should be a dict of param indexes to names, got {param_idx2name!r}")
        self.idx2name: dict[Any, str] = dict(param_idx2name or {})
        self.sym_info: tuple[Any, ...] = () if sym is None else (sym.attr_dict(), sym.list_arguments())
        self.param_dict: Mapping[Any, Any] = param_dict or {}
        self._runner = Runner()
        self.set_lr_mult({})
        self.set_wd_mult({})

    def __repr__(self) -> str:
        return called(self, self._settings())

    def _repr_html_(self) -> str:
        from hybridc.ground.display.html import settings_table

        return settings_table(type(self).__name__, self._settings())

    def _settings(self) -> dict[str, str]:
        """What it was made with, and the learning rate, without what a Trainer sets."""
        always = () if self.lr_scheduler is not None else ("learning_rate",)
        left_out = {"rescale_grad", "param_idx2name", "param_dict", "sym", *(() if always else ("learning_rate",))}
        return settings(self, always, left_out, kept_as={"learning_rate": "lr"})

    # --- what a subclass defines ---------------------------------------------------------------------------

    def state_count(self) -> int:
        """Number of state arrays of each weight, of its shape and dtype, zeros at first."""
        return 0

    def numbers(self, index: Any) -> dict[str, float | None]:
        """The scalars that :meth:`formula` finds in ``h`` at this step, by name: here lr, wd, rescale and clip.

        None stands for what is absent: the formula branches on that, and is compiled anew when it changes.

        Parameters
        ----------
        index:
            The index of the weight. Its count of updates, with this one, is ``_index_update_count[index]``.
        """
        return {
            "lr": self._get_lr(index),
            "wd": self._get_wd(index),
            "rescale": self.rescale_grad,
            # As in MXNet, a clip_gradient of 0 does not clip.
            "clip": self.clip_gradient or None,
        }

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        """The new weight and the new states: the optimizer's mathematics, in one place.

        It is traced and compiled as the forward of a hybridized block is, so it must not branch on the values of arrays
        and numbers; only ``is None`` is fine. It returns a tuple of the new weight and each new state.

        Parameters
        ----------
        F:
            ``mx.sym``, whose operators it calls.
        w:
            The weight, or its float32 copy: a Symbol.
        g:
            The gradient as ``backward`` wrote it, a Symbol of the same shape.
        state:
            As many Symbols as :meth:`state_count` says.
        h:
            What :meth:`numbers` gives, as attributes: ``h.lr``, ``h.wd``, ``h.rescale``, ``h.clip``, ….
        """
        raise MXNetError(f"{type(self).__name__} defines neither formula() nor update(); define one of them")

    # --- states and updates --------------------------------------------------------------------------------

    def create_state(self, index: Any, weight: Any) -> Any:
        """The states of a weight: None, one array, or a tuple of arrays.

        Parameters
        ----------
        index:
            The key of the weight: for a Trainer the index of the parameter.
        weight:
            The weight, an NDArray.
        """
        states = tuple(wrap(_zeros(weight)) for _ in range(self.state_count()))
        return states if len(states) > 1 else states[0] if states else None

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """The states of a weight; with ``multi_precision`` and 16 bits: ``(float32 copy, its states)``.

        The two are the other way round where ``COPY_LAST`` says so. Without ``multi_precision``, 16 bits are warned of.

        Parameters
        ----------
        index:
            The key of the weight.
        weight:
            The weight, an NDArray.
        """
        if not is_half(weight.dtype):
            return self.create_state(index, weight)
        if self.multi_precision:
            master = NDArray(weight.asnumpy().astype(np.float32)).as_in_context(weight.context)
            inner = self.create_state(index, master)
            return (inner, master) if self.COPY_LAST else (master, inner)
        warnings.warn(
            f"accumulating in {np.dtype(weight.dtype)} can lead to poor accuracy or slow convergence; "
            "consider multi_precision=True",
            UserWarning,
            stacklevel=user_depth(),
        )
        return self.create_state(index, weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight and its states in place; or several at once, given lists of each.

        Parameters
        ----------
        index:
            The key of the weight, by which updates are counted, and factors of the learning rate found.
        weight:
            The weight, an NDArray.
        grad:
            Its gradient, an NDArray of the same shape; one of stype row_sparse may update its rows alone.
        state:
            What :meth:`create_state` gave for the weight.
        """
        rows = _rows(index, weight, grad, state)
        self._runner.run(self, [(i, w, g, s, None) for i, w, g, s in rows])

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """As :meth:`update`, with the states of :meth:`create_state_multi_precision`.

        Parameters
        ----------
        index:
            The key of the weight.
        weight:
            The weight, an NDArray; one of 16 bits is its float32 copy, rounded.
        grad:
            Its gradient, an NDArray of the same shape.
        state:
            What :meth:`create_state_multi_precision` gave for the weight.
        """
        rows = _rows(index, weight, grad, state)
        if type(self).update is not Optimizer.update:
            for row in rows:
                self._update_own(*row)
            return
        self._runner.run(self, [self.row(*row) for row in rows])

    def row(self, index: Any, weight: Any, grad: Any, state: Any) -> Row:
        """What is updated: ``(index, array, grad, state, weight to round to, or None)``.

        The array is the weight, or its float32 copy.

        Parameters
        ----------
        index:
            The key of the weight.
        weight:
            The weight, an NDArray.
        grad:
            Its gradient, an NDArray.
        state:
            What :meth:`create_state_multi_precision` gave for the weight.
        """
        if not self.multi_precision or not is_half(weight.dtype):
            return index, weight, grad, state, None
        inner, master = state if self.COPY_LAST else state[::-1]
        return index, master, grad, inner, weight

    def _update_own(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """One weight by a subclass' own ``update``, which sees float32 only if there is a copy in it."""
        if not self.multi_precision or not is_half(weight.dtype):
            self.update(index, weight, grad, state)
            return
        inner, master = state if self.COPY_LAST else state[::-1]
        self.update(index, master, NDArray(grad.asnumpy().astype(np.float32)).as_in_context(grad.context), inner)
        np.copyto(weight._data, master._data, casting="same_kind")
        written(weight._data)

    def unwrapped(self) -> Optimizer:
        """The optimizer whose settings are saved: this one, unless it wraps another."""
        return self

    def explain(self) -> str:
        """The kernels and the memory of the updates that were compiled."""
        return "\n".join([f"{type(self).__name__}:", *("  " + line for line in self._runner.explain())])

    # --- learning rates and weight decays ------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The rate of the next update, before the parameters' multipliers."""
        return self._base_lr()

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate. With a scheduler it raises a UserWarning: assign ``lr_scheduler.base_lr`` then.

        Parameters
        ----------
        lr:
            The learning rate of the updates from now on. What is no number, and NaN, raise.
        """
        if self.lr_scheduler is not None:
            raise UserWarning(
                "LRScheduler of the optimizer has already been defined: set_learning_rate works without one "
                "only. Assign optimizer.lr_scheduler.base_lr, or make the optimizer without lr_scheduler"
            )
        _check_rate(lr)
        self.lr = lr

    def set_lr_scale(self, args_lrscale: Any) -> None:
        """As in MXNet, it raises a DeprecationWarning: use :meth:`set_lr_mult`.

        Parameters
        ----------
        args_lrscale:
            Not used.
        """
        raise DeprecationWarning("Use set_lr_mult instead.")

    def set_lr_mult(self, args_lr_mult: Mapping[Any, float]) -> None:
        """Set factors of the learning rate, in the place of those set before.

        The ``lr_mult`` of parameters that the optimizer knows (``param_dict``), as those of a Trainer, goes before.

        Parameters
        ----------
        args_lr_mult:
            A dict of factors, by the index or the name of a parameter. Others have that of ``sym``, else 1.
        """
        self.lr_mult = {**self._symbol_multipliers("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        """Set factors of weight decay, in the place of those set before.

        The ``wd_mult`` of parameters that the optimizer knows (``param_dict``), as those of a Trainer, goes before.

        Parameters
        ----------
        args_wd_mult:
            A dict of factors, by the index or the name of a parameter. Others have that of ``sym``, else 0 if
            ``param_idx2name`` has their name and it ends neither in ``_weight`` nor in ``_gamma``, else 1.
        """
        undecayed = {n: 0.0 for n in self.idx2name.values() if not n.endswith(("_weight", "_gamma"))}
        self.wd_mult = {**undecayed, **self._symbol_multipliers("__wd_mult__"), **args_wd_mult}

    def _symbol_multipliers(self, key: str) -> dict[str, float]:
        if not self.sym_info:
            return {}
        attributes, names = self.sym_info
        return {n: float(attributes[n][key]) for n in names if key in attributes.get(n, {})}

    def _base_lr(self) -> float:
        if self.lr_scheduler is not None:
            return self.lr_scheduler(self.num_update)
        return 0.01 if self.lr is None else self.lr

    def _get_lrs(self, indices: Iterable[Any]) -> list[float]:
        lr = self._base_lr()
        return [lr * self._multiplier(i, "lr_mult") for i in indices]

    def _get_wds(self, indices: Iterable[Any]) -> list[float]:
        return [self.wd * self._multiplier(i, "wd_mult") for i in indices]

    def _get_lr(self, index: Any) -> float:
        return self._base_lr() * self._multiplier(index, "lr_mult")

    def _get_wd(self, index: Any) -> float:
        return self.wd * self._multiplier(index, "wd_mult")

    def _multiplier(self, index: Any, kind: str) -> float:
        if index in self.param_dict:
            return getattr(self.param_dict[index], kind)
        table: dict[Any, float] = getattr(self, kind)
        return table[index] if index in table else table.get(self.idx2name.get(index), 1.0)

    # --- counts --------------------------------------------------------------------------------------------

    def _set_current_context(self, device_id: int) -> None:
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index: Any) -> None:
        counts = self._index_update_count
        for i in cast("list[Any]", index) if isinstance(index, (list, tuple)) else (index,):
            counts[i] = counts.get(i, self.begin_num_update) + 1
            self.num_update = max(counts[i], self.num_update)

    # --- the registry --------------------------------------------------------------------------------------

    @staticmethod
    def register(klass: C) -> C:
        """Make an optimizer class known to ``mx.optimizer.create`` and Trainers, and return it: it is a decorator, too.

        Parameters
        ----------
        klass:
            The class; its name counts in any case. It replaces another of the same name, with a warning.
        """
        return enter(Optimizer.opt_registry, "optimizer", klass)

    @staticmethod
    def create_optimizer(name: Any, **kwargs: Any) -> Any:
        """Make an optimizer.

        Parameters
        ----------
        name:
            A registered name, in any case; others are an AttributeValueError.
        **kwargs:
            Arguments of the optimizer.

        Examples
        --------
        >>> optimizer = mx.optimizer.create("adam", learning_rate=0.01)
        >>> type(optimizer).__name__, optimizer.learning_rate
        ('Adam', 0.01)
        """
        klass = Optimizer.opt_registry.get(str(name).lower())
        if klass is None:
            known = ", ".join(sorted(Optimizer.opt_registry))
            raise AttributeValueError(f"Cannot find optimizer {name}; known are {known}")
        try:
            return klass(**kwargs)
        except TypeError as error:
            for key, here in _HABITS.items():
                if key in kwargs and f"'{key}'" in str(error):
                    raise ArgumentTypeError(f"{klass.__name__} has no argument {key!r}; here that is {here}") from error
            raise

    def __getstate__(self) -> dict[str, Any]:
        kept = dict(self.__dict__)
        # Parameters belong to the trainer, which hands them out again; the runner holds views of them.
        del kept["param_dict"], kept["_runner"]
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.param_dict = {}
        self._runner = Runner()


# What arguments of PyTorch's and Keras's optimizers are here.
_HABITS = {
    "lr": "learning_rate",
    "weight_decay": "wd",
    "betas": "beta1 and beta2",
    "beta_1": "beta1",
    "beta_2": "beta2",
    "eps": "epsilon",
    "clipvalue": "clip_gradient",
}


def _check_rate(rate: Any) -> None:
    """Raise unless a learning rate is None or a number, and not NaN."""
    if rate is None:
        return
    if isinstance(rate, str) or not hasattr(rate, "__float__"):
        raise ArgumentTypeError(f"the learning rate must be a number, got {type(rate).__name__} {rate!r}")
    if float(rate) != float(rate):
        raise AttributeValueError("the learning rate is NaN")


def _zeros(weight: Any) -> Any:
    data: Any = weight._data
    if weight.stype != "default":
        return data.with_data(np.zeros_like(data.data))
    return np.zeros_like(data, order="C")


def _rows(index: Any, weight: Any, grad: Any, state: Any) -> list[tuple[Any, Any, Any, Any]]:
    """Index, weight, gradient and state of each weight."""
    if not isinstance(index, (list, tuple)):
        return [(index, weight, grad, state)]
    counts = [len(cast("list[Any]", index)), len(weight), len(grad), len(state)]
    if len(set(counts)) != 1:
        raise MXNetError(
            f"update: got {counts[0]} indices, {counts[1]} weights, {counts[2]} gradients and {counts[3]} "
            f"states; expected as many of each"
        )
    return list(zip(cast("list[Any]", index), weight, grad, state, strict=True))


register = Optimizer.register
create = Optimizer.create_optimizer
