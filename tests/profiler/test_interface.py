"""``mx.profiler``'s functions and classes, as MXNet's: states, files, statistics, objects of users, errors."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import time

import pytest

import hybridc as mx
from hybridc.ground.events import RECORDER
from tests.profiler.traces import check, of

nd = mx.nd


def _trace(name="profile.json"):
    with open(name) as file:
        return json.load(file)["traceEvents"]


def test_signatures():
    """Those of MXNet 1.9.1, read off its module."""
    wanted = {
        "set_kvstore_handle": ["handle"],
        "set_config": ["kwargs"],
        "profiler_set_config": [("mode", "symbolic"), ("filename", "profile.json")],
        "set_state": [("state", "stop"), ("profile_process", "worker")],
        "profiler_set_state": [("state", "stop")],
        "dump": [("finished", True), ("profile_process", "worker")],
        "dump_profile": [],
        "dumps": [("reset", False), ("format", "table"), ("sort_by", "total"), ("ascending", False)],
        "pause": [("profile_process", "worker")],
        "resume": [("profile_process", "worker")],
        "Domain": ["name"],
        "Task": ["domain", "name"],
        "Frame": ["domain", "name"],
        "Event": ["name"],
        "Counter": ["domain", "name", ("value", None)],
        "Marker": ["domain", "name"],
    }
    for name, parameters in wanted.items():
        found = inspect.signature(getattr(mx.profiler, name)).parameters.values()
        assert [p.name if p.default is p.empty else (p.name, p.default) for p in found] == parameters, name


def test_pause_and_resume(profiler):
    x = nd.ones((2, 3))
    profiler.set_config(profile_memory=False)
    y = x.T
    profiler.set_state("run")
    nd.dot(x, y)
    profiler.pause()
    x.sum()
    profiler.resume()
    x.max()
    profiler.set_state("stop")
    x.min()
    profiler.dump()
    assert [e["name"] for e in of(_trace(), "operator")] == ["dot", "max"]


def test_objects_of_users(profiler):
    profiler.set_config(profile_memory=False)
    domain = profiler.Domain("dom")
    task, frame = domain.new_task("task"), domain.new_frame("frame")
    event, counter = profiler.Event("event"), domain.new_counter("counter", 5)
    assert [str(x) for x in (domain, task, frame, event, counter)] == ["dom", "task", "frame", "event", "counter"]
    profiler.set_state("run")
    task.start()
    frame.start()
    with profiler.scope("part"):
        event.start()
        event.stop()
    task.stop()
    frame.stop()
    event.stop()  # not begun: nothing
    counter += 3
    counter -= 1
    counter.increment(2)
    counter.decrement(4)
    counter.set_value(7.9)
    for scope in ("global", "process", "thread", "task", "marker"):
        domain.new_marker("mark").mark(scope)
    profiler.dump()
    found = _trace()
    check(found)
    values = [e["args"]["counter"] for e in found if e["ph"] == "C"]
    assert values == [8, 7, 9, 5, 7]
    assert [e["s"] for e in found if e["ph"] == "i"] == ["g", "p", "t", "t", "t"]
    pairs = {(e["ph"], e["cat"], e["name"]) for e in found if e["ph"] in "be"}
    assert pairs == {(ph, cat, name) for ph in "be" for cat, name in (("dom", "task"), ("dom,frame", "frame"))}
    (event_,), (scope_,) = of(found, "event"), of(found, "scope")
    assert scope_["name"] == "part:"
    assert scope_["ts"] <= event_["ts"]


def test_nothing_is_recorded_while_it_is_off(profiler):
    domain = profiler.Domain("dom")
    domain.new_counter("counter", 5).increment()
    domain.new_marker("mark").mark()
    with domain.new_task("task"):
        nd.ones((2, 3)).sum()
    assert RECORDER.take() == ([], [], [])


def test_the_table(profiler):
    profiler.set_config(profile_memory=False, aggregate_stats=True)
    profiler.set_state("run")
    x = nd.ones((2, 3))
    for _ in range(3):
        x.sum()
    x.max()
    profiler.set_state("stop")
    text = profiler.dumps()
    assert text.startswith("\nProfile Statistics:\n\tNote the difference in units for different entries.\n")
    lines = text.splitlines()
    at = lines.index("operator")
    assert lines[at + 1] == "================="
    assert lines[at + 2] == (
        "Name                          Total Count        Time (ms)    Min Time (ms)    Max Time (ms)    Avg Time (ms)"
    )
    assert lines[at + 3] == (
        "----                          -----------        ---------    -------------    -------------    -------------"
    )
    rows = {line.split()[0]: line.split()[1:] for line in lines[at + 4 : lines.index("", at)]}
    assert rows.keys() == {"ones", "sum", "max"}
    count, total, least, most, mean = map(float, rows["sum"])
    assert count == 3
    assert least <= mean <= most
    assert total == pytest.approx(3 * mean, abs=1e-3)
    assert most + 2 * least <= total + 1e-3
    stored = json.loads(profiler.dumps(format="json"))
    assert stored["Time"]["operator"]["sum"]["Count"] == 3
    assert stored["Unit"] == {"Time": "ms", "Memory": "kB"}
    assert stored["Time"]["operator"]["sum"]["Total"] == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize(("key", "column"), [("total", 2), ("avg", 5), ("min", 3), ("max", 4), ("count", 1)])
@pytest.mark.parametrize("ascending", [False, True])
def test_the_order_of_the_table(profiler, key, column, ascending):
    profiler.set_config(profile_memory=False, profile_imperative=True, profile_api=False)
    profiler.set_state("run")
    x = nd.ones((300, 300))
    for _ in range(2):
        x.sum()
    nd.dot(x, x)
    for _ in range(3):
        x.abs()
    lines = profiler.dumps(sort_by=key, ascending=ascending).splitlines()
    rows = lines[lines.index("operator") + 4 :]
    values = [float(row.split()[column]) for row in rows[: rows.index("")]]
    assert len(values) == 4
    assert values == sorted(values, reverse=not ascending)


def test_long_names_have_a_line_of_their_own(profiler):
    profiler.set_config(profile_memory=False)
    profiler.set_state("run")
    domain = profiler.Domain("names")
    for length in (40, 200):
        with domain.new_task("t" * length):
            pass
    lines = profiler.dumps().splitlines()
    at = lines.index("t" * 200)
    assert len({len(row) for row in lines if re.search(r" \d+\.\d{4}$", row)}) == 1
    assert lines[at + 1].split()[0] == "1"
    assert max(len(row) for row in lines if not row.startswith("t" * 41)) < 130
    assert next(row for row in lines if row.startswith("t" * 40 + " ")).split()[1] == "1"


def test_names_that_are_all_long(profiler):
    profiler.set_config(profile_memory=False)
    profiler.set_state("run")
    with profiler.Domain("names").new_task("t" * 200):
        pass
    lines = profiler.dumps().splitlines()
    assert lines[lines.index("t" * 200) + 1].split()[0] == "1"


def test_statistics_are_reset(profiler):
    profiler.set_config(profile_memory=False)
    profiler.set_state("run")
    nd.ones((2, 3))
    assert "ones" in profiler.dumps(reset=True)
    assert "ones" not in profiler.dumps()
    profiler.dump()
    assert [e["name"] for e in of(_trace(), "operator")] == ["ones"]  # the file has it


def test_memory_in_the_table(profiler):
    profiler.set_state("run")
    text = profiler.dumps()
    at = text.splitlines().index("Device Storage")
    assert "Min Use  (kB)    Max Use  (kB)    Avg Use  (kB)" in text.splitlines()[at + 2]
    assert "Memory: cpu/pool" in text


def test_dumps_of_a_running_profiler_go_into_one_file(profiler):
    profiler.set_config(profile_memory=False, filename="one.json")
    profiler.set_state("run")
    x = nd.ones((2, 3))
    profiler.dump(False)
    assert [e["name"] for e in of(_trace("one.json"), "operator")] == ["ones"]
    profiler.dump(False)
    x.sum()
    profiler.dump(False)
    x.max()
    profiler.dump()
    found = _trace("one.json")
    check(found)
    assert [e["name"] for e in of(found, "operator")] == ["ones", "sum", "max"]
    x.min()  # it stopped
    profiler.set_state("run")
    x.mean()
    profiler.dump()
    assert [e["name"] for e in of(_trace("one.json"), "operator")] == ["mean"]


def test_continuous_dump(profiler):
    profiler.set_config(profile_memory=False, continuous_dump=True, dump_period=0.02, filename="many.json")
    profiler.set_state("run")
    nd.ones((2, 3))
    end = time.monotonic() + 20
    found = []
    while not found and time.monotonic() < end:
        time.sleep(0.01)
        try:
            found = of(_trace("many.json"), "operator")
        except (OSError, ValueError):  # not there yet, or half written
            continue
    assert [e["name"] for e in found] == ["ones"]


def test_deprecated_names(profiler):
    with pytest.warns(UserWarning, match="Please use profiler.set_config"):
        profiler.profiler_set_config("all", "old.json")
    with pytest.warns(UserWarning, match="Please use profiler.set_state"):
        profiler.profiler_set_state("run")
    nd.ones((2, 3))
    with pytest.warns(UserWarning, match="Please use profiler.dump"):
        profiler.dump_profile()
    assert of(_trace("old.json"), "operator")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"nope": 1}, "Cannot find argument 'nope'"),
        ({"profile_all": "x"}, "Invalid Parameter format for profile_all expect boolean but value='x'"),
        ({"profile_process": "foo"}, "Invalid Input: 'foo'"),
        ({"profile_process": "server"}, "leave it out"),
        ({"dump_period": -1}, "dump_period must be more than 0"),
        ({"dump_period": "a"}, "Invalid Parameter format for dump_period expect float but value='a'"),
    ],
)
def test_settings_that_there_are_not(profiler, given, text):
    with pytest.raises(mx.MXNetError, match=text):
        profiler.set_config(**given)


def test_words_are_settings(profiler):
    profiler.set_config(profile_imperative="False", profile_memory="0", dump_period="2", profile_symbolic=0)
    profiler.set_state("run")
    nd.ones((2, 3))
    profiler.dump()
    assert not of(_trace(), "operator")


def test_errors(profiler):
    with pytest.raises(mx.MXNetError, match="Profiler hasn't been run"):
        profiler.dump()
    for call in (
        lambda: profiler.set_state("foo"),
        lambda: profiler.set_state("run", "foo"),
        lambda: profiler.pause("foo"),
        lambda: profiler.resume("foo"),
        lambda: profiler.dump(True, "foo"),
    ):
        with pytest.raises(KeyError):
            call()
    with pytest.raises(mx.MXNetError, match="servers"):
        profiler.set_state("run", "server")
    for given in ({"format": "x"}, {"sort_by": "x"}, {"reset": 3}, {"ascending": 2}):
        with pytest.raises(AssertionError, match=f"Invalid value provided for {next(iter(given))}"):
            profiler.dumps(**given)
    domain = profiler.Domain("d")
    for call in (lambda: profiler.Domain(3), lambda: profiler.Event(None), lambda: profiler.Task("x", "y")):
        with pytest.raises(AttributeError):
            call()
    with pytest.raises(ValueError):
        domain.new_counter("c", "x")
    with pytest.raises(mx.MXNetError, match="valid values are"):
        domain.new_marker("m").mark("bogus")


def test_autostart(tmp_path):
    """The variable starts it at import, and what was recorded is written at exit."""
    code = "import hybridc as mx; mx.nd.ones((2, 3)).sum()"
    environment = {**os.environ, "HYBRIDC_PROFILER_AUTOSTART": "1"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert [e["name"] for e in of(_trace(tmp_path / "profile.json"), "operator")] == ["ones", "sum"]
