"""Random changes of images: how often and how much, eagerly and in a hybridized block."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import nd

IMAGE = np.random.default_rng(3).uniform(20, 80, (4, 5, 3)).astype("float32")
# The directions of AlexNet's noise in colours, times how much colours vary along each.
DIRECTIONS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
DIRECTIONS *= [55.46, 4.794, 1.148]


def draws(name, count, *args, hybridize=False):
    """The results of so many calls."""
    net = mx.gluon.nn.HybridLambda(lambda F, x: getattr(F.image, name)(x, *args))
    if hybridize:
        net.hybridize()
    with mx.random.isolated(5):
        return [net(nd.array(IMAGE)).asnumpy() for _ in range(count)]


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize(
    ("name", "flipped"), [("random_flip_left_right", IMAGE[:, ::-1]), ("random_flip_top_bottom", IMAGE[::-1])]
)
def test_half_of_the_images_are_flipped(name, flipped, hybridize):
    found = draws(name, 200, hybridize=hybridize)
    turned = [bool((y == flipped).all()) for y in found]
    assert all(t or (y == IMAGE).all() for t, y in zip(turned, found, strict=True))
    assert 60 < sum(turned) < 140  # within six standard deviations


@pytest.mark.parametrize("hybridize", [False, True])
def test_the_factor_is_anywhere_between_its_bounds(hybridize):
    factors = np.array(
        [y[0, 0, 0] / IMAGE[0, 0, 0] for y in draws("random_brightness", 200, 0.5, 2, hybridize=hybridize)]
    )
    assert factors.min() >= 0.5
    assert factors.max() <= 2
    assert np.histogram(factors, bins=5, range=(0.5, 2))[0].min() > 15


def test_noise_of_lighting_lies_along_the_directions_of_colours():
    found = np.array([(y - IMAGE)[0, 0] for y in draws("random_lighting", 300, 0.1)], dtype="float64")
    alphas = np.linalg.solve(DIRECTIONS, found.T)
    assert np.abs(alphas.mean(1)).max() < 0.03
    np.testing.assert_allclose(alphas.std(1), 0.1, rtol=0.3)


def test_color_jitter_makes_each_change_that_is_asked_for():
    gray = (IMAGE * np.array([0.299, 0.587, 0.114])).sum(2, keepdims=True)
    brightness = np.array([y / IMAGE for y in draws("random_color_jitter", 50, 0.3, 0, 0, 0)])
    contrast = np.array(
        [(y - gray.mean()) / (IMAGE - gray.mean()) for y in draws("random_color_jitter", 50, 0, 0.3, 0, 0)]
    )
    saturation = np.array([(y - gray) / (IMAGE - gray) for y in draws("random_color_jitter", 50, 0, 0, 0.3, 0)])
    for factors in (brightness, contrast, saturation):
        each = np.median(factors.reshape(50, -1), 1)
        np.testing.assert_allclose(factors, np.broadcast_to(each[:, None, None, None], factors.shape), rtol=2e-2)
        assert 0.7 - 1e-3 <= each.min() < 0.8
        assert 1.2 < each.max() <= 1.3 + 1e-3
    hue = np.array(draws("random_color_jitter", 20, 0, 0, 0, 0.3))
    for extreme in (np.max, np.min):  # hues move, lightness stays
        np.testing.assert_allclose(extreme(hue, -1), np.broadcast_to(extreme(IMAGE, -1), (20, 4, 5)), rtol=1e-4)
    assert np.abs(hue - IMAGE).max() > 10


def test_equal_seeds_give_equal_images():
    first, again = (draws("random_color_jitter", 3, 0.3, 0.3, 0.3, 0.1) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_flipped_gradient():
    """The gradient goes back to the pixel that it belongs to, whichever way the image was turned."""
    x, weights = nd.array(IMAGE), nd.array(np.arange(60).reshape(4, 5, 3))
    x.attach_grad()
    seen = set()
    with mx.random.isolated(5):
        for _ in range(20):
            with mx.autograd.record():
                y = nd.image.random_flip_left_right(x)
            y.backward(weights)
            turned = bool((y.asnumpy() != IMAGE).any())
            seen.add(turned)
            wanted = weights.asnumpy()[:, ::-1] if turned else weights.asnumpy()
            np.testing.assert_array_equal(x.grad.asnumpy(), wanted)
    assert seen == {False, True}


NUMBERED = np.arange(7 * 9, dtype="float32").reshape(7, 9, 1)


def parts(name, count, **attrs):
    """Parts of an image whose pixels are numbered, as the first row, the first column, and the result."""
    with mx.random.isolated(5):
        found = [getattr(nd.image, name)(nd.array(NUMBERED), **attrs).asnumpy() for _ in range(count)]
    return [(*divmod(int(y[0, 0, 0]), 9), y) for y in found]


def test_random_crop_is_anywhere_in_the_image():
    found = parts("random_crop", 400, width=7, height=5)
    for row, column, y in found:
        np.testing.assert_array_equal(y, NUMBERED[row : row + 5, column : column + 7])
    counts = np.zeros((3, 3))
    for row, column, _ in found:
        counts[row, column] += 1
    assert counts.min() > 15  # 44 on average


def test_random_crop_stays_in_its_range():
    found = parts("random_crop", 100, width=5, height=3, xrange=(0.5, 1), yrange=(0, 0.25))
    assert {(row, column) for row, column, _ in found} == {(i, j) for i in (0, 1) for j in (2, 3, 4)}


def test_random_resized_crop_has_its_area_and_ratio():
    """Nearest pixels of a part, from the first of which the next tell how large the part is."""
    image = np.stack(np.meshgrid(np.arange(90.0), np.arange(70.0)), -1)
    with mx.random.isolated(5):
        found = [
            nd.image.random_resized_crop(
                nd.array(image), width=20, height=20, area=(0.1, 0.5), ratio=(0.5, 2), interp=0
            )
            for _ in range(200)
        ]
    found = np.array([y.asnumpy() for y in found])
    across, down = (found[:, -1, -1] - found[:, 0, 0]).T * 20 / 19
    areas, ratios = across * down / image[..., 0].size, across / down
    assert 0.08 < areas.min() < 0.15
    assert 0.45 < areas.max() < 0.53
    assert 0.45 < ratios.min() < 0.6
    assert 1.7 < ratios.max() < 2.2
    assert found[:, 0, 0].min() < 3
    assert found[:, -1, -1, 0].max() > 80
