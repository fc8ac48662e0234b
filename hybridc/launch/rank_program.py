"""What a rank does: start MPI, so that its end is noticed from now on, and run the program as ``__main__``."""

from __future__ import annotations

import io
import os
import runpy
import sys
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from hybridc.communication import world
from hybridc.ground.compiler_output import say

#: How far a rank is with its start; what it reports. MPI starts in all ranks or in none.
STAGES = ("python", "mpi", "program")


def run(program: list[str], say: int) -> None:
    """Run what follows ``python`` in a command: a file, or ``-m`` and a module, with arguments.

    Into the descriptor ``say`` go the stages that are reached.
    """
    if world.is_launched():
        world.load_mpi()
    os.write(say, b"mpi\n")
    world.communicator()
    os.write(say, b"program\n")
    os.close(say)
    try:
        _run(program)
    except SystemExit as error:
        if error.code not in (None, 0):
            _exit(error)
        raise
    except BaseException as error:
        # Without the frames of this file, through whatever hook the program has.
        error.__traceback__ = _of_program(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        world.end_failed(1, error)


def _exit(error: SystemExit) -> None:
    """End with a status that is a failure, which the others have to know."""
    status = error.code
    if not isinstance(status, int):
        say(str(status))
        status = 1
    status &= 0xFF  # what the system keeps
    world.end_failed(status, f"ended with exit status {status}")


def _run(program: list[str]) -> None:
    if program[0] == "-m":
        sys.argv = program[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = program
    path = Path(program[0])
    if path.is_dir() or path.suffix in (".pyz", ".zip"):
        runpy.run_path(program[0], run_name="__main__")
        return
    sys.path.insert(0, str(path.resolve().parent))
    main = ModuleType("__main__")
    main.__file__ = program[0]
    sys.modules["__main__"] = main
    exec(compiled(program[0]), main.__dict__)


def compiled(path: str) -> CodeType:
    """The code of a file, in the encoding that it names."""
    with io.open_code(os.path.abspath(path)) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins in the program."""
    ours = (__file__, runpy.__file__)
    while trace is not None and (
        trace.tb_frame.f_code.co_filename in ours or trace.tb_frame.f_code.co_filename.startswith("<frozen runpy")
    ):
        trace = trace.tb_next
    return trace
