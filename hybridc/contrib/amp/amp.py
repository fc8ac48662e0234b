"""The functions of ``mx.contrib.amp``."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hybridc.array.autocast import AUTOCAST, Autocast, CastRule
from hybridc.contrib.amp import lists
from hybridc.contrib.amp.lists.names import classes
from hybridc.contrib.amp.loss_scaler import LossScaler
from hybridc.dialects.operator import Operator
from hybridc.dtypes import BFLOAT16, FLOAT16, FLOAT32
from hybridc.errors import ArgumentTypeError, CheckError
from hybridc.gluon import HybridBlock, SymbolBlock, Trainer
from hybridc.gluon.export import symbol_of
from hybridc.ground.absent import absent
from hybridc.module import BucketingModule
from hybridc.optimizer import Optimizer
from hybridc.symbol import ComposedSymbol, var
from hybridc.symbol.graph import variables
from hybridc.symbol.mixed_precision import converted
from hybridc.symbol.node_attributes import declared_dtype

_LOG = logging.getLogger(__name__)

bfloat16 = BFLOAT16


class _Started:
    """The state of mixed precision: whether ``init`` was called, and the loss scaler of the first trainer."""

    def __init__(self) -> None:
        self.scaler: LossScaler | None = None
        self.taken = False


_STARTED = _Started()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "_amp_initialized":  # MXNet's internal name, which GluonNLP reads
            return _STARTED.scaler is not None
        raise absent("mx.contrib.amp.amp", name, "attribute", globals())


def _lists(target_dtype: Any) -> Any:
    return lists.symbol_bf16 if _target(target_dtype) == BFLOAT16 else lists.symbol_fp16


def _target(target_dtype: Any) -> Any:
    """The dtype, which must be one of 16 bits."""
    found = BFLOAT16 if isinstance(target_dtype, str) and target_dtype == "bfloat16" else np.dtype(target_dtype)
    if found not in (FLOAT16, BFLOAT16):
        raise CheckError(f"amp: target_dtype must be 'float16' or 'bfloat16', got {target_dtype!r}")
    return found


# --- lists ------------------------------------------------------------------------------------------------------------


def list_lp16_ops(target_dtype: Any) -> list[str]:
    """The operators that run in ``target_dtype``.

    Parameters
    ----------
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    """
    names = _lists(target_dtype)
    return names.BF16_FUNCS if names is lists.symbol_bf16 else names.FP16_FUNCS


def list_fp32_ops(target_dtype: Any) -> list[str]:
    """The operators that run in float32.

    Parameters
    ----------
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    """
    return _lists(target_dtype).FP32_FUNCS


def list_lp16_fp32_ops(target_dtype: Any) -> list[str]:
    """The operators that run in the dtype of their inputs.

    Parameters
    ----------
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    """
    names = _lists(target_dtype)
    return names.BF16_FP32_FUNCS if names is lists.symbol_bf16 else names.FP16_FP32_FUNCS


def list_conditional_fp32_ops(target_dtype: Any) -> list[tuple[str, str, list[str]]]:
    """The operators that run in float32 for some values of an attribute: triples of operator, attribute and values.

    Parameters
    ----------
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    """
    return _lists(target_dtype).CONDITIONAL_FP32_FUNCS


def list_widest_type_cast(target_dtype: Any) -> list[str]:
    """The operators that run in the widest dtype of their inputs.

    Parameters
    ----------
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    """
    return _lists(target_dtype).WIDEST_TYPE_CASTS


def list_loss_output_functions(target_dtype: Any) -> list[str]:
    """The operators that are losses, with a gradient of their own.

    Parameters
    ----------
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    """
    return _lists(target_dtype).LOSS_OUTPUT_FUNCTIONS


def list_lp16_use_fp32_params(target_dtype: Any) -> dict[str, list[str]] | None:
    """By operator, the inputs that stay in float32; None for float16.

    Parameters
    ----------
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    """
    names = _lists(target_dtype)
    return names.BF16_USE_FP32_PARAMS if names is lists.symbol_bf16 else None


def _rules(
    target: Any,
    target_ops: Sequence[str] | None,
    fp32_ops: Sequence[str] | None,
    conditional_ops: Sequence[tuple[str, str, Sequence[str]]] | None,
) -> dict[type[Operator], CastRule]:
    """The rule of each operator; a list that is None is MXNet's."""
    chosen = list_lp16_ops(target) if target_ops is None else target_ops
    kept = list_lp16_use_fp32_params(target) or {}
    rules: dict[type[Operator], CastRule] = {}
    for cls in classes(list_widest_type_cast(target)):
        rules[cls] = CastRule(None)
    for cls in classes(list_fp32_ops(target) if fp32_ops is None else fp32_ops):
        rules[cls] = CastRule(FLOAT32)
    for name, attribute, values in list_conditional_fp32_ops(target) if conditional_ops is None else conditional_ops:
        for cls in classes([name]):
            rules[cls] = CastRule(FLOAT32, attribute, frozenset(values))
    for name in chosen:
        for cls in classes([name]):
            rules[cls] = CastRule(target, kept=frozenset(kept.get(name, ())))
    return rules


def _require_known(
    target: Any,
    target_ops: Sequence[str] | None,
    fp32_ops: Sequence[str] | None,
    conditional_ops: Sequence[tuple[str, str, Sequence[str]]] | None,
) -> None:
    """Raise unless the lists are lists of known names, and no name is in two."""
    given = {"target_dtype_ops": target_ops, "fp32_ops": fp32_ops, "conditional_fp32_ops": conditional_ops}
    for name, value in given.items():
        if value is not None and not isinstance(value, list):
            raise CheckError(f"amp: {name} must be a list, got {type(value).__name__}")
    for each in conditional_ops or ():
        if len(each) != 3 or not isinstance(each[2], list):
            raise CheckError(f"amp: conditional_fp32_ops must hold (operator, attribute, list of values), got {each!r}")
    conditional = list_conditional_fp32_ops(target) if conditional_ops is None else conditional_ops
    names = {
        "target_dtype_ops": list_lp16_ops(target) if target_ops is None else target_ops,
        "fp32_ops": list_fp32_ops(target) if fp32_ops is None else fp32_ops,
        "conditional_fp32_ops": [name for name, *_ in conditional],
    }
    seen: dict[str, str] = {}
    for where, found in names.items():
        for name in dict.fromkeys(found):
            if name in seen:
                raise CheckError(f"amp: operator {name} is in {seen[name]} and in {where}; leave it in one of them")
            seen[name] = where
    unknown = [name for name in (*(target_ops or ()), *(fp32_ops or ()), *names["conditional_fp32_ops"])
               if not classes([name])]  # fmt: skip
    if unknown:
        raise CheckError(f"amp: there is no operator {unknown[0]!r}; amp.list_lp16_fp32_ops(…) and the like list them")


# --- training ---------------------------------------------------------------------------------------------------------


def init(
    target_dtype: Any = "float16",
    target_precision_ops: list[str] | None = None,
    conditional_fp32_ops: list[tuple[str, str, list[str]]] | None = None,
    fp32_ops: list[str] | None = None,
) -> None:
    """Let operators run in mixed precision from now on; once per process, before networks are made.

    Matrix products and convolutions run in ``target_dtype``, what needs the range or the digits in float32; the lists
    change which. Parameters stay as they are, in float32.

    Parameters
    ----------
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    target_precision_ops:
        MXNet's names of the operators that run in ``target_dtype``; None is :func:`list_lp16_ops`.
    conditional_fp32_ops:
        Triples of an operator, an attribute and a list of its values, for which it runs in float32; None is
        :func:`list_conditional_fp32_ops`.
    fp32_ops:
        Those that run in float32; None is :func:`list_fp32_ops`.
    """
    if _STARTED.scaler is not None:
        return
    target = _target(target_dtype)
    _LOG.info("Using AMP")
    rules = _rules(target, target_precision_ops, fp32_ops, conditional_fp32_ops)
    scaler = _STARTED.scaler = LossScaler()
    AUTOCAST.set(target, rules, classes(list_loss_output_functions(target)), lambda: scaler.loss_scale)


def init_trainer(optimizer_or_trainer: Any) -> None:
    """Give a Trainer a scaler of losses: steps whose gradients overflow are left out.

    Parameters
    ----------
    optimizer_or_trainer:
        The Trainer; an Optimizer is an ArgumentTypeError.
    """
    if _STARTED.scaler is None:
        raise CheckError("AMP not initialized, did you forget to call amp.init()?")
    trainer = _trainer(optimizer_or_trainer)
    trainer._amp_loss_scaler = LossScaler() if _STARTED.taken else _STARTED.scaler
    trainer._amp_original_scale = trainer._scale
    _STARTED.taken = True


@contextlib.contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Generator[Any]:
    """``with scale_loss(loss, trainer) as scaled:`` the loss, or a list of them, times the scale; ``step`` divides.

    Parameters
    ----------
    loss:
        An array, or a list of them.
    optimizer_or_trainer:
        The Trainer, after :func:`init_trainer`, else it is a CheckError.
    """
    scaler = getattr(optimizer_or_trainer, "_amp_loss_scaler", None)
    if scaler is None:
        raise CheckError("Loss scaler is not initialized, did you forget to call amp.init_trainer()?")
    scale = scaler.loss_scale
    optimizer_or_trainer._scale = optimizer_or_trainer._amp_original_scale / scale
    if isinstance(loss, list | tuple):
        yield [each * scale for each in cast("Sequence[Any]", loss)]
    else:
        yield loss * scale


def unscale(optimizer_or_trainer: Any) -> None:
    """Divide the gradients by the scale now, as for clipping them; ``step`` does not do it again.

    Parameters
    ----------
    optimizer_or_trainer:
        The Trainer; an Optimizer is an ArgumentTypeError.
    """
    trainer = _trainer(optimizer_or_trainer)
    for param in trainer._params:
        for grad in param.gradients() if param.grad_req != "null" else ():
            grad[:] = grad * trainer._scale
    trainer._scale = 1.0


def _trainer(given: Any) -> Trainer:
    if isinstance(given, Trainer):
        return given
    if isinstance(given, Optimizer):
        raise ArgumentTypeError("AMP is currently only compatible with Gluon Trainer")
    raise ArgumentTypeError(f"optimizer_or_trainer should be a Gluon Trainer, instead is {type(given).__name__}")


# --- prediction -------------------------------------------------------------------------------------------------------


def convert_symbol(
    sym: Any,
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: list[tuple[str, str, list[str]]] | None = None,
    excluded_sym_names: Any = None,
    data_names: Sequence[str] | None = None,
    cast_optional_params: bool = False,
) -> ComposedSymbol:
    """A symbol with casts, so that its operators run in the dtypes of the lists.

    A list that is wrong, as one that names an operator twice, is a CheckError.

    Parameters
    ----------
    sym:
        The symbol.
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    target_dtype_ops:
        MXNet's names of the operators that run in ``target_dtype``; None is :func:`list_lp16_ops`.
    fp32_ops:
        Those that run in float32; None is :func:`list_fp32_ops`.
    conditional_fp32_ops:
        Triples of an operator, an attribute and a list of its values, for which it runs in float32; None is
        :func:`list_conditional_fp32_ops`.
    excluded_sym_names:
        The names of nodes that run in float32; None for none.
    data_names:
        The names of the inputs that are no parameters; None takes all inputs for data.
    cast_optional_params:
        Whether parameters of which only the 16 bits are used have this dtype; else they stay in float32 and are
        cast in each call.
    """
    if not isinstance(sym, ComposedSymbol):
        raise CheckError(f"convert_symbol: sym must be a Symbol, got {type(sym).__name__}")
    if excluded_sym_names is not None and not isinstance(excluded_sym_names, list):
        raise CheckError(
            f"convert_symbol: excluded_sym_names must be a list of names, got {type(excluded_sym_names).__name__}"
        )
    target = _target(target_dtype)
    _require_known(target, target_dtype_ops, fp32_ops, conditional_fp32_ops)
    policy = Autocast()
    policy.target, policy.rules = target, _rules(target, target_dtype_ops, fp32_ops, conditional_fp32_ops)
    names = set(sym.list_inputs())
    parameters = set[str]() if data_names is None else names - set(data_names)
    return ComposedSymbol(
        converted(
            sym.entries, policy, cast("list[str]", excluded_sym_names or []), parameters, bool(cast_optional_params)
        )
    )


def convert_model(
    sym: Any,
    arg_params: dict[str, Any],
    aux_params: dict[str, Any],
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: list[tuple[str, str, list[str]]] | None = None,
    excluded_sym_names: list[str] | None = None,
    cast_optional_params: bool = False,
) -> tuple[ComposedSymbol, dict[str, Any], dict[str, Any]]:
    """As :func:`convert_symbol`, for a symbol with its parameters, which are cast where it says so.

    Parameters
    ----------
    sym:
        The symbol.
    arg_params, aux_params:
        Dicts of its parameters and auxiliary states by name.
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    target_dtype_ops:
        MXNet's names of the operators that run in ``target_dtype``; None is :func:`list_lp16_ops`.
    fp32_ops:
        Those that run in float32; None is :func:`list_fp32_ops`.
    conditional_fp32_ops:
        Triples of an operator, an attribute and a list of its values, for which it runs in float32; None is
        :func:`list_conditional_fp32_ops`.
    excluded_sym_names:
        The names of nodes that run in float32; None for none.
    cast_optional_params:
        Whether parameters of which only the 16 bits are used have this dtype; else they stay in float32 and are
        cast in each call.
    """
    for name, given in (("arg_params", arg_params), ("aux_params", aux_params)):
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CheckError(f"convert_model: {name} must be a dict of arrays, got {type(given).__name__}")
    if not isinstance(sym, ComposedSymbol):
        raise CheckError(f"convert_model: sym must be a Symbol, got {type(sym).__name__}")
    data = [name for name in sym.list_inputs() if name not in arg_params and name not in aux_params]
    made = convert_symbol(
        sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names, data,
        cast_optional_params,
    )  # fmt: skip
    dtypes = _declared(made)
    arguments, states = ({k: _in(x, dtypes.get(k)) for k, x in given.items()} for given in (arg_params, aux_params))
    return made, arguments, states


def _declared(sym: ComposedSymbol) -> dict[str, Any]:
    found = {node.name: declared_dtype(node) for node in variables(sym.entries)}
    return {name: dtype for name, dtype in found.items() if dtype is not None}


def _in(x: Any, dtype: Any) -> Any:
    return x if dtype is None or np.dtype(x.dtype) == dtype else x.astype(dtype)


def convert_hybrid_block(
    block: Any,
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: list[tuple[str, str, list[str]]] | None = None,
    excluded_sym_names: list[str] | None = None,
    ctx: Any = None,
    cast_optional_params: bool = False,
) -> SymbolBlock:
    """As :func:`convert_symbol`, for a block that was hybridized and called: a SymbolBlock for prediction.

    Parameters
    ----------
    block:
        The block.
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    target_dtype_ops:
        MXNet's names of the operators that run in ``target_dtype``; None is :func:`list_lp16_ops`.
    fp32_ops:
        Those that run in float32; None is :func:`list_fp32_ops`.
    conditional_fp32_ops:
        Triples of an operator, an attribute and a list of its values, for which it runs in float32; None is
        :func:`list_conditional_fp32_ops`.
    excluded_sym_names:
        The names of nodes that run in float32; None for none.
    ctx:
        The device of the parameters, or a list of devices; None is that of the block's.
    cast_optional_params:
        Whether parameters of which only the 16 bits are used have this dtype; else they stay in float32 and are
        cast in each call.
    """
    # COMPAT(mxnet): ctx is that of the block by default; there gpu(0).
    if not isinstance(block, HybridBlock):
        raise CheckError(f"convert_hybrid_block: block must be a HybridBlock, got {type(block).__name__}")
    sym, arguments, states, data = symbol_of(block, "convert_hybrid_block")
    made = convert_symbol(
        sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names, data,
        cast_optional_params,
    )  # fmt: skip
    dtypes = _declared(made)
    values = {name: _in(x, dtypes.get(name)) for name, x in {**arguments, **states}.items()}
    result = SymbolBlock(made, [var(name) for name in data])
    devices = ctx if ctx is not None else _devices(block)
    result.collect_params().load_dict(values, ctx=devices, cast_dtype=True, dtype_source="saved")
    return result


def convert_bucketing_module(
    bucketing_mod: Any,
    target_dtype: Any = "float16",
    target_dtype_ops: list[str] | None = None,
    fp32_ops: list[str] | None = None,
    conditional_fp32_ops: list[tuple[str, str, list[str]]] | None = None,
    excluded_sym_names: list[str] | None = None,
    cast_optional_params: bool = False,
) -> BucketingModule:
    """As :func:`convert_model`, for the symbols of all buckets that a module has had.

    Parameters
    ----------
    bucketing_mod:
        The BucketingModule, whose parameters must be there.
    target_dtype:
        ``"float16"`` or ``"bfloat16"``; others are a CheckError.
    target_dtype_ops:
        MXNet's names of the operators that run in ``target_dtype``; None is :func:`list_lp16_ops`.
    fp32_ops:
        Those that run in float32; None is :func:`list_fp32_ops`.
    conditional_fp32_ops:
        Triples of an operator, an attribute and a list of its values, for which it runs in float32; None is
        :func:`list_conditional_fp32_ops`.
    excluded_sym_names:
        The names of nodes that run in float32; None for none.
    cast_optional_params:
        Whether parameters of which only the 16 bits are used have this dtype; else they stay in float32 and are
        cast in each call.
    """
    if not isinstance(bucketing_mod, BucketingModule):
        raise CheckError(f"convert_bucketing_module: expected a BucketingModule, got {type(bucketing_mod).__name__}")
    return bucketing_mod.converted(
        lambda symbol, arguments, states: convert_model(
            symbol, arguments, states, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops,
            excluded_sym_names, cast_optional_params,
        )
    )  # fmt: skip


def _devices(block: HybridBlock) -> Any:
    return next((param.list_ctx() for param in block.collect_params().values()), None)
