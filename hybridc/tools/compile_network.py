"""``python -m hybridc compile``: a network in files is compiled before a program loads it.

    python -m hybridc compile model --shapes data:1,3,224,224 --shapes data:8,3,224,224

``model-symbol.json`` and the latest ``model-0003.params`` are a network that was exported, or that MXNet saved. Its
program goes into ``model-0003.compiled``, which ``SymbolBlock.imports(…, compiled=True)`` and
``Module.load(…, compiled=True)`` take, and into the cache on this computer, which programs here use anyhow. Each
``--shapes`` is one size: the shapes of all inputs.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hybridc.errors import AttributeValueError, MXNetError
from hybridc.gluon.export import beside, compile_into
from hybridc.gluon.symbol_block import SymbolBlock
from hybridc.io.io import DataDesc
from hybridc.module.module import Module
from hybridc.symbol.checkpoint import load_checkpoint, parameters_file

Shapes = Mapping[str, tuple[int, ...]]
_SYMBOL = "-symbol.json"


def main(arguments: Sequence[str]) -> int:
    """Compile what the command line says; 1 where that cannot be done."""
    options = _options(arguments)
    try:
        print(compiled(options))
    except MXNetError as error:
        print(f"python -m hybridc compile: {error}", file=sys.stderr)
        return 1
    return 0


def _options(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser("python -m hybridc compile", None, __doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("model", help="the prefix of the files, or the file of the symbol")
    shapes = parser.add_argument("--shapes", action="append", nargs="+", required=True, metavar="NAME:SIZES")
    shapes.help = "the shapes of the inputs, as data:1,3,224,224; give it again for each further size"
    parser.add_argument("--dtype", default="float32", help="of the inputs (default: float32)")
    parser.add_argument("--epoch", type=int, help="of the file of parameters (default: the latest)")
    parser.add_argument("--training", action="store_true", help="also for calls whose gradients are recorded")
    parser.add_argument("--module", action="store_true", help="for Module.load instead of SymbolBlock.imports")
    parser.add_argument("--output", help="the file of the program (default: beside that of the parameters)")
    return parser.parse_args(arguments)


def compiled(options: Namespace) -> str:
    """Compile a network; a line that says what was done."""
    prefix = options.model.removesuffix(_SYMBOL)
    sizes = [dict(map(named_shape, each)) for each in options.shapes]
    if len({frozenset(each) for each in sizes}) > 1:
        raise AttributeValueError("each --shapes is one size, the shapes of all inputs; these name different inputs")
    epoch = _latest(prefix) if options.epoch is None else options.epoch
    file = options.output or beside(parameters_file(prefix, epoch))
    dtype = np.dtype(options.dtype)
    (_compile_module if options.module else _compile_block)(prefix, epoch, file, sizes, dtype, options.training)
    return f"{file}: compiled for {len(sizes)} size{'s' * (len(sizes) != 1)}, {Path(file).stat().st_size} bytes"


def _compile_block(
    prefix: str, epoch: int, file: str, sizes: Sequence[Shapes], dtype: np.dtype[np.generic], training: bool
) -> None:
    network = SymbolBlock.imports(prefix + _SYMBOL, list(sizes[0]), parameters_file(prefix, epoch))
    compile_into(file, network, [[(each[name], dtype) for name in sizes[0]] for each in sizes], training)


def _compile_module(
    prefix: str, epoch: int, file: str, sizes: Sequence[Shapes], dtype: np.dtype[np.generic], training: bool
) -> None:
    from hybridc.compile.compiled_file import compiled_into

    symbol, known, _ = load_checkpoint(prefix, epoch)
    labels = [name for name in symbol.list_arguments() if name not in known and name not in sizes[0]]
    with compiled_into(file, len(sizes) * (1 + training)):
        for shapes in sizes:
            for for_training in (False, True)[: 1 + training]:
                module = Module.load(prefix, epoch, data_names=list(shapes), label_names=labels)
                described = [DataDesc(name, shape, dtype.type) for name, shape in shapes.items()]
                module.bind(described, for_training=for_training)
                module.compile()


def named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """The name and the shape of an input."""
    found = re.fullmatch(r"(.+):(\d+(?:,\d+)*,?)", text)
    if found is None:
        raise AttributeValueError(f"--shapes {text}: expected the name of an input and its shape, as data:1,3,224,224")
    return found[1], tuple(int(n) for n in found[2].split(",") if n)


def _latest(prefix: str) -> int:
    """The epoch of the latest file of parameters."""
    path = Path(prefix)
    named = re.compile(rf"{re.escape(path.name)}-(\d{{4,}})\.params")
    epochs = [int(found[1]) for file in path.parent.glob("*.params") if (found := named.fullmatch(file.name))]
    if not epochs:
        raise AttributeValueError(f"there is no file {prefix}-0000.params, or of another epoch, with the parameters")
    return max(epochs)
