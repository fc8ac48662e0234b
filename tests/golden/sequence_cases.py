"""CTCLoss, hawkesll and the operators on sequences of different lengths, for MXNet and for hybridc."""

import numpy as np

RNG = np.random.default_rng(18)
SMALL = RNG.normal(size=(5, 3, 4)).astype(np.float32)
LARGE = (2 * RNG.normal(size=(40, 4, 12))).astype(np.float32)
FIRST = np.array([[1, 2, 0], [3, 3, 0], [2, 0, 1]], np.float32)
LAST = np.array([[0, 2, -1], [1, 1, 1], [-1, 0, 1]], np.float32)
MANY = np.array(RNG.integers(1, 12, (4, 15)), np.float32)
MANY[1, 7:] = 0


def lengths(**given):
    return {"use_" + name: True for name in given}, given


# name: data, label, attributes, lengths
CTC = {
    "first": (SMALL, FIRST, {}, {}),
    "last": (SMALL, LAST, {"blank_label": "last"}, {}),
    "data_lengths": (SMALL, FIRST, *lengths(data_lengths=[2, 3, 5])),
    "label_lengths": (SMALL, FIRST + (FIRST == 0), *lengths(label_lengths=[2, 0, 3])),
    "both": (SMALL, FIRST + (FIRST == 0), *lengths(data_lengths=[5, 4, 2], label_lengths=[3, 2, 1])),
    "too_short": (SMALL[:3], np.array([[1, 1, 1], [1, 2, 3], [1, 1, 0]], np.float32), {}, {}),
    "one_step": (SMALL[:1], FIRST[:, :1], {}, {}),
    "large": (LARGE, MANY, {}, {}),
}

# name: layouts and weight, weights of samples, how many arrays there are without these
LAYOUTS = {
    "NTC_NT": ({}, None, 2),
    "TNC_NT": ({"layout": "TNC", "weight": 0.5}, None, 2),
    "NTC_TN": ({"label_layout": "TN"}, [1, 2, 0.5], 2),
    "TNC_TN": ({"layout": "TNC", "label_layout": "TN", "weight": 2}, None, 4),
}

# operator, shape, lengths, attributes
SEQUENCES = {
    "mask": ("SequenceMask", (4, 3, 2), [1, 2.9, 9], {"value": -2.5}),
    "mask_unused": ("SequenceMask", (4, 3, 2), None, {"value": -2.5}),
    "mask_columns": ("SequenceMask", (3, 4, 2), [0, 2, 4], {"axis": 1}),
    "mask_matrix": ("SequenceMask", (3, 4), [0, 2, 4], {"axis": 1, "value": 7}),
    "last": ("SequenceLast", (4, 3, 2), [1, 2.9, 4], {}),
    "last_columns": ("SequenceLast", (3, 4, 2, 2), [1, 2, 4], {"axis": 1}),
    "last_matrix": ("SequenceLast", (4, 3), [1, 2, 4], {}),
    "reverse": ("SequenceReverse", (4, 3, 2), [1, 0, 3.5], {}),
    "reverse_all": ("SequenceReverse", (4, 3, 2), None, {}),
    "reverse_matrix": ("SequenceReverse", (4, 3), [2, 4, 3], {}),
    "reverse_five": ("SequenceReverse", (3, 2, 1, 2, 2), [3, 2], {}),
}
DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint8", "int8")

HAWKES = {
    "hawkes": ([4, 2, 0], [9.0, 9.0, 9.0]),
    "hawkes_cut": ([1.5, 4, 3], [3.0, 5.0, 4.0]),
}


def ctc(mx, name):
    data, label, attributes, given = CTC[name]
    x, y = mx.nd.array(data), mx.nd.array(label)
    x.attach_grad()
    with mx.autograd.record():
        loss = mx.nd.CTCLoss(x, y, **{k: mx.nd.array(v) for k, v in given.items()}, **attributes)
    loss.backward(mx.nd.arange(1, loss.size + 1))
    found, gradient = loss.asnumpy(), x.grad.asnumpy()
    gradient[:, found == 0] = 0  # the labels do not fit; MXNet gives what lies in memory
    return {"loss": found, "gradient": gradient}


def layout(mx, name, hybridize=False):
    attributes, sample_weight, count = LAYOUTS[name]
    loss = mx.gluon.loss.CTCLoss(**attributes)
    loss.hybridize(hybridize)
    data = SMALL if name.startswith("TNC") else SMALL.swapaxes(0, 1)
    labels = LAST if name.endswith("NT") else LAST.T
    given = [data, labels]
    if count == 4:
        given += [np.array([5, 4, 4], np.float32), np.array([1, 2, 0], np.float32)]
    if sample_weight is not None:
        given += [None, None, np.array(sample_weight, np.float32)]
    x, *rest = [None if v is None else mx.nd.array(v) for v in given]
    x.attach_grad()
    with mx.autograd.record():
        y = loss(x, *rest)
    y.backward()
    return {"loss": y.asnumpy(), "gradient": x.grad.asnumpy()}


def sequence(mx, name, dtype):
    operator, shape, given, attributes = SEQUENCES[name]
    x = mx.nd.array(np.arange(1, 1 + np.prod(shape)).reshape(shape), dtype=dtype)
    inputs = [x] if given is None else [x, mx.nd.array(given)]
    if not dtype.startswith("float"):
        return {"out": getattr(mx.nd, operator)(*inputs, use_sequence_length=given is not None, **attributes).asnumpy()}
    x.attach_grad()
    with mx.autograd.record():
        y = getattr(mx.nd, operator)(*inputs, use_sequence_length=given is not None, **attributes)
    y.backward(mx.nd.array(np.arange(y.size).reshape(y.shape), dtype=dtype))
    return {"out": y.asnumpy(), "gradient": x.grad.asnumpy()}


def hawkes_inputs(mx, name):
    count, end = HAWKES[name]
    rng = np.random.default_rng(4)
    marks = rng.integers(0, 3, (3, 4))
    marks[1, 2:] = -1 if count[1] == 2 else 0
    shapes = [(3, 3), (3,), (3,), (3, 3), (3, 4)]
    inputs = [mx.nd.array(rng.uniform(0.2, 1.5, shape)) for shape in shapes]
    return [*inputs, mx.nd.array(marks, dtype="int32"), mx.nd.array(count), mx.nd.array(end)]


def hawkes(mx, name):
    inputs = hawkes_inputs(mx, name)
    for x in inputs[:3]:
        x.attach_grad()
    with mx.autograd.record():
        likelihood, state = mx.nd.contrib.hawkesll(*inputs)
    likelihood.backward(mx.nd.array([1, -2, 0.5]))
    found = {"likelihood": likelihood.asnumpy(), "state": state.asnumpy()}
    return {**found, **{f"gradient{i}": x.grad.asnumpy() for i, x in enumerate(inputs[:3])}}


def symbols(mx):
    """Names that MXNet gives, and files."""
    x, y = mx.sym.var("x"), mx.sym.var("y")
    made = {
        "ctc": mx.sym.CTCLoss(x, y, name="c"),
        "ctc_lengths": mx.sym.CTCLoss(x, y, use_data_lengths=True, use_label_lengths=True, name="c"),
        "ctc_labels": mx.sym.contrib.ctc_loss(x, y, use_label_lengths=True, blank_label="last", name="c"),
        "hawkes": mx.sym.contrib.hawkesll(name="h"),
        "last": mx.sym.SequenceLast(x, use_sequence_length=True, axis=1, name="s"),
        "mask": mx.sym.SequenceMask(x, y, use_sequence_length=True, value=-1, name="s"),
        "reverse": mx.sym.SequenceReverse(x, use_sequence_length=True, name="s"),
    }
    return {
        name: {"names": " ".join(s.list_arguments() + s.list_outputs()), "file": s.tojson()} for name, s in made.items()
    }


def everything(mx):
    """The results of all cases, by their names."""
    found = {f"ctc.{name}": ctc(mx, name) for name in CTC}
    found |= {f"layout.{name}": layout(mx, name) for name in LAYOUTS}
    found |= {f"{name}.{dtype}": sequence(mx, name, dtype) for name in SEQUENCES for dtype in DTYPES}
    found |= {name: hawkes(mx, name) for name in HAWKES}
    found |= {f"symbol.{name}": texts for name, texts in symbols(mx).items()}
    return {f"{name}.{key}": value for name, results in found.items() for key, value in results.items()}
