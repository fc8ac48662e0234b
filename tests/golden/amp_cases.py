"""Layers, cells, losses and networks of Gluon: the dtypes of their results under automatic mixed precision.

For each class how it is made, and the shapes of its arguments; sizes of parameters are inferred. MXNet's answers are in
amp.json, made by make_amp.py.
"""

from __future__ import annotations

from typing import Any

IMAGE, SEQUENCE, ROWS = (2, 4, 8, 8), (3, 2, 4), (2, 4)

# By namespace of gluon and class: the arguments of the constructor, and the shapes of the call's arguments.
LAYERS: dict[str, dict[str, tuple[str, tuple[Any, ...]]]] = {
    "nn": {
        "Activation": ("'softrelu'", (ROWS,)),
        "AvgPool1D": ("", (SEQUENCE,)),
        "AvgPool2D": ("", (IMAGE,)),
        "AvgPool3D": ("", ((2, 4, 4, 4, 4),)),
        "BatchNorm": ("", (IMAGE,)),
        "BatchNormReLU": ("", (IMAGE,)),
        "Conv1D": ("2, 3, activation='tanh'", (SEQUENCE,)),
        "Conv1DTranspose": ("2, 3", (SEQUENCE,)),
        "Conv2D": ("2, 3", (IMAGE,)),
        "Conv2DTranspose": ("2, 3", (IMAGE,)),
        "Conv3D": ("2, 3", ((2, 4, 4, 4, 4),)),
        "Conv3DTranspose": ("2, 3", ((2, 4, 4, 4, 4),)),
        "Dense": ("3, activation='relu'", (IMAGE,)),
        "Dropout": ("0.5", (ROWS,)),
        "ELU": ("", (ROWS,)),
        "Embedding": ("5, 3", (ROWS,)),
        "Flatten": ("", (IMAGE,)),
        "GELU": ("", (ROWS,)),
        "GlobalAvgPool1D": ("", (SEQUENCE,)),
        "GlobalAvgPool2D": ("", (IMAGE,)),
        "GlobalAvgPool3D": ("", ((2, 4, 4, 4, 4),)),
        "GlobalMaxPool1D": ("", (SEQUENCE,)),
        "GlobalMaxPool2D": ("", (IMAGE,)),
        "GlobalMaxPool3D": ("", ((2, 4, 4, 4, 4),)),
        "GroupNorm": ("2", (IMAGE,)),
        "HybridLambda": ("'tanh'", (ROWS,)),
        "InstanceNorm": ("", (IMAGE,)),
        "LayerNorm": ("", (ROWS,)),
        "LeakyReLU": ("0.1", (ROWS,)),
        "MaxPool1D": ("", (SEQUENCE,)),
        "MaxPool2D": ("", (IMAGE,)),
        "MaxPool3D": ("", ((2, 4, 4, 4, 4),)),
        "PReLU": ("", (ROWS,)),
        "ReflectionPad2D": ("1", (IMAGE,)),
        "SELU": ("", (ROWS,)),
        "Swish": ("", (ROWS,)),
    },
    "rnn": {
        "GRU": ("3", (SEQUENCE,)),
        "LSTM": ("3, num_layers=2, bidirectional=True", (SEQUENCE,)),
        "RNN": ("3, layout='NTC'", (SEQUENCE,)),
        "BidirectionalCell": ("mx.gluon.rnn.LSTMCell(3), mx.gluon.rnn.GRUCell(3)", (SEQUENCE,)),
        "DropoutCell": ("0.5", (SEQUENCE,)),
        "GRUCell": ("3", (SEQUENCE,)),
        "LSTMCell": ("3", (SEQUENCE,)),
        "RNNCell": ("3, 'relu'", (SEQUENCE,)),
        "ResidualCell": ("mx.gluon.rnn.GRUCell(4)", (SEQUENCE,)),
        "ZoneoutCell": ("mx.gluon.rnn.RNNCell(4), 0.5, 0.5", (SEQUENCE,)),
    },
    "contrib.nn": {
        "PixelShuffle1D": ("2", (SEQUENCE,)),
        "PixelShuffle2D": ("2", (IMAGE,)),
        "PixelShuffle3D": ("(2, 2, 1)", ((2, 4, 4, 4, 4),)),
        "SyncBatchNorm": ("", (IMAGE,)),
    },
    "contrib.cnn": {
        "DeformableConvolution": ("2, (3, 3)", (IMAGE,)),
        "ModulatedDeformableConvolution": ("2, (3, 3)", (IMAGE,)),
    },
    "contrib.rnn": {
        **{
            f"Conv{n}D{kind}Cell": (
                f"{(4, *sizes)}, 2, {(3,) * n}, {(3,) * n}, {(1,) * n}",
                ((3, 2, 4, *sizes),),
            )
            for n, sizes in ((1, (5,)), (2, (5, 4)), (3, (3, 4, 3)))
            for kind in ("RNN", "LSTM", "GRU")
        },
        "LSTMPCell": ("4, 3", (SEQUENCE,)),
        "VariationalDropoutCell": ("mx.gluon.rnn.GRUCell(4), 0.5, 0.5, 0.5", (SEQUENCE,)),
    },
    "loss": {
        "CTCLoss": ("", ((2, 5, 4), (2, 3))),
        "CosineEmbeddingLoss": ("", (ROWS, ROWS, (2,))),
        "HingeLoss": ("", (ROWS, ROWS)),
        "HuberLoss": ("", (ROWS, ROWS)),
        "KLDivLoss": ("", (ROWS, ROWS)),
        "L1Loss": ("", (ROWS, ROWS)),
        "L2Loss": ("", (ROWS, ROWS)),
        "LogisticLoss": ("", (ROWS, ROWS)),
        "PoissonNLLLoss": ("", (ROWS, ROWS)),
        "SDMLLoss": ("", (ROWS, ROWS)),
        "SigmoidBinaryCrossEntropyLoss": ("", (ROWS, ROWS)),
        "SoftmaxCrossEntropyLoss": ("", (ROWS, (2,))),
        "SquaredHingeLoss": ("", (ROWS, ROWS)),
        "TripletLoss": ("", (ROWS, ROWS, ROWS)),
    },
}
# Classes that hold blocks, functions or symbols of others, have no result, or cannot be hybridized.
OTHERS = {
    *("Block", "HybridBlock", "SymbolBlock", "Sequential", "HybridSequential", "Concurrent", "HybridConcurrent"),
    *("Lambda", "Identity", "SparseEmbedding", "RecurrentCell", "HybridRecurrentCell", "ModifierCell", "Loss"),
    *("SequentialRNNCell", "HybridSequentialRNNCell"),
}
# The networks of the zoo, but for those of other sizes, with the size of an image that they take.
NETWORKS = {
    "alexnet": 224,
    "densenet121": 224,
    "inceptionv3": 299,
    "mobilenet0.25": 64,
    "mobilenetv2_0.25": 64,
    "resnet18_v1": 64,
    "resnet18_v2": 64,
    "resnet50_v1": 64,
    "resnet50_v2": 64,
    "squeezenet1.0": 224,
    "squeezenet1.1": 224,
    "vgg11": 64,
    "vgg11_bn": 64,
}


def layer(mx: Any, where: str, name: str) -> Any:
    """The layer as a block, initialized; a cell is unrolled."""
    code, _ = LAYERS[where][name]
    space: Any = mx.gluon
    for part in where.split("."):
        space = getattr(space, part)
    made = eval(f"space.{name}({code})", {"space": space, "mx": mx})
    if isinstance(made, mx.gluon.rnn.RecurrentCell):
        made = unrolled(mx, made)
    made.initialize()
    return made


def unrolled(mx: Any, cell: Any) -> Any:
    """A block that unrolls a cell along the first axis."""

    class Unrolled(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.cell = cell

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            steps = [F.squeeze(part, axis=0) for part in F.split(x, axis=0, num_outputs=3)]
            self.cell.reset()
            outputs, states = self.cell.unroll(3, steps, layout="TNC", merge_outputs=False)
            return [*outputs, *states]

    return Unrolled()


def dtypes(results: Any) -> list[str]:
    """The names of the dtypes of nested results."""
    if isinstance(results, list | tuple):
        return [name for each in results for name in dtypes(each)]
    name = getattr(results.dtype, "__name__", str(results.dtype))
    return ["bfloat16" if "bfloat16" in name else name]


def result_dtypes(mx: Any, where: str, name: str, hybridize: bool) -> list[str]:
    """The dtypes of the results of a layer for ones."""
    net = layer(mx, where, name)
    net.hybridize(hybridize)
    return dtypes(net(*[mx.nd.ones(shape) for shape in LAYERS[where][name][1]]))


def answers(mx: Any) -> dict[str, dict[str, list[str] | None]]:
    """By layer and mode the dtypes of the results, None for an error; mixed precision has begun."""
    found: dict[str, dict[str, list[str] | None]] = {}
    for where, layers in LAYERS.items():
        for name in layers:
            for hybridize in (False, True):
                try:
                    made = result_dtypes(mx, where, name, hybridize)
                except Exception:
                    made = None
                found.setdefault(f"{where}.{name}", {})["hybridized" if hybridize else "eager"] = made
    return found
