"""The comparison with other frameworks: the protocol, the tables, and every peer that is installed."""

from __future__ import annotations

import sys

import pytest

from benchmarks.image_networks import NETWORKS
from benchmarks.images import EVERY
from benchmarks.peers import environments, run
from benchmarks.peers.client import Client, InexactError, PeerError, first_call
from benchmarks.peers.environments import COLUMNS, Column

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
    import numpy as np

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
    assert len(found) == 4
    for rows in found.values():
        assert all(rows["tiny_mlp"][name] > 0 for name in columns)
    assert capsys.readouterr().out.count("| tiny_mlp |") == 4


@pytest.mark.long
def test_a_peer_that_cannot_run_is_a_failed_cell(tmp_path, capsys):
    columns = {"absent": Column("Absent", "absent"), "numpy": COLUMNS["numpy"]}
    with (tmp_path / "log.txt").open("w") as log:
        measurement = run.Measurement(tmp_path, tmp_path, log, columns, reuse=False, quick=True)
        found = run.tables(measurement, ["tiny_mlp"], [1], ["steady", "first"])
    assert [rows["tiny_mlp"]["absent"] for rows in found.values()] == ["failed"] * 3
    assert all(rows["tiny_mlp"]["numpy"] > 0 for rows in found.values())
    why = "tiny_mlp, Absent: ModuleNotFoundError: No module named 'benchmarks.peers.absent_peer'"
    assert measurement.problems == [why] * 2
    assert capsys.readouterr().out.count("| failed |") == 3


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
    trains = (
        workload in ("mlp_train", "custom_op", "encoder_train", "language_model")
        if image is None
        else image.kind != "image"
    )
    return name not in ("onnx", "openvino", "mnn") or not trains
