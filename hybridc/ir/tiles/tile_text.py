"""The text of tile programs: templates, each of which says both how something is written and how it is read.

    %{name} = load {address}( on {on, limits})?( else {other:number})? : {kind}

A *place* in braces stands for a field, or for several, in a *form*: the one named after a colon, or else the one called
like the field, or else a word. ``{end:begin|end}`` says whether a field is false or true. An *option*, in parentheses
before a question mark, is left out where the first field of its last place has its default; a field that has none is
then what an empty text says. ``( rough)?`` is short for ``{rough:| rough}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import zip_longest
from typing import Any

from hybridc.ground.records import dataclass

_FLAG = re.compile(r"\( (\w+)\)\?")
_PLACE = re.compile(r"\{(.*?)\}")
_PIECE = re.compile(r"\{(.*?)\}|\((.*?)\)\?")


@dataclass(frozen=True)
class Form:
    """How a value is written and read; the ``pattern`` of its text has no groups."""

    pattern: str = r"[\w.]+"
    write: Callable[[Any], str] = str
    read: Callable[[str], Any] = str


class Template:
    """How objects of a class, its ``owner``, are written, or a line of them; ``forms`` are those of its places."""

    def __init__(self, owner: type, text: str, forms: Mapping[str, Form]) -> None:
        self.owner = owner
        self.text = _FLAG.sub(r"{\1:| \1}", text)
        self.forms = forms

    @cached_property
    def write(self) -> Callable[[Any], str]:
        """What writes objects: an f-string of their fields."""
        known: list[Any] = []  # functions of forms, and defaults

        def piece(match: re.Match[str]) -> str:
            """What stands in the f-string for a place or an option."""
            place, option = match.groups()
            names, form = self._place(place or _PLACE.findall(option)[-1])
            if option:
                known.append(self._default(names[0], form))
                return f"{{'' if owner.{names[0]} == known[{len(known) - 1}] else f'{_PIECE.sub(piece, option)}'}}"
            fields = ", ".join([f"owner.{name}" for name in names])
            if form.write is str:
                return f"{{{fields}}}"
            known.append(form.write)
            return f"{{known[{len(known) - 1}](({fields}))}}"

        return eval(f'lambda owner: f"{_PIECE.sub(piece, self.text)}"', {"known": known})

    def read(self, text: str) -> dict[str, Any]:
        """The fields of the object that has a text."""
        match = self._pattern.fullmatch(text)
        if match is None:
            raise ValueError(f"no statement of a tile program: {text}")
        fields: dict[str, Any] = {}
        for (names, form), part in zip(self._places, match.groups()):
            if part is None:
                fields |= {name: self._default(name, form) for name in names}
            else:
                fields |= zip(names, form.read(part) if len(names) > 1 else [form.read(part)])
        return fields

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        text = self.text.replace("(", "(?:").replace("[", r"\[")
        return re.compile(_PLACE.sub(lambda place: f"({self._place(place[1])[1].pattern})", text))

    @cached_property
    def _places(self) -> list[tuple[list[str], Form]]:
        """The fields of all places, and their forms."""
        return [self._place(place) for place in _PLACE.findall(self.text)]

    def _place(self, text: str) -> tuple[list[str], Form]:
        names, _, form = text.partition(":")
        if "|" not in form:
            return names.split(", "), self.forms.get(form or names, _WORD)
        words = form.split("|")
        return [names], Form("|".join(map(re.escape, words)), words.__getitem__, words[1].__eq__)

    def _default(self, name: str, form: Form) -> Any:
        return getattr(self.owner, name) if hasattr(self.owner, name) else form.read("")


def sequence(form: Form, separator: str = ", ", mark: str = "") -> Form:
    """The form of any number of values, before each of which there is a mark."""
    between = separator + mark
    return Form(
        f"(?:{mark}{form.pattern}(?:{between}{form.pattern})*)?",
        lambda values: mark + between.join(map(form.write, values)) if values else "",
        lambda text: tuple(map(form.read, text.removeprefix(mark).split(between))) if text else (),
    )


def _read_number(text: str) -> float:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.removeprefix("-").isdigit() else float(text)


def _read_limited(text: str) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    on, _, limits = zip(*[side[1:].partition(" < ") for side in text.split(", ")])
    return tuple(map(int, on)), tuple(int(n) if n else None for n in limits) if any(limits) else ()


_WORD = Form()
_INT = Form(r"-?\d+", read=lambda text: int(text or 0))
_BOUND = Form(r"(?:%[\w.]+|0)", lambda v: "0" if v is None else f"%{v}", lambda text: text[1:] or None)
FORMS = {
    "word": _WORD,
    "op": Form(r"[\w.]+(?: \w+)?"),
    "int": _INT,
    "number": Form(r"\S+", lambda constant: str(constant).lower(), _read_number),
    "block": Form(r"\S+", read=lambda text: int(text) if text.isdigit() else text),
    "blocks": sequence(_INT),
    "parts": sequence(sequence(_INT), " in "),
    "bounds": sequence(_BOUND, " to "),
    "values": sequence(_WORD, mark="%"),
    "axes": sequence(_INT, mark="i"),
    "on": sequence(_INT, mark="t"),
    "on, limits": Form(
        r"[t\d, <]+",
        lambda sides: ", ".join(f"t{d}" if n is None else f"t{d} < {n}" for d, n in zip_longest(*sides)),
        _read_limited,
    ),
    "sizes": Form(
        r"[\w<, ]+",
        lambda sizes: ", ".join(f"i{a} < {f'n{a}' if n is None else n}" for a, n in enumerate(sizes)),
        lambda text: tuple(None if size[0] == "n" else int(size) for size in re.findall(r"< (\w+)", text)),
    ),
}
