"""Data sets of images from files, alone and in a DataLoader."""

from __future__ import annotations

import gzip
import io
import multiprocessing
import struct
import tarfile
import warnings

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import data
from hybridc.gluon.data import vision
from tests.golden.image_cases import FILES, image_files, image_records, noise

FORK = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the system has no fork")


# --- MNIST and CIFAR, in files made here ---


def mnist_files(folder, train=True, count=5, pack=gzip.compress):
    """Files as MNIST publishes them, and what is in them."""
    rng = np.random.RandomState(count)
    images = rng.randint(0, 256, (count, 28, 28)).astype(np.uint8)
    labels = rng.randint(0, 10, count).astype(np.uint8)
    kind, end = "train" if train else "t10k", ".gz" if pack is gzip.compress else ""
    (folder / f"{kind}-images-idx3-ubyte{end}").write_bytes(
        pack(struct.pack(">IIII", 2051, count, 28, 28) + images.tobytes())
    )
    (folder / f"{kind}-labels-idx1-ubyte{end}").write_bytes(pack(struct.pack(">II", 2049, count) + labels.tobytes()))
    return images, labels


@pytest.mark.parametrize("kind", [vision.MNIST, vision.FashionMNIST])
@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["gz", "plain"])
def test_mnist(tmp_path, kind, pack):
    for train, count in ((True, 5), (False, 3)):
        images, labels = mnist_files(tmp_path, train, count, pack)
        stored = kind(tmp_path, train=train)
        assert len(stored) == count
        for i in range(count):
            image, label = stored[i]
            np.testing.assert_array_equal(image.asnumpy(), images[i][:, :, None])
            assert (image.dtype, label.dtype, label) == (np.uint8, np.int32, labels[i])
    doubled = kind(tmp_path, train=False, transform=lambda x, y: (x.astype("float32") * 2, y + 10))
    assert doubled[1][1] == labels[1] + 10
    np.testing.assert_array_equal(doubled[1][0].asnumpy(), images[1][:, :, None] * 2.0)


def test_damaged_mnist(tmp_path):
    with pytest.raises(mx.MXNetError, match=r"MNIST: there is no train-labels-idx1-ubyte\.gz in .*downloads nothing"):
        vision.MNIST(tmp_path / "none")
    images, _ = mnist_files(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    for content, message in [
        (gzip.compress(struct.pack(">IIII", 2051, 5, 28, 28) + images.tobytes()[:-1]), "is damaged: 3919 bytes after"),
        (gzip.compress(struct.pack(">IIII", 2050, 5, 28, 28)), "is no file of MNIST: it does not begin with 0x803"),
        (gzip.compress(b"\0"), "is no file of MNIST"),
        (gzip.compress(images.tobytes())[:-20], "cannot read .*train-images"),
        (b"not packed", "cannot read .*train-images"),
        (
            gzip.compress(struct.pack(">IIII", 2051, 4, 28, 28) + images[:4].tobytes()),
            "4 images of train, but 5 labels",
        ),
    ]:
        path.write_bytes(content)
        with pytest.raises(mx.MXNetError, match=message):
            vision.MNIST(tmp_path)


def cifar_records(seed, count, labels):
    """Records as CIFAR publishes them, their labels, and their images HWC."""
    records = np.random.RandomState(seed).randint(0, 100, (count, labels + 3072)).astype(np.uint8)
    images = np.zeros((count, 32, 32, 3), np.uint8)
    for channel in range(3):
        images[..., channel] = records[:, labels + 1024 * channel :][:, :1024].reshape(count, 32, 32)
    return records, records[:, :labels], images


def archive(path, files):
    """An archive of files with their contents."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


@pytest.mark.parametrize("where", ["folder", "inner", "archive"])
def test_cifar10(tmp_path, where):
    parts = {f"data_batch_{i}.bin": cifar_records(i, i, 1) for i in range(1, 6)}
    parts["test_batch.bin"] = cifar_records(9, 2, 1)
    inner = tmp_path if where == "folder" else tmp_path / "cifar-10-batches-bin"
    inner.mkdir(exist_ok=True)
    if where == "archive":
        files = {f"cifar-10-batches-bin/{name}": records.tobytes() for name, (records, _, _) in parts.items()}
        archive(tmp_path / "cifar-10-binary.tar.gz", files)
    else:
        for name, (records, _, _) in parts.items():
            (inner / name).write_bytes(records.tobytes())
    train, test = vision.CIFAR10(tmp_path), vision.CIFAR10(tmp_path, train=False)
    assert (len(train), len(test)) == (15, 2)
    wanted = [
        (image, label[0]) for _, labels, images in list(parts.values())[:5] for image, label in zip(images, labels)
    ]
    for (image, label), (want, number) in zip(train, wanted):
        np.testing.assert_array_equal(image.asnumpy(), want)
        assert label == number
    np.testing.assert_array_equal(test[1][0].asnumpy(), parts["test_batch.bin"][2][1])


def test_cifar100(tmp_path):
    records, labels, images = cifar_records(3, 4, 2)
    (tmp_path / "train.bin").write_bytes(records.tobytes())
    for fine in (False, True):
        stored = vision.CIFAR100(tmp_path, fine_label=fine)
        assert [int(stored[i][1]) for i in range(4)] == labels[:, int(fine)].tolist()
        np.testing.assert_array_equal(stored[2][0].asnumpy(), images[2])


def test_damaged_cifar(tmp_path):
    with pytest.raises(
        mx.MXNetError, match=r"CIFAR10: there is no cifar-10-binary\.tar\.gz, and no data_batch_1\.bin in"
    ):
        vision.CIFAR10(tmp_path)
    archive(tmp_path / "cifar-100-binary.tar.gz", {"cifar-100-binary/test.bin": b"x"})
    with pytest.raises(mx.MXNetError, match=r"cifar-100-binary\.tar\.gz has no train\.bin"):
        vision.CIFAR100(tmp_path)
    with pytest.raises(mx.MXNetError, match=r"test\.bin is damaged: 1 bytes are no multiple of 3074"):
        vision.CIFAR100(tmp_path, train=False)
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"no archive")
    with pytest.raises(mx.MXNetError, match=r"cannot read .*cifar-10-binary"):
        vision.CIFAR10(tmp_path)


# --- folders, lists and records ---


def test_image_lists(tmp_path):
    names = image_files(tmp_path)
    of_file = vision.ImageListDataset(tmp_path, "a.lst")
    of_list = vision.ImageListDataset(tmp_path, [[i % 3, name] for i, name in enumerate(names)], flag=0)
    several = vision.ImageListDataset(tmp_path, [[i, i + 0.5, name] for i, name in enumerate(names)])
    assert len(of_file) == len(of_list) == len(names)
    for i, name in enumerate(names):
        want = mx.image.imread(tmp_path / name).asnumpy()
        np.testing.assert_array_equal(of_file[i][0].asnumpy(), want)
        assert of_list[i][0].shape == (*want.shape[:2], 1)
        assert of_file[i][1].asnumpy().tolist() == of_list[i][1].asnumpy().tolist() == [i % 3]
        assert several[i][1].asnumpy().tolist() == [i, i + 0.5]
    for wrong, message in [
        (3, "must be the name of a list file, or a list, got int"),
        (["a.jpg"], "expected .label, path., got 'a.jpg'"),
        ([[1, 2]], "expected .label, path., got .1, 2."),
        ("none.lst", "cannot read the list of images"),
    ]:
        with pytest.raises(mx.MXNetError, match=message):
            vision.ImageListDataset(tmp_path, wrong)
    (tmp_path / "bad.lst").write_text("0\t1\ta.jpg\nx\t1\tb.jpg\n")
    with pytest.raises(mx.MXNetError, match=r"bad\.lst, line 2: expected a key, labels and a path"):
        vision.ImageListDataset(tmp_path, "bad.lst")


def test_folders_leave_out_what_is_no_image(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "b" / "1.PNG").write_bytes((FILES / "colour.png").read_bytes())
    (tmp_path / "b" / "notes.txt").write_text("")
    (tmp_path / "list.txt").write_text("")
    with pytest.warns(UserWarning, match="Ignoring") as caught:
        stored = vision.ImageFolderDataset(tmp_path, transform=lambda x, y: (x.shape, y))
    assert sorted(str(w.message).partition(str(tmp_path))[2].partition(" ")[0].strip(":,") for w in caught) == [
        "/b/notes.txt",
        "/list.txt",
    ]
    assert (stored.synsets, len(stored), stored[0]) == (["a", "b"], 1, ((23, 37, 3), 1))
    with pytest.raises(mx.MXNetError, match=r"cannot read the folder .*none"):
        vision.ImageFolderDataset(tmp_path / "none")


def test_damaged_images_are_named(tmp_path):
    writer = mx.recordio.MXIndexedRecordIO(str(tmp_path / "i.idx"), str(tmp_path / "i.rec"), "w")
    writer.write_idx(40, mx.recordio.pack((0, 1, 0, 0), (FILES / "colour.png").read_bytes()))
    writer.write_idx(41, mx.recordio.pack((0, 1, 0, 0), b"not an image" * 4))
    writer.write_idx(42, mx.recordio.pack((0, 1, 0, 0), b""))
    writer.close()
    stored = vision.ImageRecordDataset(str(tmp_path / "i.rec"))
    assert stored[0][0].shape == (23, 37, 3)
    with pytest.raises(
        mx.MXNetError, match=r"i\.rec, record 41 is no image that .* can decode, or it is damaged: 48 bytes"
    ):
        stored[1]
    with pytest.raises(mx.MXNetError, match=r"i\.rec, record 42: the image has no bytes"):
        stored[2]
    (tmp_path / "i.idx").unlink()
    with pytest.raises(mx.MXNetError, match=r"cannot read the index .*i\.idx"):
        vision.ImageRecordDataset(tmp_path / "i.rec")


TRANSFORM = vision.transforms.Compose(
    [
        vision.transforms.RandomResizedCrop(12),
        vision.transforms.RandomFlipLeftRight(),
        vision.transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1),
        vision.transforms.RandomLighting(0.1),
        vision.transforms.ToTensor(),
    ]
)


@FORK
@pytest.mark.parametrize(
    "options", [{"num_workers": 2}, {"num_workers": 3, "thread_pool": True}], ids=["fork", "thread"]
)
def test_records_in_a_data_loader(tmp_path, options):
    image_records(mx, tmp_path)
    stored = vision.ImageRecordDataset(str(tmp_path / "i.rec")).transform_first(TRANSFORM)
    batches = []
    for loader in (data.DataLoader(stored, 2, shuffle=True), data.DataLoader(stored, 2, shuffle=True, **options)):
        mx.random.seed(3)
        np.random.seed(3)
        batches.append([(x.asnumpy(), y.asnumpy()) for _ in range(3) for x, y in loader])
    assert [x.shape for x, _ in batches[0]] == [(2, 3, 12, 12), (2, 3, 12, 12), (1, 3, 12, 12)] * 3
    for (x, y), (also_x, also_y) in zip(*batches):
        np.testing.assert_array_equal(x, also_x)
        np.testing.assert_array_equal(y, also_y)
    assert any((x[0] != batches[0][0][0][0]).any() for x, _ in batches[0][1:])


@FORK
def test_folders_in_a_data_loader(tmp_path):
    for label in range(3):
        (tmp_path / str(label)).mkdir()
        for i in range(2):
            record = mx.recordio.pack_img((0, 0, 0, 0), noise(8, 9, seed=2 * label + i), 9, ".png")
            (tmp_path / str(label) / f"{i}.png").write_bytes(mx.recordio.unpack(record)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored = vision.ImageFolderDataset(tmp_path)
    seen = [(x.asnumpy(), y.asnumpy()) for x, y in data.DataLoader(stored, 3, num_workers=2)]
    assert np.concatenate([y for _, y in seen]).tolist() == [0, 0, 1, 1, 2, 2]
    for i, image in enumerate(np.concatenate([x for x, _ in seen])):
        np.testing.assert_array_equal(image, noise(8, 9, seed=i)[:, :, ::-1])
