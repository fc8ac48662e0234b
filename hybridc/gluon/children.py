"""The children of a block, a dict whose changes are noticed; the class of blocks, its docstrings; nested calls."""

from __future__ import annotations

import functools
import sys
import threading
from abc import ABCMeta
from typing import TYPE_CHECKING, Any

from hybridc.gluon.epoch import ATTRIBUTE_EPOCH

_INDENT = "" if sys.version_info >= (3, 13) else "    "  # of docstrings: newer compilers strip it
_PARAMETERS = f"\n{_INDENT}Parameters\n{_INDENT}----------\n"
_EXAMPLES = f"\n{_INDENT}Examples\n"


class Children(dict[str, Any]):
    """The children of a block by name; a change invalidates compiled graphs."""

    def __setitem__(self, name: str, block: Any) -> None:
        ATTRIBUTE_EPOCH.value += 1
        super().__setitem__(name, block)

    def __delitem__(self, name: str) -> None:
        ATTRIBUTE_EPOCH.value += 1
        super().__delitem__(name)

    def pop(self, *args: Any) -> Any:
        """As of a dict."""
        ATTRIBUTE_EPOCH.value += 1
        return super().pop(*args)

    def popitem(self) -> tuple[str, Any]:
        """As of a dict."""
        ATTRIBUTE_EPOCH.value += 1
        return super().popitem()

    def clear(self) -> None:
        """As of a dict."""
        ATTRIBUTE_EPOCH.value += 1
        super().clear()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As of a dict."""
        ATTRIBUTE_EPOCH.value += 1
        super().update(*args, **kwargs)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """As of a dict."""
        ATTRIBUTE_EPOCH.value += 1
        return super().setdefault(name, default)


class BlockType(ABCMeta):
    """The class of blocks' classes: it notices that a method or an attribute of one is replaced.

    A metaclass of a user's own for blocks derives from ``type(HybridBlock)``.
    """

    def __setattr__(cls, name: str, value: Any) -> None:
        ATTRIBUTE_EPOCH.value += 1
        super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        ATTRIBUTE_EPOCH.value += 1
        super().__delattr__(name)

    # Nobody registers other classes as blocks, and so asking whether a class is one stays cheap.
    if not TYPE_CHECKING:
        __instancecheck__ = type.__instancecheck__
        __subclasscheck__ = type.__subclasscheck__


class BlockRoot(metaclass=BlockType):
    """Base of every Block, for modules that are imported before it."""

    _children: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("hybridc."):
            describe_parameters(cls, without=("prefix", "params"))  # which all blocks have


def describe_parameters(cls: type[Any], without: tuple[str, ...] = ()) -> None:
    """Put what the docstrings of bases say of a class's parameters into its own, before its examples.

    ``help`` shows a class's docstring alone.
    """
    own: str | None = vars(cls).get("__doc__")
    code = getattr(cls.__init__, "__code__", None)
    if own is None or code is None:
        return
    inherited: dict[str, str] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited |= _described(vars(base).get("__doc__") or "")
    said = _described(own)
    known = {name: lines for name, lines in inherited.items() if name not in without} | said
    names = [*code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount], *said]
    sections = "".join(known[name] for name in dict.fromkeys(names) if name in known)
    if sections:
        text, mark, examples = own.partition(_EXAMPLES)
        text = text.partition(_PARAMETERS)[0].rstrip()
        cls.__doc__ = f"{text}\n{_PARAMETERS}{sections}{mark}{examples}"


@functools.cache
def _described(doc: str) -> dict[str, str]:
    """The lines of each parameter in a docstring."""
    body = doc.partition(_PARAMETERS)[2].partition(_EXAMPLES)[0].rstrip()
    found: dict[str, str] = {}
    names: list[str] = []
    for line in body.splitlines():
        if line[len(_INDENT) :][:1].strip():
            together, colon, kind = line.partition(":")
            names = [name.strip() for name in together.split(",")]
            found |= {name: f"{_INDENT}{name}{' ' * together.endswith(' ')}{colon}{kind}\n" for name in names}
        else:
            found |= {name: f"{found[name]}{line}\n" for name in names}
    return found


# Frames that a call of a block nested in another takes: ``__call__``, ``forward``, ``hybrid_forward``, what it calls.
_FRAMES = 6
# Calls of blocks take 0.4 KiB of the thread's stack a frame, others up to 0.7: so many frames fit into 8 MiB.
_MOST = 10_000
_LOCK = threading.Lock()


def allow_nested(levels: int) -> None:
    """Let calls of so many nested blocks not meet the recursion limit: a third of it stays for others.

    The limit is raised when a deep network is built and stays: to lower it again would race with other threads, and a
    network of less than some hundred levels leaves it alone.
    """
    wanted = min(_MOST, _FRAMES * levels * 3 // 2)
    if wanted <= sys.getrecursionlimit():
        return
    with _LOCK:
        sys.setrecursionlimit(max(wanted, sys.getrecursionlimit()))
