"""Checks of an operator: ``python -m hybridc.tools.check_op mylib.swish --module my_ops.py``.

The operator's ``samples`` (with their independent NumPy references) and ``bad_samples`` are all that is needed. Every
line printed is one check: ``ok``, or what was found, in which sample, and what was expected. The tests of the built-in
operators are these checks.
"""

from __future__ import annotations

from hybridc.tools.check_op.check_report import CHECKS, Finding, check_op, find, print_checks
from hybridc.tools.check_op.checks import Check

__all__ = ["CHECKS", "Check", "Finding", "check_op", "find", "print_checks"]
