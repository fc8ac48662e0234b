"""Libraries that tests compile: each once for its content, in ``build/test-libraries``, for all workers and later runs.

Needs nothing of hybridc but its headers: MXNet's interpreter uses it, too, to make golden data.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
INCLUDE = ROOT / "hybridc" / "include"
EXAMPLES = ROOT / "examples" / "extensions"
FOLDER = ROOT / "build" / "test-libraries"
WARNINGS = "-Wall -Wextra -Wno-unused-parameter -pedantic -Werror"


@functools.cache
def library(source, *flags):
    """The path of the library made from a C++ file."""
    source = pathlib.Path(source)
    command = ["g++", "-std=c++11", "-O0", "-w", "-shared", "-fPIC", f"-I{INCLUDE}", *flags, str(source)]
    files = [source, *[pathlib.Path(flag) for flag in flags if flag.endswith(".cc")]]
    return _made(source.stem, command, files, lambda out: [*command, "-o", str(out)], None)


@functools.cache
def example(folder, target):
    """The path of the library that the Makefile of an example makes, without a warning."""
    place = EXAMPLES / folder
    command = ["make", "-s", target, f"INCLUDE={INCLUDE}", f"CXXFLAGS=-std=c++11 {WARNINGS}"]
    command += [f"CFLAGS=-std=c99 {WARNINGS}"]
    files = [f for f in sorted(place.iterdir()) if f.suffix in (".cc", ".c", ".h") or f.name == "Makefile"]
    return _made(target, command, files, lambda out: [*command, f"OUT={out.parent}"], place)


def _made(name, command, files, writing, cwd):
    """The library of this content; who comes second waits for the first."""
    key = hashlib.sha256("\0".join([*command, _compiler()]).encode())
    for path in [*files, *_headers()]:
        key.update(path.read_bytes())
    place = FOLDER / key.hexdigest()[:24]
    made = place / f"lib{name}.so"
    if made.exists():
        return str(made)
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=place) as folder:
                out = pathlib.Path(folder) / made.name
                subprocess.run(writing(out), cwd=cwd, check=True)
                os.replace(out, made)
    return str(made)


@functools.cache
def _headers():
    return [path for path in sorted(INCLUDE.rglob("*")) if path.is_file()]


@functools.cache
def _compiler():
    told = [subprocess.run([name, "--version"], capture_output=True, text=True, check=True) for name in ("g++", "cc")]
    return "".join(done.stdout for done in told)
