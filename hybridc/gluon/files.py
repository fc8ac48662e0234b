"""Parameters of blocks in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hybridc.errors import CheckError
from hybridc.gluon.utils import brief
from hybridc.nd import storage

if TYPE_CHECKING:
    from hybridc.gluon.hybrid_block import Block
    from hybridc.gluon.parameter import Parameter


def save_parameters(params: Mapping[str, Parameter], filename: str, deduplicate: bool) -> None:
    """Save parameters under these names; with ``deduplicate`` each parameter once, under its last name."""
    if deduplicate:
        last = {id(param): name for name, param in params.items()}
        params = {name: param for name, param in params.items() if last[id(param)] == name}
    storage.save(filename, {name: param.reduce() for name, param in params.items()})


def load_parameters(
    block: Block,
    params: Mapping[str, Parameter],
    filename: str,
    ctx: Any,
    allow_missing: bool,
    ignore_extra: bool,
    cast_dtype: bool,
    dtype_source: str,
) -> None:
    """Load parameters by these names, or by the parameters' own ones if no name in the file has a dot."""
    loaded = storage.load_named(filename)
    if not loaded and not params:
        return
    if not any("." in name for name in loaded):  # written by ParameterDict.save
        block.collect_params().load(filename, ctx, allow_missing, ignore_extra, block.prefix, cast_dtype, dtype_source)
        return
    present = {id(param) for name, param in params.items() if name in loaded}
    for name, param in params.items():
        if not allow_missing and id(param) not in present:  # a shared parameter may be saved under its other name
            raise CheckError(
                f"Parameter '{name}' is missing in file '{filename}', which contains parameters: "
                f"{brief(loaded)}. Set allow_missing=True to ignore missing parameters."
            )
    for name, value in loaded.items():
        if name in params:
            params[name].load_init(value, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source)
        elif not ignore_extra:
            raise ValueError(
                f"Parameter '{name}' loaded from file '{filename}' is not present in ParameterDict, which "
                f"contains parameters {brief(params)}. Set ignore_extra=True to ignore. "
            )
