"""SymbolBlock: a composed symbol as a layer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc import initializer
from hybridc.errors import CheckError, DTypeError, MXNetError, NestedArraysError, ParameterShapeError, ShapeError
from hybridc.gluon.export import imports
from hybridc.gluon.hybrid_block import HybridBlock
from hybridc.gluon.parameter import ParameterDict
from hybridc.gluon.utils import device_of
from hybridc.ground.hooks import HOOKS
from hybridc.ground.nesting import as_list
from hybridc.ground.state import STATE
from hybridc.symbol import graph
from hybridc.symbol.composed import ComposedSymbol, Composer
from hybridc.symbol.graph import Entry, SymbolNode
from hybridc.symbol.infer import Types
from hybridc.symbol.node_attributes import declared_dtype, declared_shape
from hybridc.symbol.running.bind import evaluate
from hybridc.symbol.running.sparse_graphs import SparseGraphs

__all__ = ["SymbolBlock"]


class SymbolBlock(HybridBlock):
    """The outputs of a symbol as a function of some of its variables; its other variables are parameters.

    Shapes of parameters follow from the first input. Auxiliary states have no gradient. :meth:`imports` makes one from
    the files of a network.

    Parameters
    ----------
    outputs:
        A symbol, or a list of symbols: what a call returns.
    inputs:
        A variable, or a list of variables: the arguments of a call, in this order.
    params:
        A ParameterDict in which parameters are looked up by the names of variables; None: all are new.

    Examples
    --------
    >>> x = mx.sym.var("x")
    >>> net = gluon.SymbolBlock(mx.sym.FullyConnected(x, num_hidden=2, name="dense"), x)
    >>> net.initialize(mx.init.One())
    >>> net(mx.nd.array([[1, 2, 3]])).asnumpy()
    array([[7., 7.]], dtype=float32)
    >>> sorted(net.collect_params())
    ['dense_bias', 'dense_weight']
    """

    def __init__(self, outputs: Any, inputs: Any, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=None, params=None)
        self._prefix = ""
        self._params = ParameterDict("", params)
        self.symbol = _joined(outputs, "outputs")
        self._inputs = _input_names(_joined(inputs, "inputs"))
        self._sparse: SparseGraphs | None = None
        entries = self.symbol.entries
        states = {id(n) for n in graph.auxiliary(entries)}
        types = _types(entries)
        for node in graph.variables(entries):
            if node.name in self._inputs:
                continue
            shared = params is not None and node.name in params
            self._params.get(node.name, **({} if shared else _options(node, types.get((node, 0)), id(node) in states)))
        common = _common(list(self._params.keys()))
        for name, param in self._params.items():
            self._reg_params[name[common:]] = param

    @staticmethod
    def imports(
        symbol_file: str,
        input_names: str | Sequence[str],
        param_file: str | None = None,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        compiled: bool | str | os.PathLike[str] | None = None,
    ) -> SymbolBlock:
        """The network that ``HybridBlock.export`` or MXNet wrote.

        Parameters
        ----------
        symbol_file:
            The file of the graph, ``…-symbol.json``.
        input_names:
            The name of the input, "data" from an export, or a list of the names of the inputs. One that the graph does
            not have is an MXNetError.
        param_file:
            The file of the parameters, ``…-0000.params``; None: the network must be initialized.
        ctx:
            The device of the parameters, or a list of devices; None: the current one.
        allow_missing:
            Whether the file may lack parameters, which must be initialized then; else they are a CheckError.
        ignore_extra:
            Whether the file may have arrays that are no parameters; else they are a CheckError.
        compiled:
            True: calls at the sizes of an export with ``compiled=True`` run what was compiled then, from the file
            beside ``param_file``; or the name of that file. It has machine code, which runs here: give only files that
            you trust as you would trust a program.

        Examples
        --------
        >>> net = nn.Dense(2)
        >>> net.initialize()
        >>> net.hybridize()
        >>> x = mx.nd.array([[1, 2, 3]])
        >>> y = net(x)
        >>> net.export("dense")
        >>> copy = gluon.SymbolBlock.imports("dense-symbol.json", "data", "dense-0000.params")
        >>> np.allclose(copy(x).asnumpy(), y.asnumpy())
        True
        """
        files = (symbol_file, input_names, param_file)
        return imports(SymbolBlock, *files, ctx, allow_missing, ignore_extra, compiled)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n{self.symbol!r} : {len(self._inputs)} -> {len(self.symbol)}\n)"

    def forward(self, *args: Any) -> Any:
        """The outputs: one, or a list.

        Parameters
        ----------
        *args:
            As many arrays as there are inputs.
        """
        given = self._by_name(args)
        trace = STATE.trace
        if isinstance(trace, Composer):
            composed = self.symbol(**given)
            return composed if composed.num_outputs == 1 else list(composed)
        parameters = {name: p.data(device_of(args)) for name, p in self._params.items()}
        values = {**parameters, **given}
        if trace is None and self._active and any(x.stype != "default" for x in values.values()):
            if self._sparse is None:
                self._sparse = SparseGraphs(self.symbol.entries, self.symbol.graphs, self.name)
            results = self._sparse(values)
        else:
            results = evaluate(self.symbol.entries, values)
        return results[0] if len(results) == 1 else results

    def reset_ctx(self, ctx: Any) -> None:
        """Move all parameters to other devices.

        Parameters
        ----------
        ctx:
            The device, or a list of devices of the CPU; None: the current one.
        """
        self._params.reset_ctx(ctx)

    def infer_shape(self, *args: Any) -> None:
        """Give parameters of unknown shape the shape that follows from the inputs."""
        try:
            super().infer_shape(*args)
        except ParameterShapeError as error:
            if isinstance(error.__cause__, ShapeError):  # an operator refused its inputs
                raise
            raise error.restated(f"{error}: of a SymbolBlock, that is mx.sym.var(…, shape=…)") from None

    def _by_name(self, args: Sequence[Any]) -> dict[str, Any]:
        if len(args) != len(self._inputs):
            raise ValueError(
                f"{type(self).__name__} {self.name} takes {len(self._inputs)} inputs ({', '.join(self._inputs)}), "
                f"got {len(args)}"
            )
        return dict(zip(self._inputs, args, strict=True))

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Not used: the symbol is the forward."""
        raise NotImplementedError("a SymbolBlock runs its symbol; call the block")


HOOKS.register(imported=SymbolBlock.imports)


def _types(entries: Sequence[Entry]) -> Types:
    """The dtypes, if the inputs are float32 or the parameters say otherwise."""
    try:
        return Types(entries, {}, np.dtype(np.float32), "SymbolBlock")
    except DTypeError:  # some parameters are declared in another dtype, which the inputs then have, too
        return Types(entries, {}, None, "SymbolBlock")


def _common(names: Sequence[str]) -> int:
    """Length of the common prefix of all names, which files of parameters leave out."""
    columns = [len(set(letters)) == 1 for letters in zip(*names, strict=False)]
    return columns.index(False) if False in columns else len(columns)


def _joined(symbols: Any, what: str) -> ComposedSymbol:
    """One symbol of all outputs of one or several."""
    given = as_list(symbols)
    if not given or not all(isinstance(s, ComposedSymbol) for s in given):
        raise NestedArraysError(f"SymbolBlock: {what} must be a Symbol or a list of them, got {symbols!r}")
    return ComposedSymbol([entry for s in given for entry in s.entries])


def _input_names(inputs: ComposedSymbol) -> tuple[str, ...]:
    for node, _ in inputs.entries:
        if not node.is_variable:
            raise CheckError(f"Input symbols must be variable, but {node.name} is an output of operators")
    return tuple(node.name for node, _ in inputs.entries)


def _options(node: SymbolNode, dtype: Any, is_state: bool) -> dict[str, Any]:
    """The keywords of the parameter that a variable becomes, from its attributes."""
    shape, declared = declared_shape(node), declared_dtype(node)
    chosen = dtype if declared is None else declared
    chosen = np.float32 if chosen is None else chosen
    options: dict[str, Any] = {"allow_deferred_init": True, "dtype": np.dtype(chosen).type}
    if shape is not None:
        options["shape"] = tuple(0 if n == -1 else n for n in shape)
    if is_state:
        options["grad_req"] = "null"
    for key in ("lr_mult", "wd_mult"):
        if f"__{key}__" in node.attrs:
            options[key] = _factor(node, f"__{key}__")
    if _is_initializer(node.attrs.get("__init__", "")):
        options["init"] = node.attrs["__init__"]
    return options


def _factor(node: SymbolNode, key: str) -> float:
    """An attribute that is a number."""
    try:
        return float(node.attrs[key])
    except ValueError as error:
        raise MXNetError(f"the variable {node.name} has {key}={node.attrs[key]!r}, expected a number") from error


def _is_initializer(text: str) -> bool:
    """Whether this names an initializer; a constant's cannot be made from its name, which is its address in MXNet."""
    try:
        initializer.create(text)
    except MXNetError:
        return False
    return True
