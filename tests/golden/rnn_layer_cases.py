"""Recurrent layers, of which MXNet's outputs, states and gradients are in rnn_layers.npz (make_rnn_layers.py)."""

import numpy as np

# The class, its arguments, whether states are given. On CPUs MXNet ignores clips and lengths of sequences: see the
# samples of the operator.
CASES = {
    "rnn": ("RNN", {"hidden_size": 3}, True),
    "rnn_tanh": ("RNN", {"hidden_size": 3, "num_layers": 2, "activation": "tanh", "layout": "NTC"}, False),
    "lstm": ("LSTM", {"hidden_size": 4}, True),
    "lstm_deep": ("LSTM", {"hidden_size": 3, "num_layers": 3, "bidirectional": True, "layout": "NTC"}, True),
    "lstm_projected": ("LSTM", {"hidden_size": 4, "projection_size": 2, "num_layers": 2}, True),
    "gru": ("GRU", {"hidden_size": 3, "input_size": 4}, False),
    "gru_deep": ("GRU", {"hidden_size": 3, "num_layers": 2, "bidirectional": True, "dropout": 0.4}, True),
}


def run(mx, case, fill, hybridize=False, train=True):
    """Outputs, states and gradients of a layer on 5 steps of 3 sequences; ``fill(name, shape)`` sets parameters."""
    cls, arguments, has_states = case
    layer = getattr(mx.gluon.rnn, cls)(prefix="net_", **arguments)
    layer.initialize()
    is_batch_first = arguments.get("layout") == "NTC"
    random = np.random.default_rng(2)
    data = mx.nd.array(random.normal(size=(3, 5, 4) if is_batch_first else (5, 3, 4)).astype("float32"))
    states = [
        mx.nd.array(random.normal(size=info["shape"]).astype("float32") * 0.1)
        for info in layer.state_info(batch_size=3)
    ]
    args = [data, *([states] if has_states else [])]
    layer(*args)  # which tells the shapes
    for name, parameter in sorted(layer.collect_params().items()):
        parameter.set_data(mx.nd.array(fill(name, parameter.shape)))
    if hybridize:
        layer.hybridize()
    found = {}
    for x in (data, *states):
        x.attach_grad()
    if "projection_size" in arguments:  # MXNet cannot train these on a CPU
        outputs, after = layer(*args)
    else:
        with mx.autograd.record(train_mode=train):
            results = layer(*args)
            outputs, after = (results, []) if len(args) == 1 else results
            loss = (outputs * mx.nd.array(random.normal(size=outputs.shape).astype("float32"))).sum()
            for i, state in enumerate(after):
                loss = loss + (state * (i + 1)).sum()
        loss.backward()
        found["data_grad"] = data.grad.asnumpy()
        for i, state in enumerate(states[: len(after)]):
            found[f"state_grad{i}"] = state.grad.asnumpy()
        for name, parameter in layer.collect_params().items():
            found[f"grad.{name}"] = parameter.grad().asnumpy()
    found["outputs"] = outputs.asnumpy()
    for i, state in enumerate(after):
        found[f"state{i}"] = state.asnumpy()
    return found, layer


def filled(name, shape):
    """The values of a parameter."""
    return (np.random.default_rng(sum(map(ord, name))).normal(size=shape) * 0.4).astype("float32")
