"""``mx.contrib.quantization``: networks for prediction whose products run on integers of 8 bits.

Ranges come from calibration data: the extremes of each value (``naive``), or the reach that keeps its histogram best
(``entropy``); with ``none`` each run finds its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.context import Context, cpu
from hybridc.dialects.quantized.quantize import CalibrateEntropy
from hybridc.errors import AttributeValueError, CheckError, MXNetError, UnsupportedError
from hybridc.gluon import HybridBlock, SymbolBlock
from hybridc.gluon.export import symbol_of
from hybridc.io import DataDesc, DataIter
from hybridc.symbol import ComposedSymbol, load, var
from hybridc.symbol.graph import topological
from hybridc.symbol.quantized_graph import LEAST, MOST, QUANTIZED, Quantization, with_ranges

__all__ = [
    "calib_graph",
    "combine_histogram",
    "quantize_graph",
    "quantize_model",
    "quantize_model_mkldnn",
    "quantize_net",
    "quantize_net_v2",
]

_MODES = ("none", "naive", "entropy", "customize")
_BINS = 8001  # of a histogram of calibration: MXNet's

Ranges = dict[str, tuple[float, float]]


# --- calibration ------------------------------------------------------------------------------------------------------


def combine_histogram(old_hist: Any, arr: Any, new_min: float, new_max: float, new_th: float) -> Any:
    """A histogram around 0, ``(counts, edges, min, max, reach)``, to which an array is added; it grows as needed.

    Parameters
    ----------
    old_hist:
        The histogram.
    arr:
        The array.
    new_min, new_max:
        The extremes of the array.
    new_th:
        The largest magnitude in it.
    """
    counts, edges, least, most, reach = old_hist
    least, most = min(least, new_min), max(most, new_max)
    if new_th <= reach:
        return counts + np.histogram(arr, len(counts), (-reach, reach))[0], edges, least, most, reach
    step = 2 * reach / len(counts)
    more = int((new_th - reach) // step + 1)
    reach += more * step
    made, edges = np.histogram(arr, len(counts) + 2 * more, (-reach, reach))
    made[more : made.size - more] += counts
    return made, edges, least, most, reach


class _LayerHistogramCollector:
    """Histograms of the values of a network, by name."""

    def __init__(self, num_bins: int = _BINS, include_layer: Sequence[str] | None = None, logger: Any = None) -> None:
        self.hist_dict: dict[str, Any] = {}
        self.num_bins = num_bins
        self.include_layer = include_layer
        self.logger = logger

    def collect(self, name: str | bytes, arr: Any) -> None:
        """Add a value of one run."""
        name = name.decode() if isinstance(name, bytes) else name
        if self.include_layer is not None and name not in self.include_layer:
            return
        values = arr.asnumpy()
        least, most = float(values.min()), float(values.max())
        reach = max(abs(least), abs(most)) or 1.0  # of zeros alone
        if name in self.hist_dict:
            self.hist_dict[name] = combine_histogram(self.hist_dict[name], values, least, most, reach)
        else:
            counts, edges = np.histogram(values, self.num_bins, (-reach, reach))
            self.hist_dict[name] = (counts, edges, least, most, reach)

    def ranges(self, quantized_dtype: str) -> Ranges:
        """The range of each value that keeps its histogram best."""
        return {name: _best_range(found, quantized_dtype) for name, found in self.hist_dict.items()}


def _best_range(histogram: Any, quantized_dtype: str) -> tuple[float, float]:
    counts, edges, least, *_ = histogram
    positive = least >= 0 and quantized_dtype in ("auto", "uint8")
    bins = 511 if positive else 255  # half of which stand for numbers that there are not
    search = CalibrateEntropy.bind(num_quantized_bins=bins)
    reach = float(search.eager(counts.astype(np.float32), edges.astype(np.float32))[0][0])
    return (0.0 if positive else -reach), reach


class _LayerOutputMinMaxCollector:
    """The extremes of the values of a network, by name."""

    def __init__(self, quantized_dtype: str, include_layer: Sequence[str] | None = None, logger: Any = None) -> None:
        self.min_max_dict: Ranges = {}
        self.quantized_dtype = quantized_dtype
        self.include_layer = include_layer
        self.logger = logger

    def collect(self, name: str | bytes, arr: Any) -> None:
        """Add a value of one run."""
        name = name.decode() if isinstance(name, bytes) else name
        if self.include_layer is not None and name not in self.include_layer:
            return
        values = arr.asnumpy()
        low, high = self.min_max_dict.get(name, (np.inf, -np.inf))
        self.min_max_dict[name] = min(low, float(values.min())), max(high, float(values.max()))


def _collect(
    sym: ComposedSymbol,
    parameters: Mapping[str, NDArray],
    states: Mapping[str, NDArray],
    batches: Iterable[Mapping[str, NDArray]],
    names: Sequence[str],
    collector: Any,
    most_examples: int | None,
    ctx: Any,
) -> int:
    """Give the values of these names to the collector, batch by batch; the number of examples."""
    internals = sym.get_internals()
    known = set(internals.list_outputs())
    chosen = [name for name in dict.fromkeys(names) if name in known]
    group = ComposedSymbol([entry for name in chosen for entry in internals[name].entries])
    used = set(group.list_inputs())
    examples = 0
    for batch in batches:
        arguments = {k: v for k, v in {**parameters, **batch}.items() if k in used}
        executor = group.bind(ctx, arguments, grad_req="null", aux_states=dict(states))
        for name, value in zip(chosen, executor.forward(), strict=True):
            collector.collect(name, value)
        examples += next(iter(batch.values())).shape[0]
        if most_examples is not None and examples >= most_examples:
            break
    return examples


def _batches(data: Any, names: Sequence[str]) -> Iterable[dict[str, NDArray]]:
    """The arrays of each batch of an iterator of mx.io, or of a loader, by the names of the inputs."""
    if isinstance(data, DataIter):
        data.reset()
    for batch in data:
        found: Any = getattr(batch, "data", batch) if isinstance(data, DataIter) else batch
        arrays = list(cast("Sequence[Any]", found)) if isinstance(found, list | tuple) else [found]
        if len(arrays) < len(names):
            raise MXNetError(f"calib_data gives {len(arrays)} arrays for the inputs {', '.join(names)}")
        yield dict(zip(names, arrays, strict=False))


# --- graphs -----------------------------------------------------------------------------------------------------------


def _require(
    quantized_dtype: str, granularity: str, mode: str, calib_mode: str | None, lists: Mapping[str, Any]
) -> None:
    """Raise unless these arguments are among those that there are."""
    for name, value in lists.items():
        if value is not None and not isinstance(value, list):
            raise AttributeValueError(f"{name} must be a list of names, got {type(value).__name__}")
    if quantized_dtype not in ("int8", "uint8", "auto"):
        raise AttributeValueError(f"quantized_dtype must be 'int8', 'uint8' or 'auto', got {quantized_dtype!r}")
    if mode not in ("full", "smart"):
        raise AttributeValueError(f"quantize_mode must be 'full' or 'smart', got {mode!r}")
    if granularity == "channel-wise":
        raise UnsupportedError("quantize_granularity='channel-wise' is not supported; use 'tensor-wise'")
    if granularity != "tensor-wise":
        raise AttributeValueError(f"quantize_granularity must be 'tensor-wise', got {granularity!r}")
    if calib_mode is not None and calib_mode not in _MODES:
        raise AttributeValueError(f"calib_mode must be one of {', '.join(_MODES)}, got {calib_mode!r}")


def _quantized_parameters(qsym: ComposedSymbol, params: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """The parameters of a quantized symbol: those that it has as integers with their ranges, others as they are."""
    made: dict[str, NDArray] = {}
    for name in qsym.list_arguments():
        original = name.removesuffix(QUANTIZED)
        if name in params:
            made[name] = params[name]
        elif original in params:
            value = params[original]
            made[name], made[name + LEAST], made[name + MOST] = nd.contrib.quantize(
                value, value.min(), value.max(), out_type="int8"
            )
    return made


def quantize_graph(
    sym: Any,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
    ctx: Any = None,
    excluded_sym_names: list[str] | None = None,
    excluded_op_names: list[str] | None = None,
    calib_mode: str | None = "entropy",
    quantized_dtype: str = "int8",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    LayerOutputCollector: Any = None,
    logger: Any = None,
) -> tuple[ComposedSymbol, dict[str, NDArray], Any, Any]:
    """A quantized symbol, its parameters, the auxiliary states, and the collector that calibration fills.

    The collector's ``collect(name, array)`` takes values of the original symbol, those named in ``include_layer``, as
    ``executor.set_monitor_callback(collector.collect, monitor_all=True)`` gives them; then see :func:`calib_graph`.

    Parameters
    ----------
    sym:
        The symbol, or the name of its file.
    arg_params, aux_params:
        Its parameters and auxiliary states by name.
    ctx:
        The device on which it is calibrated; None is the CPU.
    excluded_sym_names:
        The names of nodes that stay as they are; None for none.
    excluded_op_names:
        MXNet's names of operators that stay as they are; None for none.
    calib_mode:
        How the ranges of integers are found: ``"entropy"`` (those that keep the histogram of a value best),
        ``"naive"`` (the extremes), ``"customize"`` (by your collector) or ``"none"`` (at each call, of its own
        values).
    quantized_dtype:
        ``"int8"``, ``"uint8"``, or ``"auto"``: unsigned for values that are never negative.
    quantize_mode:
        ``"full"`` quantizes all operators that can be; with ``"smart"`` others than convolutions and dense layers
        are only where their inputs are integers already.
    quantize_granularity:
        ``"tensor-wise"``: an array has one range; ``"channel-wise"`` is an UnsupportedError.
    LayerOutputCollector:
        For ``calib_mode="customize"`` an object with ``collect(name, array)`` and ``min_max_dict``; else None.
    logger:
        Where messages go; None for nowhere.
    """
    lists = {"excluded_sym_names": excluded_sym_names, "excluded_op_names": excluded_op_names}
    _require(quantized_dtype, quantize_granularity, quantize_mode, calib_mode, lists)
    if ctx is not None and not isinstance(ctx, Context):
        raise AttributeValueError(f"currently only supports single ctx, while received {ctx}")
    pass_ = Quantization(
        list(arg_params),
        quantized_dtype,
        quantize_mode == "smart",
        excluded_sym_names or (),
        excluded_op_names or (),
    )
    qsym = ComposedSymbol(pass_.converted(_loaded(sym).entries))
    collector: Any = None
    if calib_mode == "entropy":
        collector = _LayerHistogramCollector(include_layer=pass_.calibrated, logger=logger)
    elif calib_mode == "naive":
        collector = _LayerOutputMinMaxCollector(quantized_dtype, pass_.calibrated, logger)
    elif calib_mode == "customize":
        if LayerOutputCollector is None:
            raise AttributeValueError("calib_mode='customize' needs a LayerOutputCollector")
        collector = LayerOutputCollector
    return qsym, _quantized_parameters(qsym, arg_params), aux_params, collector


def calib_graph(
    qsym: Any,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
    collector: Any,
    calib_mode: str | None = "entropy",
    quantized_dtype: str = "int8",
    logger: Any = None,  # noqa: ARG001 - accepted for MXNet's API
) -> tuple[ComposedSymbol, dict[str, NDArray], Any]:
    """A quantized symbol with the ranges that a collector found, its parameters and auxiliary states.

    Parameters
    ----------
    qsym:
        What :func:`quantize_graph` gave.
    arg_params, aux_params:
        The parameters and auxiliary states of the original symbol by name.
    collector:
        The collector that :func:`quantize_graph` gave, after it was filled.
    calib_mode:
        How the ranges of integers are found: ``"entropy"`` (those that keep the histogram of a value best),
        ``"naive"`` (the extremes), ``"customize"`` (by your collector) or ``"none"`` (at each call, of its own
        values). Not ``"none"`` here.
    quantized_dtype:
        ``"int8"``, ``"uint8"``, or ``"auto"``: unsigned for values that are never negative.
    logger:
        Accepted for MXNet's API.
    """
    if calib_mode not in _MODES[1:]:
        raise AttributeValueError(f"calib_graph: calib_mode must be one of {', '.join(_MODES[1:])}, got {calib_mode!r}")
    ranges: Ranges = collector.ranges(quantized_dtype) if calib_mode == "entropy" else collector.min_max_dict
    made = ComposedSymbol(with_ranges(_loaded(qsym).entries, ranges))
    return made, _quantized_parameters(made, arg_params), aux_params


def _loaded(sym: Any) -> ComposedSymbol:
    if isinstance(sym, str):
        return load(sym)
    if not isinstance(sym, ComposedSymbol):
        raise AttributeValueError(f"sym must be a Symbol or the name of its file, got {type(sym).__name__}")
    return sym


def quantize_model(
    sym: Any,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
    data_names: Sequence[str] = ("data",),
    label_names: Sequence[str] | None = ("softmax_label",),  # noqa: ARG001 - labels are not used
    ctx: Any = None,
    excluded_sym_names: list[str] | None = None,
    excluded_op_names: list[str] | None = None,
    calib_mode: str | None = "entropy",
    calib_data: Any = None,
    num_calib_examples: int | None = None,
    quantized_dtype: str = "int8",
    quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise",
    logger: Any = None,
) -> tuple[ComposedSymbol, dict[str, NDArray], Any]:
    """A quantized symbol, calibrated by batches, its parameters and auxiliary states.

    Parameters
    ----------
    sym:
        The symbol, or the name of its file.
    arg_params, aux_params:
        Its parameters and auxiliary states by name.
    data_names:
        The names of the inputs that batches give, in their order.
    label_names:
        Accepted for MXNet's API: labels are not used.
    ctx:
        The device on which it is calibrated; None is the CPU.
    excluded_sym_names:
        The names of nodes that stay as they are; None for none.
    excluded_op_names:
        MXNet's names of operators that stay as they are; None for none.
    calib_mode:
        How the ranges of integers are found: ``"entropy"`` (those that keep the histogram of a value best),
        ``"naive"`` (the extremes), ``"customize"`` (by your collector) or ``"none"`` (at each call, of its own
        values).
    calib_data:
        An iterator, or a loader, of batches as the network gets them; None only without calibration, else it is an
        AttributeValueError.
    num_calib_examples:
        After how many samples to stop; None for all.
    quantized_dtype:
        ``"int8"``, ``"uint8"``, or ``"auto"``: unsigned for values that are never negative.
    quantize_mode:
        ``"full"`` quantizes all operators that can be; with ``"smart"`` others than convolutions and dense layers
        are only where their inputs are integers already.
    quantize_granularity:
        ``"tensor-wise"``: an array has one range; ``"channel-wise"`` is an UnsupportedError.
    logger:
        Where messages go; None for nowhere.
    """
    original = _loaded(sym)
    qsym, qargs, states, collector = quantize_graph(
        original, arg_params, aux_params, ctx, excluded_sym_names, excluded_op_names, calib_mode, quantized_dtype,
        quantize_mode, quantize_granularity, logger=logger,
    )  # fmt: skip
    if collector is None:
        return qsym, qargs, states
    if calib_data is None:
        raise AttributeValueError(f"calib_data must be provided when calib_mode={calib_mode}")
    count = _collect(
        original, arg_params, aux_params, _batches(calib_data, list(data_names)), collector.include_layer, collector,
        num_calib_examples, ctx or cpu(),
    )  # fmt: skip
    if logger:
        logger.info("Collected layer output values from FP32 model using %d examples", count)
    return calib_graph(qsym, arg_params, states, collector, calib_mode, quantized_dtype, logger)


#: MXNet's function for processors with oneDNN, which fuses: kernels are fused here in any case.
quantize_model_mkldnn = quantize_model


# --- blocks -----------------------------------------------------------------------------------------------------------


def quantize_net_v2(
    network: Any,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    exclude_layers: list[str] | None = None,
    exclude_layers_match: list[str] | None = None,
    exclude_operators: list[str] | None = None,
    calib_data: Any = None,
    data_shapes: Sequence[Any] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Any = None,
    LayerOutputCollector: Any = None,
    logger: Any = None,
) -> SymbolBlock:
    """A quantized SymbolBlock of a HybridBlock, calibrated by batches.

    Parameters
    ----------
    network:
        The HybridBlock, with parameters.
    quantized_dtype:
        ``"int8"``, ``"uint8"``, or ``"auto"``: unsigned for values that are never negative.
    quantize_mode:
        ``"full"`` quantizes all operators that can be; with ``"smart"`` others than convolutions and dense layers
        are only where their inputs are integers already.
    quantize_granularity:
        ``"tensor-wise"``: an array has one range; ``"channel-wise"`` is an UnsupportedError.
    exclude_layers:
        The names of nodes that stay as they are; None for none.
    exclude_layers_match:
        Parts of such names; None for none.
    exclude_operators:
        MXNet's names of operators that stay as they are; None for none.
    calib_data:
        An iterator, or a loader, of batches as the network gets them; None only without calibration, else it is an
        AttributeValueError.
    data_shapes:
        Without ``calib_data``, shapes of the inputs or descriptions of them.
    calib_mode:
        How the ranges of integers are found: ``"entropy"`` (those that keep the histogram of a value best),
        ``"naive"`` (the extremes), ``"customize"`` (by your collector) or ``"none"`` (at each call, of its own
        values).
    num_calib_examples:
        After how many samples to stop; None for all.
    ctx:
        The device of the parameters; None is the CPU.
    LayerOutputCollector:
        For ``calib_mode="customize"`` an object with ``collect(name, array)`` and ``min_max_dict``; else None.
    logger:
        Where messages go; None for nowhere.
    """
    if not isinstance(network, HybridBlock):
        raise CheckError(f"quantize_net: network must be a HybridBlock, got {type(network).__name__}")
    symbol, arguments, states, names = _traced(network, calib_data, data_shapes)
    excluded = list(exclude_layers or ())
    for part in exclude_layers_match or ():
        excluded += [node.name for node in topological(symbol.entries) if part in node.name]
    qsym, qargs, states, collector = quantize_graph(
        symbol, arguments, states, ctx, excluded, exclude_operators, calib_mode, quantized_dtype, quantize_mode,
        quantize_granularity, LayerOutputCollector, logger,
    )  # fmt: skip
    if collector is not None:
        if calib_data is None:
            raise AttributeValueError(f"calib_data must be provided when calib_mode={calib_mode}")
        layers = getattr(collector, "include_layer", None) or symbol.get_internals().list_outputs()
        _collect(
            symbol, arguments, states, _batches(calib_data, names), layers, collector, num_calib_examples, ctx or cpu()
        )
        qsym, qargs, states = calib_graph(qsym, arguments, states, collector, calib_mode, quantized_dtype, logger)
    made = SymbolBlock(qsym, [var(name) for name in names])
    made.collect_params().load_dict({**qargs, **states}, ctx=ctx or cpu(), cast_dtype=True, dtype_source="saved")
    return made


def _traced(network: HybridBlock, calib_data: Any, data_shapes: Sequence[Any] | None) -> Any:
    """The symbol of a block, called on the first batch of the data or on zeros of the shapes."""
    if calib_data is not None:
        if isinstance(calib_data, DataIter):
            calib_data.reset()
        batch = next(iter(calib_data))
        found: Any = batch.data if isinstance(calib_data, DataIter) else batch
        given = list(cast("Sequence[Any]", found)) if isinstance(found, list | tuple) else [found]
    elif data_shapes:
        shapes = [each.shape if isinstance(each, DataDesc) else each for each in data_shapes]
        given = [nd.zeros(tuple(cast("Sequence[int]", shape))) for shape in shapes]
    else:
        raise AttributeValueError("quantize_net: data_shapes are required where there is no calib_data")
    network.hybridize()
    while True:  # the last arrays of a batch may be labels
        try:
            network(*given)
            return symbol_of(network, "quantize_net")
        except (TypeError, ValueError):
            if len(given) == 1:
                raise
            given.pop()


def quantize_net(
    network: Any,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    exclude_layers: list[str] | None = None,
    exclude_layers_match: list[str] | None = None,
    exclude_operators: list[str] | None = None,
    calib_data: Any = None,
    data_shapes: Sequence[Any] | None = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Any = None,
    logger: Any = None,
) -> SymbolBlock:
    """As :func:`quantize_net_v2`, which MXNet recommends.

    Parameters
    ----------
    network, quantized_dtype, quantize_mode, exclude_layers, exclude_layers_match, exclude_operators:
        As there.
    calib_data, data_shapes, calib_mode, num_calib_examples, ctx, logger:
        As there.
    """
    warnings.warn("quantize_net will be deprecated after MXNet 2.0, please use quantize_net_v2.", stacklevel=2)
    return quantize_net_v2(
        network, quantized_dtype, quantize_mode, "tensor-wise", exclude_layers, exclude_layers_match,
        exclude_operators, calib_data, data_shapes, calib_mode, num_calib_examples, ctx, None, logger,
    )  # fmt: skip
