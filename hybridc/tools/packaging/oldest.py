"""Print the oldest releases that hybridc takes, as requirements of pip: ``make test-versions`` installs them.

They are those that the lower bounds in ``pyproject.toml`` name: of ``numpy>=2.0`` it is ``numpy==2.0``, which is 2.0.0.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def oldest(dependencies: Iterable[str]) -> list[str]:
    """Requirements of the oldest releases that satisfy these; of those without a lower bound there is none."""
    found = [re.match(r"([\w-]+)>=([\d.]+)", dependency) for dependency in dependencies]
    return [f"{match[1]}=={match[2]}" for match in found if match]


if __name__ == "__main__":
    with (ROOT / "pyproject.toml").open("rb") as file:
        print(*oldest(tomllib.load(file)["project"]["dependencies"]))
