"""Names of arrays in a file that are to get others, and what then does not fit those that are expected."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from hybridc.errors import AttributeValueError
from hybridc.ground.records import dataclass

T = TypeVar("T")
#: The name for each name of a file, or None to leave an array out: a function of all names, or a dict of some.
NameMap = Mapping[str, str | None] | Callable[[str], str | None]
_MOST_LISTED = 10  # names that a report lists of each kind


def renamed(arrays: Mapping[str, T], name_map: NameMap | None, where: str) -> dict[str, T]:
    """Arrays by their new names; a name that a dict lacks stays what it is.

    AttributeValueError, if a dict has a name that the file lacks, or two arrays would have one name.
    """
    if name_map is None:
        return dict(arrays)
    new = {name: name_map(name) for name in arrays} if callable(name_map) else _by_dict(arrays, name_map, where)
    for name, other in new.items():
        if other is not None and not isinstance(other, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AttributeValueError(f"name_map must give a name or None, got {other!r} for {name!r}")
    (twice, count), *_ = Counter(name for name in new.values() if name is not None).most_common(1) or [("", 0)]
    if count > 1:
        sources = [repr(name) for name, other in new.items() if other == twice]
        raise AttributeValueError(f"name_map gives {twice!r} to several arrays of {where}: {', '.join(sources)}")
    return {other: arrays[name] for name, other in new.items() if other is not None}


def _by_dict(names: Iterable[str], name_map: Mapping[str, str | None], where: str) -> dict[str, str | None]:
    new = {name: name_map.get(name, name) for name in names}
    for name in name_map:
        if name not in new:
            raise AttributeValueError(f"name_map has {name!r}, which is not in {where}{_nearest(name, new)}")
    return new


@dataclass(frozen=True)
class NameMismatch:
    """What does not fit: expected names that a file lacks, further ones in it, and what is wrong with its shapes."""

    missing: list[str]
    extra: list[str]
    shapes: dict[str, str]

    def report(self) -> str:
        """Lines that list it, with the nearest name for each that is missing; empty if one line can say it."""
        if len(self.missing) + len(self.extra) + len(self.shapes) < 2:
            return ""
        lines = [
            _listed("missing in the file", [repr(name) + _nearest(name, self.extra) for name in self.missing]),
            _listed("in the file alone", [repr(name) for name in self.extra]),
            _listed("of another shape", [f"{name!r}: {text}" for name, text in self.shapes.items()]),
        ]
        if self.missing and self.extra:
            lines.append("Names of another program: give name_map, a dict or a function from the names of the file.")
        return "".join(f"\n{line}" for line in lines if line)


def _listed(title: str, texts: list[str]) -> str:
    if not texts:
        return ""
    more = f", and {len(texts) - _MOST_LISTED} more" if len(texts) > _MOST_LISTED else ""
    return f"{len(texts)} {title}: {', '.join(texts[:_MOST_LISTED])}{more}"


def _nearest(name: str, others: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(others), 1)
    return f" (nearest: {found[0]!r})" if found else ""
