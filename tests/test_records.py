"""Dataclasses that take little time to define behave as those of the standard library."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar

import pytest

from hybridc.ground import records

OPTIONS = [{}, {"eq": False}, {"frozen": True}, {"frozen": True, "eq": False}]


def both(options: dict[str, bool]) -> list[Any]:
    """The same class, defined by either function."""
    made: list[Any] = []
    for dataclass in (dataclasses.dataclass, records.dataclass):

        @dataclass(**options)
        class Part:
            """Some fields of each kind."""

            KINDS: ClassVar[tuple[str, ...]] = ("a", "b")

            name: str
            size: int = 3
            parts: list[int] = field(default_factory=lambda: [1, 2])
            note: str = field(default="", compare=False, repr=False)
            _: KW_ONLY
            scale: float = 1.0
            total: int = field(default_factory=int, init=False)

        made.append(Part)
    return made


def attempts(part: Any) -> list[Any]:
    """What a class does with objects, errors included."""

    def attempt(work: Any) -> Any:
        try:
            return repr(work())
        except Exception as error:
            return type(error), str(error).replace("Part.__init__() ", "")

    one, two, other = part("x", parts=(1,)), part("x", 3, (1,), "noted"), part("y", 1, (1,), scale=2.0)
    return [
        attempt(work)
        for work in (
            lambda: (one, two, other),
            lambda: part("x"),
            lambda: part(),
            lambda: part("x", 1, [], "", 2.0),
            lambda: part("x", total=1),
            lambda: (one == two, one == other, one != two, one == "x"),
            lambda: hash(one) == hash(two) or isinstance(one.__hash__, type(object().__hash__)),
            lambda: len({one, two, other}),
            lambda: setattr(one, "size", 4),
            lambda: setattr(one, "more", 4),
            lambda: delattr(one, "name"),
            lambda: (part.size, part.KINDS, hasattr(part, "parts"), part.__match_args__),
            lambda: dataclasses.asdict(other),
            lambda: dataclasses.replace(other, size=5),
            lambda: [(f.name, f.default, f.init, f.kw_only) for f in dataclasses.fields(part)],
            lambda: (dataclasses.is_dataclass(part), part.__dataclass_params__.frozen),
            lambda: inspect.signature(part).parameters.keys(),
        )
    ]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_class_is_as_the_standard_library_would_define_it(options: dict[str, bool]) -> None:
    standard, ours = both(options)
    assert attempts(ours) == attempts(standard)


@pytest.mark.parametrize("inner", [dataclasses.dataclass, records.dataclass])
@pytest.mark.parametrize("outer", [dataclasses.dataclass, records.dataclass])
def test_either_kind_can_be_the_base_of_the_other(inner: Any, outer: Any) -> None:
    @inner(frozen=True)
    class Base:
        """A base."""

        name: str
        size: int = 1

    @outer(frozen=True)
    class Derived(Base):
        """With another default, a field of its own, and work after ``__init__``."""

        size: int = 2
        more: tuple[int, ...] = ()

        def __post_init__(self) -> None:
            assert self.size >= 0

    assert Derived("x") == Derived("x", 2) != Derived("x", 1)
    assert repr(Derived("x", more=(1,))).endswith("Derived(name='x', size=2, more=(1,))")
    with pytest.raises(AssertionError):
        Derived("x", -1)
    assert Base("x") != Derived("x")
    assert Derived.__init__ is not Base.__init__


def test_methods_of_a_body_stay() -> None:
    @records.dataclass(frozen=True)
    class Named:
        """Equal if the names are."""

        name: str
        size: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named) and other.name == self.name

        def __hash__(self) -> int:
            return hash(self.name)

        def __repr__(self) -> str:
            return self.name

    assert Named("x", 1) == Named("x", 2)
    assert len({Named("x", 1), Named("x", 2)}) == 1
    assert repr(Named("x", 1)) == "x"


def test_a_subclass_without_fields_has_attributes_of_its_own() -> None:
    @records.dataclass(frozen=True)
    class Base:
        """A base."""

        name: str

    class Plain(Base):
        """No dataclass."""

    plain = Plain("x")
    plain.more = 1  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.name = "y"  # pyright: ignore[reportAttributeAccessIssue]
    assert plain == Plain("x")
    assert plain != Base("x")
