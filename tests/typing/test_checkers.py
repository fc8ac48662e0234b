"""What type checkers make of a user's program: no error where there is none, and each mistake found.

The sources are checked here, the wheel in ``tests/test_wheel.py``.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.typing.checkers import HERE, assert_finds, found


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_program_is_right_and_mistakes_are_found(checker, tmp_path):
    pytest.importorskip(checker, reason=f"{checker} is not installed")
    assert_finds(found(checker, tmp_path, tree=HERE.parents[1]))


# ``assert_type`` is for checkers; here it looks, too.
RUN = """
import runpy, sys, typing

def assert_type(value, wanted):
    assert isinstance(value, typing.get_origin(wanted) or wanted), (type(value), wanted)
    for each, part in zip(value, typing.get_args(wanted)) if isinstance(value, (list, tuple)) else ():
        assert isinstance(each, part), (type(each), wanted)

typing.assert_type = assert_type
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_the_types_that_checkers_are_told_are_those_that_there_are():
    command = [sys.executable, "-c", RUN, str(HERE / "user_program.py")]
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "accuracy: " in done.stdout
