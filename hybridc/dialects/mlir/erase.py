"""Erasing operations: as xDSL's ``Rewriter`` does, but their memory is free at once.

An operation and its results refer to each other, as do a region, its blocks and their operations: what is erased waits
for Python's collector otherwise, which then goes through all that was made meanwhile, in the user's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Block, Operation, SSAValue, SSAValues
from xdsl.rewriter import Rewriter


def erase_op(op: Operation, safe_erase: bool = True) -> None:
    """Erase an operation; if ``safe_erase``, ValueError where a result is still read."""
    if not safe_erase:
        Rewriter.erase_op(op, safe_erase=False)
    elif any(result.first_use is not None for result in op.results):
        raise ValueError(f"{op.name} is erased although its results are read")
    elif op.parent is not None:
        op.detach()
    take_apart(op)


def replace_op(
    op: Operation, new_ops: Operation | Sequence[Operation], new_results: Sequence[SSAValue] | None = None
) -> None:
    """Put operations in place of one, whose results are replaced by others: by default, those of the last one."""
    Rewriter.replace_op(op, new_ops, new_results)
    take_apart(op)


def erase_block(block: Block) -> None:
    """Erase a block with its operations, whose results may still be read."""
    region = block.parent
    if region is not None:
        region.detach_block(block)
    _take_block_apart(block)


def take_apart(op: Operation) -> None:
    """Let an operation that is in no block, and all inside, refer to nothing that refers to it."""
    parts: Any = op
    for operand, use in zip(parts._operands, parts._operand_uses, strict=False):
        operand.remove_use(use)
    parts._operand_uses = ()
    op.results = SSAValues()
    # A kernel writes its body when it is asked for it (ir/kernels/kernel_module.py).
    regions: Any = parts._regions if hasattr(parts, "_regions") else parts.regions
    parts.regions = ()
    for region in regions:
        for block in list(region.blocks):
            _take_block_apart(block)
        region._first_block = region._last_block = region.parent = None


def _take_block_apart(block: Any) -> None:
    for op in list(block.ops):
        op.parent = op._prev_op = op._next_op = None
        take_apart(op)
    block._first_op = block._last_op = block.parent = None
    block._args = ()
