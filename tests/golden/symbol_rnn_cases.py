"""Programs with mx.rnn, written once and run by MXNet (make_symbol_rnn.py) and by hybridc (tests/symbol).

A case is a function of ``mx`` that returns a dict of arrays, or of values that JSON can hold.
"""

from __future__ import annotations

import random
import warnings

import numpy as np
from loop_symbol_cases import leaves, results

N, T, C, H = 2, 3, 4, 5
SHAPES = {"data": (N, T, C), "steps": (T, N, C), "h": (N, H), "c": (N, H), "images": (N, T, 2, 6, 5)}
SHAPES.update({f"x{i}": (N, C) for i in range(T)}, rows=(N, T, H))
CASES, SYMBOLS = {}, {}


def case(function):
    """Enter a program under its name; names of nodes count from 0 in each."""

    def run(mx):
        with mx.name.NameManager(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(mx)

    CASES[function.__name__] = run
    return function


def unrolled(name, make, gradients=True):
    """Enter the program of a symbol: a function of ``mx.rnn`` and ``mx.sym`` that unrolls a cell."""

    def symbol(mx):
        with mx.name.NameManager(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return mx.sym.Group(once(mx, leaves(make(mx.rnn, mx.sym))))

    def run(mx):
        made = symbol(mx)
        internals = made.get_internals().list_outputs()
        return {"internals": internals, **results(mx, made, gradients, SHAPES)}

    CASES[name], SYMBOLS[name] = run, (symbol, gradients)


def once(mx, symbols):
    """Each value once: of one that is several results, MXNet adds up other gradients than those given."""
    names, found = set(), []
    for x in symbols:
        name = x.list_outputs()[0]
        found.append(mx.sym.identity(x) if name in names else x)
        names.add(name)
    return found


def stack(rnn, *cells):
    """Cells one on the other."""
    made = rnn.SequentialRNNCell()
    for cell in cells:
        made.add(cell)
    return made


CELLS = {
    "rnn": lambda rnn: rnn.RNNCell(H),
    "relu": lambda rnn: rnn.RNNCell(H, "relu", prefix="a_"),
    "lstm": lambda rnn: rnn.LSTMCell(H, forget_bias=2.0),
    "gru": lambda rnn: rnn.GRUCell(H),
    "stack": lambda rnn: stack(rnn, rnn.LSTMCell(H, prefix="a_"), rnn.DropoutCell(0.0), rnn.GRUCell(H, prefix="b_")),
    "two": lambda rnn: rnn.BidirectionalCell(rnn.GRUCell(H, prefix="l_"), rnn.LSTMCell(H, prefix="r_")),
    "both": lambda rnn: stack(
        rnn,
        rnn.BidirectionalCell(rnn.RNNCell(H, prefix="l_"), rnn.RNNCell(H, prefix="r_"), output_prefix="out_"),
        rnn.LSTMCell(H),
    ),
}
for name, make in CELLS.items():
    unrolled(f"{name} as list", lambda rnn, s, make=make: make(rnn).unroll(T, s.var("data")))
    unrolled(f"{name} merged", lambda rnn, s, make=make: make(rnn).unroll(T, s.var("steps"), None, "TNC", True))
    unrolled(f"{name} of list", lambda rnn, s, make=make: make(rnn).unroll(T, [s.var(f"x{i}") for i in range(T)])[0])
unrolled("residual", lambda rnn, s: rnn.ResidualCell(rnn.GRUCell(H)).unroll(T, s.var("rows")))
unrolled(
    "residual merged", lambda rnn, s: rnn.ResidualCell(rnn.GRUCell(H)).unroll(T, s.var("rows"), merge_outputs=True)
)
unrolled("step", lambda rnn, s: rnn.LSTMCell(H)(s.var("x0"), [s.var("h"), s.var("c")]))
unrolled(
    "states are inputs",
    lambda rnn, s: rnn.LSTMCell(H).unroll(T, s.var("data"), begin_state=[s.var("h"), s.var("c")]),
)
unrolled(
    "zoneout",
    lambda rnn, s: rnn.ZoneoutCell(rnn.LSTMCell(H), 0.3, 0.2).unroll(T, s.var("data"), [s.var("h"), s.var("c")]),
    gradients=False,
)
unrolled(
    "dropout", lambda rnn, s: stack(rnn, rnn.RNNCell(H), rnn.DropoutCell(0.5)).unroll(T, s.var("data")), gradients=False
)
for mode in ("rnn_tanh", "rnn_relu", "lstm", "gru"):
    unrolled(
        f"fused {mode}",
        lambda rnn, s, mode=mode: rnn.FusedRNNCell(H, 2, mode, get_next_state=True).unroll(T, s.var("data")),
    )
    unrolled(
        f"fused two {mode}",
        lambda rnn, s, mode=mode: rnn.FusedRNNCell(H, 2, mode, True, prefix="f_").unroll(
            T, s.var("steps"), None, "TNC", False
        ),
    )
    unrolled(
        f"unfused {mode}",
        lambda rnn, s, mode=mode: rnn.FusedRNNCell(H, 2, mode, True, prefix="f_").unfuse().unroll(T, s.var("steps"),
                                                                                                    None, "TNC"),
    )  # fmt: skip
for kind in ("RNN", "LSTM", "GRU"):
    unrolled(
        f"conv {kind}",
        lambda rnn, s, kind=kind: getattr(rnn, f"Conv{kind}Cell")((N, 2, 6, 5), 3, i2h_pad=(0, 1)).unroll(
            T, s.var("images")
        )[0][-1],
    )


# --- weights ---------------------------------------------------------------------------------------------------


def weights(mx, cell):
    """Parameters of a cell, by name."""
    outputs, _ = cell.unroll(T, mx.sym.var("data"), merge_outputs=True)
    shapes = dict(zip(outputs.list_arguments(), outputs.infer_shape(data=SHAPES["data"])[0]))
    del shapes["data"]
    return {k: mx.nd.array(np.arange(np.prod(s)).reshape(s)) for k, s in shapes.items()}


def packed_and_back(mx, cell):
    """Weights of a cell, unpacked, and packed again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = weights(mx, cell)
    unpacked = cell.unpack_weights(given)
    again = cell.pack_weights(unpacked)
    assert given.keys() == again.keys()
    assert all((given[k].asnumpy() == again[k].asnumpy()).all() for k in given)
    return {k: x.asnumpy() for k, x in unpacked.items()}


for name in ("rnn", "lstm", "gru", "both"):
    CASES[f"weights {name}"] = lambda mx, name=name: packed_and_back(mx, CELLS[name](mx.rnn))
for mode in ("rnn_tanh", "lstm", "gru"):
    for two in (False, True):
        CASES[f"weights {mode} {two}"] = lambda mx, mode=mode, two=two: packed_and_back(
            mx, mx.rnn.FusedRNNCell(2, 2, mode, two)
        )


@case
def initialized(mx):
    """The parameters of fused cells as their initializer makes them, by the global one, and by their own."""
    cell = mx.rnn.FusedRNNCell(2, 2, "lstm", True, forget_bias=3.0)
    outputs, _ = cell.unroll(T, mx.sym.var("data"))
    attributes = outputs.attr_dict()["lstm_parameters"]
    found = {"attributes": {k: attributes[k] for k in attributes if k == "__init__"}}
    x = mx.nd.zeros(outputs.infer_shape(data=SHAPES["data"])[0][1])
    mx.init.Constant(0.5)(mx.init.InitDesc("lstm_parameters", attributes), x)
    found["global"] = x.asnumpy()
    own = mx.init.FusedRNN(mx.init.One(), 2, 2, "gru", True)
    x = mx.nd.zeros(mx.rnn.FusedRNNCell(2, 2, "gru", True).unroll(T, mx.sym.var("data"))[0].infer_shape(
        data=SHAPES["data"])[0][1])  # fmt: skip
    own(mx.init.InitDesc("gru_parameters_weight"), x)
    return {**found, "own": x.asnumpy(), "text": own.dumps()}


# --- sentences -------------------------------------------------------------------------------------------------

SENTENCES = [text.split() for text in ("a b c", "a c", "b c a d", "d a", "c c c", "e a b b", "a", "e d", "d d d")]


@case
def sentences(mx):
    """Words as numbers."""
    coded, vocab = mx.rnn.encode_sentences(SENTENCES, start_label=1, invalid_label=3)
    again, same = mx.rnn.encode_sentences([["a", "d"]], vocab)
    assert same is vocab
    return {"coded": coded, "vocab": vocab, "again": again}


@case
def batches(mx):
    """The batches of two epochs, in both layouts."""
    coded, _ = mx.rnn.encode_sentences(SENTENCES)
    found = {}
    for layout in ("NT", "TN"):
        for key, buckets in ((layout, None), (f"{layout} buckets", [3, 5, 2, 9])):
            random.seed(1)
            np.random.seed(2)
            made = mx.rnn.BucketSentenceIter(coded, 2, buckets=buckets, invalid_label=-2, layout=layout)
            found[f"{key} is"] = [made.buckets, made.default_bucket_key, made.batch_size, str(made.provide_data)]
            for epoch in range(2):
                for i, batch in enumerate(made):
                    found[f"{key} {epoch} {i} data"] = batch.data[0].asnumpy()
                    found[f"{key} {epoch} {i} label"] = batch.label[0].asnumpy()
                    found[f"{key} {epoch} {i} is"] = [batch.bucket_key, batch.pad, str(batch.provide_label)]
                made.reset()
    return found
