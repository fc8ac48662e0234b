"""Images: what MXNet's results cannot show, by NumPy, Python's colorsys and the definitions; and wrong arguments."""

from __future__ import annotations

import colorsys
import importlib
import random
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

import hybridc as mx
from hybridc.dialects.vision import image_random
from hybridc.dialects.vision.resampling import resample
from hybridc.gluon.data.vision import transforms
from hybridc.image import codec
from tests.golden.image_cases import FILES, NAMES, image_files, noise


def test_importing_the_library_loads_no_library_of_images():
    code = "import sys, hybridc.image, hybridc.gluon.data.vision; print({'PIL', 'cv2'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_namespaces():
    assert mx.img is mx.image
    assert mx.image.det is mx.image.detection
    assert mx.image.detection.ImageDetIter is mx.image.ImageDetIter
    assert mx.gluon.data.vision.datasets.MNIST is mx.gluon.data.vision.MNIST


# --- decoding ---


@pytest.mark.parametrize("name", NAMES)
def test_truncated_images_are_errors(name):
    data = (FILES / name).read_bytes()
    for size in (1, 10, len(data) // 2):
        with pytest.raises(mx.MXNetError, match=r"^here is no image that Pillow can decode, or it is damaged"):
            codec._by_pillow(data[:size], codec.COLOUR, "here")


def png(height, width):
    """An image file whose header says this, with the pixels of one row."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(3 * width + 1))) + chunk(b"IEND", b"")


def test_images_beyond_the_limits_of_a_library():
    with pytest.raises(mx.MXNetError, match=r"^here is no image that Pillow can .*3600000000 pixels.* exceeds limit"):
        codec._by_pillow(png(60000, 60000), codec.COLOUR, "here")


class Refusing:
    """OpenCV, which need not be installed, when an image has more pixels than its limit: it raises its own error."""

    IMREAD_GRAYSCALE, IMREAD_COLOR, IMREAD_UNCHANGED, IMREAD_IGNORE_ORIENTATION = 0, 1, -1, 128

    class error(Exception):
        err = "pixels <= CV_IO_MAX_IMAGE_PIXELS"

    def imdecode(self, *_):
        raise self.error


def test_what_opencv_raises_is_said():
    try:
        opencv = importlib.import_module("cv2")
    except ImportError:
        opencv = Refusing()
    with pytest.raises(mx.MXNetError, match=r"^here is no image that OpenCV can .*; pixels <= CV_IO_MAX_IMAGE_PIXELS"):
        codec._by_opencv(opencv, png(60000, 60000), codec.COLOUR, "here")


LISTS = [
    (b"0\n", r"line 1: expected a key, labels and a path with tabs between them, got '0'"),
    (b"0\t1\ta\0.png\n", "embedded null byte"),
    (b"0\t1\t\xff.png\n", "cannot read the list of images"),
]


@pytest.mark.parametrize(("text", "message"), LISTS)
def test_damaged_lists(tmp_path, text, message):
    (tmp_path / "a.lst").write_bytes(text)
    with pytest.raises(mx.MXNetError, match=message):
        list(mx.image.ImageIter(1, (3, 8, 8), path_imglist=str(tmp_path / "a.lst"), path_root=str(tmp_path)))
    with pytest.raises(mx.MXNetError, match=message):
        mx.gluon.data.vision.ImageListDataset(str(tmp_path), "a.lst")[0]


@pytest.mark.parametrize("first", [np.nan, np.inf, -1.0])
def test_damaged_labels_of_objects(tmp_path, first):
    writer = mx.recordio.MXRecordIO(str(tmp_path / "a.rec"), "w")
    label = np.array([first, 5, 0, 0.1, 0.1, 0.9, 0.9], np.float32)
    writer.write(mx.recordio.pack((0, label, 0, 0), (FILES / "colour.png").read_bytes()))
    writer.close()
    with pytest.raises(mx.MXNetError, match="a label begins with the count of numbers before the objects"):
        list(mx.io.ImageDetRecordIter(path_imgrec=str(tmp_path / "a.rec"), data_shape=(3, 8, 8), batch_size=1))


@pytest.mark.parametrize("kind", [mx.io.CSVIter, mx.io.LibSVMIter])
def test_texts_that_are_none(tmp_path, kind):
    (tmp_path / "a").write_bytes(b"1,2\n\xff\n")
    option = "data_csv" if kind is mx.io.CSVIter else "data_libsvm"
    with pytest.raises(mx.MXNetError, match=r"cannot read .*a: 'utf-8' codec can't decode byte 0xff"):
        kind(**{option: str(tmp_path / "a")}, data_shape=(2,), batch_size=1)


def test_damaged_bytes_raise_no_other_error():
    rng = np.random.RandomState(0)
    for name in NAMES:
        whole = np.frombuffer((FILES / name).read_bytes(), np.uint8)
        for _ in range(20):
            data = whole.copy()
            data[rng.randint(0, len(data), 8)] = rng.randint(0, 256, 8)
            try:
                made = mx.image.imdecode(data.tobytes())
            except mx.MXNetError:
                continue
            assert made.shape[2] == 3


def test_decoding_takes_all_kinds_of_bytes(tmp_path):
    data = (FILES / "colour.png").read_bytes()
    want = mx.image.imread(str(FILES / "colour.png")).asnumpy()
    as_array = np.frombuffer(data, np.uint8)
    for buf in (data, bytearray(data), memoryview(data), as_array, mx.nd.array(as_array, dtype="uint8")):
        np.testing.assert_array_equal(mx.image.imdecode(buf).asnumpy(), want)
    out = mx.nd.zeros(want.shape, dtype="uint8")
    assert mx.image.imdecode(data, out=out) is out
    np.testing.assert_array_equal(out.asnumpy(), want)
    for call, kind, message in [
        (lambda: mx.image.imdecode("text"), ValueError, "must be the bytes of an image file, got str"),
        (lambda: mx.image.imdecode(b""), mx.MXNetError, "buf: the image has no bytes"),
        (lambda: mx.image.imdecode(b"what"), mx.MXNetError, "buf is no image .* 4 bytes, which begin with 77 68 61 74"),
        (lambda: mx.image.imdecode(data, flag=2), mx.MXNetError, r"flag must be 0 .gray. or 1 .colour., got 2"),
        (
            lambda: mx.image.imdecode(data, out=mx.nd.zeros((2, 2, 3))),
            mx.MXNetError,
            "but out is float32 of",
        ),
        (lambda: mx.image.imread(tmp_path / "none.png"), mx.MXNetError, "imread: cannot read .*none.png: No such file"),
        (lambda: mx.image.imread(tmp_path), mx.MXNetError, "imread: cannot read .*: Is a directory"),
    ]:
        with pytest.raises(kind, match=message):
            call()


# --- sizes ---


def interpolated(image, height, width):
    """Linear interpolation, pixel by pixel, by its definition."""
    rows, columns, channels = image.shape
    made = np.zeros((height, width, channels))
    for i in range(height):
        for j in range(width):
            y = min(max((i + 0.5) * rows / height - 0.5, 0), rows - 1)
            x = min(max((j + 0.5) * columns / width - 0.5, 0), columns - 1)
            top, left = int(y), int(x)
            below, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            made[i, j] = (1 - y + top) * ((1 - x + left) * image[top, left] + (x - left) * image[top, right]) + (
                y - top
            ) * ((1 - x + left) * image[below, left] + (x - left) * image[below, right])
    return made


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "int32", "float16"])
def test_linear_interpolation_of_every_dtype(dtype):
    image = noise(7, 5).astype(dtype)
    for height, width in ((9, 11), (3, 4), (7, 2)):
        got = mx.image.imresize(mx.nd.array(image, dtype=dtype), width, height)
        assert got.dtype == np.dtype(dtype)
        close = {"uint8": 1, "int32": 0.51, "float16": 0.1}.get(dtype, 1e-3)
        assert np.abs(got.asnumpy() - interpolated(image.astype(float), height, width)).max() <= close


def test_area_keeps_the_mean():
    image = noise(12, 20, dtype="float32")
    for height, width in ((5, 7), (4, 5), (1, 1), (11, 19)):
        mean = resample(image, height, width, 3).mean((0, 1))
        np.testing.assert_allclose(mean, image.mean((0, 1)), rtol=1e-5)


@pytest.mark.parametrize("method", range(5))
def test_constant_images_stay_constant(method):
    for value in (0, 1, 127, 255):
        image = np.full((6, 7, 3), value, np.uint8)
        for height, width in ((11, 5), (3, 3), (6, 14)):
            assert (resample(image, height, width, method) == value).all()


def test_automatic_and_random_methods():
    image = mx.nd.array(noise(10, 12), dtype="uint8")
    for size, method in (((24, 20), 2), ((6, 5), 3), ((24, 5), 1)):
        np.testing.assert_array_equal(
            mx.image.imresize(image, *size, interp=9).asnumpy(),
            mx.image.imresize(image, *size, interp=method).asnumpy(),
        )
    random.seed(0)
    found = {mx.image.imresize(image, 7, 9, interp=10).asnumpy().tobytes() for _ in range(60)}
    assert found == {mx.image.imresize(image, 7, 9, interp=i).asnumpy().tobytes() for i in range(5)}


def test_crops_are_inside_and_everywhere():
    image = np.arange(6 * 8).reshape(6, 8, 1).astype(np.uint8)
    random.seed(0)
    boxes = set()
    for _ in range(400):
        crop, (x, y, w, h) = mx.image.random_crop(mx.nd.array(image, dtype="uint8"), (6, 5))
        np.testing.assert_array_equal(crop.asnumpy(), image[y : y + 5, x : x + 6])
        boxes.add((x, y, w, h))
    assert boxes == {(x, y, 6, 5) for x in range(3) for y in range(2)}


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda i, x: i.imresize(x, 0, 4), ValueError, "1 x 1 at least, got width 0 and height 4"),
        (lambda i, x: i.imresize(x, 3, 4, 6), ValueError, "unknown interpolation 6: 0 to 4, 9 and 10"),
        (
            lambda i, x: i.imresize(x[0], 3, 4),
            mx.MXNetError,
            r"imresize: expected an image of .* got shape \(6, 3",
        ),
        (lambda i, x: i.imresize(x, 3, 4, out=mx.nd.zeros((3, 4, 3))), mx.MXNetError, "but out is float32 of shape"),
        (lambda i, x: i.imresize(np.zeros((3, 3, 3), bool), 3, 4), mx.MXNetError, "image of numbers, got bool"),
        (lambda i, x: i.fixed_crop(x, -1, 0, 2, 2), ValueError, "x -1, y 0, width 2 and height 2 are no part"),
        (lambda i, x: i.fixed_crop(x, 9, 0, 2, 2), ValueError, "no part of an image of height 5 and width 6"),
        (
            lambda i, x: i.random_size_crop(x, (3, 3), 0.1, (1, 1), area2=1),
            AssertionError,
            "unexpected .* area2",
        ),
        (lambda i, x: i.copyMakeBorder(x, 0, -1, 0, 0), ValueError, "a margin is negative: 0, -1, 0, 0"),
        (lambda i, x: i.copyMakeBorder(x, 0, 1, 0, 0, 7), ValueError, "type must be one of 0 to 4, got 7"),
        (lambda i, x: i.copyMakeBorder(x, 0, 1, 0, 0, values=(1, 2)), ValueError, "2 values for 3 channels"),
        (lambda i, x: i.imrotate(x, 3), TypeError, "only float32 images can be turned, got uint8"),
        (lambda i, x: i.imrotate(x.astype("float32"), 3, True, True), ValueError, "cannot be both True"),
        (lambda i, x: i.imrotate(mx.nd.zeros((2, 2)), 3), ValueError, r"expected CHW or NCHW, got shape \(2, 2\)"),
        (lambda i, x: i.imrotate(mx.nd.zeros((3, 2, 2)), mx.nd.array([1])), TypeError, "the angle must be a number"),
        (
            lambda i, x: i.imrotate(mx.nd.zeros((2, 3, 2, 2)), [1, 2, 3]),
            ValueError,
            "need as many angles, got 3",
        ),
        (lambda i, x: i.CreateAugmenter((3, 4, 4), rand_resize=True), AssertionError, "needs rand_crop"),
        (
            lambda i, x: i.CreateAugmenter((3, 4, 4), mean=[1, 2]),
            AssertionError,
            "an array of 1 or 3 numbers",
        ),
        (lambda i, x: i.DetBorrowAug(3), TypeError, "expected an Augmenter, got int"),
        (lambda i, x: i.DetRandomSelectAug([3]), ValueError, "expected DetAugmenters, got int"),
        (
            lambda i, x: i.CreateMultiRandCropAugmenter([1, 2], max_attempts=[1, 2, 3]),
            AssertionError,
            "different lengths",
        ),
    ],
)
def test_wrong_arguments(call, kind, message):
    with pytest.raises(kind, match=message):
        call(mx.image, mx.nd.array(noise(5, 6), dtype="uint8"))


def test_useless_ranges_warn_and_leave_images_alone():
    boxes = np.array([[0, 0.1, 0.1, 0.9, 0.9]], np.float32)
    for make in (
        lambda: mx.image.DetRandomCropAug(area_range=(0.5, 0.1)),
        lambda: mx.image.DetRandomCropAug(aspect_ratio_range=(0, 1)),
        lambda: mx.image.DetRandomPadAug(area_range=1.0),
    ):
        with pytest.warns(UserWarning, match="Skip DetRandom.* due to invalid"):
            augmenter = make()
        image = mx.nd.array(noise(5, 6), dtype="uint8")
        assert augmenter(image, boxes) == (image, boxes)


# --- colours ---


def by_colorsys(image, turns):
    """Hues turned, pixel by pixel."""
    made = np.zeros(image.shape)
    for place in np.ndindex(image.shape[:2]):
        h, lightness, s = colorsys.rgb_to_hls(*(image[place] / 255.0))
        made[place] = colorsys.hls_to_rgb((h + turns) % 1, lightness, s)
    return made * 255


@pytest.mark.parametrize("turns", [0, 0.1, 0.5, 0.99, 1.3, -0.2])
def test_hues(turns):
    image = noise(6, 7)
    image[0] = image[0, :, :1]  # gray has no hue
    image[1] = np.array([[0, 0, 0], [255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [9, 9, 8]])
    want = by_colorsys(image, turns)
    np.testing.assert_allclose(image_random.hue_turned(image.astype(np.float32), turns), want, atol=1e-3)
    in_bytes = mx.nd.image.random_hue(mx.nd.array(image, dtype="uint8"), turns % 1, turns % 1)
    assert np.abs(in_bytes.asnumpy() - want).max() <= 0.501


def test_saturation_is_a_blend_with_gray():
    image = noise(6, 7)
    gray = (image @ np.array([0.299, 0.587, 0.114]))[..., None]
    for factor in (0, 0.3, 1, 1.7):
        want = np.clip(gray * (1 - factor) + image * factor, 0, 255)
        in_bytes = mx.nd.image.random_saturation(mx.nd.array(image, dtype="uint8"), factor, factor)
        assert np.abs(in_bytes.asnumpy() - want).max() <= 1  # cut off
        floats = image_random.saturated(image.astype(np.float32), factor)
        np.testing.assert_allclose(floats, gray * (1 - factor) + image * factor, atol=1e-3)
    grayed = transforms.RandomGray(1)(image.astype(np.float32))
    np.testing.assert_allclose(grayed.asnumpy(), np.repeat(gray, 3, -1), atol=1e-3)


def test_one_channel_has_no_colours():
    image = noise(6, 7, 1)
    for change in (transforms.RandomSaturation(0.5), transforms.RandomHue(0.5), transforms.RandomGray(1)):
        np.testing.assert_array_equal(change(image).asnumpy(), image)


# --- transforms ---


def spread(transform, image, count=300):
    """Results of a transform of one image."""
    mx.random.seed(5)
    return [transform(mx.nd.array(image, dtype=str(image.dtype))).asnumpy() for _ in range(count)]


def test_random_factors_fill_their_range():
    image = np.full((2, 2, 3), 100, np.float32)
    means = np.array([made.mean() for made in spread(transforms.RandomBrightness(0.4), image)])
    assert 60 <= means.min() < 65
    assert 135 < means.max() <= 140
    assert abs(means.mean() - 100) < 5
    image[0] = 50
    widths = np.array([np.ptp(made) for made in spread(transforms.RandomContrast(0.5), image)])
    assert 25 <= widths.min() < 30
    assert 70 < widths.max() <= 75


def test_jitter_is_made_of_its_parts_in_any_order():
    image = noise(3, 3, dtype="float32")
    for amount, part in (
        ((0.3, 0, 0, 0), lambda made: made / image),
        ((0, 0, 0.3, 0), lambda made: (made - made.mean(-1, keepdims=True)) / (image - image.mean(-1, keepdims=True))),
    ):
        for made in spread(transforms.RandomColorJitter(*amount), image, 20):
            factor = part(made)
            np.testing.assert_allclose(factor, np.full_like(factor, factor.mean()), rtol=2e-2)
    both = spread(transforms.RandomColorJitter(0.5, 0.5), image, 40)
    assert len({made.tobytes() for made in both}) == 40
    np.testing.assert_array_equal(transforms.RandomColorJitter()(mx.nd.array(image)).asnumpy(), image)


def test_lighting_moves_along_the_principal_components():
    image = np.full((1, 1, 3), 100, np.float32)
    moved = np.stack([made[0, 0] - 100 for made in spread(transforms.RandomLighting(0.1), image, 2000)])
    vectors = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
    want = vectors @ np.diag((0.1 * np.array([55.46, 4.794, 1.148])) ** 2) @ vectors.T
    np.testing.assert_allclose(np.cov(moved.T), want, atol=0.1 * want.max())


def test_random_crop_with_and_without_a_margin():
    image = np.arange(1, 21).reshape(4, 5, 1).astype(np.uint8)
    seen = {made.tobytes() for made in spread(transforms.RandomCrop((3, 2)), image)}
    assert seen == {image[y : y + 2, x : x + 3].tobytes() for y in range(3) for x in range(3)}
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)), constant_values=7)
    seen = {made.tobytes() for made in spread(transforms.RandomCrop(5, pad=1, pad_value=7), image)}
    assert seen == {padded[y : y + 5, x : x + 5].tobytes() for y in range(2) for x in range(3)}
    made = transforms.RandomCrop(3, pad=((0, 0), (2, 0), (0, 0)))(np.zeros((2, 3, 3, 3), np.uint8))
    assert made.shape == (2, 3, 3, 3)


@pytest.mark.parametrize("p", [0, 0.3, 1])
def test_chances(p):
    image = noise(3, 3)
    double = transforms.Cast("float64")
    darker = transforms.RandomSaturation(0)
    darker._args = (0, 0)
    grayed = darker(image).asnumpy()
    for applied in (
        [made.dtype == np.float64 for made in spread(transforms.RandomApply(double, p), image)],
        [(made == grayed).all() for made in spread(transforms.HybridRandomApply([darker], p), image)],
    ):
        assert abs(np.mean(applied) - p) < 0.1
        assert p not in (0, 1) or np.mean(applied) == p
    assert spread(transforms.RandomApply([double, transforms.Cast("int32")], 1), image, 1)[0].dtype == np.int32
    gray = np.mean([(made[..., 0] == made[..., 2]).all() for made in spread(transforms.RandomGray(p), image)])
    assert abs(gray - p) < 0.1
    tensor = image.transpose(2, 0, 1).astype(np.float32)
    turned = transforms.RandomRotation((10, 20), rotate_with_proba=p)
    assert abs(np.mean([(made != tensor).any() for made in spread(turned, tensor)]) - p) < 0.1


def test_rotation_by_a_right_angle():
    square = noise(5, 5).transpose(2, 0, 1).astype(np.float32)
    turned = transforms.Rotate(90)(mx.nd.array(square)).asnumpy()
    np.testing.assert_allclose(turned, np.rot90(square, 1, (1, 2)), atol=1e-3)
    both = transforms.RandomRotation((89.9999, 90))(mx.nd.array(np.stack([square, square]))).asnumpy()
    np.testing.assert_allclose(both[1], turned, atol=0.01)


def test_hybrid_compose_is_a_compose():
    chain = transforms.HybridCompose([transforms.Resize(4), transforms.ToTensor()])
    chain.hybridize()
    assert chain(mx.nd.array(noise(6, 7), dtype="uint8")).shape == (3, 4, 4)


@pytest.mark.parametrize(
    ("make", "shape", "message"),
    [
        (
            lambda t: t.CropResize(2, 0, 4, 4),
            (5, 5, 3),
            "image.crop: rows 0 to 3 and columns 2 to 5 are not all in images of 5 rows and 5 columns",
        ),
        (lambda t: t.RandomHue(0.1), (3, 5, 5), "random_hue: data must have shape .* with 1 or 3 channels C, got"),
        (lambda t: t.RandomGray(), (5, 5), "random_saturation: data must have shape"),
        (lambda t: t.RandomLighting(0.1), (5, 5, 4), "random_lighting: data must have shape"),
        (lambda t: t.RandomCrop(2), (5, 5), "RandomCrop: expected an image"),
    ],
)
def test_wrong_images_for_transforms(make, shape, message):
    with pytest.raises(mx.MXNetError, match=message):
        make(transforms)(mx.nd.zeros(shape))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: transforms.RandomBrightness(-0.1), "must not be negative, got -0.1"),
        (lambda: transforms.RandomRotation((3, 3)), "ordered tuple"),
        (lambda: transforms.RandomRotation((3, 4), rotate_with_proba=2), "between 0 and 1, got 2"),
        (lambda: transforms.RandomCrop((0, 3)), "size must be positive"),
    ],
)
def test_wrong_transforms(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- iterators ---


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, AssertionError, "one of path_imgrec, path_imglist and imglist"),
        ({"imglist": []}, mx.MXNetError, "there are no images"),
        (
            {"imglist": [[1, "none.jpg"]]},
            mx.MXNetError,
            "cannot read none.jpg: No such file .* path_root",
        ),
        ({"imglist": [[1, 2, "a.lst"]]}, mx.MXNetError, "image a.lst is no image"),
        (
            {"imglist": [[1, 2, "0_colour.jpg"]]},
            mx.MXNetError,
            "0_colour.jpg: it has 2 labels, but label_width",
        ),
        (
            {"imglist": [[1, "0_colour.jpg"]], "aug_list": []},
            mx.MXNetError,
            r"shape \(3, 23, 37\) .CHW., but",
        ),
        (
            {"imglist": [[1, "0_colour.jpg"]], "dtype": "float16"},
            AssertionError,
            "must be one of int32",
        ),
        (
            {"imglist": [[1, "0_colour.jpg"]], "last_batch_handle": "keep"},
            ValueError,
            "'pad', 'discard' or 'roll_over'",
        ),
        ({"imglist": [[1, "0_colour.jpg"]], "num_parts": 2, "part_index": 2}, AssertionError, "from 0 to 1, got 2"),
        ({"imglist": [[1, "0_colour.jpg"]], "data_shape": (1, 4, 4)}, ValueError, "3 channels"),
        ({"path_imglist": "none.lst"}, mx.MXNetError, "cannot read the list of images none.lst"),
    ],
)
def test_wrong_iterators(tmp_path, monkeypatch, options, kind, message):
    image_files(tmp_path)
    (tmp_path / "0_colour.jpg").write_bytes((FILES / "colour.jpg").read_bytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=message):
        mx.image.ImageIter(1, **{"data_shape": (3, 4, 4), **options}).next()


def test_iterators_shuffle_every_epoch(tmp_path):
    image_files(tmp_path)
    random.seed(1)
    iterator = mx.image.ImageIter(
        5, (3, 4, 4), path_imglist=str(tmp_path / "a.lst"), path_root=str(tmp_path), shuffle=True
    )
    orders = []
    for _ in range(6):
        orders.append(tuple(np.concatenate([b.data[0].asnumpy().mean((1, 2, 3)) for b in iterator]).tolist()))
        iterator.reset()
    assert len({tuple(sorted(order)) for order in orders}) == 1
    assert len(set(orders)) > 3


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ([2, 5, 0, 0.1, 0.1], "7 numbers at least, got 5"),
        ([2, 5, 0, 0.1, 0.1, 0.5, 0.5, 0.5], "begins with 2 and 5: .* 8 numbers do not fit"),
        ([2, 4, 0, 0.1, 0.1, 0.5, 0.5, 0.5], "begins with 2 and 4"),
        ([2, 5, 0, 0.5, 0.5, 0.1, 0.1], "no box has an area"),
    ],
)
def test_wrong_boxes(tmp_path, label, message):
    image_files(tmp_path)
    with pytest.raises(mx.MXNetError, match=rf"ImageDetIter: image 0_colour\.jpg: .*{message}"):
        mx.image.ImageDetIter(1, (3, 4, 4), imglist=[[label, "0_colour.jpg"]], path_root=str(tmp_path))


def boxed(folder, counts):
    """An iterator over images with so many boxes."""
    (folder / "a.png").write_bytes((FILES / "colour.png").read_bytes())
    box = [1, 0.2, 0.2, 0.8, 0.6]
    return mx.image.ImageDetIter(
        2, (3, 10, 20), imglist=[[[2, 5, *box * n], "a.png"] for n in counts], path_root=str(folder)
    )


def test_boxes_are_drawn(tmp_path):
    (image, *_) = boxed(tmp_path, [1]).draw_next(color=(1, 2, 3), thickness=1, id2labels={1: "dog"})
    assert (image.shape, image.dtype) == ((10, 20, 3), np.uint8)
    for place in ((2, 4), (6, 16), (2, 10), (4, 16)):
        assert image[place].tolist() == [3, 2, 1]
    assert image[1, 1].tolist() != [3, 2, 1]


def test_shapes_of_boxes(tmp_path):
    few, many = boxed(tmp_path, [1, 2]), boxed(tmp_path, [3])
    assert (few.label_shape, many.label_shape) == ((2, 5), (3, 5))
    assert few.sync_label_shape(many) is many
    assert few.next().label[0].asnumpy()[0].tolist()[1:] == [[-1] * 5] * 2
    for shape, message in (((2, 5), "from 3 to 2, not allowed"), ((4, 6), "5 vs 6"), ((4,), "length 2")):
        with pytest.raises(ValueError, match=message):
            few.reshape(label_shape=shape)
    with pytest.raises(AssertionError, match="expected an ImageDetIter, got int"):
        few.sync_label_shape(3)


# --- mx.io ---


def test_columns_as_samples():
    iterator = mx.io.NDArrayIter(np.arange(6).reshape(2, 3), None, 2, layout="CN")
    assert [x.shape for x in iterator.provide_data] == [(2, 2)]
    assert [(b.data[0].asnumpy().tolist(), b.pad) for b in iterator] == [([[0, 1], [3, 4]], 0), ([[2, 0], [5, 3]], 1)]


def test_descriptions():
    desc = mx.io.DataDesc("data", (2, 3), np.int32, "NTC")
    assert desc == ("data", (2, 3))
    assert repr(desc) == "DataDesc[data,(2, 3),<class 'numpy.int32'>,NTC]"
    assert [mx.io.DataDesc.get_batch_axis(x) for x in (None, "NCHW", "TNC")] == [0, 0, 1]
    made = mx.io.DataDesc.get_list([("a", (1,)), ("b", (2,))], [("a", "int8"), ("b", "int32")])
    assert [(x, x.dtype) for x in made] == [(("a", (1,)), "int8"), (("b", (2,)), "int32")]
    batch = mx.io.DataBatch([mx.nd.zeros((2, 3))], [mx.nd.zeros(2)], pad=1)
    assert str(batch) == "DataBatch: data shapes: [(2, 3)] label shapes: [(2,)]"


def test_prefetching_renames_and_passes_errors_on():
    class Broken(mx.io.NDArrayIter):
        def next(self):
            raise ValueError("broken")

    a, b = (mx.io.NDArrayIter(np.arange(6) * k, np.arange(6), 4) for k in (1, 10))
    ahead = mx.io.PrefetchingIter(
        [a, b], [{"data": "x"}, {"data": "y"}], [{"softmax_label": "p"}, {"softmax_label": "q"}]
    )
    assert [d.name for d in ahead.provide_data + ahead.provide_label] == ["x", "y", "p", "q"]
    assert [x.asnumpy().tolist() for x in ahead.next().data] == [[0, 1, 2, 3], [0, 10, 20, 30]]
    ahead.reset()
    assert len(list(ahead)) == 2
    with pytest.raises(ValueError, match="broken"):
        mx.io.PrefetchingIter(Broken(np.arange(6), batch_size=2)).next()
    uneven = mx.io.PrefetchingIter([mx.io.NDArrayIter(np.arange(n), batch_size=2) for n in (4, 5)])
    with pytest.raises(AssertionError, match="different numbers of samples"):
        list(uneven)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda io: io.NDArrayIter(3),
            TypeError,
            "data must be an array, a list of .* got int",
        ),
        (lambda io: io.NDArrayIter([]), TypeError, "got dict"),
        (lambda io: io.NDArrayIter(np.zeros(4), np.zeros(3)), mx.MXNetError, "different numbers of samples: .*4.*3"),
        (lambda io: io.NDArrayIter(np.zeros((0, 3))), mx.MXNetError, "0 samples make no batches of 1"),
        (lambda io: io.NDArrayIter(np.zeros(3), last_batch_handle="keep"), ValueError, "must be 'pad', 'discard' or"),
        (lambda io: io.NDArrayIter(np.zeros(3), layout="CHW"), ValueError, "must have an N for the samples"),
        (lambda io: io.DataBatch(np.zeros(3)), AssertionError, "data must be a list of NDArrays, got ndarray"),
        (lambda io: io.DataIter().next(), TypeError, "DataIter defines neither next nor iter_next"),
        (lambda io: io.PrefetchingIter([]), AssertionError, "needs one iterator"),
    ],
)
def test_wrong_use_of_io(call, kind, message):
    with pytest.raises(kind, match=message):
        call(mx.io)


# --- transforms inside networks ---


def preprocessed():
    """A network that prepares images itself."""
    net = mx.gluon.nn.HybridSequential()
    net.add(transforms.Cast("float64"), transforms.ToTensor(), transforms.Normalize((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)))
    return net


@pytest.mark.parametrize("batched", [False, True])
def test_networks_prepare_images(batched):
    image = np.stack([noise(4, 5), noise(4, 5, seed=4)]) if batched else noise(4, 5)
    scaled = np.moveaxis(image, -1, -3) / 255
    want = (scaled - np.array([[[0.1]], [[0.2]], [[0.3]]])) / np.array([[[0.5]], [[0.6]], [[0.7]]])
    net = preprocessed()
    for _ in range(2):
        got = net(mx.nd.array(image, dtype="uint8"))
        assert got.dtype == np.float32
        np.testing.assert_allclose(got.asnumpy(), want, atol=1e-6)
        net.hybridize()
    with pytest.raises(mx.MXNetError, match="mean must have 1 number for data of shape"):
        net(mx.nd.zeros((4, 5, 1)))


@pytest.mark.parametrize("hybridize", [False, True])
def test_networks_that_prepare_images_have_gradients(hybridize):
    net = preprocessed()
    net.hybridize(hybridize)
    x = mx.nd.array(noise(4, 5), dtype="float32")
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward()
    want = np.broadcast_to(1 / (255 * np.array([0.5, 0.6, 0.7])), (4, 5, 3))
    np.testing.assert_allclose(x.grad.asnumpy(), want, rtol=1e-5)


def test_interpolation_by_the_name_that_gluoncv_imports():
    """Results of MXNet 1.9.1."""
    _get_interp_method = importlib.import_module("hybridc.image.image")._get_interp_method
    sizes = [(10, 10, 20, 20), (20, 20, 10, 10), (10, 20, 20, 10), (10, 10, 10, 10), ()]
    assert [_get_interp_method(9, each) for each in sizes] == [2, 3, 1, 1, 2]
    assert _get_interp_method(0) == 0
    with pytest.raises(ValueError, match="interpolation 5"):
        _get_interp_method(5)
