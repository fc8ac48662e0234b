"""Data for tests: files that are here, or are downloaded; without a network an error says where to put them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hybridc import io
from hybridc.base import data_dir
from hybridc.errors import CheckError
from hybridc.gluon import download as gluon_download
from hybridc.ground.unpacking import undamaged, unpack_bz2, unzip_missing

_MNIST_URL = "http://data.mxnet.io/data/mnist/"
_MODELS_URL = "http://data.mxnet.io/models/imagenet/"
_MNIST_HEADER = 16  # bytes before the pixels: a mark, the number of images, rows, columns
_LABEL_HEADER = 8  # bytes before the labels: a mark, their number


def download(
    url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False, retries: int = 5
) -> str:
    """The path of the file at a URL: one that is here, or else a new one.

    A DownloadError, which is an OSError, says where to put the file by hand.

    Parameters
    ----------
    url:
        The URL.
    fname:
        The name of the file; None is the URL's last part.
    dirname:
        The folder; None is the current one.
    overwrite:
        Whether a file that is here is downloaded again.
    retries:
        How often a download is tried again.
    """
    name = url.rsplit("/", 1)[-1] if fname is None else fname
    return gluon_download.download(url, os.path.join(dirname or "", name), overwrite, retries=retries)


def download_model(
    model_name: str, dst_dir: str = "./", meta_info: Mapping[str, Mapping[str, str]] | None = None
) -> tuple[str | None, int]:
    """The path, without its end, of a model's files ``-symbol.json`` and ``-0000.params``, and the epoch: 0.

    Parameters
    ----------
    model_name:
        The name; (None, 0) is the result for one that ``meta_info`` has not.
    dst_dir:
        The folder of the files.
    meta_info:
        The URLs 'symbol' and 'params' by the model's name; None has MXNet's ResNets for ImageNet.
    """
    info = _models() if meta_info is None else meta_info
    if model_name not in info:
        return None, 0
    for part in ("symbol", "params"):
        if part not in info[model_name]:
            raise CheckError(f"download_model: meta_info[{model_name!r}] has no URL {part!r}")
    path = os.path.join(dst_dir, model_name)
    download(info[model_name]["symbol"], f"{path}-symbol.json")
    download(info[model_name]["params"], f"{path}-0000.params")
    return path, 0


def _models() -> dict[str, dict[str, str]]:
    """The URLs of MXNet's models."""
    found: dict[str, dict[str, str]] = {}
    for kind, layers in (("resnet", (18, 34, 50, 101, 152)), ("resnext", (50, 101))):
        for n in layers:
            start = f"{_MODELS_URL}{kind}/{n}-layers/{kind}-{n}"
            found[f"imagenet1k-{kind}-{n}"] = {"symbol": f"{start}-symbol.json", "params": f"{start}-0000.params"}
    return found


# --- data sets -------------------------------------------------------------------------------------------------


def get_mnist() -> dict[str, Any]:
    """MNIST as arrays of NumPy: ``train_data`` and ``test_data``, (n, 1, 28, 28) from 0 to 1, and their labels.

    The four files ``….gz`` are in the current folder, or in ``datasets/mnist`` of :func:`hybridc.base.data_dir`, where
    ``gluon.data.vision.MNIST`` has them; or they are downloaded into the current folder.
    """
    found: dict[str, Any] = {}
    for kind, name in (("train", "train"), ("test", "t10k")):
        labels = np.frombuffer(_unpacked(f"{name}-labels-idx1-ubyte.gz")[_LABEL_HEADER:], np.int8)
        raw = _unpacked(f"{name}-images-idx3-ubyte.gz")
        rows, columns = np.frombuffer(raw[8:_MNIST_HEADER], ">u4")
        pixels = np.frombuffer(raw[_MNIST_HEADER:], np.uint8).reshape(len(labels), 1, rows, columns)
        found[f"{kind}_data"] = pixels.astype(np.float32) / 255
        found[f"{kind}_label"] = labels
    return found


def _unpacked(name: str) -> bytes:
    """What is in a file of MNIST."""
    known = Path(data_dir(), "datasets", "mnist", name)
    path = known if known.exists() and not Path(name).exists() else download(_MNIST_URL + name)
    with undamaged(path), gzip.open(path) as file:
        return file.read()


def _unzip(url: str, names: tuple[str, ...]) -> None:
    """Put the files of an archive into the folder ``data``, unless they are there."""
    Path("data").mkdir(exist_ok=True)
    if not all(Path("data", name).exists() for name in names):
        unzip_missing(download(url, dirname="data"), Path("data"))


def get_mnist_pkl() -> None:
    """See that MNIST as a pickle is in ``data/mnist.pkl.gz``."""
    download("http://deeplearning.net/data/mnist/mnist.pkl.gz", dirname="data")


def get_mnist_ubyte() -> None:
    """See that MNIST's four files are in the folder ``data``, without their ``.gz``."""
    names = tuple(f"{kind}-{what}-ubyte" for kind in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))
    _unzip("http://data.mxnet.io/mxnet/data/mnist.zip", names)


def get_cifar10() -> None:
    """See that CIFAR-10 as record files is in the folder ``data/cifar``."""
    names = tuple(f"cifar/{kind}.{end}" for kind in ("train", "test") for end in ("rec", "lst"))
    _unzip("http://data.mxnet.io/mxnet/data/cifar10.zip", names)


def get_mnist_iterator(
    batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1, part_index: int = 0
) -> tuple[Any, Any]:
    """Iterators over MNIST's training and test images, ``mx.io.MNISTIter``.

    Parameters
    ----------
    batch_size:
        How many images a batch has.
    input_shape:
        The shape of an image: (1, 28, 28), or (784,) for flat ones.
    num_parts, part_index:
        Only the images of one of several parts of equal size.
    """
    get_mnist_ubyte()
    options = {"input_shape": input_shape, "batch_size": batch_size, "flat": len(input_shape) != 3}
    options.update(num_parts=num_parts, part_index=part_index)
    make: Any = io.MNISTIter

    def files(kind: str) -> dict[str, str]:
        return {"image": f"data/{kind}-images-idx3-ubyte", "label": f"data/{kind}-labels-idx1-ubyte"}

    return make(**files("train"), shuffle=True, **options), make(**files("t10k"), **options)


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """See that an archive, and the files in it, are in a folder.

    Parameters
    ----------
    data_dir:
        The folder.
    url:
        The URL of the archive.
    data_origin_name:
        The name of the archive.
    """
    path = os.path.join(data_dir, data_origin_name)
    if not os.path.exists(path):
        download(url, dirname=data_dir, overwrite=False)
    # COMPAT(mxnet): there what a killed program had not unpacked is never unpacked.
    unzip_missing(path, Path(data_dir))


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """See that a file is in a folder, of which a URL has a packed one.

    Parameters
    ----------
    data_dir:
        The folder.
    data_name:
        The name of the file.
    url:
        The URL of the packed one.
    data_origin_name:
        The name of the packed one, which is removed.
    """
    unpacked = os.path.join(data_dir, data_name)
    if os.path.exists(unpacked):
        return
    packed = download(url, fname=data_origin_name, dirname=data_dir, overwrite=False)
    unpack_bz2(packed, unpacked)
    os.remove(packed)


def get_im2rec_path(home_env: str = "MXNET_HOME") -> str:
    """The path of MXNet's tool im2rec.py below a folder; an OSError if it is not there.

    Parameters
    ----------
    home_env:
        The variable of the environment that names the folder.
    """
    folder = os.environ.get(home_env, "")
    for path in ("tools/im2rec.py", "../../tools/im2rec.py"):
        if folder and os.path.isfile(os.path.join(folder, path)):
            return os.path.join(folder, path)
    raise OSError(
        f"Could not find path to tools/im2rec.py: hybridc does not have it; {home_env} may name MXNet's folder, and "
        "mx.recordio.MXIndexedRecordIO writes record files"
    )
