"""Checks of an operator class as such: what it must have before it is called."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hybridc.array.dispatch import invoke
from hybridc.array.functions import function as made
from hybridc.array.ndarray import NDArray
from hybridc.dialects import operator as registration
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import REQUIRED
from hybridc.errors import MXNetError
from hybridc.tools.check_op.case import Case, each_bad, each_class, each_sample, fail, require
from hybridc.tools.check_op.checks import check


@check(each_class)
def name(cls: type[Operator]) -> None:
    """The name in the IR."""
    require(
        re.fullmatch(registration.NAME, cls.NAME) is not None,
        f"the operator's name is {cls.NAME!r}; it must be dialect.name in lower case",
    )


@check(each_class)
def docstring(cls: type[Operator]) -> None:
    """The first line says what is computed."""
    first = (cls.__dict__.get("__doc__") or "").strip().partition("\n")[0]
    require(bool(first), "the class has no docstring; its first line is the operator's meaning")
    require(len(first) <= 110, f"the docstring's first line has {len(first)} characters; at most 110 are shown well")


@check(each_class)
def attributes_are_documented(cls: type[Operator]) -> None:
    """Every attribute says what it is."""
    for attribute, declared in cls.ATTRIBUTES.items():
        require(bool(declared.doc), f"attribute {attribute} has no doc; give it: attribute(…, doc='…')")


@check(each_class)
def what_its_kind_needs(cls: type[Operator]) -> None:
    """Exactly one kind says what the compiler sees, and the methods that it leaves to its classes are there."""
    found = registration.kinds(cls)
    require(len(found) == 1, f"the class is of {len(found)} kinds, {found}")
    lacks = registration.missing(cls)
    if lacks is not None:
        raise fail(f"the class has no {lacks[0]}; write {lacks[1]}")


@check(each_class)
def function(cls: type[Operator]) -> None:
    """There is a function, and it has a docstring."""
    for each in (cls.NAME.partition(".")[2], *cls.ALIASES):
        require(bool(made(each).__doc__), f"mx.nd.{each} has no docstring")


@check(each_class)
def samples(cls: type[Operator]) -> None:
    """There is something to check."""
    require(
        bool(cls.samples()),
        "samples() gives no good call, so that its values cannot be checked; return "
        "[Sample([(3, 5)], lambda x: …)], with a NumPy reference written independently of the operator",
    )


@check(each_sample)
def attributes_as_strings(case: Case) -> None:
    """Attributes may be given as strings, as in saved graphs: they mean the same."""
    op = case.unbound()
    given: dict[str, Any] = {}
    for key, value in op.attrs.items():
        declared = op.ATTRIBUTES[key]
        textual = declared.kind != "object" and (value is not None or declared.optional)
        given[key] = str(value) if textual and value is not REQUIRED else value
    again = op.bind(**given)
    for key, value in op.attrs.items():
        if repr(again.attrs[key]) != repr(value):
            raise fail(f"attribute {key}: {given[key]!r} is read as {again.attrs[key]!r}, expected {value!r}")


@check(each_bad)
def error_text(case: Any) -> None:
    """Each bad call raises, with exactly the text it documents."""
    cls, (inputs, attrs, text) = case
    arrays: list[Any] = [x if hasattr(x, "dtype") else np.zeros(x, "float32") for x in inputs]
    try:
        invoke(cls.bind(**attrs), [NDArray(x) for x in arrays])
    except MXNetError as error:
        if str(error) != text:
            raise fail(f"the error says\n    {error}\n  expected\n    {text}") from error
        return
    raise fail(f"no error was raised; expected\n    {text}")
