"""ONNX's own tests of backends, run by their runner: ``python -m hybridc.tools.onnx_suite [--hybridize]``.

It prints how many tests of each kind pass, and those that do not with the reason.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import argparse
import re
import unittest
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.backend.test.runner import Runner

from hybridc.ground.records import dataclass
from hybridc.onnx.backend import HybridcBackend
from hybridc.random import seed

#: The kinds of tests; another one, Real, downloads models.
KINDS = ("Node", "Simple", "PyTorchConverted", "PyTorchOperator")

# Reasons why a test does not pass, by what its error says.
_REASONS = (
    ("must be known when the graph is compiled", "sizes follow from values, when compiled"),
    ("does not compute in", "a dtype that hybridc does not have"),
    ("cannot be compiled", "a dtype that hybridc does not compile"),
    ("has no rule for", "an operator that hybridc does not have"),
    ("Mismatched elements", "other numbers"),
    ("incorrect shape", "another shape"),
)


class CompiledBackend(HybridcBackend):
    """The backend whose models are hybridized."""

    HYBRIDIZES = True


@dataclass(frozen=True)
class Outcome:
    """The result of one test: its kind and name, and what its error says, or None."""

    kind: str
    name: str
    error: str | None

    @property
    def reason(self) -> str:
        """Why it does not pass, in a few words."""
        text = self.error or ""
        return next((reason for part, reason in _REASONS if part in text), "an error")


class _Collector(unittest.TestResult):
    """Notes the errors of tests."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.texts[test.id()] = f"skipped: {reason}"

    def _note(self, test: unittest.TestCase, err: Any) -> None:
        self.texts[test.id()] = f"{err[0].__name__}: {err[1]}"


def outcomes(hybridize: bool, include: str = "", every: int = 1, kinds: Sequence[str] = KINDS) -> list[Outcome]:
    """The results of the tests whose names match, or of every n-th of them."""
    runner = Runner(CompiledBackend if hybridize else HybridcBackend, __name__)
    found: list[Outcome] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for kind in kinds:
            case = runner.test_cases[f"OnnxBackend{kind}ModelTest"]
            names = [n for n in unittest.defaultTestLoader.getTestCaseNames(case) if n.endswith("_cpu")]
            for name in [n for n in names if re.search(include, n)][::every]:
                seed(0)  # so that a test of random numbers passes always or never
                collector = _Collector()
                test = case(name)
                test.run(collector)
                found.append(Outcome(kind, name, collector.texts.get(test.id())))
    return found


def table(found: Sequence[Outcome]) -> str:
    """Counts by kind, and those that do not pass by reason."""
    lines: list[str] = []
    for kind in dict.fromkeys(x.kind for x in found):
        of_kind = [x for x in found if x.kind == kind]
        lines.append(f"{kind}: {sum(x.error is None for x in of_kind)} of {len(of_kind)} pass")
    reasons = Counter(x.reason for x in found if x.error is not None)
    lines += [f"  {count:5} {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def main() -> None:
    """Run the tests and print what passes."""
    parser = argparse.ArgumentParser(prog="python -m hybridc.tools.onnx_suite", description=__doc__)
    parser.add_argument("--hybridize", action="store_true", help="compile the models")
    parser.add_argument("--include", default="", help="a regular expression of names")
    parser.add_argument("--every", type=int, default=1, help="run only every n-th test")
    parser.add_argument("--list", action="store_true", help="print each test that does not pass")
    args = parser.parse_args()
    found = outcomes(args.hybridize, args.include, args.every)
    for x in found if args.list else ():
        if x.error is not None:
            print(f"{x.name.removesuffix('_cpu')}: {x.reason}: {' '.join(x.error.split())[:300]}")
    print(table(found))


if __name__ == "__main__":
    main()
