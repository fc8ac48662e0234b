"""Parameters under other names: maps from the names of a file, and what is said where they do not fit."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors.numpy

import hybridc as mx
from hybridc.errors import AttributeValueError
from hybridc.gluon import nn

# As torch.nn.Sequential(OrderedDict(fc1=Linear(4, 5), bn=BatchNorm1d(5), fc2=Linear(5, 2))).state_dict() names them.
SHAPES = {
    "fc1.weight": (5, 4),
    "fc1.bias": (5,),
    "bn.weight": (5,),
    "bn.bias": (5,),
    "bn.running_mean": (5,),
    "bn.running_var": (5,),
    "bn.num_batches_tracked": (),
    "fc2.weight": (2, 5),
    "fc2.bias": (2,),
}
LAYERS = {"fc1": "0", "bn": "1", "fc2": "2"}
NORM = {"weight": "gamma", "bias": "beta"}


def ours(name):
    layer, _, kind = name.partition(".")
    if kind == "num_batches_tracked":
        return None
    return f"{LAYERS[layer]}.{NORM.get(kind, kind) if layer == 'bn' else kind}"


@pytest.fixture
def saved(tmp_path):
    """A file of PyTorch's, and its arrays."""
    random = np.random.default_rng(3)
    arrays = {name: random.uniform(0.5, 1.5, shape).astype("f4") for name, shape in SHAPES.items()}
    arrays["bn.num_batches_tracked"] = np.array(7)
    safetensors.numpy.save_file(arrays, tmp_path / "torch.safetensors")
    return str(tmp_path / "torch.safetensors"), arrays


def network():
    net = nn.HybridSequential()
    net.add(nn.Dense(5, in_units=4), nn.BatchNorm(in_channels=5), nn.Dense(2, in_units=5))
    return net


def in_pytorch(x, arrays):
    """What PyTorch's layers say, in double precision: x W^T + b, and (x - mean) / sqrt(var + 1e-5) * weight + bias."""
    a = {name: value.astype(float) for name, value in arrays.items()}
    x = x @ a["fc1.weight"].T + a["fc1.bias"]
    x = (x - a["bn.running_mean"]) / np.sqrt(a["bn.running_var"] + 1e-5) * a["bn.weight"] + a["bn.bias"]
    return x @ a["fc2.weight"].T + a["fc2.bias"]


@pytest.mark.parametrize("as_dict", [False, True])
def test_weights_of_pytorch(as_dict, saved):
    file, arrays = saved
    net = network()
    net.load_parameters(file, name_map={name: ours(name) for name in arrays} if as_dict else ours)
    x = np.linspace(-1, 1, 12).reshape(3, 4)
    np.testing.assert_allclose(net(mx.nd.array(x)).asnumpy(), in_pytorch(x, arrays), rtol=1e-5)
    net.hybridize()
    np.testing.assert_allclose(net(mx.nd.array(x)).asnumpy(), in_pytorch(x, arrays), rtol=1e-5)


def test_weights_by_the_names_of_parameters(saved, tmp_path):
    file, arrays = saved
    net = network()
    own = {name: param.name for name, param in net._collect_params_with_prefix().items()}
    net.collect_params().load(file, name_map=lambda name: own.get(ours(name)))
    np.testing.assert_array_equal(net[0].weight.data().asnumpy(), arrays["fc1.weight"])


def test_what_does_not_fit_is_listed_before_anything_is_loaded(saved):
    file, _ = saved
    net = network()
    net.initialize(mx.init.Zero())
    with pytest.raises(AssertionError) as error:
        net.load_parameters(file, name_map={"fc1.weight": "0.weight"})
    text = str(error.value)
    assert text.startswith(f"Parameter '0.bias' is missing in file '{file}', which contains parameters: ")
    assert "\n7 missing in the file: '0.bias' (nearest: 'bn.bias'), '1.gamma', '1.beta'" in text
    assert "\n8 in the file alone: " in text
    assert "'bn.num_batches_tracked'" in text
    assert "give name_map, a dict or a function from the names of the file" in text
    assert not net[0].weight.data().asnumpy().any()


def test_shapes_that_differ_are_listed(saved):
    file, _ = saved
    net = nn.HybridSequential()
    net.add(nn.Dense(5, in_units=3), nn.BatchNorm(in_channels=5), nn.Dense(3, in_units=5))
    net.initialize(mx.init.Zero())
    with pytest.raises(AssertionError, match=r"shape incompatible expected \(5, 3\) vs saved \(5, 4\)") as error:
        net.load_parameters(file, name_map=ours)
    assert "\n3 of another shape: '0.weight': expected (5, 3) vs saved (5, 4), '2.bias': " in str(error.value)
    assert not net[2].bias.data().asnumpy().any()


def test_extra_names_are_listed(saved):
    file, arrays = saved
    names = {name: ours(name) or "1.count" for name in arrays}
    net = network()
    with pytest.raises(ValueError, match=r"Parameter '1.count' loaded from file .* is not present in ParameterDict"):
        net.load_parameters(file, name_map=names)
    net.load_parameters(file, name_map=names, ignore_extra=True)
    with pytest.raises(ValueError, match="\n3 in the file alone: "):
        net.load_parameters(file, name_map=lambda name: names[name].replace("2.", "3."), allow_missing=True)


def test_maps_that_cannot_be(saved):
    file, _ = saved
    net = network()
    with pytest.raises(AttributeValueError, match=r"name_map has 'fc1.weigth', which is not in .* \(nearest: 'fc1.w"):
        net.load_parameters(file, name_map={"fc1.weigth": "0.weight"})
    with pytest.raises(AttributeValueError, match=r"gives '0.weight' to several arrays of .*: 'fc1.weight', 'fc2.we"):
        net.load_parameters(file, name_map={"fc1.weight": "0.weight", "fc2.weight": "0.weight"})
    with pytest.raises(AttributeValueError, match="name_map must give a name or None, got 3 for 'b"):
        net.load_parameters(file, name_map=lambda name: 3)
