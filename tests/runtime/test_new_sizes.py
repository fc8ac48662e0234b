"""Graphs that are planned with the kernels of other sizes: against a compilation, and against eager results.

These tests verify the IR, as with ``HYBRIDC_VERIFY``: each such graph is compared with one that was compiled.
"""

from __future__ import annotations

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import assume, given, settings

import hybridc as mx
from benchmarks import workloads
from hybridc.compile import new_sizes, targets, trace_key, warm_start
from hybridc.compile.stages import Traced
from hybridc.errors import MXNetError, RecompileError, VerifyError
from hybridc.ir.costs import WORTH_PACKING as ROWS
from hybridc.ir.planned import Position
from hybridc.options import OPTIONS
from hybridc.trace.tracer import Trace, trace_call
from hybridc.transforms.code import kernel_cache
from tests.random_programs import FLOATS, INTEGERS, Net, programs
from tests.slices import EXAMPLES, one_in
from tests.test_random_programs import SETTINGS

SIZES = (4, 9, 2, 7, 3, 1, 0, 17, 2000)
FEW = (4, 9, 7, 3, 1)
ORIGIN = "planned with the kernels that were formed for other sizes"


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    """No graph is known, and the target is the one that plans for new sizes."""
    new_sizes._KINDS.clear()
    for module in (targets, trace_key, warm_start):
        monkeypatch.setattr(module, "OPTIONS", dataclasses.replace(module.OPTIONS, target="llvm"))


def array(*shape):
    rng = np.random.default_rng(sum(shape))
    return mx.nd.array(rng.standard_normal(shape, dtype=np.float32))


def planned(net):
    """How many of a network's graphs were only planned."""
    return sum(graph.origin == ORIGIN for graph in net._cached_graph.graphs())


def results(net, inputs, record):
    """The results of a call, and the gradients of its inputs and parameters."""
    for x in inputs:
        x.attach_grad()
    with mx.autograd.record(train_mode=False) if record else mx.autograd.pause():
        found = net(*inputs)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    if record:
        mx.autograd.backward(found)
        found += [*(x.grad for x in inputs), *(p.grad() for p in net.collect_params().values() if p.grad_req != "null")]
    return [v.asnumpy() for v in found]


def agrees(net, make, sizes, recorded=(False, True)):
    """Whether a network gives what it gives eagerly; how many of its graphs were only planned."""
    for n in sizes:
        for record in recorded:
            net.hybridize(False, clear=False)
            eager = results(net, make(n), record)
            net.hybridize(True, clear=False)
            for got, expected in zip(results(net, make(n), record), eager, strict=True):
                scale = max(1.0, np.abs(expected).max(initial=0))
                np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5 * scale, err_msg=f"size {n}")
    return planned(net)


def arrays_of(inputs):
    return {name: mx.nd.array(a, dtype="float32") for name, a in inputs(np.random.default_rng(3)).items()}


def picked(arrays, names):
    return {name: arrays[name] for name in names.split()}


def mlp():
    return workloads.mlp_net(arrays_of(workloads.mlp_inputs(1, workloads.TINY)), "log_softmax")


@pytest.mark.parametrize("more", [(), pytest.param((13, 8, 5), marks=pytest.mark.long)], ids=str)
def test_mlp(more):
    assert agrees(mlp(), lambda n: [array(n, 32)], SIZES + more) >= 6


@pytest.mark.parametrize(("sizes", "recorded"), [((4, 9, 7), (True,)), (FEW, (False, True))], ids=str)
@pytest.mark.long
def test_encoder(sizes, recorded):
    arrays = arrays_of(workloads.encoder_inputs)
    del arrays["x"]
    assert agrees(workloads.Encoder(arrays), lambda n: [array(n, 16, 256)], sizes, recorded) >= 1


def test_attention():
    assert agrees(workloads.Attention(), lambda n: [array(n, 8, 16, 64) * w for w in (0.1, 0.2, 0.3)], FEW) >= 4


def test_attention_of_other_lengths():
    """The kernels at a tile are made again where a tile has other sizes."""
    assert agrees(workloads.Attention(), lambda n: [array(2, 8, n, 64) * w for w in (0.1, 0.2, 0.3)], (16, 24, 40)) >= 2


def test_tiles_of_an_attention_are_made_once_for_all_batches(monkeypatch):
    """And for no other length of the sequences."""
    made = []
    tiles = kernel_cache.tile_kernels
    monkeypatch.setattr(kernel_cache, "tile_kernels", lambda *given: made.append(given[1]) or tiles(*given))
    monkeypatch.setattr(new_sizes, "OPTIONS", dataclasses.replace(OPTIONS, verify=False))
    net = workloads.Attention()
    net.hybridize()
    counts = []
    for shape in ((12, 8, 64, 64), (9, 8, 64, 64), (10, 8, 64, 64), (10, 8, 96, 64)):
        net(*[array(*shape)] * 3)
        counts.append(len(made))
    assert 0 < counts[0] == counts[1] == counts[2] < counts[3]
    assert planned(net) >= 2


@pytest.mark.long
def test_lstm(monkeypatch):
    for name, value in {"STEPS": 3, "LSTM_IN": 5, "LSTM_OUT": 16}.items():
        monkeypatch.setattr(workloads, name, value)
    weights = picked(arrays_of(workloads.lstm_inputs), "wx wh b")
    assert agrees(workloads.LSTM(weights), lambda n: [array(3, n, 5), array(n, 16), array(n, 16)], FEW) >= 4


def test_custom_operator(monkeypatch):
    monkeypatch.setattr(workloads, "CUSTOM", (24, 40, 8))
    weights = picked(arrays_of(workloads.custom_op_inputs), "w1 b1 w2 b2")
    assert agrees(workloads.TwoLayers(weights), lambda n: [array(n, 24)], FEW) >= 4


@pytest.mark.parametrize(
    ("net", "make", "sizes"),
    [
        (workloads.Chain, lambda n: [array(n, 30), array(n, 30), array(1, 30)], FEW),
        (workloads.GeluBias, lambda n: [array(n, 130), array(130)], (*FEW, 0)),
        (workloads.LayerNorm, lambda n: [array(n, 100), array(100), array(100)], SIZES),
        (workloads.Softmax, lambda n: [array(n, 3, 50)], (*FEW, 0)),
        (workloads.MinMax, lambda n: [array(n, 70)], (*FEW, 2000)),
    ],
)
def test_bound_by_memory(net, make, sizes):
    assert agrees(net(), make, sizes, [net is not workloads.MinMax]) >= len(sizes) // 2


def images():
    """Convolutions, of which Winograd's algorithm takes one, and pools."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1, in_channels=16), nn.BatchNorm(in_channels=16), nn.Activation("relu"))
    net.add(nn.Conv2D(16, 3, strides=2, in_channels=16), nn.MaxPool2D(3, 2, 1), nn.GlobalAvgPool2D())
    net.add(nn.Dense(5, in_units=16))
    net.initialize()
    return net


def test_batches_of_images():
    """What is decided by the size of a batch is decided alike for most, and neither 16 nor 3 is taken for another."""
    assert agrees(images(), lambda n: [array(n, 16, 14, 14)], (2, 3, 9, 1, 0, 16), [False]) >= 3


def test_a_batch_of_one_is_like_others():
    """One image is compiled, of each of two families of sizes, and further numbers of images are planned."""
    net, shapes = images(), {1: (1, 24), 2: (2, 24), 3: (3, 24), 4: (1, 17), 5: (2, 17)}
    assert agrees(net, lambda i: [array(shapes[i][0], 16, *2 * (shapes[i][1],))], shapes, [False]) == 3


@pytest.mark.parametrize(
    ("forward", "count"),
    [
        (lambda F, x: F.transpose(x) + 1, 3),
        (lambda F, x: F.softmax(x, axis=0).sum(axis=0), 3),
        (lambda F, x: F.batch_dot(*[F.reshape(x, (0, 0, -1))] * 2, transpose_b=True), 3),
        (lambda F, x: F.reshape(x, (-1,)) * 2, 3),
        (lambda F, x: F.squeeze(x) * 2, 1),  # a batch of one is none: only a further image of one is planned
        (lambda F, x: F.broadcast_add(x, F.slice_axis(x, axis=0, begin=0, end=1)), 3),
        (lambda F, x: F.reshape(F.transpose(x, (2, 0, 1, 3)), (0, -1)) + 1, 3),
    ],
)
def test_an_axis_of_one(forward, count):
    """It is the axis of a batch, unless an operator does something else to it than to others."""
    net = mx.gluon.nn.HybridLambda(forward)
    shapes = {1: (1, 2, 3, 6), 2: (4, 2, 3, 6), 3: (1, 2, 3, 9), 4: (7, 2, 3, 5)}
    assert agrees(net, lambda i: [array(*shapes[i])], shapes, [False]) >= count


def test_what_is_added_to_each_row_is_no_batch():
    net = mx.gluon.nn.HybridLambda(lambda F, x, b: F.broadcast_add(x, b) * 2)
    shapes = {1: ((4, 5), (1, 5)), 2: ((6, 5), (1, 5)), 3: ((1, 5), (1, 5)), 4: ((3, 5), (3, 5))}
    shapes = {i: [(n, 2, 2, k) for n, k in pair] for i, pair in shapes.items()}
    assert agrees(net, lambda i: [array(*s) for s in shapes[i]], shapes, [False]) == 2


def test_a_further_size_of_images_compiles_nothing():
    """Kernels are given sizes as numbers, also those that bound what a body reads."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1, in_channels=3), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
    net.add(nn.Conv2D(16, 3, strides=2, padding=1, in_channels=16), nn.Activation("relu"), nn.GlobalAvgPool2D())
    net.initialize()
    assert agrees(net, lambda n: [array(2, 3, n, n)], (40, 45, 64, 50), [False]) == 3
    first, *others = [{f.key for f in graph.forward.program.functions_called()} for graph in net._cached_graph.graphs()]
    assert all(keys <= first for keys in others)


@pytest.mark.long
def test_batches_of_images_with_gradients():
    assert agrees(images(), lambda n: [array(n, 16, 14, 14)], (5, 4, 16, 1, 33), [True]) >= 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_means_of_other_sizes(dtype):
    """Over the axis that varies, and beside other numbers of the same dtype."""

    def forward(F, x):
        return F.mean(x, axis=0) * 3 + F.mean(x, axis=1).mean() / 3, F.mean(x)

    net = mx.gluon.nn.HybridLambda(forward)
    rtol = {"float32": 1e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    for n in (8, 11, 300, 3, 8):
        x = mx.nd.array(np.random.default_rng(n).random((n, 4)) + 1, dtype=dtype)
        net.hybridize(active=False, clear=False)
        eager = [v.asnumpy().astype("float64") for v in net(x)]
        net.hybridize(clear=False)
        for got, expected in zip(net(x), eager, strict=True):
            np.testing.assert_allclose(got.asnumpy().astype("float64"), expected, rtol=rtol, err_msg=str(n))
    assert planned(net) == 3


def test_batches_that_train_batch_normalization():
    """Mean, variance and their gradients are over as many elements as the batch has; running means follow."""
    nets = [images(), images()]
    for mine, other in zip(*[net.collect_params().values() for net in nets], strict=True):
        other.set_data(mine.data())
    nets[1].hybridize()
    for n in (9, 12, 11, 10, 9):
        found = []
        for net in nets:
            x = array(n, 16, 14, 14)
            x.attach_grad()
            with mx.autograd.record():
                y = net(x)
            y.backward()
            grads = [p.grad() for p in net.collect_params().values() if p.grad_req != "null"]
            found.append([v.asnumpy() for v in (y, x.grad, *grads, *(p.data() for p in net.collect_params().values()))])
        for expected, got in zip(*found, strict=True):
            np.testing.assert_allclose(
                got, expected, rtol=0, atol=2e-5 * max(1, np.abs(expected).max()), err_msg=str(n)
            )
    assert planned(nets[1]) == 3


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_borders_of_other_sizes(mode):
    """The end of an axis is a number in the body of a kernel."""
    widths = (0, 0, 0, 0, 2, 1, 3, 2)
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.pad(x, mode=mode, pad_width=widths, constant_value=2) * 2)
    found = agrees(net, lambda n: [array(20, 16, n, n + 1)], (14, 9, 17, 19), [False, True])
    assert found >= 3, [g.origin for g in net._cached_graph.graphs()]


def test_positions_in_other_sizes():
    """The body knows where an axis ends."""
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.argmax(x, axis=1) - F.argmin(x, axis=0).sum())
    assert agrees(net, lambda n: [array(n, n + 3)], (8, 5, 30, 11), [False]) == 3


def test_sizes_of_images():
    """Odd ones, too, and of one pixel less than a tile; windows read all of a border, or not."""
    agrees(images(), lambda n: [array(2, 16, n, n + 1)], (14, 11, 15), [False])


def test_second_axis():
    assert agrees(workloads.Softmax(), lambda n: [array(6, n, 9)], FEW) >= 2


def test_training_step():
    def steps(way):
        net = mlp()
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
        loss = mx.gluon.loss.L2Loss()
        step = mx.gluon.TrainStep(net, loss, trainer)
        for n in (8, 12, 10, 5, 17, 3):
            x, y = array(n, 32), array(n, 10)
            if way == "eager":
                with mx.autograd.record():
                    value = loss(net(x), y)
                value.backward()
                trainer.step(n)
            else:
                value = step(x, y)
            yield value.asnumpy()
        yield from (p.data().asnumpy() for p in net.collect_params().values())
        if way != "eager":
            assert ORIGIN in step.explain()

    for got, expected in zip(steps("compiled"), steps("eager"), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.long
def test_random_programs():
    """With another first axis, wherever the operators can take it."""
    found = []

    @settings(**{**SETTINGS, "max_examples": EXAMPLES // 3})
    @given(program=programs(dtypes=FLOATS[1:] * 2 + INTEGERS, sizes=(2, 3, 5, 7, 17)))
    def each(program):
        net = Net(program)
        full = program.inputs[0][0]

        def make(n):
            rng = np.random.default_rng(n)
            shapes = [(n, *s[1:]) if len(s) == len(full) and s[0] != 1 else s for s, _ in program.inputs]
            draws = [rng.integers(0, 9, shape) for shape in shapes]
            return [mx.nd.array(x, dtype=dtype) for x, (_, dtype) in zip(draws, program.inputs, strict=True)]

        try:
            for n in (12, 20, 15):
                net(*make(n))
        except MXNetError:
            assume(False)
        net.hybridize()
        for n in (12, 20, 15, 9, 31):
            net.hybridize(False, clear=False)
            eager = [y.asnumpy() for y in net(*make(n))]
            net.hybridize(True, clear=False)
            for got, expected in zip(net(*make(n)), eager, strict=True):
                kind = expected.dtype
                scale = np.abs(expected).max(initial=1)
                close = 0 if kind.kind in "iu" else 64 * np.finfo(kind).eps * (scale if np.isfinite(scale) else 1)
                np.testing.assert_allclose(got.asnumpy(), expected, rtol=0, atol=close, err_msg=f"{n}: {program}")
        found.append(planned(net))

    each()
    assert sum(n >= 2 for n in found) >= len(found) / 2


# --- what is not guessed ------------------------------------------------------------------------------------


class Part(mx.gluon.HybridBlock):
    """As many rows as there are, but at most six."""

    def forward(self, x):
        return mx.nd.relu(x[: min(6, x.shape[0])]) + 1


class Mean(mx.gluon.HybridBlock):
    """What is divided by follows from the size."""

    def forward(self, x):
        return x.mean(axis=0) + 1


class Half(mx.gluon.HybridBlock):
    """The size of the part is half of that of the whole, rounded down."""

    def forward(self, x):
        return x[: x.shape[0] // 2] * 2


class Pairs(mx.gluon.HybridBlock):
    """As many results as there are pairs of rows."""

    def forward(self, x):
        n = x.shape[0]
        return (x.reshape((n, 1, -1)) * x.reshape((1, n, -1))).reshape((n * n, -1))


@pytest.mark.parametrize(("net", "count"), [(Part, 4), (Mean, 4), (Half, 4), (Pairs, 0)])
def test_only_what_follows_is_planned(net, count):
    """Of ``Part``, 8 is compiled, all others follow: also those of which all rows are taken."""
    assert agrees(net(), lambda n: [array(n, 4)], (8, 11, 9, 5, 4), [False]) == count


FACTOR = [2.0]


@mx.op.register("sized.multiplied")
class Multiplied(mx.op.Elementwise):
    """x times a number from outside"""

    def scalar(self, b, x):
        return b.mul(x, FACTOR[0])


def test_what_an_operator_gives_counts_at_every_size():
    """Whether a size is near to those that were compiled, or far."""
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.multiplied(F.exp(x)))
    for factor, sizes in ((2.0, (4, 6, 8)), (3.0, (7, 9, 70))):
        FACTOR[0] = factor
        for n in sizes:
            net.hybridize(True, clear=False)
            x = mx.nd.zeros((n, 3))
            x.attach_grad()
            with mx.autograd.record():
                y = net(x)
            y.backward()
            for got in (net(x), y, x.grad):
                np.testing.assert_allclose(got.asnumpy(), np.full((n, 3), factor))
            with mx.autograd.record():
                y = mx.nd.multiplied(x)
            y.backward()
            np.testing.assert_allclose(x.grad.asnumpy(), np.full((n, 3), factor))
    assert planned(net)


@mx.op.register("sized.integer_half")
class Halved(mx.op.Composite):
    """The first half of the rows, by a library that knows Python's own integers only"""

    def infer_shape(self, shapes):
        ((n, *rest),) = shapes
        return shapes, [(json.loads(json.dumps(n)) // 2, *rest)]

    def decompose(self, F, x):
        return F.slice_axis(x, axis=0, begin=0, end=x.shape[0] // 2)


def test_operators_that_know_plain_integers_only():
    """What they are in is compiled for each size, and gives what it gives eagerly."""
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.integer_half(F.exp(x)) * 2)
    assert agrees(net, lambda n: [array(n, 3)], (4, 8, 6), [False]) == 0


@mx.op.register("sized.told")
class Told(mx.op.Opaque):
    """x times the place of # in a text"""

    text: str = mx.op.attribute("", "the text")

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, x):
        return x * np.float32(self.text.index("#"))


def test_digits_in_texts_are_no_sizes():
    """Two texts that differ in where they have a number are two graphs."""
    for text in ("at 7 # or", "at # 7 or"):
        net = mx.gluon.nn.HybridLambda(lambda F, x, text=text: F.told(F.exp(x), text=text))
        net.hybridize()
        for n in (4, 6):
            np.testing.assert_array_equal(net(mx.nd.zeros((n, 3))).asnumpy(), np.full((n, 3), text.index("#")))
        assert planned(net) == 1


HUGE = 10**30


@mx.op.register("sized.huge")
class Huge(mx.op.Elementwise):
    """x times an integer that is larger than any size"""

    FACTOR = HUGE

    def scalar(self, b, x):
        return b.mul(x, self.FACTOR)


@pytest.mark.parametrize("more", [0, 1, 5, 10**31], ids=str)
def test_integers_larger_than_any_size_are_no_sizes(monkeypatch, more):
    monkeypatch.setattr(Huge, "FACTOR", HUGE + more)
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.told(F.huge(F.exp(x)), text=f" # {HUGE + more} rows"))
    assert agrees(net, lambda n: [array(n, 3)], (4, 8, 6), [False]) == 2


def test_an_operator_of_a_user_may_be_used_twice():
    """Its definition counts once, for symbolic sizes as for plain ones: of one argument, and of two of one shape."""
    FACTOR[0] = 2.0
    net = mx.gluon.nn.HybridLambda(lambda F, x, y: F.multiplied(F.exp(F.multiplied(x))) + F.multiplied(y))
    assert agrees(net, lambda n: [array(n, 3) * 0.1, array(n, 3)], (4, 8, 6)) == 4


@mx.op.register("sized.first_half")
class FirstHalf(mx.op.Composite):
    """The first half of the rows"""

    def infer_shape(self, shapes):
        ((n, *rest),) = shapes
        return shapes, [(n // 2, *rest)]

    def decompose(self, F, x):
        return F.slice_axis(x, axis=0, begin=0, end=x.shape[0] // 2)


def test_a_definition_for_two_equal_sizes_is_not_for_two_others():
    net = mx.gluon.nn.HybridLambda(lambda F, x, y: F.first_half(F.exp(x)).sum(axis=0) + F.first_half(y).sum(axis=0))
    sizes = ((8, 8), (10, 10), (10, 6), (6, 10), (6, 6), (14, 12))
    counts = [agrees(net, lambda pair: [array(pair[0], 3), array(pair[1], 3)], [pair], [False]) for pair in sizes]
    assert counts == [0, 1, 1, 2, 3, 4]


@mx.op.register("sized.left_to_the_host")
class Left(mx.op.Movement):
    """x, which the host moves where sizes are plain"""

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, x):
        return x

    def move(self, m, x):
        return None if type(x.shape[0]) is int else m.reshape(x, x.shape)


def test_a_rule_that_tells_symbolic_sizes_from_plain_ones():
    """A graph with it is compiled for each size."""
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.left_to_the_host(F.exp(x)))
    assert agrees(net, lambda n: [array(n, 3)], (4, 8, 6), [False]) == 0


def test_a_defect_of_the_compiler_is_raised(monkeypatch):
    """Though without symbolic sizes there would be none."""

    def emit(trace, *given):
        if getattr(trace, "is_symbolic", False):
            raise KeyError("symbolic sizes lead it astray")
        return whole(trace, *given)

    whole = Trace.emit
    monkeypatch.setattr(Trace, "emit", emit)
    with pytest.raises(KeyError, match="astray"):
        graph(mlp(), 4)


@pytest.mark.usefixtures("own_attributes")
def test_attached_attributes():
    """What was made before one was attached is not used after it."""
    net = workloads.Softmax()
    mx.op.set_attr("softmax", f"TNote{id(net)}", "any value")
    assert agrees(net, lambda n: [array(n, 9)], (4, 9, 5), [False]) == 2
    mx.op.set_attr("softmax", f"TOther{id(net)}", "another value")
    assert agrees(net, lambda n: [array(n, 9)], (6, 8, 7), [False]) == 4


def test_one_compilation_makes_a_family():
    """However far a size is, and whichever axes are others; no loop walks an axis of one element, nor of none."""
    net = workloads.Softmax()
    shapes = [(4, 40), (8, 40), (1600, 40), (2, 40), (8, 30), (11, 50), (1, 40), (1, 30), (0, 40), (4, 1)]
    counts = [agrees(net, lambda n: [array(*shapes[n])], [i], [False]) for i in range(len(shapes))]
    assert counts == [0, 1, 2, 3, 4, 5, 5, 6, 6, 6]


class Window(mx.gluon.HybridBlock):
    """Two decisions of Python's: what it does otherwise for another size shows in the trace."""

    def forward(self, x):
        n = x.shape[0]
        return x[: n // 3] * 2 if n % 2 else mx.nd.tanh(x[n // 4 : min(n, 50)])


def test_decisions_of_python():
    assert agrees(Window(), lambda n: [array(n, 4)], (9, 12, 15, 20, 60, 80, 11), [False]) >= 4


class Steps(mx.gluon.HybridBlock):
    """Products of as many rows as there are, which become one if these are few."""

    def hybrid_forward(self, F, x, w):
        return F.stack(*[F.tanh(F.dot(x[i], w)) for i in range(3)])


def launches(net, *inputs):
    """How many kernels a graph launches that is compiled for these arrays alone."""
    return len(Traced(trace_call(net, inputs, False)).optimize().lower("llvm").programs["forward"].launches)


def test_sizes_at_which_the_compiler_decides_otherwise_are_compiled():
    """16 is compiled for all sizes, but for those of more rows than are merged: of these, one is compiled."""
    net, w, found = Steps(), array(5, 7), []
    for n in (16, 32, ROWS, ROWS + 1, 50, 100, 90, ROWS + 2):
        x = array(3, n, 5)
        before = net(x, w).asnumpy()
        net.hybridize(True, clear=False)
        count = planned(net) if found else 0
        np.testing.assert_allclose(net(x, w).asnumpy(), before, rtol=1e-5, atol=1e-5)
        found.append(planned(net) - count)
        made = net._cached_graph.graphs()[-1].forward.program
        assert len(made.launches) == launches(Steps(), x, w), n
        net.hybridize(False, clear=False)
    assert found == [0, 1, 1, 0, 1, 1, 1, 1]


# --- halves, windows, parts --------------------------------------------------------------------------------------

# Each from an array of some rows to one of as many, of half as many or the like, by what Python computes of their
# number: floors and ceilings.
PARTS = (
    lambda F, x, n: x[: n // 2],
    lambda F, x, n: x[n // 2 :],
    lambda F, x, n: x[::2],
    lambda F, x, n: x[1::3],
    lambda F, x, n: x[: n // 2 * 2].reshape((n // 2, 2, -1)).max(axis=1),
    lambda F, x, n: x[: n // 3 * 3].reshape((3, n // 3, -1)).sum(axis=0),
    lambda F, x, n: F.concat(x[n // 2 :], x[: n // 2], dim=0),
    lambda F, x, n: x[: n - 1] * x[1:],
    lambda F, x, n: F.softmax(x, axis=0),
    lambda F, x, n: F.tanh(x) + F.flip(x, axis=0),
    lambda F, x, n: F.dot(x, F.dot(x, x, transpose_a=True)) / n,
)


class Chain(mx.gluon.HybridBlock):
    """Some of ``PARTS`` one after the other, along the first axis or the second of three."""

    def __init__(self, numbers, second):
        super().__init__()
        self.numbers, self.second = numbers, second

    def forward(self, x):
        if self.second:
            return mx.nd.stack(*[self.rows(x[i]) for i in range(2)])
        return self.rows(x)

    def rows(self, x):
        for number in self.numbers:
            x = PARTS[number](mx.nd if isinstance(x, mx.nd.NDArray) else mx.sym, x, x.shape[0])
        return x


@pytest.mark.parametrize("count", one_in(2, [16, 4]))
def test_halves_and_windows_give_what_a_compilation_gives(monkeypatch, count):
    """Also where a number follows from a size by a division that rounds: networks by chance, at sizes by chance."""
    monkeypatch.setattr(new_sizes, "OPTIONS", dataclasses.replace(OPTIONS, verify=False))
    rng = np.random.default_rng(16)
    found = 0
    for _ in range(count):
        numbers = tuple(rng.integers(len(PARTS), size=rng.integers(1, 4)).tolist())
        second, record = bool(rng.integers(2)), bool(rng.integers(2))
        net = Chain(numbers, second)
        net.hybridize()
        sizes = [*(24 * rng.permutation([1, 2, 3])).tolist(), *rng.permutation(np.arange(25, 60))[:3].tolist()]
        for n in sizes:
            inputs = [array(2, n, 4) if second else array(n, 4)]
            ours = results(net, inputs, record)
            kinds = dict(new_sizes._KINDS)
            new_sizes._KINDS.clear()
            fresh = Chain(numbers, second)
            fresh.hybridize()
            for got, expected in zip(ours, results(fresh, inputs, record), strict=True):
                np.testing.assert_array_equal(got, expected, err_msg=f"{numbers}, size {n}")
            new_sizes._KINDS.clear()
            new_sizes._KINDS.update(kinds)
        found += planned(net)
    assert found >= count / 2


# --- what is told, and checked ------------------------------------------------------------------------------


def test_explained():
    net = mlp()
    agrees(net, lambda n: [array(n, 32)], (4, 6, 5), [False])
    assert f"likewise for (float32[6, 32]), (float32[5, 32]): {ORIGIN}; " in net.explain()
    assert "argument 0 has shape (5, 32), compiled before for (6, 32)" in net.explain()
    with mx.no_recompile(), pytest.raises(RecompileError):
        net(array(7, 32))


def traced(net, n):
    return Traced(trace_call(net, [array(n, 32)], False))


def formed(one):
    return one.optimize().form()


def graph(net, n):
    one = traced(net, n)
    return new_sizes.planned_graph(one, formed)


@pytest.mark.parametrize("wrong", ["offset", "numbers", "extent", "arena"])
def test_verification_finds_a_wrong_plan(wrong):
    net = mlp()
    graphs = [graph(net, n) for n in (4, 8, 6)]
    assert graphs[-1].origin == ORIGIN
    compiled = traced(net, 6).optimize().lower().compile()
    new_sizes._compare(graphs[-1], compiled)
    program = graphs[-1].forward.program
    place = next(i for i, (_, region) in enumerate(program.steps) if any(region.numbers))
    function, region = program.steps[place]
    match wrong:
        case "offset":
            first, *others = region.buffers
            region = dataclasses.replace(region, buffers=(Position(first.slot, first.offset + 64), *others))
        case "numbers":
            region = dataclasses.replace(region, numbers=bytes(len(region.numbers)))
        case "extent":
            region = dataclasses.replace(region, extent=region.extent + 1)
        case _:
            program.arena -= 64
    program.steps[place] = (function, region)
    with pytest.raises(VerifyError, match="planned for a new size"):
        new_sizes._compare(graphs[-1], compiled)


def test_verification_finds_kernels_of_a_wrong_size():
    net = mlp()
    made = graph(net, 6)
    ((family,),) = (kind.families for kind in new_sizes._KINDS.values())
    one = traced(net, 6)
    _, numbers = trace_key.without_sizes(one)
    values = family.values(numbers)
    new_sizes._verify(made, one, values, family, new_sizes._family(one, formed))
    other = new_sizes._family(traced(workloads.mlp_net(arrays_of(workloads.mlp_inputs(1, workloads.TINY))), 6), formed)
    with pytest.raises(VerifyError, match="are not those that are formed for these"):
        new_sizes._verify(made, one, values, other, new_sizes._family(one, formed))


def test_builders_are_forgotten():
    """What functions of a plan would be built from has other sizes by the time somebody asks."""
    net = mlp()
    for n in (4, 8, 6):
        found = graph(net, n)
    with pytest.raises(LookupError, match="has no IR"):
        found.forward.program.functions_called()[0].explain("llvm")


def test_nobody_plans_where_stages_are_watched(monkeypatch, tmp_path):
    from hybridc.compile import pipeline

    monkeypatch.setattr(pipeline, "OPTIONS", dataclasses.replace(OPTIONS, dump=str(tmp_path)))
    assert agrees(mlp(), lambda n: [array(n, 32)], (4, 8, 6), [False]) == 0


class Ordered(mx.gluon.HybridBlock):
    """Sorting is a call of the host, whose line is told."""

    def hybrid_forward(self, F, x):
        return F.sort(x, axis=-1) * 2


def test_lines_are_those_of_the_call():
    """Two blocks are of one kind; each graph names the lines of its own."""
    nets = [Ordered(prefix=f"{name}_") for name in ("first", "second")]
    for net, sizes in zip(nets, [(4, 8, 6), (5,)], strict=True):
        assert agrees(net, lambda n: [array(n, 32)], sizes, [False]) == len(sizes) - (net is nets[0])
    source = nets[1]._cached_graph.graphs()[-1].forward.program
    told = [source.source, *source.host_calls, *(call.where for call in source.host_calls_made())]
    assert all("(in second)" in text and "(in first)" not in text for text in told)


def test_threads_plan_at_once():
    """Each with a network of its own, all of one kind: they take turns with the kernels."""
    arrays = arrays_of(workloads.mlp_inputs(1, workloads.TINY))
    sizes = list(range(4, 12))
    expected = {n: workloads.mlp_net(arrays)(array(n, 32)).asnumpy() for n in sizes}
    for n in (8, 12):
        graph(workloads.mlp_net(arrays), n)

    def run(number):
        net = workloads.mlp_net(arrays)
        net.hybridize()
        return [(n, net(array(n, 32)).asnumpy()) for n in sizes[number:] + sizes[:number]]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(run, range(4)):
            for n, y in found:
                np.testing.assert_allclose(y, expected[n], rtol=1e-5, atol=1e-5)


def test_an_axis_of_two_sizes_is_no_size():
    """A maximum is repeated along an axis of two elements: at two the first of the loops is one, at three the next."""

    class Repeated(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.broadcast_to(F.max(x, axis=(0, 1, 2), keepdims=True), shape=(2, 1, 1)) * 2

    agrees(Repeated(), lambda n: [array(n, 2, 3)], (2, 3, 7, 4, 9), [False])


def test_sizes_may_become_equal():
    """Then a compilation takes both for one: the kernels are the same, though it cannot tell which size varied."""

    class Parts(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.sum(x, axis=0), F.reshape(x, shape=(1, x.shape[1], 1, x.shape[2]))

    net = Parts()
    net.hybridize()
    for shape in ((1, 2, 3), (1, 2, 2), (1, 3, 3)):
        x = array(*shape)
        total, parts = net(x)
        np.testing.assert_array_equal(total.asnumpy(), x.asnumpy()[0])
        np.testing.assert_array_equal(parts.asnumpy(), x.asnumpy()[:, :, None])
    assert planned(net) == 2
