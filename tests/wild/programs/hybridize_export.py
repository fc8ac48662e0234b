"""Hybrid networks: the same result eagerly, compiled and from a file; symbols, hooks, shapes."""

import os
import tempfile

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd, sym
from mxnet.gluon import nn

rng = np.random.RandomState(3)


class Net(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super(Net, self).__init__(**kwargs)
        with self.name_scope():
            self.conv = nn.Conv2D(4, kernel_size=3, padding=1)
            self.norm = nn.BatchNorm()
            self.pool = nn.GlobalAvgPool2D()
            self.fc = nn.Dense(3)

    def hybrid_forward(self, F, x):
        x = F.relu(self.norm(self.conv(x)))
        x = F.concat(x, F.negative(x), dim=1)
        return self.fc(self.pool(x)), F.mean(x, axis=(1, 2, 3))


net = Net(prefix="net_")
net.initialize()
x = nd.array(rng.normal(size=(2, 3, 6, 6)))
net(x)
for name, p in sorted(net.collect_params().items()):
    p.set_data(nd.array(abs(rng.normal(0, 0.2, p.shape)) + 0.1 if "var" in name else rng.normal(0, 0.2, p.shape)))


def show(title, outputs):
    print(title, [o.asnumpy().round(4).tolist() for o in outputs])


show("eager", net(x))
net.hybridize()
show("hybrid", net(x))
net.hybridize(static_alloc=True, static_shape=True)
show("static", net(x))

with autograd.record():
    a, b = net(x)
    total = (a * a).sum() + b.sum()
total.backward()
print("total %.4f" % total.asscalar())
for name, p in sorted(net.collect_params().items()):
    if p.grad_req != "null":
        print(name, "%.4f" % p.grad().norm().asscalar())

# Composed of symbols.
y, z = net(sym.var("data"))
print("symbol", y.list_arguments(), y.list_auxiliary_states(), z.list_outputs())
arg_shapes, out_shapes, aux_shapes = y.infer_shape(data=(2, 3, 6, 6))
print("shapes", arg_shapes, out_shapes, aux_shapes)

# Exported and imported.
folder = tempfile.mkdtemp()
net(x)
net.export(os.path.join(folder, "net"))
block = gluon.SymbolBlock.imports(
    os.path.join(folder, "net-symbol.json"), ["data"], os.path.join(folder, "net-0000.params")
)
show("imported", block(x))
block.hybridize()
show("imported, hybrid", block(x))
print("other batch", [o.shape for o in block(nd.ones((5, 3, 6, 6)))])

# Hooks see the calls of blocks.
seen = []
handle = net.fc.register_forward_hook(lambda block, inputs, output: seen.append((block.name, inputs[0].shape)))
net.hybridize(False)
net(x)
handle.detach()
net(x)
print("hooks", seen)


# Control flow of a kind that depends on shapes only.
class Folded(gluon.HybridBlock):
    def __init__(self, steps, **kwargs):
        super(Folded, self).__init__(**kwargs)
        self.steps = steps

    def hybrid_forward(self, F, x):
        for i in range(self.steps):
            x = x / (1 + F.abs(x)) + i
        return x


folded = Folded(3)
folded.hybridize()
print("folded", folded(nd.array([1, -2, 3])).asnumpy().round(5).tolist())
