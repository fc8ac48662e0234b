"""Error context: errors in a user operator's methods name the operator, the method and the user's line."""

from __future__ import annotations

import contextlib
import inspect
import re
import traceback
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hybridc.dialects.operator_registry import Attached
from hybridc.errors import CustomOpError, MXNetError
from hybridc.ground.display.tracebacks import own_notes
from hybridc.ground.location import is_dependency, is_users
from hybridc.ground.state import STATE

if TYPE_CHECKING:
    from hybridc.dialects.operator import Operator

_PACKAGE = str(Path(__file__).resolve().parents[1]) + "/"
_LOCATED = re.compile(r"[^:\n]*:\d+( \(in [^)]*\))?: ")  # a location as Location prints it
# The arguments of each method, as text.
_CALLED = {
    "eager": "an array for each input",
    "eager_out": "a list of arrays for the results, and an array for each input",
    "scalar": "the builder and a value for each input",
    "decompose": "F and each input",
    "gradient": "F, the gradient of each visible output, each input and each output",
    "infer_shape": "a list of the inputs' shapes",
    "infer_type": "a list of the inputs' dtypes",
    "kernel": "the target, and lists of the inputs and the results as ArraySpec",
}


def user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of an error that are neither ours nor of libraries that we use, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f for f in frames if is_users(f.filename) and not (f.filename.startswith("<") or is_dependency(f.filename))]


def user_line(error: BaseException) -> str:
    """The innermost line of the user's own files, or of what the user installed."""
    frames = user_frames(error)
    own = [f for f in frames if "site-packages" not in f.filename] or frames
    if not own:
        return "in no file of yours"
    return f"{own[-1].filename}:{own[-1].lineno} in {own[-1].name}"


def defined(op: Operator, method: str) -> str:
    """The location of a user's method: `` (my_ops.py:12)``; empty for our own."""
    code: Any = getattr(getattr(type(op), method), "__code__", None)
    if code is None or code.co_filename.startswith(_PACKAGE):
        return ""
    return f" ({code.co_filename}:{code.co_firstlineno})"


def raise_in_context(op: Operator, method: str, error: Exception, *args: Any) -> None:
    """Raise :class:`CustomOpError` from an error in a user's method; return if the error is not the user's.

    An MXNetError keeps its type and gets a note. ``args`` are the method's arguments, to explain a wrong
    signature.
    """
    frames = user_frames(error)
    if not frames:
        _raise_about_signature(op, method, error, args)
        return
    raised_in = frames[0].name if hasattr(op, frames[0].name) else _attached(op, error, method)
    where = f"operator {op.NAME}: {raised_in}"
    if not isinstance(error, MXNetError):
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, ValueError) and "read-only" in str(error):
            said += "; an operator must not change its inputs, so work on a copy: x = x.copy()"
        raise CustomOpError(f"{where} raised {said} ({user_line(error)})") from error
    if not isinstance(error, CustomOpError) and not own_notes(error):
        error.add_note(f"raised in {where}, {user_line(error)}")


def located(error: MXNetError, where: object) -> MXNetError:
    """The error with the user's line before its text, unless it has one or none is known."""
    text = str(error)
    # A line at the end is the operator's author's; one before the message is the network's.
    if not where or _LOCATED.match(text):
        return error
    return error.restated(f"{where}: {text}").with_traceback(error.__traceback__)


def raise_located(error: MXNetError, where: object) -> NoReturn:
    """Raise :func:`located`, with the cause of the error."""
    located_error = located(error, where)
    raise located_error from located_error.__cause__


def pair(op: Operator, method: str, answer: Any, inputs: int) -> tuple[list[Any], list[Any]]:
    """The two lists that ``infer_shape`` or ``infer_type`` returned, or an error that says what it should return."""
    try:
        ins, outs = answer
        if (len(ins), len(outs)) == (inputs, op.results):
            return ins, outs
    except (TypeError, ValueError):
        pass
    raise CustomOpError(
        f"operator {op.NAME}: {method} returned {answer!r}; it returns two lists, for {inputs} "
        f"input{'s' * (inputs != 1)} and {op.results} result{'s' * (op.results != 1)}{defined(op, method)}"
    )


def _attached(op: Operator, error: BaseException, method: str) -> str:
    """The key under which a function was attached: FInferShape, FCompute<cpu>, …"""
    names = {frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)}
    methods = {key: Attached.METHODS[key] for key in Attached.of(type(op)) if key in Attached.METHODS}
    inside = [key for key, found in methods.items() if names & set(found)]
    # FInferShape is called inside of eager, too: then it is the innermost one.
    return min(inside, key=lambda key: "eager" in methods[key]) if inside else method


def _raise_about_signature(op: Operator, method: str, error: Exception, args: Sequence[Any]) -> None:
    """Raise if a method's signature does not accept its arguments; such a call has no frame of its own."""
    if method == "eager" and not defined(op, "eager"):  # ours, which calls the user's scalar body
        method, args = "scalar", (None, *args)
    function: Any = getattr(op, method, None)
    if not isinstance(error, TypeError) or function is None or not defined(op, method):
        return
    try:
        inspect.signature(function).bind(*args)
    except TypeError:
        takes = str(inspect.signature(getattr(type(op), method)))
        raise CustomOpError(
            f"operator {op.NAME}: {method}{takes} is called with {_CALLED.get(method, 'other arguments')}, "
            f"{len(args)} arguments after self{defined(op, method)}"
        ) from error


@contextlib.contextmanager
def user_code(where: str, training: bool | None = None, takes: str = "") -> Generator[None]:
    """A context manager for a user's method: no recording, no tracing; errors get operator and line as context.

    ``takes`` names the arguments that it is called with, for a method that has others.
    """
    before = STATE.recording, STATE.training, STATE.trace
    STATE.recording, STATE.trace = False, None
    if training is not None:
        STATE.training = training
    try:
        yield
    except MXNetError as error:
        error.add_note(f"raised in {where}, {user_line(error)}")
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        if isinstance(error, ValueError) and "read-only" in str(error):
            what += "; an operator must not change its inputs, so work on a copy: x.copy()"
        if takes and isinstance(error, TypeError) and not user_frames(error):
            raise CustomOpError(f"{where} must take these arguments by name: {takes} ({error})") from error
        raise CustomOpError(f"{where} raised {what} ({user_line(error)})") from error
    finally:
        STATE.recording, STATE.training, STATE.trace = before
