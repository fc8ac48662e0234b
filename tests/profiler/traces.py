"""What holds for every trace."""

from __future__ import annotations

import os


def check(found):
    """The events of a trace are complete: phases, times, names of threads; and spans of a thread nest."""
    named = {e["tid"] for e in found if e["ph"] == "M" and e["name"] == "thread_name"}
    for event in found:
        assert event["ph"] in "MXCibe"
        assert isinstance(event["name"], str)
        assert event["pid"] == os.getpid()
        if event["ph"] == "M":
            assert event["args"]["name"]
            continue
        assert event["ts"] >= 0
        assert event["cat"]
        if event["ph"] != "C":
            assert event["tid"] in named
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert isinstance(event["args"], dict)
    for thread in named:
        open_until = []
        spans = [e for e in found if e["ph"] == "X" and e["tid"] == thread]
        for event in sorted(spans, key=lambda e: (e["ts"], -e["dur"])):
            begin, end = event["ts"], event["ts"] + event["dur"]
            while open_until and open_until[-1] <= begin + ROUNDING:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + ROUNDING, f"{event['name']} reaches out of what it is in"
            open_until.append(end)


# Microseconds: times are written as the difference of two whole nanoseconds.
ROUNDING = 2e-3


def of(found, category):
    """The spans of a category, in order."""
    return sorted((e for e in found if e["ph"] == "X" and e["cat"] == category), key=lambda e: e["ts"])


def inside(found, outer):
    """The spans of a thread within one of them."""
    end = outer["ts"] + outer["dur"] + ROUNDING
    return [
        e
        for e in found
        if e["ph"] == "X" and e is not outer and e["tid"] == outer["tid"]
        if outer["ts"] - ROUNDING <= e["ts"] and e["ts"] + e["dur"] <= end
    ]
