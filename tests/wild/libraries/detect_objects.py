"""SSD and YOLOv3 of GluonCV's zoo, with weights that NumPy draws: what they find in an image."""

import warnings
import zlib

import numpy as np

warnings.filterwarnings("ignore")
if not hasattr(np, "bool"):
    np.bool = bool

import mxnet as mx
from gluoncv import data as gdata
from gluoncv.model_zoo import get_model


def draw(net, scale):
    """Give He's weights from NumPy's generator; those that make boxes and scores are multiplied by a number."""
    for name, param in net.collect_params().items():
        if name.endswith("weight"):
            random = np.random.RandomState(zlib.crc32(name.encode()))
            last = scale if "predictor" in name or "yolooutput" in name else 1
            fan = int(np.prod(param.shape[1:]))
            param.set_data(mx.nd.array(random.normal(0, last * np.sqrt(2 / fan), param.shape)))
        elif name.endswith(("gamma", "beta", "mean", "var")):
            param.set_data(mx.nd.full(param.shape, int(name.endswith(("gamma", "var")))))


def picture():
    x, y = np.meshgrid(np.arange(200), np.arange(160))
    waves = [np.sin(x / 9 + i) * np.cos(y / (7 + i)) for i in range(3)]
    return mx.nd.array((128 + 100 * np.stack(waves, -1)).astype(np.uint8), dtype="uint8")


for name, scale, prepare in (
    ("ssd_512_mobilenet1.0_voc", 5e-3, gdata.transforms.presets.ssd.transform_test),
    ("yolo3_mobilenet1.0_voc", 0.5, gdata.transforms.presets.yolo.transform_test),
    ("yolo3_darknet53_coco", 3e-6, gdata.transforms.presets.yolo.transform_test),
):
    net = get_model(name, pretrained=False, pretrained_base=False)
    net.initialize()
    x, shown = prepare(picture(), short=160)
    print(name, x.shape, shown.shape)
    net(x)
    draw(net, scale)
    net.set_nms(nms_thresh=0.45, nms_topk=100)
    for hybrid in (False, True):
        if hybrid:
            net.hybridize()
        ids, scores, boxes = (each.asnumpy() for each in net(x))
        print(ids.shape, scores.shape, boxes.shape, "found", int((scores > 0).sum()))
        for i in range(5):
            print(int(ids[0, i, 0]), "%.4f" % scores[0, i, 0], " ".join("%.1f" % v for v in boxes[0, i]))
