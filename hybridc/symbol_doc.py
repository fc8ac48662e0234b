"""``mx.symbol_doc``: further text for the docstrings of operators of ``mx.sym``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.ndarray_doc import documented

__all__ = ["SymbolDoc"]


class SymbolDoc:
    """The base of classes ``<operator>Doc``, whose docstrings are added to those that :func:`_build_doc` makes."""

    @staticmethod
    def get_output_shape(sym: Any, **input_shapes: Any) -> dict[str, Any]:
        """The shapes of the results of the symbol ``sym``, by their names, from those of its inputs."""
        _, shapes, _ = sym.infer_shape(**input_shapes)
        return dict(zip(sym.list_outputs(), shapes, strict=True))


def _build_doc(  # pyright: ignore[reportUnusedFunction]  (MXNet's name)
    func_name: str,
    desc: str,
    arg_names: Sequence[str],
    arg_types: Sequence[str],
    arg_desc: Sequence[str],
    key_var_num_args: str | None = None,
    ret_type: str | None = None,  # noqa: ARG001  (MXNet ignores it, too)
) -> str:
    """The docstring of an operator on symbols, from what it does and its arguments."""
    return documented(SymbolDoc, "Symbol", func_name, desc, (arg_names, arg_types, arg_desc), key_var_num_args)
