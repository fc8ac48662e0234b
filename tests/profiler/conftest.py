"""Every test of the profiler begins and ends with a profiler that has not run, and writes into a folder of its own."""

from __future__ import annotations

import json

import pytest

from hybridc.ground.events import RECORDER
from hybridc.profiler import session


@pytest.fixture(autouse=True)
def profiler(monkeypatch, tmp_path):
    """``mx.profiler``, as in a new process."""
    import hybridc as mx

    fresh = session.Session()
    monkeypatch.setattr(session, "SESSION", fresh)
    monkeypatch.setattr(mx.profiler, "SESSION", fresh)
    monkeypatch.chdir(tmp_path)
    RECORDER.take()
    yield mx.profiler
    fresh.stop()
    RECORDER.take()


@pytest.fixture
def events(profiler):
    """What one call of a function leaves in the trace, as the events of the file."""

    def events_of(call, **settings):
        profiler.set_config(**{"profile_memory": False, "filename": "trace.json", **settings})
        profiler.set_state("run")
        call()
        profiler.set_state("stop")
        profiler.dump()
        with open("trace.json") as file:
            return json.load(file)["traceEvents"]

    return events_of
