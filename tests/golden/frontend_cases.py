"""The cases of frontend.npz, used by the script that makes it with MXNet and by the tests of hybridc.

Both pass their own module as ``mx``.
"""

import numpy as np


def problem(dtype):
    """A weight and six gradients, some of them beyond the clipping bound."""
    rng = np.random.RandomState(5)
    weight = rng.normal(size=(3, 5)).astype(dtype)
    grads = [(rng.normal(size=(3, 5)) * 2).astype(dtype) for _ in range(6)]
    grads[2][0] = 0
    return weight, grads


def trajectory(mx, kind, options, setup):
    """The weight after each of six updates."""
    dtype = setup.get("dtype", "float32")
    weight, grads = problem(dtype)
    optimizer = mx.optimizer.create(kind, **options)
    w = mx.nd.array(weight, dtype=dtype)
    state = optimizer.create_state_multi_precision(0, w)
    steps = []
    for grad in grads:
        optimizer.update_multi_precision(0, w, mx.nd.array(grad, dtype=dtype), state)
        steps.append(w.asnumpy())
    return np.stack(steps)


ALL = {"wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.7}
HALF = {"dtype": "float16"}
FACTOR = ("FactorScheduler", {"step": 2, "factor": 0.5, "base_lr": 0.2})
WARM = ("CosineScheduler", {"max_update": 6, "base_lr": 0.3, "warmup_steps": 2, "warmup_begin_lr": 0.1})

# name: (optimizer, its arguments, what else is special)
OPTIMIZERS = {
    "sgd": ("sgd", {"learning_rate": 0.1}, {}),
    "sgd_all": ("sgd", {"learning_rate": 0.1, **ALL}, {}),
    "sgd_momentum": ("sgd", {"learning_rate": 0.1, "momentum": 0.9}, {}),
    "sgd_momentum_all": ("sgd", {"learning_rate": 0.1, "momentum": 0.9, **ALL}, {}),
    "sgd_scheduler": ("sgd", {"momentum": 0.9, "lr_scheduler": FACTOR}, {}),
    "sgd_warmup": ("sgd", {"lr_scheduler": WARM}, {}),
    "sgd_begin": ("sgd", {"lr_scheduler": FACTOR, "begin_num_update": 3}, {}),
    "sgd_float16": ("sgd", {"learning_rate": 0.1, "multi_precision": True, **ALL}, HALF),
    "sgd_momentum_float16": (
        "sgd",
        {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": True, **ALL},
        HALF,
    ),
    "nag": ("nag", {"learning_rate": 0.1, "momentum": 0.9}, {}),
    "nag_all": ("nag", {"learning_rate": 0.1, "momentum": 0.9, **ALL}, {}),
    "nag_plain": ("nag", {"learning_rate": 0.1, **ALL}, {}),
    "nag_float16": ("nag", {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": True}, HALF),
    "nag_float16_all": (
        "nag",
        {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": True, **ALL},
        HALF,
    ),
    "adam": ("adam", {}, {}),
    "adam_all": ("adam", {"learning_rate": 0.1, **ALL}, {}),
    "adam_other": ("adam", {"learning_rate": 0.1, "beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3}, {}),
    "adam_float16": ("adam", {"learning_rate": 0.1, "multi_precision": True}, HALF),
    "adamax": ("adamax", {"learning_rate": 0.1}, {}),
    "adamax_all": ("adamax", {"learning_rate": 0.1, **ALL}, {}),
    "nadam": ("nadam", {"learning_rate": 0.1}, {}),
    "nadam_all": ("nadam", {"learning_rate": 0.1, **ALL}, {}),
    "rmsprop": ("rmsprop", {}, {}),
    "rmsprop_all": ("rmsprop", {"learning_rate": 0.1, **ALL}, {}),
    "rmsprop_clip_weights": ("rmsprop", {"learning_rate": 0.1, "clip_weights": 0.5}, {}),
    "rmsprop_centered": ("rmsprop", {"learning_rate": 0.01, "centered": True}, {}),
    "rmsprop_centered_all": ("rmsprop", {"learning_rate": 0.01, "centered": True, **ALL}, {}),
    "adagrad": ("adagrad", {}, {}),
    "adagrad_all": ("adagrad", {"learning_rate": 0.1, **ALL}, {}),
    "adadelta": ("adadelta", {}, {}),
    "adadelta_all": ("adadelta", {"rho": 0.8, "epsilon": 1e-3, **ALL}, {}),
    "ftrl": ("ftrl", {}, {}),
    "ftrl_all": ("ftrl", {"lamda1": 0.5, "learning_rate": 0.2, "beta": 0.5, **ALL}, {}),
    "signum": ("signum", {}, {}),
    "signum_all": ("signum", {"wd_lh": 0.1, **ALL}, {}),
    "signum_plain": ("signum", {"momentum": 0.0, **ALL}, {}),
}

# name: (arguments, whether the bias is corrected)
ADAMW = {
    "adamw": ({"learning_rate": 0.1}, True),
    "adamw_all": ({"learning_rate": 0.1, **ALL}, True),
    "adamw_uncorrected": ({"learning_rate": 0.1, "wd": 0.1}, False),
}

WARMUP = {"warmup_steps": 5, "warmup_begin_lr": 0.01}
SCHEDULES = {
    "constant_warmup": (
        "FactorScheduler",
        {"step": 7, "factor": 0.5, "base_lr": 0.4, **WARMUP, "warmup_mode": "constant"},
    ),
    "factor": ("FactorScheduler", {"step": 4, "factor": 0.7, "base_lr": 0.4}),
    "factor_stop": ("FactorScheduler", {"step": 1, "factor": 0.5, "stop_factor_lr": 1e-2, "base_lr": 1.0}),
    "factor_warmup": ("FactorScheduler", {"step": 4, "factor": 0.7, "base_lr": 0.4, **WARMUP}),
    "multifactor": ("MultiFactorScheduler", {"step": [3, 9, 10, 30], "factor": 0.3, "base_lr": 2.0}),
    "multifactor_warmup": (
        "MultiFactorScheduler",
        {"step": [8, 20], "factor": 0.3, "base_lr": 2.0, **WARMUP},
    ),
    "poly": ("PolyScheduler", {"max_update": 30, "base_lr": 0.7, "pwr": 2}),
    "poly_warmup": ("PolyScheduler", {"max_update": 30, "base_lr": 0.7, "pwr": 3, "final_lr": 0.1, **WARMUP}),
    "cosine": ("CosineScheduler", {"max_update": 30, "base_lr": 0.7}),
    "cosine_warmup": ("CosineScheduler", {"max_update": 30, "base_lr": 0.7, "final_lr": 0.1, **WARMUP}),
}


def mixed(mx):
    return mx.init.Mixed(["bias", "gate_.*", ".*"], [mx.init.Zero(), mx.init.Constant(2.5), mx.init.One()])


GRID = np.arange(6, dtype=np.float32).reshape(2, 3)
# name: (initializer, parameter name, shape)
INITIALIZERS = {
    "zero": (lambda mx: mx.init.Zero(), "a_weight", (2, 3)),
    "one": (lambda mx: mx.init.One(), "a_weight", (2, 3)),
    "constant": (lambda mx: mx.init.Constant(2.5), "a_weight", (2, 3)),
    "constant_array": (lambda mx: mx.init.Constant(mx.nd.array(GRID)), "a_weight", (2, 3)),
    "bias_rule": (lambda mx: mx.init.One(), "a_bias", (4,)),
    "gamma_rule": (lambda mx: mx.init.Zero(), "a_gamma", (4,)),
    "beta_rule": (lambda mx: mx.init.One(), "a_beta", (4,)),
    "min_rule": (lambda mx: mx.init.One(), "a_min", (4,)),
    "max_rule": (lambda mx: mx.init.Zero(), "a_max", (4,)),
    "bilinear": (lambda mx: mx.init.Bilinear(), "a_weight", (2, 3, 4, 4)),
    "bilinear_odd": (lambda mx: mx.init.Bilinear(), "a_weight", (1, 2, 5, 5)),
    "lstmbias": (lambda mx: mx.init.LSTMBias(1.5), "a_weight", (12,)),
    "mixed_bias": (mixed, "bias_x_weight", (3,)),
    "mixed_gate": (mixed, "gate_weight", (3,)),
    "mixed_rest": (mixed, "other_weight", (3,)),
    "quantized_bias": (lambda mx: mx.init.One(), "a_bias_quantize", (3,)),
    "created": (lambda mx: mx.init.create("zeros"), "a_weight", (3,)),
    "created_json": (lambda mx: mx.init.create('["constant", {"value": 3}]'), "a_weight", (3,)),
    "created_kwargs": (lambda mx: mx.init.create("constant", value=4), "a_weight", (3,)),
}
# As above, but called with a plain name, for which there are further rules.
PLAIN_NAMES = {
    "plain_weight": (lambda mx: mx.init.One(), "a_weight", (2, 3)),
    "plain_mean": (lambda mx: mx.init.One(), "a_moving_mean", (3,)),
    "plain_var": (lambda mx: mx.init.Zero(), "a_moving_var", (3,)),
    "plain_upsampling": (lambda mx: mx.init.One(), "upsampling_weight", (1, 2, 4, 4)),
    "plain_stn_weight": (lambda mx: mx.init.One(), "stn_loc_fc_weight", (2, 3)),
    "plain_stn_bias": (lambda mx: mx.init.One(), "stn_loc_fc_bias", (6,)),
}
DUMPS = {
    "normal": (lambda mx: mx.init.Normal(0.5), '["normal", {"sigma": 0.5}]'),
    "xavier": (
        lambda mx: mx.init.Xavier(factor_type="in", magnitude=2.34),
        '["xavier", {"rnd_type": "uniform", "factor_type": "in", "magnitude": 2.34}]',
    ),
    "msra": (lambda mx: mx.init.MSRAPrelu(slope=0.5), '["msraprelu", {"factor_type": "avg", "slope": 0.5}]'),
    "constant": (
        lambda mx: mx.init.Constant(mx.nd.array(GRID)),
        '["constant", {"value": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]}]',
    ),
    "lstm": (lambda mx: mx.init.LSTMBias(), '["lstmbias", {"forget_bias": 1.0}]'),
}


def _scores(rng, samples, classes):
    raw = rng.uniform(0.05, 1, size=(samples, classes)).astype(np.float32)
    return raw / raw.sum(1, keepdims=True)


def _classified(classes, batches=3):
    rng = np.random.RandomState(11)
    sizes = [7, 5, 9][:batches]
    return [([rng.randint(0, classes, size=n).astype(np.float32)], [_scores(rng, n, classes)]) for n in sizes]


def _sequences():
    rng = np.random.RandomState(12)
    return [([rng.randint(0, 4, size=(3, 5)).astype(np.float32)], [_scores(rng, 15, 4)]) for _ in range(2)]


def _spatial():
    rng = np.random.RandomState(13)
    return [
        ([rng.randint(0, 3, size=(2, 4)).astype(np.float32)], [rng.rand(2, 3, 4).astype(np.float32)]) for _ in range(2)
    ]


def _values(shape):
    rng = np.random.RandomState(14)
    return [
        ([rng.normal(size=shape).astype(np.float32)], [rng.normal(size=shape).astype(np.float32)]) for _ in range(3)
    ]


def _two_outputs():
    a, b = _classified(4), _classified(4)
    return [(x[0] + y[0], x[1] + y[1]) for x, y in zip(a, b)]


def _spread(label, pred):
    return float(np.abs(label - pred).max())


def _total(label, pred):
    return float((label - pred).sum()), label.size


# name: (metric, batches of labels and predictions)
METRICS = {
    "accuracy": (lambda mx: mx.metric.Accuracy(), _classified(4)),
    "accuracy_axis": (lambda mx: mx.metric.Accuracy(axis=1), _spatial()),
    "accuracy_two": (lambda mx: mx.metric.create("acc"), _two_outputs()),
    "accuracy_same_shape": (lambda mx: mx.metric.Accuracy(), _values((6,))),
    "top3": (lambda mx: mx.metric.TopKAccuracy(top_k=3), _classified(6)),
    "f1": (lambda mx: mx.metric.F1(), _classified(2)),
    "f1_micro": (lambda mx: mx.metric.F1(average="micro"), _classified(2)),
    "mcc": (lambda mx: mx.metric.MCC(), _classified(2)),
    "mcc_micro": (lambda mx: mx.metric.MCC(average="micro"), _classified(2)),
    "pcc": (lambda mx: mx.metric.PCC(), _classified(4)),
    "perplexity": (lambda mx: mx.metric.Perplexity(ignore_label=None), _sequences()),
    "perplexity_ignore": (lambda mx: mx.metric.Perplexity(ignore_label=2), _sequences()),
    "ce": (lambda mx: mx.metric.create("ce"), _classified(4)),
    "nll": (lambda mx: mx.metric.NegativeLogLikelihood(eps=0.1), _classified(4)),
    "mae": (lambda mx: mx.metric.MAE(), _values((4, 3))),
    "mae_vector": (lambda mx: mx.metric.create("mae"), _values((5,))),
    "mse": (lambda mx: mx.metric.MSE(), _values((4, 3))),
    "rmse": (lambda mx: mx.metric.RMSE(), _values((4, 3))),
    "pearson": (lambda mx: mx.metric.PearsonCorrelation(), _values((4, 3))),
    "loss": (lambda mx: mx.metric.Loss(), _values((4, 3))),
    "custom": (lambda mx: mx.metric.np(_spread), _values((4, 3))),
    "custom_pair": (lambda mx: mx.metric.CustomMetric(_total), _values((4, 3))),
    "pearson_micro": (lambda mx: mx.metric.PearsonCorrelation(average="micro"), _values((4, 3))),
    "torch": (lambda mx: mx.metric.create("torch"), _values((4, 3))),
    "top2_two": (lambda mx: mx.metric.create("top_k_acc", top_k=2), _two_outputs()),
    "f1_two": (lambda mx: mx.metric.F1(), [(x * 2, y * 2) for x, y in _classified(2)]),
    "nested": (lambda mx: mx.metric.create(["acc", mx.metric.CompositeEvalMetric(["mcc", "f1"])]), _classified(2)),
    "composite": (lambda mx: mx.metric.create(["acc", "ce", "f1"]), _classified(2)),
}

# name: a list of samples
BATCHES = {
    "arrays": lambda mx: [mx.nd.array(GRID), mx.nd.array(GRID + 1)],
    "numpy": lambda mx: [GRID, GRID + 2],
    "numpy64": lambda mx: [GRID.astype(np.float64), GRID.astype(np.float64)],
    "ints": lambda mx: [1, 2, 3],
    "floats": lambda mx: [1.0, 2.5],
    "pairs": lambda mx: [(mx.nd.array(GRID), 1), (mx.nd.array(GRID), 2)],
    "nested": lambda mx: [(GRID.astype(np.uint8), np.float32(3)), (GRID.astype(np.uint8), np.float32(4))],
}


def image():
    """A smooth picture of 9 x 7 pixels."""
    y, x, c = np.meshgrid(np.arange(9), np.arange(7), np.arange(3), indexing="ij")
    return (127 + 80 * np.sin(0.7 * y + c) * np.cos(0.5 * x)).astype(np.uint8)
