"""The executors of a data-parallel module: one for each device, each of which computes a slice of the batch."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.context import Context
from hybridc.dtypes import TYPES
from hybridc.errors import AttributeValueError, CheckError, ShapeError, UnknownNameError
from hybridc.executor import Executor
from hybridc.io import DataDesc

__all__ = ["DataParallelExecutorGroup"]

# Sets of executors that a group keeps for other shapes than those it was bound for: each holds compiled programs.
_MOST_SHAPES = 16
# The dtypes by which the attribute __dtype__ of a variable calls them, in MXNet's numbering.
_DTYPES = {str(t.flag): t.name for t in TYPES.values()}

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


def split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """The slice of a batch for each device, in proportion to their work loads."""
    total = sum(work_load_list)
    sizes = [round(load * batch_size / total) for load in work_load_list]
    sizes[-1] += max(0, batch_size - sum(sizes))
    slices: list[slice] = []
    end = 0
    for size in sizes:
        begin, end = end, min(end + size, batch_size)
        if begin >= end:
            raise ValueError(
                f"Too many slices. Some splits are empty: a batch of {batch_size} samples for work loads "
                f"{list(work_load_list)}; use larger batches, or fewer devices"
            )
        slices.append(slice(begin, end))
    return slices


def as_descriptions(described: Any) -> list[DataDesc]:
    """Descriptions from those or tuples of a name, a shape and maybe a dtype and a layout."""
    return [x if isinstance(x, DataDesc) else DataDesc(*x) for x in described]


class DataParallelExecutorGroup:
    """The executors of a symbol on several devices, which share nothing; parameters are copied to all of them.

    Parameters
    ----------
    symbol:
        The symbol.
    contexts, workload:
        The devices, and numbers that say how large a part of a batch each computes.
    data_shapes, label_shapes:
        Descriptions of inputs in the order in which batches give them; ``label_shapes`` may be None.
    param_names:
        The arguments that are parameters.
    for_training:
        Whether there are gradients, and whether a forward is one of training by default.
    inputs_need_grad:
        Whether there are gradients of the data.
    shared_group:
        A group with the same parameters, whose arrays are used.
    logger:
        Where messages go.
    fixed_param_names, state_names:
        Parameters without gradients, and arguments that keep their values from batch to batch.
    grad_req:
        ``"write"``, ``"add"`` or ``"null"``, or a list or dict of these by argument.
    group2ctxs:
        Devices of variables by their attribute ``"ctx_group"``: a dict, or a list of one for each of ``contexts``;
        None for none.
    """

    def __init__(
        self,
        symbol: Any,
        contexts: Sequence[Context],
        workload: Sequence[float],
        data_shapes: Any,
        label_shapes: Any,
        param_names: Sequence[str],
        for_training: bool,
        inputs_need_grad: bool,
        shared_group: DataParallelExecutorGroup | None = None,
        logger: Any = logging,
        fixed_param_names: Sequence[str] | None = None,
        grad_req: Any = "write",
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
    ) -> None:
        self.symbol = symbol
        self.contexts = list(contexts)
        self.workload = list(workload)
        self.param_names = list(param_names)
        self.arg_names: list[str] = symbol.list_arguments()
        self.aux_names: list[str] = symbol.list_auxiliary_states()
        self.output_names: list[str] = symbol.list_outputs()
        self.num_outputs = len(self.output_names)
        self.fixed_param_names = list(fixed_param_names or ())
        self.state_names = list(state_names or ())
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self.logger = logger
        self.group2ctxs = _groups(group2ctxs, len(self.contexts))
        self.batch_size: int = 0
        self.slices: list[slice] = []
        self.execs: list[Executor] = []
        self.output_layouts = [DataDesc.get_batch_axis(symbol[i].attr("__layout__")) for i in range(self.num_outputs)]
        data = as_descriptions(data_shapes)
        labels = None if label_shapes is None else as_descriptions(label_shapes)
        self.grad_req = self._grad_req(grad_req if for_training else "null", [x.name for x in data])
        self.data_shapes, self.label_shapes = data, labels
        self.data_layouts: list[int] = []
        self.label_layouts: list[int] = []
        self._set_shapes(data, labels)
        for i in range(len(self.contexts)):
            self.execs.append(self._bound(i, None if shared_group is None else shared_group.first_execs[i]))
        self.first_execs = self.execs
        # Arguments that are no parameters, which groups with the same parameters share where the shapes are the same.
        self.shared_data_arrays: list[dict[str, NDArray]] = (
            [{} for _ in self.contexts] if shared_group is None else shared_group.shared_data_arrays
        )
        for known, each in zip(self.shared_data_arrays, self.execs, strict=False):
            for name, array in each.arg_dict.items():
                if name not in self.param_names:
                    known.setdefault(name, array)
        # Those of each device; executors of all shapes share them.
        named = [{**each.arg_dict, **each.aux_dict} for each in self.execs]
        grads = [each.grad_dict for each in self.execs]
        self.param_arrays = [[arrays[name] for arrays in named] for name in self.param_names]
        self.grad_arrays = [[arrays[name] for arrays in grads] for name in self.param_names]
        self.aux_arrays = [[arrays[name] for arrays in named] for name in self.aux_names]
        self._by_shapes: OrderedDict[Shapes, list[Executor]] = OrderedDict()

    def _grad_req(self, given: Any, data_names: Sequence[str]) -> dict[str, str]:
        if isinstance(given, list | tuple):
            reqs = cast("list[str]", list(given))  # pyright: ignore[reportUnknownArgumentType]
            if len(reqs) != len(self.arg_names):
                raise CheckError(f"grad_req has {len(reqs)} entries for {len(self.arg_names)} arguments")
            return dict(zip(self.arg_names, reqs, strict=True))
        if not isinstance(given, str | Mapping):
            raise AttributeValueError(f"grad_req must be one of str, list, tuple, or dict, got {given!r}")
        usual = given if isinstance(given, str) else "write"
        trained = {name for name in self.param_names if name not in self.fixed_param_names}
        if self.inputs_need_grad:
            trained.update(data_names)
        reqs = {name: usual if name in trained else "null" for name in self.arg_names}
        return reqs if isinstance(given, str) else {**reqs, **cast("Mapping[str, str]", given)}

    @property
    def total_exec_bytes(self) -> int:
        """Bytes of the arrays of all executors: arguments, gradients and auxiliary states."""
        made = {id(x): x for each in self.execs for x in (*each.arg_arrays, *each.grad_arrays, *each.aux_arrays)}
        return sum(x.size * np.dtype(x.dtype).itemsize for x in made.values() if x is not None)

    # --- shapes --------------------------------------------------------------------------------------------

    def _set_shapes(self, data: list[DataDesc], labels: list[DataDesc] | None) -> None:
        self.batch_size = 0
        self.data_layouts = self._batch_axes(data)
        self.label_layouts = self._batch_axes(labels or [])
        for each in labels or []:
            if each.name not in self.arg_names:
                raise UnknownNameError(
                    f"bind: label_shapes has {each.name!r}, which is no argument of the symbol: "
                    f"{', '.join(self.arg_names)}; leave label_shapes out if the symbol has no labels"
                )
        self.data_shapes, self.label_shapes = data, labels
        self.data_names = [x.name for x in data]
        self.label_names = [x.name for x in labels or []]
        if not self.slices:  # no input has a batch
            self.slices = [slice(i, i + 1) for i in range(len(self.contexts))]

    def _batch_axes(self, described: list[DataDesc]) -> list[int]:
        """Where the samples are in each of these; -1 where there are none. All must have equally many."""
        axes = [DataDesc.get_batch_axis(x.layout) for x in described]
        for (name, shape), axis in zip(described, axes, strict=True):
            if axis < 0:
                continue
            if not self.batch_size:
                self.batch_size = shape[axis]
                self.slices = split_input_slice(self.batch_size, self.workload)
            elif shape[axis] != self.batch_size:
                raise CheckError(
                    f"all data must have the same batch size: batch_size = {self.batch_size}, but {name} has "
                    f"shape {shape}"
                )
        return axes

    def _sliced(self, i: int) -> list[DataDesc]:
        """The descriptions of what device ``i`` gets."""
        found: list[DataDesc] = []
        all_axes = [*self.data_layouts, *self.label_layouts]
        described: list[DataDesc] = [*self.data_shapes, *(self.label_shapes or [])]
        for each, axis in zip(described, all_axes, strict=True):
            shape = list(each.shape)
            if axis >= 0:
                shape[axis] = self.slices[i].stop - self.slices[i].start
            found.append(DataDesc(each.name, tuple(shape), each.dtype, each.layout))
        return found

    def _bound(self, i: int, shared: Executor | None) -> Executor:
        inputs = self._sliced(i)
        types: dict[str, Any] = {x.name: x.dtype for x in inputs}
        attributes = self.symbol.attr_dict()
        for each in self.data_shapes:
            number = attributes.get(each.name, {}).get("__dtype__", "-1")
            if number != "-1":
                types[each.name] = _DTYPES[number]
        return self.symbol.simple_bind(
            ctx=self.contexts[i],
            grad_req=self.grad_req,
            type_dict=types,
            shared_exec=shared,
            group2ctx=self.group2ctxs[i],
            **{x.name: x.shape for x in inputs},
        )

    def reshape(self, data_shapes: Any, label_shapes: Any) -> None:
        """Go on with executors for other shapes, with the same parameters; those for a shape are kept.

        Parameters
        ----------
        data_shapes, label_shapes:
            As for the constructor.
        """
        data = as_descriptions(data_shapes)
        labels = None if label_shapes is None else as_descriptions(label_shapes)
        if data == self.data_shapes and labels == self.label_shapes:
            return
        before = self.data_shapes, self.label_shapes
        self._by_shapes[self._key()] = self.execs
        self._by_shapes.move_to_end(self._key())
        try:
            self._set_shapes(data, labels)
            known = self._by_shapes.get(self._key())
            if known is None:
                known = [self._reshaped(i, each) for i, each in enumerate(self.first_execs)]
        except Exception:
            self._set_shapes(*before)
            raise
        self.execs = known
        while len(self._by_shapes) > _MOST_SHAPES:
            self._by_shapes.popitem(last=False)

    def _reshaped(self, i: int, executor: Executor) -> Executor:
        """The executor of a device for the present shapes. Labels that batches do not have take the shape they must."""
        # COMPAT(mxnet): there a batch without labels, of another size than those with labels, is an error.
        made = executor.reshape(True, True, **cast("dict[str, Any]", {x.name: x.shape for x in self._sliced(i)}))
        arrays, others = executor.arg_dict, made.arg_dict
        for name in self.param_names:
            if arrays[name] is not others[name]:
                raise ShapeError(
                    f"reshape: for batches of {', '.join(f'{x.name}: {x.shape}' for x in self.data_shapes)} the "
                    f"parameter {name} would need the shape {others[name].shape} instead of {arrays[name].shape}"
                )
        return made

    def _key(self) -> Shapes:
        described = [*self.data_shapes, *(self.label_shapes or [])]
        return tuple((x.name, tuple(x.shape)) for x in described)

    @property
    def state_arrays(self) -> list[list[NDArray]]:
        """The states: for each, the array of each device."""
        return [[each.arg_dict[name] for each in self.execs] for name in self.state_names]

    # --- parameters and states -----------------------------------------------------------------------------

    def set_params(
        self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray], allow_extra: bool = False
    ) -> None:
        """Copy values into the parameters and auxiliary states of all devices.

        Parameters
        ----------
        arg_params, aux_params:
            Values by name.
        allow_extra:
            Whether names that the symbol lacks are ignored; else they are a ValueError.
        """
        for each in self.first_execs:
            each.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]) -> None:
        """Copy the parameters and auxiliary states, each the mean over devices, into these arrays.

        Parameters
        ----------
        arg_params, aux_params:
            Arrays by name.
        """
        for name, block in zip(self.param_names, self.param_arrays, strict=True):
            _mean(block).copyto(arg_params[name])
        for name, block in zip(self.aux_names, self.aux_arrays, strict=True):
            _mean(block).copyto(aux_params[name])

    def get_states(self, merge_multi_context: bool = True) -> list[list[NDArray]]:
        """The states: for each, the array of each device; ``merge_multi_context`` must be False."""
        if merge_multi_context:
            raise CheckError("merge_multi_context=True is not supported for get_states yet; set it to False")
        return self.state_arrays

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states; exactly one of both is given.

        Parameters
        ----------
        states:
            For each state, the array of each device, or an array of a whole batch.
        value:
            A number for all of them.
        """
        if (states is None) == (value is None):
            raise CheckError("set_states: exactly one of states and value must be given")
        for i, targets in enumerate(self.state_arrays):
            given = [value] * len(targets) if states is None else states[i]
            sources = self._parts(given, 0) if isinstance(given, NDArray) else given
            for target, source in zip(targets, sources, strict=True):
                target[:] = source

    # --- computing -----------------------------------------------------------------------------------------

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch.

        Parameters
        ----------
        data_batch:
            A DataBatch, or a list with one for each device.
        is_train:
            Whether it is one of training; None is ``for_training``.
        """
        first = cast("Any", data_batch)[0] if isinstance(data_batch, list) else data_batch
        self._load(data_batch, "data", self.data_names, self.data_layouts)
        if self.label_names and getattr(first, "label", None):
            self._load(data_batch, "label", self.label_names, self.label_layouts)
        training = self.for_training if is_train is None else is_train
        for each in self.execs:
            each.forward(is_train=training)

    def _load(self, data_batch: Any, kind: str, names: Sequence[str], axes: Sequence[int]) -> None:
        """Copy the arrays of a batch into the executors."""
        if isinstance(data_batch, list):
            parts: list[Any] = [getattr(each, kind) for each in data_batch]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        else:
            sliced = [self._parts(x, axis) for x, axis in zip(getattr(data_batch, kind), axes, strict=False)]
            parts = list(zip(*sliced, strict=True))
        for each, arrays in zip(self.execs, parts, strict=True):
            for name, array in zip(names, arrays, strict=False):
                array.copyto(each.arg_dict[name])

    def _parts(self, array: NDArray, axis: int) -> list[NDArray]:
        """The slice of an array for each device; all of it where there are no samples."""
        if len(self.execs) == 1 or axis < 0:
            return [array] * len(self.execs)
        if axis == 0:
            return [array[part] for part in self.slices]
        return [nd.slice_axis(array, axis=axis, begin=part.start, end=part.stop) for part in self.slices]

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients; ``out_grads`` are those of the outputs, of whole batches."""
        if not self.for_training:
            raise CheckError("re-bind with for_training=True to run backward")
        grads: list[NDArray] = [out_grads] if isinstance(out_grads, NDArray) else list(out_grads or ())
        sliced = [self._parts(g, axis) for g, axis in zip(grads, self.output_layouts, strict=False)]
        for i, each in enumerate(self.execs):
            each.backward([parts[i] for parts in sliced] or None)

    def get_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs, of whole batches."""
        found: list[tuple[str, tuple[int, ...]]] = []
        for name, output, axis in zip(self.output_names, self.execs[0].outputs, self.output_layouts, strict=True):
            shape = list(output.shape)
            if axis >= 0 and shape:
                shape[axis] = self.batch_size
            found.append((name, tuple(shape)))
        return found

    def get_outputs(self, merge_multi_context: bool = True, begin: int = 0, end: int | None = None) -> list[Any]:
        """The outputs.

        Parameters
        ----------
        merge_multi_context:
            Whether those of the devices are joined; else each output is a list by device.
        begin, end:
            Only those from ``begin`` on, up to but without ``end``; None for all.
        """
        found = [[each.outputs[i] for each in self.execs] for i in range(self.num_outputs)[begin:end]]
        return _merged(found, self.output_layouts[begin:end]) if merge_multi_context else found

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients of the data, as :meth:`get_outputs` gives outputs; ``merge_multi_context`` as there."""
        if not self.inputs_need_grad:
            raise CheckError("get_input_grads: there are none; bind with inputs_need_grad=True")
        found = [[each.grad_dict[name] for each in self.execs] for name in self.data_names]
        return _merged(found, self.data_layouts) if merge_multi_context else found

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs and labels of each device.

        Parameters
        ----------
        eval_metric:
            The metric.
        labels:
            The labels of the batch, a list; None for none.
        pre_sliced:
            Whether they are a list for each device.
        """
        # COMPAT(mxnet): a module that was bound without labels has a metric of outputs here; there it fails.
        parts = labels
        if not pre_sliced:
            sliced = [self._parts(x, axis) for x, axis in zip(labels or (), self.label_layouts, strict=False)]
            parts = [[x[i] for x in sliced] for i in range(len(self.execs))]
        for each, arrays in zip(self.execs, parts, strict=True):
            named = OrderedDict(zip(self.label_names, arrays, strict=False))
            eval_metric.update_dict(named, OrderedDict(zip(self.output_names, each.outputs, strict=True)))

    def install_monitor(self, mon: Any) -> None:
        """Let the monitor ``mon`` look at all executors."""
        for each in self.first_execs:
            mon.install(each)


def _mean(block: Sequence[NDArray]) -> NDArray:
    if len(block) == 1:
        return block[0]
    total = block[0].copy()
    for each in block[1:]:
        total += each.as_in_context(total.context)
    return total / len(block)


def _merged(outputs: Sequence[Sequence[Any]], axes: Sequence[int]) -> list[Any]:
    """The arrays of several devices as one; the first where there are no samples."""
    return [
        parts[0]
        if len(parts) == 1 or axis < 0
        else nd.concat(*[x.as_in_context(parts[0].context) for x in parts], dim=axis)
        for parts, axis in zip(outputs, axes, strict=True)
    ]


def _groups(given: Any, count: int) -> list[Mapping[str, Context] | None]:
    """For each executor the devices of groups of operators, by ``ctx_group``."""
    if given is None:
        return [None] * count
    if isinstance(given, Mapping):
        each: dict[str, list[Context]] = {}
        for name, devices in cast("Mapping[str, Any]", given).items():
            listed: list[Context] = [devices] if isinstance(devices, Context) else list(devices)
            each[name] = listed * count if len(listed) == 1 else listed
        if any(len(devices) != count for devices in each.values()):
            raise CheckError(f"group2ctxs: a group must have one device, or one for each of {count}, got {given}")
        return [{name: devices[i] for name, devices in each.items()} for i in range(count)]
    if not isinstance(given, list) or len(cast("list[Any]", given)) != count:
        raise CheckError(f"group2ctxs must be a dict, or a list of {count} dicts, one a device, got {given!r}")
    return cast("list[Mapping[str, Context] | None]", given)
