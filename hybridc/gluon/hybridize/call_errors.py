"""Errors for blocks that are made or called with other arguments than they take: what is wrong, and how to write it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from hybridc.errors import ArgumentTypeError
from hybridc.ground.absent import habit
from hybridc.ground.location import is_users


def unknown_arguments(cls: type, names: Iterable[str]) -> ArgumentTypeError:
    """That a block's class takes no argument of the first name, and which one may be meant."""
    name = next(iter(names))
    cls = next(filter(_passes_on, cls.__mro__), cls)  # a class in front of it gave the argument
    known = _taken(cls)
    text = f"{cls.__name__} has no argument {name!r}"
    meant = _meant(name, known)
    if meant:
        return ArgumentTypeError(f"{text}; {meant}")
    return ArgumentTypeError(f"{text}; it takes {', '.join(known)}" if known else text)


def _passes_on(cls: type) -> bool:
    """Whether a class passes arguments on to its bases that it does not name."""
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(cls.__init__).parameters.values())


def _taken(cls: type) -> list[str]:
    """The names of a class's arguments, those that it passes on to its bases included."""
    names: dict[str, None] = {}
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
        names |= {p.name: None for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return list(names)


def _meant(name: str, known: Iterable[str]) -> str:
    """What may be meant by a name: what another library calls so, or a similar one of these."""
    here = habit("arguments of layers", name)
    if here is not None and here.split()[0].rstrip(",") in known:
        return f"here that is {here}"
    if name in ("input_shape", "input_dim", "batch_input_shape"):
        return "sizes of inputs follow from the first call"
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else ""


def explain_call(
    block: Any, method: str, first: tuple[Any, ...], inputs: tuple[Any, ...], own: Mapping[str, Any], error: TypeError
) -> None:
    """Raise what says more than a TypeError of a call of a block's ``forward`` or ``hybrid_forward``.

    Return, if the method takes the arguments of the call: then the error is of the method's body. ``first`` is ``F``,
    where the method gets it; ``own`` are the block's parameters.
    """
    try:
        signature = inspect.signature(getattr(block, method))
    except (TypeError, ValueError):  # it has none
        return
    if not _binds(signature, (*first, *inputs), own):
        text = f"{type(block).__name__}: {_wrong(method, signature, first, inputs, own)}"
        raise ArgumentTypeError(text + _defined(block, method)) from error


def _defined(block: object, method: str) -> str:
    """Where a block's method begins in a file of the user's: `` (net.py:12)``."""
    code: Any = getattr(getattr(block, method), "__code__", None)
    return "" if code is None or not is_users(code.co_filename) else f" ({code.co_filename}:{code.co_firstlineno})"


def _wrong(
    method: str,
    signature: inspect.Signature,
    first: tuple[Any, ...],
    inputs: tuple[Any, ...],
    own: Mapping[str, Any],
) -> str:
    """What is wrong with the arguments of a call."""
    parameters = list(signature.parameters.values())
    names = [p.name for p in parameters]
    shown = f"{method}({', '.join(['self', *(str(p).split(':')[0] for p in parameters)])})"
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if first and "F" not in names and _binds(signature, inputs, own):
        return f"{shown} lacks F, its first argument; write {method}(self, F, {', '.join(names)})"
    if not first and names[:1] == ["F"]:
        return f"{shown}: forward gets no F, hybrid_forward does; call it hybrid_forward, or leave F out and use mx.nd"
    unknown = [n for n in own if n not in names and not takes_any]
    if unknown:
        wanted = ", ".join(["self", *names, *unknown])
        return f"the block has the parameter {unknown[0]!r}, which {shown} does not take; write {method}({wanted})"
    positional = [p for p in parameters[len(first) :] if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    wanted_inputs = [p.name for p in positional if p.name not in own]
    needed = [p.name for p in positional if p.default is p.empty and p.name not in own]
    got = f"the call gives {len(inputs)} input{'s' * (len(inputs) != 1)}"
    if len(inputs) < len(needed):
        missing = ", ".join(repr(n) for n in needed[len(inputs) :])
        return f"{got}, but {shown} needs {', '.join(needed)}: {missing} is missing"
    takes = f"takes {', '.join(wanted_inputs)} alone" if wanted_inputs else "takes none"
    return f"{got}, but {shown} {takes}"


def _binds(signature: inspect.Signature, inputs: tuple[Any, ...], own: Mapping[str, Any]) -> bool:
    try:
        signature.bind(*inputs, **own)
    except TypeError:
        return False
    return True


def returned_nothing(block: Any, method: str) -> str:
    """That a block's forward gave None."""
    return f"{type(block).__name__}: {method} returned None; is its last line to be a return?{_defined(block, method)}"


def by_keyword(block: Any, keywords: Iterable[str]) -> ArgumentTypeError:
    """That a block was called with an input by its name."""
    name = next(iter(keywords))
    return ArgumentTypeError(
        f"{type(block).__name__}: blocks take inputs by position alone, got {name!r} by its name; write "
        f"net({name}) in place of net({name}={name}), and give options where the block is made"
    )
