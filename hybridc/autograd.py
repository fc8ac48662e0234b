"""Automatic differentiation of what ran eagerly: ``record``, ``backward``, ``grad`` and custom ``Function``."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

import numpy as np

from hybridc.array.ndarray import NDArray, at, wrap
from hybridc.array.numpy_array import as_numpy, is_numpy
from hybridc.array.takeover import WORTH_TAKING, taken_over
from hybridc.context import working_on
from hybridc.dialects.gradient import vjp
from hybridc.dialects.operator import Operator
from hybridc.errors import CheckError, MXNetError, ShapeError, TraceError, UnknownNameError
from hybridc.ground.absent import absent as _absent
from hybridc.ground.events import RECORDER, now
from hybridc.ground.hooks import HOOKS
from hybridc.ground.location import user_location
from hybridc.ground.state import STATE
from hybridc.ground.watches import written

_ORDER = itertools.count()


class Differentiable(Protocol):
    """The interface of a tape node to what it recorded."""

    def vjp(self, ograds: Sequence[Any], node: TapeNode, into: Mapping[int, Any]) -> Sequence[Any]:
        """Gradients of the inputs of its node; they may be written into the raw arrays ``into``, by input.

        ``ograds`` are those of the outputs, None where none arrived.
        """
        ...

    def release(self) -> None:
        """The tape needs it no more."""
        ...

    def inputs_of(self, output: int) -> Collection[int] | None:
        """Indices of the inputs on which an output depends; None for all of them."""
        ...


class Leaf:
    """A variable whose gradient is wanted: its buffer, how to write there, whether that happened since it was used."""

    __slots__ = ("fresh", "grad", "req")
    is_alive = True

    def __init__(self, grad: NDArray, req: str) -> None:
        self.grad = grad
        self.req = req
        self.fresh = False


class TapeNode:
    """One recorded operator, its inputs with their tape entries, its results; alive until its graph is freed."""

    __slots__ = ("__weakref__", "arrays", "entries", "is_alive", "op", "order", "outputs", "visible")

    def __init__(
        self, op: Any, arrays: Sequence[Any], entries: Sequence[Any], outputs: Sequence[Any], visible: int
    ) -> None:
        self.op = op
        self.arrays: Sequence[Any] | None = arrays
        self.entries = entries
        self.outputs: Sequence[Any] = outputs
        self.visible = visible
        self.order = next(_ORDER)
        self.is_alive = True

    def backward(self, ograds: Sequence[Any], into: Mapping[int, Any]) -> Sequence[Any]:
        """Gradients of this node's inputs, in the arrays ``into``, by input, if the operator can write there."""
        if self.arrays is None:
            raise freed_error()
        if not isinstance(self.op, Operator):
            return self.op.vjp(ograds, self, into)
        outputs = [_restore(a, (self, i)) for i, a in enumerate(self.outputs)]
        needed = [e is not None for e in self.entries]
        inputs = self.inputs()
        with working_on(inputs[0].context):  # where rules make arrays of their own
            return vjp(self.op, HOOKS.arrays(), _filled(ograds, self.outputs), inputs, outputs, needed)

    def inputs(self) -> list[NDArray]:
        """The inputs, with the tape entries that they had at the call."""
        assert self.arrays is not None
        return [_restore(a, e) for a, e in zip(self.arrays, self.entries, strict=True)]

    def entries_of(self, output: int) -> Iterable[Any]:
        """The tape entries of the inputs on which an output depends."""
        found = None if isinstance(self.op, Operator) else self.op.inputs_of(output)
        return self.entries if found is None else [self.entries[i] for i in found]

    def free(self) -> None:
        """Drop the saved arrays and all before; a compiled graph gets its workspace back. Results are constants now."""
        if not isinstance(self.op, Operator):
            self.op.release()
        self.is_alive = False
        self.arrays = None
        self.entries = ()
        self.outputs = [None] * len(self.outputs)


def freed_error() -> MXNetError:
    """The error of asking for a graph that was freed."""
    return MXNetError(
        "this part of the graph was differentiated already and its buffers are freed; "
        "use backward(retain_graph=True) the first time to do it again"
    )


def _filled(ograds: Sequence[NDArray | None], outputs: Sequence[Any]) -> list[NDArray]:
    """The gradients of outputs; zeros where none arrived."""
    return [wrap(np.zeros_like(y)) if g is None else g for g, y in zip(ograds, outputs, strict=False)]


def _restore(array: Any, entry: Any) -> NDArray:
    x = wrap(array)
    x._entry = entry
    return x


def record_operator(op: Any, inputs: Sequence[NDArray], arrays: Sequence[Any], outputs: Sequence[NDArray]) -> None:
    """Put an operator (or anything with ``vjp``) on the tape, if any of its inputs is on it."""
    # x._entry, without the calls of the property: every recorded operator passes here.
    entries = [t if (t := x._tape).__class__ is tuple and t[0].is_alive else None for x in inputs]
    if not any(entries):
        return
    visible = op.num_visible_outputs() if isinstance(op, Operator) else len(outputs)
    node = TapeNode(op, arrays, entries, [y._data for y in outputs], visible)
    if None in entries:
        reader = ref(node)
        for i, entry in enumerate(entries):
            if entry is None:
                inputs[i]._tape = reader
    for i, y in enumerate(outputs):
        y._tape = (node, i)


# --- modes ------------------------------------------------------------------------------------------------


class _Scope:
    """Sets recording and training inside a ``with`` block; None leaves a mode as it is."""

    def __init__(self, recording: bool | None, training: bool | None) -> None:
        self._new = recording, training
        self._old: list[tuple[bool, bool]] = []

    def __enter__(self) -> _Scope:
        self._old.append((STATE.recording, STATE.training))
        recording, training = self._new
        if recording is not None:
            STATE.recording = recording
        if training is not None:
            STATE.training = training
        return self

    def __exit__(self, *exc: object) -> None:
        STATE.recording, STATE.training = self._old.pop()


def record(train_mode: bool = True) -> _Scope:
    """Record operators for differentiation, in train mode by default."""
    return _Scope(True, train_mode)


def pause(train_mode: bool = False) -> _Scope:
    """Do not record inside this block."""
    return _Scope(False, train_mode)


def train_mode() -> _Scope:
    """Behave as in training (Dropout drops) without changing recording."""
    return _Scope(None, True)


def predict_mode() -> _Scope:
    """Behave as in prediction without changing recording."""
    return _Scope(None, False)


def is_recording() -> bool:
    """Whether operators are being recorded; while a block is traced, whether its call is."""
    if STATE.trace is not None:
        return STATE.recording if STATE.reading is None else STATE.reading.is_recording()
    return STATE.recording


def is_training() -> bool:
    """Whether operators behave as in training."""
    return STATE.training


def set_recording(is_recording: bool) -> bool:
    """Switch recording; returns the previous state."""
    previous, STATE.recording = STATE.recording, is_recording
    return previous


def set_training(train_mode: bool) -> bool:
    """Switch train mode; returns the previous state."""
    previous, STATE.training = STATE.training, train_mode
    return previous


# --- variables --------------------------------------------------------------------------------------------

_REQS = ("write", "add", "null")


def mark_variables(
    variables: NDArray | Sequence[NDArray],
    gradients: NDArray | Sequence[NDArray],
    grad_reqs: str | Sequence[str] = "write",
) -> None:
    """Make arrays variables: ``backward`` puts their gradients into the given arrays."""
    variables = [variables] if isinstance(variables, NDArray) else variables
    gradients = [gradients] if isinstance(gradients, NDArray) else gradients
    reqs = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else grad_reqs
    for x, grad, req in zip(variables, gradients, reqs, strict=True):
        if req not in _REQS:
            raise UnknownNameError(f"grad_req must be one of {_REQS}, got {req!r}")
        if grad.shape != x.shape:
            raise MXNetError(f"the gradient buffer has shape {grad.shape}, the variable {x.shape}")
        x._leaf = Leaf(grad, req)
        x._entry = None if req == "null" else (x._leaf, 0)


def has_fresh_grad(x: NDArray) -> bool:
    """Whether ``backward`` wrote this variable's gradient since :func:`mark_used`."""
    return x._leaf is not None and x._leaf.fresh


def mark_used(x: NDArray) -> None:
    """The gradient of this variable served its purpose; the next use needs another ``backward``."""
    if x._leaf is not None:
        x._leaf.fresh = False


# --- backward ---------------------------------------------------------------------------------------------


class _Gradients:
    """Gradients on their way back, summed by where they belong."""

    def __init__(self, differentiable: bool) -> None:
        self.differentiable = differentiable
        self.values: dict[tuple[int, int], NDArray] = {}
        self._owned: set[tuple[int, int]] = set()

    def add(self, entry: tuple[Any, int], grad: NDArray) -> None:
        key = (id(entry[0]), entry[1])
        old = self.values.get(key)
        if old is None:
            self.values[key] = grad
        elif self.differentiable or old.stype != "default" or grad.stype != "default":
            self.values[key] = old + grad
        elif key in self._owned:
            np.add(old._data, grad._data, out=old._data)
        else:
            total = np.add(old._data, grad._data)
            self.values[key] = wrap(np.asarray(total) if isinstance(total, np.generic) else total)
            self._owned.add(key)

    def take(self, node: Any, index: int) -> NDArray | None:
        """As :meth:`get`, and it is gone."""
        return self.values.pop((id(node), index), None)

    def get(self, node: Any, index: int) -> NDArray | None:
        return self.values.get((id(node), index))

    def of_node(self, node: TapeNode) -> list[NDArray | None]:
        """The gradients of a node's visible outputs; None where none arrived."""
        return [self.values.pop((id(node), i), None) for i in range(node.visible)]


def _reachable(heads: Iterable[NDArray], since: int) -> tuple[list[TapeNode], list[Leaf], list[Any]]:
    """All ancestor nodes of the heads that are not older than ``since``, latest first, and all variables.

    Also the entries of these nodes on which the heads do not depend.
    """
    nodes: dict[int, TapeNode] = {}
    leaves: dict[int, Leaf] = {}
    beside: list[Any] = []
    seen: set[tuple[int, int]] = set()
    stack: list[Iterable[Any]] = [[h._entry for h in heads]]
    while stack:
        for entry in stack.pop():
            if entry is None:
                continue
            node, output = entry
            if node.__class__ is Leaf:
                leaves[id(node)] = node
            elif node.order >= since and (id(node), output) not in seen:
                seen.add((id(node), output))
                nodes[id(node)] = node
                entries = node.entries_of(output)
                stack.append(entries)
                if entries is not node.entries:
                    beside += node.entries
    return sorted(nodes.values(), key=_order, reverse=True), list(leaves.values()), beside


def _free(entries: list[Any]) -> None:
    """Free the nodes of these entries and all of their ancestors."""
    while entries:
        entry = entries.pop()
        if entry is not None and isinstance(entry[0], TapeNode):
            entries += entry[0].entries
            entry[0].free()


_order = operator.attrgetter("order")


def _destinations(
    heads: Sequence[NDArray], head_grads: Sequence[NDArray | None], nodes: Sequence[TapeNode], known: Sequence[Leaf]
) -> dict[int, Any]:
    """The large gradient buffers that one node alone writes and none reads, by the identity of their variable."""
    written_whole = [x for x in known if x.req == "write" and x.grad.stype == "default"]
    buffers = {id(x): x.grad._data for x in written_whole if x.grad._data.nbytes >= WORTH_TAKING}
    if not buffers:
        return {}
    used = dict.fromkeys(buffers, 0)
    for entry in itertools.chain([h._entry for h in heads], *[n.entries for n in nodes]):
        if entry is not None and id(entry[0]) in used:
            used[id(entry[0])] += 1
    if len(nodes) == 1:  # what it reads itself, it looks at
        return {i: buffer for i, buffer in buffers.items() if used[i] == 1}
    read = {_memory(a) for n in nodes for a in (*(n.arrays or ()), *n.outputs)}
    read.update(_memory(g._data) for g in head_grads if g is not None)
    return {i: buffer for i, buffer in buffers.items() if used[i] == 1 and _memory(buffer) not in read}


def _run_backward(
    heads: Sequence[NDArray],
    head_grads: Sequence[NDArray | None] | None,
    retain_graph: bool,
    create_graph: bool,
    train_mode: bool,
    wanted: Sequence[tuple[Any, int]] = (),
    since: int = 0,
    in_place: bool = False,
) -> tuple[_Gradients, list[Leaf]]:
    if not heads:
        raise CheckError("backward: there must be at least one array to differentiate, got none")
    given = [None] * len(heads) if head_grads is None else head_grads
    if len(given) != len(heads):
        raise CheckError(
            f"backward: got {len(given)} head gradients for {len(heads)} heads; give None for those of ones"
        )
    for head in heads:
        if head._entry is None:
            if head._tape.__class__ is tuple:
                raise freed_error()
            raise MXNetError(
                "cannot differentiate: this array does not depend on a variable; call attach_grad() on the inputs and "
                "compute it inside autograd.record()"
            )
    for head, grad in zip(heads, given, strict=True):
        if grad is not None and grad.shape != head.shape:
            raise ShapeError(
                f"backward: a head of shape {head.shape} has a gradient of shape {grad.shape}; it must be of the same"
            )
    keep = {(id(n), i) for n, i in wanted}
    kept: dict[tuple[int, int], NDArray] = {}
    with _Scope(create_graph, train_mode):
        gradients = _Gradients(create_graph)
        for head, grad in zip(heads, given, strict=True):
            assert head._entry is not None
            gradients.add(head._entry, _ones(head._data) if grad is None else grad)
        nodes, leaves, beside = _reachable(heads, since)
        buffers = _destinations(heads, given, nodes, leaves) if in_place else {}
        for node in nodes:
            if keep:
                kept |= {k: gradients.values[k] for k in keep if k[0] == id(node) and k in gradients.values}
            ograds = gradients.of_node(node)
            if any(g is not None for g in ograds):
                into = _into(node, buffers) if buffers else {}
                detector = RECORDER.detector
                grads = node.backward(ograds, into) if detector is None else detector.gradients(node, ograds, into)
                for entry, grad in zip(node.entries, grads, strict=True):
                    if entry is not None and grad is not None:
                        gradients.add(entry, grad)
            if not retain_graph:
                node.free()
    if not retain_graph:
        _free(beside)
    gradients.values.update(kept)
    return gradients, leaves


def _into(node: TapeNode, buffers: Mapping[int, Any]) -> dict[int, Any]:
    """The gradient buffers of a node's inputs, by their numbers."""
    return {i: buffers[id(e[0])] for i, e in enumerate(node.entries) if e is not None and id(e[0]) in buffers}


def _ones(like: Any) -> NDArray:
    """Ones in the shape of a raw array."""
    if type(like) is not np.ndarray:
        return wrap(np.ones_like(like))
    made = np.empty(like.shape, like.dtype)
    made.fill(1)
    return NDArray(made)


def backward(
    heads: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool = False,
    train_mode: bool = True,
) -> None:
    """Compute gradients of the heads with respect to all marked variables and put them into their ``grad``."""
    # COMPAT(mxnet): the gradients are those of the forward's mode; there they are of the train_mode given here, and
    # after record(train_mode=False) wrong without backward(train_mode=False).
    begin = now() if RECORDER.calls else 0
    heads = [heads] if isinstance(heads, NDArray) else heads
    head_grads = [head_grads] if isinstance(head_grads, NDArray) else head_grads
    gradients, leaves = _run_backward(heads, head_grads, retain_graph, False, train_mode, in_place=True)
    for leaf in leaves:
        grad = gradients.take(leaf, 0)
        leaf.fresh = True
        if leaf.grad.stype != "default" or (grad is not None and grad.stype != "default"):
            HOOKS.assign_gradient(leaf, grad)
        elif grad is None:  # nothing of it flows back, as through floor or BlockGrad: the gradient is 0
            if leaf.req == "write":
                leaf.grad._data[...] = 0
        elif leaf.req == "add":
            np.add(leaf.grad._data, grad._data, out=leaf.grad._data)
        elif grad._data is not leaf.grad._data and not taken_over(leaf.grad, grad):
            np.copyto(leaf.grad._data, grad._data)
        if leaf.grad.stype == "default":
            written(leaf.grad._data)
    if begin:
        RECORDER.add("api", "autograd.backward", begin)


def grad(
    heads: NDArray | Sequence[NDArray],
    variables: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> list[NDArray]:
    """Gradients of the heads with respect to the variables, returned and not stored: a list, also for one variable.

    With ``create_graph`` they can be differentiated again.
    """
    wanted = [variables] if isinstance(variables, NDArray) else list(variables)
    if not wanted:
        raise CheckError("autograd.grad needs at least one variable, got none")
    heads = [heads] if isinstance(heads, NDArray) else heads
    head_grads = [head_grads] if isinstance(head_grads, NDArray) else head_grads
    entries = [x._entry for x in wanted]
    for x, entry in zip(wanted, entries, strict=True):
        if entry is None:
            raise MXNetError(
                f"cannot differentiate with respect to an array of shape {x.shape}: call attach_grad() first"
            )
    retain = create_graph if retain_graph is None else retain_graph
    gradients, _ = _run_backward(
        heads, head_grads, retain, create_graph, train_mode, [e for e in entries if e is not None]
    )
    found = [gradients.get(*e) for e in entries if e is not None]
    results = [wrap(np.zeros_like(x._data)) if g is None else g for x, g in zip(wanted, found, strict=True)]
    separate = _separate(results, () if head_grads is None else head_grads)
    if create_graph:
        _record_constants([*heads, *wanted], separate)
    placed = [at(x.context, g) for x, g in zip(wanted, separate, strict=True)]
    return [as_numpy(g) if is_numpy(x) else g for x, g in zip(wanted, placed, strict=True)]


def _record_constants(sources: Sequence[NDArray], results: Sequence[NDArray]) -> None:
    """Put the gradients that are the same for all values, as those of x + y, on the tape: theirs are 0."""
    # COMPAT(mxnet): there it depends on the operators whether such a gradient can be differentiated again.
    constants = [g for g in results if g._entry is None]
    if constants:
        record_operator(_CONSTANT, sources, [x._data for x in sources], constants)


def get_symbol(x: NDArray) -> Any:
    """The Symbol of the operators from which an array was computed while recording, with variables var0, var1, …"""
    return HOOKS.symbol_of_tape(x)


def _separate(results: Sequence[NDArray], heads: Iterable[NDArray | None]) -> list[NDArray]:
    """The results; copies, where they share memory with a head gradient or each other, as for ``x + y``."""
    taken = {_memory(h._data) for h in heads if h is not None}
    separate: list[NDArray] = []
    for x in results:
        memory = _memory(x._data)
        separate.append(_restore(x._data.copy(), x._entry) if memory in taken else x)
        taken.add(memory)
    return separate


def _memory(array: Any) -> int:
    """The identity of an array's buffer: of the array that owns it."""
    while (base := getattr(array, "base", None)) is not None:
        array = base
    return id(array)


def tape_position() -> int:
    """A position of the tape: later records are newer."""
    return next(_ORDER)


def gradients_since(
    position: int, heads: Sequence[NDArray], variables: Sequence[NDArray], head_grads: Sequence[NDArray]
) -> list[NDArray]:
    """Differentiable gradients, from the records since a position of the tape."""
    entries: list[Any] = [x._entry for x in variables]
    gradients, _ = _run_backward(heads, head_grads, True, True, STATE.training, entries, position)
    found = [gradients.get(*e) for e in entries]
    return [wrap(np.zeros_like(x._data)) if g is None else g for x, g in zip(variables, found, strict=True)]


# --- what is no operator ----------------------------------------------------------------------------------


class _ConstantRule:
    """The tape's view of values that do not change with the inputs."""

    def inputs_of(self, output: int) -> None:
        """All inputs."""

    def release(self) -> None:
        """Nothing to release."""

    def vjp(self, ograds: Sequence[Any], node: TapeNode, into: Mapping[int, Any]) -> Sequence[Any]:
        """No gradients."""
        return [None] * len(node.entries)


_CONSTANT = _ConstantRule()


class CopyRule:
    """The tape's view of a copy: the gradient goes back to the device of the input, in its dtype."""

    def inputs_of(self, output: int) -> None:
        """All inputs."""

    def release(self) -> None:
        """Nothing to release."""

    def vjp(self, ograds: Sequence[Any], node: TapeNode, into: Mapping[int, Any]) -> Sequence[Any]:
        """The gradient of the copy, copied back."""
        [x], [dy] = node.inputs(), ograds
        dy = dy.as_in_context(x.context)
        return [dy if dy.dtype == x.dtype else HOOKS.function("cast")(dy, x.dtype)]


_COPY = CopyRule()


def record_copy(x: NDArray, copy: NDArray) -> None:
    """Put the copy of an array, on any device and in any dtype, on the tape."""
    record_operator(_COPY, [x], [x._data], [copy])


# --- functions with their own gradient --------------------------------------------------------------------


class Function:
    """An operation with a gradient of your own: override ``forward`` and ``backward``, then call an instance.

    Both get and return NDArrays; ``save_for_backward`` keeps arrays in ``saved_tensors``.
    """

    def __init__(self) -> None:
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *args: Any) -> None:
        """Keep arrays for ``backward``."""
        self.saved_tensors = args

    def forward(self, *inputs: Any) -> Any:
        """Compute the outputs from the inputs."""
        raise MXNetError(f"{type(self).__name__} must override forward(self, *inputs)")

    def backward(self, *output_grads: Any) -> Any:
        """Compute the gradients of the inputs from those of the outputs."""
        raise MXNetError(f"{type(self).__name__} must override backward(self, *output_grads)")

    def __call__(self, *inputs: NDArray) -> Any:
        if STATE.trace is not None:
            raise TraceError(
                f"{user_location(STATE.trace.path())}: autograd.Function {type(self).__name__} runs Python code in its "
                "backward and cannot be traced; make it an mx.operator.CustomOp, or leave the block unhybridized"
            )
        with _Scope(False, None):
            outputs = self.forward(*inputs)
        single = isinstance(outputs, NDArray)
        results = [y._like(y._data) for y in ([outputs] if single else outputs)]
        if STATE.recording:
            rule = _FunctionRule(self, [is_numpy(y) for y in results])
            record_operator(rule, inputs, [x._data for x in inputs], results)
        return results[0] if single else tuple(results)


class _FunctionRule:
    """The tape's view of a :class:`Function`."""

    def __init__(self, function: Function, numpy: Sequence[bool]) -> None:
        self._function = function
        self._numpy = numpy

    def inputs_of(self, output: int) -> None:
        """All inputs."""

    def release(self) -> None:
        """Saved arrays are the user's."""

    def vjp(self, ograds: Sequence[Any], node: TapeNode, into: Mapping[int, Any]) -> Sequence[Any]:
        """The user's ``backward``, checked for the number of gradients."""
        filled = _filled(ograds, node.outputs)
        grads = self._function.backward(*[as_numpy(g) if n else g for g, n in zip(filled, self._numpy, strict=True)])
        grads = [grads] if grads is None or isinstance(grads, NDArray) else list(grads)
        if len(grads) != len(node.entries):
            raise MXNetError(
                f"{type(self._function).__name__}.backward returned {len(grads)} gradients for "
                f"{len(node.entries)} inputs"
            )
        for i, (grad, x) in enumerate(zip(grads, node.inputs(), strict=True)):
            if grad is not None and grad.shape != x.shape:
                raise ShapeError(
                    f"{type(self._function).__name__}.backward returned a gradient of shape {grad.shape} for input {i} "
                    f"of shape {x.shape}; the shapes must be equal"
                )
        return grads


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.autograd", name, "attribute", globals())
