"""The settings that show what the compiler does, each by what it shows, and the guard against compiling again."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.compile.targets import target_named
from hybridc.errors import AttributeValueError, RecompileError
from hybridc.gluon import nn
from hybridc.ground import compiler_output
from hybridc.ir.facts import needs_of


def network():
    net = nn.Dense(3, in_units=2, prefix="net_")
    net.initialize()
    net.hybridize()
    return net


@pytest.fixture
def options(monkeypatch):
    """A function that sets options."""

    def change(**changes):
        changed = dataclasses.replace(pipeline.OPTIONS, **changes)
        for module in (pipeline, compiler_output):
            monkeypatch.setattr(module, "OPTIONS", changed)

    return change


def titles(text):
    """What was printed, by the title of each block, without the number of the compilation."""
    blocks = re.split(r"^// ---- (.*)\n", text, flags=re.MULTILINE)[1:]
    return {re.sub(r"net-\d+", "net", title): body for title, body in zip(blocks[::2], blocks[1::2], strict=True)}


def test_nothing_is_told_unasked(capsys, caplog):
    net = network()
    net(mx.nd.ones((4, 2)))
    net(mx.nd.ones((5, 2)))
    assert capsys.readouterr() == ("", "")
    assert caplog.records == []


def test_the_ir_after_passes(options, capsys):
    options(print_after=("decompose", "plan-memory"))
    network()(mx.nd.ones((4, 2)))
    shown = titles(capsys.readouterr().err)
    assert [re.sub(r"\d+", "N", title) for title in shown] == ["net.graph.N-decompose", "net.kernels.N-plan-memory"]
    decomposed, planned = shown.values()
    assert "hybrid.matmul" in decomposed
    assert "hybrid_rt.launch" not in decomposed
    assert "hybrid_rt.launch" in planned


def test_the_ir_after_all_passes(options, capsys):
    options(print_after=("all",))
    network()(mx.nd.ones((4, 2)))
    passes = [title.partition("-")[2] for title in titles(capsys.readouterr().err)]
    assert passes == [each.name for each in (*pipeline.GRAPH, *target_named(None).passes())]


def test_a_pass_that_does_not_exist(options):
    options(print_after=("decompose", "plan"))
    with pytest.raises(AttributeValueError, match=r"^HYBRIDC_PRINT: there is no pass 'plan'; it takes all, can.*, dec"):
        network()(mx.nd.ones((4, 2)))


def test_the_source(options, capsys):
    options(print_source=True)
    net, x = network(), mx.nd.ones((4, 2))
    x.attach_grad()
    with mx.autograd.record():
        net(x)
    shown = titles(capsys.readouterr().err)
    native = target_named(None).name == "llvm"
    suffix = "plan" if native else "py"
    assert list(shown) == [f"net-recorded.kernels.{name}.{suffix}" for name in ("forward", "backward")]
    for title, text in shown.items():
        head = title.split(".")[-2]
        assert re.search(rf"^{head}: " if native else rf"^def {head}\(", text, re.MULTILINE)
        if not native:
            compile(text, title, "exec")


def test_times(options, capsys):
    options(time=True)
    network()(mx.nd.ones((4, 2)))
    shown = titles(capsys.readouterr().err)
    target = target_named(None)
    tables = {"graph, time of each pass": pipeline.GRAPH, "kernels, time of each pass": target.kernels()}
    tables["kernels, time of each further pass"] = target.plan().passes
    for title, passes in tables.items():
        rows = [line.split(" ms ") for line in shown.pop(f"net.{title}").splitlines()]
        in_order = iter([*(each.name for each in passes), "together"])
        assert all(name.strip() in in_order for _, name in rows), "those that were run, in their order"
        always = {each.name for each in passes if not needs_of(each)} - {"verify-plan"}
        assert always <= {name.strip() for _, name in rows}
        times = [float(seconds) for seconds, _ in rows]
        assert times[-1] == pytest.approx(sum(times[:-1]), abs=0.01 * len(times))
    assert list(shown) == [
        "net, time of tracing",
        "net.kernels, time of writing the source",
        "net.kernels, time of loading the source",
    ]
    assert all(re.fullmatch(r" *\d+\.\d\d ms\n", text) for text in shown.values())


def test_reasons_are_logged(options, caplog):
    options(explain_recompiles=True)
    net = network()
    net(mx.nd.ones((4, 2)))
    assert caplog.records == []  # everything is compiled once
    net(mx.nd.ones((5, 2)))
    net(mx.nd.ones((5, 2)))
    with mx.autograd.record():
        net(mx.nd.ones((5, 2)))
    assert [(r.name, r.levelname, r.message) for r in caplog.records] == [
        ("hybridc", "WARNING", "net is compiled again: argument 0 has shape (5, 2), compiled before for (4, 2)"),
        ("hybridc", "WARNING", "net is compiled again: train mode is True, compiled before for False"),
    ]
    caplog.clear()
    x = mx.nd.ones((5, 2))
    x.attach_grad()
    with mx.autograd.record():
        net(x)
    assert [r.message for r in caplog.records] == ["net is compiled again: gradients of other inputs are recorded"]


def test_reasons_of_an_executor(options, caplog):
    options(explain_recompiles=True)
    executor = mx.sym.exp(mx.sym.var("x"), name="result").bind(mx.cpu(), {"x": mx.nd.ones(3)})
    executor.forward()
    executor.forward()
    assert caplog.records == []
    executor.forward(is_train=True)
    (record,) = caplog.records
    assert record.message.startswith("the executor of result_output is compiled again: it runs in train mode")


def test_no_recompile():
    net = network()
    net(mx.nd.ones((4, 2)))
    with mx.no_recompile():
        net(mx.nd.ones((4, 2)))
        for _ in range(2):  # what failed is not there the second time
            with pytest.raises(RecompileError) as error:
                net(mx.nd.ones((5, 2)))
            assert str(error.value) == (
                "net would be compiled inside no_recompile(): argument 0 has shape (5, 2), compiled before for (4, 2); "
                "call it before in the same way, or keep what is different out of it"
            )
        with mx.no_recompile():
            pass
        with pytest.raises(RecompileError, match="train mode is True"), mx.autograd.record():
            net(mx.nd.ones((4, 2)))
        with pytest.raises(RecompileError, match=r"inside no_recompile\(\): first call;"):
            network()(mx.nd.ones((4, 2)))
        np.testing.assert_array_equal(mx.nd.exp(mx.nd.zeros(2)).asnumpy(), [1, 1])  # eager operators run as ever
    assert net.explain().startswith("net: traced once\n")
    assert net(mx.nd.ones((5, 2))).shape == (5, 3)


def test_no_recompile_of_a_graph_with_gradients():
    net, x = network(), mx.nd.ones((4, 2))
    with mx.autograd.record():
        net(x)
    x.attach_grad()
    with mx.no_recompile(), mx.autograd.record(), pytest.raises(RecompileError, match="gradients of other inputs"):
        net(x)
    with mx.autograd.record():
        net(x)
    with mx.no_recompile(), mx.autograd.record():
        net(x).backward()
    assert x.grad.shape == (4, 2)


def test_no_recompile_is_about_one_thread():
    net = network()
    found = []
    with mx.no_recompile():
        thread = threading.Thread(target=lambda: found.append(net(mx.nd.ones((4, 2))).shape))
        thread.start()
        thread.join()
    assert found == [(4, 3)]


def test_no_recompile_of_an_executor():
    executor = mx.sym.exp(mx.sym.var("x"), name="result").bind(mx.cpu(), {"x": mx.nd.ones(3)})
    with mx.no_recompile(), pytest.raises(RecompileError, match="the executor of result_output would be compiled"):
        executor.forward()
    assert executor.forward()[0].shape == (3,)


def test_settings_come_from_the_environment():
    """All at once, in a process of its own."""
    code = (
        "import hybridc as mx\n"
        "net = mx.gluon.nn.Dense(3, in_units=2, prefix='net_'); net.initialize(); net.hybridize()\n"
        "net(mx.nd.ones((4, 2))); net(mx.nd.ones((5, 2)))\n"
    )
    settings = {"PRINT": "dce, decompose", "PRINT_SOURCE": "1", "TIME": "1", "EXPLAIN_RECOMPILES": "1"}
    environment = os.environ | {f"HYBRIDC_{name}": value for name, value in settings.items()}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    assert done.stdout == ""
    again = "net is compiled again: argument 0 has shape (5, 2), compiled before for (4, 2)\n"
    assert again in done.stderr
    shown = titles(done.stderr.replace(again, ""))
    passes = {t.partition("-")[2] for t in shown if t.startswith("net.graph.")}
    assert passes == {"dce", "decompose"}
    suffix = "plan" if target_named(None).name == "llvm" else "py"
    assert {"net.graph, time of each pass", f"net.kernels.forward.{suffix}", "net, time of tracing"} <= shown.keys()


def test_an_explanation_of_many_layers_is_short():
    net = nn.HybridSequential()
    for units in range(5, 105):
        net.add(nn.Dense(units, activation="tanh"), nn.LayerNorm())
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((3, 8)))
    lines = str(net.explain()).splitlines()
    assert len(lines) <= 60
    layers = r"net\[0\] Dense to net\[198\] Dense, \d+ places"
    assert any(re.fullmatch(rf" +kernel \w+: \d+ launches of \d+ kernels; .+; {layers}", line) for line in lines)
