"""What the GPU check brings along: the pure-Python packages that hybridc needs, copied from where they are installed.

::

    .venv/bin/python benchmarks/gpu/bundle.py            # into build/gpu_check/site

The machine with the GPU has Python, NumPy, Triton and PyTorch, and nothing need be fetched there. SciPy and llvmlite
are not pure Python and stay behind: kernels for GPUs are made without them.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePath

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "gpu_check" / "site"
PACKAGES = ("xdsl",)
_BINARY = {".so", ".pyd", ".dll", ".dylib"}


def with_dependencies(names: tuple[str, ...]) -> list[Distribution]:
    """The installed packages of these names, and what they require but for extras."""
    found: dict[str, Distribution] = {}
    wanted = list(names)
    while wanted:
        name = wanted.pop().lower()
        if name in found:
            continue
        found[name] = distribution(name)
        required = [r for r in found[name].requires or () if "extra ==" not in r]
        wanted += [re.match(r"[\w.-]+", r)[0] for r in required]  # pyright: ignore[reportOptionalSubscript]
    return list(found.values())


def files_of(package: Distribution) -> Iterator[PurePath]:
    """What to copy of a package: what is called like it. (xDSL's brings folders besides, one of them `benchmarks`.)

    Raises:
        SystemExit: it holds machine code.
    """
    name = package.name.replace("-", "_").lower()
    for file in package.files or ():
        if file.suffix in _BINARY:
            raise SystemExit(f"{package.name} is not pure Python: it has {file}")
        if file.parts[0].lower().startswith(name) and "__pycache__" not in file.parts:
            yield file


def bundle(folder: Path) -> list[str]:
    """Copy the packages into a folder, made anew; their names and versions."""
    shutil.rmtree(folder, ignore_errors=True)
    packages = with_dependencies(PACKAGES)
    for package in packages:
        for file in files_of(package):
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(package.locate_file(file)), target)
    return sorted(f"{p.name} {p.version}" for p in packages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=SITE)
    folder = parser.parse_args().folder
    print(f"{folder}: {', '.join(bundle(folder))}")


if __name__ == "__main__":
    main()
