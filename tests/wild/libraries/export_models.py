"""Networks of GluonCV's zoo as models of ONNX, which engines run with the same results."""

import sys
import tempfile
import warnings
import zlib
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")
if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx
from gluoncv.model_zoo import get_model

from tests.onnx.engines import agree

# The shape of the input, and a factor of the weights that make boxes and scores.
NETWORKS = {
    "ssd_512_mobilenet1.0_voc": ((1, 3, 128, 128), 5e-3),
    "yolo3_mobilenet1.0_voc": ((1, 3, 96, 96), 0.5),
    "fcn_resnet50_voc": ((1, 3, 64, 64), 1),
    "simple_pose_resnet18_v1b": ((1, 3, 64, 64), 1),
    "mobilenetv3_small": ((2, 3, 64, 64), 1),
    "resnest14": ((2, 3, 64, 64), 1),
}


def draw(net, scale):
    """Give weights from NumPy's generator."""
    for name, param in net.collect_params().items():
        if name.endswith("weight"):
            random = np.random.RandomState(zlib.crc32(name.encode()))
            last = scale if "predictor" in name or "yolooutput" in name else 1
            fan = int(np.prod(param.shape[1:]))
            param.set_data(mx.nd.array(random.normal(0, last * np.sqrt(2 / fan), param.shape)))
        elif name.endswith(("gamma", "beta", "mean", "var")):
            param.set_data(mx.nd.full(param.shape, int(name.endswith(("gamma", "var")))))


def flat(results):
    """The arrays in nested lists."""
    if isinstance(results, list | tuple):
        return [array for part in results for array in flat(part)]
    return [results.asnumpy()]


for name in sys.argv[1:] or NETWORKS:
    shape, scale = NETWORKS[name]
    of_parts = {"pretrained_base": False} if "_" in name and "v3" not in name else {}
    net = get_model(name, pretrained=False, **of_parts)
    net.initialize()
    x = mx.nd.array(np.random.default_rng(1).normal(size=shape))
    net(x)
    draw(net, scale)
    if hasattr(net, "set_nms"):
        net.set_nms(nms_thresh=0.45, nms_topk=100)
    path = Path(tempfile.mkdtemp()) / "net.onnx"
    net.export_onnx(path, x)
    model = agree(path, [x.asnumpy()], flat(net(x)))
    print(name, len(model.graph.node), "nodes", flush=True)
