"""Operators in nnvm's JSON, the format of MXNet's symbol files; a base of every operator class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hybridc.dialects.operator_registry import called_later
from hybridc.ground.records import dataclass

if TYPE_CHECKING:
    from hybridc.dialects.operator_attribute import Attribute


def text(value: Any) -> str:
    """An attribute's value as MXNet prints it."""
    return value.name if isinstance(value, np.dtype) else str(value)


def equal(value: Any, default: Any) -> bool:
    """Whether an attribute has its default value; NumPy's float64 equals None."""
    return value is default if value is None or default is None else bool(value == default)


@dataclass(frozen=True)
class NestedGraph:
    """A graph inside an operator, as a file has it: a body, the names of its arguments, and how many results count.

    ``used`` are the arguments that must be inputs of the graph, whether or not its results depend on them. The results
    of an ``apart`` graph are none of its inputs, and no value twice.
    """

    body: Any
    arguments: Sequence[str]
    results: int
    used: Sequence[int] = ()
    apart: bool = False


@called_later
class Interchange:
    """MXNet's names of an operator and its attributes.

    ``NNVM`` is its name there, if that is not its title (``FullyConnected``) or, for a function of a namespace such as
    ``contrib.quadratic``, ``_contrib_quadratic``. ``NNVM_SCALAR`` are MXNet's two operators for an array and a scalar
    and for a scalar and an array, and further names of the first; ``NNVM_ALIASES`` are further names that files may
    have. ``NNVM_ATTRIBUTES`` are MXNet's names of attributes that are called otherwise here; an empty one if it lacks
    the attribute. ``NNVM_ONLY`` are attributes that only MXNet has and that change nothing here: ``ctx``, or
    ``infer_range=False`` for one value only; ``NNVM_ALWAYS`` are those that files have even if they are the default;
    ``NNVM_COUNT`` is the one with the number of inputs of a variadic operator; ``NNVM_PARAMETERS`` are all of MXNet's,
    in their order there, if they are not these. ``NNVM_INITIALIZERS`` are the initializers, as texts, of variables that
    are inputs, by the input's name; ``NNVM_CHOICES`` are the values of an attribute there, if there are fewer. ``AMP``
    marks casts that MXNet's mixed precision inserts, and leaves out of files.
    """

    NNVM: ClassVar[str] = ""
    NNVM_SCALAR: ClassVar[tuple[str, ...]] = ()
    NNVM_ALIASES: ClassVar[tuple[str, ...]] = ()
    NNVM_ATTRIBUTES: ClassVar[dict[str, str]] = {}
    NNVM_ONLY: ClassVar[tuple[str, ...]] = ()
    NNVM_ALWAYS: ClassVar[tuple[str, ...]] = ()
    NNVM_COUNT: ClassVar[str] = ""
    NNVM_PARAMETERS: ClassVar[tuple[str, ...]] = ()
    NNVM_CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {}
    NNVM_INITIALIZERS: ClassVar[dict[str, str]] = {}
    AMP: ClassVar[bool] = False

    if TYPE_CHECKING:
        ALIASES: ClassVar[tuple[str, ...]]
        ATTRIBUTES: ClassVar[dict[str, Attribute]]

        mutated: tuple[int, ...]

        @property
        def attrs(self) -> dict[str, Any]: ...

        @classmethod
        def bind(cls, **attrs: Any) -> Any: ...

        @classmethod
        def title(cls) -> str: ...

        def num_outputs(self) -> int: ...

    @classmethod
    def nnvm_name(cls) -> str:
        """The operator's name in nnvm's JSON."""
        if vars(cls).get("NNVM"):  # not inherited: a subclass is another operator
            return cls.NNVM
        spaced = next((a for a in cls.ALIASES if "." in a), "")
        return f"_{spaced.replace('.', '_')}" if spaced else cls.title()

    def to_nnvm(self) -> dict[str, Any]:
        """The attributes under MXNet's names; those that have their default value are left out."""
        found: dict[str, Any] = {}
        for name, value in self.attrs.items():
            declared, called = self.ATTRIBUTES[name], self.NNVM_ATTRIBUTES.get(name, name)
            is_written = name in self.NNVM_ALWAYS or not equal(value, declared.default)
            if called and is_written and not declared.doc.startswith("internal"):
                found[called] = value
        return found

    def spelled(self, given: Mapping[str, Any]) -> dict[str, str]:
        """The attributes that a call gave, under MXNet's names and as MXNet keeps them: the text of what was given.

        What a function gave under the name of an attribute that has another value is left out.
        """
        found: dict[str, str] = {}
        for name, value in given.items():
            declared, called = self.ATTRIBUTES.get(name), self.NNVM_ATTRIBUTES.get(name, name)
            if name == self.NNVM_COUNT:  # it is counted
                continue
            if declared is None and self._is_only_mxnets(name, value):
                found[name] = text(value)
            elif declared is not None and called and not declared.doc.startswith("internal"):
                bound = self.attrs[name]
                if declared.gives(value, bound):
                    found[called] = declared.spelled(value, text(bound)) if called == name else text(bound)
        return found

    @classmethod
    def takes_only_its_attributes(cls) -> bool:
        """Whether MXNet refuses further attributes; an operator without any passes over them."""
        return any(not declared.doc.startswith("internal") for declared in cls.ATTRIBUTES.values())

    @classmethod
    def _is_only_mxnets(cls, name: str, value: Any) -> bool:
        """Whether it is an attribute that only MXNet has, with a value that changes nothing."""
        if name == cls.NNVM_COUNT or name in cls.NNVM_ONLY:
            return True
        return bool(cls.NNVM_ONLY) and f"{name}={value}" in cls.NNVM_ONLY

    @classmethod
    def from_nnvm(cls, attrs: Mapping[str, str]) -> Any:
        """The operator with the attributes of a file, which are strings.

        As in MXNet, an operator without attributes passes over those that a file has.
        """
        if not cls.takes_only_its_attributes():
            return cls.bind()
        given: dict[str, Any] = {}
        ours = {theirs: name for name, theirs in cls.NNVM_ATTRIBUTES.items() if theirs}
        for called, value in attrs.items():
            name = ours.get(called, called)
            declared = cls.ATTRIBUTES.get(name)
            if declared is None and cls._is_only_mxnets(name, value):
                continue
            if declared is not None and value == "None" and not declared.optional and declared.default is not None:
                continue  # the default
            given[name] = value
        return cls.bind(**given)

    @classmethod
    def upgrade_nnvm(cls, attrs: Mapping[str, str], version: int) -> Mapping[str, str]:
        """The attributes of a file written by an earlier version of MXNet (800 is 0.8), converted to version 1."""
        return attrs

    @classmethod
    def nnvm_parameters(cls) -> tuple[str, ...] | None:
        """The attributes as MXNet registers them, in their order; None if they are those of the function here."""
        if cls.NNVM_PARAMETERS:
            return cls.NNVM_PARAMETERS
        declared = {n: a for n, a in cls.ATTRIBUTES.items() if not a.doc.startswith("internal")}
        if "ctx" not in cls.NNVM_ONLY or "dtype" not in declared:
            return None
        theirs = [cls.NNVM_ATTRIBUTES.get(n, n) for n in declared]
        theirs.insert(theirs.index("dtype"), "ctx")
        return tuple(theirs)

    def nnvm_outputs(self) -> int:
        """Its number of outputs there: with hidden ones, without the new values of mutated inputs."""
        return self.num_outputs() - len(self.mutated)

    def nnvm_title(self) -> str:
        """Its name there, if that depends on the attributes."""
        return self.nnvm_name()

    def nnvm_graphs(self, inputs: Sequence[str]) -> list[NestedGraph]:
        """Its nested graphs, given the names of its inputs."""
        return []

    def nnvm_places(self, orders: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Attributes that depend on the order in which the file lists the arguments of each nested graph."""
        return {}

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        """An equal expression of operators that MXNet has; None if MXNet has this one, or nothing equal.

        ``inputs`` are composed symbols, whose shapes are unknown, and scalars.
        """
        return None
