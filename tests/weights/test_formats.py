"""Arrays in safetensors and npz: what the format's own library and NumPy write and read."""

from __future__ import annotations

import json
import os
import stat

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open

import hybridc as mx
from hybridc.errors import FileFormatError
from hybridc.gluon import nn

DTYPES = ("float32", "float64", "float16", "bfloat16", "uint8", "int32", "int8", "int64", "bool", "int16", "uint16")
DTYPES += ("uint32", "uint64")
SHAPES = {"matrix": (3, 4), "none": (0, 3), "scalar": (), "odd": (5,), "deep": (1, 2, 1, 3)}


def array(shape, dtype):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7
    return np.asarray(values, getattr(ml_dtypes, dtype, dtype))


ARRAYS = {f"{dtype}.{name}": array(shape, dtype) for dtype in DTYPES for name, shape in SHAPES.items()}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        value = found[name].asnumpy() if isinstance(found[name], mx.nd.NDArray) else found[name]
        assert (value.dtype, value.shape) == (x.dtype, x.shape), name
        assert value.tobytes() == x.tobytes(), name


def of(arrays):
    return {name: mx.nd.array(x, dtype=x.dtype) for name, x in arrays.items()}


def test_reads_what_the_library_of_safetensors_writes(tmp_path):
    safetensors.numpy.save_file(ARRAYS, tmp_path / "a.safetensors")
    assert_same(mx.nd.load(tmp_path / "a.safetensors"), ARRAYS)


def test_the_library_of_safetensors_reads_what_is_written(tmp_path):
    mx.nd.save(tmp_path / "a.safetensors", of(ARRAYS), metadata={"who": "hybridc", "ß": "ü"})
    assert_same(safetensors.numpy.load_file(tmp_path / "a.safetensors"), ARRAYS)
    with safe_open(tmp_path / "a.safetensors", "numpy") as file:
        assert file.metadata() == {"who": "hybridc", "ß": "ü"}
    assert mx.nd.load_metadata(tmp_path / "a.safetensors") == {"who": "hybridc", "ß": "ü"}
    assert list(mx.nd.load(tmp_path / "a.safetensors")) == list(ARRAYS)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_reads_what_numpy_writes(save, tmp_path):
    further = {
        "columns": np.asfortranarray(array((3, 4), "float32")),
        "big": array((3,), "int32").astype(">i4"),
        "part": array((6,), "float64")[::2],
    }
    save(tmp_path / "a.npz", **ARRAYS, **further)
    expected = {**ARRAYS, **further, "columns": array((3, 4), "float32"), "big": array((3,), "int32")}
    assert_same(mx.nd.load(tmp_path / "a.npz"), {name: np.array(x, order="C") for name, x in expected.items()})


def test_numpy_reads_what_is_written(tmp_path):
    mx.nd.save(tmp_path / "a.npz", of(ARRAYS))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        found = {name: file[name] for name in file.files}
    halves = {name: x for name, x in found.items() if x.dtype == "V2"}
    assert halves.keys() == {name for name in ARRAYS if name.startswith("bfloat16")}
    assert_same({**found, **{name: x.view(ml_dtypes.bfloat16) for name, x in halves.items()}}, ARRAYS)


@pytest.mark.parametrize("file", ["a.safetensors", "a.npz"])
def test_eight_bits(file, tmp_path):
    eight = {"w": array((4, 3), "float8_e4m3fn")}
    mx.nd.save(tmp_path / file, of(eight))
    assert_same(mx.nd.load(tmp_path / file), eight)


def test_arrays_are_the_mapped_file(tmp_path):
    path = tmp_path / "a.safetensors"
    safetensors.numpy.save_file({"w": array((1 << 18,), "float32"), "b": array((4,), "float32")}, path)
    before = path.read_bytes()
    w, b = (mx.nd.load(path)[name] for name in ("w", "b"))
    with open("/proc/self/maps") as maps:
        assert str(path) in maps.read()
    w[:] = 5
    b += 1
    assert w.asnumpy().min() == 5
    assert b.asnumpy().tolist() == [1, 2, 3, 4]
    assert path.read_bytes() == before
    assert mx.nd.load(path)["w"].asnumpy().max() == 6
    path.unlink()
    assert w.asnumpy().max() == 5


def test_mapped_arrays_run_and_train(tmp_path):
    x, w = array((2, 5), "float32"), array((3, 5), "float32") / 7
    safetensors.numpy.save_file({"odd": np.ones(3, "bool"), "x": x, "w": w}, tmp_path / "a.safetensors")
    loaded = mx.nd.load(tmp_path / "a.safetensors")

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, w):
            return F.dot(x, w, transpose_b=True).tanh()

    net = Net()
    net.hybridize()
    loaded["w"].attach_grad()
    with mx.autograd.record():
        y = net(loaded["x"], loaded["w"])
    y.backward()
    expected = np.tanh(x.astype(float) @ w.astype(float).T)
    np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(loaded["w"].grad.asnumpy(), (1 - expected**2).T @ x, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("ending", [".safetensors", ".npz", ".params", "", ".0", ".ndarray", ".bin", ".SafeTensors"])
def test_every_interface_takes_every_ending(ending, tmp_path):
    name = str(tmp_path / f"a{ending}")
    net, other = nn.HybridSequential(prefix="net_"), nn.HybridSequential(prefix="other_")
    for block in (net, other):
        with block.name_scope():
            block.add(nn.Dense(3, in_units=2), nn.BatchNorm(in_channels=3))
    net.initialize(mx.init.Uniform(1))
    expected = {key: p.data().asnumpy() for key, p in net._collect_params_with_prefix().items()}

    net.save_parameters(name)
    assert_same(mx.nd.load(name), expected)
    other.load_parameters(name)
    assert_same({key: p.data() for key, p in other._collect_params_with_prefix().items()}, expected)

    net.collect_params().save(name, strip_prefix=net.prefix)
    other.load_parameters(name)
    other.collect_params().load(name, restore_prefix=other.prefix)
    mx.npx.save(name, {"x": mx.np.ones((2,))})
    assert isinstance(mx.npx.load(name)["x"], mx.np.ndarray)


def test_the_ending_is_the_format(tmp_path):
    for ending, start in {".npz": b"PK", "": b"\x12\1\0", ".params": b"\x12\1\0", ".nd": b"\x12\1\0"}.items():
        mx.nd.save(tmp_path / f"a{ending}", {"x": mx.nd.ones((2,))})
        assert (tmp_path / f"a{ending}").read_bytes().startswith(start)
    mx.nd.save(tmp_path / "a.safetensors", {"x": mx.nd.ones((2,))})
    assert (tmp_path / "a.safetensors").read_bytes()[8:9] == b"{"


@pytest.mark.parametrize("written", ["a.params", "a.npz", "a.safetensors"])
def test_the_content_says_what_is_read(written, tmp_path):
    arrays = {"x": array((3,), "int8")}
    mx.nd.save(tmp_path / written, of(arrays))
    for name in ("b.params", "b.npz", "b.safetensors", "b.pt"):
        os.replace(tmp_path / written, tmp_path / name)
        written = name
        assert_same(mx.nd.load(tmp_path / name), arrays)
    assert_same(mx.nd.load_frombuffer((tmp_path / "b.pt").read_bytes()), arrays)


def test_a_header_as_long_as_the_mark_of_mxnet(tmp_path):
    header = json.dumps({"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}).ljust(0x112)
    (tmp_path / "a").write_bytes((0x112).to_bytes(8, "little") + header.encode() + b"\1\2")
    assert mx.nd.load(tmp_path / "a")["x"].asnumpy().tolist() == [1, 2]


def test_modules_and_checkpoints(tmp_path):
    data = mx.sym.var("data")
    module = mx.mod.Module(mx.sym.FullyConnected(data, num_hidden=3, name="fc"), label_names=None)
    module.bind([("data", (2, 4))], for_training=False)
    module.init_params(mx.init.Uniform(1))
    module.save_params(str(tmp_path / "m.safetensors"))
    arguments, _ = module.get_params()
    expected = {f"arg:{name}": x.asnumpy() for name, x in arguments.items()}
    assert_same(safetensors.numpy.load_file(tmp_path / "m.safetensors"), expected)
    module.init_params(mx.init.Zero(), force_init=True)
    module.load_params(str(tmp_path / "m.safetensors"))
    assert_same({f"arg:{name}": x for name, x in module.get_params()[0].items()}, expected)
    module.symbol.save(str(tmp_path / "m-symbol.json"))
    net = mx.gluon.SymbolBlock.imports(str(tmp_path / "m-symbol.json"), ["data"], str(tmp_path / "m.safetensors"))
    x = array((2, 4), "float32")
    expected_output = x @ expected["arg:fc_weight"].T + expected["arg:fc_bias"]
    np.testing.assert_allclose(net(mx.nd.array(x)).asnumpy(), expected_output, rtol=1e-5)


def test_metadata_of_parameters(tmp_path):
    net = nn.Dense(2, in_units=2)
    net.initialize()
    net.save_parameters(str(tmp_path / "a.safetensors"), metadata={"epoch": "3"})
    net.collect_params().save(str(tmp_path / "b.safetensors"), metadata={"epoch": "4"})
    assert mx.nd.load_metadata(tmp_path / "a.safetensors") == {"epoch": "3"}
    assert mx.nd.load_metadata(tmp_path / "b.safetensors") == {"epoch": "4"}
    net.save_parameters(str(tmp_path / "a.params"))
    assert mx.nd.load_metadata(tmp_path / "a.params") == {}
    with pytest.raises(FileFormatError, match=r"MXNet's format has no metadata; save a file .* \.safetensors"):
        net.save_parameters(str(tmp_path / "a.params"), metadata={"epoch": "3"})


@pytest.mark.parametrize("name", ["w.pt", "w.pth", "w.pkl", "w.h5", "w.onnx", "w.gguf", "w.npy", "W.PT"])
def test_names_of_other_programs_are_refused(name, tmp_path):
    with pytest.raises(FileFormatError, match=r"would be a file of .*\.safetensors or \.npz, as \w+\.params"):
        mx.nd.save(tmp_path / name, {"x": mx.nd.ones((2,))})
    assert not list(tmp_path.iterdir())
    (tmp_path / name).write_bytes(b"something else, at length")
    with pytest.raises(FileFormatError, match=r"is a file of .*\.safetensors and \.npz; "):
        mx.nd.load(tmp_path / name)


def test_content_of_other_programs_is_named(tmp_path):
    for content, program in ((b"\x80\4\x95", "pickle"), (b"\x89HDF\r\n\x1a\n", "HDF5"), (b"\x93NUMPY\1\0", "NumPy")):
        (tmp_path / "w").write_bytes(content + bytes(100))
        with pytest.raises(FileFormatError, match=program):
            mx.nd.load(tmp_path / "w")


@pytest.mark.parametrize("file", ["a.safetensors", "a.npz"])
def test_what_a_format_cannot_hold(file, tmp_path):
    with pytest.raises(FileFormatError, match="has names for all arrays: give a dict of arrays, not a list"):
        mx.nd.save(tmp_path / file, [mx.nd.ones((2,))])
    with pytest.raises(mx.MXNetError, match="'x' has dtype complex64, which the format cannot hold"):
        mx.nd.save(tmp_path / file, {"x": mx.nd.NDArray(np.zeros(2, "complex64"))})
    with pytest.raises(mx.MXNetError, match="cannot be the name of an array"):
        mx.nd.save(tmp_path / file, {"\ud800": mx.nd.ones((2,))})
    name = {"a.npz": "a\0b", "a.safetensors": "__metadata__"}[file]
    with pytest.raises(mx.MXNetError, match="cannot be a name in"):
        mx.nd.save(tmp_path / file, {name: mx.nd.ones((2,))})
    assert not list(tmp_path.iterdir())
    mx.nd.save(tmp_path / file, {})
    assert mx.nd.load(tmp_path / file) == []
    net = nn.HybridSequential()
    net.load_parameters(str(tmp_path / file))


@pytest.mark.parametrize("file", ["a.safetensors", "a.npz"])
def test_a_file_keeps_its_mode(file, tmp_path):
    mx.nd.save(tmp_path / file, {"x": mx.nd.ones((2,))})
    (tmp_path / file).chmod(0o640)
    mx.nd.save(tmp_path / file, {"x": mx.nd.zeros((2,))})
    assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o640
    assert mx.nd.load(tmp_path / file)["x"].asnumpy().tolist() == [0, 0]


def test_an_index_of_shards(tmp_path):
    safetensors.numpy.save_file({"a": array((3,), "int8"), "c": array((2,), "float32")}, tmp_path / "m-1.safetensors")
    safetensors.numpy.save_file({"b": array((4,), "float64")}, tmp_path / "m-2.safetensors", {"format": "pt"})
    files = {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-1.safetensors"}
    index = tmp_path / "m.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 43}, "weight_map": files}))
    expected = {"a": array((3,), "int8"), "b": array((4,), "float64"), "c": array((2,), "float32")}
    assert_same(mx.nd.load(index), expected)
    assert list(mx.nd.load(index)) == ["a", "b", "c"]
    assert mx.nd.load_metadata(index) == {"format": "pt"}
    for wrong, text in (
        ({**files, "d": "m-1.safetensors"}, "array 'd' is not in m-1.safetensors"),
        ({**files, "a": "../m-1.safetensors"}, "the file of array 'a' must be one beside it"),
        ({**files, "a": "m-3.safetensors"}, r"cannot read .*/m-3.safetensors: No such file"),
        ({**files, "a": 3}, "the file of array 'a' must be one beside it, got 3"),
        (["a"], "its weight_map must give the file of each array"),
    ):
        index.write_text(json.dumps({"weight_map": wrong}))
        with pytest.raises(mx.MXNetError, match=text):
            mx.nd.load(index)
    index.write_text("{")
    with pytest.raises(mx.MXNetError, match="it is not JSON with a weight_map"):
        mx.nd.load(index)
