"""Which items of a data set are those of one rank, or part: the rule that samplers and iterators share."""

from __future__ import annotations

from hybridc.errors import CheckError

# What becomes of items that are too few for all parts: the first items once more, left out, or the first parts have one
# more.
TAILS = ("pad", "discard", "keep")


def check_part(owner: str, num_parts: int, part_index: int, tail: str) -> None:
    """Raise unless there is such a part."""
    if num_parts < 1 or not 0 <= part_index < num_parts:
        raise CheckError(
            f"{owner}: part_index must be from 0 to {max(num_parts, 1) - 1}, got {part_index} (num_parts={num_parts})"
        )
    if tail not in TAILS:
        raise CheckError(f"{owner}: tail must be {', '.join(map(repr, TAILS[:-1]))} or {TAILS[-1]!r}, got {tail!r}")


def adjacent_part(owner: str, count: int, num_parts: int, part_index: int, tail: str = "pad") -> list[int]:
    """The numbers of the items of one of several parts, which follow each other.

    ``tail`` says what becomes of items that do not come out even, see :data:`TAILS`; parts have equally many items, but
    for ``"keep"``.
    """
    check_part(owner, num_parts, part_index, tail)
    if tail == "keep":
        size, rest = divmod(count, num_parts)
        start = size * part_index + min(part_index, rest)
        return [*range(start, start + size + (part_index < rest))]
    size = total_count(count, num_parts, tail) // num_parts
    return [i % count for i in range(part_index * size, (part_index + 1) * size)]


def total_count(count: int, num_parts: int, tail: str) -> int:
    """How many items all parts have together."""
    if tail == "keep":
        return count
    return (-(-count // num_parts) if tail == "pad" else count // num_parts) * num_parts
