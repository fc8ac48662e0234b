"""The networks of the model zoo, for MXNet (make_zoo.py) and for hybridc (tests/gluon/test_model_zoo.py)."""

from __future__ import annotations

import numpy as np
from gluon_cases import random

NAMES = [
    *("alexnet", "densenet121", "densenet161", "densenet169", "densenet201", "inceptionv3"),
    *(f"mobilenet{width}" for width in ("1.0", "0.75", "0.5", "0.25")),
    *(f"mobilenetv2_{width}" for width in ("1.0", "0.75", "0.5", "0.25")),
    *(f"resnet{depth}_v{version}" for depth in (18, 34, 50, 101, 152) for version in (1, 2)),
    *("squeezenet1.0", "squeezenet1.1"),
    *(f"vgg{depth}{kind}" for depth in (11, 13, 16, 19) for kind in ("", "_bn")),
]
# Networks that are run, with the sizes of their images.
RUN = {
    "mobilenet0.25": 32,
    "mobilenetv2_0.25": 32,
    "resnet18_v1": 32,
    "resnet18_v2": 32,
    "resnet50_v1": 32,
    "squeezenet1.1": 213,
}
CLASSES = 10


def parameters(net):
    """``[name, shape]`` of each parameter in order, and its name in files."""
    files = {id(param): name for name, param in net._collect_params_with_prefix().items()}
    prefix = len(net.prefix)
    return [[name[prefix:], list(p.shape), files[id(p)]] for name, p in net.collect_params().items()]


def fill(net, mx):
    """Give all parameters fixed values under which no activation vanishes or explodes."""
    for i, (name, param) in enumerate(net.collect_params().items()):
        x = random(*param.shape, seed=i)
        if name.endswith(("gamma", "running_var")):
            x = 1 + x / 4
        elif name.endswith("weight"):
            x = x * np.float32(np.sqrt(6 / np.prod(param.shape[1:])))
        param.set_data(mx.nd.array(x))


def images(mx, size):
    """Two images."""
    return mx.nd.array(random(2, 3, size, size, seed=1000))


def prepared(mx, name):
    """A network that is run, with its parameters, and its images."""
    net = mx.gluon.model_zoo.vision.get_model(name, classes=CLASSES)
    net.initialize()
    x = images(mx, RUN[name])
    net(x)
    fill(net, mx)
    return net, x
