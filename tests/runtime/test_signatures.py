"""When a graph is compiled, why, how many are kept, and when they are freed."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import linecache
import warnings
import weakref

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import HybridBlock, nn
from hybridc.gluon.hybridize import cached_graph


class Scale(HybridBlock):
    """alpha * exp(x)"""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.alpha = 2.0
        self.runs = 0

    def hybrid_forward(self, F, x):
        self.__dict__["runs"] += 1  # not through __setattr__: a count is no change of the block
        return F.exp(x) * self.alpha


def scale(**kwargs):
    net = Scale(prefix="net_", **kwargs)
    net.hybridize()
    return net


def history(net):
    """The reasons that explain() gives, without their numbers."""
    lines = net.explain().splitlines()
    return [line.split(". ", 1)[1] for line in lines if line.startswith("  ") and line.strip()[0].isdigit()]


def test_known_signatures_are_not_traced_again():
    net = scale()
    for _ in range(5):
        for shape in ((3, 4), (5,), (1, 1, 2)):
            net(mx.nd.ones(shape))
    assert net.runs == 3
    assert history(net) == [
        "first call",
        "argument 0 has shape (5,), compiled before for (3, 4)",
        "argument 0 has shape (1, 1, 2), compiled before for (5,)",
    ]


def test_reason_dtype_and_mode():
    net = scale()
    net(mx.nd.ones((2,)))
    net(mx.nd.ones((2,), dtype="float64"))
    with mx.autograd.train_mode():
        net(mx.nd.ones((2,), dtype="float64"))
    assert history(net) == [
        "first call",
        "argument 0 has dtype float64, compiled before for float32",
        "train mode is True, compiled before for False",
    ]


def test_explain_text():
    """A float is read and written; exp and multiply are an operation each."""
    net = scale()
    assert net.explain() == "net is hybridized, but nothing is compiled yet: call it"
    net(mx.nd.ones((3, 4)))
    line = f"test_signatures.py:{inspect.getsourcelines(Scale.hybrid_forward)[1] + 2}"
    origins = ("  planned with the kernels", "  from the cache on the disk")  # if other tests had such a graph
    assert "".join(line for line in net.explain().splitlines(True) if not line.startswith(origins)) == (
        "net: traced once\n"
        "  1. first call\n"
        "signature (float32[3, 4]), predict mode\n"
        "  forward: 1 kernel, 0 of them host calls; arena 0 bytes (0 at once)\n"
        "    kernel fused_exp_multiply: 96 bytes, 24 FLOPs; " + line
    )
    net.hybridize(False)
    assert (
        net.explain()
        == "net is not hybridized: call hybridize(), then the block; a TrainStep has an explain() of its own"
    )


def test_changed_attribute_is_seen_and_named():
    net = scale()
    x = mx.nd.array([0.0, 1.0])
    np.testing.assert_allclose(net(x).asnumpy(), 2 * np.exp([0, 1]), rtol=1e-6)
    net.alpha = 3.0
    np.testing.assert_allclose(net(x).asnumpy(), 3 * np.exp([0, 1]), rtol=1e-6)
    net.alpha = 3.0
    net(x)
    assert net.runs == 2
    assert history(net) == ["first call", "attribute net_alpha changed from 2.0 to 3.0"]
    net.alpha = 3  # of another type: float32 * 3 may differ from * 3.0
    net(x)
    assert history(net)[-1] == "attribute net_alpha was a float, and is 3 now"


def test_unread_attribute_does_not_matter():
    net = scale()
    net(mx.nd.ones((2,)))
    net.other = 1
    net(mx.nd.ones((2,)))
    net.other = 2
    net(mx.nd.ones((2,)))
    assert net.runs == 1


def test_attribute_of_a_child():
    class Outer(HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.inner = Scale(prefix="inner_")

        def hybrid_forward(self, F, x):
            return self.inner(x) + 1

    net = Outer(prefix="outer_")
    net.hybridize()
    x = mx.nd.zeros((2,))
    assert net(x).asnumpy().tolist() == [3, 3]
    net.inner.alpha = -1.0
    assert net(x).asnumpy().tolist() == [0, 0]
    assert history(net)[-1] == "attribute inner_alpha changed from 2.0 to -1.0"


class Reads(HybridBlock):
    """An attribute of any kind, used by a function of it."""

    def __init__(self, value, use):
        super().__init__(prefix="reads_")
        self.value = value
        self.use = use

    def hybrid_forward(self, F, x):
        return self.use(F, x, self.value)


@pytest.mark.parametrize(
    ("old", "new", "use"),
    [
        (True, False, lambda F, x, v: F.exp(x) if v else F.sin(x)),
        ("exp", "sin", lambda F, x, v: getattr(F, v)(x)),
        (None, 2.0, lambda F, x, v: x if v is None else x * v),
        ((1, 2), (1, 3), lambda F, x, v: x * v[1]),
        (np.float32(2), np.float32(3), lambda F, x, v: x * v),
        ([1.0, 2.0], [1.0, 3.0], lambda F, x, v: x * v[1]),
        ({"a": 1.0}, {"a": 2.0}, lambda F, x, v: x * v["a"]),
        (mx.nd.array([1.0, 2.0]), mx.nd.array([3.0, 4.0]), lambda F, x, v: x * v),
        (np.array([1, 2], "f4"), np.array([3, 4], "f4"), lambda F, x, v: x * v),
        ((mx.nd.array([1.0, 2.0]),), (mx.nd.array([3.0, 4.0]),), lambda F, x, v: x * v[0]),
        (abs, float, lambda F, x, v: x * v(-2.0)),
    ],
    ids=["bool", "str", "none", "tuple", "numpy", "list", "dict", "ndarray", "array", "arrays", "function"],
)
def test_replaced_attributes_of_every_kind(old, new, use):
    net = Reads(old, use)
    x = mx.nd.array([1.0, 2.0])
    net.hybridize()
    net(x)
    net.value = new
    expected = Reads(new, use)(x).asnumpy()
    np.testing.assert_array_equal(net(x).asnumpy(), expected)


def test_deleted_attribute():
    class Optional(HybridBlock):
        def hybrid_forward(self, F, x):
            return x * (self.factor if "factor" in self.__dict__ else 1.0)

    net = Optional()
    net.factor = 3.0
    net.hybridize()
    assert net(mx.nd.ones((1,))).asscalar() == 3
    del net.factor
    assert net(mx.nd.ones((1,))).asscalar() == 1


def test_cache_is_bounded_and_the_least_recently_used_goes(monkeypatch):
    options = dataclasses.replace(cached_graph.OPTIONS, cache_entries=2, graph_bytes=0)
    monkeypatch.setattr(cached_graph, "OPTIONS", options)
    net = scale()
    a, b, c = (mx.nd.ones((n,)) for n in (1, 2, 3))
    for x in (a, b, a, c):  # c evicts b, which was used before a
        net(x)
    assert net.runs == 3
    net(a)
    assert net.runs == 3
    assert len(net._cached_graph.graphs()) == 2
    net(b)
    assert net.runs == 4


def test_more_sizes_in_turn_than_the_cache_keeps(monkeypatch):
    monkeypatch.setattr(
        cached_graph, "OPTIONS", dataclasses.replace(cached_graph.OPTIONS, cache_entries=4, graph_bytes=0)
    )
    net = scale()
    xs = [mx.nd.ones((n,)) for n in range(1, 7)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in xs:  # each for the first time
            net(x)
        for x in [*xs[2:], xs[0]]:
            net(x)
    assert "warning" not in net.explain()

    def again():
        for x in xs * 3:
            net(x)

    with pytest.warns(UserWarning, match="more signatures in turn than the 4 .* HYBRIDC_CACHE_ENTRIES") as found:
        again()
    assert len(found) == 1, "once for each block"
    assert found[0].filename == __file__
    assert "warning: its calls have more signatures in turn than the 4" in net.explain()
    assert "it was evicted from the cache, which keeps 4 signatures" in net.explain()


def test_further_signatures_are_kept_while_their_plans_are_small(monkeypatch):
    few = dataclasses.replace(cached_graph.OPTIONS, cache_entries=4)
    monkeypatch.setattr(cached_graph, "OPTIONS", few)
    net = nn.HybridLambda(lambda F, x: F.relu(x) * 2)
    net.hybridize()
    xs = [mx.nd.ones((n, 3)) for n in range(1, 11)]
    for x in xs:
        net(x)
    if net._cached_graph.graphs()[0].plan_bytes is None:
        pytest.skip("plans of this target may be large")
    assert len(net._cached_graph.graphs()) == 10
    assert "evicted" not in net.explain()
    size = sum(graph.plan_bytes for graph in net._cached_graph.graphs())
    monkeypatch.setattr(cached_graph, "OPTIONS", dataclasses.replace(few, graph_bytes=size * 6 // 10))
    net(mx.nd.ones((11, 3)))
    assert 4 < len(net._cached_graph.graphs()) <= 6
    assert "signatures were evicted; " in net.explain()
    for x in (xs[0], xs[-1]):
        np.testing.assert_array_equal(net(x).asnumpy(), np.full(x.shape, 2, np.float32))


def test_graphs_are_freed_with_their_block():
    net = scale()
    x = mx.nd.ones((3,))
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    net(x)
    graphs = [weakref.ref(g) for g in net._cached_graph.graphs()]
    block = weakref.ref(net)
    sources = [name for name in linecache.cache if name.startswith("<hybridc ")]
    del net, y
    gc.collect()
    assert block() is None
    assert [g() for g in graphs] == [None] * len(graphs)
    left = [name for name in linecache.cache if name.startswith("<hybridc ")]
    assert len(left) <= max(0, len(sources) - 2), "the sources of freed programs are kept"


def test_hybridize_again_drops_what_was_compiled():
    net = scale()
    x = mx.nd.ones((3,))
    net(x)
    graph = weakref.ref(net._cached_graph.graphs()[0])
    net.hybridize()
    net.hybridize()
    gc.collect()
    assert graph() is None
    net(x)
    assert net.runs == 2
    net.hybridize(clear=False)
    net(x)
    assert net.runs == 2
    net.hybridize(False)
    net(x)
    assert net.runs == 3


def test_new_child_is_seen():
    net = nn.HybridSequential()
    net.add(nn.Activation("relu"))
    net.hybridize()
    x = mx.nd.array([-1.0, 2.0])
    assert net(x).asnumpy().tolist() == [0, 2]
    net.add(nn.HybridLambda(lambda F, x: x + 1))
    assert net(x).asnumpy().tolist() == [1, 3]


def test_structured_arguments_in_explain():
    class Pair(HybridBlock):
        def hybrid_forward(self, F, xs, y):
            return xs[0] + xs[1] if y is None else xs[0] + y

    net = Pair(prefix="pair_")
    net.hybridize()
    a, b = mx.nd.ones((2,)), mx.nd.ones((2, 1))
    net([a, b], None)
    net([a, b], None)
    net([a, b], a)
    net([b, b], a)
    assert history(net) == [
        "first call",
        "other number or nesting of arguments",
        "argument 0 has shape (2, 1), compiled before for (2,)",
    ]
    assert [line for line in net.explain().splitlines() if line.startswith("signature")] == [
        "signature (float32[2], float32[2, 1]), predict mode",
        "signature (float32[2], float32[2, 1], float32[2]), predict mode",
        "signature (float32[2, 1], float32[2, 1], float32[2]), predict mode",
    ]


def test_explain_lists_host_calls_and_where_they_come_from():
    def forward(F, x):
        return F.sort(F.tanh(x), axis=0) + 1

    net = nn.HybridLambda(forward, prefix="net_")
    net.hybridize()
    x = mx.nd.ones((4,))
    x.attach_grad()
    with mx.autograd.record():
        net(x)
    line = inspect.getsourcelines(forward)[1] + 1
    calls = [text.strip() for text in net.explain().splitlines() if text.strip().startswith("host call")]
    assert calls[0] == f"host call hybrid.sort(axis=0) at {__file__}:{line} (in net)"
    assert [text.strip() for text in net.explain().splitlines() if text.startswith("  forward")] == [
        "forward: 3 kernels, 1 of them host calls; arena 128 bytes (128 at once), 16 of them for the backward; "
        "96 bytes, 8 FLOPs without host calls"
    ]


def test_an_earlier_value_finds_its_graph():
    net = scale()
    x = mx.nd.array([0.0, 1.0])
    for value in (2, 3, None, 3, 2, 3):
        net.alpha = 1.0 if value is None else value
        np.testing.assert_allclose(net(x).asnumpy(), net.alpha * np.exp([0, 1]), rtol=1e-6)
    assert net.runs == 3
    assert len(net._cached_graph.graphs()) == 3
    assert net.explain().count("with attributes of before") == 2


def test_graphs_of_earlier_values_go_first(monkeypatch):
    monkeypatch.setattr(
        cached_graph, "OPTIONS", dataclasses.replace(cached_graph.OPTIONS, cache_entries=3, graph_bytes=0)
    )
    net = scale()
    a, b = mx.nd.ones((1,)), mx.nd.ones((2,))
    net(a)
    for value in (1, 2, 3, 4):
        net.alpha = value
        net(b)
    assert net.runs == 5
    assert len(net._cached_graph.graphs()) == 3
    net(b)
    net.alpha = 3
    net(b)
    assert net.runs == 5
    net.alpha = 1
    net(b)
    assert net.runs == 6
