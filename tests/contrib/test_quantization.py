"""Quantized operators beside MXNet 1.9.1, and networks that run on integers near those on real numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn
from tests.golden import contrib_cases as cases

quantization = mx.contrib.quantization

# oneDNN has 127.5 and 255.5 steps where others have 127 and 255: relative to the largest number.
STEPS = 1.01 * (0.5 / 127)


def test_operators_as_in_mxnet():
    found = cases.quantized(mx)
    with np.load(Path(__file__).parents[1] / "golden" / "contrib.npz") as golden:
        assert found.keys() == {name for name in golden.files if name.startswith("quantized.")}
        for name, value in found.items():
            wanted = golden[name]
            assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape), name
            if name.startswith("quantized.conv.unsigned") and not name.endswith("0"):
                wanted = wanted * 127 / 255  # it takes the range of signed integers for unsigned ones
            step = 1 if value.dtype in (np.int8, np.uint8) else 0
            share = 0.01 if name.startswith("quantized.entropy") else STEPS  # it sums in float32
            tolerance = max(step, share * np.abs(wanted.astype(float)).max())
            np.testing.assert_allclose(value.astype(float), wanted, rtol=0, atol=tolerance, err_msg=name)


class Net(mx.gluon.HybridBlock):
    """Two branches that are added and joined."""

    def __init__(self):
        super().__init__(prefix="net_")
        with self.name_scope():
            self.first = nn.Conv2D(8, 3, padding=1, activation="relu", in_channels=3)
            self.second = nn.Conv2D(8, 3, padding=1, in_channels=8)
            self.largest, self.mean, self.flat = nn.MaxPool2D(2), nn.AvgPool2D(2), nn.Flatten()
            self.dense = nn.Dense(10, in_units=256)

    def hybrid_forward(self, F, x):
        y = self.first(x)
        z = self.second(y)
        y = self.largest(F.Activation(y + z, act_type="relu"))
        return self.dense(self.flat(F.concat(y, self.mean(z), dim=1)))


@pytest.fixture(scope="module")
def network():
    mx.random.seed(3)
    net = Net()
    net.initialize(mx.init.Xavier())
    x = np.random.default_rng(0).normal(size=(16, 3, 8, 8)).astype(np.float32)
    loader = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(x, np.arange(16, dtype=np.float32)), 8)
    return net, mx.nd.array(x), loader, net(mx.nd.array(x)).asnumpy()


def operators(symbol):
    return {node["op"] for node in __import__("json").loads(symbol.tojson())["nodes"]} - {"null"}


@pytest.mark.parametrize(
    ("mode", "dtype"),
    [("none", "int8"), ("naive", "auto"), pytest.param("entropy", "auto", marks=pytest.mark.long)],
)
def test_networks(network, mode, dtype):
    net, x, loader, wanted = network
    data = {"data_shapes": [(8, 3, 8, 8)]} if mode == "none" else {"calib_data": loader}
    made = quantization.quantize_net_v2(net, quantized_dtype=dtype, calib_mode=mode, **data)
    found = made(x).asnumpy()
    assert np.linalg.norm(found - wanted) < (0.06 if mode == "entropy" else 0.04) * np.linalg.norm(wanted)
    real = {name for name in operators(made.symbol) if not name.startswith("_contrib_")}
    assert not real, "all of this network runs on integers"
    assert {np.dtype(p.dtype).name for n, p in made.collect_params().items() if n.endswith("quantize")} == {"int8"}


@pytest.mark.long
def test_hybridized(network):
    net, x, _, wanted = network
    made = quantization.quantize_net_v2(net, data_shapes=[(8, 3, 8, 8)])
    found = made(x).asnumpy()
    made.hybridize()
    np.testing.assert_allclose(made(x).asnumpy(), found, atol=0.02 * np.abs(wanted).max())


def test_excluded_layers(network):
    net, x, _, wanted = network
    shapes = [mx.io.DataDesc("data", x.shape)]
    made = quantization.quantize_net_v2(
        net, exclude_layers_match=["dense"], exclude_operators=["Pooling"], data_shapes=shapes
    )
    assert {"FullyConnected", "Pooling"} <= operators(made.symbol)
    assert "_contrib_quantized_conv" in operators(made.symbol)
    assert np.linalg.norm(made(x).asnumpy() - wanted) < 0.04 * np.linalg.norm(wanted)


@pytest.mark.long
def test_models_and_calibration_by_hand():
    sym = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=16, name="a"), act_type="relu")
    sym = mx.sym.FullyConnected(sym, num_hidden=4, name="b")
    rng = np.random.default_rng(2)
    shapes = dict(zip(sym.list_arguments(), sym.infer_shape(data=(32, 8))[0], strict=True))
    args = {name: mx.nd.array(rng.normal(size=shape)) for name, shape in shapes.items()}
    x = args.pop("data")

    def run(symbol, arguments):
        return symbol.eval(data=x, **arguments)[0].asnumpy()

    wanted = run(sym, args)
    qsym, qargs, states, collector = quantization.quantize_graph(sym, args, {}, calib_mode="naive")
    executor = sym.bind(mx.cpu(), {"data": x, **args}, grad_req="null")
    executor.set_monitor_callback(collector.collect, monitor_all=True)
    executor.forward()
    assert collector.min_max_dict["data"] == (pytest.approx(x.min().asscalar()), pytest.approx(x.max().asscalar()))
    qsym, qargs, states = quantization.calib_graph(qsym, args, states, collector, "naive")
    found = run(mx.sym.load_json(qsym.tojson()), qargs)
    assert np.linalg.norm(found - wanted) < 0.03 * np.linalg.norm(wanted)
    batches = mx.io.NDArrayIter(x, batch_size=8)
    made, qargs, _ = quantization.quantize_model(sym, args, {}, calib_mode="entropy", calib_data=batches)
    assert operators(made) == {
        *("_contrib_quantize_v2", "_contrib_quantized_fully_connected", "_contrib_requantize"),
        *("_contrib_quantized_act", "_contrib_dequantize"),
    }
    assert np.linalg.norm(run(made, qargs) - wanted) < 0.06 * np.linalg.norm(wanted)


def test_histograms_grow():
    first, second = np.array([0.5, -1.0, 0.25]), np.array([3.0, -0.2])
    counts, edges = np.histogram(first, 5, (-1, 1))
    known = counts, edges, -1.0, 0.5, 1.0
    counts, edges, least, most, reach = quantization.combine_histogram(known, second, -0.2, 3.0, 3.0)
    assert (counts.sum(), least, most) == (5, -1.0, 3.0)
    assert reach >= 3
    assert (len(counts) % 2, len(edges)) == (1, len(counts) + 1)
    np.testing.assert_allclose(np.diff(edges), 0.4)
    with_more = quantization.combine_histogram((counts, edges, least, most, reach), first, -1.0, 0.5, 1.0)
    assert with_more[0].sum() == 8


def test_bad_use(network):
    net, _, _, _ = network
    x = mx.sym.var("data")
    for given, error in (
        ({"quantized_dtype": "int4"}, "quantized_dtype must be 'int8', 'uint8' or 'auto', got 'int4'"),
        ({"quantize_mode": "some"}, "quantize_mode must be 'full' or 'smart'"),
        ({"calib_mode": "guess"}, "calib_mode must be one of none, naive, entropy, customize"),
        ({"excluded_sym_names": "x"}, "excluded_sym_names must be a list of names, got str"),
        ({"ctx": [mx.cpu()]}, "currently only supports single ctx"),
    ):
        with pytest.raises(ValueError, match=error):
            quantization.quantize_graph(x, {}, {}, **given)
    with pytest.raises(ValueError, match="data_shapes are required"):
        quantization.quantize_net_v2(net)
    with pytest.raises(ValueError, match="calib_data must be provided"):
        quantization.quantize_net_v2(net, calib_mode="naive", data_shapes=[(8, 3, 8, 8)])
    with pytest.raises(mx.MXNetError, match="'channel-wise' is not supported"):
        quantization.quantize_graph(x, {}, {}, quantize_granularity="channel-wise")
    with pytest.raises(AttributeError, match="RNN on real numbers is here"):
        _ = mx.nd.contrib.quantized_rnn
