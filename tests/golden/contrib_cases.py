"""Operators and helpers of mx.contrib, for MXNet and for hybridc."""

import collections
import tempfile
import warnings
from pathlib import Path

import numpy as np

RNG = np.random.default_rng(7)
HEADS = 2
QKV = RNG.normal(size=(5, 3, HEADS * 3 * 4)).astype(np.float32)
QUERIES = RNG.normal(size=(4, 3, HEADS * 4)).astype(np.float32)
KEYS_VALUES = RNG.normal(size=(6, 3, HEADS * 2 * 4)).astype(np.float32)


def grads(mx, function, *arrays):
    """The result and the gradients of the sum of its squares."""
    given = [mx.nd.array(x) for x in arrays]
    for x in given:
        x.attach_grad()
    with mx.autograd.record():
        y = function(*given)
        loss = (y * y).sum()
    loss.backward()
    return [y.asnumpy(), *[x.grad.asnumpy() for x in given]]


def attention(mx):
    """Self-attention and attention of a decoder to an encoder."""
    c = mx.nd.contrib

    def own(x):
        scores = mx.nd.softmax(c.interleaved_matmul_selfatt_qk(x, heads=HEADS))
        return c.interleaved_matmul_selfatt_valatt(x, scores, heads=HEADS)

    def cross(q, x):
        scores = mx.nd.softmax(c.interleaved_matmul_encdec_qk(q, x, heads=HEADS))
        return c.interleaved_matmul_encdec_valatt(x, scores, heads=HEADS)

    found = {"selfatt_qk": c.interleaved_matmul_selfatt_qk(mx.nd.array(QKV), heads=HEADS).asnumpy()}
    found["encdec_qk"] = c.interleaved_matmul_encdec_qk(
        *map(mx.nd.array, (QUERIES, KEYS_VALUES)), heads=HEADS
    ).asnumpy()
    for name, values in (("self", grads(mx, own, QKV)), ("cross", grads(mx, cross, QUERIES, KEYS_VALUES))):
        found |= {f"{name}.{i}": x for i, x in enumerate(values)}
    return found


COUNTS = collections.Counter(["a", "b", "b", "c", "c", "c", "some_word$", "d", "d", "d", "d"])
FIRST = "a 0.1 0.2 0.3\nb 1 2 3\nb 7 7 7\nheader 4\n<unk> 9 8 7\nc 4 5 6\n"
SECOND = "a,5,6\nc,7,8\n"


def texts(mx):
    """Vocabularies, and vectors of words."""
    text = mx.contrib.text
    found = {}
    words = text.utils.count_tokens_from_str(" Life is great ! \n life is good . \n", " ", "\n", True)
    found["counted"] = sorted(words.items())
    for name, given in {
        "all": {},
        "rare": {"min_freq": 2},
        "few": {"most_freq_count": 3},
        "reserved": {"reserved_tokens": ["b", "<pad>"], "most_freq_count": 2, "unknown_token": "?"},
    }.items():
        vocabulary = text.vocab.Vocabulary(COUNTS, **given)
        found[f"vocabulary.{name}"] = [
            vocabulary.idx_to_token,
            vocabulary.token_to_idx,
            len(vocabulary),
            vocabulary.to_indices(["c", "z", "b"]),
            vocabulary.to_indices("c"),
            vocabulary.to_tokens([0, 1]),
            vocabulary.reserved_tokens,
        ]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        files = [Path(folder) / name for name in ("first", "second")]
        for file, content in zip(files, (FIRST, SECOND)):
            file.write_text(content)
        first = text.embedding.CustomEmbedding(str(files[0]))
        second = text.embedding.CustomEmbedding(str(files[1]), elem_delim=",", init_unknown_vec=mx.nd.ones)
        vocabulary = text.vocab.Vocabulary(COUNTS)
        within = text.embedding.CustomEmbedding(str(files[0]), vocabulary=vocabulary)
        both = text.embedding.CompositeEmbedding(vocabulary, [first, second])
    for name, each in {"first": first, "second": second, "within": within, "both": both}.items():
        found[f"embedding.{name}"] = [each.idx_to_token, each.vec_len, each.idx_to_vec.asnumpy().tolist()]
    first.update_token_vectors(["a", "c"], mx.nd.array([[2, 2, 2], [3, 3, 3]]))
    second.update_token_vectors("<unk>", mx.nd.array([6, 6]))
    found["looked_up"] = [
        first.get_vecs_by_tokens(["c", "z", "A"]).asnumpy().tolist(),
        first.get_vecs_by_tokens("A", lower_case_backup=True).asnumpy().tolist(),
        second.get_vecs_by_tokens(["unknown", "c"]).asnumpy().tolist(),
    ]
    found["names"] = {k: sorted(v) for k, v in text.embedding.get_pretrained_file_names().items()}
    return found


def gradients(mx):
    """The older interface of gradients."""
    old = mx.contrib.autograd
    x, y = mx.nd.array([1, 2, 3]), mx.nd.array([4, 5, 6])
    (dx, dy), out = old.grad_and_loss(lambda x, y: x * x * y)(x, y)
    found = {"dx": dx, "dy": dy, "out": out, "second": old.grad(lambda x, y: x * y * y, argnum=1)(x, y)[0]}
    gradient = mx.nd.ones((3,))
    old.mark_variables([x], [gradient], "add")
    with old.train_section():
        z = x * 3
        with old.test_section():
            recorded = mx.autograd.is_recording(), mx.autograd.is_training()
        inside = mx.autograd.is_recording(), mx.autograd.is_training()
    old.backward([z], [mx.nd.array([1, 10, 100])])
    found = {key: value.asnumpy().tolist() for key, value in {**found, "added": gradient}.items()}
    found["modes"] = [recorded, inside, [old.set_is_training(True), old.set_is_training(False)]]
    return found


def batches(mx):
    """A DataLoader as an iterator."""
    data = mx.gluon.data.ArrayDataset(np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10, dtype=np.float32))
    iterator = mx.contrib.io.DataLoaderIter(mx.gluon.data.DataLoader(data, 4))
    found = [[d.name, list(d.shape)] for d in (*iterator.provide_data, *iterator.provide_label)]
    for _ in range(2):
        for batch in iterator:
            kept = 4 - batch.pad
            found.append([batch.data[0].asnumpy()[:kept].tolist(), batch.label[0].asnumpy()[:kept].tolist(), batch.pad])
        iterator.reset()
    return found


def network(mx):
    """A symbol with operators of every list."""
    sym = mx.sym
    y = sym.BatchNorm(sym.Convolution(sym.var("data"), kernel=(3, 3), num_filter=4, name="conv"), name="bn")
    y = sym.broadcast_add(sym.Activation(y, act_type="relu", name="relu"), sym.var("other"), name="add")
    y = sym.Activation(sym.exp(y, name="exp"), act_type="softrelu", name="softplus")
    y = sym.concat(y, sym.Dropout(sym.relu(y, name="again"), name="drop"), name="both")
    y = sym.FullyConnected(y, sym.var("weight"), num_hidden=3, name="dense")
    return sym.SoftmaxOutput(sym.LeakyReLU(y, act_type="elu", name="elu"), name="softmax")


def mixed(mx):
    """The operators of converted symbols, and the dtypes to which their inputs are cast."""
    import json

    amp = __import__(f"{mx.__name__}.contrib.amp", fromlist=["amp"])
    data = ["data", "softmax_label"]
    cases = {
        "float16": {"data_names": data},
        "optional": {"data_names": data, "cast_optional_params": True},
        "excluded": {"excluded_sym_names": ["conv", "exp"]},
        "other lists": {"target_dtype_ops": ["FullyConnected", "relu"], "fp32_ops": ["Convolution", "exp"]},
        "bfloat16": {"data_names": data, "target_dtype": "bfloat16"},
    }
    found = {}
    for name, given in cases.items():
        symbol = amp.convert_symbol(network(mx), **given)
        nodes = json.loads(symbol.tojson(remove_amp_cast=False))["nodes"]
        rows = []
        for node in nodes:
            attrs = node.get("attrs", {})
            if node["op"] == "null":
                rows.append([node["name"], attrs.get("__dtype__")])
            elif not node["op"].startswith("amp_"):
                sources = [nodes[i] for i, *_ in node["inputs"]]
                casts = [s["attrs"]["dtype"] if s["op"] == "amp_cast" else s["op"] == "amp_multicast" for s in sources]
                rows.append([node["name"], casts])
        found[name] = sorted(rows)
    return found


def lists(mx):
    """For each dtype, the list in which an operator is."""
    amp = __import__(f"{mx.__name__}.contrib.amp", fromlist=["amp"])
    found = {}
    for dtype in ("float16", "bfloat16"):
        for name in ("lp16", "fp32", "lp16_fp32"):
            found[f"{dtype}.{name}"] = list(getattr(amp, f"list_{name}_ops")(getattr(amp.amp, dtype, dtype)))
        target = getattr(amp.amp, dtype, dtype)
        found[f"{dtype}.widest"] = list(amp.list_widest_type_cast(target))
        found[f"{dtype}.conditional"] = [list(each) for each in amp.list_conditional_fp32_ops(target)]
        found[f"{dtype}.losses"] = list(amp.list_loss_output_functions(target))
        found[f"{dtype}.kept"] = amp.list_lp16_use_fp32_params(target)
    return found


WHOLE = np.random.default_rng(5)
SIGNED = WHOLE.integers(-127, 128, (2, 4, 5, 5)).astype(np.int8)
UNSIGNED = WHOLE.integers(0, 256, (2, 4, 5, 5)).astype(np.uint8)
FILTERS = WHOLE.integers(-127, 128, (3, 4, 3, 3)).astype(np.int8)
ROWS = WHOLE.integers(-60, 61, (3, 100)).astype(np.int8)  # of larger ones oneDNN's sums overflow without VNNI
BIAS = np.array([100, -50, 7], np.int8)
FLOATS = (WHOLE.normal(size=(3, 7)) * 2).astype(np.float32)
COUNTED = np.histogram(WHOLE.normal(size=20000), bins=801, range=(-4.2, 4.2))


def quantized(mx):
    """The integers and the ranges of quantized operators, and how far their parts are from the real numbers."""
    c = mx.nd.contrib

    def array(x):
        return mx.nd.array(x, dtype=x.dtype)

    def ends(*values):
        return [mx.nd.array([v]) for v in values]

    x, u, w, rows, b, floats = map(array, (SIGNED, UNSIGNED, FILTERS, ROWS, BIAS, FLOATS))
    whole = mx.nd.array(WHOLE_NUMBERS, dtype="int32")
    data, weight, bias = ends(-1, 2), ends(-0.5, 0.25), ends(-0.1, 0.3)
    known = {"min_calib_range": -1.0, "max_calib_range": 3.0}
    calls = {
        "quantize.int8": lambda: c.quantize(floats, *ends(-2, 4), out_type="int8"),
        "quantize_v2": lambda: c.quantize_v2(floats),
        "quantize_v2.known": lambda: c.quantize_v2(floats, **known),
        "quantize_v2.unsigned": lambda: c.quantize_v2(floats, "auto", 0.0, 3.0),
        "dequantize": lambda: c.dequantize(x, *data),
        "dequantize.unsigned": lambda: c.dequantize(u, *ends(0, 2)),
        "requantize.known": lambda: c.requantize(whole, *ends(-2, 2), **known),
        "fully_connected": lambda: c.quantized_fully_connected(x, rows, b, *data, *weight, *bias, num_hidden=3),
        "fully_connected.unsigned": lambda: c.quantized_fully_connected(
            data=u, weight=rows, min_data=data[0], max_data=data[1], min_weight=weight[0], max_weight=weight[1],
            num_hidden=3, no_bias=True,
        ),
        "conv.unsigned": lambda: c.quantized_conv(
            data=u, weight=w, min_data=data[0], max_data=data[1], min_weight=weight[0], max_weight=weight[1],
            kernel=(3, 3), stride=(2, 2), pad=(1, 1), num_filter=3, no_bias=True,
        ),
        "pooling.max": lambda: c.quantized_pooling(x, *data, kernel=(2, 2), stride=(2, 2)),
        "pooling.avg": lambda: c.quantized_pooling(u, *data, kernel=(2, 2), pool_type="avg"),
        "act": lambda: c.quantized_act(x, *data, act_type="relu"),
        "flatten": lambda: c.quantized_flatten(x, *data),
        "add": lambda: c.quantized_elemwise_add(x, x, *data, *weight),
        "add.known": lambda: c.quantized_elemwise_add(x, x, *data, *weight, **known),
        "embedding": lambda: c.quantized_embedding(
            mx.nd.array([0, 2, 1]), rows, *weight, input_dim=3, output_dim=100, dtype="int8"
        ),
        "batch_norm": lambda: c.quantized_batch_norm(
            x, *(mx.nd.array(v) for v in STATISTICS), *data, fix_gamma=False, min_calib_range=-2.0, max_calib_range=3.0
        ),
        "entropy": lambda: c.calibrate_entropy(*(mx.nd.array(v) for v in COUNTED), num_quantized_bins=63),
    }  # fmt: skip
    found = {}
    for name, call in calls.items():
        made = call()
        for i, y in enumerate(made if isinstance(made, (list, tuple)) else [made]):
            found[f"quantized.{name}.{i}"] = y.asnumpy()
    return found


WHOLE_NUMBERS = np.array([-(2**31) + 1, -(2**28), 0, 2**20, 2**29 + 12345], np.int64)
STATISTICS = ([1, 2, 0.5, 1.0], [0.1, 0, -0.2, 0.3], [0.1, 0.2, 0.3, 0.4], [1, 2, 3, 0.5])
