"""Layers of images with wrong shapes and attributes: one clear error for arrays, in Gluon, compiled, and in symbols."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import recordio
from hybridc.gluon import nn

IMAGES, LINES = (2, 4, 8, 8), (2, 4, 8)
WINDOW = {"kernel": (3, 3), "num_filter": 6}
# Operator, attributes, shapes of inputs by name, and what the error says was got and expected.
WRONG = [
    ("Convolution", WINDOW, {"data": IMAGES, "weight": (6, 3, 3, 3)}, "weight has shape .*, expected .6, 4, 3, 3."),
    ("Convolution", WINDOW, {"data": LINES, "weight": (6, 4, 3, 3)}, "4 axes .NCHW. for kernel=.3, 3., got shape"),
    ("Convolution", {**WINDOW, "num_group": 3}, {"data": IMAGES, "weight": (6, 1, 3, 3)}, "multiple of num_group=3"),
    ("Convolution", {**WINDOW, "kernel": (11, 11)}, {"data": IMAGES, "weight": (6, 4, 11, 11)}, "use a smaller kernel"),
    ("Deconvolution", WINDOW, {"data": IMAGES, "weight": (3, 6, 3, 3)}, "weight has shape .*, expected .4, 6, 3, 3."),
    ("Pooling", {"kernel": (11, 11)}, {"data": IMAGES}, r"kernel=.11, 11. is larger than the image of .8, 8."),
    ("Pooling", {"kernel": (2, 2)}, {"data": LINES}, "must have 4 axes for kernel=.2, 2."),
    ("BatchNorm", {}, {"data": IMAGES, "gamma": (3,)}, "gamma has shape .3,., expected .4,."),
    ("BatchNorm", {"axis": 7}, {"data": IMAGES}, "axis 7 is out of range for data of 4 dimensions"),
    ("InstanceNorm", {}, {"data": IMAGES, "beta": (3,)}, "beta has shape .3,., expected .4,."),
    ("LayerNorm", {}, {"data": IMAGES, "gamma": (3,)}, "gamma has shape .3,., expected .8,."),
    ("GroupNorm", {"num_groups": 2}, {"data": IMAGES, "gamma": (3,)}, "gamma has shape .3,., expected .2,., or .4,."),
    ("GroupNorm", {"num_groups": 3}, {"data": IMAGES}, "axis 1 must be a multiple of num_groups=3"),
]


@pytest.mark.parametrize("unknown", [False, True], ids=["", "of unknown batches"])
@pytest.mark.parametrize(("name", "attributes", "shapes", "message"), WRONG)
def test_wrong_shapes_in_symbols(name, attributes, shapes, message, unknown):
    bias = {"no_bias": True} if "olution" in name else {}
    symbol = getattr(mx.sym, name)(mx.sym.var("data"), name="layer", **attributes, **bias)
    given = {k if k == "data" else f"layer_{k}": v for k, v in shapes.items()}
    if unknown:  # what is wrong is so for any number of images
        given["data"] = (0, *given["data"][1:])
    with pytest.raises(mx.MXNetError, match=f"operator layer: .*{message}"):
        symbol.infer_shape(**given)


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize(("name", "attributes", "shapes", "message"), WRONG)
def test_wrong_shapes_in_layers(name, attributes, shapes, message, hybridize):
    sizes = {"LayerNorm": 8, "GroupNorm": attributes.get("num_groups")}.get(name) or 4
    inputs = {"BatchNorm": ("gamma", "beta", "moving_mean", "moving_var")}.get(name, ("gamma", "beta"))
    shapes = {**(dict.fromkeys(inputs, (sizes,)) if "Norm" in name else {}), **shapes}
    arrays = [mx.nd.zeros(shapes[key]) for key in ("data", "weight", *inputs) if key in shapes]
    bias = {"no_bias": True} if "olution" in name else {}
    net = nn.HybridLambda(lambda F, *x: getattr(F, name)(*x, **attributes, **bias), prefix="layer_")
    net.hybridize(hybridize)
    with pytest.raises(mx.MXNetError, match=message) as caught:
        net(*arrays)
    assert "in layer" in str(caught.value) or "test_bad_images.py" in str(caught.value)


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("layer", [nn.Conv2D, nn.MaxPool2D])
def test_steps_that_do_not_move(layer, hybridize):
    net = layer(2, 3, strides=0, in_channels=4, prefix="layer_") if layer is nn.Conv2D else layer(2, 0, prefix="layer_")
    net.initialize()
    net.hybridize(hybridize)
    with pytest.raises(ValueError, match=r"stride=\(0, 0\) must have 2 numbers of at least 1") as caught:
        net(mx.nd.ones(IMAGES))
    assert "(in layer" in str(caught.value)


@pytest.mark.parametrize("name", ["ROIPooling", "contrib.ROIAlign"])
@pytest.mark.parametrize("image", [2, 1e6, float("nan")])
def test_regions_of_images_that_do_not_exist(name, image):
    """MXNet gives 0, or what lies in memory."""
    data, rois = mx.nd.ones((2, 3, 4, 4)), mx.nd.array([[-1, 0, 0, 3, 3], [image, 0, 0, 3, 3]])
    namespace, _, short = name.rpartition(".")
    pool = getattr(mx.nd.contrib if namespace else mx.nd, short)
    with pytest.raises(mx.MXNetError, match=rf"{short}: rois\[1\] is a region of image .*, but data has 2 images"):
        pool(data, rois, pooled_size=(2, 2), spatial_scale=1)
    of_none = pool(data, rois[:1], pooled_size=(2, 2), spatial_scale=1).asnumpy()
    np.testing.assert_array_equal(of_none, np.zeros((1, 3, 2, 2)))


def test_nothing_of_a_truncated_file_is_given(tmp_path):
    """The records before the damaged one are whole; the damaged one raises, and the file can be read no further."""
    rng = np.random.default_rng(3)
    images = [rng.integers(0, 256, (5, 6, 3)).astype(np.uint8) for _ in range(3)]
    path = str(tmp_path / "images.rec")
    writer = recordio.MXRecordIO(path, "w")
    for i, image in enumerate(images):
        writer.write(recordio.pack_img(recordio.IRHeader(0, float(i), i, 0), image, img_fmt=".png"))
    writer.close()
    (tmp_path / "images.rec").write_bytes((tmp_path / "images.rec").read_bytes()[:-7])
    reader = recordio.MXRecordIO(path, "r")
    for image in images[:2]:
        np.testing.assert_array_equal(recordio.unpack_img(reader.read())[1], image)
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match=r"images\.rec is damaged: .*bytes expected, \d+ left"):
            reader.read()
