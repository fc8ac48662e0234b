"""mypy and pyright on the files of this folder, copied where no configuration of the project holds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FILES = ("user_program.py", "mistakes.py")


def expected():
    """The lines in which a mistake is to be found, as ``mistakes.py:23``."""
    return {
        f"{name}:{i}"
        for name in FILES
        for i, line in enumerate((HERE / name).read_text().splitlines(), 1)
        if line.endswith("# error")
    }


def found(checker, folder, python=sys.executable, tree=None):
    """What a checker finds, strictly: its messages by ``file:line``.

    hybridc is what is installed for the interpreter ``python``, or the sources in ``tree``.
    """
    for name in FILES:
        shutil.copy(HERE / name, folder / name)
    return {"mypy": _by_mypy, "pyright": _by_pyright}[checker](folder, str(python), tree)


def _by_mypy(folder, python, tree):
    env = {**os.environ, **({} if tree is None else {"MYPYPATH": str(tree)})}
    options = [
        "--strict",
        "--follow-imports",
        "silent",
        "--config-file",
        os.devnull,
        "--cache-dir",
        str(folder / "cache"),
    ]
    command = [sys.executable, "-m", "mypy", *options, "--python-executable", python, *FILES]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    lines = re.findall(r"^([\w.]+:\d+): error: (.*)$", done.stdout, re.MULTILINE)
    return dict(reversed(lines))


def _by_pyright(folder, python, tree):
    settings = {"include": [*FILES], "typeCheckingMode": "strict", "extraPaths": [] if tree is None else [str(tree)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", python]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    errors = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    return {f"{Path(e['file']).name}:{e['range']['start']['line'] + 1}": e["message"] for e in reversed(errors)}


def assert_finds(messages):
    """Each mistake is found, and nothing else."""
    wrong = {place: messages[place] for place in sorted(messages.keys() - expected())}
    assert not wrong, wrong
    assert not (missed := sorted(expected() - messages.keys())), missed
