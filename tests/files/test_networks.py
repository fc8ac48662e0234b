"""Networks in files: what MXNet exports runs here as it ran there; what hybridc exports is read again."""

from __future__ import annotations

import functools
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx

HERE = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(HERE))

from network_cases import flat, input_names, networks, outputs  # noqa: E402

pytestmark = pytest.mark.usefixtures("by_numpy")

with zipfile.ZipFile(HERE / "networks.zip") as archive:
    FILES = {name: archive.read(name) for name in archive.namelist()}
NAMES = [
    name.removesuffix(".params") for name in FILES if name.endswith(".params") and not name.endswith("-0000.params")
]


@functools.cache
def cases():
    """Name, and network with its inputs; the networks have run compiled once."""
    return {name: (net, inputs) for name, net, inputs in networks(mx)}


def test_every_case_has_files():
    assert sorted(cases()) == NAMES, "run tests/golden/make_networks.py with MXNet's interpreter"


def files_of(name, folder):
    """The files that MXNet wrote, in a folder."""
    for file, content in FILES.items():
        if file.startswith((f"{name}-", f"{name}.")):
            (folder / file).write_bytes(content)
    return folder / name


def wanted(name):
    with np.load(io.BytesIO(FILES[f"{name}.npz"]), allow_pickle=False) as file:
        return [file[key] for key in file.files]


def assert_outputs(name, found):
    expected = wanted(name)
    assert len(found) == len(expected)
    for x, y in zip(found, expected):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, *((2e-3, 1e-3) if x.dtype == np.float16 else (2e-5, 2e-6)))


def imported(path, name, inputs):
    return mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", input_names(inputs), f"{path}-0000.params")


@pytest.mark.parametrize("name", NAMES)
def test_networks_of_mxnet(name, tmp_path):
    inputs = cases()[name][1]
    net = imported(files_of(name, tmp_path), name, inputs)
    assert_outputs(name, outputs(mx, net, flat(inputs)))
    net.hybridize()
    assert_outputs(name, outputs(mx, net, flat(inputs)))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_of_mxnet(name, tmp_path):
    net, inputs = cases()[name]
    net.load_parameters(f"{files_of(name, tmp_path)}.params")
    assert_outputs(name, outputs(mx, net, inputs))
    net.save_parameters(str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == (tmp_path / f"{name}.params").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_exported_networks(name, tmp_path):
    net, inputs = cases()[name]
    assert_outputs(name, outputs(mx, net, inputs))
    net.export(str(tmp_path / "net"))
    files_of(name, tmp_path)
    ours, theirs = mx.sym.load(tmp_path / "net-symbol.json"), mx.sym.load(tmp_path / f"{name}-symbol.json")
    assert ours.list_auxiliary_states() == theirs.list_auxiliary_states()
    assert len(ours.list_arguments()) == len(theirs.list_arguments())
    again = imported(tmp_path / "net", name, inputs)
    assert_outputs(name, outputs(mx, again, flat(inputs)))


# --- what is not in MXNet's files ---------------------------------------------------------------------------


class Of(mx.gluon.HybridBlock):
    """A function as a hybridized block."""

    def __init__(self, function, prefix="of_"):
        super().__init__(prefix=prefix)
        self.function = function
        self.hybridize()

    def hybrid_forward(self, F, *args):
        return self.function(F, *args)


SHIFT = mx.nd.array([1, 2, 3])
X = mx.nd.array(np.arange(6).reshape(2, 3))
NEEDS_ARRAYS = {
    "shape": (lambda F, x: x.reshape((x.shape[1], x.shape[0])), "<Symbol data> has no shape"),
    "row": (lambda F, x: x[1] * 2, "indexing of <Symbol data> is about its results"),
    "rows": (lambda F, x: [row + 1 for row in x], "iteration of <Symbol data>"),
    "count": (lambda F, x: x * len(x), r"len\(\) of <Symbol data>"),
    "new axis": (lambda F, x: x[:, None, 1:], "indexing of <Symbol data>"),
    "constant": (lambda F, x: x * SHIFT + SHIFT, "is an array, but symbols take symbols"),
    "result": (lambda F, x: [x + 1, SHIFT], "the result of of"),
    "draws": (lambda F, x: F.random.uniform(1, 1, shape=x.shape) + x, "has no shape"),
}


@pytest.mark.parametrize("name", NEEDS_ARRAYS)
def test_forwards_that_need_arrays_are_exported_for_their_shapes(name, tmp_path):
    function, why = NEEDS_ARRAYS[name]
    net = Of(function)
    expected = outputs(mx, net, [X.asnumpy()])
    with pytest.warns(UserWarning, match=f"of is exported for the shapes of its last inputs only.*{why}"):
        net.export(str(tmp_path / "net"))
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), "data", str(tmp_path / "net-0000.params"))
    found = outputs(mx, again, [X.asnumpy()])
    assert [x.tolist() for x in found] == [x.tolist() for x in expected]
    constants = {"constant", "result"}
    assert list(mx.nd.load(tmp_path / "net-0000.params")) == (["arg:of_constant0"] if name in constants else [])


def test_updates_during_the_forward_are_left_to_the_reader(tmp_path):
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="net_")
            with self.name_scope():
                self.norm = mx.gluon.nn.BatchNorm(in_channels=3)

        def hybrid_forward(self, F, x):
            y = self.norm(x)
            return self.norm(y.reshape((y.shape[0], 3)))

    net = Net()
    net.initialize()
    net.hybridize()
    with mx.autograd.record():
        net(X)
    with pytest.warns(UserWarning, match="for training or not as it ran last"):
        net.export(str(tmp_path / "net"))
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), "data", str(tmp_path / "net-0000.params"))
    assert again.collect_params("net_batchnorm0_running_mean")["net_batchnorm0_running_mean"].grad_req == "null"
    np.testing.assert_allclose(again(X).asnumpy(), net(X).asnumpy(), 1e-6)


def test_an_imported_network_is_exported_again(tmp_path):
    net = mx.gluon.nn.HybridSequential(prefix="outer_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(3, activation="relu"), mx.gluon.nn.Dropout(0.5))
    mx.random.seed(1)  # another one may leave nothing behind relu that could be dropped
    net.initialize()
    net.hybridize()
    expected = net(X).asnumpy()
    assert expected.any()
    net.export(str(tmp_path / "a"), epoch=12)
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "a-symbol.json"), ["data"], str(tmp_path / "a-0012.params"))
    again.hybridize()
    again(X)
    again.export(str(tmp_path / "b"))
    assert (tmp_path / "a-symbol.json").read_bytes() == (tmp_path / "b-symbol.json").read_bytes()
    assert (tmp_path / "a-0012.params").read_bytes() == (tmp_path / "b-0000.params").read_bytes()
    with mx.autograd.record():  # it drops while training
        assert (again(X).asnumpy() != expected).any()
    np.testing.assert_array_equal(again(X).asnumpy(), expected)


@pytest.mark.parametrize("name", ["constants", "batch_norm"])
def test_a_network_without_its_parameters_is_initialized(name, tmp_path):
    file = f"{files_of(name, tmp_path)}-symbol.json"
    net = mx.gluon.SymbolBlock.imports(file, "data")
    x = mx.nd.array(cases()[name][1][0])
    with pytest.raises(RuntimeError, match="has not been initialized"):
        net(x)
    net.initialize()
    net(x)
    ones = [p.data().asnumpy() for key, p in net.collect_params().items() if key.endswith("gamma")]
    assert all((value == 1).all() for value in ones)
    assert len(ones) == (2 if name == "batch_norm" else 0)


def test_names_are_those_of_layers(tmp_path):
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(3, activation="relu"))
    net.initialize()
    net.hybridize()
    net(X)
    net.export(str(tmp_path / "net"))
    internals = mx.sym.load(tmp_path / "net-symbol.json").get_internals()
    assert internals.list_outputs() == [
        "data",
        "net_dense0_weight",
        "net_dense0_bias",
        "net_dense0_fwd_output",
        "net_dense0_relu_fwd_output",
    ]


def test_a_network_must_have_run_compiled(tmp_path):
    net = mx.gluon.nn.Dense(3, prefix="dense_")
    net.initialize()
    text = "dense.export: Please first call block.hybridize() and then run forward with this block at least once"
    for run in (lambda: None, lambda: net(X), net.hybridize):
        run()
        with pytest.raises(mx.MXNetError, match=text.replace("(", r"\(").replace(")", r"\)")):
            net.export(str(tmp_path / "net"))
    assert not list(tmp_path.iterdir())


def test_files_that_do_not_fit(tmp_path):
    net = Of(lambda F, x: F.FullyConnected(x, x, num_hidden=2, no_bias=True), prefix="")
    net(X)
    net.export(str(tmp_path / "net"))
    file = str(tmp_path / "net-symbol.json")
    with pytest.raises(mx.MXNetError, match=r"net-symbol.json has no input 'nodata'; its inputs .* are data"):
        mx.gluon.SymbolBlock.imports(file, "nodata")
    dense = mx.gluon.nn.Dense(3, in_units=3, prefix="dense_")
    dense.initialize()
    dense.hybridize()
    dense(X)
    dense.export(str(tmp_path / "dense"))
    with pytest.raises(AssertionError, match="Parameter 'dense_weight' is missing in file"):
        mx.gluon.SymbolBlock.imports(str(tmp_path / "dense-symbol.json"), "data", str(tmp_path / "net-0000.params"))
    with pytest.raises(AssertionError, match=r"loaded from file.* is not present in ParameterDict"):
        mx.gluon.SymbolBlock.imports(file, "data", str(tmp_path / "dense-0000.params"))
    mx.gluon.SymbolBlock.imports(file, "data", str(tmp_path / "dense-0000.params"), ignore_extra=True)


# --- checkpoints --------------------------------------------------------------------------------------------


def test_checkpoints(tmp_path):
    prefix = str(tmp_path / "net")
    symbol = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="fc"), name="bn")
    arguments = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.zeros((2,), dtype="float16")}
    states = {"bn_moving_mean": mx.nd.ones((2,))}
    mx.model.save_checkpoint(prefix, 7, symbol, arguments, states)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net-0007.params", "net-symbol.json"]
    loaded, args, aux = mx.model.load_checkpoint(prefix, 7)
    assert loaded.tojson() == symbol.tojson()
    assert list(args) == ["fc_weight", "fc_bias"]
    assert args["fc_bias"].dtype == np.float16
    assert aux["bn_moving_mean"].asnumpy().tolist() == [1, 1]
    assert [list(found) for found in mx.model.load_params(prefix, 7)] == [list(args), list(aux)]
    mx.model.save_checkpoint(prefix, 8, None, {}, {})
    assert mx.model.load_checkpoint(prefix, 8)[1:] == ({}, {})


def test_checkpoints_that_are_none(tmp_path):
    mx.nd.save(tmp_path / "net-0000.params", {"0.weight": mx.nd.ones((1,))})
    with pytest.raises(mx.MXNetError, match=r"no file of a checkpoint: its names .* there is '0.weight'; load_param"):
        mx.model.load_params(str(tmp_path / "net"), 0)
    with pytest.raises(mx.MXNetError, match=r"cannot read .*none-symbol.json"):
        mx.model.load_checkpoint(str(tmp_path / "none"), 0)
