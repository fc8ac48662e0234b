"""Parameters of networks: their arrays, gradients and (possibly deferred) initialisation, and dictionaries of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any, cast

import numpy as np

from hybridc import autograd, initializer, nd, random
from hybridc.array.dispatch import placed
from hybridc.array.ndarray import NDArray, check_unrecorded, values_of
from hybridc.array.numpy_array import as_default
from hybridc.array_files.name_maps import NameMap, NameMismatch, renamed
from hybridc.context import CPU, Context, check_device, current_context
from hybridc.errors import AttributeValueError, CheckError, DeferredInitializationError, UnsupportedError
from hybridc.gluon.epoch import ATTRIBUTE_EPOCH
from hybridc.gluon.utils import brief, indent, shape_is_known
from hybridc.ground.absent import explain_habits
from hybridc.ground.display.tracebacks import boundary, hide_frames, hides_frames
from hybridc.ground.hooks import HOOKS
from hybridc.ground.location import user_depth
from hybridc.ground.state import STATE
from hybridc.nd import storage
from hybridc.symbol.variables import parameter_variable
from hybridc.trace.traced import Symbol

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict", "tensor_types"]

#: What a layer may be called with: arrays, and symbols of each kind.
tensor_types = (Symbol, NDArray)

_REQS = ("write", "add", "null")
_STYPES = ("default", "row_sparse", "csr")


class Parameter:
    """An array that is trained (or not), with its gradient.

    Blocks make theirs with ``self.params.get(name, …)``, and have them as attributes. A parameter has no array until
    :meth:`initialize`, and with unknown dimensions until the first forward.

    Parameters
    ----------
    name:
        The name, which files and optimizers know it by. An initializer of all parameters looks at what it ends with.
    grad_req:
        How a backward stores the gradient: "write", "add" to what is there, or "null": there is none.
    shape:
        The shape, or a number for one dimension. Unknown dimensions are 0, or -1.
    dtype:
        The dtype of the elements.
    lr_mult:
        The factor of the learning rate.
    wd_mult:
        The factor of the weight decay.
    init:
        Its own initializer, or the registered name of one; None: that of the network.
    allow_deferred_init:
        Whether initialisation may wait for unknown dimensions, which follow from the first input; else they are a
        ValueError.
    differentiable:
        Whether it can have a gradient; else ``grad_req`` is "null", whatever it is set to.
    stype:
        The storage of the array: "default", "row_sparse" or "csr".
    grad_stype:
        The storage of the gradient, one of the same three.

    Examples
    --------
    >>> weight = gluon.Parameter("weight", shape=(2, 3), lr_mult=0.1)
    >>> weight.initialize(init="ones")
    >>> with autograd.record():
    ...     y = (weight.data() * 5).sum()
    >>> y.backward()
    >>> weight.grad().asnumpy()
    array([[5., 5., 5.],
           [5., 5., 5.]], dtype=float32)
    """

    def __init__(
        self,
        name: str,
        grad_req: str = "write",
        shape: int | Sequence[int] | None = None,
        dtype: Any = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
    ) -> None:
        for kind, value in (("stype", stype), ("grad_stype", grad_stype)):
            if value not in _STYPES:
                raise CheckError(f"Parameter '{name}': {kind} must be one of {_STYPES}, got {value!r}")
        # Its arrays and gradients on the devices of _ctx_list, in that order.
        self._data: list[NDArray] | None = None
        self._grad: list[NDArray] | None = None
        self._ctx_list: list[Context] = []
        self._trainer: Any = None
        self._var: Any = None
        # (initializer, devices, default initializer, data to use instead): what initialisation will do.
        self._deferred_init: tuple[Any, ...] = ()
        self._key: Any = None
        # What is called with the arrays of an initialisation that waits, before others see them.
        self._on_arrays: Callable[[list[NDArray]], None] | None = None
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        self._grad_req: str | None = None
        self._shape = (shape,) if isinstance(shape, int) else None if shape is None else tuple(shape)
        self._stype = stype
        self._grad_stype = grad_stype
        self._dtype = dtype
        self.name = name
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.init = init
        self.grad_req = grad_req

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name} (shape={self.shape}, dtype={self.dtype})"

    def _repr_html_(self) -> str:
        from hybridc.ground.display.block_html import parameters_html

        return parameters_html("", [self])

    # --- what it is ----------------------------------------------------------------------------------------

    @property
    def grad_req(self) -> str:
        """The mode in which ``backward`` stores the gradient: 'write', 'add' or 'null' (there is none).

        Examples
        --------
        >>> layer = nn.Dense(1, in_units=2)
        >>> layer.weight.grad_req = "null"  # it is not trained
        """
        return cast("str", self._grad_req)

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in _REQS:
            raise CheckError(f"grad_req must be one of 'write', 'add', or 'null', but got {req!r}")
        req = req if self._differentiable else "null"
        if self._grad_req == req:
            return
        self._grad_req = req
        ATTRIBUTE_EPOCH.value += 1
        if self._data is None:
            return
        if req == "null":
            self._grad = None
            self._data = [x.detach() for x in self._data]
        else:
            self._init_grad(self._data)

    @property
    def stype(self) -> str:
        """The storage type of the array: 'default', or 'row_sparse', which stores only rows that are not zero."""
        return self._stype

    @property
    def grad_stype(self) -> str:
        """The storage type of the gradient."""
        return self._grad_stype

    @property
    def dtype(self) -> Any:
        """The element type, as it was given; setting it is :meth:`cast`."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def _ctx_map(self) -> list[list[int | None]] | None:
        """By the kind of device (0: GPUs, 1: CPUs) and its number, the index of its array; MXFusion reads it."""
        if self._data is None:
            return None
        found: list[list[int | None]] = [[], []]
        for i, ctx in enumerate(self._ctx_list):
            numbered = found[ctx.device_typeid & 1]
            numbered += [None] * (ctx.device_id + 1 - len(numbered))
            numbered[ctx.device_id] = i
        return found

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape; a dimension of 0 is unknown, of -1 where 0 is a size, see :func:`hybridc.util.np_shape`."""
        if STATE.np_shape and self._shape is not None:
            return tuple(n or -1 for n in self._shape)
        return self._shape

    @shape.setter
    def shape(self, new_shape: Iterable[int]) -> None:
        new = tuple(new_shape)
        if self._shape is not None:
            same = len(self._shape) == len(new)
            if not same or any(old not in (-1, 0, n) for n, old in zip(new, self._shape)):
                raise CheckError(
                    f"Parameter '{self.name}': shape {new} is incompatible with its shape {self._shape} (0 "
                    "stands for an unknown dimension)"
                )
        self._shape = new

    # --- its arrays ----------------------------------------------------------------------------------------

    @boundary
    def data(self, ctx: Context | None = None) -> NDArray:
        """The array on a device; while a block is traced, its Symbol.

        It is one of ``mx.np`` where these are the default, see :func:`hybridc.util.np_array`. A parameter that is not
        initialized is a RuntimeError, one that waits for its shape a DeferredInitializationError.

        Parameters
        ----------
        ctx:
            The device; None: the only one of the parameter, or the current one. Others are a RuntimeError.
        """
        try:
            if STATE.trace is not None:
                return STATE.trace.parameter(self)
            return as_default(self.array(ctx))
        except Exception as error:
            hide_frames(error)
            raise

    def array(self, ctx: Context | None = None) -> NDArray:
        """As :meth:`data`, always the one array of ``mx.nd`` that the parameter has on the device.

        Parameters
        ----------
        ctx:
            The device; None: the only one of the parameter, or the current one. Others are a RuntimeError.
        """
        data = self._data
        if data is None:
            data = self._initialized()
        if ctx is self._ctx_list[0] or (ctx is None and len(data) == 1):
            return data[0]
        return data[self._place(ctx)]

    def list_data(self) -> list[NDArray]:
        """The arrays on all devices, in the order of :meth:`list_ctx`."""
        return as_default(self.arrays())

    def arrays(self) -> list[NDArray]:
        """As :meth:`list_data`, always of ``mx.nd``."""
        return list(self._initialized())

    @hides_frames
    def grad(self, ctx: Context | None = None) -> NDArray:
        """The array of the gradient on a device; with ``grad_req`` "null" it is a RuntimeError.

        Parameters
        ----------
        ctx:
            The device; None: the only one of the parameter, or the current one. Others are a RuntimeError.
        """
        return as_default(self.gradient(ctx))

    def gradient(self, ctx: Context | None = None) -> NDArray:
        """As :meth:`grad`, always of ``mx.nd``.

        Parameters
        ----------
        ctx:
            The device; None: the only one of the parameter, or the current one. Others are a RuntimeError.
        """
        grads = self._gradients()
        return grads[0] if ctx is None and len(grads) == 1 else grads[self._place(ctx)]

    def list_grad(self) -> list[NDArray]:
        """The gradient buffers on all devices, in the order of :meth:`list_ctx`."""
        return as_default(self.gradients())

    def gradients(self) -> list[NDArray]:
        """As :meth:`list_grad`, always of ``mx.nd``."""
        return list(self._gradients())

    def _gradients(self) -> list[NDArray]:
        self._initialized()
        if self._grad is None:
            raise RuntimeError(f"Cannot get gradient array for Parameter '{self.name}' because grad_req='null'")
        return self._grad

    def row_sparse_data(self, row_id: NDArray) -> NDArray:
        """Rows of a ``row_sparse`` parameter, as a row_sparse array; a RuntimeError for other storage.

        Parameters
        ----------
        row_id:
            The numbers of the rows, an array on the device whose copy is asked for.
        """
        return self.list_row_sparse_data(row_id)[self._place(row_id.context) if len(self._ctx_list) > 1 else 0]

    def list_row_sparse_data(self, row_id: NDArray) -> list[NDArray]:
        """As :meth:`row_sparse_data`, on all devices, in the order of :meth:`list_ctx`.

        Parameters
        ----------
        row_id:
            The numbers of the rows, an array.
        """
        # COMPAT(mxnet): there a trainer must have the parameter, and data() of a row_sparse one is an error.
        if self._stype != "row_sparse":
            raise RuntimeError(
                f"Parameter '{self.name}' has storage type {self._stype}, so it has no row_sparse data; use data()"
            )
        return [HOOKS.function("sparse_retain")(x, row_id) for x in self._initialized()]

    @property
    def is_deferred(self) -> bool:
        """Whether initialisation waits for the shape."""
        return bool(self._deferred_init)

    def set_trainer(self, trainer: Any) -> None:
        """Remember the trainer that updates this parameter, which is told when its values are set.

        Parameters
        ----------
        trainer:
            The Trainer.
        """
        self._trainer = trainer

    def list_ctx(self) -> list[Context]:
        """The devices on which it is, or will be."""
        if self._data is not None:
            return list(self._ctx_list)
        if self._deferred_init:
            return list(self._deferred_init[1])
        raise RuntimeError(f"Parameter '{self.name}' has not been initialized: call initialize() on the network before")

    @hides_frames
    def set_data(self, data: Any) -> None:
        """Replace the values on all devices. Initialisation that waits for the shape uses them instead.

        Parameters
        ----------
        data:
            An NDArray, or what NumPy makes an array of, of the parameter's shape; else a CheckError.

        Examples
        --------
        >>> layer = nn.Dense(1, in_units=2)
        >>> layer.initialize()
        >>> layer.weight.set_data([[3, 4]])
        >>> layer.weight.data().asnumpy()
        array([[3., 4.]], dtype=float32)
        """
        array = data if isinstance(data, NDArray) else NDArray(np.asarray(data))
        self.shape = array.shape
        if self._data is not None:
            check_unrecorded(*self._data)
            for x in self._data:
                array.copyto(x)
            self._tell_trainer()
            return
        if not self._deferred_init:
            raise CheckError(f"Parameter '{self.name}' has not been initialized; call initialize() first")
        self._deferred_init = (*self._deferred_init[:3], array)

    def zero_grad(self) -> None:
        """Set the gradient to 0, if there is one."""
        for grad in self._grad or ():
            grad[:] = 0

    def var(self) -> Any:
        """The Symbol that stands for this parameter: in the graph being traced, or else a variable of its name."""
        if STATE.trace is not None and not STATE.trace.creates_inputs:
            return STATE.trace.parameter(self)
        self._var = parameter_variable(self, self._var)
        return self._var

    def cast(self, dtype: Any) -> None:
        """Change the dtype of the array and of its gradient; values are rounded.

        Parameters
        ----------
        dtype:
            The dtype.
        """
        self._dtype = dtype
        ATTRIBUTE_EPOCH.value += 1
        if self._data is None:
            return
        self._data = [_as_dtype(x, dtype) for x in self._data]
        if self._grad is not None:
            self._grad = [_as_dtype(x, dtype) for x in self._grad]
            autograd.mark_variables(self._data, self._grad, self.grad_req)

    def _initialized(self) -> list[NDArray]:
        waiting = bool(self._deferred_init)
        data = self._data  # asked after: another thread may end the waiting between the two
        if data is not None:
            return data
        if waiting:
            raise DeferredInitializationError(
                f"Parameter '{self.name}' has not been initialized yet because initialization was deferred: "
                f"its shape {self.shape} is not known before the first forward pass. Pass one batch of data "
                "through the network first, or give the sizes where the layer is made (in_units, "
                "in_channels, …)"
            )
        raise RuntimeError(
            f"Parameter '{self.name}' has not been initialized. Call initialize() on the network; create the "
            "Trainer with Block.collect_params(), because Block.params lacks the Parameters of child Blocks"
        )

    def _place(self, ctx: Context | None) -> int:
        """The index of a device, by default the current one; ``cpu_pinned(0)`` stands for ``cpu(0)``."""
        ctx = current_context() if ctx is None else ctx
        for i, known in enumerate(self._ctx_list):
            if ctx.device_id == known.device_id and (ctx.device_type == "gpu") == (known.device_type == "gpu"):
                return i
        raise RuntimeError(
            f"Parameter '{self.name}' was not initialized on context {ctx}. It was only initialized on "
            f"{self._ctx_list}."
        )

    # --- initialisation ------------------------------------------------------------------------------------

    def initialize(
        self, init: Any = None, ctx: Any = None, default_init: Any = None, force_reinit: bool = False
    ) -> None:
        """Make and fill the array and its gradient, or note that, if the shape is not known yet.

        Parameters
        ----------
        init:
            The initializer, or its registered name; None: the parameter's own (``init``), else ``default_init``.
        ctx:
            The device, or a list of devices of the CPU for a copy on each; None: the current one.
        default_init:
            The initializer where there is no other; None: Uniform.
        force_reinit:
            Whether a parameter that has an array gets a new one; else it stays as it is, with a warning.
        """
        if self._data is not None and not force_reinit:
            warnings.warn(
                f"Parameter '{self.name}' is already initialized, ignoring. Set force_reinit=True to re-initialize.",
                stacklevel=user_depth(),
            )
            return
        devices = _devices(ctx, self.name)
        default_init = initializer.Uniform() if default_init is None else default_init
        if init is None:
            init = default_init if self.init is None else self.init
        if not shape_is_known(self.shape) and not self._allow_deferred_init:
            raise ValueError(f"Cannot initialize Parameter '{self.name}' because it has invalid shape: {self.shape}.")
        self._data = self._grad = None
        # COMPAT(mxnet): the random key is taken now: values do not depend on the order in which shapes
        # become known: eager, hybridized, and with the sizes given, a seed makes the same network.
        self._key = random.next_key(training=False)
        self._deferred_init = (init, devices, default_init, None)
        if shape_is_known(self.shape):
            self.finish_deferred_init()

    def when_initialized(self, function: Callable[[list[NDArray]], None]) -> None:
        """Call a function once the initialisation that waits has made arrays, before anything else uses them.

        Parameters
        ----------
        function:
            A function of the list of arrays, one for each device, which it may write to.
        """
        self._on_arrays = function

    def finish_deferred_init(self) -> None:
        """Initialise now, if that was waiting for the shape."""
        if not self._deferred_init:
            return
        init, devices, default_init, data = self._deferred_init
        if not shape_is_known(self.shape):
            raise CheckError(
                f"Cannot initialize Parameter '{self.name}' because it has invalid shape: {self.shape}. "
                "Please specify in_units, in_channels, etc for `Block`s."
            )
        if data is None:
            data = as_default(NDArray(np.zeros(cast("tuple[int, ...]", self.shape), dtype=self.dtype)))
            with autograd.pause(), random.isolated(_seed(self._key)):
                _fill(self.name, data, init, default_init)
        elif data.shape != self.shape:
            raise CheckError(
                f"Parameter '{self.name}' has shape {self.shape}, but was given values of shape {data.shape} when a "
                "size was unknown; call set_data after the first forward"
            )
        self._init_impl(data, devices)
        self._deferred_init = ()  # last: until then other threads take it for waiting

    def _init_impl(self, data: NDArray, devices: Sequence[Context]) -> None:
        ATTRIBUTE_EPOCH.value += 1
        self._ctx_list = [CPU if device == CPU else device for device in devices]
        values = data.asnumpy() if data.stype != "default" else values_of(data)
        made = [placed(NDArray(np.array(values, dtype=self.dtype, order="C")), device) for device in self._ctx_list]
        arrays = [x.tostype(self._stype) for x in made]
        if self._on_arrays is not None:
            function, self._on_arrays = self._on_arrays, None
            function(arrays)
        self._init_grad(arrays)
        self._data = arrays  # last: other threads use it from now on
        self._tell_trainer(is_new=True)

    def _tell_trainer(self, is_new: bool = False) -> None:
        """Let the trainer know of values that are not from its step."""
        if self._trainer is not None:
            self._trainer.renew(self, is_new)

    def _init_grad(self, data: list[NDArray]) -> None:
        if self.grad_req == "null":
            self._grad = None
            return
        self._grad = [x._zeros(self._grad_stype) for x in data]
        autograd.mark_variables(data, self._grad, self.grad_req)

    def reset_ctx(self, ctx: Any) -> None:
        """Move to other devices.

        Parameters
        ----------
        ctx:
            The device, or a list of devices of the CPU; None: the current one.
        """
        devices = _devices(ctx, self.name)
        if self._data is not None:
            if devices != self._ctx_list:
                self._init_impl(self.reduce(), devices)
        elif self._deferred_init:
            self._deferred_init = (self._deferred_init[0], devices, *self._deferred_init[2:])
        else:
            raise ValueError(f"Cannot reset context for Parameter '{self.name}' because it has not been initialized.")

    def load_init(self, data: NDArray, ctx: Any, cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Take values that were saved, checking shape and dtype.

        Parameters
        ----------
        data:
            The values, whose shape must be the parameter's, as far as that is known.
        ctx:
            The devices of a parameter that is not initialized; of one that is, they must be the same. None: where it
            is, else the current one.
        cast_dtype:
            Whether the dtypes of the values and of the parameter may differ; else that is a CheckError.
        dtype_source:
            With ``cast_dtype`` "current": values get the dtype of the parameter; "saved": the parameter gets that of
            the values.
        """
        if cast_dtype and dtype_source not in ("current", "saved"):
            raise CheckError(f"dtype_source must be 'current' or 'saved', got {dtype_source!r}")
        if wrong := self.shape_mismatch(data.shape):
            raise CheckError(f"Failed loading Parameter '{self.name}' from saved params: shape incompatible {wrong}")
        if self.shape:
            self.shape = tuple(m if n in (-1, 0) else n for n, m in zip(self.shape, data.shape))
        if np.dtype(self.dtype) != np.dtype(data.dtype):
            data = self._load_dtype(data, cast_dtype, dtype_source)
        if ctx is not None and (self._data is not None or self._deferred_init):
            self._check_same_devices(_devices(ctx, self.name))
        if self._data is not None:
            self.set_data(data)
        else:
            self._init_impl(data, self._deferred_init[1] if self._deferred_init else _devices(ctx, self.name))
        self._deferred_init = ()

    def shape_mismatch(self, shape: tuple[int, ...]) -> str:
        """How a shape differs from the parameter's, as far as that is known; an empty text if it does not.

        Parameters
        ----------
        shape:
            The shape, a tuple.
        """
        known = self.shape
        if not known or (len(known) == len(shape) and all(n in (-1, 0, m) for n, m in zip(known, shape))):
            return ""
        return f"expected {known} vs saved {shape}"

    def _load_dtype(self, data: NDArray, cast_dtype: bool, dtype_source: str) -> NDArray:
        if not cast_dtype:
            raise CheckError(
                f"Failed loading Parameter '{self.name}' from saved params: dtype incompatible expected "
                f"{self.dtype} vs saved {data.dtype}. Set cast_dtype=True to cast the dtype of saved params."
            )
        if dtype_source == "saved":
            self.cast(data.dtype)
            return data
        return NDArray(data.asnumpy().astype(self.dtype))

    def _check_same_devices(self, devices: list[Context]) -> None:
        if set(devices) != set(self.list_ctx()):
            raise CheckError(
                f"Failed to load Parameter '{self.name}' on {devices} because it was previous initialized on "
                f"{self.list_ctx()}."
            )

    def reduce(self) -> NDArray:
        """The mean of the values on all devices, on ``cpu(0)``; of a sparse parameter those of the first."""
        if self._stype != "default":
            return self._initialized()[0].copy()
        first, *others = [x.asnumpy() for x in self._initialized()]
        # COMPAT(mxnet): copies that are equal give themselves, also where a sum of them would be rounded.
        if all(np.array_equal(first, x) for x in others):
            return NDArray(first)
        return NDArray((sum(others, first) / (1 + len(others))).astype(first.dtype))

    # MXNet's internal names, which code in the wild uses.
    _finish_deferred_init = finish_deferred_init
    _load_init = load_init
    _reduce = reduce

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_trainer": None, "_var": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._data is not None and self._grad is not None:  # copies of arrays do not know their gradients
            autograd.mark_variables(self._data, self._grad, self.grad_req)


def _devices(ctx: Any, name: str) -> list[Context]:
    """The requested devices: several of the CPU, each with a copy of its own, or one GPU."""
    given: list[Any] = [ctx] if ctx is None or isinstance(ctx, Context | str) else list(ctx)
    devices = list({check_device(each): None for each in given})
    if not devices:
        raise AttributeValueError(f"Parameter '{name}': ctx is an empty list; give a device such as mx.cpu()")
    if len(devices) > 1 and any(device.device_type == "gpu" for device in devices):
        raise UnsupportedError(
            f"Parameter '{name}': several devices are supported on the CPU only, got {devices}; use one GPU"
        )
    return devices


def _as_dtype(array: NDArray, dtype: Any) -> NDArray:
    """The values in another dtype, where they were."""
    if array.stype != "default":
        return array.astype(dtype)
    return NDArray(array.asnumpy().astype(dtype)).as_in_context(array.context)


def _seed(key: Any) -> int:
    """A seed for a parameter's random initial value, from its reserved random key."""
    return (int(key[0]) * 0x9E3779B97F4A7C15 + int(key[1]) * 0xD1B54A32D192ED03 + 1) & (1 << 64) - 1


def _fill(name: str, data: NDArray, init: Any, default_init: Any) -> None:
    """Run the initializer: as the attribute ``__init__`` it does not look at what the name ends with."""
    # COMPAT(mxnet): Mixed, Load and plain functions may initialise networks too.
    if not isinstance(init, str | initializer.Initializer) and callable(init):
        init(initializer.InitDesc(name), data)
        return
    vehicle = default_init if isinstance(default_init, str | initializer.Initializer) else init
    attrs: dict[str, Any] = {"__init__": init}
    initializer.create(vehicle)(initializer.InitDesc(name, attrs), data)


class Constant(Parameter):
    """An array that is not trained; ``set_data`` can change it.

    Blocks make theirs with ``self.params.get_constant(name, value)``.

    Parameters
    ----------
    name:
        The name, which files know it by.
    value:
        An NDArray, or what ``mx.nd.array`` takes: a NumPy array, a number, a list. It says shape and dtype.

    Examples
    --------
    >>> scale = gluon.Constant("scale", [[1, 2], [3, 4]])
    >>> scale.initialize()
    >>> scale.data().asnumpy(), scale.grad_req
    (array([[1., 2.],
           [3., 4.]], dtype=float32), 'null')
    """

    def __init__(self, name: str, value: Any) -> None:
        # COMPAT(mxnet): lists, NumPy arrays and NDArrays alike, also where the constant exists already.
        made = value if isinstance(value, NDArray) else nd.array(value)
        self.value = made if made.ndim else made.reshape((1,))
        super().__init__(name, grad_req="null", shape=self.value.shape, dtype=self.value.dtype, init=_Value(self.value))

    @property
    def grad_req(self) -> str:
        """Always 'null'."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        self._grad_req = "null"
        if req != "null":
            warnings.warn(
                f'Constant parameter "{self.name}" does not support grad_req other than "null", and new '
                f'value "{req}" '
                "is ignored.",
                stacklevel=user_depth(),
            )


class _Value(initializer.Initializer):
    """The given array."""

    def __init__(self, value: NDArray) -> None:
        super().__init__()
        self._value = value

    def _init_weight(self, name: str, arr: Any) -> None:
        arr[:] = self._value


explain_habits("Parameter", Parameter)


class ParameterDict:
    """Parameters by their full names, in the order in which they were made; ``net.collect_params()`` gives one.

    Parameters
    ----------
    prefix:
        The beginning of the names of parameters that :meth:`get` makes.
    shared:
        A ParameterDict in which :meth:`get` looks before it makes a parameter; None: there is none.

    Examples
    --------
    >>> params = gluon.ParameterDict("net_")
    >>> weight = params.get("weight", shape=(2, 3))
    >>> params.get("weight") is weight
    True
    >>> params.initialize()
    >>> {name: param.data().shape for name, param in params.items()}
    {'net_weight': (2, 3)}
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix = prefix
        self._params: dict[str, Parameter] = {}
        self._shared = shared

    def __repr__(self) -> str:
        head = self._prefix + " " if self._prefix else ""
        return f"{head}(\n" + "\n".join("  " + indent(repr(p), 2) for p in self.values()) + "\n)"

    def _repr_html_(self) -> str:
        from hybridc.ground.display.block_html import parameters_html

        return parameters_html(f"{self._prefix}: " if self._prefix else "", self.values())

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def items(self) -> ItemsView[str, Parameter]:
        """Names and parameters."""
        return self._params.items()

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """The parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """The prefix of the names of new parameters."""
        return self._prefix

    @property
    def shared(self) -> ParameterDict | None:
        """The dictionary in which parameters are looked up before they are made."""
        return self._shared

    # --- making parameters ---------------------------------------------------------------------------------

    def _find(self, name: str) -> Parameter | None:
        if name not in self._params and self._shared is not None and name in self._shared:
            self._params[name] = self._shared[name]
        return self._params.get(name)

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """The parameter of a name, made if there is none.

        Parameters
        ----------
        name:
            The name without the prefix.
        **kwargs:
            Arguments of :class:`Parameter`. Of one that exists they must be the same, where they are given; else they
            are a CheckError.
        """
        name = self.prefix + name
        param = self._find(name)
        if param is None:
            param = self._params[name] = Parameter(name, **kwargs)
            return param
        for key, wanted in kwargs.items():
            _agree(param, key, wanted)
        return param

    def get_constant(self, name: str, value: Any = None) -> Parameter:
        """The constant of a name, made if there is none.

        Parameters
        ----------
        name:
            The name without the prefix.
        value:
            The value of a new constant, a KeyError without. Of one that exists it must be equal, else a CheckError;
            None: whatever it is.
        """
        name = self.prefix + name
        param = self._find(name)
        if param is None and value is None:
            raise KeyError(f"No constant named '{name}'. Please specify value if you want to create a new constant.")
        if param is None:
            param = self._params[name] = Constant(name, value)
            return param
        if value is None:
            return param
        if not isinstance(param, Constant):
            raise CheckError(f"Parameter '{name}' already exists but it is not a constant.")
        new, old = Constant(name, value).value.asnumpy(), param.value.asnumpy()
        if new.shape != old.shape or not np.array_equal(new, old):
            raise CheckError(f"Constant '{name}' already exists but it's value doesn't match new value")
        return param

    def update(self, other: ParameterDict | Mapping[str, Parameter]) -> None:
        """Take over all parameters of another dict.

        Parameters
        ----------
        other:
            A ParameterDict, or a dict by name. Another parameter of a name that is there is a CheckError.
        """
        for name, param in other.items():
            if self._params.get(name, param) is not param:
                raise CheckError(
                    f"Cannot update self with other because they have different Parameters with the same name '{name}'"
                )
        self._params.update(other.items())

    # --- doing something with all --------------------------------------------------------------------------

    def initialize(self, init: Any = None, ctx: Any = None, verbose: bool = False, force_reinit: bool = False) -> None:
        """Make and fill the arrays of all parameters; of those whose shapes are not known, at the first call.

        Parameters
        ----------
        init:
            The initializer, or its registered name, of parameters that have none of their own; None: Uniform.
        ctx:
            The device of the parameters, or a list of devices of the CPU for a copy on each; None: the current one.
        verbose:
            Whether the initializer logs what it does.
        force_reinit:
            Whether parameters that have arrays get new ones; else they stay as they are, with a warning.
        """
        init = initializer.Uniform() if init is None else init
        if isinstance(init, str):
            init = initializer.create(init)
        if verbose and isinstance(init, initializer.Initializer):
            init.set_verbosity(verbose=verbose)
        for param in self.values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        for param in self.values():
            param.zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move all parameters to other devices.

        Parameters
        ----------
        ctx:
            The device, or a list of devices of the CPU; None: the current one.
        """
        for param in self.values():
            param.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """The devices that hold parameters."""
        return list({ctx: None for param in self.values() for ctx in param.list_ctx()})

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all parameters.

        Parameters
        ----------
        name:
            The name of the attribute, as "grad_req" or "lr_mult".
        value:
            Its value.

        Examples
        --------
        >>> net = nn.Dense(2, in_units=3)
        >>> net.collect_params().setattr("grad_req", "null")  # train none of them
        >>> net.weight.grad_req
        'null'
        """
        for param in self.values():
            setattr(param, name, value)

    # --- files ---------------------------------------------------------------------------------------------

    def save(self, filename: str, strip_prefix: str = "", metadata: Mapping[str, str] | None = None) -> None:
        """Save the values of all parameters under their names.

        Parameters
        ----------
        filename:
            The file. Its ending says the format: ``.safetensors``, ``.npz``, or MXNet's for all others.
        strip_prefix:
            What the names begin with, and is left out; a name that does not is a ValueError.
        metadata:
            Texts by name, which are put into a file of safetensors.
        """
        named: dict[str, NDArray] = {}
        for param in self.values():
            if not param.name.startswith(strip_prefix):
                raise ValueError(
                    f"Prefix '{strip_prefix}' is to be striped before saving, but Parameter's name "
                    f"'{param.name}' does not start with it; does the block share parameters with another, "
                    "or were children made outside name_scope()? save_parameters() does not need prefixes"
                )
            named[param.name[len(strip_prefix) :]] = param.reduce()
        storage.save(filename, named, metadata)

    def load(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
        name_map: NameMap | None = None,
    ) -> None:
        """Load values that :meth:`save` wrote. Nothing is loaded if names or shapes do not fit.

        Parameters
        ----------
        filename:
            The file.
        ctx:
            The device of the parameters, or a list of devices; None: where they are, else the current one.
        allow_missing:
            Whether parameters that the file does not have stay as they are; else they are a CheckError.
        ignore_extra:
            Whether arrays of the file that no parameter has the name of are left out; else they are a CheckError.
        restore_prefix:
            What is put before the names in the file.
        cast_dtype:
            Whether the dtypes of the file and of the parameters may differ; else that is a CheckError.
        dtype_source:
            With ``cast_dtype`` "current": values get the dtype of their parameters; "saved": parameters get that of
            the file.
        name_map:
            The name for one of the file, or None to leave an array out: a function, or a dict of the names that differ.
        """
        for name in self.keys():
            if not name.startswith(restore_prefix):
                raise CheckError(
                    f"restore_prefix is '{restore_prefix}' but Parameters name '{name}' does not start with it"
                )
        loaded = renamed(storage.load_named(filename), name_map, filename)
        self.load_dict(loaded, ctx, allow_missing, ignore_extra, restore_prefix, filename, cast_dtype, dtype_source)

    def load_dict(
        self,
        param_dict: Mapping[str, NDArray],
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Load values from a dict. Nothing is loaded if names or shapes do not fit.

        Parameters
        ----------
        param_dict:
            Arrays by name; ``arg:`` and ``aux:`` before the names are dropped.
        ctx:
            The device of the parameters, or a list of devices; None: where they are, else the current one.
        allow_missing:
            Whether parameters that the dict does not have stay as they are; else they are a CheckError.
        ignore_extra:
            Whether arrays that no parameter has the name of are left out; else they are a CheckError.
        restore_prefix:
            What is put before the names in the dict.
        filename:
            The file that error texts name; None: they say "param_dict".
        cast_dtype:
            Whether the dtypes of the values and of the parameters may differ; else that is a CheckError.
        dtype_source:
            With ``cast_dtype`` "current": values get the dtype of their parameters; "saved": parameters get that of
            the values.
        """
        source = f"file: {filename}" if filename else "param_dict"
        named = {restore_prefix + _plain_name(name): value for name, value in param_dict.items()}
        mismatch = mismatch_of(self._params, named)
        if mismatch.missing and not allow_missing:
            raise CheckError(
                f"Parameter '{mismatch.missing[0][len(restore_prefix) :]}' is missing in {source}, which contains "
                f"parameters: {brief(named)}. Please make sure source and target networks have the same "
                f"prefix, or set allow_missing=True{mismatch.report()}"
            )
        if mismatch.extra and not ignore_extra:
            raise CheckError(
                f"Parameter '{mismatch.extra[0][len(restore_prefix) :]}' loaded from {source} is not present in "
                f"ParameterDict, choices are: {brief(self._params)}. Set ignore_extra to True to ignore. "
                f"Please make sure source and target networks have the same prefix.{mismatch.report()}"
            )
        load_values(self._params, named, mismatch, ctx, cast_dtype, dtype_source)


def mismatch_of(params: Mapping[str, Parameter], values: Mapping[str, NDArray]) -> NameMismatch:
    """How names and shapes of saved values differ from those of parameters; one that is shared may have any name."""
    present = {id(param) for name, param in params.items() if name in values}
    wrong = {name: params[name].shape_mismatch(value.shape) for name, value in values.items() if name in params}
    return NameMismatch(
        [name for name, param in params.items() if id(param) not in present],
        [name for name in values if name not in params],
        {name: text for name, text in wrong.items() if text},
    )


def load_values(
    params: Mapping[str, Parameter],
    values: Mapping[str, NDArray],
    mismatch: NameMismatch,
    ctx: Any,
    cast_dtype: bool,
    dtype_source: str,
) -> None:
    """Let parameters take the values that are theirs: all, or none if a shape differs."""
    # COMPAT(mxnet): there the values before the first that does not fit are loaded.
    for name, wrong in mismatch.shapes.items():
        raise CheckError(
            f"Failed loading Parameter '{params[name].name}' from saved params: shape incompatible {wrong}"
            f"{mismatch.report()}"
        )
    for name, value in values.items():
        if name in params:
            params[name].load_init(value, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source)


def _plain_name(name: str) -> str:
    return name[4:] if name.startswith(("arg:", "aux:")) else name


def _agree(param: Parameter, key: str, wanted: Any) -> None:
    """Check that an existing parameter matches the request; complete its shape from it."""
    existing = getattr(param, key, None)
    if existing is None:
        setattr(param, key, wanted)
        return
    if key == "shape" and wanted is not None:
        wanted = (wanted,) if isinstance(wanted, int) else tuple(wanted)
        if len(wanted) == len(existing) and all(a == b or min(a, b) <= 0 for a, b in zip(wanted, existing)):
            merged = tuple(max(a, b) for a, b in zip(wanted, existing))
            if merged != existing:
                param.shape = merged
            return
    if key == "dtype" and wanted is not None and np.dtype(wanted) == np.dtype(existing):
        return
    if wanted is not None and wanted != existing:
        raise CheckError(
            f"Cannot retrieve Parameter '{param.name}' because desired attribute does not match with stored "
            f"for attribute '{key}': desired '{wanted}' vs stored '{existing}'."
        )
