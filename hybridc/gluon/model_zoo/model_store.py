"""Files of trained parameters: those that MXNet's model zoo offers, where its users keep them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from hybridc.errors import UnsupportedError

__all__ = ["get_model_file", "purge", "short_hash"]

# The SHA-1 of the file of each model, or its beginning: MXNet calls it <name>-<first 8 digits>.params. GluonNLP adds
# its own models.
_model_sha1 = {
    "alexnet": "44335d1f",
    "densenet121": "f27dbf2d",
    "densenet161": "b6c8a957",
    "densenet169": "2603f878",
    "densenet201": "1cdbc116",
    "inceptionv3": "ed47ec45",
    "mobilenet0.25": "9f83e440",
    "mobilenet0.5": "8e9d539c",
    "mobilenet0.75": "529b2c7f",
    "mobilenet1.0": "6b8c5106",
    "mobilenetv2_0.25": "ae8f9392",
    "mobilenetv2_0.5": "aabd26cd",
    "mobilenetv2_0.75": "e2be7b72",
    "mobilenetv2_1.0": "36da4ff1",
    "resnet101_v1": "d988c13d",
    "resnet101_v2": "18e93e4f",
    "resnet152_v1": "671c637a",
    "resnet152_v2": "f2695542",
    "resnet18_v1": "a0666292",
    "resnet18_v2": "a81db45f",
    "resnet34_v1": "48216ba9",
    "resnet34_v2": "9d6b80bb",
    "resnet50_v1": "0aee57f9",
    "resnet50_v2": "ecdde353",
    "squeezenet1.0": "264ba497",
    "squeezenet1.1": "33ba0f93",
    "vgg11": "dd221b16",
    "vgg11_bn": "ee79a809",
    "vgg13": "6bc5de58",
    "vgg13_bn": "7d97a06c",
    "vgg16": "e660d456",
    "vgg16_bn": "7f01cf05",
    "vgg19": "ad2f660d",
    "vgg19_bn": "f360b758",
}


def models_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder of model files: ``root``, or ``models`` in $MXNET_HOME, which is ~/.mxnet by default."""
    if root is None:
        root = Path(os.environ.get("MXNET_HOME") or Path("~", ".mxnet")) / "models"
    return Path(root).expanduser()


def short_hash(name: str) -> str:
    """The first 8 digits of the SHA-1 of the file of the model ``name``; a ValueError if MXNet offers none."""
    if name not in _model_sha1:
        raise ValueError(f"Pretrained model for {name} is not available.")
    return _model_sha1[name][:8]


def get_model_file(name: str, root: str | os.PathLike[str] | None = None) -> str:
    """The file of a model's trained parameters: ``<name>-<hash>.params`` or ``<name>.params``.

    MXNet's own file wins over others. Nothing is downloaded: an UnsupportedError says what is missing.

    Parameters
    ----------
    name:
        The name of the model.
    root:
        The folder; None is that of MXNet's models, ``~/.mxnet/models``.
    """
    folder = models_folder(root)
    own = f"{name}-{short_hash(name)}.params" if name in _model_sha1 else None
    if own is not None and (folder / own).is_file():
        return str(_undamaged(folder / own))
    found = sorted(p for p in folder.glob("*.params") if p.stem == name or p.stem.rpartition("-")[0] == name)
    if len(found) == 1:
        return str(found[0])
    want = f"{name}.params" if own is None else f"{own} of MXNet's model zoo, or your own {name}.params,"
    if found:
        raise UnsupportedError(
            f"model {name}: {', '.join(p.name for p in found)} in {folder} might be meant; keep one of them there"
        )
    # COMPAT(mxnet): there the file is downloaded.
    raise UnsupportedError(f"model {name}: no file of its parameters; nothing is downloaded: put {want} into {folder}")


def _undamaged(file: Path) -> Path:
    """The file, if its content is what its name says."""
    wanted = file.stem.rpartition("-")[2]
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha1").hexdigest()
    if not found.startswith(wanted):
        raise UnsupportedError(f"{file} is damaged: its SHA-1 is {found} and not {wanted}…; put the right file there")
    return file


def load_pretrained(net: Any, name: str, ctx: Any, root: str | os.PathLike[str] | None) -> None:
    """Load the trained parameters of the model into a network."""
    net.load_parameters(get_model_file(name, root), ctx=ctx)


def purge(root: str | os.PathLike[str] | None = None) -> None:
    """Delete all files of parameters in a folder.

    Parameters
    ----------
    root:
        The folder; None is that of MXNet's models, ``~/.mxnet/models``.
    """
    for file in models_folder(root).glob("*.params"):
        file.unlink()
