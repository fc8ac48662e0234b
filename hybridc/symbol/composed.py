"""Composed symbols, and how operators compose them: the equivalent of a trace while no shape is known.

``mx.sym.<op>`` are the functions of ``mx.nd``, wrapped: they say under which name, and with which attributes, the next
node is made. :data:`COMPOSER` makes the node; a :class:`ComposedSymbol` is some of the results.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, cast

import numpy as np

from hybridc import attribute, executor, name, nd
from hybridc.array import fluent
from hybridc.array.autocast import AUTOCAST
from hybridc.array.dispatch import invoke
from hybridc.array.functions import function
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import as_default, is_numpy
from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Operator
from hybridc.errors import (
    ArgumentTypeError,
    MXNetError,
    NotImplementedForSymbol,
    TraceError,
    UnknownShapeError,
    UnsupportedError,
)
from hybridc.ground.display.tracebacks import boundary, hide_frames, hides_frames
from hybridc.ground.hooks import HOOKS
from hybridc.ground.location import Location, user_location
from hybridc.ground.state import STATE
from hybridc.ground.whole_files import write_whole
from hybridc.symbol import graph, json
from hybridc.symbol.graph import Entry, SymbolNode
from hybridc.symbol.infer import listed_shapes, listed_types
from hybridc.symbol.mixed_precision import cast_entries
from hybridc.symbol.node_attributes import HIDDEN, AttributesOfNodes, checked, is_hidden, note_initializers
from hybridc.symbol.running.symbol_graphs import SymbolGraphs
from hybridc.trace.traced import Symbol

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Composer(threading.local):
    """Makes nodes; one state for each thread: the name of the next node and the blocks being called."""

    creates_inputs = True
    casts = False  # mixed precision casts when a node has its inputs, see cast_entries

    def __init__(self) -> None:
        self._next: tuple[str | None, str, dict[str, str], Mapping[str, Any]] | None = None
        self._blocks: list[str] = []
        self.stands_for_arrays = False

    # --- what a trace offers -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def active(self) -> Generator[Composer]:
        """Inside the ``with`` block all operators compose; autograd's tape rests meanwhile."""
        previous = STATE.trace, STATE.recording
        STATE.trace, STATE.recording = self, False  # pyright: ignore[reportAttributeAccessIssue]
        try:
            yield self
        finally:
            STATE.trace, STATE.recording = previous

    @contextlib.contextmanager
    def as_arrays(self) -> Generator[None]:
        """Inside the ``with`` block a symbol of one result stands for an array: ``x[0]`` would be its first row."""
        previous, self.stands_for_arrays = self.stands_for_arrays, True
        try:
            yield
        finally:
            self.stands_for_arrays = previous

    @contextlib.contextmanager
    def scope(self, block: Any) -> Generator[None]:
        """Nodes made inside have names that begin with the block's prefix."""
        self._blocks.append(block.name)
        try:
            with block.name_scope():
                yield
        finally:
            self._blocks.pop()

    def path(self) -> str:
        """The name of the block being called."""
        return self._blocks[-1] if self._blocks else ""

    def parameter(self, parameter: Any) -> Any:
        """The variable that stands for a gluon Parameter."""
        return as_default(parameter.var())

    # --- nodes ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def naming(
        self, given: str | None, hint: str, attrs: Mapping[str, str], arguments: Mapping[str, Any] = NOTHING
    ) -> Generator[None]:
        """The first node made inside is called ``given``, or else the hint with a number.

        It keeps the text of those ``arguments`` of the call that are attributes of its operator.
        """
        previous, self._next = self._next, (given, hint, dict(attrs), arguments)
        try:
            yield
        finally:
            self._next = previous

    def invoke(self, op: Operator, inputs: Sequence[Any], out: Any = None) -> Any:
        """Make a node of an operator; missing inputs (None) become variables named after it."""
        location = user_location(self.path())
        if out is not None:
            raise TraceError(f"{location}: out= cannot be used with symbols; use the returned value")
        given, hint, attrs, arguments = self._next or (None, op.title().lower(), {}, NOTHING)
        self._next = None
        label = name.current().get(given, hint)
        attrs = checked(attribute.current().get(attrs))
        own = op.spelled(arguments)
        unknown = next((k for k in attrs if not is_hidden(k)), None)
        if unknown is not None and op.takes_only_its_attributes():
            raise MXNetError(
                f"{location}: {op.title()}: Cannot find argument {unknown!r}; an attribute of the user's begins and "
                f"ends with two underscores, __{unknown}__"
            )
        names = [n for n in op.input_names() if not (op.DRAWS and n == "key")]
        if op.VARIADIC and len(names) != len(inputs):
            names = [f"arg{i}" for i in range(len(inputs))]
        values = [*inputs, *[None] * (len(names) - len(inputs))]
        entries: list[Entry] = []
        for key, value in zip(names, values, strict=True):
            if value is None:  # as in MXNet, it shares all attributes
                entries.append((SymbolNode(None, f"{label}_{key}", (), {**own, **attrs}, location), 0))
            else:
                entries.append(self._entry(op, key, value, location))
        note_initializers(op, entries)
        if AUTOCAST.rules and not STATE.in_rule:
            entries = cast_entries(op, entries, AUTOCAST)
        node = SymbolNode(op, label, entries, attrs, location, own)
        kind: Any = next((v.__class__ for v in inputs if is_numpy(v)), ComposedSymbol)
        return kind([(node, i) for i in range(node.num_outputs())])

    def _entry(self, op: Operator, key: str, value: Any, location: Location) -> Entry:
        if isinstance(value, ComposedSymbol):
            if len(value.entries) == 1:
                return value.entries[0]
            raise MXNetError(
                f"{location}: {op.title()}: input {key!r} must be one value, but {value!r} has {len(value.entries)}: "
                f"{', '.join(value.list_outputs())}; take one of them with [i], or pass all with *"
            )
        if isinstance(value, bool | int | float | np.generic):
            number: Any = np.asarray(value).item()
            return SymbolNode(
                operator_registry.operator("hybrid.constant").bind(value=number), str(number), (), {}, location
            ), 0
        if isinstance(value, NDArray | np.ndarray):
            raise ArgumentTypeError(
                f"{location}: {op.title()}: input {key!r} is an array, but symbols take symbols and numbers only; "
                "make it a variable, mx.sym.var(name), and give the array when the symbol is bound"
            )
        if isinstance(value, Symbol):
            raise TraceError(
                f"{location}: {op.title()}: input {key!r} is a value of a block being traced; a graph of mx.sym.var "
                "cannot use it. Pass the variable through the block's arguments instead"
            )
        raise ArgumentTypeError(
            f"{location}: {op.title()}: input {key!r} must be a Symbol or a number, got {type(value).__name__}"
        )


COMPOSER = Composer()


@functools.cache
def _parameters(function: Any) -> tuple[str, ...]:
    """Names of the positional parameters of a function."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind is kind)


def composing() -> bool:
    """Whether operators compose symbols now: no block is being traced."""
    return STATE.trace is None or isinstance(STATE.trace, Composer)


def _locate(error: MXNetError) -> None:
    """Let an error say which line of the user it comes from."""
    where, said = str(user_location(COMPOSER.path())), str(error)
    if where not in said:
        error.args = (f"{where}: {said}",)


def symbolic(owner: Any, function: str, hint: str, scalar_hint: str = "", reflected_hint: str = "") -> Any:
    """A function of ``owner`` (``mx.nd``, or a namespace there) as a function of ``mx.sym``.

    While a block is traced it is the same function. Otherwise it composes symbols, and takes ``name=`` and ``attr=``.
    The hints name nodes: of symbols, of a symbol and a number, of a number and a symbol.
    """

    @boundary
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            meaning = getattr(owner, function)  # looked up at each call: operators may be overridden
            if not composing():
                kwargs.pop("attr", None)  # of a node, which a trace does not have
                return meaning(*args, **kwargs)
            chosen = hint
            if scalar_hint and len(args) > 1:
                numbers = [isinstance(a, int | float | np.number) for a in args[:2]]
                chosen = scalar_hint if numbers[1] else reflected_hint if numbers[0] else hint
            given, users = kwargs.pop("name", None), cast("dict[str, Any]", kwargs.pop("attr", None) or {})
            attrs = {key: str(value) for key, value in users.items()}
            for key in [k for k in kwargs if k in HIDDEN or is_hidden(k)]:
                attrs[key] = str(kwargs.pop(key))
            arguments = {**dict(zip(_parameters(meaning), args, strict=False)), **kwargs}
            with COMPOSER.active(), COMPOSER.naming(given, chosen, attrs, arguments):
                try:
                    return meaning(*args, **kwargs)
                except MXNetError as error:
                    _locate(error)
                    raise
        except Exception as error:
            hide_frames(error)
            raise

    return functools.update_wrapper(call, getattr(owner, function, call))


class ComposedSymbol(AttributesOfNodes, Symbol):
    """One or more results of a graph of operators on variables.

    Operators, methods and arithmetic make larger graphs; ``infer_shape`` says which shapes follow, ``bind`` and
    ``simple_bind`` make an executor, ``eval`` runs once. ``mx.sym.var`` makes a variable, from which others follow.

    Parameters
    ----------
    entries:
        The results: pairs of a node and the number of its result.
    graphs:
        Graphs compiled before, which are used again; None for none.

    Examples
    --------
    >>> x = mx.sym.var("x")
    >>> y = mx.sym.FullyConnected(x, num_hidden=2, name="fc") + 1
    >>> y.list_arguments()
    ['x', 'fc_weight', 'fc_bias']
    >>> y.infer_shape(x=(4, 3))
    ([(4, 3), (2, 3), (2,)], [(4, 2)], [])
    >>> (2 * x + 1).eval(x=mx.nd.array([1, 2]))[0].tolist()
    [3.0, 5.0]
    """

    __slots__ = ("_graphs", "entries")

    trace = COMPOSER

    def __init__(self, entries: Sequence[Entry] | None, graphs: SymbolGraphs | None = None) -> None:
        self.entries = list(entries or ())
        self._graphs = graphs

    @property
    def graphs(self) -> SymbolGraphs:
        """Its compiled graphs, which executors share."""
        if self._graphs is None:
            self._graphs = SymbolGraphs()
        return self._graphs

    def as_np_ndarray(self) -> Any:
        """The same results, which stand for arrays of ``mx.np``."""
        return HOOKS.symbols().NumpyComposedSymbol(self.entries)

    @staticmethod
    def choose(condition: Any, x: Any, y: Any, out: Any) -> Any:
        """``F.where``; a number is an array like the symbol beside it, whatever dtype the condition has.

        Parameters
        ----------
        condition, x, y:
            As for ``mx.sym.where``; one of x and y may be a number.
        out:
            Must be None: symbols are not written into.
        """
        with COMPOSER.naming(None, "full_like", {}):
            if hasattr(x, "entries") and isinstance(y, int | float):
                y = function("full_like")(x, y)
            elif hasattr(y, "entries") and isinstance(x, int | float):
                x = function("full_like")(y, x)
        return invoke(operator_registry.operator("hybrid.where_by_shapes").bind(), (condition, x, y), out)

    # --- what it is ----------------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The name of its node; None for a group."""
        nodes = {id(node) for node, _ in self.entries}
        return self.entries[0][0].name if len(nodes) == 1 else None

    @property
    def num_outputs(self) -> int:
        """Number of results."""
        return len(self.entries)

    def __repr__(self) -> str:
        if self.name is not None:
            return f"<Symbol {self.name}>"
        return f"<Symbol group [{', '.join(node.name for node, _ in self.entries)}]>"

    def __len__(self) -> int:
        self._of_results("len()")
        return len(self.entries)

    def __iter__(self) -> Iterator[ComposedSymbol]:
        self._of_results("iteration")
        return (ComposedSymbol([entry]) for entry in self.entries)

    def __getitem__(self, key: Any) -> Any:
        """One result, by its number or by the name of an output; a slice gives a group."""
        self._of_results("indexing")
        if isinstance(key, slice):
            return ComposedSymbol(self.entries[key])
        if isinstance(key, str):
            return self._named(key)
        if not isinstance(key, int):
            raise TypeError(
                f"{user_location()}: a Symbol is indexed by the number or the name of an output, not by "
                f"{type(key).__name__}; use slice, slice_axis or take for elements"
            )
        if not -len(self) <= key < len(self):
            raise IndexError(f"{user_location()}: output {key} of {self!r}, which has {len(self)}")
        return ComposedSymbol([self.entries[key]])

    def _of_results(self, what: str) -> None:
        """Raise: this needs an array, which a symbol does not have."""
        if COMPOSER.stands_for_arrays and len(self.entries) == 1:
            raise UnknownShapeError(
                f"{user_location(COMPOSER.path())}: {what} of {self!r} is about its results, not about the elements of "
                "an array; use slice, slice_axis or split"
            )

    def _named(self, key: str) -> ComposedSymbol:
        found = [e for e, output in zip(self.entries, self.list_outputs(), strict=True) if output == key]
        if len(found) == 1:
            return ComposedSymbol(found)
        if found:
            raise ValueError(f'There are multiple outputs with name "{key}"')
        raise ValueError(f'Cannot find output that matches name "{key}"; there are {", ".join(self.list_outputs())}')

    def list_arguments(self) -> list[str]:
        """Names of the inputs, without auxiliary states, in the order in which the graph needs them.

        Examples
        --------
        >>> mx.sym.BatchNorm(mx.sym.var("x"), name="bn").list_arguments()
        ['x', 'bn_gamma', 'bn_beta']
        """
        return [n.name for n in graph.arguments(self.entries)]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the inputs that operators update, such as running means.

        Examples
        --------
        >>> mx.sym.BatchNorm(mx.sym.var("x"), name="bn").list_auxiliary_states()
        ['bn_moving_mean', 'bn_moving_var']
        """
        return [n.name for n in graph.auxiliary(self.entries)]

    def list_inputs(self) -> list[str]:
        """Names of all inputs."""
        return [n.name for n in graph.variables(self.entries)]

    def list_outputs(self) -> list[str]:
        """Names of the results.

        Examples
        --------
        >>> mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="fc1").list_outputs()
        ['fc1_output']
        """
        return [node.output_names()[i] for node, i in self.entries]

    def get_internals(self) -> ComposedSymbol:
        """All values of the graph as one group: variables and the results of every operator.

        Examples
        --------
        >>> net = mx.sym.relu(mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="fc"), name="act")
        >>> net.get_internals().list_outputs()
        ['x', 'fc_weight', 'fc_bias', 'fc_output', 'act_output']
        >>> net.get_internals()["fc_output"]
        <Symbol fc>
        """
        nodes = [n for n in graph.topological(self.entries) if n.number is None]
        return ComposedSymbol([(n, i) for n in nodes for i in range(n.num_outputs())])

    def get_children(self) -> ComposedSymbol | None:
        """The inputs of the last operators as one group; None for a variable."""
        entries = [e for node in _unique(self.entries) for e in node.inputs if e[0].number is None]
        return ComposedSymbol(entries) if entries else None

    # --- composition ---------------------------------------------------------------------------------------

    def __call__(self, *args: Any, name: str | None = None, **kwargs: Any) -> ComposedSymbol:
        """A copy of the graph in which variables, given by position or name, are replaced by other symbols.

        Parameters
        ----------
        *args:
            Symbols of one result each, in the order of the arguments; or
        **kwargs:
            such symbols by the names of inputs. Both at once are a TypeError, unknown names an MXNetError.
        name:
            The name of the copy's last node; None for that of this one.

        Examples
        --------
        >>> x, y = mx.sym.var("x"), mx.sym.var("y")
        >>> (x + 1)(x=y * 2).eval(y=mx.nd.array([5]))[0].tolist()
        [11.0]
        """
        if args and kwargs:
            raise TypeError("compose only accept input Symbols either as positional or keyword arguments, not both")
        names = self.list_inputs()
        if len(args) > len(names):
            raise TypeError(f"{user_location()}: {len(args)} symbols for {len(names)} inputs: {', '.join(names)}")
        arguments = self.list_arguments()
        given = kwargs or dict(zip(arguments if len(args) <= len(arguments) else names, args, strict=False))
        for key, value in given.items():
            if not isinstance(value, ComposedSymbol) or len(value.entries) != 1:
                raise TypeError(f"{user_location()}: compose takes Symbols of one output, got {key}={value!r}")
            if key not in names:
                raise MXNetError(
                    f"{user_location()}: Keyword argument name {key} not found; the inputs are {', '.join(names)}"
                )
        entries = graph.substituted(self.entries, {k: v.entries[0] for k, v in given.items()})
        if name is not None and len(_unique(entries)) == 1:
            entries[0][0].name = name
        return ComposedSymbol(entries)

    def _gen_atomic_symbol(self) -> ComposedSymbol:
        """The operator of this node alone: calling it with symbols composes it anew."""
        node = self._node("_gen_atomic_symbol")
        if node.op is None:
            return self
        # Its inputs are variables that nothing else has, and which a call replaces.
        inputs = [(SymbolNode(None, f"{node.name}_input{i}"), 0) for i in range(len(node.inputs))]
        made = node.with_inputs(inputs)
        return ComposedSymbol([(made, i) for i in range(made.num_outputs())])

    def __copy__(self) -> ComposedSymbol:
        return ComposedSymbol(graph.copied(self.entries))

    def __deepcopy__(self, memo: Any) -> ComposedSymbol:
        return ComposedSymbol(graph.copied(self.entries))

    def __reduce__(self) -> tuple[Any, ...]:
        return load_json, (self.tojson(),)

    def __setstate__(self, state: Any) -> None:
        """The state of a pickle that MXNet made: ``handle``, the graph in JSON."""
        self.entries, self._graphs = json.from_json(state["handle"], "the pickled symbol"), None

    # --- files ---------------------------------------------------------------------------------------------

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """The graph as a text in MXNet's JSON format.

        Parameters
        ----------
        remove_amp_cast:
            Leave the casts of mixed precision out.
        """
        return json.to_json(self.entries, remove_amp_cast)

    def save(self, fname: Any, remove_amp_cast: bool = True) -> None:
        """Write :meth:`tojson` to a file, which appears whole or not at all.

        Parameters
        ----------
        fname:
            The file, usually ``….json``.
        remove_amp_cast:
            Leave the casts of mixed precision out.

        Examples
        --------
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = os.path.join(folder, "net-symbol.json")
        ...     mx.sym.exp(mx.sym.var("x")).save(file)
        ...     mx.sym.load(file).list_arguments()
        ['x']
        """
        write_whole(fname, self.tojson(remove_amp_cast).encode())

    # --- shapes and dtypes ---------------------------------------------------------------------------------

    @hides_frames
    def infer_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes of (arguments, outputs, auxiliary states) that follow from those given; 0 is an unknown size.

        Three times None, with a warning, if some remain unknown.

        Parameters
        ----------
        *args:
            Shapes in the order of the arguments, None for what is not known; or
        **kwargs:
            shapes by name.

        Examples
        --------
        >>> net = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="fc")
        >>> arguments, outputs, states = net.infer_shape(x=(4, 3))
        >>> dict(zip(net.list_arguments(), arguments)), outputs, states
        ({'x': (4, 3), 'fc_weight': (2, 3), 'fc_bias': (2,)}, [(4, 2)], [])
        """
        return listed_shapes(self.entries, args, kwargs, partial=False)

    @hides_frames
    def infer_shape_partial(self, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`infer_shape`; what remains unknown is ``()``, or has sizes of 0."""
        return listed_shapes(self.entries, args, kwargs, partial=True)

    @hides_frames
    def infer_type(self, *args: Any, **kwargs: Any) -> Any:
        """Dtypes of (arguments, outputs, auxiliary states) that follow from those given as to :meth:`infer_shape`.

        Examples
        --------
        >>> mx.sym.exp(mx.sym.var("x")).infer_type(x="float64")
        ([<class 'numpy.float64'>], [<class 'numpy.float64'>], [])
        """
        return listed_types(self.entries, args, kwargs, partial=False)

    @hides_frames
    def infer_type_partial(self, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`infer_type`; what remains unknown is None."""
        return listed_types(self.entries, args, kwargs, partial=True)

    @property
    def shape(self) -> Any:
        """Raises: a composed graph has no shapes yet."""
        self._unknown("shape")

    @property
    def ndim(self) -> Any:
        """Raises, as :attr:`shape`."""
        self._unknown("ndim")

    @property
    def size(self) -> Any:
        """Raises, as :attr:`shape`."""
        self._unknown("size")

    @property
    def dtype(self) -> Any:
        """The dtype that a variable was declared with; raises for anything else."""
        declared = self.declared_dtype()
        return self._unknown("dtype") if declared is None else declared.type

    @property
    def context(self) -> Any:
        """Raises: the device is chosen when the symbol is bound."""
        self._unknown("context")

    ctx = context

    def _unknown(self, what: str) -> NoReturn:
        raise UnknownShapeError(
            f"{user_location(COMPOSER.path())}: {self!r} has no {what}: shapes, dtypes and the device of a symbol are "
            "unknown until it is bound. infer_shape and infer_type tell what follows from those of the inputs; "
            "operators such as reshape_like, slice_like and broadcast_like need none"
        )

    def module(self, **shapes: Any) -> Any:
        """The graph in the ``hybrid`` dialect; tensors are unranked where the rank is unknown."""
        from hybridc.symbol.symbol_to_graph import symbol_to_graph

        return symbol_to_graph(self.entries, shapes)

    # --- running -------------------------------------------------------------------------------------------

    @hides_frames
    def bind(
        self,
        ctx: Any = None,
        args: Any = None,
        args_grad: Any = None,
        grad_req: Any = "write",
        aux_states: Any = None,
        group2ctx: Any = None,
        shared_exec: Any = None,
    ) -> Any:
        """An executor on the given arrays.

        Parameters
        ----------
        ctx:
            The device; None for the current one.
        args:
            The arguments: a list in their order, or a dict by name. A missing one is an MXNetError.
        args_grad:
            The arrays into which gradients are written, likewise; what is missing has none.
        grad_req:
            What a backward does with them: ``"write"``, ``"add"`` (to what is there) or ``"null"``; for all, or a list,
            or a dict by name.
        aux_states:
            The auxiliary states, as ``args``.
        group2ctx:
            The devices of variables and outputs by their attribute ``"ctx_group"``; None for ``ctx``.
        shared_exec:
            Accepted for MXNet's API, without effect.

        Examples
        --------
        >>> x = mx.nd.array([1, 2])
        >>> grad = mx.nd.zeros(2)
        >>> executor = mx.sym.square(mx.sym.var("x")).bind(args={"x": x}, args_grad={"x": grad})
        >>> executor.forward(is_train=True)[0].tolist()
        [1.0, 4.0]
        >>> executor.backward(mx.nd.ones(2))
        >>> grad.tolist()
        [2.0, 4.0]
        """
        return executor.bind(self, ctx, args, args_grad, grad_req, aux_states, group2ctx)

    @hides_frames
    def simple_bind(
        self,
        ctx: Any = None,
        grad_req: Any = "write",
        type_dict: Any = None,
        stype_dict: Any = None,
        group2ctx: Any = None,
        shared_arg_names: Any = None,
        shared_exec: Any = None,
        shared_buffer: Any = None,
        **kwargs: Any,
    ) -> Any:
        """An executor on new arrays, of zeros, whose shapes follow from those given.

        Parameters
        ----------
        ctx:
            The device; None for the current one.
        grad_req:
            What a backward does with gradients: ``"write"``, ``"add"`` (to what is there) or ``"null"``; for all, or a
            list in the order of the arguments, or a dict by name.
        type_dict:
            Dtypes by name; those that do not follow are float32.
        stype_dict:
            Storage types by name, ``"csr"`` or ``"row_sparse"``; those of the variables by default.
        group2ctx:
            The devices of variables and outputs by their attribute ``"ctx_group"``; None for ``ctx``.
        shared_arg_names:
            Accepted for MXNet's API, without effect.
        shared_exec:
            An executor whose arrays are used where name, shape and dtype are the same.
        shared_buffer:
            A dict of arrays by name, used likewise, into which the arguments are put.
        **kwargs:
            Shapes by name, as many as :meth:`infer_shape` needs. An MXNetError says which remain unknown.

        Examples
        --------
        >>> net = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="fc")
        >>> executor = net.simple_bind(x=(1, 3))
        >>> executor.arg_dict["fc_weight"].shape
        (2, 3)
        >>> executor.arg_dict["fc_weight"][:] = 1
        >>> executor.forward(x=mx.nd.array([[1, 2, 3]]))[0].tolist()
        [[6.0, 6.0]]
        """
        return executor.simple_bind(
            self, ctx, grad_req, type_dict, stype_dict, shared_exec, shared_buffer, kwargs, group2ctx
        )

    @hides_frames
    def eval(self, ctx: Any = None, **kwargs: Any) -> Any:
        """The results, as a list of NDArrays, for the arrays given by name.

        Parameters
        ----------
        ctx:
            The device; None for the current one.
        **kwargs:
            An array for each argument and auxiliary state.

        Examples
        --------
        >>> x, y = mx.sym.var("x"), mx.sym.var("y")
        >>> (x * y).eval(x=mx.nd.array([2]), y=mx.nd.array([3]))[0].tolist()
        [6.0]
        """
        return self.bind(ctx, kwargs, aux_states=kwargs).forward()

    # --- what a symbol does not do -------------------------------------------------------------------------

    def gradient(self, wrt: Any) -> NoReturn:
        """Raises: MXNet never had it either.

        Parameters
        ----------
        wrt:
            Would be the names of arguments.
        """
        raise UnsupportedError(
            "Symbol.gradient is not offered (MXNet's raises, too); bind the symbol and call backward of the executor, "
            "or use autograd on a SymbolBlock"
        )

    def optimize_for(
        self,
        backend: str,
        args: Any = None,
        aux: Any = None,
        ctx: Any = None,
        shape_dict: Any = None,
        type_dict: Any = None,
        stype_dict: Any = None,
        skip_infer: bool = False,
        **kwargs: Any,
    ) -> ComposedSymbol:
        """A new symbol, in which a backend has its parts of the graph.

        Parameters
        ----------
        backend:
            The name under which a backend was registered: a partitioner or a step.
        args, aux:
            Arguments and auxiliary states: dicts of NDArrays by name, from which the backend knows shapes, dtypes and
            values. It may add arrays to them.
        ctx:
            Accepted for MXNet's API, without effect.
        shape_dict, type_dict:
            Shapes and dtypes of inputs by name, where there are no arrays.
        stype_dict:
            Accepted for MXNet's API, without effect.
        skip_infer:
            Infer no shapes and dtypes: the backend sees those of no value.
        **kwargs:
            Options of the backend.
        """
        from hybridc.symbol.optimize import optimize_for

        return optimize_for(self, backend, args, aux, shape_dict, type_dict, skip_infer, kwargs)

    def get_backend_symbol(self, backend: str) -> NoReturn:
        """Raises: it is deprecated.

        Parameters
        ----------
        backend:
            What :meth:`optimize_for` takes, too.
        """
        raise UnsupportedError(f"Symbol.get_backend_symbol is deprecated; use sym.optimize_for({backend!r})")

    def _no_value(self, what: str, remedy: str = "") -> NoReturn:
        del remedy  # that of a trace
        raise NotImplementedForSymbol(
            f"{user_location(COMPOSER.path())}: {what} is not implemented for Symbol: {self!r} has no values before it "
            "is bound; use eval(…) or an executor, and F.where instead of Python control flow"
        )

    def backward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises: an executor has gradients."""
        self._no_value("backward()")

    def wait_to_read(self) -> None:
        """Raises: there is nothing to wait for."""
        self._no_value("wait_to_read()")

    def __hash__(self) -> int:
        return id(self) >> 4


def load(fname: str | os.PathLike[str]) -> ComposedSymbol:
    """The symbol in a file that :meth:`Symbol.save` or MXNet wrote.

    Parameters
    ----------
    fname:
        The file. An MXNetError is raised if it cannot be read, or is no symbol.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "net-symbol.json")
    ...     mx.sym.exp(mx.sym.var("x"), name="y").save(file)
    ...     mx.sym.load(file)
    <Symbol y>
    """
    try:
        content = Path(fname).read_text(encoding="utf-8")
    except OSError as error:
        raise MXNetError(f"cannot read {fname}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise MXNetError(f"{fname} is not a symbol in JSON: {error}") from error
    return ComposedSymbol(json.from_json(content, str(fname)))


def load_json(json_str: str) -> ComposedSymbol:
    """The symbol that a text in nnvm's JSON describes.

    Parameters
    ----------
    json_str:
        The text, as :meth:`Symbol.tojson` and MXNet write it.

    Examples
    --------
    >>> text = mx.sym.exp(mx.sym.var("x"), name="y").tojson()
    >>> mx.sym.load_json(text)
    <Symbol y>
    """
    if not isinstance(json_str, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"load_json: the JSON must be a string, got {type(json_str).__name__}")
    return ComposedSymbol(json.from_json(json_str))


def _unique(entries: Sequence[Entry]) -> list[SymbolNode]:
    return list({id(node): node for node, _ in entries}.values())


# --- operators as methods ------------------------------------------------------------------------------------

# Python's operators: the function, and MXNet's names for nodes of two symbols, of a symbol and a number, and reflected.
_ARITHMETIC = {
    "add": ("add", "_plus", "_plusscalar", "_plusscalar"),
    "sub": ("subtract", "_minus", "_minusscalar", "_rminusscalar"),
    "mul": ("multiply", "_mul", "_mulscalar", "_mulscalar"),
    "truediv": ("divide", "_div", "_divscalar", "_rdivscalar"),
    "mod": ("modulo", "_mod", "_modscalar", "_rmodscalar"),
    "pow": ("power", "_power", "_powerscalar", "_rpower_scalar"),
}
_COMPARISONS = {
    "lt": ("lesser", "_lesser"),
    "le": ("lesser_equal", "_lesser_equal"),
    "gt": ("greater", "_greater"),
    "ge": ("greater_equal", "_greater_equal"),
    "eq": ("equal", "_equal"),
    "ne": ("not_equal", "_not_equal"),
}


def _reflected(make: Callable[[], Any]) -> Any:
    call = make()

    def method(self: Any, other: Any) -> Any:
        return call(other, self)

    return method


def _unless_none(make: Callable[[], Any], answer: bool) -> Any:
    call = make()

    def method(self: Any, other: Any) -> Any:
        return answer if other is None else call(self, other)

    return method


def _negative(self: Any) -> Any:
    return self * -1.0  # as MXNet writes it


class _OfGraph:
    """A method of composed symbols as the class ``mx.sym.Symbol`` shows it; a value of a trace does not have it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return getattr(ComposedSymbol, self._name)
        raise AttributeError(
            f"{user_location()}: {instance!r} has no {self._name!r}: it is a value of a traced block, not a graph "
            "that mx.sym composed of variables; call the block with mx.sym.var(name) for its graph"
        )


# What a composed symbol has beside MXNet's interface.
_OWN = {"choose", "ctx", "context", "declared_dtype", "dtype", "entries", "module", "ndim", "shape", "size", "trace"}


def _install() -> None:
    """Give composed symbols the operators as methods that know how nodes are called; show all methods on Symbol."""
    for method in set(dir(ComposedSymbol)) - set(dir(Symbol)) - _OWN:
        if not method.startswith("_"):
            setattr(Symbol, method, _OfGraph(method))
    made: dict[str, Callable[[], Any]] = {}
    for method in fluent.METHODS.split():
        made[method] = functools.partial(symbolic, nd, method, method)
    for method in ("reshape", "transpose", "broadcast_like", "expand_dims", "flatten", "squeeze", "astype", "copy"):
        made[method] = functools.partial(symbolic, fluent.Fluent, method, "cast" if method == "astype" else method)
    for operator, (called, *hints) in _ARITHMETIC.items():
        call = functools.partial(symbolic, nd, called, *hints)
        made[f"__{operator}__"] = call
        made[f"__r{operator}__"] = functools.partial(_reflected, call)
    for operator, (called, hint) in _COMPARISONS.items():
        made[f"__{operator}__"] = functools.partial(symbolic, nd, called, hint, f"{hint}_scalar", f"{hint}_scalar")
    for operator, answer in (("__eq__", False), ("__ne__", True)):
        made[operator] = functools.partial(_unless_none, made[operator], answer)
    for method, make in made.items():
        setattr(ComposedSymbol, method, fluent.LateMethod(ComposedSymbol, method, make))
    setattr(ComposedSymbol, "__neg__", _negative)  # noqa: B010


_install()
