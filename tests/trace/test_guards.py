"""What a forward read while it was traced is compared later: a hybridized call gives what an eager one gives."""

from __future__ import annotations

import abc
import argparse
import collections
import dataclasses
import functools
import types
import weakref

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import TraceError
from hybridc.gluon import HybridBlock, nn

X = mx.nd.array([1.0, 2.0])


def block(forward, **attributes):
    """A block of a class of its own, with attributes."""

    class Net(HybridBlock):
        def hybrid_forward(self, F, x):
            return forward(self, F, x)

    net = Net(prefix="net_")
    for name, value in attributes.items():
        setattr(net, name, value)
    return net


def times(number):
    return block(lambda self, F, x: x * number)


@dataclasses.dataclass
class Settings:
    scale: float = 2.0
    inner: object = None


class Slots:
    __slots__ = ("scale",)

    def __init__(self):
        self.scale = 2.0


class Function:
    scale = 2.0

    def __call__(self, x):
        return x * self.scale


class ListWithField(list):
    scale = 2.0


class TextWithField(str):
    scale = 2.0


class Mixin:
    SCALE = 2.0

    def scaled(self, x):
        return x * self.SCALE


class Mixed(Mixin, HybridBlock):
    def hybrid_forward(self, F, x):
        return self.scaled(x)


class Abstract(HybridBlock, abc.ABC):
    SCALE = 2.0

    def hybrid_forward(self, F, x):
        return x * self.SCALE


class Cached(HybridBlock):
    @functools.cached_property
    def scale(self):
        return 2.0

    def hybrid_forward(self, F, x):
        return x * self.scale


def sequential(*blocks):
    net = nn.HybridSequential(prefix="net_")
    net.add(*blocks)
    return net


def parent(child, forward=lambda self, F, x: self.child(x)):
    net = block(forward)
    net.child = child
    return net


def scale_of(path):
    """A block with ``value``, which multiplies by what an expression finds there."""
    return lambda value: block(lambda self, F, x: x * eval(path, {"v": self.value}), value=value)


def patched(net, name, value):
    setattr(net, name, value)


def deep(net):
    net.value.inner.inner.scale = 3.0


def mine(net):
    """The class of a block that has one of its own."""
    return type(net)


# name: how to make a block, and how to change it.
CASES = {
    "deque": (lambda: scale_of("v[0]")(collections.deque([2.0])), lambda n: n.value.__setitem__(0, 3.0)),
    "ordered dict": (lambda: scale_of("v['k']")(collections.OrderedDict(k=2.0)), lambda n: n.value.update(k=3.0)),
    "bytes": (lambda: scale_of("float(v[0])")(bytearray([2])), lambda n: n.value.__setitem__(0, 3)),
    "object": (lambda: scale_of("v.scale")(Settings()), lambda n: patched(n.value, "scale", 3.0)),
    "namespace": (
        lambda: scale_of("v.scale")(types.SimpleNamespace(scale=2.0)),
        lambda n: patched(n.value, "scale", 3.0),
    ),
    "options": (lambda: scale_of("v.scale")(argparse.Namespace(scale=2.0)), lambda n: patched(n.value, "scale", 3.0)),
    "slots": (lambda: scale_of("v.scale")(Slots()), lambda n: patched(n.value, "scale", 3.0)),
    "deep": (lambda: scale_of("v.inner.inner.scale")(Settings(inner=Settings(inner=Settings()))), deep),
    "deep replaced": (
        lambda: scale_of("v.inner.scale")(Settings(inner=Settings())),
        lambda n: patched(n.value, "inner", Settings(3.0)),
    ),
    "object in list": (lambda: scale_of("v[0].scale")([Settings()]), lambda n: patched(n.value[0], "scale", 3.0)),
    "object in dict": (
        lambda: scale_of("v['a'][0].scale")({"a": [Settings()]}),
        lambda n: patched(n.value["a"][0], "scale", 3.0),
    ),
    "class of object": (
        lambda: scale_of("v.scale")(type("Own", (Function,), {})()),
        lambda n: patched(type(n.value), "scale", 3.0),
    ),
    "callable": (
        lambda: block(lambda self, F, x: self.call(x), call=Function()),
        lambda n: patched(n.call, "scale", 3.0),
    ),
    "list with a field": (lambda: scale_of("v.scale")(ListWithField()), lambda n: patched(n.value, "scale", 3.0)),
    "text with a field": (lambda: scale_of("v.scale")(TextWithField()), lambda n: patched(n.value, "scale", 3.0)),
    "hasattr": (
        lambda: block(lambda self, F, x: x * (3.0 if hasattr(self.value, "more") else 2.0), value=Settings()),
        lambda n: patched(n.value, "more", 1),
    ),
    "numpy number": (lambda: scale_of("float(v[0])")(np.array([2.0])), lambda n: n.value.__setitem__(0, 3.0)),
    "array number": (lambda: scale_of("v.asscalar()")(mx.nd.array([2.0])), lambda n: n.value.__setitem__(0, 3.0)),
    "array test": (
        lambda: scale_of("(2.0 if v else 3.0)")(mx.nd.array([2.0])),
        lambda n: n.value.__setitem__(0, 0.0),
    ),
    "class attribute": (
        lambda: patched(mine(n := block(lambda self, F, x: x * self.SCALE)), "SCALE", 2.0) or n,
        lambda n: patched(mine(n), "SCALE", 3.0),
    ),
    "class attribute shadowed": (
        lambda: patched(mine(n := block(lambda self, F, x: x * self.SCALE)), "SCALE", 2.0) or n,
        lambda n: patched(n, "SCALE", 3.0),
    ),
    "property": (
        lambda: patched(mine(n := block(lambda self, F, x: x * self.P)), "P", property(lambda self: 2.0)) or n,
        lambda n: patched(mine(n), "P", property(lambda self: 3.0)),
    ),
    "mixin": (type("Own", (Mixed,), {"SCALE": 2.0}), lambda n: patched(mine(n), "SCALE", 3.0)),
    "abstract": (type("Own", (Abstract,), {}), lambda n: patched(mine(n), "SCALE", 3.0)),
    "forward": (lambda: times(2.0), lambda n: patched(n, "forward", lambda x: x * 3.0)),
    "hybrid_forward": (lambda: times(2.0), lambda n: patched(n, "hybrid_forward", lambda F, x: x * 3.0)),
    "hybrid_forward of class": (
        lambda: times(2.0),
        lambda n: patched(mine(n), "hybrid_forward", lambda self, F, x: x * 3.0),
    ),
    "method": (
        lambda: patched(mine(n := block(lambda self, F, x: self.h(x))), "h", lambda self, x: x * 2.0) or n,
        lambda n: patched(n, "h", lambda x: x * 3.0),
    ),
    "class": (lambda: times(2.0), lambda n: patched(n, "__class__", mine(times(3.0)))),
    "child in dict": (
        lambda: sequential(times(2.0)),
        lambda n: n._children.__setitem__("0", times(3.0)),
    ),
    "child popped": (lambda: sequential(times(2.0), times(3.0)), lambda n: n._children.popitem()),
    "child's forward": (lambda: parent(times(2.0)), lambda n: patched(n.child, "forward", lambda x: x * 3.0)),
    "block in list": (
        lambda: block(lambda self, F, x: self.blocks[0](x), blocks=[scale_of("v")(2.0)]),
        lambda n: patched(n.blocks[0], "value", 3.0),
    ),
    "layer": (
        lambda: nn.LayerNorm(in_channels=2, epsilon=1e-5),
        lambda n: patched(n, "_epsilon", 10.0),
    ),
}


def again(net):
    """What an eager call gives."""
    net.hybridize(False, clear=False)
    value = net(X).asnumpy()
    net.hybridize(True, clear=False)
    return value


@pytest.mark.filterwarnings("ignore:.*unregistered container")
@pytest.mark.parametrize("name", CASES)
def test_what_was_read_is_compared(name):
    make, change = CASES[name]
    net = make()
    net.initialize()
    net.hybridize()
    before = net(X).asnumpy()
    np.testing.assert_allclose(net(X).asnumpy(), before)
    graph = net._cached_graph
    assert graph._traced == 1
    change(net)
    got = net(X).asnumpy()
    np.testing.assert_allclose(got, again(net), rtol=1e-6)
    assert not np.allclose(got, before)


def test_a_block_from_outside():
    inner = scale_of("v")(2.0)
    net = block(lambda self, F, x: inner(x))
    net.hybridize()
    assert net(X).asnumpy().tolist() == [2, 4]
    inner.value = 3.0
    assert net(X).asnumpy().tolist() == [3, 6]


def test_whether_autograd_records():
    net = block(lambda self, F, x: x * (3.0 if mx.autograd.is_recording() else 2.0))
    net.hybridize()
    for _ in range(2):
        assert net(X).asnumpy().tolist() == [2, 4]
        with mx.autograd.record():
            assert net(X).asnumpy().tolist() == [3, 6]
    assert net._cached_graph._traced == 2


def test_a_reason_names_the_way_to_it():
    net = scale_of("v[0].inner.scale")([Settings(inner=Settings())])
    net.hybridize()
    net(X)
    net.value[0].inner.scale = 3.0
    net(X)
    assert "attribute net_value[0].inner.scale changed from 2.0 to 3.0" in net.explain()


def test_objects_are_as_before_after_a_trace():
    value = Settings(inner=Settings())

    def forward(self, F, x):
        assert self.value.__class__ is Settings
        assert self.value == Settings(2.0, Settings())
        return x * self.value.inner.scale

    net = block(forward, value=value)
    net.hybridize()
    net(X)
    assert type(value) is type(value.inner) is Settings
    assert type(net).__mro__[1] is HybridBlock


def test_what_was_not_read_does_not_matter():
    value = Settings()
    net = scale_of("v.scale")(value)
    net.hybridize()
    net(X)
    value.inner = 5
    net(X)
    assert net._cached_graph._traced == 1


@pytest.mark.parametrize("array", [np.array([2.0, 2.0], "f4"), mx.nd.array([2.0, 2.0])], ids=["numpy", "ndarray"])
def test_arrays_that_are_inputs_may_change(array):
    net = scale_of("v")(array)
    net.hybridize()
    net(X)
    array[:] = 3.0
    assert net(X).asnumpy().tolist() == [3, 6]
    assert net._cached_graph._traced == 1
    assert not next(iter(net._cached_graph._entries.values())).unnoticed


def test_a_cached_property_is_read_once():
    net = Cached()
    net.hybridize()
    for n in (1, 2):
        net.other = n
        assert net(X).asnumpy().tolist() == [2, 4]
    assert net._cached_graph._traced == 1


def test_a_parent_behind_a_weak_reference():
    net = parent(block(lambda self, F, x: x * self.up[0]().scale))
    net.scale = 2.0
    net.child.up = [weakref.ref(net)]
    net.hybridize()
    net(X)
    net.scale = 3.0
    assert net(X).asnumpy().tolist() == [3, 6]


# --- state ------------------------------------------------------------------------------------------------------


class Zoneout(HybridBlock):
    """A cell that remembers its result until it is reset."""

    def __init__(self, holder=None):
        super().__init__(prefix="zone_")
        self.state = holder
        self.previous = None

    def reset(self):
        self.previous = None

    def hybrid_forward(self, F, x):
        previous = F.zeros_like(x) if self.previous is None else self.previous
        self.previous = 0.5 * previous + x
        return self.previous


class Unrolled(HybridBlock):
    def __init__(self, resets=True):
        super().__init__(prefix="unrolled_")
        self.cell = Zoneout()
        self.resets = resets

    def hybrid_forward(self, F, x):
        if self.resets:
            self.cell.reset()
        return self.cell(x) + self.cell(2 * x) + self.cell(x)


def test_state_that_every_call_resets():
    net = Unrolled()
    eager = net(X).asnumpy()
    net.hybridize()
    for _ in range(2):
        np.testing.assert_allclose(net(X).asnumpy(), eager, rtol=1e-6)
    net.cell.other = 1  # guards are looked at again
    np.testing.assert_allclose(net(X).asnumpy(), eager, rtol=1e-6)
    assert net._cached_graph._traced == 1
    np.testing.assert_allclose(net(mx.nd.ones((3,))).asnumpy(), again(net)[0] * np.ones(3), rtol=1e-6)
    net.hybridize(False)
    np.testing.assert_allclose(net(X).asnumpy(), eager, rtol=1e-6)


def test_state_without_a_reset_is_refused():
    net = Unrolled(resets=False)
    net.hybridize()
    with pytest.raises(TraceError, match="zone_previous carries a value"):
        net(X)


@pytest.mark.parametrize(
    "keep",
    [
        lambda self, x: setattr(self.value, "inner", x),
        lambda self, x: self.states.update(h=x),
        lambda self, x: self.list.append(x),
    ],
    ids=["object", "dict", "list"],
)
def test_state_elsewhere_is_refused(keep):
    def forward(self, F, x):
        last = self.value.inner, self.states.get("h"), self.list[-1:]
        keep(self, x * 2)
        return x + 1 if last else x

    net = block(forward, value=Settings(), states={}, list=[])
    net.hybridize()
    with pytest.raises(TraceError, match="carries a value"):
        net(X)
