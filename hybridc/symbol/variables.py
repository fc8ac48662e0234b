"""The beginnings of graphs: variables, and groups of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc import attribute
from hybridc.array_files.mxnet_format import TYPE_FLAGS
from hybridc.errors import AttributeValueError, DTypeError
from hybridc.ground.location import user_location
from hybridc.sparse_storage import STORAGE_TYPES
from hybridc.symbol.composed import ComposedSymbol
from hybridc.symbol.graph import SymbolNode
from hybridc.symbol.node_attributes import checked


def var(
    name: str,
    attr: dict[str, str] | None = None,
    shape: Sequence[int] | int | None = None,
    lr_mult: float | None = None,
    wd_mult: float | None = None,
    dtype: Any = None,
    init: Any = None,
    stype: str | None = None,
    **kwargs: Any,
) -> ComposedSymbol:
    """A variable: an input of a graph, for which an array is given when the graph is bound.

    What is known of it is kept as attributes of its node.

    Parameters
    ----------
    name:
        The name, under which the array is given.
    attr:
        Attributes, a dict of strings; names begin and end with two underscores.
    shape, dtype:
        What inference starts from, if the caller of ``bind`` does not say it; a size of 0 is unknown.
    lr_mult, wd_mult:
        Factors of the learning rate and the weight decay, for the optimizer of a module.
    init:
        An initializer, or its ``dumps()``, for a module.
    stype:
        The storage type, ``'default'``, ``'csr'`` or ``'row_sparse'``; None for the first.
    **kwargs:
        Further attributes, as of ``attr``; other names are a ValueError.

    Examples
    --------
    >>> x = mx.sym.var("x", shape=(2, 3))
    >>> mx.sym.transpose(x).infer_shape()[1]
    [(3, 2)]
    >>> x.attr("__shape__")
    '(2, 3)'
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"Expect a string for variable `name`, got {name!r}")
    if stype not in (None, *STORAGE_TYPES):
        raise AttributeValueError(f"variable {name!r}: stype={stype!r} must be one of {', '.join(STORAGE_TYPES)}")
    attrs: dict[str, Any] = attribute.current().get(attr)
    if shape is not None:
        sizes = (shape,) if isinstance(shape, int) else shape
        attrs["__shape__"] = str([*sizes] if isinstance(sizes, list) else tuple(sizes))
    if lr_mult is not None:
        attrs["__lr_mult__"] = str(lr_mult)
    if wd_mult is not None:
        attrs["__wd_mult__"] = str(wd_mult)
    if dtype is not None:
        attrs["__dtype__"] = _type_number(name, dtype)
    if init is not None:
        attrs["__init__"] = init if isinstance(init, str) else init.dumps()
    if stype is not None:
        attrs["__storage_type__"] = str(STORAGE_TYPES.index(stype))
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(
                f"Attribute name={key} is not supported. Additional attributes must start and end with double "
                "underscores, e.g, __yourattr__"
            )
        attrs[key] = str(value)
    return ComposedSymbol([(SymbolNode(None, name, (), checked(attrs), user_location()), 0)])


def parameter_variable(parameter: Any, made: ComposedSymbol | None) -> ComposedSymbol:
    """The variable of a gluon Parameter, always the same, with what is known of the parameter now."""
    init = parameter.init if isinstance(parameter.init, str) or hasattr(parameter.init, "dumps") else None
    fresh = var(
        parameter.name,
        shape=parameter.shape,
        lr_mult=parameter.lr_mult,
        wd_mult=parameter.wd_mult,
        dtype=parameter.dtype,
        init=init,
        stype=parameter.stype,
    )
    if made is None:
        return fresh
    made.entries[0][0].attrs = fresh.entries[0][0].attrs
    return made


def _type_number(name: str, dtype: Any) -> str:
    number = TYPE_FLAGS.get(np.dtype(dtype))
    if number is None:
        raise DTypeError(f"variable {name!r}: dtype {np.dtype(dtype)} has no number in MXNet's files; cast it")
    return str(number)


Variable = var


def Group(symbols: Sequence[Any], create_fn: Any = None) -> ComposedSymbol:  # noqa: ARG001 - of MXNet's signature
    """The results of several symbols as one symbol.

    Parameters
    ----------
    symbols:
        The symbols; what is no list of them is a TypeError.
    create_fn:
        Accepted for MXNet's API, without effect.

    Examples
    --------
    >>> x = mx.sym.var("x")
    >>> both = mx.sym.Group([mx.sym.exp(x, name="a"), mx.sym.log(x, name="b")])
    >>> both.list_outputs()
    ['a_output', 'b_output']
    """
    found = list(symbols)
    if not found or any(not isinstance(s, ComposedSymbol) for s in found):
        raise TypeError(f"Expected a list of symbols as input, got {symbols!r}")
    return ComposedSymbol([entry for s in found for entry in s.entries])
