"""The command: ``python -m hybridc.tools.check_op mylib.swish [mylib.other …] [--module my_ops.py | my_package]``."""

from __future__ import annotations

import argparse
import sys

from hybridc.errors import MXNetError
from hybridc.tools.check_op.check_report import load, print_checks


def main(arguments: list[str] | None = None) -> int:
    """Check the operators that the command line names; 0 if all checks hold, 1 if not, 2 if one is not found."""
    parser = argparse.ArgumentParser(prog="python -m hybridc.tools.check_op", description="Check operators.")
    parser.add_argument("name", nargs="+", help="an operator's name: mylib.swish")
    parser.add_argument("--module", action="append", default=[], help="what registers it: a file, a folder or a module")
    given = parser.parse_args(arguments)
    try:
        for module in given.module:
            load(module)
        hold = [print_checks(name) for name in given.name]
        return int(not all(hold))
    except (MXNetError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
