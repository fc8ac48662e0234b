"""Networks in files: a block's graph as a symbol in MXNet's format, with its parameters."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

from hybridc import name as naming
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import as_numpy, is_numpy
from hybridc.errors import AttributeValueError, MXNetError
from hybridc.gluon.hybridize.call_samples import ArraySample
from hybridc.ground.hooks import HOOKS
from hybridc.ground.nesting import as_list, flatten, regroup
from hybridc.ground.state import STATE
from hybridc.symbol.checkpoint import parameters_file, save_checkpoint
from hybridc.symbol.composed import COMPOSER, ComposedSymbol, load
from hybridc.symbol.graph import Entry, SymbolNode
from hybridc.symbol.recorded import add_recorded
from hybridc.symbol.variables import var
from hybridc.trace.tracer import Trace


def export(block: Any, path: str, epoch: int, remove_amp_cast: bool, compiled: bool) -> None:
    """Write ``path-symbol.json`` and ``path-0000.params`` from what the block last ran compiled.

    With ``compiled`` also ``path-0000.compiled``: the program in predict mode for all sizes that the block has met, or
    for the last one if the symbol is for this alone.
    """
    symbol, arguments, states, inputs, is_general = _exported(block, "export")
    save_checkpoint(path, epoch, symbol, arguments, states, remove_amp_cast)
    if compiled:
        file = parameters_file(path, epoch)
        calls: list[Any] = block.__dict__["_cached_graph"].calls()
        network = HOOKS.imported(f"{path}-symbol.json", inputs, file)
        compile_into(beside(file), network, calls if is_general else calls[:1])


def compile_into(file: str, network: Any, calls: Sequence[Sequence[tuple[Any, Any]]], training: bool = False) -> None:
    """Write the programs of a network for calls with arrays of these shapes and dtypes into a file.

    They are for prediction, and with ``training`` for recorded calls, too.
    """
    from hybridc.compile.compiled_file import compiled_into

    network.hybridize()
    modes = (False, True) if training else (False,)
    with compiled_into(file, len(calls) * len(modes)):
        for call in calls:
            for mode in modes:
                network.compile(*[ArraySample(*array) for array in call], training=mode)


def beside(file: str | os.PathLike[str] | None) -> str:
    """The name of the file with the program of a network, beside that of its parameters."""
    if file is None:
        raise AttributeValueError("compiled=True is the file beside that of the parameters; give the name of the file")
    return f"{os.fspath(file).removesuffix('.params')}.compiled"


def symbol_of(block: Any, caller: str) -> tuple[ComposedSymbol, dict[str, NDArray], dict[str, NDArray], list[str]]:
    """What the block last ran compiled: the symbol, its arguments and auxiliary states, the names of its inputs."""
    return _exported(block, caller)[:4]


def _exported(
    block: Any, caller: str
) -> tuple[ComposedSymbol, dict[str, NDArray], dict[str, NDArray], list[str], bool]:
    """What :func:`symbol_of` gives, and whether the symbol is for all shapes."""
    latest = _latest(block)
    if latest is None:
        raise MXNetError(
            f"{block.name}.{caller}: Please first call block.hybridize() and then run forward with this block at least "
            f"once before calling {caller}."
        )
    composed = general_symbol(block, *latest)
    trace = latest[0]
    symbol, captured = of_trace(block, trace) if composed is None else (composed, {})
    values = {**{p.name: p for p in block.collect_params().values()}, **captured}
    arguments = {name: _value(values[name]) for name in symbol.list_arguments() if name in values}
    states = {name: _value(values[name]) for name in symbol.list_auxiliary_states() if name in values}
    if block._backends:
        symbol = _partitioned(block, symbol, trace, arguments, states)
    return symbol, arguments, states, _inputs(trace.roles.count("data")), composed is not None


def latest_symbol(block: Any) -> ComposedSymbol | None:
    """The symbol of what a block last ran compiled; None if it is not hybridized, or did not run since."""
    latest = _latest(block)
    return None if latest is None else _symbol(block, *latest)[0]


def symbol_with_values(
    block: Any, trace: Trace, structure: Any, arguments: Sequence[NDArray]
) -> tuple[ComposedSymbol, dict[str, NDArray]]:
    """The symbol of a trace of a block, and the arrays of its variables, of which these are the arguments."""
    symbol, values = _symbol(block, trace, structure)
    values |= zip(_inputs(len(arguments)), arguments, strict=True)
    known = {p.name: p for p in block.collect_params().values()}
    values |= {name: known[name].array(trace.context) for name in symbol.list_inputs() if name in known}
    return symbol, values


def described_graph(block: Any) -> dict[str, Any]:
    """What a block last ran compiled, as MXNet describes it: symbols, and the nesting of arguments and results."""
    latest = _latest(block)
    if latest is None:
        return {}
    trace, structure = latest
    return {
        "in_format": _format(structure),
        "out_format": _format(trace.structure),
        "inputs": [var(name).tojson() for name in _inputs(trace.roles.count("data"))],
        "symbol": _symbol(block, trace, structure)[0].tojson(),
    }


def _format(structure: Any) -> Any:
    """A nesting as MXNet writes it: 0 for an array, -1 for None."""
    if structure is None:
        return -1
    return [_format(part) for part in as_list(structure)] if isinstance(structure, list | tuple) else 0


def _latest(block: Any) -> tuple[Trace, Any] | None:
    """The trace that a hybridized block ran last, and the nesting of its arguments."""
    graph = block.__dict__.get("_cached_graph")
    return graph.latest() if graph is not None and block.is_active else None


def _symbol(block: Any, trace: Trace, structure: Any) -> tuple[ComposedSymbol, dict[str, NDArray]]:
    """The symbol of a trace, and the arrays from outside that it uses."""
    symbol = general_symbol(block, trace, structure)
    return of_trace(block, trace) if symbol is None else (symbol, {})


def _partitioned(
    block: Any, symbol: ComposedSymbol, trace: Trace, arguments: dict[str, NDArray], states: dict[str, NDArray]
) -> ComposedSymbol:
    """The symbol in which the block's backends have their parts; arrays that they make are added."""
    from hybridc.symbol.optimize import optimize_for

    leaves = [leaf for leaf, role in zip(trace.leaves, trace.roles, strict=True) if role == "data"]
    names = _inputs(len(leaves))
    shapes = {name: leaf.shape for name, leaf in zip(names, leaves, strict=True)}
    dtypes = {name: leaf.dtype for name, leaf in zip(names, leaves, strict=True)}
    for backend, options in block._backends:
        known = set(symbol.list_inputs())
        given = [{k: v for k, v in found.items() if k in known} for found in (shapes, dtypes)]
        symbol = optimize_for(symbol, backend, arguments, states, *given, skip_infer=False, options=options)
    return symbol


def _value(x: Any) -> NDArray:
    return x if isinstance(x, NDArray) else x.reduce()


def _inputs(count: int) -> list[str]:
    """MXNet's names of the inputs of a block."""
    return ["data"] if count == 1 else [f"data{i}" for i in range(count)]


def general_symbol(block: Any, trace: Trace, structure: Any) -> ComposedSymbol | None:
    """The block called on variables, which names the nodes as MXNet does; None, with a warning, if it cannot be."""
    leaves = [s for s, role in zip(trace.leaves, trace.roles, strict=True) if role == "data"]
    variables = [
        as_numpy(var(name)) if is_numpy(s) else var(name) for name, s in zip(_inputs(len(leaves)), leaves, strict=True)
    ]
    args = regroup(variables, structure)
    training, STATE.training = STATE.training, trace.training
    try:
        with naming.NameManager(), COMPOSER.active(), COMPOSER.as_arrays():
            results, _ = flatten(block(*args), ComposedSymbol, f"the result of {block.name}")
    except MXNetError as error:
        # COMPAT(mxnet): there such a forward cannot be exported; here what was traced for the last inputs is.
        warnings.warn(
            f"{block.name} is exported for the shapes of its last inputs only, and for training or not as it ran last, "
            f"because its forward needs shapes or arrays that a symbol does not have: {error}",
            stacklevel=5,
        )
        return None
    finally:
        STATE.training = training
    return ComposedSymbol([entry for x in results for entry in x.entries])


def of_trace(
    block: Any, trace: Trace, inputs: Sequence[str] | None = None
) -> tuple[ComposedSymbol, dict[str, NDArray]]:
    """The graph of a trace, and the arrays from outside that it uses, which become parameters.

    ``inputs`` are the names of its inputs, where these are not MXNet's.
    """
    entries: dict[int, Entry] = {}
    captured: dict[str, NDArray] = {}
    names = iter(_inputs(trace.roles.count("data")) if inputs is None else inputs)
    for leaf, role, source in zip(trace.leaves, trace.roles, trace.sources, strict=True):
        if role == "parameter":
            entries[id(leaf)] = source.var().entries[0]
        elif role != "key":
            name = next(names) if role == "data" else f"{block.prefix}constant{len(captured)}"
            if role != "data":
                captured[name] = source.array(trace.context) if role == "number" else source
            entries[id(leaf)] = (SymbolNode(None, name), 0)
    with naming.Prefix(block.prefix):
        for node in trace.nodes:
            add_recorded(node.op, node.inputs, node.outputs, entries)
    results = trace.outputs[: len(trace.outputs) - len(trace.updates)]
    return ComposedSymbol([entries[id(s)] for s in results]), captured


def imports(
    block_class: Any,
    symbol_file: str | os.PathLike[str],
    input_names: str | Sequence[str],
    param_file: str | os.PathLike[str] | None,
    ctx: Any,
    allow_missing: bool,
    ignore_extra: bool,
    compiled: bool | str | os.PathLike[str] | None,
) -> Any:
    """A block of the symbol and the parameters in files, hybridized if its program is in a file, too."""
    names = [input_names] if isinstance(input_names, str) else list(input_names)
    symbol = load(symbol_file)
    known = symbol.list_inputs()
    for name in names:
        if name not in known:
            raise MXNetError(
                f"SymbolBlock.imports: {symbol_file} has no input {name!r}; its inputs and parameters are "
                f"{', '.join(known)}"
            )
    block = block_class(symbol, [var(name) for name in names])
    if param_file is not None:
        table = block.collect_params()
        table.load(str(param_file), ctx, allow_missing, ignore_extra, cast_dtype=True, dtype_source="saved")
    if compiled:
        from hybridc.compile.compiled_file import adopted

        vars(block)["_compiled_entries"] = adopted(beside(param_file) if compiled is True else compiled)
        block.hybridize()
    return block
