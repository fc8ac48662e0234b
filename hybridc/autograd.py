"""Automatic differentiation of what ran: ``mx.autograd``.

Inside ``with record():`` each operator that depends on a variable is noted on a tape; ``backward`` goes back along it,
and puts gradients into the variables' ``grad``. Variables are arrays of which ``attach_grad`` was called, and the
parameters of networks.
"""

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
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.ground.events import RECORDER, now
from hybridc.ground.hooks import HOOKS
from hybridc.ground.location import user_location
from hybridc.ground.state import STATE
from hybridc.ground.watches import written

_ORDER = itertools.count()


class Differentiable(Protocol):
    """The interface of a tape node to what it recorded."""

    def vjp(self, ograds: Sequence[Any], node: TapeNode, into: Mapping[int, Any]) -> Sequence[Any]:
        """The gradients of the inputs of its node, None where there is none.

        Parameters
        ----------
        ograds:
            The gradients of the outputs, NDArrays; None where none arrived.
        node:
            The tape's node, which has the inputs and the outputs.
        into:
            Raw arrays by the number of an input: its gradient may be written there.
        """
        ...

    def release(self) -> None:
        """The tape needs it no more."""
        ...

    def inputs_of(self, output: int) -> Collection[int] | None:
        """Indices of the inputs on which an output depends; None for all of them.

        Parameters
        ----------
        output:
            The number of the output.
        """
        ...


class Leaf:
    """A variable on the tape: the buffer of its gradient, and whether that was written since it was used.

    Parameters
    ----------
    grad:
        The array into which ``backward`` writes the gradient.
    req:
        How: "write", "add" or "null".
    """

    __slots__ = ("fresh", "grad", "req")
    is_alive = True

    def __init__(self, grad: NDArray, req: str) -> None:
        self.grad = grad
        self.req = req
        self.fresh = False


class TapeNode:
    """One recorded operator; alive until its graph is freed.

    An entry is a pair of a node and the number of one of its outputs, or of a :class:`Leaf` and 0.

    Parameters
    ----------
    op:
        The operator, or a :class:`Differentiable`.
    arrays:
        The raw arrays of the inputs.
    entries:
        The entry of each input at the call; None for one that depends on no variable.
    outputs:
        The raw arrays of the results.
    visible:
        How many of the results the caller got, the first ones.
    """

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
        """The gradients of this node's inputs, None where there is none.

        Parameters
        ----------
        ograds:
            The gradients of the visible outputs; None where none arrived.
        into:
            Raw arrays by the number of an input: an operator that can writes its gradient there.
        """
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
        """The tape entries of the inputs on which an output depends.

        Parameters
        ----------
        output:
            The number of the output.
        """
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
    """Put an operator on the tape, if any of its inputs is on it.

    Parameters
    ----------
    op:
        The operator, or a :class:`Differentiable`.
    inputs:
        Its inputs.
    arrays:
        Their raw arrays, which the tape keeps.
    outputs:
        Its results, which get their entries on the tape.
    """
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
    """Within the ``with`` block operators are recorded, for differentiation.

    Parameters
    ----------
    train_mode:
        Whether they behave as in training: Dropout drops, and BatchNorm uses the statistics of the batch.

    Examples
    --------
    >>> x = mx.nd.array([1, 2, 3])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = x * x
    >>> y.backward()
    >>> x.grad.asnumpy()
    array([2., 4., 6.], dtype=float32)
    """
    return _Scope(True, train_mode)


def pause(train_mode: bool = False) -> _Scope:
    """Within the ``with`` block nothing is recorded: its results are constants for ``backward``.

    Parameters
    ----------
    train_mode:
        Whether operators behave as in training there.

    Examples
    --------
    >>> x = mx.nd.array([1, 2, 3])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     with autograd.pause():
    ...         factor = x * x
    ...     y = factor * x
    >>> y.backward()
    >>> x.grad.asnumpy()  # factor, rather than 3 * x * x
    array([1., 4., 9.], dtype=float32)
    """
    return _Scope(False, train_mode)


def train_mode() -> _Scope:
    """Within the ``with`` block operators behave as in training (Dropout drops); recording stays as it is.

    Examples
    --------
    >>> with autograd.train_mode():
    ...     autograd.is_training(), autograd.is_recording()
    (True, False)
    """
    return _Scope(None, True)


def predict_mode() -> _Scope:
    """Within the ``with`` block operators behave as in prediction; recording stays as it is.

    Examples
    --------
    >>> with autograd.record(), autograd.predict_mode():
    ...     autograd.is_training(), autograd.is_recording()
    (False, True)
    """
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
    """Switch recording; returns whether it was on. :func:`record` and :func:`pause` do that for a ``with`` block.

    Parameters
    ----------
    is_recording:
        Whether operators are recorded from now on, in this thread.
    """
    previous, STATE.recording = STATE.recording, is_recording
    return previous


def set_training(train_mode: bool) -> bool:
    """Switch train mode; returns whether it was on.

    Parameters
    ----------
    train_mode:
        Whether operators behave as in training from now on, in this thread.
    """
    previous, STATE.training = STATE.training, train_mode
    return previous


# --- variables --------------------------------------------------------------------------------------------

_REQS = ("write", "add", "null")


def mark_variables(
    variables: NDArray | Sequence[NDArray],
    gradients: NDArray | Sequence[NDArray],
    grad_reqs: str | Sequence[str] = "write",
) -> None:
    """Make arrays variables: ``backward`` puts their gradients into given arrays. ``attach_grad`` makes these itself.

    Parameters
    ----------
    variables:
        An array, or a list of arrays.
    gradients:
        The array for the gradient of each, of the same shape; else an MXNetError.
    grad_reqs:
        How gradients get there, for all or as a list: "write" replaces what is there, "add" adds to it, and with
        "null" the array is no variable.

    Examples
    --------
    >>> x, dx = mx.nd.array([1, 2]), mx.nd.array([10, 10])
    >>> autograd.mark_variables(x, dx, "add")
    >>> with autograd.record():
    ...     y = 3 * x
    >>> y.backward()
    >>> dx.asnumpy()
    array([13., 13.], dtype=float32)
    """
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
    """Whether ``backward`` wrote the gradient of a variable since :func:`mark_used`.

    Parameters
    ----------
    x:
        The variable; False for an array that is none.
    """
    return x._leaf is not None and x._leaf.fresh


def mark_used(x: NDArray) -> None:
    """Note that the gradient of a variable served its purpose: the next use needs another ``backward``.

    Parameters
    ----------
    x:
        The variable.
    """
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


@hides_frames
def backward(
    heads: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool = False,
    train_mode: bool = True,
) -> None:
    """Compute the gradients of heads with respect to all variables on which they depend, into the variables' ``grad``.

    A variable's gradient is the sum over the heads. Whether it replaces what is there, its ``grad_req`` says.

    Parameters
    ----------
    heads:
        An array, or a list of arrays, that were computed while recording; others are an MXNetError.
    head_grads:
        The gradient of each head, of its shape: the factors of its elements. None: ones.
    retain_graph:
        Whether the same heads can be differentiated again; else what was saved for that is freed.
    train_mode:
        What :func:`is_training` is in the ``backward`` of functions and custom operators. The gradients of all others
        are those of what ran.

    Examples
    --------
    >>> x = mx.nd.array([1, 2])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y, z = x * x, 5 * x
    >>> autograd.backward([y, z], [mx.nd.array([1, 10]), None])
    >>> x.grad.asnumpy()  # [1, 10] * 2 * x + 5
    array([ 7., 45.], dtype=float32)
    """
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


@hides_frames
def grad(
    heads: NDArray | Sequence[NDArray],
    variables: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> list[NDArray]:
    """The gradients of heads with respect to variables: a list, also for one variable. No ``grad`` is written.

    Parameters
    ----------
    heads:
        An array, or a list of arrays, that were computed while recording; others are an MXNetError.
    variables:
        An array, or a list of arrays: variables, or what was computed from them while recording.
    head_grads:
        The gradient of each head, of its shape: the factors of its elements. None: ones.
    retain_graph:
        Whether the same heads can be differentiated again; None: as ``create_graph``.
    create_graph:
        Whether the gradients are recorded as well, so that they can be differentiated.
    train_mode:
        What :func:`is_training` is in the ``backward`` of functions and custom operators.

    Examples
    --------
    >>> x = mx.nd.array([1, 2])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     [dx] = autograd.grad(x**3, x, create_graph=True)  # 3 * x**2
    >>> dx.backward()
    >>> x.grad.asnumpy()  # 6 * x
    array([ 6., 12.], dtype=float32)
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
    """The Symbol of the operators from which an array was computed while recording, with variables var0, var1, ….

    Parameters
    ----------
    x:
        The array.
    """
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
    """Differentiable gradients, from the records since a position of the tape.

    Parameters
    ----------
    position:
        What :func:`tape_position` gave; the graph before it stays.
    heads:
        What is differentiated.
    variables:
        With respect to what.
    head_grads:
        The gradient of each head.
    """
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
        """All inputs: None.

        Parameters
        ----------
        output:
            The number of the output, 0.
        """

    def release(self) -> None:
        """Nothing to release."""

    def vjp(self, ograds: Sequence[Any], node: TapeNode, into: Mapping[int, Any]) -> Sequence[Any]:
        """The gradient of the copy, copied back.

        Parameters
        ----------
        ograds:
            The gradient of the copy, in a list.
        node:
            The tape's node, which has the input.
        into:
            Not used.
        """
        [x], [dy] = node.inputs(), ograds
        dy = dy.as_in_context(x.context)
        return [dy if dy.dtype == x.dtype else HOOKS.function("cast")(dy, x.dtype)]


_COPY = CopyRule()


def record_copy(x: NDArray, copy: NDArray) -> None:
    """Put the copy of an array, on any device and in any dtype, on the tape.

    Parameters
    ----------
    x:
        The array.
    copy:
        Its copy.
    """
    record_operator(_COPY, [x], [x._data], [copy])


# --- functions with their own gradient --------------------------------------------------------------------


class Function:
    """An operation with a gradient of your own: override ``forward`` and ``backward``, then call an instance.

    Both get and return NDArrays: ``backward`` gets a gradient for each output, and returns one for each input, of its
    shape, or None. ``save_for_backward`` keeps arrays in ``saved_tensors``. Make an instance for each call. A function
    cannot be part of a hybridized block; an ``mx.operator.CustomOp`` can.

    Examples
    --------
    >>> class Square(autograd.Function):
    ...     def forward(self, x):
    ...         self.save_for_backward(x)
    ...         return x * x
    ...     def backward(self, dy):
    ...         [x] = self.saved_tensors
    ...         return 2 * x * dy
    >>> x = mx.nd.array([1, 2, 3])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = Square()(x)
    >>> y.backward()
    >>> x.grad.asnumpy()
    array([2., 4., 6.], dtype=float32)
    """

    def __init__(self) -> None:
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *args: Any) -> None:
        """Keep arrays for ``backward``, in ``saved_tensors``.

        Parameters
        ----------
        *args:
            The arrays, or whatever ``backward`` needs.
        """
        self.saved_tensors = args

    def forward(self, *inputs: Any) -> Any:
        """Override to compute the outputs from the inputs: an array, or several. Nothing is recorded in it.

        Parameters
        ----------
        *inputs:
            What the instance is called with.
        """
        raise MXNetError(f"{type(self).__name__} must override forward(self, *inputs)")

    def backward(self, *output_grads: Any) -> Any:
        """Override to compute the gradients of the inputs: an array, or as many as there are inputs.

        Parameters
        ----------
        *output_grads:
            The gradient of each output; zeros where none arrived.
        """
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


__all__ = [
    "Function", "backward", "get_symbol", "grad", "is_recording", "is_training", "mark_variables", "pause",
    "predict_mode", "record", "set_recording", "set_training", "train_mode",
]  # fmt: skip


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.autograd", name, "attribute", globals())
