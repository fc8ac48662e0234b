"""Makes exported_rnn.npz and exported_rnn.json: recurrent layers that MXNet 1.9.1 exported, with their results.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_exported_rnn.py
"""

import json
import pathlib
import tempfile

import mxnet as mx  # noqa: TID251
import numpy as np

HERE = pathlib.Path(__file__).parent
rnn = mx.gluon.rnn
LAYERS = {
    "lstm": lambda: rnn.LSTM(3, input_size=4, prefix="l_"),
    "lstm of unknown size": lambda: rnn.LSTM(3, num_layers=2, prefix="l_"),
    "gru both ways": lambda: rnn.GRU(3, num_layers=2, bidirectional=True, prefix="l_"),
    "rnn of examples first": lambda: rnn.RNN(3, layout="NTC", activation="tanh", prefix="l_"),
}
arrays, texts = {}, {}
for name, make in LAYERS.items():
    random = np.random.RandomState(1)
    layer = make()
    layer.initialize()
    layer.hybridize()
    x = mx.nd.array(random.uniform(-1, 1, (2, 5, 4)))
    states = [mx.nd.array(random.uniform(-1, 1, s.shape)) for s in layer.begin_state(5 if name[:3] != "rnn" else 2)]
    layer(x, states)
    for value in layer.collect_params().values():
        value.set_data(mx.nd.array(random.uniform(-0.5, 0.5, value.shape)))
    y, last = layer(x, states)
    with tempfile.TemporaryDirectory() as folder:
        layer.export(f"{folder}/a")
        texts[name] = pathlib.Path(f"{folder}/a-symbol.json").read_text()
        saved = mx.nd.load(f"{folder}/a-0000.params")
    inputs = {"data0": x, **{f"data{i + 1}": s for i, s in enumerate(states)}}
    outputs = {f"out{i}": v for i, v in enumerate([y, *last])}
    for key, value in {**saved, **inputs, **outputs}.items():
        arrays[f"{name}/{key}"] = value.asnumpy()
np.savez_compressed(HERE / "exported_rnn.npz", **arrays)
(HERE / "exported_rnn.json").write_text(json.dumps(texts, indent=1) + "\n")
