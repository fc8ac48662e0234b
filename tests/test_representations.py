"""What a prompt and a notebook show of an object: what it is and was made with, in bounded size."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import hybridc as mx
from hybridc import gluon, lr_scheduler, nd, optimizer
from hybridc.gluon import nn
from hybridc.gluon.data import ArrayDataset, BatchSampler, DataLoader, Dataset, FilterSampler, RandomSampler


class Page(HTMLParser):
    """Text, tags and rows of a piece of HTML; it fails where tags do not match."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.text, self.rows = [], [], "", []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.append(tag)
        assert all(not name.startswith("on") for name, _ in attributes)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def shown(thing, most=4000):
    """The page of a thing, which is no larger than ``most`` characters."""
    html = thing._repr_html_()
    assert len(html) < most
    page = Page(html)
    assert not {"script", "style", "iframe", "img", "link"} & {*page.tags}
    return page


def network():
    net = nn.HybridSequential(prefix="mlp_")
    with net.name_scope():
        net.add(nn.Dense(4, in_units=3, activation="relu"), nn.Dense(2, in_units=4))
    net.initialize()
    return net


# --- text --------------------------------------------------------------------------------------------------


RANGE = range(9)
PAIRS = ArrayDataset(np.zeros((9, 2, 3), "float32"), nd.zeros((9,)))
WORDS = gluon.data.SimpleDataset(["a", "b"])
TEXTS = {
    "Adam(learning_rate=0.003, wd=0.01)": lambda: optimizer.Adam(learning_rate=0.003, wd=0.01),
    "Adam(learning_rate=0.001)": lambda: optimizer.Adam(),
    "SGD(learning_rate=0.01, momentum=0.9, clip_gradient=1)": lambda: optimizer.SGD(momentum=0.9, clip_gradient=1),
    "SGD(lr_scheduler=FactorScheduler(base_lr=0.1, step=10, factor=0.5))": lambda: optimizer.SGD(
        lr_scheduler=lr_scheduler.FactorScheduler(10, 0.5, base_lr=0.1)
    ),
    "MultiFactorScheduler(base_lr=0.01, step=[5, 8], factor=0.1)": lambda: lr_scheduler.MultiFactorScheduler(
        [5, 8], 0.1
    ),
    "CosineScheduler(base_lr=0.01, max_update=100, warmup_steps=7)": lambda: lr_scheduler.CosineScheduler(
        100, warmup_steps=7
    ),
    "TopKAccuracy(top_k=5, name='top_k_accuracy_5')": lambda: mx.metric.TopKAccuracy(5),
    "Accuracy()": lambda: mx.metric.Accuracy(),
    "RandomSampler(length=7)": lambda: RandomSampler(7),
    "ArrayDataset(9 items of (float32[2, 3], float32))": lambda: PAIRS,
    "ArrayDataset(9 items of int64[2])": lambda: ArrayDataset(np.zeros((9, 2), "int64")),
    "SimpleDataset(1 item of str)": lambda: gluon.data.SimpleDataset(["a"]),
    "LazyTransformDataset(2 items of len of SimpleDataset(2 items of str))": lambda: WORDS.transform(len),
    "SampledDataset(1 item of SimpleDataset(2 items of str))": lambda: WORDS.take(1),
    "Dataset(items)": lambda: Dataset(),
    "DataLoader(range(0, 9), batch_size=2)": lambda: DataLoader(RANGE, 2),
    "DataLoader(range(0, 9), batch_size=2, shuffle=True, num_workers=1, thread_pool=True)": lambda: DataLoader(
        RANGE, 2, shuffle=True, num_workers=1, thread_pool=True
    ),
    "DataLoader(range(0, 9), batch_size=4, sampler=FilterSampler(), last_batch='discard')": lambda: DataLoader(
        RANGE, 4, sampler=FilterSampler(bool, RANGE), last_batch="discard"
    ),
    "DataLoader(range(0, 9), batch_size=3, shuffle=True)": lambda: DataLoader(
        RANGE, batch_sampler=BatchSampler(RandomSampler(9), 3)
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text):
    assert repr(TEXTS[text]()) == text


@pytest.mark.parametrize("name", sorted(n for n in optimizer.Optimizer.opt_registry if not n.startswith("_")))
def test_every_optimizer_has_one(name):
    made = optimizer.Optimizer.opt_registry[name](learning_rate=0.25, wd=0.5)
    assert repr(made).startswith(f"{type(made).__name__}(learning_rate=0.25")
    assert "wd=0.5" in repr(made)
    assert ["learning_rate", "0.25"] in shown(made).rows


def test_a_schedule_is_not_called():
    schedule = lr_scheduler.FactorScheduler(1, 0.5, base_lr=1.0)
    made = optimizer.SGD(lr_scheduler=schedule)
    made.num_update = 100
    repr(made)
    shown(made)
    assert schedule.base_lr == 1.0


def test_an_optimizer_of_a_user():
    class Mine(optimizer.Optimizer):
        def __init__(self, slope=2, table=None, **kwargs):
            super().__init__(**kwargs)
            self._slope, self.table = slope, table

    assert repr(Mine()) == "Mine(learning_rate=0.01)"
    made = Mine(slope=3, table=np.ones((4, 5)), learning_rate=1)
    assert repr(made) == "Mine(learning_rate=1, slope=3, table=float64[4, 5])"


def test_a_trainer():
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.5}, kvstore=None)
    text = "4 parameters, 26 elements, kvstore=None"  # 4*3 + 4 + 2*4 + 2
    assert repr(trainer) == f"Trainer(Adam(learning_rate=0.5), {text})"
    page = shown(trainer)
    assert text in page.text
    assert ["learning_rate", "0.5"] in page.rows


def stages():
    traced = network().trace(nd.ones((5, 3)))
    optimized = traced.optimize()
    formed = optimized.form("llvm")
    lowered = optimized.lower("llvm")
    return [traced, optimized, optimized.structure(), formed, lowered, lowered.compile()]


def test_stages():
    for stage in stages():
        text = repr(stage)
        assert text.startswith(f"<{type(stage).__name__} mlp-")
        assert "; float32[5, 3], 4 parameters -> float32[5, 2]; print() shows the" in text
        assert " object at " not in text
        assert len(text) < 200
        page = shown(stage, most=60_000)
        assert page.tags[:2] == ["details", "summary"]
        assert str(stage).splitlines()[0] in page.text
    found = stages()
    assert "2 operators" in repr(found[0]) or "3 operators" in repr(found[0])
    kernels = len(found[4].programs["forward"].launches)
    for stage in found[3:]:
        assert f"forward of {kernels} kernel" in repr(stage)


# --- HTML --------------------------------------------------------------------------------------------------


def test_an_array_is_a_table():
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    page = shown(nd.array(x))
    assert page.text.startswith("NDArray float32[3, 4] @cpu(0)")
    np.testing.assert_allclose(np.array(page.rows, "float64"), x, rtol=1e-5)
    assert shown(mx.np.ones((2, 2))).text.startswith("ndarray float32[2, 2]")


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0, 3), (2, 3, 4, 5), (1,) * 9, (20, 10), (7,) * 6])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16", "uint8"])
def test_shapes_and_dtypes(shape, dtype):
    x = np.arange(math.prod(shape)).reshape(shape) % 7
    page = shown(nd.array(x, dtype=dtype), most=9000)
    corner = x[(0,) * max(x.ndim - 2, 0)] if x.size else x[:0]
    expected = corner.reshape((-1, corner.shape[-1]) if corner.ndim else (1, 1)) if x.size else []
    assert [[float(cell) for cell in row] for row in page.rows] == [[*map(float, row)] for row in expected]


def test_a_large_array_shows_its_corner():
    x = nd.zeros((10_000, 1_000))
    x[19, 9] = 5
    page = shown(x, most=8000)
    assert len(page.rows) == 21
    assert {len(row) for row in page.rows} == {11}
    assert page.rows[20] == ["…"] * 11
    assert page.rows[19][9:] == ["5", "…"]


def test_nothing_is_read_but_what_is_shown():
    reads = []

    class Watched(nd.NDArray):
        __slots__ = ()

        def __getitem__(self, key):
            reads.append(key)
            return nd.NDArray.__getitem__(self, key)

        def asnumpy(self):
            raise AssertionError("all of it was read")

    x = Watched(np.zeros((3, 1000, 1000), "float32"))
    x.attach_grad()
    with mx.autograd.record():
        shown(x, most=8000)
    assert reads == [(0, slice(20), slice(10))]


def test_an_array_whose_computation_failed_shows_the_error():
    class Failed(nd.NDArray):
        __slots__ = ()

        def __getitem__(self, key):
            raise mx.MXNetError("the kernel <k> failed")

    page = shown(Failed(np.zeros((3, 3))))
    assert "MXNetError: the kernel <k> failed" in page.text
    assert "k" not in page.tags


def test_sparse_arrays_stay_sparse():
    page = shown(mx.nd.sparse.csr_matrix(np.eye(30)))
    assert "30 of 900 elements stored" in page.text
    page = shown(mx.nd.sparse.row_sparse_array((np.ones((1, 3)), [2]), shape=(5, 3)))
    assert "3 of 15 elements stored" in page.text


def test_a_block_is_a_tree():
    page = shown(network())
    assert "HybridSequential mlp: 4 parameters, 26 elements" in page.text
    assert "(0) Dense(3 -> 4, Activation(relu))" in page.text
    assert ["mlp_dense1_weight", "(2, 4)", "float32", "8"] in page.rows
    assert page.tags.count("details") == 3


def test_resnet_50_is_bounded():
    net = gluon.model_zoo.vision.resnet50_v1()
    page = shown(net, most=100_000)
    sizes = [math.prod(p.shape) for p in net.collect_params().values() if 0 not in p.shape]
    assert f"{len(net.collect_params())} parameters, {sum(sizes):,} elements" in page.text
    assert {row[0] for row in page.rows} == set(net.collect_params())


def test_a_thousand_blocks_are_bounded():
    net = nn.HybridSequential()
    for _ in range(1000):
        net.add(nn.Dense(2))
    page = shown(net, most=120_000)
    assert "… 600 more blocks" in page.text
    params = shown(net.collect_params(), most=120_000)
    assert "… 1,600 more" in params.text


def test_texts_are_escaped():
    net = nn.HybridSequential(prefix="<b>&")
    net.add(nn.HybridLambda(lambda F, x: x, prefix="<script>alert(1)</script>"))
    page = shown(net)
    assert "<b>&" in page.text
    param = gluon.Parameter("<i>w", shape=(2, 3))
    assert shown(param).rows[1][:2] == ["<i>w", "(2, 3)"]
    assert "<b>" in shown(optimizer.SGD(lr_scheduler=type("<b>", (), {"base_lr": 1})())).text


def test_parameters():
    net = nn.Dense(4, prefix="d_")
    net.initialize()
    assert shown(net.weight).rows[1] == ["d_weight", "(4, 0)", "float32", "write", "deferred", "?"]
    page = shown(net.collect_params())
    assert "2 parameters, 4 elements, 1 of shapes not known yet" in page.text
    net(nd.ones((2, 3)))
    assert shown(net.weight).rows[1] == ["d_weight", "(4, 3)", "float32", "write", "cpu(0)", "12"]


def test_html_is_imported_when_something_is_shown():
    script = """
import sys, hybridc as mx
from hybridc.gluon import nn
net = nn.Dense(2, in_units=3); net.initialize(); repr(net); repr(net(mx.nd.ones((1, 3))))
before = [m for m in sys.modules if "html" in m and m.startswith("hybridc")]
net._repr_html_(); mx.nd.ones((2,))._repr_html_()
after = [m for m in sys.modules if "html" in m and m.startswith("hybridc")]
print(before, len(after))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\[\] [1-9]\n", ran.stdout), ran.stdout


def test_iterators_modules_and_composed_transforms():
    data = mx.io.NDArrayIter(np.ones((8, 3)), np.zeros(8), 2)
    assert repr(data) == "NDArrayIter(data=float32[8, 3], softmax_label=float32[8], batch_size=2)"
    made = mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.var("data"), name="softmax"))
    assert repr(made) == "Module(<Symbol softmax>, data, softmax_label; not bound)"
    made.bind(data.provide_data, data.provide_label)
    assert repr(made) == "Module(<Symbol softmax>, data[2, 3], softmax_label[2])"
    both = gluon.data.vision.transforms.Compose([nn.Flatten(), len])
    assert repr(both) == "Compose(\n  (0): Flatten\n  (1): <built-in function len>\n)"


def test_a_warning_of_an_optimizer_names_the_users_line():
    with pytest.warns(UserWarning, match="base_lr") as caught:
        optimizer.SGD(learning_rate=0.1, lr_scheduler=lr_scheduler.CosineScheduler(100))
    assert [w.filename for w in caught] == [__file__]
