"""Tracebacks of errors that leave the library: the user's frames stay, those of hybridc are hidden.

A boundary is a function that users call: an operator, the call of a block, ``backward``. Each ends with::

    except Exception as error:
        hide_frames(error)
        raise

The bare ``raise`` adds no frame, so that the frame of the boundary is hidden, too. Where boundaries call each other
the outermost one hides; what catches an error inside sees all of its frames. ``HYBRIDC_TRACEBACK=full`` hides none.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import ParamSpec, TypeVar, cast

from hybridc.errors import InternalError, VerifyError
from hybridc.ground.location import FUNCTION_FILE, is_dependency, is_users
from hybridc.options import OPTIONS

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])

_SWITCH = "HYBRIDC_TRACEBACK=full shows them)"
_KEY = "_hybridc_frames"
# Errors of the compiler, whose frames are to be reported, and the end of an iteration, which is no error.
_WITH_ALL_FRAMES = (VerifyError, InternalError, StopIteration)
# The code of the functions that are boundaries; those that are generated are known by their file.
_BOUNDARIES: set[CodeType] = set()


class _Frames:
    """What was hidden of an error: its whole traceback, the part that is shown, and how many frames are not."""

    def __init__(self, whole: TracebackType | None = None, shown: TracebackType | None = None, hidden: int = 0) -> None:
        self.whole, self.shown, self.hidden = whole, shown, hidden

    def __reduce__(self) -> tuple[type, tuple[()]]:
        # A traceback cannot be pickled; an error that has one can, as every error does between processes.
        return tuple, ()


def boundary(function: F) -> F:
    """Mark a function that hides frames itself, by the lines above; its calls cost what they did."""
    code: CodeType = function.__code__  # pyright: ignore[reportFunctionMemberAccess]  (it is a Python function)
    _BOUNDARIES.add(code)
    return function


def hides_frames(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function a boundary, by a call around it: for what takes longer than a microsecond."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    return boundary(call)


def hide_frames(error: Exception) -> None:
    """Hide the frames of hybridc in an error's traceback and in those of its causes; a note says how many.

    Called by a boundary, in its ``except``.
    """
    if OPTIONS.traceback == "full" or isinstance(error, _WITH_ALL_FRAMES) or _is_inside(sys._getframe(2)):
        return
    hidden = _shorten(error) + _shorten_causes(error)
    if hidden:
        frames, them = ("frame", "is") if hidden == 1 else ("frames", "are")
        with contextlib.suppress(Exception):  # a user's class may refuse notes
            error.__notes__ = [*own_notes(error), f"({hidden} {frames} of hybridc {them} hidden; {_SWITCH}"]


def full_traceback(error: BaseException) -> TracebackType | None:
    """The traceback of an error with the frames of hybridc, for ``pdb.post_mortem`` and ``traceback.print_tb``.

    The frames that are above the call into hybridc are those of ``error.__traceback__`` now.
    """
    frames = _frames(error)
    above, after = _split(error.__traceback__, frames.shown)
    return _joined(above, frames.whole) if frames.whole is not None and after is frames.shown else error.__traceback__


def own_notes(error: BaseException) -> list[str]:
    """The notes of an error but that of the hidden frames."""
    notes: list[str] = getattr(error, "__notes__", [])
    return [n for n in notes if not str(n).endswith(_SWITCH)]


def _is_inside(frame: FrameType | None) -> bool:
    """Whether a boundary is among the frames that called this one."""
    while frame is not None:
        code = frame.f_code
        if code in _BOUNDARIES or code.co_filename.startswith(FUNCTION_FILE):
            return True
        frame = frame.f_back
    return False


def _frames(error: BaseException) -> _Frames:
    found = vars(error).get(_KEY)
    return found if isinstance(found, _Frames) else _Frames()


def _split(trace: TracebackType | None, end: TracebackType | None) -> tuple[list[TracebackType], TracebackType | None]:
    """The entries of a traceback in front of another one, and what follows: that one, or None if it is not there."""
    entries: list[TracebackType] = []
    while trace is not None and trace is not end:
        entries.append(trace)
        trace = trace.tb_next
    return entries, trace


def _joined(entries: list[TracebackType], rest: TracebackType | None) -> TracebackType | None:
    """Copies of entries in front of a traceback."""
    for entry in reversed(entries):
        line = cast("int | None", entry.tb_lineno)  # None where code has no lines
        rest = TracebackType(
            rest, entry.tb_frame, entry.tb_lasti, entry.tb_frame.f_lineno or 0 if line is None else line
        )
    return rest


def _shorten(error: BaseException) -> int:
    """Hide frames of one error; the number of those that are hidden in all."""
    before = _frames(error)
    entries, after = _split(error.__traceback__, before.shown)
    if after is not before.shown:  # another traceback was set since
        before = _Frames()
    shown: list[TracebackType] = []
    is_hidden = False
    for entry in entries:
        file = entry.tb_frame.f_code.co_filename
        if not is_dependency(file):  # what NumPy does is hidden where hybridc called it
            is_hidden = _is_ours(file)
        if not is_hidden:
            shown.append(entry)
    hidden = before.hidden + len(entries) - len(shown)
    if len(shown) < len(entries):
        frames = _Frames(_joined(entries, before.whole), _joined(shown, before.shown), hidden)
        error.with_traceback(frames.shown)  # past the __setattr__ that a user's class may have
        vars(error)[_KEY] = frames
    return hidden


def _is_ours(file: str) -> bool:
    """Whether a frame's file is hybridc's, or generated by it."""
    return not is_users(file) or file.startswith("<hybridc ")


def _shorten_causes(error: BaseException) -> int:
    """Hide frames in what is shown as causes; leave out those that say nothing of the user's own code.

    Where hybridc words an error anew, the first one has the same lines of the user's, or none. It stays the
    ``__context__``.
    """
    hidden, seen = 0, {id(error)}
    cause = _shown_cause(error)
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        hidden += _shorten(cause)
        following = _shown_cause(cause)
        # One that was never raised was made for its text.
        was_raised = cause.__traceback__ is not None or _frames(cause).whole is not None
        if was_raised and _is_raised_by_us(error) and _shown(cause) <= _shown(error):
            context = error.__context__
            error.__cause__ = following  # None: nothing is shown before the error
            error.__context__ = cause if context is None else context
        else:
            error = cause
        cause = following
    return hidden


def _shown_cause(error: BaseException) -> BaseException | None:
    """What Python prints before an error."""
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _shown(error: BaseException) -> set[tuple[CodeType, int]]:
    """The lines in the traceback of an error."""
    return {(entry.tb_frame.f_code, entry.tb_lineno) for entry in _split(error.__traceback__, None)[0]}


def _is_raised_by_us(error: BaseException) -> bool:
    """Whether the innermost frame of an error, hidden or not, is ours."""
    entries = _split(_frames(error).whole or error.__traceback__, None)[0]
    return bool(entries) and _is_ours(entries[-1].tb_frame.f_code.co_filename)
