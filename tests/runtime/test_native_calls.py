"""Calls that are one native call, whatever their signatures: the same results, and what they depend on is seen."""

import threading

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import HybridBlock, nn
from hybridc.options import OPTIONS

NATIVE = OPTIONS.target == "llvm"


class Scaled(HybridBlock):
    """Results of every structure, from arguments of every structure."""

    def __init__(self, structure):
        super().__init__()
        self.structure = structure
        self.factor = 2
        with self.name_scope():
            self.offset = self.params.get("offset", shape=(1,), init="ones")

    def hybrid_forward(self, F, *args, offset):
        flat = [a for arg in args for a in (arg if isinstance(arg, list) else [arg]) if a is not None]
        y = F.broadcast_add(F.add_n(*flat) * self.factor, offset)
        return {"one": y, "list of one": [y], "tuple": (y, -y), "list": [y, -y], "nested": [y, (-y, None)]}[
            self.structure
        ]


def plain(results):
    if isinstance(results, list | tuple):
        return type(results)(map(plain, results))
    return None if results is None else results.asnumpy().tolist()


def scaled(structure):
    """An eager and a hybridized one."""
    found = []
    for compiled in (False, True):
        net = Scaled(structure)
        net.initialize()
        net.hybridize(compiled)
        found.append(net)
    return found


def entries(net):
    return list(net._cached_graph._entries.values())


@pytest.mark.parametrize("structure", ["one", "list of one", "tuple", "list", "nested"])
def test_signatures_in_turn(structure):
    eager, net = scaled(structure)
    a, b = mx.nd.array([1, 2]), mx.nd.array([[3, 4]])
    for args in 3 * [(a,), (b,), ([a, a],), (a, [a, None])]:
        assert plain(net(*args)) == plain(eager(*args))
    for entry, args in zip(entries(net)[-4:], [(a,), (b,), (a, a), (a, a)], strict=True):
        assert (entry.again(args) is not None) == NATIVE
    assert entries(net)[0].again((b,)) is None


def test_one_array_and_a_list_of_it_are_two_signatures():
    class Kind(HybridBlock):
        def hybrid_forward(self, F, x):
            return x[0] * 10 if isinstance(x, list) else x + 1

    net = Kind()
    net.hybridize()
    x = mx.nd.ones((1,))
    for _ in range(3):
        assert net(x).asscalar() == 2
        assert net([x]).asscalar() == 10


def test_what_they_depend_on_is_seen():
    _, net = scaled("tuple")
    xs = [mx.nd.ones((n,)) for n in (1, 2)]
    see = lambda: [net(x)[0].asnumpy()[0] for _ in range(2) for x in xs]  # noqa: E731
    assert see() == [3, 3, 3, 3]
    net.offset.set_data(mx.nd.array([5]))
    assert see() == [7, 7, 7, 7]
    net.factor = 3
    assert see() == [8, 8, 8, 8]
    net.offset.data()[:] = 0
    assert see() == [3, 3, 3, 3]
    net.offset.cast("float64")
    xs = [x.astype("float64") for x in xs]
    assert see() == [3, 3, 3, 3]
    x = xs[0]
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)[0]
    y.backward()
    assert x.grad.asscalar() == 3


def test_train_and_predict_mode_in_turn():
    net = nn.BatchNorm(in_channels=1, momentum=0.5)
    net.initialize()
    net.hybridize()
    x = mx.nd.array([[1], [3]])
    for number in range(1, 4):
        with mx.autograd.train_mode():
            np.testing.assert_allclose(net(x).asnumpy(), [[-1], [1]], rtol=1e-4)
        mean = 2 - 2 * 0.5**number
        np.testing.assert_allclose(net.running_mean.data().asnumpy(), [mean])
        np.testing.assert_allclose(net(mx.nd.array([[mean]])).asnumpy(), [[0]], atol=1e-6)


def test_results_are_new_at_each_call():
    _, net = scaled("list")
    x = mx.nd.ones((2,))
    first, second = net(x), net(x)
    first[0][:] = 7
    assert second[0].asnumpy().tolist() == [3, 3]
    assert net(x)[0].asnumpy().tolist() == [3, 3]


def test_an_executor_reads_its_arrays_at_each_call():
    data, weight = mx.sym.var("data"), mx.sym.var("weight")
    executor = mx.sym.Group([data * weight, data - weight]).bind(
        mx.cpu(), {"data": mx.nd.array([1, 2]), "weight": mx.nd.array([3, 3])}
    )
    outputs = executor.outputs
    for _ in range(2):
        assert [y.asnumpy().tolist() for y in executor.forward()] == [[3, 6], [-2, -1]]
    executor.arg_dict["weight"][:] = 1
    executor.forward(data=mx.nd.array([5, 6]))
    assert [y.asnumpy().tolist() for y in outputs] == [[5, 6], [4, 5]]
    executor.arg_arrays[0] = mx.nd.array([7, 7])
    assert executor.forward()[0].asnumpy().tolist() == [7, 7]


def test_threads_call_signatures_in_turn():
    _, net = scaled("tuple")
    xs = [mx.nd.ones((n,)) for n in (1, 2)]
    wrong = []

    def work():
        for _ in range(200):
            for x in xs:
                if net(x)[1].asnumpy()[0] != -3:
                    wrong.append(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Summed(HybridBlock):
    """x plus what the numbers in containers say."""

    def __init__(self):
        super().__init__()
        self.__dict__["settings"] = {"a": 1, "b": 2}
        self.__dict__["nested"] = [1, [2]]

    def hybrid_forward(self, F, x):
        first = next(iter(self.settings.values()))
        kinds = sum(type(v) is bool for v in self.settings.values())
        return x + (first + 10 * kinds + 100 * self.nested[1][0] + 1000 * len(self.nested))


def test_containers_that_change_in_place_are_seen():
    net = Summed()
    net.hybridize()
    x = mx.nd.zeros((1,))
    see = lambda: [int(net(x).asscalar()) for _ in range(3)]  # noqa: E731
    assert see() == [2201] * 3
    net.settings["a"] = True  # equal, and of another type
    assert see() == [2211] * 3
    net.settings["a"] = 1
    assert see() == [2201] * 3
    net.settings["a"] = net.settings.pop("a")  # another order
    assert see() == [2202] * 3
    net.nested[1][0] = 3
    assert see() == [2302] * 3
    net.nested.append(0)
    assert see() == [3302] * 3
