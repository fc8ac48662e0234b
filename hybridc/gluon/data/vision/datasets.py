"""Data sets of images, from files that are here: nothing is downloaded."""

from __future__ import annotations

import gzip
import os
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc import recordio
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import as_default
from hybridc.base import data_dir
from hybridc.errors import ArgumentTypeError, MXNetError, UnreadableFolderError
from hybridc.gluon.data.dataset import (
    Dataset,
    RecordFileDataset,
    _DownloadedDataset,  # pyright: ignore[reportPrivateUsage]
)
from hybridc.image import codec
from hybridc.image.image_iter import listed, read_list
from hybridc.image.reading import imread

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "FashionMNIST",
    "ImageFolderDataset",
    "ImageListDataset",
    "ImageRecordDataset",
    "MNIST",
]

Array = npt.NDArray[Any]
Transform = Callable[[Any, Any], Any]

_DEFAULT_MNIST, _DEFAULT_FASHION_MNIST, _DEFAULT_CIFAR10, _DEFAULT_CIFAR100 = (
    os.path.join(data_dir(), "datasets", name) for name in ("mnist", "fashion-mnist", "cifar10", "cifar100")
)
_EXTENSIONS = (".jpg", ".jpeg", ".png")
_IMAGES, _LABELS = 0x803, 0x801  # with which MNIST's files begin: uint8, of 3 dimensions and of 1
_CHUNK = 1 << 20  # bytes that are in memory at once
_CIFAR_SIDE = 32  # of its images, in pixels


class _StoredDataset(_DownloadedDataset):
    """Images and labels in memory, read from files in the folder ``root``."""

    def __init__(self, root: str | os.PathLike[str], transform: Transform | None) -> None:
        self._root = Path(root).expanduser()
        self._transform = transform
        images, labels = self._get_data()
        self._data = as_default(NDArray(images))
        self._label = labels.astype(np.int32)

    def _get_data(self) -> tuple[Array, Array]:
        """All images, NHWC of uint8, and their labels."""
        raise NotImplementedError

    def _lacks(self, names: str) -> MXNetError:
        return MXNetError(
            f"{type(self).__name__}: there is no {names} in {self._root}. hybridc downloads nothing: put the file, as "
            f"its authors publish it, into that folder, or say by root=… where it is"
        )


class MNIST(_StoredDataset):
    """Handwritten digits, 28 x 28 x 1, from the four files ``….gz`` that MNIST has, as they are or unpacked.

    Parameters
    ----------
    root:
        The folder of the files, which are not downloaded: an MXNetError says what is missing.
    train:
        Whether it is the training data; else the test data.
    transform:
        A function of an image (an NDArray HWC of uint8) and its label that gives the item; None gives both.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = _DEFAULT_MNIST,
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self._train = train
        super().__init__(root, transform)

    def _get_data(self) -> tuple[Array, Array]:
        kind = "train" if self._train else "t10k"
        labels = self._elements(f"{kind}-labels-idx1-ubyte", _LABELS)
        images = self._elements(f"{kind}-images-idx3-ubyte", _IMAGES)
        if len(images) != len(labels):
            raise MXNetError(f"{self._root}: there are {len(images)} images of {kind}, but {len(labels)} labels")
        return images[..., None], labels

    def _elements(self, name: str, magic: int) -> Array:
        """The array in a file: its magic number, its sizes, and its elements, all of them big-endian."""
        path = next((p for p in (self._root / f"{name}.gz", self._root / name) if p.is_file()), None)
        if path is None:
            raise self._lacks(f"{name}.gz")
        try:
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
        except (OSError, EOFError, zlib.error) as error:
            raise MXNetError(f"cannot read {path}: {error}") from error
        header = Struct(f">{1 + magic % 8}I")
        if len(data) < header.size or header.unpack_from(data)[0] != magic:
            raise MXNetError(f"{path} is no file of MNIST: it does not begin with {magic:#x}, but {data[:4].hex()}")
        shape = header.unpack_from(data)[1:]
        if len(data) - header.size != np.prod(shape):
            raise MXNetError(
                f"{path} is damaged: {len(data) - header.size} bytes after the header, but its shape is {shape}"
            )
        return np.frombuffer(data, np.uint8, offset=header.size).reshape(shape)


class FashionMNIST(MNIST):
    """Clothes, 28 x 28 x 1, in files called as those of MNIST.

    Parameters
    ----------
    root:
        The folder of the files, which are not downloaded: an MXNetError says what is missing.
    train:
        Whether it is the training data; else the test data.
    transform:
        A function of an image (an NDArray HWC of uint8) and its label that gives the item; None gives both.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = _DEFAULT_FASHION_MNIST,
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        super().__init__(root, train, transform)


class CIFAR10(_StoredDataset):
    """Photographs of ten kinds, 32 x 32 x 3, from the binary version: its archive, or the files in it.

    Parameters
    ----------
    root:
        The folder of the files, which are not downloaded: an MXNetError says what is missing.
    train:
        Whether it is the training data; else the test data.
    transform:
        A function of an image (an NDArray HWC of uint8) and its label that gives the item; None gives both.
    """

    _archive, _folder = "cifar-10-binary.tar.gz", "cifar-10-batches-bin"
    _train_files: tuple[str, ...] = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
    _test_files: tuple[str, ...] = ("test_batch.bin",)
    _labels = 1  # bytes before each image
    _label_used = 0

    def __init__(
        self,
        root: str | os.PathLike[str] = _DEFAULT_CIFAR10,
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self._train = train
        super().__init__(root, transform)

    def _get_data(self) -> tuple[Array, Array]:
        contents = self._contents(self._train_files if self._train else self._test_files)
        records = np.concatenate([self._records(name, data) for name, data in contents.items()])
        pixels = records[:, self._labels :].reshape(-1, 3, _CIFAR_SIDE, _CIFAR_SIDE)
        return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), records[:, self._label_used]

    def _records(self, name: str, data: bytes) -> Array:
        size = self._labels + 3 * _CIFAR_SIDE**2
        if not data or len(data) % size:
            raise MXNetError(f"{self._root}: {name} is damaged: {len(data)} bytes are no multiple of {size}")
        return np.frombuffer(data, np.uint8).reshape(-1, size)

    def _contents(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of each file, which is in the folder, in the one of the archive, or in the archive."""
        found: dict[str, bytes] = {}
        for name in names:
            path = next((p for p in (self._root / name, self._root / self._folder / name) if p.is_file()), None)
            if path is not None:
                found[name] = path.read_bytes()
        missing = [name for name in names if name not in found]
        if missing:
            found |= self._of_archive(missing)
        return {name: found[name] for name in names}

    def _of_archive(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of files in the archive, which is read to its end, where its checksum is."""
        archive = self._root / self._archive
        if not archive.is_file():
            raise self._lacks(f"{self._archive}, and no {names[0]}")
        import tarfile

        found: dict[str, bytes] = {}
        try:
            with gzip.open(archive) as unpacked:
                with tarfile.open(fileobj=unpacked, mode="r:") as tar:
                    for member in tar:
                        name = os.path.basename(member.name)
                        file = tar.extractfile(member) if name in names else None
                        if file is not None:
                            found[name] = file.read()
                while unpacked.read(_CHUNK):
                    pass
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            raise MXNetError(f"cannot read {archive}: {error}") from error
        for name in names:
            if name not in found:
                raise MXNetError(f"{archive} has no {name}")
        return found


class CIFAR100(CIFAR10):
    """Photographs of 100 kinds (``fine_label``) in 20 groups, 32 x 32 x 3, from the binary version.

    Parameters
    ----------
    root:
        The folder of the files, which are not downloaded: an MXNetError says what is missing.
    fine_label:
        Whether labels are the 100 kinds; else the 20 groups.
    train:
        Whether it is the training data; else the test data.
    transform:
        A function of an image (an NDArray HWC of uint8) and its label that gives the item; None gives both.
    """

    _archive, _folder = "cifar-100-binary.tar.gz", "cifar-100-binary"
    _train_files, _test_files = ("train.bin",), ("test.bin",)
    _labels = 2

    def __init__(
        self,
        root: str | os.PathLike[str] = _DEFAULT_CIFAR100,
        fine_label: bool = False,
        train: bool = True,
        transform: Transform | None = None,
    ) -> None:
        self._label_used = int(fine_label)
        super().__init__(root, train, transform)


class ImageRecordDataset(RecordFileDataset):
    """Images and labels in a record file, whose index is beside it: ``"a.rec"`` and ``"a.idx"``.

    Parameters
    ----------
    filename:
        The record file.
    flag:
        1 for images of three channels, 0 for gray ones.
    transform:
        A function of an image (an NDArray HWC of uint8) and its label that gives the item; None gives both.
    """

    def __init__(self, filename: str | os.PathLike[str], flag: int = 1, transform: Transform | None = None) -> None:
        super().__init__(filename)
        self._flag = flag
        self._transform = transform

    def __getitem__(self, idx: int) -> Any:
        header, data = recordio.unpack(super().__getitem__(idx))
        where = f"{self.filename}, record {self._record.keys[idx]!r}"
        image = as_default(NDArray(codec.decode(data, self._flag, where)))
        return (image, header.label) if self._transform is None else self._transform(image, header.label)


class ImageFolderDataset(Dataset):
    """Images in folders, one for each class: ``root/cat/1.jpg``, ``root/dog/7.png``.

    ``synsets`` are the names of the folders, sorted; the label of an image is the number of its folder. ``items`` are
    pairs of path and label.

    Parameters
    ----------
    root:
        The folder of the folders; one that cannot be read is an UnreadableFolderError.
    flag:
        1 for images of three channels, 0 for gray ones.
    transform:
        A function of an image (an NDArray HWC of uint8) and its label that gives the item; None gives both.
    """

    def __init__(self, root: str | os.PathLike[str], flag: int = 1, transform: Transform | None = None) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._transform = transform
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        self._list_images(self._root)

    def _list_images(self, root: str) -> None:
        try:
            folders = sorted(os.listdir(root))
        except OSError as error:
            raise UnreadableFolderError(
                f"ImageFolderDataset: cannot read the folder {root}: {error.strerror or error}"
            ) from error
        for folder in folders:
            path = os.path.join(root, folder)
            if not os.path.isdir(path):
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=3)
                continue
            label = len(self.synsets)
            self.synsets.append(folder)
            for name in sorted(os.listdir(path)):
                file = os.path.join(path, name)
                if os.path.splitext(name)[1].lower() in _EXTENSIONS:
                    self.items.append((file, label))
                else:
                    warnings.warn(f"Ignoring {file}: only {', '.join(_EXTENSIONS)} are supported", stacklevel=3)

    def __getitem__(self, idx: int) -> Any:
        path, label = self.items[idx]
        image = imread(path, self._flag)
        return (image, label) if self._transform is None else self._transform(image, label)

    def __len__(self) -> int:
        return len(self.items)


class ImageListDataset(Dataset):
    """Images and labels that a list names. MXNet 2 has it.

    Parameters
    ----------
    root:
        The folder to which paths are relative.
    imglist:
        The name of a file in ``root`` with lines of key, labels and path; or a list of ``[label, path]`` or
        ``[label, label, …, path]``.
    flag:
        1 for images of three channels, 0 for gray ones.
    """

    def __init__(self, root: str | os.PathLike[str] = ".", imglist: Any = None, flag: int = 1) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        if isinstance(imglist, str):
            self._items = list(read_list(os.path.join(self._root, imglist), "float32").values())
        elif isinstance(imglist, list | tuple):
            self._items = [listed(item, "float32") for item in cast("list[Any]", imglist)]
        else:
            raise ArgumentTypeError(
                f"ImageListDataset: imglist must be the name of a list file, or a list, got {type(imglist).__name__}"
            )

    def __getitem__(self, idx: int) -> tuple[NDArray, NDArray]:
        label, name = self._items[idx]
        return imread(os.path.join(self._root, name), self._flag), as_default(NDArray(np.atleast_1d(label)))

    def __len__(self) -> int:
        return len(self._items)
