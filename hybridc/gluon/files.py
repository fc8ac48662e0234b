"""Parameters of blocks in files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hybridc.array_files import formats
from hybridc.array_files.name_maps import NameMap, renamed
from hybridc.errors import CheckError, MXNetError
from hybridc.gluon.export import described_graph
from hybridc.gluon.parameter import Parameter, load_values, mismatch_of
from hybridc.gluon.utils import brief
from hybridc.ground.whole_files import write_whole
from hybridc.nd import storage

if TYPE_CHECKING:
    from hybridc.gluon.hybrid_block import Block


class ModelMismatch(MXNetError, KeyError):
    """A saved model is not of the block that is to load it: its children have other names."""

    __str__ = MXNetError.__str__


def save_parameters(
    params: Mapping[str, Parameter], filename: str, deduplicate: bool, metadata: Mapping[str, str] | None
) -> None:
    """Save parameters under these names; with ``deduplicate`` each parameter once, under its last name."""
    if deduplicate:
        last = {id(param): name for name, param in params.items()}
        params = {name: param for name, param in params.items() if last[id(param)] == name}
    storage.save(filename, {name: param.reduce() for name, param in params.items()}, metadata)


def load_parameters(
    block: Block,
    params: Mapping[str, Parameter],
    filename: str,
    ctx: Any,
    allow_missing: bool,
    ignore_extra: bool,
    cast_dtype: bool,
    dtype_source: str,
    name_map: NameMap | None,
) -> None:
    """Load parameters by these names, or by the parameters' own ones if no name in the file has a dot."""
    loaded = renamed(storage.load_named(filename), name_map, filename)
    if not loaded and not params:
        return
    if not any("." in name for name in loaded):  # written by ParameterDict.save
        options = (ctx, allow_missing, ignore_extra, block.prefix, filename, cast_dtype, dtype_source)
        block.collect_params().load_dict(loaded, *options)
        return
    mismatch = mismatch_of(params, loaded)
    if mismatch.missing and not allow_missing:
        raise CheckError(
            f"Parameter '{mismatch.missing[0]}' is missing in file '{filename}', which contains parameters: "
            f"{brief(loaded)}. Set allow_missing=True to ignore missing parameters.{mismatch.report()}"
        )
    if mismatch.extra and not ignore_extra:
        raise ValueError(
            f"Parameter '{mismatch.extra[0]}' loaded from file '{filename}' is not present in ParameterDict, which "
            f"contains parameters {brief(params)}. Set ignore_extra=True to ignore. {mismatch.report()}"
        )
    load_values(params, loaded, mismatch, ctx, cast_dtype, dtype_source)


def save_model(block: Block, prefix: str) -> None:
    """Write the tree of blocks and all parameters: ``prefix-model.json`` and ``prefix-model.params``."""
    formats.refuse_foreign(prefix)
    tree = {block.name: _described(block, iter(range(1, 1 << 30)))}
    write_whole(f"{prefix}-model.json", json.dumps(tree).encode())
    block.save_parameters(f"{prefix}-model.params")


def _described(block: Any, numbers: Iterator[int]) -> dict[str, Any]:
    """A block as MXNet describes it: its name, its children's names with their attributes, and these, numbered."""
    found: dict[str, Any] = {"orig_name": block.name}
    if hasattr(block, "is_active"):
        graph = described_graph(block)
        found |= {**graph, "hybridized": bool(graph)}
    found["children"] = {child.name: attribute for attribute, child in block._children.items()}
    for child in block._children.values():
        key = f"{type(child).__name__.lower()}{next(numbers)}"
        found[key] = _described(child, numbers)
    return found


def load_model(block: Block, prefix: str) -> None:
    """Take what :func:`save_model`, or MXNet, wrote for a block of the same structure."""
    path = Path(f"{prefix}-model.json")
    if not path.exists():
        formats.refuse_foreign(prefix)
    tree: Any = json.loads(path.read_text())
    _restore(block, next(iter(tree.values())), str(path))
    block.load_parameters(f"{prefix}-model.params")


def _restore(block: Any, saved: Mapping[str, Any], path: str) -> None:
    """Hybridize the blocks that were hybridized, having checked that they are those that were saved."""
    wanted = list(cast("dict[str, str]", saved.get("children", {})).values())
    if wanted != list(block._children):
        raise ModelMismatch(
            f"{path} describes a block with the children {brief(wanted) or 'none'}, but {block.name} has "
            f"{brief(block._children) or 'none'}; build the block as the saved one was built"
        )
    parts = [cast("dict[str, Any]", part) for part in saved.values() if isinstance(part, dict) and "orig_name" in part]
    for child, part in zip(block._children.values(), parts, strict=True):
        _restore(child, part, path)
    if saved.get("hybridized") and not block.is_active:
        block.hybridize()
