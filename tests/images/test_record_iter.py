"""ImageRecordIter: what does not depend on MXNet's random numbers."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

import hybridc as mx
from tests.golden.image_cases import FILES, image_records, noise


@pytest.fixture
def files(tmp_path):
    """The arguments that name a record file of twelve images, whose labels are their numbers, and its index."""
    paths = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
    writer = mx.recordio.MXIndexedRecordIO(*paths, "w")
    for i in range(12):
        record = mx.recordio.pack_img((0, float(i), i, 0), noise(9, 11, seed=i)[:, :, ::-1], 3, ".png")
        writer.write_idx(i, record)
    writer.close()
    return {"path_imgrec": paths[1], "path_imgidx": paths[0], "data_shape": (3, 5, 6), "batch_size": 5}


RANDOM = {
    "rand_crop": True, "rand_mirror": True, "brightness": 0.1, "contrast": 0.1, "saturation": 0.1, "pca_noise": 0.1,
    "max_random_contrast": 0.1, "max_random_illumination": 5,
}  # fmt: skip


def epoch(iterator):
    """Images, labels and pads of an epoch."""
    batches = list(iterator)
    iterator.reset()
    data, labels = (np.concatenate([getattr(b, k)[0].asnumpy() for b in batches]) for k in ("data", "label"))
    return data, labels.tolist(), [b.pad for b in batches]


def test_images_do_not_depend_on_threads(files):
    made = []
    for threads, ahead in ((1, 1), (4, 3)):
        options = {"shuffle": True, "seed": 7, "preprocess_threads": threads, "prefetch_buffer": ahead}
        iterator = mx.io.ImageRecordIter(**files, **RANDOM, **options)
        made.append([epoch(iterator) for _ in range(3)])
    for one, other in zip(*made):
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:] == other[1:]
    orders = [labels[:12] for _, labels, _ in made[0]]
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    other = epoch(mx.io.ImageRecordIter(**files, **RANDOM, shuffle=True, seed=8))
    assert other[1] != made[0][0][1]


def test_the_last_batch(files):
    iterator = mx.io.ImageRecordIter(**files)
    assert epoch(iterator)[1:] == ([*range(12), 0, 1, 2], [0, 0, 3])
    assert epoch(iterator)[1:] == ([*range(3, 12), 0], [0, 1])
    iterator.next()
    iterator.reset()  # in the middle of an epoch
    assert epoch(iterator)[1][0] == 0
    data, labels, pads = epoch(mx.io.ImageRecordIter(**files, round_batch=False))
    assert (labels, pads) == ([*range(12), 0, 0, 0], [0, 0, 3])
    assert not data[12:].any()


def test_random_crops_are_parts_of_the_image(files):
    iterator = mx.io.ImageRecordIter(**{**files, "batch_size": 12}, rand_crop=True, rand_mirror=True)
    seen = set()
    for _ in range(40):
        for image, label in zip(*epoch(iterator)[:2]):
            whole = noise(9, 11, seed=int(label)).transpose(2, 0, 1)
            parts = {
                (y, x, turned): whole[:, y : y + 5, x : x + 6][:, :, :: -1 if turned else 1]
                for y in range(5) for x in range(6) for turned in (False, True)
            }  # fmt: skip
            found = [place for place, part in parts.items() if (part == image).all()]
            assert len(found) == 1
            seen.update(found)
    assert len(seen) > 55  # of 60


def test_random_sizes(files):
    options = {"random_resized_crop": True, "min_random_area": 0.3, "max_random_area": 0.5}
    iterator = mx.io.ImageRecordIter(**files, **options, min_aspect_ratio=0.75, max_aspect_ratio=1.3)
    first, second = epoch(iterator)[0], epoch(iterator)[0]
    assert first.shape[1:] == (3, 5, 6)
    assert (first[3] != second[0]).any()  # the same image, in the next epoch


def test_list_gives_other_labels(files, tmp_path):
    (tmp_path / "a.lst").write_text("".join(f"{i}\t{i * 10}\t{i + 0.5}\tname\n" for i in range(12)))
    options = {"path_imglist": str(tmp_path / "a.lst"), "label_width": 2, "batch_size": 12}
    (batch,) = mx.io.ImageRecordIter(**{**files, **options})
    assert batch.label[0].asnumpy().tolist() == [[i * 10, i + 0.5] for i in range(12)]
    (tmp_path / "a.lst").write_text("0\t1\t2\tname\n")
    with pytest.raises(mx.MXNetError, match=r"a\.rec, record at byte \d+: the list has no line for its id 1"):
        mx.io.ImageRecordIter(**{**files, **options}).next()


def test_without_an_index_records_are_found(files):
    del files["path_imgidx"]
    assert epoch(mx.io.ImageRecordIter(**files, shuffle=True))[1] != [*range(12), 0, 1, 2]
    parts = [epoch(mx.io.ImageRecordIter(**files, num_parts=3, part_index=i))[1][:4] for i in range(3)]
    assert parts == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    whole = open(files["path_imgrec"], "rb").read()  # noqa: SIM115
    with open(files["path_imgrec"], "wb") as file:
        file.write(whole[:-5])
    with pytest.raises(mx.MXNetError, match=r"a\.rec is damaged: record at byte"):
        list(mx.io.ImageRecordIter(**files))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data_shape": (5, 6)}, "data_shape must be .*, got .5, 6. and 5"),
        ({"batch_size": 0}, "batch_size positive"),
        ({"dtype": "bool"}, "dtype must be one of float32"),
        ({"part_index": 1}, "part_index must be from 0 to 0, got 1"),
        ({"num_parts": 50, "part_index": 49, "tail": "discard"}, "has no records for part 49 of 50"),
        ({"aug_seq": "mine"}, "aug_seq='mine' is not offered; leave it out for 'aug_default'"),
        ({"max_crop_size": 4, "min_crop_size": 5}, r"must be a range, got \(5, 4\)"),
        ({"max_crop_size": 40, "min_crop_size": 40}, r"crop size 40 is larger than an image of \(9, 11\)"),
        ({"mean_img": str(FILES.with_name("files") / "dtypes.params")}, "must have an array 'mean_img' of shape"),
        ({"rand_corp": True}, "has no option 'rand_corp'"),
        ({"label_width": 2}, r"record at byte 0: it has 1 labels, but label_width is 2"),
        ({"path_imgrec": "none.rec"}, "cannot read none.rec"),
    ],
)
def test_wrong_options(files, options, message):
    assert mx.io.ImageRecordIter(**files, max_rotate_angle=0, verbose=False).next().pad == 0
    with pytest.raises(mx.MXNetError, match=message):
        mx.io.ImageRecordIter(**{**files, **options}).next()


def test_damaged_images_are_named(tmp_path):
    image_records(mx, tmp_path)
    writer = mx.recordio.MXRecordIO(tmp_path / "b.rec", "w")
    writer.write(mx.recordio.pack((0, 1.0, 0, 0), (FILES / "colour.png").read_bytes()))
    writer.write(mx.recordio.pack((0, 1.0, 0, 0), b"no image"))
    writer.close()
    iterator = mx.io.ImageRecordIter(path_imgrec=str(tmp_path / "b.rec"), data_shape=(3, 4, 4), batch_size=1)
    assert iterator.next().data[0].shape == (1, 3, 4, 4)
    with pytest.raises(mx.MXNetError, match=r"b\.rec, record at byte \d+ is no image that .* can decode"):
        iterator.next()


def test_one_change_of_colours_is_that_of_all_pixels_of_an_image(files):
    """In hue, saturation and lightness, which Python's colorsys computes."""
    options = {**files, "data_shape": (3, 9, 11), "batch_size": 12}
    plain = mx.io.ImageRecordIter(**options).next().data[0].asnumpy().transpose(0, 2, 3, 1)
    for name, places, most in (("random_h", 0, 30), ("random_l", 1, 60), ("random_s", 2, 60)):
        changed = mx.io.ImageRecordIter(**options, **{name: most}, seed=3).next().data[0].asnumpy()
        shifts = []
        for before, after in zip(plain / 255, changed.transpose(0, 2, 3, 1)):
            off = {
                shift: np.abs(hls_shifted(before, places, shift) - after.reshape(-1, 3)[::9]).mean()
                for shift in range(-most, most + 1, 1)
            }
            shifts.append(min(off, key=off.get))
            assert off[shifts[-1]] < 1
        assert len(set(shifts)) > 6


def hls_shifted(image, place, shift):
    """An image of numbers from 0 to 1 whose hue (of 180), lightness or saturation (of 255) is larger, as bytes."""
    limits = (180, 255, 255)
    made = []
    for pixel in image.reshape(-1, 3)[::9]:
        values = [round(v * limit) for v, limit in zip(colorsys.rgb_to_hls(*pixel), limits)]
        values[place] = min(limits[place], max(0, values[place] + shift))
        made.append(colorsys.hls_to_rgb(*[v / limit for v, limit in zip(values, limits)]))
    return np.array(made) * 255


# --- boxes -----------------------------------------------------------------------------------------------------


@pytest.fixture
def boxes(tmp_path):
    """The arguments that name a record file of black images with a white box, which the label says."""
    paths = str(tmp_path / "b.idx"), str(tmp_path / "b.rec")
    writer = mx.recordio.MXIndexedRecordIO(*paths, "w")
    for i in range(6):
        image = np.zeros((60, 80, 3), np.uint8)
        left, top, right, bottom = 16 + 4 * i, 12, 40 + 4 * i, 42
        image[top:bottom, left:right] = 255
        label = np.array([2, 5, i, left / 80, top / 60, right / 80, bottom / 60], np.float32)
        writer.write_idx(i, mx.recordio.pack_img((0, label, i, 0), image, 3, ".png"))
    writer.close()
    return {"path_imgrec": paths[1], "data_shape": (3, 90, 120), "batch_size": 6, "inter_method": 0, "seed": 5}


CHANGES = {
    "crop": {"rand_crop_prob": 1, "min_crop_scales": 0.5, "max_crop_scales": 0.9, "min_crop_object_coverages": 0.3},
    "pad": {"rand_pad_prob": 1, "max_pad_scale": 3, "fill_value": 0},
    "all": {
        "rand_crop_prob": 0.7, "num_crop_sampler": 2, "min_crop_scales": (0.4, 0.7), "max_crop_scales": (0.7, 1.0),
        "min_crop_aspect_ratios": (0.7, 0.5), "max_crop_aspect_ratios": (1.4, 2.0), "max_crop_trials": 9,
        "crop_emit_mode": "overlap", "rand_pad_prob": 0.5, "max_pad_scale": 2, "rand_mirror_prob": 0.5, "fill_value": 0,
        "random_contrast_prob": 0.5, "max_random_contrast": 0.2, "resize": 50, "resize_mode": "fit",
        "random_hue_prob": 0.5, "max_random_hue": 18, "random_saturation_prob": 0.5, "max_random_saturation": 32,
        "random_illumination_prob": 0.5, "max_random_illumination": 32,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_boxes_stay_around_their_objects(boxes, name):
    made = []
    for threads in (1, 4):
        batches = []
        iterator = mx.io.ImageDetRecordIter(**boxes, **CHANGES[name], preprocess_threads=threads)
        for _ in range(3):
            batches += [(b.data[0].asnumpy(), b.label[0].asnumpy()) for b in iterator]
            iterator.reset()
        images, rows = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        made.append(rows)
    assert np.array_equal(*made)  # whatever the threads do
    for image, row in zip(images, rows, strict=True):
        assert row[:6].tolist()[4:] == [2, 5]
        assert row[3] == 7  # one object is left of each image
        height, width = int(row[1]), int(row[2])
        white = image[0, :height, :width] > 120
        ys, xs = np.nonzero(white)
        found = [xs.min() / width, ys.min() / height, (xs.max() + 1) / width, (ys.max() + 1) / height]
        np.testing.assert_allclose(row[7:11], found, atol=0.04)
    assert len(np.unique(rows[:, 7:].round(3), axis=0)) > 12  # not all the same


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_pad_width": 3}, "label_pad_width: 3 smaller than estimated width: 7"),
        ({"label_width": 5}, "rec file provide 7-dimensional label but label_width is set to 5"),
        ({"resize_mode": "fill"}, r"resize_mode must be one of \('force', 'shrink', 'fit'\), got 'fill'"),
        ({"min_crop_scales": (0, 1, 2)}, "3 values for num_crop_sampler=1"),
        ({"aug_seq": "mine"}, "aug_seq='mine' is not offered; leave it out for 'det_aug_default'"),
        ({"mirrors": 3}, "has no option 'mirrors'"),
    ],
)
def test_wrong_options_of_boxes(boxes, options, message):
    with pytest.raises(mx.MXNetError, match=message):
        mx.io.ImageDetRecordIter(**boxes, **options)


def test_labels_without_boxes_are_named(files):
    with pytest.raises(
        mx.MXNetError, match=r"record at byte 0: a label begins with the count .*got 1 numbers: \[0\.0\]"
    ):
        next(mx.io.ImageDetRecordIter(**{k: v for k, v in files.items() if k != "path_imgidx"}))


def test_older_names(files):
    assert next(mx.io.ImageRecordUInt8Iter(**files)).data[0].dtype is np.uint8
    assert next(mx.io.ImageRecordInt8Iter(**files)).data[0].dtype is np.int8
    plain, older = mx.io.ImageRecordIter(**files), mx.io.ImageRecordIter_v1(**files)
    assert isinstance(plain, mx.io.MXDataIter)
    assert older.iter_next()
    assert np.array_equal(next(plain).data[0].asnumpy(), older.getdata().asnumpy())
    assert (older.getpad(), older.getlabel().shape) == (0, (5,))
