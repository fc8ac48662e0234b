"""Checkpoints: a symbol in one file, and its arrays in another."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.errors import AttributeValueError
from hybridc.nd import storage
from hybridc.symbol.composed import load

__all__ = ["load_checkpoint", "load_params", "save_checkpoint"]


def parameters_file(prefix: str, epoch: int) -> str:
    """The name of the file of arrays: ``net-0003.params``."""
    return f"{prefix}-{epoch:04d}.params"


def save_checkpoint(
    prefix: str,
    epoch: int,
    symbol: Any,
    arg_params: Mapping[str, NDArray],
    aux_params: Mapping[str, NDArray],
    remove_amp_cast: bool = True,
) -> None:
    """Save a symbol and its arrays: ``prefix-symbol.json`` and ``prefix-0003.params``.

    Parameters
    ----------
    prefix:
        What names of the files begin with, with their folder.
    epoch:
        The number in the name of the arrays' file, with at least 4 digits.
    symbol:
        The symbol; None for arrays alone.
    arg_params, aux_params:
        The arguments and the auxiliary states, dicts of arrays by name.
    remove_amp_cast:
        Save the symbol without the casts of mixed precision.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prefix = os.path.join(folder, "net")
    ...     symbol = mx.sym.var("x") * mx.sym.var("w")
    ...     mx.model.save_checkpoint(prefix, 3, symbol, {"w": mx.nd.array([7])}, {})
    ...     symbol, arguments, states = mx.model.load_checkpoint(prefix, 3)
    >>> symbol.list_arguments(), arguments["w"].tolist(), states
    (['x', 'w'], [7.0], {})
    """
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    file = parameters_file(prefix, epoch)
    storage.save(file, named_for_file(arg_params, aux_params))
    logging.getLogger().info('Saved checkpoint to "%s"', file)


def named_for_file(arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """The arrays by the names that they have in the file of a checkpoint: ``arg:fc1_weight``, ``aux:bn_mean``."""
    arguments = {f"arg:{name}": value for name, value in arg_params.items()}
    return {**arguments, **{f"aux:{name}": value for name, value in aux_params.items()}}


def load_params(prefix: str, epoch: int) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """The arrays of a checkpoint by name: arguments, and auxiliary states.

    Parameters
    ----------
    prefix, epoch:
        What :func:`save_checkpoint` was called with. An MXNetError is raised if there is no such file.
    """
    return load_arrays(parameters_file(prefix, epoch))


def load_arrays(file: str) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """The arrays in the file of a checkpoint by name: arguments, and auxiliary states."""
    found: dict[str, dict[str, NDArray]] = {"arg": {}, "aux": {}}
    for key, value in storage.load_named(file).items():
        kind, colon, name = key.partition(":")
        if not colon or kind not in found:
            raise AttributeValueError(
                f"{file} is no file of a checkpoint: its names begin with 'arg:' or 'aux:', but there is {key!r}; "
                "load_parameters() of a block reads files of save_parameters()"
            )
        found[kind][name] = value
    return found["arg"], found["aux"]


def load_checkpoint(prefix: str, epoch: int) -> tuple[Any, dict[str, NDArray], dict[str, NDArray]]:
    """The symbol, the arguments and the auxiliary states that :func:`save_checkpoint` or MXNet saved.

    Parameters
    ----------
    prefix, epoch:
        What :func:`save_checkpoint` was called with. An MXNetError is raised if there is no such file.
    """
    return load(f"{prefix}-symbol.json"), *load_params(prefix, epoch)
