"""The comparison with other frameworks: the protocol, the tables, and every peer that is installed."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from benchmarks.first_workloads import FIRST_WORKLOADS
from benchmarks.image_networks import NETWORKS
from benchmarks.images import EVERY
from benchmarks.peers import environments, first_calls, run
from benchmarks.peers.client import Client, InexactError, PeerError, first_call, further_call
from benchmarks.peers.environments import COLUMNS, Column
from benchmarks.peers.first_calls import LINES, Bound, Cost, Line

INSTALLED = sorted(n for n, c in COLUMNS.items() if c.environment is not None and c.mode != "compile")


def opened(column, folder):
    """A running peer; what it logs is in the folder."""
    with (folder / "log.txt").open("a") as log:
        return Client(column, environments.FOLDER, folder, 1, False, log)


@pytest.fixture
def numpy_peer(tmp_path):
    client = opened(COLUMNS["numpy"], tmp_path)
    yield client
    client.close()


def test_a_peer_starts_runs_and_tells(numpy_peer, tmp_path):
    assert numpy_peer.started()["version"] == np.__version__
    found = first_call(numpy_peer, "tiny_mlp", tmp_path)
    assert found is not None
    assert 0 < found["error of magnitude"] < 1e-6
    assert 0 < numpy_peer.ask("block", seconds=0.01)["seconds"] < 0.01
    assert numpy_peer.ask("memory")["peak"] < 200


def test_a_wrong_result_is_no_result(numpy_peer, tmp_path, monkeypatch):
    numpy_peer.started()
    monkeypatch.setattr(type(EVERY["tiny_mlp"]), "oracle", lambda w: [w.reference(w.inputs())[0] * 1.001])
    with pytest.raises(PeerError, match=r"tiny_mlp: output 0 is off by .*e-0[34] of its magnitude"):
        first_call(numpy_peer, "tiny_mlp", tmp_path)


def test_a_further_call_is_of_the_data_that_it_is_given(numpy_peer, tmp_path):
    numpy_peer.started()
    assert first_call(numpy_peer, "tiny_mlp", tmp_path)
    workload, data = first_calls.with_shapes("tiny_mlp", (("x", (3, 32)),))
    found, outputs = further_call(numpy_peer, data, tmp_path)
    assert 0 < found["processor"] < found["all processor"]
    assert workload.error([*outputs.values()]) < 1e-6
    assert outputs["arr_0"].shape == (3, 10)


def test_an_exception_is_told_and_the_peer_goes_on(numpy_peer, tmp_path):
    numpy_peer.started()
    with pytest.raises(PeerError, match="RuntimeError: nothing was prepared"):
        numpy_peer.ask("block", seconds=0.01)
    assert first_call(numpy_peer, "tiny_mlp", tmp_path)


def test_a_peer_that_ended_is_told(numpy_peer):
    numpy_peer.started()
    numpy_peer._process.kill()
    numpy_peer._process.wait()
    with pytest.raises(PeerError, match="the process ended"):
        numpy_peer.ask("memory")


def test_an_environment_that_is_absent_is_not_measured(tmp_path):
    assert not environments.installed(tmp_path, COLUMNS["jax"])
    assert environments.installed(tmp_path, COLUMNS["numpy"])
    (tmp_path / "jax").mkdir()
    assert not environments.installed(tmp_path, COLUMNS["jax"])  # half made
    (tmp_path / "jax" / "complete").touch()
    assert environments.installed(tmp_path, COLUMNS["jax"])


def test_setup_makes_only_what_is_not_there(tmp_path, monkeypatch, capsys):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "complete").touch()
    assert environments.setup(tmp_path, ["jax"])
    assert [path.name for path in (tmp_path / "jax").iterdir()] == ["complete"]
    monkeypatch.setitem(environments.ENVIRONMENTS, "old", environments.Environment((), "python1.0"))
    assert not environments.setup(tmp_path, ["jax", "old"])
    assert capsys.readouterr().err == "old: needs python1.0, which is not installed\n"
    assert not (tmp_path / "old").exists()


def test_the_table_compares_ours_with_the_best_peer(capsys):
    columns = {n: COLUMNS[n] for n in ("hybridc", "torch", "jax", "numba")}
    table = run.Table("ms", columns, 1e3, floor=True)
    first = {"floor": 0.5e-3, "hybridc": 1e-3, "torch": 4e-3, "jax": 2e-3, "numba": run.NOTHING}
    table.add("one", first)
    table.add("two", {"floor": 1e-3, "hybridc": 8e-3, "torch": 4e-3, "jax": 5e-3, "numba": "failed"})
    table.add("three", {"floor": 1e-3, "hybridc": "failed", "torch": 1.5, "jax": 2.0, "numba": run.NOTHING})
    table.divide("two / one", {"hybridc": 8e-3, "torch": 4e-3, "jax": 5e-3, "numba": "failed"}, first)
    table.end()
    assert capsys.readouterr().out.splitlines() == [
        "",
        "ms",
        "",
        "| workload | floor | hybridc | torch eager | JAX jit | Numba | best peer | ours / best | floor / ours |",
        "|---|---|---|---|---|---|---|---|---|",
        "| one | 0.5 | 1 | 4 | 2 | - | JAX jit | 0.50 | 50% |",
        "| two | 1 | 8 | 4 | 5 | failed | torch eager | 2.00 | 12% |",
        "| three | 1 | failed | 1500 | 2000 | - | torch eager | - | - |",
        "| two / one |  | 8 | 1 | 2.5 |  |  |  |  |",
        "",
        "Geometric mean of ours / best: 1.00",
    ]


@pytest.mark.long
def test_a_measurement_of_two_of_our_columns(tmp_path, capsys):
    columns = {n: COLUMNS[n] for n in ("hybridc-numpy", "numpy")}
    with (tmp_path / "log.txt").open("w") as log:
        measurement = run.Measurement(tmp_path, tmp_path, log, columns, reuse=False, quick=True)
        found = run.tables(measurement, ["tiny_mlp"], [1], run.MODES)
    assert not measurement.problems, (tmp_path / "log.txt").read_text()
    assert len(found) == 2
    for rows in found.values():
        assert all(rows["tiny_mlp"][name] > 0 for name in columns)
    assert capsys.readouterr().out.count("| tiny_mlp |") == 2


@pytest.mark.long
def test_a_peer_that_cannot_run_is_a_failed_cell(tmp_path, capsys):
    columns = {"absent": Column("Absent", "absent"), "numpy": COLUMNS["numpy"]}
    with (tmp_path / "log.txt").open("w") as log:
        measurement = run.Measurement(tmp_path, tmp_path, log, columns, reuse=False, quick=True)
        found = run.tables(measurement, ["tiny_mlp"], [1], ["steady", "memory"])
    assert [rows["tiny_mlp"]["absent"] for rows in found.values()] == ["failed"] * 2
    assert all(rows["tiny_mlp"]["numpy"] > 0 for rows in found.values())
    why = "tiny_mlp, Absent: ModuleNotFoundError: No module named 'benchmarks.peers.absent_peer'"
    assert measurement.problems == [why] * 2
    assert capsys.readouterr().out.count("| failed |") == 2


def measured(lines, columns, folder):
    """The cells of lines, of one round."""
    with (folder / "log.txt").open("w") as log:
        measurement = run.Measurement(folder, folder, log, columns, reuse=False, quick=True)
        return [first_calls.measure(measurement, line, 1, 1) for line in lines], measurement.problems


def test_each_kind_of_line_counts_its_calls(tmp_path):
    wide = ((("x", (256, 32)),),) * 3
    lines = [Line("", "tiny_mlp", (None, None)[:states], wide, counted) for states, counted in (
        (1, "first"), (1, "further"), (2, "all"), (1, "process"),
    )]  # fmt: skip
    found, problems = measured(lines, {"numpy": COLUMNS["numpy"]}, tmp_path)
    assert not problems
    assert [len(cells) for cells in found] == [1, 1, 2, 1]
    _, further, everything, process = (cells[0]["numpy"] for cells in found)
    assert everything.processor > further.processor > 0
    assert process.processor > 10 * everything.processor  # it has Python's start


def test_a_later_call_is_subtracted(tmp_path):
    wide = ((("x", (4096, 32)),),)
    lines = [Line("", "tiny_mlp", further=wide, counted="further", subtracted=less) for less in (False, True)]
    ((whole,), (less,)), problems = measured(lines, {"numpy": COLUMNS["numpy"]}, tmp_path)
    assert not problems
    assert whole["numpy"].processor > 0
    assert less["numpy"].processor < whole["numpy"].processor


def test_a_line_whose_further_results_are_wrong_fails_unless_they_may_differ(tmp_path, monkeypatch):
    workload, data = first_calls.with_shapes("tiny_mlp", (("x", (2, 32)),))
    wrong = dataclasses.replace(workload, reference=lambda d: [workload.reference(d)[0] * 1.001])
    monkeypatch.setattr(first_calls, "with_shapes", lambda *_: (wrong, data))
    lines = [Line("wide", "tiny_mlp", further=((("x", (2, 32)),),), stateful=stateful) for stateful in (False, True)]
    (strict, lenient), problems = measured(lines, {"numpy": COLUMNS["numpy"]}, tmp_path)
    assert strict == [{"numpy": "inexact"}]
    assert isinstance(lenient[0]["numpy"], Cost)
    assert len(problems) == 1
    assert problems[0].startswith("wide, NumPy: tiny_mlp: output 0 is off by ")


def test_a_peer_without_the_program_has_empty_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(first_calls, "first_call", lambda *_: None)
    (cells,), problems = measured([Line("", "tiny_mlp", (None, None))], {"numpy": COLUMNS["numpy"]}, tmp_path)
    assert not problems
    assert cells == [{"numpy": run.NOTHING}] * 2


def test_the_table_of_first_calls_names_bounds(capsys, monkeypatch):
    monkeypatch.setitem(LINES, "one", Line("one", "graphs", (Bound(2.0, "jax"),)))
    monkeypatch.setitem(LINES, "twice", Line("twice", "graphs", (Bound(2.5, "one"), Bound(0.5))))
    found = {"one": [{"hybridc": Cost(1.0, 2.0), "jax": Cost(2.0, 1.0), "mxnet": run.NOTHING}]}
    found["twice"] = [{"hybridc": Cost(2.5, 2.5), "jax": "failed", "mxnet": Cost(0.001, 1234.0)}] * 2
    first_calls.print_head({n: COLUMNS[n] for n in ("hybridc", "jax", "mxnet")})
    for name, rows in found.items():
        first_calls.print_line(name, rows, found)
    assert capsys.readouterr().out.splitlines() == [
        "",
        "| processor / clock, s | hybridc | JAX jit | MXNet hybridized | bound | of the bound |",
        "|---|---|---|---|---|---|",
        "| one, cold | 1 / 2 | 2 / 1 | - | 2 times JAX jit | 0.25 / 1.00 |",
        "| twice, cold | 2.5 / 2.5 | failed | 0.001 / 1234 | 2.5 times one | 1.00 / 0.50 |",
        "| twice, warm | 2.5 / 2.5 | failed | 0.001 / 1234 | 0.5 s | 5.00 / 5.00 |",
    ]


def test_a_line_without_its_other_figure_has_no_part(monkeypatch):
    ours = {"hybridc": Cost(1.0, 2.0)}
    assert first_calls.of_bound(Bound(0.4, "before"), ours, {}) == run.NOTHING
    assert first_calls.of_bound(Bound(2.0, "tanh_chain_450"), ours, {}) == run.NOTHING
    assert first_calls.of_bound(None, ours, {}) == run.NOTHING
    assert first_calls.of_bound(Bound(0.5), {"jax": Cost(1.0, 1.0)}, {}) == run.NOTHING
    assert first_calls.of_bound(Bound(0.5, "before"), {**ours, "before": Cost(4.0, 4.0)}, {}) == "0.50 / 1.00"


def test_lines_are_of_workloads_and_their_bounds_of_columns_or_earlier_lines():
    names = [*LINES]
    for number, line in enumerate(LINES.values()):
        assert line.workload in EVERY
        for bound in line.bounds:
            assert bound is None or bound.of in ("", first_calls.BEFORE, *COLUMNS, *names[:number])


@pytest.mark.long
@pytest.mark.parametrize("name", ["graphs", "growing_keys", "executors", "unrolled_lstm_5"])
def test_hybridc_runs_what_is_measured(name):
    workload = EVERY[name]
    workload.check(workload.build(hybridized=True))


def test_the_main_program_names_what_it_does_not_know(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "--peers", "jax,jaxx"])
    with pytest.raises(SystemExit):
        run.main()
    assert "'jaxx' is not one of hybridc, " in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("name", INSTALLED)
def test_every_workload_of_an_installed_peer_agrees_with_float64(name, tmp_path):
    if not environments.installed(environments.FOLDER, COLUMNS[name]):
        pytest.skip(f"{name} is not installed: python benchmarks/peers/run.py --setup --peers {name}")
    client = opened(COLUMNS[name], tmp_path)
    made: list[str] = []
    try:
        client.started()
        for workload in EVERY:
            try:
                made += [workload] * (first_call(client, workload, tmp_path) is not None)
            except InexactError:
                assert name == "mnn"  # of many of its Winograd convolutions, and of sentence encoders
                made.append(workload)
    finally:
        client.close()
    assert made == [w for w in EVERY if has(name, w)]


def has(name, workload):
    """Whether a peer has a workload: some have no gradients, some no networks of images or nothing else."""
    image = NETWORKS.get(workload)
    if name == "numba":
        return workload in ("layernorm", "norm_layer")
    if name == "torch-last":
        return image is not None
    if workload in FIRST_WORKLOADS:
        symbols = workload.startswith(("executors", "unrolled", "buckets"))
        return name == "mxnet" or (name in ("jax", "torch") and not symbols)
    trains = (
        workload in ("mlp_train", "custom_op", "encoder_train", "language_model")
        if image is None
        else image.kind != "image"
    )
    return name not in ("onnx", "openvino", "mnn") or not trains
