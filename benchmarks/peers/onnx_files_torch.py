"""ONNX files as PyTorch writes them: ``python onnx_files_torch.py FOLDER [--small]``, in an environment of its own.

It needs torch, onnx, onnxscript and onnxruntime (which quantizes one of them). The networks are those that people
bring: classifiers of images, an encoder and a decoder of text, one of speech, a detector, a part of a diffusion model,
a recurrent language model. Weights are random, from fixed seeds. Beside ``NAME.onnx`` lies ``NAME.npz`` with inputs and
PyTorch's outputs; of the quantized network the outputs are those of ONNX Runtime.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx  # pyright: ignore[reportMissingImports]
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional as tf  # pyright: ignore[reportMissingImports]

OPSET = 18


@dataclass
class Network:
    """A network with example inputs, the last of which may be several; ``varying`` axes have names in the file."""

    module: Any
    inputs: tuple[Any, ...]
    names: tuple[str, ...]
    varying: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])


def normalized(channels_in: int, channels: int, kernel: int, stride: int = 1, groups: int = 1, act: Any = None) -> Any:
    """Convolution, batch normalization, activation."""
    convolution = nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels), *([] if act is None else [act]))


class Residual(nn.Module):
    """The basic block of ResNet."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.first = normalized(channels_in, channels, 3, stride, act=nn.ReLU())
        self.second = normalized(channels, channels, 3)
        same = stride == 1 and channels_in == channels
        self.short = nn.Identity() if same else normalized(channels_in, channels, 1, stride)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.second(self.first(x)) + self.short(x))


def resnet(small: bool) -> Network:
    """ResNet-18."""
    width, size, classes = (4, 32, 10) if small else (64, 224, 1000)
    layers: list[Any] = [normalized(3, width, 7, 2, act=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    channels = width
    for stage in range(4):
        for block in range(1 if small else 2):
            out = width << stage
            layers.append(Residual(channels, out, 2 if stage and not block else 1))
            channels = out
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return Network(nn.Sequential(*layers, *head), (torch.randn(1, 3, size, size),), ("image",), {"image": {0: "batch"}})


class Inverted(nn.Module):
    """The block of MobileNetV2."""

    def __init__(self, channels_in: int, channels: int, stride: int, expand: int) -> None:
        super().__init__()
        inner = channels_in * expand
        steps = [normalized(channels_in, inner, 1, act=nn.ReLU6())] if expand > 1 else []
        steps += [normalized(inner, inner, 3, stride, inner, nn.ReLU6()), normalized(inner, channels, 1)]
        self.steps = nn.Sequential(*steps)
        self.same = stride == 1 and channels_in == channels

    def forward(self, x: Any) -> Any:
        return x + self.steps(x) if self.same else self.steps(x)


def mobilenet(small: bool) -> Network:
    """MobileNetV2."""
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    rows, size, last, classes = (rows[:2], 32, 24, 10) if small else (rows, 224, 1280, 1000)
    layers, channels = [normalized(3, 32, 3, 2, act=nn.ReLU6())], 32
    for expand, out, count, stride in rows:
        for block in range(count):
            layers.append(Inverted(channels, out, 1 if block else stride, expand))
            channels = out
    head = [
        normalized(channels, last, 1, act=nn.ReLU6()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(last, classes),
    ]
    return Network(nn.Sequential(*layers, *head), (torch.randn(1, 3, size, size),), ("image",), {"image": {0: "batch"}})


class Attention(nn.Module):
    """Multi-head attention, with the keys and values of earlier steps if there are some."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any, mask: Any = None, past: Any = None) -> Any:
        batch, length, width = x.shape
        q, k, v = self.joint(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        weights = torch.softmax(scores if mask is None else scores + mask, dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width)), k, v


class Layer(nn.Module):
    """A layer of a transformer; normalization comes first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.attention, self.between = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any, mask: Any = None, past: Any = None) -> Any:
        attended, k, v = self.attention(self.before(x), mask, past)
        x = x + attended
        return x + self.narrow(tf.gelu(self.wide(self.between(x)))), k, v


class Encoder(nn.Module):
    """Tokens and a mask of the valid ones to a vector for each."""

    def __init__(self, words: int, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Any, valid: Any) -> Any:
        mask = (1.0 - valid.to(torch.float32))[:, None, None, :] * -1e4
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x, mask)[0]
        return self.norm(x)


def encoder(small: bool) -> Network:
    """An encoder of text."""
    width, layers, heads, length = (16, 2, 4, 12) if small else (384, 6, 6, 128)
    net = Encoder(50 if small else 30000, width, layers, heads, 4 * length)
    tokens, valid = torch.randint(0, 50, (1, length)), torch.ones(1, length, dtype=torch.int64)
    valid[:, -length // 4 :] = 0
    axes = {0: "batch", 1: "length"}
    return Network(net, (tokens, valid), ("tokens", "valid"), {"tokens": axes, "valid": axes})


class Decoder(nn.Module):
    """One token after those whose keys and values are given: scores of the next one, and all keys and values."""

    def __init__(self, words: int, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, token: Any, past: Any) -> Any:
        at = past[0].shape[2]
        x = self.words(token) + self.places(torch.arange(at, at + token.shape[1]))
        present: list[Any] = []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, None, (past[2 * i], past[2 * i + 1]))
            present += [k, v]
        return (self.out(self.norm(x)), *present)


def decoder(small: bool) -> Network:
    """A step of a decoder of text with past keys."""
    width, layers, heads, length = (16, 2, 4, 5) if small else (512, 6, 8, 128)
    past = tuple(torch.randn(1, heads, length, width // heads) for _ in range(2 * layers))
    names = [f"past_{part}_{i}" for i in range(layers) for part in ("key", "value")]
    net = Decoder(50 if small else 16000, width, layers, heads, 4 * length)
    varying = {name: {2: "past_length"} for name in names}
    return Network(net, (torch.randint(0, 50, (1, 1)), past), ("token", *names), varying)


class Speech(nn.Module):
    """Whisper's encoder: two convolutions over a spectrogram, positions as waves, layers."""

    def __init__(self, bands: int, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(bands, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        angles = torch.arange(length)[:, None] * torch.exp(-torch.arange(width // 2) * (math.log(1e4) / (width // 2)))
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], dim=1))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, spectrogram: Any) -> Any:
        x = tf.gelu(self.second(tf.gelu(self.first(spectrogram)))).transpose(1, 2) + self.places
        for layer in self.layers:
            x = layer(x)[0]
        return self.norm(x)


def speech(small: bool) -> Network:
    """An encoder of speech, of the size of Whisper's smallest; ten seconds."""
    bands, width, layers, heads, length = (10, 16, 2, 4, 15) if small else (80, 384, 4, 6, 500)
    net = Speech(bands, width, layers, heads, length)
    return Network(net, (torch.randn(1, bands, 2 * length),), ("spectrogram",))


class Detector(nn.Module):
    """YOLO in small: convolutions, two scales, boxes and scores of each cell."""

    def __init__(self, width: int, classes: int, size: int) -> None:
        super().__init__()
        steps = [normalized(3, width, 3, 2, act=nn.SiLU()), normalized(width, 2 * width, 3, 2, act=nn.SiLU())]
        self.stem = nn.Sequential(*steps, normalized(2 * width, 4 * width, 3, 2, act=nn.SiLU()))
        self.deep = nn.Sequential(normalized(4 * width, 8 * width, 3, 2, act=nn.SiLU()), nn.MaxPool2d(5, 1, 2))
        self.joined = normalized(12 * width, 4 * width, 3, act=nn.SiLU())
        self.heads = nn.ModuleList(nn.Conv2d(c, 5 + classes, 1) for c in (4 * width, 8 * width))
        for i, stride in enumerate((8, 16)):
            cells = size // stride
            y, x = torch.meshgrid(torch.arange(cells), torch.arange(cells), indexing="ij")
            self.register_buffer(f"grid{i}", torch.stack([x, y], 0)[None].float())

    def forward(self, image: Any) -> Any:
        near = self.stem(image)
        far = self.deep(near)
        near = self.joined(torch.cat([near, tf.interpolate(far, scale_factor=2.0, mode="nearest")], dim=1))
        boxes: list[Any] = []
        scores: list[Any] = []
        for i, (stride, x) in enumerate(((8, near), (16, far))):
            found = self.heads[i](x)
            center = (torch.sigmoid(found[:, :2]) * 2 - 0.5 + getattr(self, f"grid{i}")) * stride
            extent = (torch.sigmoid(found[:, 2:4]) * 2) ** 2 * stride
            box = torch.cat([center - extent / 2, center + extent / 2], dim=1)
            boxes.append(box.flatten(2).transpose(1, 2))
            scores.append((torch.sigmoid(found[:, 4:5]) * torch.sigmoid(found[:, 5:])).flatten(2))
        return torch.cat(boxes, dim=1), torch.cat(scores, dim=2)


def detector(small: bool) -> Network:
    """A detector; ``suppressed`` adds the choice among boxes."""
    width, classes, size = (4, 3, 64) if small else (32, 80, 320)
    return Network(Detector(width, classes, size), (torch.rand(1, 3, size, size),), ("image",))


def suppressed(model: Any) -> None:
    """The file's boxes and scores go through NonMaxSuppression, whose result is a further output."""
    boxes, scores = (o.name for o in model.graph.output)
    helper, numbers = onnx.helper, {"most": np.int64(20), "overlap": np.float32(0.5), "least": np.float32(0.26)}
    for name, value in numbers.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([value]), name))
    model.graph.node.append(helper.make_node("NonMaxSuppression", [boxes, scores, *numbers], ["chosen"]))
    model.graph.output.append(helper.make_tensor_value_info("chosen", onnx.TensorProto.INT64, ["found", 3]))


class Denoiser(nn.Module):
    """A level of a diffusion model's U-Net: residual blocks with the time, attention over places, down and up."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        wide = 2 * channels
        self.time = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.SiLU(), nn.Linear(4 * channels, channels + wide)
        )
        self.norms = nn.ModuleList(nn.GroupNorm(4, c) for c in (channels, channels, wide, wide))
        convolutions = ((channels, channels, 1), (channels, wide, 2), (wide, wide, 1), (wide, channels, 1))
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, s, 1) for a, b, s in convolutions)
        self.attention = Attention(wide, heads)
        self.out = nn.Conv2d(2 * channels, channels, 3, padding=1)
        half = channels // 2
        self.register_buffer("rates", torch.exp(torch.arange(half) * (-math.log(1e4) / half)))

    def forward(self, x: Any, time: Any) -> Any:
        angles = time[:, None] * self.rates
        shift = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))[:, :, None, None]
        first, second = shift[:, : x.shape[1]], shift[:, x.shape[1] :]
        high = x + self.convolutions[0](tf.silu(self.norms[0](x))) + first
        low = self.convolutions[1](tf.silu(self.norms[1](high))) + second
        low = low + self.convolutions[2](tf.silu(self.norms[2](low)))
        rows = self.norms[3](low).flatten(2).transpose(1, 2)
        low = low + self.attention(rows)[0].transpose(1, 2).reshape(low.shape)
        up = self.convolutions[3](tf.interpolate(low, scale_factor=2.0, mode="nearest"))
        return self.out(torch.cat([up, high], dim=1))


def denoiser(small: bool) -> Network:
    """A level of a diffusion model's U-Net."""
    channels, size = (4, 8) if small else (128, 32)
    inputs = (torch.randn(2, channels, size, size), torch.tensor([3.0, 700.0]))
    return Network(Denoiser(channels, 4), inputs, ("noisy", "time"))


class Language(nn.Module):
    """A language model of LSTM layers."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words, self.layers = nn.Embedding(words, width), nn.LSTM(width, width, 2, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, tokens: Any) -> Any:
        return self.out(self.layers(self.words(tokens))[0])


def language(small: bool) -> Network:
    """A language model of LSTM layers."""
    words, width, length = (50, 16, 6) if small else (10000, 256, 35)
    return Network(Language(words, width), (torch.randint(0, words, (4, length)),), ("tokens",))


class Patches(nn.Module):
    """A vision transformer."""

    def __init__(self, size: int, patch: int, width: int, layers: int, heads: int, classes: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)
        self.first, self.places = (
            nn.Parameter(torch.randn(1, 1, width)),
            nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width)),
        )
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, image: Any) -> Any:
        x = self.cut(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        for layer in self.layers:
            x = layer(x)[0]
        return self.out(self.norm(x)[:, 0])


def patches(small: bool) -> Network:
    """A vision transformer, of the size of the one called tiny."""
    sizes = (32, 8, 12, 2, 3, 10) if small else (224, 16, 192, 12, 3, 1000)
    size = sizes[0]
    return Network(Patches(*sizes), (torch.randn(1, 3, size, size),), ("image",))


NETWORKS: dict[str, Callable[[bool], Network]] = {
    "resnet": resnet,
    "mobilenet": mobilenet,
    "encoder": encoder,
    "decoder": decoder,
    "speech": speech,
    "detector": detector,
    "denoiser": denoiser,
    "language": language,
    "patches": patches,
}


def write(name: str, folder: Path, small: bool, dynamo: bool) -> None:
    """One network's files."""
    torch.manual_seed(0)
    network = NETWORKS[name](small)
    network.module.train()
    if name in ("resnet", "mobilenet", "detector"):  # running statistics other than 0 and 1
        with torch.no_grad():
            network.module(*(torch.cat([x, torch.randn_like(x)]) for x in network.inputs))
    network.module.eval()
    path = folder / f"{name}.onnx"
    single = len(network.names) == len(network.inputs)
    axes = [network.varying.get(n) for n in network.names]
    shapes = tuple(axes) if single else (axes[0], tuple(axes[1:]))
    with torch.no_grad():
        outputs = network.module(*network.inputs)
        torch.onnx.export(
            network.module,
            network.inputs,
            path,
            input_names=list(network.names),
            opset_version=OPSET,
            **({"dynamic_shapes": shapes, "external_data": False} if dynamo else {"dynamic_axes": network.varying}),
            dynamo=dynamo,
        )
    model = onnx.load(path)
    for part in (model.graph, *model.graph.node, *model.graph.value_info):  # where in whose program it came from
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    if name == "detector":
        suppressed(model)
    onnx.save(model, path)
    inputs = network.inputs if single else (network.inputs[0], *network.inputs[1])
    arrays = {n: x.numpy() for n, x in zip(network.names, inputs, strict=True)}
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    np.savez(folder / f"{name}.npz", **arrays, **{f"output{i}": x.numpy() for i, x in enumerate(results)})


def write_quantized(folder: Path) -> None:
    """The classifier with its weights and activations as int8, by QuantizeLinear and DequantizeLinear."""
    import onnxruntime as ort  # pyright: ignore[reportMissingImports]
    from onnxruntime.quantization import (  # pyright: ignore[reportMissingImports]
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process  # pyright: ignore[reportMissingImports]

    source, prepared, path = (folder / f"{name}.onnx" for name in ("resnet", "prepared", "quantized"))
    shape = np.load(folder / "resnet.npz")["image"].shape

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter([np.random.default_rng(i).standard_normal(shape, np.float32) for i in range(8)])

        def get_next(self) -> Any:
            image = next(self.rest, None)
            return None if image is None else {"image": image}

    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    quantize_static(prepared, path, Images(), quant_format=QuantFormat.QDQ, per_channel=True, **kinds)
    prepared.unlink()
    image = np.load(folder / "resnet.npz")["image"]
    (output,) = ort.InferenceSession(path).run(None, {"image": image})
    np.savez(folder / "quantized.npz", image=image, output0=output)


def main() -> None:
    """Write all, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true", help="of a size for tests")
    parser.add_argument("--dynamo", action="store_true", help="by PyTorch's newer exporter")
    parser.add_argument("--only", nargs="*", default=[*NETWORKS, "quantized"])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        print(name, flush=True)
        if name == "quantized":
            write_quantized(options.folder)
        else:
            write(name, options.folder, options.small, options.dynamo)


if __name__ == "__main__":
    main()
