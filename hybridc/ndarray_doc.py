"""``mx.ndarray_doc``: further text for the docstrings of operators of ``mx.nd``."""

from __future__ import annotations

from collections.abc import Sequence

from hybridc.base import build_param_doc

__all__ = ["NDArrayDoc"]


class NDArrayDoc:
    """The base of classes ``<operator>Doc``, whose docstrings are added to those that :func:`_build_doc` makes."""


def _build_doc(  # pyright: ignore[reportUnusedFunction]  (MXNet's name)
    func_name: str,
    desc: str,
    arg_names: Sequence[str],
    arg_types: Sequence[str],
    arg_desc: Sequence[str],
    key_var_num_args: str | None = None,
    ret_type: str | None = None,  # noqa: ARG001  (MXNet ignores it, too)
) -> str:
    """The docstring of an operator, from what it does and its arguments."""
    return documented(NDArrayDoc, "NDArray", func_name, desc, (arg_names, arg_types, arg_desc), key_var_num_args)


def documented(
    base: type,
    kind: str,
    func_name: str,
    desc: str,
    arguments: tuple[Sequence[str], Sequence[str], Sequence[str]],
    variable: str | None,
) -> str:
    """The docstring of a function on arrays, or on symbols; ``variable`` names the attribute with their number."""
    lines = [desc]
    if variable:
        lines.append("This function support variable length of positional input.")
    last = ("name : string, optional.", "    Name of the resulting symbol.")
    if kind == "NDArray":
        last = ("out : NDArray, optional", "    The output NDArray to hold the result.")
    lines += ["", build_param_doc(*arguments).removesuffix("\n"), *last, "", "Returns", "-------"]
    lines += ["out : NDArray or list of NDArrays" if kind == "NDArray" else "Symbol"]
    lines += [f"    The {'output' if kind == 'NDArray' else 'result'} of this function."]
    lines += [cls.__doc__ or "" for cls in base.__subclasses__() if cls.__name__ == f"{func_name}Doc"]
    return "\n".join(lines).replace("NDArray-or-Symbol", kind)
