"""What MXNet 1.9.1 prints for the symbols of viz_cases.py: writes viz.json. Run it with MXNet's Python."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib

import mxnet as mx  # noqa: TID251
from viz_cases import CASES

found = {}
for name, (make, options) in CASES.items():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        mx.viz.print_summary(make(mx), **options)
    found[name] = printed.getvalue()
pathlib.Path(__file__).with_name("viz.json").write_text(json.dumps(found, indent=1) + "\n")
