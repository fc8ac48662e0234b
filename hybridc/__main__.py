"""``python -m hybridc run program.py [arguments]``: a program that imports MXNet, with hybridc in its place.

``import mxnet`` and every module below it are hybridc's, in that process and in those that it starts. What follows
``run`` is what follows ``python``: a file, ``-m module`` or ``-c code``, with its arguments.

``python -m hybridc launch -n 4 program.py [arguments]`` does the same in several processes, the ranks of the program.

``python -m hybridc compile model --shapes data:1,3,224,224`` compiles a network in files before a program loads it.

``python -m hybridc convert net.params net.safetensors`` writes arrays in another format.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import hybridc.alias
import hybridc.launch.launcher
from hybridc.launch.launch_options import USAGE as LAUNCH_USAGE

_USAGE = "usage: python -m hybridc run (program.py | -m module | -c code) [arguments]"
_COMPILE = "usage: python -m hybridc compile model --shapes NAME:SIZES ... [--shapes ...] [options], see compile --help"
_CONVERT = "usage: python -m hybridc convert source [target] [--list] [--dtype TYPE] [options], see convert --help"
_ALL = f"{LAUNCH_USAGE}\n{_COMPILE}\n{_CONVERT}"


def main(arguments: list[str]) -> NoReturn:
    """Become Python with the program; the package ``mxnet`` is on its path, before an installed one."""
    if arguments[:1] == ["launch"]:
        hybridc.launch.launcher.main(arguments[1:])
    if arguments[:1] == ["compile"]:
        from hybridc.tools import compile_network

        sys.exit(compile_network.main(arguments[1:]))
    if arguments[:1] == ["convert"]:
        from hybridc.tools import convert_files

        sys.exit(convert_files.main(arguments[1:]))
    if arguments[:1] in (["-h"], ["--help"]):
        sys.exit(f"{__doc__}\n{_USAGE}\n{_ALL}")
    if len(arguments) < 2 or arguments[0] != "run":
        sys.exit(f"{_USAGE}\n{_ALL}")
    if sys.flags.ignore_environment:
        sys.exit("python -m hybridc run: started with -E or -I, Python does not look for mxnet where hybridc has it")
    path = [str(Path(hybridc.alias.__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    # What Python was started with, such as -W and -X, holds for the program, too.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    os.execv(sys.executable, [sys.executable, *flags, *arguments[1:]])


if __name__ == "__main__":
    main(sys.argv[1:])
