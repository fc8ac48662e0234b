"""Block and HybridBlock: networks as trees of Python objects, hybridized or not."""

from __future__ import annotations

import copy
import functools
import os
import re
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Unpack, cast, overload

from hybridc import autograd, nd, symbol
from hybridc.array.ndarray import NDArray
from hybridc.array_files.name_maps import NameMap
from hybridc.compile.stages import trace_block
from hybridc.context import CPU, Context, current_context
from hybridc.errors import (
    ArgumentTypeError,
    AttributeValueError,
    CheckError,
    DeferredInitializationError,
    DTypeError,
    MXNetError,
    NestedArraysError,
    NotOverriddenError,
    ParameterShapeError,
    ShapeError,
)
from hybridc.gluon import files
from hybridc.gluon.children import BlockRoot, Children, allow_nested
from hybridc.gluon.epoch import ATTRIBUTE_EPOCH
from hybridc.gluon.export import export
from hybridc.gluon.hybridize.cached_graph import CachedGraph
from hybridc.gluon.hybridize.call_errors import by_keyword, explain_call, returned_nothing, unknown_arguments
from hybridc.gluon.hybridize.call_samples import ArraySample, samples
from hybridc.gluon.hybridize.flags import HybridizeOptions, backends_of, check_flags
from hybridc.gluon.hybridize.monitored_graph import MonitoredGraph
from hybridc.gluon.hybridize.parameter_shapes import infer_parameter_shapes, infer_parameter_types
from hybridc.gluon.hybridize.report import Report
from hybridc.gluon.hybridize.sparse_graph import SparseGraph
from hybridc.gluon.naming import BlockScope, Forwards, HybridForwards, NoOptions, Unsaid
from hybridc.gluon.parameter import Parameter, ParameterDict
from hybridc.gluon.summary import summary
from hybridc.gluon.utils import BlockHooks, HookHandle, device_of, indent, same, shape_is_known, traces
from hybridc.ground.absent import explain_habits, without_habits
from hybridc.ground.display.tracebacks import boundary, hide_frames, hides_frames
from hybridc.ground.events import RECORDER, EventRecorder, EventSource, now
from hybridc.ground.hooks import HOOKS
from hybridc.ground.location import user_depth
from hybridc.ground.locks import ForkLock
from hybridc.ground.state import STATE
from hybridc.options import OPTIONS

if TYPE_CHECKING:
    from hybridc.array.numpy_array import ndarray

__all__ = ["ATTRIBUTE_EPOCH", "Block", "HybridBlock"]


_INITIALIZING = ForkLock()
_MISSING = object()
_Result = TypeVar("_Result")


def _no_child(parent: Block, value: Any, wrapper: str) -> AttributeValueError:
    """The error for what is no block and cannot be a child."""
    what = f"{type(value).__name__} {value!r}"
    if isinstance(value, type):
        what, remedy = f"the class {value.__name__}", f"make a block of it: {value.__name__}(…)"
    elif isinstance(value, list):
        what, remedy = "a list", "give the blocks one by one: net.add(*blocks)"
    elif callable(value):
        remedy = f"put a function in as nn.{wrapper}(function)"
    else:
        remedy = "make it a Block"
    return AttributeValueError(f"{type(parent).__name__}: children must be blocks, got {what}; {remedy}")


class Block(BlockRoot):
    """A layer or network: its children and parameters are what is assigned to its attributes.

    Override ``forward(self, *args)``, which computes the outputs from the inputs; a call of the block runs it. Make
    children and parameters inside ``with self.name_scope():`` to give them names that begin with this block's. A
    :class:`HybridBlock` can be compiled as well.

    Parameters
    ----------
    prefix:
        The beginning of the names of its parameters; None: the class's name in lower case, and a number.
    params:
        A ParameterDict whose parameters it has instead of new ones: ``nn.Dense(20, params=other.collect_params())``.

    Examples
    --------
    >>> class Twice(gluon.Block):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         with self.name_scope():
    ...             self.dense = nn.Dense(3, in_units=3)
    ...     def forward(self, x):
    ...         return self.dense(self.dense(x))
    >>> net = Twice(prefix="net_")
    >>> net.initialize()
    >>> net(mx.nd.ones((2, 3))).shape
    (2, 3)
    >>> list(net.collect_params())
    ['net_dense0_weight', 'net_dense0_bias']
    """

    IN_SUMMARY: ClassVar[bool] = True  # whether it is a line of the table that summary prints

    def __init__(
        self, prefix: str | None = None, params: ParameterDict | None = None, **unknown: Unpack[NoOptions]
    ) -> None:
        if unknown:
            raise unknown_arguments(type(self), unknown)
        if prefix is not None and not isinstance(prefix, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = type(prefix).__name__
            raise ArgumentTypeError(
                f"{type(self).__name__}: prefix must be a string, got {kind}; children of a Sequential are put in by "
                f"net.add({kind}(…), …)"
            )
        self._prefix, self._params = BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix.removesuffix("_")
        self._scope = BlockScope(self, prefix == "")
        self._children: dict[str, Block] = Children()
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks = BlockHooks()
        self._forward_pre_hooks = BlockHooks()
        self._parents: list[weakref.ref[Block]] = []
        self._height = 1

    # --- attributes ----------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        """Register parameters and children; any other change is noted for the compiled graphs."""
        existing = self.__dict__.get(name, _MISSING)
        if isinstance(existing, Parameter | Block) and not isinstance(value, type(existing)):
            raise TypeError(
                f"Changing attribute type for {name} from {type(existing)} to {type(value)} is not allowed."
            )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            self._register_parameter(name, value)
        elif not same(existing, value):
            ATTRIBUTE_EPOCH.value += 1
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        ATTRIBUTE_EPOCH.value += 1
        if self._children.pop(name, None) is not None or self._reg_params.pop(name, None) is not None:
            self._drop_graphs()
        object.__delattr__(self, name)

    def _register_parameter(self, name: str, param: Parameter) -> None:
        # COMPAT(mxnet): assigning the same parameter again is fine.
        if self._reg_params.get(name, param) is not param:
            raise CheckError(
                f"Overriding Parameter attribute {name} is not allowed. To share parameters between blocks, "
                "pass params=other.params where the block is made."
            )
        self._reg_params[name] = param
        self._drop_graphs()

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Make a block a child, as assigning it to an attribute does.

        Parameters
        ----------
        block:
            The block; what is none is an AttributeValueError.
        name:
            The name of the child, by which files know its parameters; None: its number among the children.
        """
        if "_parents" not in self.__dict__:
            raise MXNetError(
                f"{type(self).__name__}: call super().__init__(**kwargs) before making children of a block"
            )
        if not isinstance(block, Block):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _no_child(self, block, "Lambda")
        self._children[str(len(self._children)) if name is None else name] = block
        block._add_parent(self)
        self._rise(block._height + 1)
        self._drop_graphs()

    def _add_parent(self, parent: Block) -> None:
        alive = [ref for ref in self._parents if ref() is not None]
        vars(self)["_parents"] = [*alive, weakref.ref(parent)]

    def _rise(self, height: int) -> None:
        """Note that so many levels of blocks are nested from here on, in this block and those around it."""
        stack: list[tuple[Block, int]] = [(self, height)]
        highest = 0
        while stack:
            block, height = stack.pop()
            if block._height >= height:
                continue
            vars(block)["_height"] = highest = height
            stack += [(parent, height + 1) for parent in (ref() for ref in block._parents) if parent is not None]
        allow_nested(highest)

    def _drop_graphs(self) -> None:
        """Drop the compiled graphs of this block and of every block around it."""
        stack: list[Block] = [self]
        while stack:
            own = vars(stack.pop())
            if own.pop("_is_compiled", False):  # else there is no graph from here on
                own.pop("_cached_graph", None)
                stack += [parent for parent in (ref() for ref in own["_parents"]) if parent is not None]

    def _keep_graph(self, graph: Any) -> Any:
        """The graph of this block: this one, or what another thread made. All blocks in it know that there is one."""
        for block in (blocks := self._leaves_first()):
            vars(block)["_is_compiled"] = True
        kept = vars(self).setdefault("_cached_graph", graph)
        for block in blocks:  # again, for those that dropped graphs meanwhile
            vars(block)["_is_compiled"] = True
        return kept

    def __getstate__(self) -> dict[str, Any]:
        """Everything but compiled graphs and the links to parents."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_cached_graph", "_is_compiled", "_parents")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        vars(self)["_parents"] = []
        allow_nested(self._height)
        for child in self._children.values():
            child._add_parent(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Block:
        """A copy of this block and all below it, children first: copies do not nest as the blocks do."""
        for block in self._leaves_first():
            if id(block) in memo:
                continue
            if type(block).__deepcopy__ is not Block.__deepcopy__:
                copy.deepcopy(block, memo)
                continue
            memo[id(block)] = copied = object.__new__(type(block))
            copied.__setstate__(copy.deepcopy(block.__getstate__(), memo))
        return memo[id(self)]

    # --- names and parameters ------------------------------------------------------------------------------

    def _alias(self) -> str:
        return type(self).__name__.lower()

    @property
    def prefix(self) -> str:
        """The prefix of the names of its parameters."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without the last underscore."""
        return self._name

    @property
    def params(self) -> ParameterDict:
        """Its own parameters, without those of its children."""
        return self._params

    def name_scope(self) -> BlockScope:
        """Blocks and parameters made ``with self.name_scope():`` get names that begin with this block's."""
        return self._scope

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """The parameters of this block and all below it, by their names.

        Parameters
        ----------
        select:
            A regular expression that the names of parameters must match from their beginning; None: all parameters.

        Examples
        --------
        >>> net = nn.Dense(2, in_units=3, prefix="dense_")
        >>> list(net.collect_params())
        ['dense_weight', 'dense_bias']
        >>> net.collect_params(".*bias").setattr("lr_mult", 2)
        """
        self._warn_about_containers()
        found = ParameterDict(self._params.prefix)
        pattern = re.compile(select or "")
        found.update({name: param for name, param in self.params.items() if pattern.match(name)})
        for child in self._children.values():
            found.update(child.collect_params(select))
        return found

    def _warn_about_containers(self) -> None:
        children = {id(child) for child in self._children.values()}
        for name, value in list(self.__dict__.items()):  # another thread may add what it compiled
            if name == "_children" or not isinstance(value, list | tuple | dict):
                continue
            if any(id(block) not in children for block in _blocks_in(value)):
                warnings.warn(
                    f'"{type(self).__name__}.{name}" is an unregistered container with Blocks: lists, tuples '
                    "and dicts do not make them children. Use register_child(), nn.Sequential or "
                    "nn.HybridSequential.",
                    stacklevel=user_depth(),
                )

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Parameters by the path of attributes that leads to them: ``features.0.weight``."""
        prefix = prefix + "." if prefix else ""
        found = {prefix + name: param for name, param in self._reg_params.items()}
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(prefix + name))
        return found

    @hides_frames
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
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        self.collect_params().zero_grad()

    def cast(self, dtype: Any) -> None:
        """Change the dtype of all parameters, here and in all blocks below; their values are rounded.

        Parameters
        ----------
        dtype:
            The dtype: "float16", ``np.float16``, or whatever NumPy takes for one; "bfloat16", too.
        """
        for child in self._children.values():
            child.cast(dtype)
        for param in self.params.values():
            param.cast(dtype)
        self._drop_graphs()

    # --- files ---------------------------------------------------------------------------------------------

    @hides_frames
    def save_parameters(
        self, filename: str, deduplicate: bool = False, metadata: Mapping[str, str] | None = None
    ) -> None:
        """Save all parameters, named by the path of attributes that leads to them, as ``features.0.weight``.

        Parameters
        ----------
        filename:
            The file. Its ending says the format: ``.safetensors``, ``.npz``, or MXNet's for all others.
        deduplicate:
            Whether a parameter that several blocks share is saved once, rather than under each of its names.
        metadata:
            Texts by name, which are put into a file of safetensors.

        Examples
        --------
        >>> net = nn.Dense(2, in_units=3)
        >>> net.initialize()
        >>> net.save_parameters("dense.params")
        >>> other = nn.Dense(2, in_units=3)
        >>> other.load_parameters("dense.params")
        >>> bool((other.weight.data() == net.weight.data()).asnumpy().all())
        True
        """
        files.save_parameters(self._collect_params_with_prefix(), filename, deduplicate, metadata)

    @hides_frames
    def load_parameters(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
        name_map: NameMap | None = None,
    ) -> None:
        """Load what :meth:`save_parameters` wrote; files of :meth:`ParameterDict.save` are recognised.

        The content of the file says whether it is MXNet's, safetensors or ``.npz``. The block need not be initialized.
        Nothing is loaded if names or shapes do not fit; the error lists all that do not.

        Parameters
        ----------
        filename:
            The file.
        ctx:
            The device of the parameters, or a list of devices; None: where they are, else the current one.
        allow_missing:
            Whether parameters that the file does not have stay as they are; else they are a CheckError.
        ignore_extra:
            Whether arrays of the file that no parameter has the name of are left out; else they are a ValueError.
        cast_dtype:
            Whether the dtypes of the file and of the parameters may differ; else that is a CheckError.
        dtype_source:
            With ``cast_dtype`` "current": values get the dtype of their parameters; "saved": parameters get that of
            the file.
        name_map:
            The block's name for a name of the file, or None to leave an array out: a function, or a dict of the names
            that differ.
        """
        files.load_parameters(
            self,
            self._collect_params_with_prefix(),
            filename,
            ctx,
            allow_missing,
            ignore_extra,
            cast_dtype,
            dtype_source,
            name_map,
        )

    def save(self, prefix: str) -> None:
        """Write ``prefix-model.json``, the names of all blocks and whether they are hybridized, and ``-model.params``.

        :meth:`load` of a block that is built in the same way takes them.

        Parameters
        ----------
        prefix:
            The beginning of the names of the files.
        """
        files.save_model(self, prefix)

    def load(self, prefix: str) -> None:
        """Take parameters from what :meth:`save` wrote, and hybridize the blocks that were.

        Parameters
        ----------
        prefix:
            What :meth:`save` was given.
        """
        files.load_model(self, prefix)

    def save_params(self, filename: str) -> None:
        """Save parameters by their names without this block's prefix. Deprecated: use :meth:`save_parameters`.

        Parameters
        ----------
        filename:
            The file.
        """
        warnings.warn("save_params is deprecated. Please use save_parameters.", stacklevel=user_depth())
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(
        self, filename: str, ctx: Any = None, allow_missing: bool = False, ignore_extra: bool = False
    ) -> None:
        """The old name of :meth:`load_parameters`.

        Parameters
        ----------
        filename:
            The file.
        ctx:
            The device of the parameters, or a list of devices; None: where they are, else the current one.
        allow_missing:
            Whether parameters that the file does not have stay as they are; else they are a CheckError.
        ignore_extra:
            Whether arrays of the file that no parameter has the name of are left out; else they are a ValueError.
        """
        warnings.warn("load_params is deprecated. Please use load_parameters.", stacklevel=user_depth())
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    # --- calls ---------------------------------------------------------------------------------------------

    # The result is what ``forward`` says; of one that says nothing it is taken for an array, as nearly all are.
    @overload
    def __call__(self: Forwards[Unsaid], x: ndarray, /, *args: Any) -> ndarray: ...
    @overload
    def __call__(self: Forwards[Unsaid], *args: Any) -> NDArray: ...
    @overload
    def __call__(self: Forwards[_Result], *args: Any) -> _Result: ...
    @boundary
    def __call__(self, *args: Any, **keywords: Unpack[NoOptions]) -> Any:
        """Run ``forward`` between the hooks.

        Parameters
        ----------
        *args:
            The arguments of ``forward``, by position.
        """
        try:
            if keywords:
                raise by_keyword(self, keywords)
            trace = STATE.trace
            if trace is not None:
                with trace.scope(self):
                    return self._call_forward(args)
            if self._forward_pre_hooks:
                for hook in list(self._forward_pre_hooks.values()):
                    hook(self, args)
            out = self._call_forward(args)
            if self._forward_hooks:
                for hook in list(self._forward_hooks.values()):
                    hook(self, args, out)
            return out
        except Exception as error:
            hide_frames(error)
            raise

    def _call_forward(self, args: tuple[Any, ...]) -> Any:
        """The results of ``forward``; an error where it takes other arguments, a warning where it gives None."""
        try:
            out = self.forward(*args)
        except TypeError as error:
            explain_call(self, "forward", (), args, {}, error)
            raise
        if out is None:
            self._warn_of_none()
        return out

    def _warn_of_none(self) -> None:
        """Warn that the forward returned None: it may be meant, but most often a return was forgotten."""
        is_hybrid = isinstance(self, HybridBlock) and not self.overrides_forward()
        warnings.warn(returned_nothing(self, "hybrid_forward" if is_hybrid else "forward"), stacklevel=user_depth())

    # A user's block may name its inputs, as ``def forward(self, x, y)``: ``**_`` tells type checkers so.
    def forward(self, *args: Any, **_: Any) -> Any:
        """Override to compute the outputs from the inputs.

        Parameters
        ----------
        *args:
            What the block is called with.
        """
        raise NotOverriddenError(f"{type(self).__name__} must override forward(self, *args)")

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call a function before every forward of this block; ``detach()`` of the result ends that.

        Parameters
        ----------
        hook:
            ``hook(block, inputs)``; the inputs are a tuple.
        """
        handle = HookHandle()
        handle.attach(self._forward_pre_hooks, hook)
        return handle

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call a function after every forward of this block; ``detach()`` of the result ends that.

        Hooks of blocks inside a hybridized one are not called.

        Parameters
        ----------
        hook:
            ``hook(block, inputs, outputs)``; the inputs are a tuple, the outputs what ``forward`` returned.

        Examples
        --------
        >>> net = nn.Dense(2)
        >>> net.initialize()
        >>> handle = net.register_forward_hook(lambda block, inputs, outputs: print(outputs.shape))
        >>> y = net(mx.nd.ones((4, 3)))
        (4, 2)
        >>> handle.detach()
        """
        handle = HookHandle()
        handle.attach(self._forward_hooks, hook)
        return handle

    def register_op_hook(self, callback: Callable[[str, str, NDArray], Any], monitor_all: bool = False) -> None:
        """Let every HybridBlock below this one call a function with the results of its operators.

        Parameters
        ----------
        callback:
            ``callback(name, operator, array)``, as of :meth:`HybridBlock.register_op_hook`.
        monitor_all:
            Whether it is called with the operators' inputs, too.
        """
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def apply(self, fn: Callable[[Block], Any]) -> Block:
        """Call a function with every block below this one, and then with this one; returns this block.

        Parameters
        ----------
        fn:
            The function of a block.

        Examples
        --------
        >>> net = nn.Sequential(prefix="net_")
        >>> with net.name_scope():
        ...     net.add(nn.Dense(4), nn.Dense(2))
        >>> net = net.apply(lambda block: print(block.name))
        net_dense0
        net_dense1
        net
        """
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    @overload
    def hybridize(self, active: bool = True, **kwargs: Unpack[HybridizeOptions]) -> None: ...
    @overload
    def hybridize(self, active: bool = True, *, backend: str, **kwargs: Any) -> None: ...
    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize every HybridBlock below this one.

        Parameters
        ----------
        active:
            Whether they are compiled at their next calls; False: they run operator by operator again.
        **kwargs:
            Keywords of :meth:`HybridBlock.hybridize`.
        """
        check_flags(kwargs)
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def wait_compiled(self, timeout: float | None = None) -> bool:
        """Wait until what is compiled in the background for this block, or one below it, is ready for their next calls.

        Parameters
        ----------
        timeout:
            The number of seconds after which the answer is False, otherwise True; None: no limit.
        """
        end = None if timeout is None else time.monotonic() + timeout
        graphs = [vars(block).get("_cached_graph") for block in self._tree()]
        waiting = [each for graph in graphs if isinstance(graph, CachedGraph) for each in graph.in_background()]
        return all(each.wait(None if end is None else max(0.0, end - time.monotonic())) for each in waiting)

    def summary(self, *inputs: Any) -> None:
        """Print a table of the layers, with the shapes of their outputs and the numbers of their parameters.

        A network that is hybridized is a CheckError: call it before ``hybridize()``.

        Parameters
        ----------
        *inputs:
            Arrays to call the network with.

        Examples
        --------
        >>> net = nn.Dense(4)
        >>> net.initialize()
        >>> net.summary(mx.nd.ones((1, 3)))
        ---...
                Layer (type)                                Output Shape         Param #
        ===...
                       Input                                      (1, 3)               0
                     Dense-1                                      (1, 4)              16
        ===...
           Total params: 16
        ...
        """
        for block in self._tree():
            if isinstance(block, HybridBlock) and block.is_active:
                raise CheckError(
                    f'"{block.name}" must not be hybridized to print summary: call hybridize(False) before'
                )
        print(summary(self, inputs))  # noqa: T201

    def _tree(self) -> Iterator[Block]:
        """This block and all below it, each before its children."""
        stack: list[Block] = [self]
        while stack:
            yield stack[-1]
            stack += reversed(stack.pop()._children.values())

    def _leaves_first(self) -> list[Block]:
        """This block and all below it, each once, after its children."""
        done: list[Block] = []
        seen: set[int] = set()
        stack: list[tuple[Block, bool]] = [(self, False)]
        while stack:
            block, is_after = stack.pop()
            if is_after:
                done.append(block)
            elif id(block) not in seen:
                seen.add(id(block))
                stack.append((block, True))
                stack += [(child, False) for child in reversed(block._children.values())]
        return done

    def __dir__(self) -> list[str]:
        return without_habits("Block", super().__dir__(), type(self))

    def __repr__(self) -> str:
        return self._repr({k: v for k, v in self.__dict__.items() if isinstance(v, Block)})

    def _repr_html_(self) -> str:
        from hybridc.ground.display.block_html import block_html

        return block_html(self)

    def _repr(self, children: Mapping[str, object]) -> str:
        lines = "\n".join(f"  ({name}): {indent(repr(block), 2)}" for name, block in children.items())
        return f"{type(self).__name__}(\n{lines}\n)"


explain_habits("Block", Block)


class HybridBlock(Block):
    """A block that can be compiled: override ``hybrid_forward(self, F, x, …)`` or ``forward(self, x, …)``.

    ``hybrid_forward`` gets ``F`` (``mx.nd``, or ``mx.sym`` while traced) and its own parameters as keywords. After
    :meth:`hybridize` a call runs compiled code. The first call with arrays of new shapes or dtypes compiles, and only
    then ``hybrid_forward`` runs, on Symbols: it must not branch on values. All children are HybridBlocks.

    Examples
    --------
    >>> class Scaled(gluon.HybridBlock):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         with self.name_scope():
    ...             self.scale = self.params.get("scale", shape=(3,), init="ones")
    ...     def hybrid_forward(self, F, x, scale):
    ...         return F.relu(F.broadcast_mul(x, scale))
    >>> net = Scaled()
    >>> net.initialize()
    >>> net.hybridize()
    >>> net(mx.nd.array([[-1, 0, 2]])).asnumpy()
    array([[0., 0., 2.]], dtype=float32)
    """

    def __init__(
        self, prefix: str | None = None, params: ParameterDict | None = None, **unknown: Unpack[NoOptions]
    ) -> None:
        super().__init__(prefix=prefix, params=params, **unknown)
        self._active = False
        self._backends: tuple[Any, ...] = ()
        self._is_static = False
        self._is_background = False
        self._op_hook: tuple[Callable[..., Any], bool] | None = None

    @property
    def is_active(self) -> bool:
        """Whether it is hybridized."""
        return self._active

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Make a HybridBlock a child; other blocks cannot be compiled, and are a ValueError."""
        if not isinstance(block, Block):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _no_child(self, block, "HybridLambda")
        if not isinstance(block, HybridBlock):
            raise ValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block} has type {type(block)}. If "
                "you are using Sequential, please try HybridSequential instead."
            )
        super().register_child(block, name)

    def _clear_cached_op(self) -> None:
        """Drop the compiled graphs, by the name that GluonCV calls when what a block computes has changed."""
        self._drop_graphs()

    @overload  # the keywords are named
    def hybridize(
        self,
        active: bool = True,
        backend: None = None,
        clear: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        background: bool | None = None,
        *,
        backend_opts: dict[str, Any] | None = None,
    ) -> None: ...
    @overload
    def hybridize(self, active: bool, backend: str, *args: Any, **kwargs: Any) -> None: ...
    @overload
    def hybridize(self, active: bool = True, *, backend: str, **kwargs: Any) -> None: ...
    def hybridize(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        active: bool = True,
        backend: str | None = None,
        clear: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        background: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Compile this block at its next call, and likewise its children where they are called alone.

        Parameters
        ----------
        active:
            Whether calls run compiled code; False: they run operator by operator again.
        backend:
            The name of a backend of :mod:`hybridc.subgraph`, which takes its parts of the graph; None: there is none.
        clear:
            Whether what was compiled, and the backends of before, are dropped.
        static_alloc:
            Whether launches on a GPU are recorded once and replayed together, see ``docs/gpu.md``.
        static_shape:
            Changes nothing: code is always compiled for given shapes.
        inline_limit:
            Changes nothing, as in a graph everything is inlined.
        forward_bulk_size:
            Changes nothing: a graph is one program.
        backward_bulk_size:
            Changes nothing: a graph is one program.
        background:
            Whether another process compiles; until it is done calls run operator by operator, see ``docs/native.md``.
            None: as the environment variable ``HYBRIDC_COMPILE=background`` says.
        **kwargs:
            Options of the backend, by name, or together as ``backend_opts``.

        Examples
        --------
        >>> net = nn.Dense(2)
        >>> net.initialize()
        >>> net.hybridize()
        >>> y = net(mx.nd.ones((4, 3)))  # compiles
        >>> y = net(mx.nd.zeros((4, 3)))  # runs what was compiled
        """
        kwargs |= {"backend": backend, "clear": clear, "static_alloc": static_alloc, "static_shape": static_shape}
        kwargs |= {"inline_limit": inline_limit, "forward_bulk_size": forward_bulk_size}
        kwargs |= {"backward_bulk_size": backward_bulk_size, "background": background}
        check_flags(kwargs)
        if active and (self._forward_hooks or self._forward_pre_hooks):
            warnings.warn(
                f'"{self}" is being hybridized while still having forward hook/pre-hook. If "{self}" is a '
                "child of HybridBlock, the hooks will not take effect.",
                stacklevel=user_depth(),
            )
        self._active = bool(active)
        vars(self)["_backends"] = backends_of(self._backends, kwargs)
        if static_alloc or clear:
            vars(self)["_is_static"] = bool(static_alloc)
        if background is not None or clear:
            vars(self)["_is_background"] = OPTIONS.compile == "background" if background is None else bool(background)
        if clear or backend is not None:
            self._drop_graphs()
        super().hybridize(active, **kwargs)

    @overload
    def __call__(self: Forwards[Unsaid], x: ndarray, /, *args: Any) -> ndarray: ...
    @overload
    def __call__(self: Forwards[Unsaid], *args: Any) -> NDArray: ...
    @overload
    def __call__(self: Forwards[_Result], *args: Any) -> _Result: ...
    @boundary
    def __call__(self, *args: Any, **keywords: Unpack[NoOptions]) -> Any:
        """Run the compiled graph if it is hybridized, else ``forward``, between the hooks.

        Parameters
        ----------
        *args:
            The arguments of the forward, by position: arrays or symbols, lists of them, and whatever else it takes.
        """
        try:
            if keywords:
                raise by_keyword(self, keywords)
            if STATE.trace is not None:
                return super().__call__(*args)
            if not args or type(args[0]) is not NDArray:
                owner = next(traces(args), None)
                if owner is not None:  # Symbols: record into their trace
                    with owner.active():
                        return super().__call__(*args)
            if self._forward_pre_hooks:
                for hook in list(self._forward_pre_hooks.values()):
                    hook(self, args)
            if self._active:
                graph = self.__dict__.get("_cached_graph")
                try:
                    out = (self._compile(args) if graph is None else graph)(*args)
                except DeferredInitializationError:  # it was initialized after a call that failed without
                    out = self._compile(args)(*args)
            else:
                out = self._forward_eagerly(args)
            if self._forward_hooks:
                for hook in list(self._forward_hooks.values()):
                    hook(self, args, out)
            return out
        except Exception as error:
            hide_frames(error)
            raise

    def overrides_forward(self) -> bool:
        """Whether the class overrides ``forward``, which may then take arguments of any type."""
        return type(self).forward is not HybridBlock.forward

    def _forward_eagerly(self, args: tuple[Any, ...]) -> Any:
        try:
            out = self.forward(*args)
            if out is None:
                self._warn_of_none()
            return out
        except TypeError as error:
            explain_call(self, "forward", (), args, {}, error)
            raise
        except (ShapeError, DTypeError, AttributeValueError) as error:
            text = str(error)
            if "(in " not in text:  # else a block inside this one said where
                error.args = (f"{text} (in {self.name})",)
            raise
        except DeferredInitializationError:
            # A forward(x) that reads its own parameters; hybrid_forward gets them from HybridBlock.forward.
            if not any(p.is_deferred for p in self._reg_params.values()):
                raise
            self._finish_deferred(self._reg_params, args)
            return self.forward(*args)

    def _compile(self, args: tuple[Any, ...]) -> Any:
        """The graph cache of this block, made at the first hybridized call."""
        params = self.collect_params()
        if any(p.is_deferred for p in params.values()):
            self._finish_deferred(params, args)
        if self._op_hook is None:
            kind = CachedGraph if all(p.stype == "default" for p in params.values()) else SparseGraph
            graph = kind(self, self._backends, self._is_static, self._is_background)
        else:
            graph = MonitoredGraph(self, *self._op_hook)
        return self._keep_graph(graph)

    def forward(self: HybridForwards[_Result], *args: Any, **_: Any) -> _Result:
        """Call ``hybrid_forward`` with ``F`` and the parameters; override this where ``F`` is not wanted.

        Parameters
        ----------
        *args:
            What the block is called with; while it is traced, Symbols.
        """
        trace = STATE.trace
        if trace is not None:
            symbols = {name: trace.parameter(p) for name, p in self._reg_params.items()}
            try:
                return self.hybrid_forward(symbol, *args, **symbols)
            except TypeError as error:
                explain_call(self, "hybrid_forward", (symbol,), args, symbols, error)
                raise
        ctx = CPU if args and type(args[0]) is NDArray else device_of(args)
        if ctx is None:
            raise NestedArraysError(
                "In HybridBlock, there must be one NDArray or one Symbol in the input; "
                f"{type(self).__name__} got {', '.join(type(a).__name__ for a in args) or 'nothing'}. "
                "Convert it with mx.nd.array(…)"
            )
        try:
            arrays = {name: p.data(ctx) for name, p in self._reg_params.items()}
        except DeferredInitializationError:
            self._finish_deferred(self._reg_params, args)
            arrays = {name: p.data(ctx) for name, p in self._reg_params.items()}
        try:
            if ctx is (current := current_context()) or ctx == current:
                return self.hybrid_forward(nd, *args, **arrays)
            with Context(ctx):
                return self.hybrid_forward(nd, *args, **arrays)
        except TypeError as error:
            explain_call(self, "hybrid_forward", (nd,), args, arrays, error)
            raise

    def hybrid_forward(self, F: Any, x: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Override to compute the outputs with the functions of ``F``.

        Parameters
        ----------
        F:
            ``mx.nd``, or ``mx.sym`` while the block is traced.
        x:
            The first input: an NDArray, or a Symbol while the block is traced.
        *args:
            Further inputs.
        **kwargs:
            The block's own parameters, by the names of its attributes.
        """
        raise NotOverriddenError(
            f"{type(self).__name__} must override hybrid_forward(self, F, x, …) or forward(self, x, …)"
        )

    def register_op_hook(self, callback: Callable[[str, str, NDArray], Any], monitor_all: bool = False) -> None:
        """Call a function with the result of every operator of a hybridized call, whose operators run one by one then.

        Parameters
        ----------
        callback:
            ``callback(name, operator, array)``: the name of the result, as ``dense0_fwd_output``, that of the operator,
            as ``FullyConnected``, and the NDArray.
        monitor_all:
            Whether it is called with the operators' inputs, too.
        """
        vars(self)["_op_hook"] = callback, monitor_all
        self._drop_graphs()

    # --- shapes --------------------------------------------------------------------------------------------

    def infer_type(self, *args: Any) -> None:
        """Give parameters the dtype that follows from the inputs; it is an error if they were made with another.

        Parameters
        ----------
        *args:
            The inputs, as of a call.
        """
        infer_parameter_types(self, args)

    @hides_frames
    def infer_shape(self, *args: Any) -> None:
        """Give parameters of unknown shape the shape that follows from the inputs.

        Parameters
        ----------
        *args:
            The inputs, as of a call.

        Examples
        --------
        >>> net = nn.Dense(4)
        >>> net.weight.shape  # 0 is unknown
        (4, 0)
        >>> net.infer_shape(mx.nd.ones((1, 3)))
        >>> net.weight.shape
        (4, 3)
        """
        infer_parameter_shapes(self, args)

    def _finish_deferred(self, params: Mapping[str, Parameter] | ParameterDict, args: tuple[Any, ...]) -> None:
        """Infer the shapes of parameters and initialize those that waited for it."""
        try:
            self.infer_shape(*args)
        except ParameterShapeError as error:
            if isinstance(error.__cause__, ShapeError):  # an operator refused its inputs
                raise
            raise ParameterShapeError(
                f"Deferred initialization failed because shape cannot be inferred. {error}"
            ) from error
        except ShapeError as error:  # all shapes are known, and do not fit
            raise ParameterShapeError(str(error)) from error
        with _INITIALIZING.current:  # and not while a user's code runs, which may wait for other threads
            for param in params.values():
                if param.is_deferred and shape_is_known(param.shape):
                    param.finish_deferred_init()

    # --- the compiled graph --------------------------------------------------------------------------------

    @hides_frames
    def trace(self, *args: Any) -> Any:
        """The first stage of the compiler for these inputs: ``net.trace(x).optimize().lower().compile()``.

        Parameters
        ----------
        *args:
            The inputs, as of a call.
        """
        params = self.collect_params()
        if any(p.is_deferred for p in params.values()):
            self._finish_deferred(params, args)
        return trace_block(self, args, STATE.training)

    def explain(self) -> Report:
        """A report of what was compiled and why: signatures, kernels, host calls; ``.html()`` shows all levels.

        Examples
        --------
        >>> net = nn.Dense(4, prefix="net_")
        >>> net.initialize()
        >>> net.hybridize()
        >>> net.explain()
        net is hybridized, but nothing is compiled yet: call it
        >>> y = net(mx.nd.ones((1, 3)))
        >>> net.explain()
        net: traced once
          1. first call
        signature (float32[1, 3]), predict mode
          forward: ... kernels, 0 of them host calls; ...
        """
        graph = self.__dict__.get("_cached_graph")
        if not self._active:
            told = "call hybridize(), then the block; a TrainStep has an explain() of its own"
            return Report(f"{self.name} is not hybridized: {told}")
        if graph is None:
            return Report(f"{self.name} is hybridized, but nothing is compiled yet: call it")
        return graph.report()

    def optimize_for(
        self,
        x: Any,
        *args: Any,
        backend: str | None = None,
        clear: bool = False,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Hybridize for a backend, and compile for inputs without running.

        Parameters
        ----------
        x:
            The first input, as of a call.
        *args:
            Further inputs.
        backend:
            The name of a backend of :mod:`hybridc.subgraph`; without one it is an AttributeValueError.
        clear:
            Whether what was compiled, and the backends of before, are dropped; else the new one gets what those leave.
        static_alloc:
            As in :meth:`hybridize`.
        static_shape:
            Changes nothing.
        inline_limit:
            Changes nothing.
        forward_bulk_size:
            Changes nothing.
        backward_bulk_size:
            Changes nothing.
        **kwargs:
            Options of the backend.
        """
        if not backend:
            raise AttributeValueError('Must specify "backend" to optimize_for; to compile without, call hybridize()')
        self.hybridize(
            True,
            backend,
            clear,
            static_alloc,
            static_shape,
            inline_limit,
            forward_bulk_size,
            backward_bulk_size,
            **kwargs,
        )
        self._prepare((x, *args))

    @hides_frames
    def compile(self, *args: Any, dtype: Any = "float32", training: bool = False) -> None:
        """Compile for calls with such arguments, without running: the next such call compiles nothing.

        Parameters whose shapes wait for the first call get them. Call it once for each size. A block that is not
        hybridized is a CheckError.

        Parameters
        ----------
        *args:
            What stands for the arguments of a call: arrays; or something else with a ``shape`` and a ``dtype``; or
            shapes, as tuples; or lists or tuples of these, as in the call.
        dtype:
            The dtype of arrays that are given by their shapes.
        training:
            Whether it is for calls under ``autograd.record()``, forward and backward, rather than for prediction.

        Examples
        --------
        >>> net = nn.Dense(2)
        >>> net.initialize()
        >>> net.hybridize()
        >>> net.compile((4, 3))
        """
        if not self._active:
            raise CheckError(f"{self.name} is not hybridized, so its calls compile nothing: call hybridize() before")
        given = samples(args, dtype, self._home())
        with autograd.record() if training else autograd.pause():
            self._prepare(given)

    def _prepare(self, args: tuple[Any, ...]) -> None:
        graph = self.__dict__.get("_cached_graph")
        (self._compile(args) if graph is None else graph).prepare(*args)

    def _home(self) -> Context:
        """The device of the parameters, or that of new arrays where there are none."""
        devices = next((p.list_ctx() for p in self.collect_params().values()), None)
        return devices[0] if devices else current_context()

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True, compiled: bool = False) -> None:
        """Write ``path-symbol.json`` and ``path-0000.params`` for MXNet or ``SymbolBlock.imports``; call it first.

        Parameters
        ----------
        path:
            The beginning of the names of the files.
        epoch:
            The number in the name of the file of parameters, of four digits.
        remove_amp_cast:
            Whether the casts of mixed precision (``amp_cast``) are left out of the graph.
        compiled:
            Whether the program goes into ``path-0000.compiled`` as well: for this kind of processor, for prediction, at
            all sizes that the block was called with or compiled for.
        """
        export(self, path, epoch, remove_amp_cast, compiled)

    def export_onnx(
        self,
        path: str | os.PathLike[str],
        *args: Any,
        dtype: Any = "float32",
        opset: int | None = None,
        dynamic_axes: Mapping[str, Any] | None = None,
        own_domain: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the network as a model of ONNX, for prediction on arguments like these.

        The inputs are called ``data``, or ``data0``, ``data1``, …; parameters keep their names. An operator that ONNX
        cannot say is an OnnxExportError.

        Parameters
        ----------
        path:
            The file.
        *args:
            Arrays, or shapes as tuples; none: those of the last hybridized call.
        dtype:
            The dtype of arrays that are given by their shapes.
        opset:
            The version of ONNX's operators, from 13 on; None: 21.
        dynamic_axes:
            The axes whose sizes may vary, with their names: ``{"data": {0: "batch"}}``. None: there are none.
        own_domain:
            Whether opaque operators of yours become nodes of a domain of their own, which another engine must be
            taught; else they are an OnnxExportError.
        external_data:
            Whether parameters go into ``path.data``; None: with more than 2 GB.
        """
        graph = self.__dict__.get("_cached_graph")
        if not args and graph is not None:
            args = tuple(ArraySample(*array) for call in graph.calls()[:1] for array in call)
        given = samples(args, dtype, device_of(args) or CPU)
        params = self.collect_params()
        if any(p.is_deferred for p in params.values()):
            self._finish_deferred(params, given)
        HOOKS.onnx().export_block(self, path, given, opset, dynamic_axes or {}, own_domain, external_data)


def _blocks_in(value: Any) -> Iterator[Block]:
    """All blocks in nested lists, tuples and dicts."""
    if isinstance(value, Block):
        yield value
    elif isinstance(value, list | tuple | dict):
        nested = cast("Any", value)
        for part in nested.values() if isinstance(value, dict) else nested:
            yield from _blocks_in(part)


class _RecordedCalls(EventSource):
    """Calls of blocks, which have another ``__call__`` while they are recorded: no call asks a flag."""

    def __init__(self) -> None:
        self._plain = {cls: cls.__call__ for cls in (Block, HybridBlock)}
        self._is_on = False

    def switch(self, recorder: EventRecorder) -> None:
        """Replace the methods."""
        if recorder.calls == self._is_on:
            return
        self._is_on = recorder.calls
        for cls, plain in self._plain.items():
            made: Any = _recorded_call(plain) if self._is_on else plain
            cls.__call__ = made


def _recorded_call(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(self: Block, *args: Any, **keywords: Unpack[NoOptions]) -> Any:
        if keywords:
            raise by_keyword(self, keywords)
        if STATE.trace is not None:  # symbols take no time that matters
            return plain(self, *args)
        begin = now()
        out = plain(self, *args)
        RECORDER.add("block", self.name, begin)
        return out

    return call


RECORDER.attach(_RecordedCalls())
