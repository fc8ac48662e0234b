"""Data sets, samplers, batchify functions and transforms, against MXNet 1.9.1 where it has them."""

import pathlib
import sys

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import data
from hybridc.gluon.data.vision import transforms

HERE = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(HERE / "golden"))
import frontend_cases as cases  # noqa: E402

GOLDEN = np.load(HERE / "golden" / "frontend.npz")


# --- samplers and data sets ---


@pytest.mark.parametrize("last_batch", ["keep", "discard", "rollover"])
def test_last_batch_is_that_of_mxnet(last_batch):
    sampler = data.BatchSampler(data.SequentialSampler(10), 3, last_batch)
    for epoch in range(3):
        batches = list(sampler)
        assert [i for b in batches for i in b] == GOLDEN[f"data/{last_batch}/{epoch}/flat"].tolist()
        assert [len(b) for b in batches] == GOLDEN[f"data/{last_batch}/{epoch}/sizes"].tolist()
        assert len(sampler) == GOLDEN[f"data/{last_batch}/{epoch}/len"]


def test_shuffle_is_that_of_mxnet_under_numpys_seed():
    np.random.seed(7)
    assert list(data.RandomSampler(20)) == GOLDEN["data/shuffle"].tolist()


@pytest.mark.parametrize("parts", [1, 3, 4])
def test_shards_are_those_of_mxnet(parts):
    ten = data.SimpleDataset(list(range(10)))
    shards = [list(ten.shard(parts, i)) for i in range(parts)]
    assert [x for s in shards for x in s] == GOLDEN[f"data/shard{parts}/flat"].tolist()
    assert [len(s) for s in shards] == GOLDEN[f"data/shard{parts}/sizes"].tolist()


def test_filter_take_and_sample():
    ten = data.SimpleDataset(list(range(10)))
    assert list(ten.filter(lambda x: x % 3 == 1)) == GOLDEN["data/filter"].tolist()
    assert list(ten.take(4)) == GOLDEN["data/take"].tolist()
    assert list(ten.take(None)) == list(ten.take(99)) == list(range(10))
    assert list(data.FilterSampler(lambda x: x > 6, ten)) == GOLDEN["data/filter_sampler"].tolist()
    assert list(ten.sample(data.SequentialSampler(3, 5))) == [5, 6, 7]


def test_transform_lazily_and_now():
    calls = []

    def double(x):
        calls.append(x)
        return 2 * x

    three = data.SimpleDataset([1, 2, 3])
    lazy = three.transform(double)
    assert calls == []
    assert list(lazy) == [2, 4, 6]
    calls.clear()
    now = three.transform(double, lazy=False)
    assert calls == [1, 2, 3]
    assert (len(now), now[2]) == (3, 6)
    pairs = data.ArrayDataset([1, 2], [10, 20])
    assert list(pairs.transform(lambda x, y: x + y)) == [11, 22]
    assert list(pairs.transform_first(double)) == [(2, 10), (4, 20)]
    assert list(three.transform_first(double)) == [2, 4, 6]


def test_array_dataset_elements():
    pairs = data.ArrayDataset(mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([5, 6]))
    image, label = pairs[1]
    assert isinstance(image, mx.nd.NDArray)
    assert type(label) is np.float32
    assert (image.asnumpy().tolist(), float(label), len(pairs)) == ([3, 4], 6.0, 2)
    assert data.ArrayDataset([7, 8])[1] == 8


# --- batches ---


@pytest.mark.parametrize("name", cases.BATCHES)
def test_default_batchify_is_that_of_mxnet(name):
    made = data.default_batchify_fn(cases.BATCHES[name](mx))
    parts = made if isinstance(made, list) else [made]
    assert len(parts) == sum(key.startswith(f"batchify/{name}/") for key in GOLDEN.files)
    for i, part in enumerate(parts):
        want = GOLDEN[f"batchify/{name}/{i}"]
        np.testing.assert_array_equal(part.asnumpy(), want)
        assert part.dtype == want.dtype


def test_pad():
    ragged = [np.array([1, 2, 3]), np.array([4]), mx.nd.array([5, 6], dtype="int64")]
    np.testing.assert_array_equal(data.batchify.Pad(val=-1)(ragged).asnumpy(), [[1, 2, 3], [4, -1, -1], [5, 6, -1]])
    rounded = data.batchify.Pad(round_to=4, dtype="float32")(ragged)
    assert (rounded.shape, rounded.dtype) == ((3, 4), np.float32)
    plane = data.batchify.Pad()([np.ones((1, 3)), np.ones((2, 1))]).asnumpy()
    np.testing.assert_array_equal(plane, [[[1, 1, 1], [0, 0, 0]], [[1, 0, 0], [1, 0, 0]]])


def test_group():
    group = data.batchify.Group(data.batchify.Pad(), data.batchify.Stack(), data.batchify.AsList())
    padded, stacked, names = group([([1, 2], 3.0, "a"), ([4], 5.0, "b")])
    assert padded.asnumpy().tolist() == [[1, 2], [4, 0]]
    assert stacked.asnumpy().tolist() == [3, 5]
    assert names == ["a", "b"]
    assert data.batchify.Tuple is data.batchify.Group


# --- transforms ---


def test_transforms_are_those_of_mxnet():
    image = mx.nd.array(cases.image(), dtype="uint8")
    batch = mx.nd.array(cases.image()[None], dtype="uint8")
    tensor = mx.nd.array(cases.image().transpose(2, 0, 1) / 255.0)
    for name, transform, x in [
        ("to_tensor", transforms.ToTensor(), image),
        ("to_tensor_batch", transforms.ToTensor(), batch),
        ("normalize", transforms.Normalize((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)), tensor),
        ("normalize_one", transforms.Normalize(0.4, 0.25), tensor),
        ("crop", transforms.CenterCrop((6, 4)), image),
    ]:
        want = GOLDEN[f"transform/{name}"]
        got = transform(x)
        np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-6, atol=1e-6, err_msg=name)
        assert got.dtype == want.dtype


@pytest.mark.parametrize(
    ("name", "transform"),
    [
        ("resize_up", lambda: transforms.Resize((20, 15))),
        ("resize_down", lambda: transforms.Resize((5, 4))),
        ("resize_keep", lambda: transforms.Resize(6, keep_ratio=True)),
        ("crop_small", lambda: transforms.CenterCrop(16)),
    ],
)
def test_resizing_is_that_of_opencv(name, transform):
    got = transform()(mx.nd.array(cases.image(), dtype="uint8"))
    want = GOLDEN[f"transform/{name}"]
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.asnumpy(), want)


def test_compose_cast_and_numpy_arrays():
    chain = transforms.Compose([transforms.Cast("float64"), lambda x: x + 1, transforms.Cast("int32")])
    assert chain(cases.image()).dtype == np.int32
    assert len(chain) == 3
    assert isinstance(chain[0], mx.gluon.Block)


@pytest.mark.parametrize(("flip", "axis"), [("RandomFlipLeftRight", 1), ("RandomFlipTopBottom", 0)])
def test_flips_happen_half_the_time(flip, axis):
    mx.random.seed(1)
    image = mx.nd.array(cases.image(), dtype="uint8")
    turned = np.flip(cases.image(), axis)
    count = 0
    for _ in range(200):
        got = getattr(transforms, flip)()(image).asnumpy()
        is_turned = np.array_equal(got, turned)
        assert is_turned or np.array_equal(got, cases.image())
        count += is_turned
    assert 70 < count < 130


def test_random_resized_crop_stays_in_the_image():
    mx.random.seed(2)
    y = np.broadcast_to(np.arange(30, dtype="float32")[:, None, None], (30, 40, 1))
    tops = [transforms.RandomResizedCrop((8, 6))(y).asnumpy() for _ in range(20)]
    assert all(t.shape == (6, 8, 1) for t in tops)
    assert all(0 <= t.min() <= t.max() <= 29 for t in tops)
    assert all((np.diff(t, axis=0) > 0).all() for t in tops)
    assert len({float(t.min()) for t in tops}) > 5


def test_nearest_resize():
    x = np.arange(4, dtype="uint8").reshape(2, 2, 1)
    got = transforms.Resize(4, interpolation=0)(x).asnumpy()[:, :, 0]
    np.testing.assert_array_equal(got, [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [2, 2, 3, 3]])


ERRORS = [
    (lambda: data.ArrayDataset(), ValueError, "at least 1"),
    (lambda: data.ArrayDataset([1], [1, 2]), AssertionError, "same length"),
    (lambda: data.SimpleDataset([1]).shard(2, 2), ValueError, "from 0 to num_shards"),
    (lambda: data.SimpleDataset([1]).sample([0]), TypeError, "Invalid sampler type: list"),
    (lambda: data.BatchSampler([1], 2, "drop"), ValueError, "'keep', 'discard', or 'rollover'"),
    (lambda: data.BatchSampler([1], 0), ValueError, "at least 1"),
    (lambda: data.default_batchify_fn([np.ones(2), np.ones(3)]), RuntimeError, r"\(2,\), \(3,\).*Pad"),
    (lambda: data.default_batchify_fn(["a", "b"]), RuntimeError, "cannot batch samples of dtype"),
    (lambda: data.batchify.Pad()([np.ones(2), np.ones((1, 1))]), RuntimeError, "different numbers"),
    (lambda: data.batchify.Group(data.batchify.Stack())([(1, 2)]), RuntimeError, "1 functions.*2 elements"),
    (lambda: transforms.ToTensor()(np.ones(3)), RuntimeError, r"data must have shape \(H, W, C\) or .*got \(3,\)"),
    (lambda: transforms.Normalize(0, 1)(np.ones((1, 2, 2), "uint8")), mx.MXNetError, "floating-point, got uint8"),
    (lambda: transforms.Normalize((1, 2), 1)(np.ones((3, 2, 2))), ValueError, "mean must have 1 or 3 numbers"),
    (lambda: transforms.Resize(0)(np.ones((2, 2, 1))), ValueError, "must be positive"),
    (lambda: transforms.Resize(2, interpolation=7), ValueError, "interpolation must be 0 .nearest.*got 7"),
    (
        lambda: transforms.CenterCrop(2, interpolation=7),
        ValueError,
        "unknown interpolation 7: 0 to 4, 9 and 10 are known",
    ),
    (
        lambda: transforms.RandomFlipLeftRight()(np.ones(3)),
        RuntimeError,
        "random_flip_left_right: data must have shape",
    ),
    (lambda: data.Dataset()[0], TypeError, "does not define __getitem__"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_arrays_of_other_lengths_than_the_first():
    """Samples beyond those of the first array are not used, as in MXNet 1.9.1; fewer are an error."""
    with pytest.warns(
        UserWarning, match=r"different numbers of samples: .*; those beyond the 4 of the first one are not"
    ):
        batches = list(mx.io.NDArrayIter(np.arange(4.0), np.arange(6.0), 2))
    assert [batch.label[0].asnumpy().tolist() for batch in batches] == [[0, 1], [2, 3]]
    with pytest.raises(mx.MXNetError, match=r"different numbers of samples: .*; each must have as many as the first"):
        mx.io.NDArrayIter([np.arange(5.0), np.arange(4.0)], batch_size=2)
