"""Networks as models of ONNX, run by ONNX Runtime and OpenVINO."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import onnx
import pytest

import hybridc as mx
from hybridc import nd
from hybridc.errors import AttributeValueError, FileWriteError, OnnxExportError
from hybridc.gluon import nn, rnn
from hybridc.gluon.block import HybridBlock
from tests.onnx.engines import agree, operators


def initialized(net, *shapes, dtype=np.float32):
    mx.random.seed(3)
    net.initialize(mx.init.Xavier())
    rng = np.random.default_rng(2)
    return [nd.array(rng.normal(size=shape).astype(dtype)) for shape in shapes]


def small_network():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(6, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.Flatten())
        net.add(nn.Dropout(0.5), nn.Dense(5))
    return net


def test_a_block_for_any_batch(tmp_path):
    net = small_network()
    (x,) = initialized(net, (2, 3, 8, 8))
    path = tmp_path / "net.onnx"
    net.export_onnx(path, x, dynamic_axes={"data": {0: "batch"}})
    model = agree(path, [x.asnumpy()], [net(x).asnumpy()])
    assert operators(model) >= {"Conv", "BatchNormalization", "MaxPool", "Gemm"}
    assert [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == ["batch", 3, 8, 8]
    assert {i.name for i in model.graph.initializer} >= {"net_conv0_weight", "net_dense0_bias"}
    net.hybridize()
    more = nd.array(np.random.default_rng(5).normal(size=(7, 3, 8, 8)))
    net(more)
    net.export_onnx(tmp_path / "latest.onnx")
    agree(tmp_path / "latest.onnx", [more.asnumpy()], [net(more).asnumpy()])
    agree(path, [more.asnumpy()], [net(more).asnumpy()])


def test_sizes_that_the_forward_computes_vary(tmp_path):
    class Scores(HybridBlock):
        def forward(self, x):
            batch, steps, width = x.shape
            heads = x.reshape((batch, steps, 2, width // 2)).transpose((0, 2, 1, 3))
            rows = heads.reshape((batch * 2, steps, width // 2))
            scores = nd.softmax(nd.batch_dot(rows, rows, transpose_b=True), axis=-1)
            return scores.reshape((batch, 2, steps, steps)).mean(axis=1)

    net = Scores()
    path = tmp_path / "net.onnx"
    net.export_onnx(path, (2, 5, 6), dynamic_axes={"data": {0: "batch", 1: "steps"}})
    for shape in ((2, 5, 6), (1, 9, 6), (4, 3, 6)):
        x = nd.array(np.random.default_rng(5).normal(size=shape))
        agree(path, [x.asnumpy()], [net(x).asnumpy()])


def test_images_of_any_size(tmp_path):
    class Images(HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.small = nn.HybridSequential()
                self.small.add(nn.Conv2D(6, 3, strides=2, padding=1), nn.BatchNorm(), nn.MaxPool2D(2, 2))
                self.large = nn.Conv2DTranspose(4, 4, 2, 1)

        def hybrid_forward(self, F, x):
            y = self.small(x)
            wide = F.UpSampling(self.large(y), scale=2, sample_type="nearest")
            return wide, F.contrib.BilinearResize2D(x, height=9, width=7), F.mean(y, axis=(2, 3))

    net = Images()
    (x,) = initialized(net, (2, 3, 16, 16))
    net.export_onnx(tmp_path / "net.onnx", x, dynamic_axes={"data": {0: "batch", 2: "height", 3: "width"}})
    for shape in ((2, 3, 16, 16), (1, 3, 21, 18)):
        x = nd.array(np.random.default_rng(5).normal(size=shape))
        agree(tmp_path / "net.onnx", [x.asnumpy()], [y.asnumpy() for y in net(x)])


def test_half_precision(tmp_path):
    net = small_network()
    (x,) = initialized(net, (2, 3, 8, 8))
    net.cast("float16")
    net.export_onnx(tmp_path / "net.onnx", x.astype("float16"))
    wanted = net(x.astype("float16")).asnumpy()
    agree(tmp_path / "net.onnx", [x.asnumpy().astype(np.float16)], [wanted], tolerance=2**-9)


@mx.util.use_np
def test_functions_of_numpy(tmp_path):
    class Chosen(HybridBlock):
        def forward(self, x):
            y = mx.np.tanh(x.reshape((x.shape[0], 5, 1))[:, :, 0])
            return mx.np.where(y > 0, y, y * 2).sum(axis=-1), y > 0.5

    net = Chosen()
    path = tmp_path / "net.onnx"
    net.export_onnx(path, mx.np.ones((3, 5)), dynamic_axes={"data": {0: "rows"}})
    for rows in (3, 6):
        x = mx.np.array(np.random.default_rng(5).normal(size=(rows, 5)), dtype="float32")
        agree(path, [x.asnumpy()], [y.asnumpy() for y in net(x)])


def test_an_axis_that_cannot_vary_is_an_error_with_the_line(tmp_path):
    net = nn.Dense(4, flatten=True)
    (x,) = initialized(net, (2, 3))
    with pytest.raises(OnnxExportError, match=r"axis 1 of data cannot vary in the file: FullyConnected"):
        net.export_onnx(tmp_path / "net.onnx", x, dynamic_axes={"data": [1]})
    with pytest.raises(AttributeValueError, match=r"dynamic_axes names 'x'; the inputs are data"):
        net.export_onnx(tmp_path / "net.onnx", x, dynamic_axes={"x": [1]})
    assert not (tmp_path / "net.onnx").exists()


def test_recurrent_networks(tmp_path):
    class Language(HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.embedding = nn.Embedding(20, 8)
                self.layers = rnn.GRU(6, num_layers=2)
                self.scores = nn.Dense(20, flatten=False)

        def hybrid_forward(self, F, words):
            return self.scores(self.layers(self.embedding(words)))

    net = Language()
    initialized(net)
    words = nd.array(np.random.default_rng(2).integers(0, 20, (5, 3)), dtype="int32")
    net.export_onnx(tmp_path / "net.onnx", words)
    model = agree(tmp_path / "net.onnx", [words.asnumpy()], [net(words).asnumpy()])
    assert "GRU" in operators(model)


@pytest.mark.parametrize("layer", [rnn.LSTM(4, bidirectional=True), rnn.RNN(4, activation="relu")])
def test_recurrent_layers(tmp_path, layer):
    (x,) = initialized(layer, (5, 2, 3))
    layer.export_onnx(tmp_path / "net.onnx", x)
    model = agree(tmp_path / "net.onnx", [x.asnumpy()], [layer(x).asnumpy()])
    assert operators(model) & {"LSTM", "RNN"}


def test_loops_and_branches(tmp_path):
    class Sums(HybridBlock):
        def hybrid_forward(self, F, x, state):
            outputs, last = F.contrib.foreach(lambda row, s: (row + s, row * 0.5 + s), x, state)
            count, _ = F.contrib.while_loop(lambda s: F.sum(s) < 40, lambda s: (s, s * 2), last, max_iterations=8)
            return outputs, count, F.contrib.cond(F.sum(state) > 0, lambda: last + 1, lambda: last - 1)

    net = Sums()
    x, state = (nd.array(np.abs(np.random.default_rng(2).normal(size=s))) for s in ((4, 3), (3,)))
    net.export_onnx(tmp_path / "net.onnx", x, state)
    for sign in (1, -1):
        wanted = [y[0] if isinstance(y, list) else y for y in net(x, state * sign)]
        model = agree(
            tmp_path / "net.onnx",
            [x.asnumpy(), state.asnumpy() * sign],
            [y.asnumpy() for y in wanted],
        )
    assert operators(model) >= {"Loop", "If"}


def test_users_operators(tmp_path):
    @mx.op.register("test_onnx.exported_swish")
    class Swish(mx.op.Elementwise):
        beta: float = mx.op.attribute(1.0)

        def scalar(self, b, x):
            return x * b.logistic(x * self.beta)

    @mx.op.register("test_onnx.sorted_twice")
    class SortedTwice(mx.op.Opaque):
        def infer_shape(self, shapes):
            return shapes, [shapes[0]]

        def eager(self, x):
            return np.sort(x)

    assert {Swish.NAME, SortedTwice.NAME} == {"test_onnx.exported_swish", "test_onnx.sorted_twice"}

    class Net(HybridBlock):
        def hybrid_forward(self, F, x):
            return F.sorted_twice(F.exported_swish(x, beta=2.0)) if self.sorts else F.exported_swish(x, beta=2.0)

    net = Net(prefix="net_")
    x = nd.array(np.random.default_rng(2).normal(size=(2, 3)))
    net.sorts = False
    net.export_onnx(tmp_path / "net.onnx", x)
    agree(tmp_path / "net.onnx", [x.asnumpy()], [net(x).asnumpy()])
    net.sorts = True
    with pytest.raises(OnnxExportError, match=r"test_export_networks.py:\d+ \(in net.*sorted_twice cannot be written"):
        net.export_onnx(tmp_path / "net.onnx", x)
    net.export_onnx(tmp_path / "own.onnx", x, own_domain=True)
    model = onnx.load(tmp_path / "own.onnx")
    assert [(n.domain, n.op_type) for n in model.graph.node if n.domain] == [("test_onnx", "sorted_twice")]


def test_parameters_in_a_file_of_their_own(tmp_path):
    net = nn.Dense(64)
    (x,) = initialized(net, (2, 32))
    net.export_onnx(tmp_path / "net.onnx", x, external_data=True)
    assert (tmp_path / "net.onnx.data").stat().st_size >= 64 * 32 * 4
    onnx.checker.check_model(str(tmp_path / "net.onnx"))
    weight = next(i for i in onnx.load(tmp_path / "net.onnx").graph.initializer if i.name.endswith("weight"))
    assert np.array_equal(onnx.numpy_helper.to_array(weight), net.weight.data().asnumpy())


def test_a_failed_write_leaves_the_old_file(tmp_path):
    net = nn.Dense(4)
    (x,) = initialized(net, (2, 3))
    with pytest.raises(FileWriteError, match="there is no folder"):
        net.export_onnx(tmp_path / "none" / "net.onnx", x)


# --- MXNet's functions ------------------------------------------------------------------------------------------------


def classifier():
    data = mx.sym.var("data")
    hidden = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=8, name="fc1"), act_type="relu")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=3, name="fc2"), name="softmax")


def parameters(symbol, **shapes):
    mx.random.seed(4)
    found = zip(symbol.list_arguments(), symbol.infer_shape(**shapes)[0], strict=True)
    return {n: nd.random.normal(shape=s) for n, s in found if n not in shapes and not n.endswith("label")}


def results(symbol, params, x):
    label = {"softmax_label": nd.zeros((len(x),))}
    return [y.asnumpy() for y in symbol.bind(mx.cpu(), {**params, **label, "data": nd.array(x)}).forward()]


@pytest.mark.parametrize("prefix", ["", "arg:"])
def test_symbols_with_their_parameters(tmp_path, prefix):
    symbol = classifier()
    params = parameters(symbol, data=(4, 5))
    path = str(tmp_path / "net.onnx")
    named = {prefix + name: x for name, x in params.items()}
    assert mx.onnx.export_model(symbol, named, [(4, 5)], np.float32, path) == path
    x = np.random.default_rng(2).normal(size=(4, 5)).astype(np.float32)
    model = agree(path, [x], results(symbol, params, x))
    assert [i.name for i in model.graph.input] == ["data"]
    assert [o.name for o in model.graph.output] == ["softmax_output"]
    assert {i.name for i in model.graph.initializer} == {*params}


def test_files_of_symbols(tmp_path):
    net = small_network()
    (x,) = initialized(net, (2, 3, 8, 8))
    net.hybridize()
    wanted = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    files = str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0000.params")
    path = mx.contrib.onnx.export_model(*files, [(2, 3, 8, 8)], np.float32, str(tmp_path / "net.onnx"))
    agree(path, [x.asnumpy()], [wanted])


@pytest.mark.parametrize("shapes", [None, [(None, 5)], [("N", 5)]])
def test_dynamic_sizes_of_symbols(tmp_path, shapes):
    symbol = classifier()
    params = parameters(symbol, data=(4, 5))
    path = mx.onnx.export_model(
        symbol, params, [(4, 5)], onnx_file_path=str(tmp_path / "n.onnx"), dynamic=True, dynamic_input_shapes=shapes
    )
    x = np.random.default_rng(2).normal(size=(7, 5)).astype(np.float32)
    model = agree(path, [x], results(symbol, params, x))
    sizes = model.graph.input[0].type.tensor_type.shape.dim
    assert sizes[0].dim_param == ("N" if shapes == [("N", 5)] else "data_0")
    assert sizes[1].dim_value == 5


def test_shapes_of_all_values_on_request(tmp_path):
    symbol = classifier()
    path = str(tmp_path / "net.onnx")
    mx.onnx.export_model(
        symbol,
        parameters(symbol, data=(4, 5)),
        [(4, 5)],
        np.float32,
        path,
        run_shape_inference=True,
        external_data=True,
    )
    model = onnx.load(path)
    assert len(model.graph.value_info) == len(model.graph.node) - 1
    assert {i.name for i in model.graph.initializer} == {"fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"}


def test_bad_arguments_are_told(tmp_path):
    symbol = classifier()
    params = parameters(symbol, data=(4, 5))
    path = str(tmp_path / "net.onnx")
    with pytest.raises(AttributeValueError, match="opset=9 must be from 13 to"):
        mx.onnx.export_model(symbol, params, [(4, 5)], onnx_file_path=path, opset=9)
    with pytest.raises(AttributeValueError, match="in_types has 2 types for the 1 shapes"):
        mx.onnx.export_model(symbol, params, [(4, 5)], [np.float32] * 2, path)
    with pytest.raises(OnnxExportError, match="fc2_bias is an input, and no parameter; give its shape"):
        mx.onnx.export_model(symbol, {k: v for k, v in params.items() if k != "fc2_bias"}, [(4, 5)], np.float32, path)
    with pytest.raises(TypeError, match="takes a symbol and a dict of its arrays"):
        mx.onnx.export_model(symbol, "net.params", [(4, 5)])


def test_operators_that_can_be_written():
    names = mx.onnx.get_operator_support()
    assert names == importlib.import_module("hybridc.onnx.mx2onnx").get_operator_support(17)
    assert {"Convolution", "RNN", "_contrib_box_nms", "softmax"} <= {*names}
    assert "_contrib_Proposal" not in names


def test_without_the_package_the_extra_is_named():
    program = (
        "import sys; sys.modules['onnx'] = None\n"
        "import hybridc as mx\n"
        "assert 'hybridc.onnx' not in sys.modules\n"
        "net = mx.gluon.nn.Dense(2); net.initialize()\n"
        "try: net.export_onnx('net.onnx', (1, 2))\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'hybridc[onnx]'" in done.stdout


# --- larger networks --------------------------------------------------------------------------------------------------

ZOO = (
    "alexnet densenet121 densenet161 densenet169 densenet201 inceptionv3 mobilenet0.25 mobilenet0.5 mobilenet0.75 "
    "mobilenet1.0 mobilenetv2_0.25 mobilenetv2_0.5 mobilenetv2_0.75 mobilenetv2_1.0 resnet101_v1 resnet101_v2 "
    "resnet152_v1 resnet152_v2 resnet18_v1 resnet18_v2 resnet34_v1 resnet34_v2 resnet50_v1 resnet50_v2 squeezenet1.0 "
    "squeezenet1.1 vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn"
)


@pytest.mark.long
@pytest.mark.parametrize("name", ZOO.split())
def test_the_model_zoo(tmp_path, name):
    net = mx.gluon.model_zoo.vision.get_model(name, classes=10)
    size = 299 if name == "inceptionv3" else 224
    (x,) = initialized(net, (2, 3, size, size))
    net.export_onnx(tmp_path / "net.onnx", x, dynamic_axes={"data": {0: "batch"}})
    agree(tmp_path / "net.onnx", [x.asnumpy()], [net(x).asnumpy()])
    agree(tmp_path / "net.onnx", [x[:1].asnumpy()], [net(x[:1]).asnumpy()], engines=("ONNX Runtime",))


class Encoder(HybridBlock):
    """A layer of BERT: attention of several heads, and two dense layers."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self._heads = heads
        with self.name_scope():
            self.given = nn.Dense(3 * width, flatten=False)
            self.out = nn.Dense(width, flatten=False)
            self.first = nn.LayerNorm()
            self.wide = nn.Dense(4 * width, flatten=False)
            self.narrow = nn.Dense(width, flatten=False)
            self.second = nn.LayerNorm()

    def hybrid_forward(self, F, x):
        mixed = self.given(x)
        scores = F.softmax(F.contrib.interleaved_matmul_selfatt_qk(mixed, heads=self._heads), axis=-1)
        seen = F.contrib.interleaved_matmul_selfatt_valatt(mixed, scores, heads=self._heads)
        x = self.first(x + self.out(seen))
        return self.second(x + self.narrow(F.LeakyReLU(self.wide(x), act_type="gelu")))


def test_an_encoder_for_any_batch_and_length(tmp_path):
    net = Encoder()
    (x,) = initialized(net, (5, 2, 16))
    net.export_onnx(tmp_path / "net.onnx", x, dynamic_axes={"data": {0: "steps", 1: "batch"}})
    model = agree(tmp_path / "net.onnx", [x.asnumpy()], [net(x).asnumpy()])
    assert operators(model) >= {"LayerNormalization", "Gelu", "Softmax", "MatMul"}
    longer = nd.array(np.random.default_rng(5).normal(size=(9, 3, 16)))
    agree(tmp_path / "net.onnx", [longer.asnumpy()], [net(longer).asnumpy()])


def test_quantized_networks(tmp_path):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(6, 3, padding=1, activation="relu"), nn.MaxPool2D(), nn.Flatten(), nn.Dense(5))
    (x,) = initialized(net, (4, 3, 8, 8))
    batches = mx.io.NDArrayIter(x, batch_size=4)
    quantized = mx.contrib.quantization.quantize_net_v2(net, "auto", calib_data=batches, calib_mode="naive")
    quantized.export_onnx(tmp_path / "net.onnx", x)
    results = [x.asnumpy()], [quantized(x).asnumpy()]
    model = agree(tmp_path / "net.onnx", *results, engines=("ONNX Runtime",))
    # OpenVINO divides by scales in another order, so that an integer may differ by one: 0.008 of the largest result.
    agree(tmp_path / "net.onnx", *results, engines=("OpenVINO",), tolerance=0.02)
    assert operators(model) >= {"QuantizeLinear", "DequantizeLinear", "Conv"}
    assert sum(i.data_type == onnx.TensorProto.INT8 for i in model.graph.initializer) >= 2


@pytest.mark.parametrize("opset", [13, 17, 24])
def test_networks_at_other_opsets(tmp_path, opset):
    for net, shape in ((small_network(), (2, 3, 8, 8)), (Encoder(), (5, 2, 16))):
        (x,) = initialized(net, shape)
        net.export_onnx(tmp_path / "net.onnx", x, opset=opset)
        model = agree(tmp_path / "net.onnx", [x.asnumpy()], [net(x).asnumpy()], engines=("ONNX Runtime",))
        assert [entry.version for entry in model.opset_import] == [opset]
        assert ("LayerNormalization" in operators(model)) == (opset >= 17 and isinstance(net, Encoder))
