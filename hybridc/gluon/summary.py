"""The table that ``Block.summary`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.ground.records import dataclass

if TYPE_CHECKING:
    from hybridc.gluon.hybrid_block import Block

_LINE = "{:>20}  {:>42} {:>15}"


@dataclass
class _Row:
    """One layer: what it gives, how many numbers it holds."""

    name: str
    shape: str
    total: int = 0
    trainable: int = 0
    shared: int = 0


def summary(block: Block, inputs: tuple[Any, ...]) -> str:
    """The layers in the order in which they ran, with output shapes and parameter counts."""
    rows = [_Row("Input", _shapes(inputs))]
    seen: set[int] = set()
    handles: list[Any] = []

    def note(layer: Block, _: Any, outputs: Any) -> None:
        row = _Row(f"{type(layer).__name__}-{len(rows)}", _shapes(outputs))
        for param in layer.params.values():
            size = param.arrays()[0].size
            row.total += size
            row.trainable += 0 if param.grad_req == "null" else size
            row.shared += size if id(param) in seen else 0
            seen.add(id(param))
        rows.append(row)

    def listen(layer: Block) -> None:
        if layer.IN_SUMMARY:
            handles.append(layer.register_forward_hook(note))

    try:
        block.apply(listen)
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
    return _table(rows)


def _table(rows: list[_Row]) -> str:
    total = sum(row.total for row in rows)
    trainable = sum(row.trainable for row in rows)
    shared = sum(row.shared for row in rows)
    return "\n".join(
        [
            "-" * 80,
            _LINE.format("Layer (type)", "Output Shape", "Param #"),
            "=" * 80,
            *(_LINE.format(row.name, row.shape, row.total) for row in rows),
            "=" * 80,
            "Parameters in forward computation graph, duplicate included",
            f"   Total params: {total}",
            f"   Trainable params: {trainable}",
            f"   Non-trainable params: {total - trainable}",
            f"Shared params in forward computation graph: {shared}",
            f"Unique parameters in model: {total - shared}",
            "-" * 80,
        ]
    )


def _shapes(values: Any) -> str:
    """The shapes of nested arrays; the outermost brackets of a list are left out, as MXNet does."""
    shapes = str(_nested_shapes(values))
    return shapes[1:-1] if shapes.startswith("[") else shapes


def _nested_shapes(values: Any) -> Any:
    if isinstance(values, list | tuple):
        parts: list[Any] = [_nested_shapes(v) for v in values]  # pyright: ignore[reportUnknownVariableType]
        return parts
    return values.shape if hasattr(values, "shape") else values
