"""``mx.executor``: a composed symbol bound to arrays, compiled as a hybridized block is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np

from hybridc import autograd
from hybridc.array.ndarray import NDArray, at, buffer_of, plain, wrap
from hybridc.array.numpy_array import as_default, legacy
from hybridc.compile.compiled_graph import CompiledGraph
from hybridc.context import Context, check_device
from hybridc.dialects.array.shape_rules import is_known
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import is_float
from hybridc.errors import ArgumentTypeError, AttributeValueError, MXNetError, ShapeError
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.ground.events import RECORDER, now
from hybridc.sparse_storage import zeros
from hybridc.symbol import graph
from hybridc.symbol.graph import SymbolNode
from hybridc.symbol.infer import Shapes, Types, by_name
from hybridc.symbol.node_attributes import storage_type
from hybridc.symbol.running.bind import evaluate
from hybridc.symbol.running.sparse_graphs import SparseGraphs
from hybridc.symbol.running.symbol_graphs import SymbolGraphs, of_trace

__all__ = ["Executor"]

_REQS = ("write", "add", "null")
Monitor = Callable[[bytes, NDArray], Any]

_FLOAT32 = np.dtype(np.float32)


class Executor:
    """Runs a symbol on the arrays that it was bound to; ``bind`` and ``simple_bind`` of a symbol make one.

    ``forward`` computes ``outputs``, ``backward`` puts gradients into ``grad_arrays``. Change the inputs in place, as
    in ``executor.arg_dict["data"][:] = x``, or give them to ``forward``.

    Parameters
    ----------
    symbol:
        The symbol.
    ctx:
        The device.
    arg_arrays, aux_arrays:
        The arguments and the auxiliary states, in the order of their names.
    grad_arrays:
        For each argument the array of its gradient, or None.
    reqs:
        For each argument ``"write"``, ``"add"`` or ``"null"``.
    groups:
        Devices by the attribute ``"ctx_group"`` of variables and outputs.

    Examples
    --------
    >>> executor = (mx.sym.var("x") * mx.sym.var("w")).simple_bind(x=(2,), w=(2,))
    >>> executor.arg_dict["w"][:] = 10
    >>> executor.forward(is_train=True, x=mx.nd.array([1, 2]))[0].tolist()
    [10.0, 20.0]
    >>> executor.backward()
    >>> executor.grad_dict["w"].tolist()
    [1.0, 2.0]
    """

    def __init__(
        self,
        symbol: Any,
        ctx: Context,
        arg_arrays: Sequence[NDArray],
        grad_arrays: Sequence[NDArray | None],
        reqs: Sequence[str],
        aux_arrays: Sequence[NDArray],
        groups: Mapping[str, Context] | None = None,
        results: Sequence[tuple[Shape | None, DType | None]] | None = None,
    ) -> None:
        """``results`` are shapes and dtypes of the outputs, if they have been inferred."""
        self._shared: SymbolGraphs = symbol.graphs
        self._symbol = symbol = type(symbol)(graph.owned(symbol.entries), symbol.graphs)
        self._ctx = ctx
        self._groups = groups or {}
        self.arg_arrays = list(arg_arrays)
        self.grad_arrays = list(grad_arrays)
        self.aux_arrays = list(aux_arrays)
        self._arg_names, self._aux_names = ([n.name for n in nodes] for nodes in graph.inputs(symbol.entries))
        self._reqs = ["null" if g is None else r for r, g in zip(reqs, grad_arrays, strict=True)]
        self._graphs: dict[tuple[bool, bool], CompiledGraph] = {}
        self._sparse: SparseGraphs | None = None
        self._places: dict[str, int] = {name: i for i, name in enumerate([*self._arg_names, *self._aux_names])}
        self._monitor: tuple[Monitor, bool] | None = None
        self._heads: list[NDArray] = []
        self._marked: list[NDArray] = []  # the inputs of the last recorded run whose gradients are wanted
        self._is_train: bool | None = None
        arrays = {**self.arg_dict, **self.aux_dict}
        self._dtypes = {name: x._data.dtype for name, x in arrays.items()}
        if results is None:
            shapes = Shapes(symbol.entries, {n: x.shape for n, x in arrays.items()}, "bind", exact=True)
            dtypes = Types(symbol.entries, self._dtypes, what="bind")
            results = [(shapes.get(e), dtypes.get(e)) for e in symbol.entries]
        self.outputs: list[NDArray] = as_default(
            [
                at(
                    _device(node, ctx, self._groups),
                    NDArray(np.zeros(shape or (), _FLOAT32 if dtype is None else dtype)),
                )
                for (node, _), (shape, dtype) in zip(symbol.entries, results, strict=True)
            ]
        )

    # --- what it holds -------------------------------------------------------------------------------------

    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """The arguments by name."""
        return dict(zip(self._arg_names, self.arg_arrays, strict=True))

    @property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """The gradients by the names of the arguments; None where there is none."""
        return dict(zip(self._arg_names, self.grad_arrays, strict=True))

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """The auxiliary states by name."""
        return dict(zip(self._aux_names, self.aux_arrays, strict=True))

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The outputs by name."""
        names: list[str] = self._symbol.list_outputs()
        if len(set(names)) < len(names):
            raise ValueError(f"Duplicate names detected, {names}")
        return dict(zip(names, self.outputs, strict=True))

    @property
    def _who(self) -> str:
        return f"the executor of {self._symbol.list_outputs()[0]}"

    def __repr__(self) -> str:
        return f"<Executor of {self._symbol!r} @{self._ctx}>"

    def debug_str(self) -> str:
        """The graph, and a report of its compiled programs: kernels, memory, host calls."""
        lines = [self._symbol.debug_str().rstrip("\n")]
        for (training, _), compiled in self._graphs.items():
            lines += ["train mode" if training else "predict mode", *["  " + line for line in compiled.summary()]]
        lines += self._sparse.explain() if self._sparse is not None else []
        return "\n".join(lines) + "\n"

    def get_optimized_symbol(self) -> Any:
        """The symbol that is run: the one that was bound. The compiler's own steps are in ``symbol.module()``."""
        return self._symbol

    # --- running -------------------------------------------------------------------------------------------

    @hides_frames
    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Compute the outputs, and return them.

        Parameters
        ----------
        is_train:
            Whether operators compute as in training, as dropout does, and a backward may follow.
        **kwargs:
            Arguments by name, NDArrays or NumPy arrays, which are copied into the bound arrays. A ValueError is raised
            for another shape, a TypeError for an unknown name.
        """
        begin = now() if RECORDER.calls else 0
        arguments = self.arg_dict
        for name, value in kwargs.items():
            if not isinstance(value, NDArray) and value.__class__ is not np.ndarray:
                raise ValueError(f"only accept keyword argument of NDArrays and numpy.ndarray, got {name}={value!r}")
            if name not in arguments:
                raise TypeError(f"Unknown argument {name}; the arguments are {', '.join(self._arg_names)}")
            if arguments[name].shape != value.shape:
                raise ValueError(
                    f"Shape not match! Argument {name}, need: {arguments[name].shape}, received: {value.shape}; "
                    "use reshape() for an executor of other shapes"
                )
            arguments[name][:] = value
        self._is_train = bool(is_train)
        self._run(bool(is_train), recorded=bool(is_train))
        if begin:
            RECORDER.add("api", "Executor.forward", begin)
        return self.outputs

    @hides_frames
    def compile(self, is_train: bool = False) -> None:
        """Compile what :meth:`forward` will run, without running.

        Parameters
        ----------
        is_train:
            As for :meth:`forward`.
        """
        self._compiled(is_train, is_train and any(self._variables()))

    def _run(self, training: bool, recorded: bool) -> None:
        self._release()
        variables = self._variables()
        recorded = recorded and any(variables)
        if self._monitor is not None:
            self._run_shown(training, recorded, *self._monitor)
            return
        if any(x.stype != "default" for x in self.arg_arrays):
            self._run_sparse(training, recorded)
            return
        compiled = self._compiled(training, recorded)
        if not recorded and RECORDER.detector is None and self._run_at_once(compiled):
            return
        inputs = self._inputs(recorded)
        with autograd.record(training) if recorded else autograd.pause(training):
            heads: list[NDArray] = compiled.run(of_trace(compiled.trace, inputs))
        self._keep(heads, recorded, [leaf.node is None for leaf in compiled.trace.outputs[: len(heads)]])

    def _run_sparse(self, training: bool, recorded: bool) -> None:
        """Run operators on sparse arrays at once, and the rest compiled."""
        if self._sparse is None:
            self._sparse = SparseGraphs(self._symbol.entries, self._shared, self._who)
        with autograd.record(training) if recorded else autograd.pause(training):
            results = self._sparse(self._inputs(recorded))
        self._keep(results, recorded, [node.is_variable for node, _ in self._symbol.entries])

    def _inputs(self, recorded: bool) -> dict[str, NDArray]:
        """The bound arrays as inputs of a run, by name; those whose gradients are wanted are variables of the tape."""
        inputs = {n: wrap(buffer_of(x)) for n, x in [*self.arg_dict.items(), *self.aux_dict.items()]}
        self._marked = []
        for name, grad, req in zip(self._arg_names, self.grad_arrays, self._reqs, strict=True):
            if recorded and req != "null" and grad is not None:
                autograd.mark_variables([inputs[name]], [grad], [req])
                self._marked.append(inputs[name])
        return inputs

    def _keep(self, heads: list[NDArray], recorded: bool, are_inputs: Sequence[bool]) -> None:
        """Show the results of a run as outputs; one that is an input is a copy, not the bound array itself."""
        self._heads = heads if recorded else []
        for i, (result, is_input) in enumerate(zip(heads, are_inputs, strict=True)):
            if result.stype != self.outputs[i].stype:
                self.outputs[i] = wrap(buffer_of(result))
            else:
                self.outputs[i]._data = buffer_of(result).copy() if is_input else buffer_of(result)

    def _run_shown(self, training: bool, recorded: bool, callback: Monitor, monitor_all: bool) -> None:
        """Run operator by operator, and show the results; a backward will show gradients."""
        internals = self._symbol.get_internals()
        entries = [*internals.entries, *self._symbol.entries]
        with autograd.record(training) if recorded else autograd.pause(training):
            results = evaluate(entries, self._inputs(recorded))
        values = {(id(node), i): x for (node, i), x in zip(entries, results, strict=True)}
        names = dict(zip(internals.entries, internals.list_outputs(), strict=True))
        for node in graph.topological(internals.entries):
            if node.op is None or node.number is not None:
                continue
            if monitor_all:
                _show_inputs(node, values, callback)
            for i in range(node.num_outputs()):
                callback(names[node, i].encode(), NDArray(values[id(node), i].asnative()))
            taped = values[id(node), 0]._entry
            if taped is not None and isinstance(taped[0], autograd.TapeNode):
                count = sum(n.number is None for n, _ in node.inputs) - len(node.op.mutates())
                taped[0].op = _Shown(taped[0].op, node.name, count, callback)
        self._keep(results[len(names) :], recorded, [node.is_variable for node, _ in self._symbol.entries])

    def _run_at_once(self, compiled: CompiledGraph) -> bool:
        """Run it by one native call, if it can be."""
        if compiled.at_once is None or "key" in compiled.trace.roles:
            return False
        arrays: list[Any] = [*self.arg_arrays, *self.aux_arrays]
        trace = compiled.trace
        values = [
            source if role == "capture" else arrays[self._places[leaf.name]]
            for leaf, role, source in zip(trace.leaves, trace.roles, trace.sources, strict=True)
        ]
        results = compiled.at_once(*[plain(legacy(x)) for x in values])
        if results is None:
            return False
        for output, result in zip(self.outputs, results, strict=True):
            output._data = result._data
        return True

    def _variables(self) -> list[bool]:
        """For each argument, whether its gradient is wanted."""
        return [r != "null" for r in self._reqs]

    def _compiled(self, training: bool, recorded: bool) -> CompiledGraph:
        key = training, recorded
        if key not in self._graphs:
            mode = ("train mode" if training else "predict mode") + ", recorded" * recorded
            reason = f"it runs in {mode} for the first time"
            shapes = {name: x.shape for name, x in [*self.arg_dict.items(), *self.aux_dict.items()]}
            wanted = [n for n, req in zip(self._arg_names, self._reqs, strict=True) if recorded and req != "null"]
            self._graphs[key] = self._shared.compiled(
                self._symbol.entries, shapes, self._dtypes, training, wanted, self._who, reason
            )
        return self._graphs[key]

    @hides_frames
    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Put the gradients of the arguments into their arrays, as ``grad_req`` says.

        Parameters
        ----------
        out_grads:
            The gradients of the outputs: an array, a list, or a dict by name. None is 1, which losses do not read.
        is_train:
            Whether operators' gradients are those of training.
        """
        # COMPAT(mxnet): there out_grads must be given unless every output is a loss.
        if self._is_train is None:
            raise MXNetError("backward: there is nothing to differentiate yet; call forward(is_train=True) first")
        grads = self._head_grads(out_grads)
        if not self._heads and any(self._variables()):
            self._run(self._is_train, recorded=True)
        if any(head._entry is not None for head in self._heads):
            taped = [i for i, head in enumerate(self._heads) if head._entry is not None]
            grads = [self._fitting(i, grads[i]) for i in taped]
            autograd.backward([self._heads[i] for i in taped], grads, retain_graph=True, train_mode=is_train)

    def _head_grads(self, out_grads: Any) -> list[NDArray | None]:
        """The gradients of the outputs; further ones, which MXNet takes for hidden outputs, are ignored."""
        if out_grads is None:
            return [None] * len(self.outputs)
        if isinstance(out_grads, Mapping):
            names: list[str] = self._symbol.list_outputs()
            out_grads = by_name_checked("backward", "output", names, out_grads)
        given: list[Any] = [out_grads] if isinstance(out_grads, NDArray) else list(out_grads)
        if len(given) < len(self.outputs) or not all(isinstance(g, NDArray) for g in given):
            kinds = ", ".join(type(g).__name__ for g in given)
            raise TypeError(f"backward: out_grads must be {len(self.outputs)} NDArrays, one an output, got {kinds}")
        return given[: len(self.outputs)]

    def _fitting(self, i: int, grad: NDArray | None) -> NDArray | None:
        """The gradient of output ``i``, which may have any shape where nothing reads it; 1 in its place then."""
        head = self._heads[i]
        if grad is None or grad.shape == head.shape:
            return grad
        if self._reads_gradient_of(head):
            name = self._symbol.list_outputs()[i]
            raise ShapeError(f"backward: the gradient of {name} has shape {grad.shape}, it must be {head.shape}")
        return None

    def _reads_gradient_of(self, head: NDArray) -> bool:
        """Whether some gradient depends on that of an output: those that do are NaN where it is."""
        if not is_float(np.dtype(head.dtype)):
            return False
        everywhere: Any = np.full(head.shape, np.nan, head.dtype)
        found = autograd.grad([head], self._marked, [NDArray(everywhere)], retain_graph=True)
        return any(np.isnan(g.asnumpy()).any() for g in found)

    def _release(self) -> None:
        """The workspace of the last forward is free for the next."""
        for node in {id(h._entry[0]): h._entry[0] for h in self._heads if h._entry is not None}.values():
            if isinstance(node, autograd.TapeNode):
                node.free()
        self._heads = []

    # --- what is seen --------------------------------------------------------------------------------------

    def set_monitor_callback(self, callback: Monitor | None, monitor_all: bool = False) -> None:
        """Call ``callback(name, array)`` with every operator's results after each forward.

        The name is bytes. A backward calls it with the gradients of every operator's inputs, ``fc1_backward_output0``.
        Meanwhile nothing is compiled: operators run one by one.

        Parameters
        ----------
        callback:
            The function; None ends that.
        monitor_all:
            Call it with operators' inputs, too.
        """
        self._monitor = None if callback is None else (callback, monitor_all)

    # --- parameters ----------------------------------------------------------------------------------------

    @hides_frames
    def copy_params_from(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy values into the arguments and auxiliary states of these names.

        Parameters
        ----------
        arg_params, aux_params:
            Dicts of arrays by name. A ShapeError is raised for another shape.
        allow_extra_params:
            Accept names that do not exist, else they are a ValueError.
        """
        groups = (arg_params, self.arg_dict, "arguments"), (aux_params or {}, self.aux_dict, "auxiliary states")
        for given, own, what in groups:
            for name, value in given.items():
                if name in own and own[name].shape != value.shape:
                    raise ShapeError(f"copy_params_from: {name} has shape {own[name].shape}, got {value.shape}")
                if name in own:
                    value.copyto(own[name])
                elif not allow_extra_params:
                    raise ValueError(f'Find name "{name}" that is not in the {what}: {", ".join(own) or "none"}')

    @hides_frames
    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any) -> Executor:
        """An executor for other input shapes; arrays whose shape stays are shared.

        Parameters
        ----------
        partial_shaping:
            Allow shapes of arguments that are not given to change, too; else that is an MXNetError.
        allow_up_sizing:
            Allow larger arrays, which are new; else they are an MXNetError.
        **kwargs:
            Shapes by name.
        """
        shapes = Shapes(self._symbol.entries, by_name(self._symbol.entries, (), kwargs, "reshape"), "reshape")
        check_known(self._symbol, shapes, "reshape")
        found: dict[str, Any] = {n.name: shapes.get((n, 0)) for n in graph.variables(self._symbol.entries)}

        def fitted(name: str, array: NDArray) -> NDArray:
            if array.shape == found[name]:
                return array
            if name not in kwargs and not partial_shaping:
                raise MXNetError(
                    f"reshape: the shape of {name}, which is not given, changes from {array.shape} to {found[name]}; "
                    "give its new shape, or set partial_shaping=True if this is intended"
                )
            size = int(np.prod(found[name], dtype=np.int64))
            if size > array.size and not allow_up_sizing:
                raise MXNetError(
                    f"reshape: the new shape {found[name]} of {name} is larger than {array.shape}; make the largest "
                    "executor first, or set allow_up_sizing=True for new arrays"
                )
            if size > array.size:
                made: Any = np.zeros(found[name], array.dtype)
                return at(array.context, NDArray(made))
            return at(array.context, NDArray(array.asnative().reshape(-1)[:size].reshape(found[name])))

        args = [fitted(n, x) for n, x in self.arg_dict.items()]
        grads = [None if g is None else fitted(n, g) for n, g in self.grad_dict.items()]
        aux = [fitted(n, x) for n, x in self.aux_dict.items()]
        made = Executor(self._symbol, self._ctx, args, grads, self._reqs, aux, self._groups)
        made._monitor = self._monitor
        return made


class _Shown:
    """What a tape node recorded, which shows its gradients when they are computed."""

    def __init__(self, recorded: Any, name: str, count: int, callback: Monitor) -> None:
        self._recorded = recorded
        self._name = name
        self._count = count  # of inputs that are no auxiliary states
        self._callback = callback

    def vjp(self, ograds: Sequence[Any], node: autograd.TapeNode, into: Mapping[int, Any]) -> Sequence[Any]:
        """The gradients of the inputs."""
        node.op = self._recorded
        try:
            found = node.backward(ograds, into)
        finally:
            node.op = self
        for i, grad in enumerate(found):
            if grad is not None:
                number = str(i) if self._count > 1 else ""
                self._callback(f"{self._name}_backward_output{number}".encode(), NDArray(grad.asnative()))
        return found

    def release(self) -> None:
        """The tape needs it no more."""
        if hasattr(self._recorded, "release"):
            self._recorded.release()

    def inputs_of(self, output: int) -> Collection[int] | None:
        """Indices of the inputs on which an output depends; None for all of them."""
        return None if isinstance(self._recorded, Operator) else self._recorded.inputs_of(output)


def _show_inputs(node: SymbolNode, values: Mapping[tuple[int, int], NDArray], callback: Monitor) -> None:
    """Show the inputs of an operator: variables by their names, and all by the operator's names of them."""
    assert node.op is not None
    arrays = [(n, i) for n, i in node.inputs if n.number is None]
    names = node.op.input_names() if len(arrays) == len(node.inputs) else ()
    for k, (source, i) in enumerate(arrays):
        name = names[k] if k < len(names) else f"input{k}"
        shown = [source.name] if source.is_variable else []
        for text in (*shown, f"{node.name}_{name}"):
            callback(text.encode(), NDArray(values[id(source), i].asnative()))


# --- making one ----------------------------------------------------------------------------------------------


def bind(
    symbol: Any, ctx: Any, args: Any, args_grad: Any, grad_req: Any, aux_states: Any, groups: Any = None
) -> Executor:
    """The executor of ``Symbol.bind``."""
    device = check_device(ctx)
    names, states = _names(symbol)
    arguments = _arrays("args", "arguments", names, args, missing=False)
    auxiliary = _arrays("aux_states", "auxiliary states", states, aux_states, missing=False)
    gradients = _arrays("args_grad", "arguments", names, args_grad, missing=True)
    for name, x, grad in zip(names, arguments, gradients, strict=True):
        if grad is not None and grad.shape != x.shape:
            raise ShapeError(f"bind: the gradient array of {name} has shape {grad.shape}, the argument {x.shape}")
    if isinstance(grad_req, list | tuple):  # there may be more, but not in simple_bind, as in MXNet
        grad_req = list(cast("list[str]", grad_req))[: len(names)]
    return Executor(symbol, device, arguments, gradients, requests(names, grad_req), auxiliary, groups)


def simple_bind(
    symbol: Any,
    ctx: Any,
    grad_req: Any,
    type_dict: Mapping[str, Any] | None,
    stype_dict: Mapping[str, str] | None,
    shared_exec: Executor | None,
    shared_buffer: dict[str, NDArray] | None,
    shapes: Mapping[str, Any],
    groups: Mapping[str, Context] | None = None,
) -> Executor:
    """The executor of ``Symbol.simple_bind``; the arrays of a variable in a ``ctx_group`` are on the group's device."""
    device = check_device(ctx)
    names, states = _names(symbol)
    stypes = {n.name: storage_type(n) for n in graph.variables(symbol.entries)} | dict(stype_dict or {})
    known_names = {*names, *states}
    # What is neither an argument nor a shape, as force_rebind=True, is ignored, as in MXNet.
    shapes = {n: shape for n, shape in shapes.items() if n in known_names or isinstance(shape, list | tuple)}
    found = Shapes(symbol.entries, by_name(symbol.entries, (), shapes, "simple_bind"), "simple_bind")
    check_known(symbol, found, "simple_bind")
    types = Types(symbol.entries, by_name(symbol.entries, (), type_dict or {}, "type_dict"), _FLOAT32, "simple_bind")
    variables = {n.name: n for n in graph.variables(symbol.entries)}
    reqs = requests(names, grad_req)
    known = {} if shared_exec is None else {**shared_exec.arg_dict, **shared_exec.aux_dict}
    known_grads = {} if shared_exec is None else shared_exec.grad_dict

    def array(name: str, shared: Mapping[str, NDArray | None]) -> NDArray:
        shape: Any = found.get((variables[name], 0))
        dtype: Any = types.get((variables[name], 0))
        old, stype = shared.get(name), stypes[name]
        if old is not None and old.shape == shape and np.dtype(old.dtype) == dtype and old.stype == stype:
            return old
        made: Any = zeros(stype, shape, dtype)
        if stype != "default":
            return wrap(made)
        return at(_device(variables[name], device, groups or {}), NDArray(made))

    arguments = [array(n, {**(shared_buffer or {}), **known}) for n in names]
    if shared_buffer is not None:
        shared_buffer.update(zip(names, arguments, strict=True))
    gradients = [None if r == "null" else array(n, known_grads) for n, r in zip(names, reqs, strict=True)]
    auxiliary = [array(n, known) for n in states]
    results = [(found.get(entry), types.get(entry)) for entry in symbol.entries]
    return Executor(symbol, device, arguments, gradients, reqs, auxiliary, groups, results)


def _device(node: SymbolNode, default: Context, groups: Mapping[str, Context]) -> Context:
    """The device on which a variable or the results of an operator are: the one of its ``ctx_group``."""
    return groups.get(node.attrs.get("__ctx_group__", ""), default)


def check_known(symbol: Any, shapes: Shapes, what: str) -> None:
    """Raise unless the shape of every input is known."""
    unknown = [n.name for n in graph.variables(symbol.entries) if not is_known(shapes.get((n, 0)))]
    if unknown:
        raise ShapeError(
            f"{what}: the shapes of {', '.join(unknown)} do not follow from the shapes given "
            f"({', '.join(f'{k}: {v}' for k, v in shapes.given.items()) or 'none'}); give them, as keywords"
        )


def requests(names: Sequence[str], grad_req: Any) -> list[str]:
    """The ``grad_req`` of each argument, from one word, a list, or a dict (others: 'null')."""
    if isinstance(grad_req, str):
        reqs = [grad_req] * len(names)
    elif isinstance(grad_req, Mapping):
        given: Mapping[str, Any] = cast("Mapping[str, Any]", grad_req)
        reqs = [given.get(name, "null") for name in names]
    elif not isinstance(grad_req, list | tuple):
        raise ArgumentTypeError(f"grad_req must be a string, a list or a dict of them, got {grad_req!r}")
    else:
        reqs = list(cast("list[str]", grad_req))
    if len(reqs) != len(names):
        raise MXNetError(f"grad_req: {len(reqs)} entries for {len(names)} arguments: {', '.join(names)}")
    for req in reqs:
        if req not in _REQS:
            raise AttributeValueError(f"grad_req={req} is not valid; only 'null', 'write' and 'add' are supported")
    return reqs


def by_name_checked(what: str, kind: str, names: Sequence[str], given: Any, missing: Any = None) -> list[Any]:
    """The values in the order of the names; an error for a name that does not exist."""
    for name in given:
        if name not in names:
            raise MXNetError(f"{what}: no {kind} is called {name!r}; there are {', '.join(names) or 'none'}")
    return [given.get(name, missing) for name in names]


def _names(symbol: Any) -> tuple[list[str], list[str]]:
    names, states = ([n.name for n in nodes] for nodes in graph.inputs(symbol.entries))
    for name in names:
        if names.count(name) > 1:
            raise MXNetError(
                f"bind: two variables are called {name!r}; make one variable and use it twice, or give them two names"
            )
    return names, states


def _arrays(key: str, what: str, names: Sequence[str], given: Any, missing: bool) -> list[Any]:
    """Arrays in the order of the names, from a list or a dict; None where one may be missing."""
    if given is None:
        if names and not missing:
            raise ValueError(f"bind: {key} is missing; give arrays for the {what} {', '.join(names)}")
        return [None] * len(names)
    if isinstance(given, Mapping):
        known: dict[str, Any] = dict(given)  # pyright: ignore[reportUnknownArgumentType]
        for name in names:
            if name not in known and not missing:
                raise ValueError(f"key `{name}` is missing in `{key}`")
        arrays: list[Any] = [known.get(name) for name in names]
    else:
        if not isinstance(given, list | tuple):
            raise ArgumentTypeError(f"bind: {key} must be a list or a dict of NDArrays, got {type(given).__name__}")
        arrays = list(given)  # pyright: ignore[reportUnknownArgumentType]
        if len(arrays) != len(names):
            raise ValueError(
                f"Length of {key} does not match the number of {what}: {len(arrays)} for {', '.join(names) or 'none'}"
            )
    for name, x in zip(names, arrays, strict=True):
        if not isinstance(x, NDArray) and not (x is None and missing):
            raise TypeError(f"Only accept list of NDArrays or dict of str to NDArray: {name} is {type(x).__name__}")
    return arrays
