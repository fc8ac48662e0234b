"""A check: a name, the cases it runs on, and a function that raises if it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybridc.ground.records import dataclass
from hybridc.tools.check_op.case import Cases


@dataclass(frozen=True)
class Check:
    """One property that an operator must have.

    ``cases`` finds what it runs on for an operator class (nothing, if it does not concern the class); calling the check
    with a case raises if it does not hold, and may return a remark.
    """

    name: str
    cases: Cases
    run: Callable[[Any], str | None]

    def __call__(self, case: Any) -> str | None:
        """Raise unless the check holds for this case."""
        return self.run(case)


def check(cases: Cases) -> Callable[[Callable[[Any], str | None]], Check]:
    """Decorator: the function is the check of its name."""

    def made(function: Callable[[Any], str | None]) -> Check:
        return Check(function.__name__.replace("_", " "), cases, function)

    return made
