"""The model zoo has the parameters of MXNet 1.9.1's (tests/golden/make_zoo.py), and gives what they give there."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon.model_zoo import model_store, vision
from tests.slices import but

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

from zoo_cases import CLASSES, NAMES, RUN, images, parameters, prepared  # noqa: E402

WANTED = json.loads(gzip.decompress((GOLDEN / "zoo.json.gz").read_bytes()))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_have_the_names_shapes_and_order_of_mxnet(name):
    assert parameters(vision.get_model(name)) == WANTED["parameters"][name]


@pytest.mark.parametrize("name", RUN)
def test_outputs_are_those_of_mxnet(name):
    assert_outputs(name, hybrid=False)


@pytest.mark.parametrize("name", but([n for n in RUN if n not in ("resnet18_v2",)], RUN))
def test_hybridized_outputs_are_those_of_mxnet(name):
    assert_outputs(name, hybrid=True)


def assert_outputs(name, hybrid):
    net, x = prepared(mx, name)
    net.hybridize(hybrid)
    want = np.array(WANTED["outputs"][name])
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


def test_all_models_are_there():
    for name in NAMES:
        function = name.replace(".", "_").replace("inceptionv3", "inception_v3").replace("mobilenetv2", "mobilenet_v2")
        assert callable(getattr(vision, function))
    with pytest.raises(ValueError, match=r"Model resnet51_v1 is not supported[^z]*\n\tresnet50_v1\n\tresnet50_v2"):
        vision.get_model("resnet51_v1")
    with pytest.raises(mx.MXNetError, match=r"Invalid number of layers: 19\. Options are \[18, 34, 50, 101, 152\]"):
        vision.get_resnet(1, 19)
    with pytest.raises(mx.MXNetError, match=r"get_vgg: num_layers must be one of \[11, 13, 16, 19\], got 12"):
        vision.get_vgg(12)
    with pytest.raises(mx.MXNetError, match=r"Unsupported SqueezeNet version 2\.0"):
        vision.SqueezeNet("2.0")


def test_small_images_and_other_widths():
    net = vision.get_resnet(2, 18, thumbnail=True, classes=3)
    assert net.features[1].weight.shape == (64, 0, 3, 3)
    assert vision.get_mobilenet(0.3).features[0].weight.shape == (9, 0, 3, 3)
    assert vision.get_mobilenet_v2(2.0).features[-3].params.get("gamma").shape == (0,)


def test_pretrained_reads_a_file(tmp_path):
    net = vision.squeezenet1_1(classes=CLASSES)
    net.initialize()
    net(images(mx, RUN["squeezenet1.1"]))
    net.save_parameters(str(tmp_path / "squeezenet1.1-0123abcd.params"))
    loaded = vision.get_model("squeezenet1.1", classes=CLASSES, pretrained=True, root=str(tmp_path), ctx=mx.cpu())
    np.testing.assert_array_equal(loaded.features[0].weight.data().asnumpy(), net.features[0].weight.data().asnumpy())
    net.save_parameters(str(tmp_path / "squeezenet1.1.params"))
    with pytest.raises(
        mx.MXNetError, match=r"squeezenet1.1-0123abcd.params, squeezenet1.1.params in .* might be meant"
    ):
        model_store.get_model_file("squeezenet1.1", root=tmp_path)


def test_a_missing_file_is_told_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    wanted = r"nothing is downloaded: put vgg16-e660d456\.params of MXNet's model zoo, or .* into " + str(tmp_path)
    with pytest.raises(mx.MXNetError, match=wanted):
        vision.vgg16(pretrained=True)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "vgg16-e660d456.params").write_bytes(b"abc")
    with pytest.raises(mx.MXNetError, match=r"damaged: its SHA-1 is a9993e36.* and not e660d456"):
        vision.vgg16(pretrained=True)
    model_store.purge()
    assert not list((tmp_path / "models").iterdir())
