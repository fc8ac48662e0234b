"""The cases of updates.npz: update operators, and optimizers; for MXNet and for hybridc, which is passed as ``mx``."""

import numpy as np
from frontend_cases import ALL, FACTOR, HALF, problem

STEPS = 3
LIMITED = {"rescale_grad": 0.5, "clip_gradient": 0.7}
HYPER = {"lr": 0.1, "wd": 0.05, **LIMITED}
HALVES = ("float16", "float16")

# name: (operator, its states, attributes, dtypes of the weight and the gradient)
ONE = {
    "sgd": ("sgd_update", (), HYPER, ()),
    "sgd_plain": ("sgd_update", (), {"lr": 0.1}, ()),
    "sgd_zero_bound": ("sgd_update", (), {"lr": 0.1, "wd": 0.1, "clip_gradient": 0.0}, ()),
    "sgd_float64": ("sgd_update", (), HYPER, ("float64",)),
    "sgd_float16": ("sgd_update", (), HYPER, HALVES),
    "sgd_mom": ("sgd_mom_update", ("mom",), {"momentum": 0.9, **HYPER}, ()),
    "sgd_mom_default": ("sgd_mom_update", ("mom",), {"lr": 0.1}, ()),
    "mp_sgd": ("mp_sgd_update", ("weight32",), HYPER, HALVES),
    "mp_sgd_mom": ("mp_sgd_mom_update", ("mom", "weight32"), {"momentum": 0.9, **HYPER}, HALVES),
    "nag_mom": ("nag_mom_update", ("mom",), {"momentum": 0.9, **HYPER}, ()),
    "nag_mom_float64": ("nag_mom_update", ("mom",), {"momentum": 0.9, **HYPER}, ("float64",)),
    "mp_nag_mom": ("mp_nag_mom_update", ("mom", "weight32"), {"momentum": 0.9, **HYPER}, HALVES),
    "adam": ("adam_update", ("mean", "var"), HYPER, ()),
    "adam_default": ("adam_update", ("mean", "var"), {"lr": 0.1}, ()),
    "adam_other": ("adam_update", ("mean", "var"), {"beta1": 0.5, "beta2": 0.75, "epsilon": 0.25, **HYPER}, ()),
    "ftrl": ("ftrl_update", ("z", "n"), {"lamda1": 0.5, "beta": 0.5, **HYPER}, ()),
    "ftrl_default": ("ftrl_update", ("z", "n"), {"lr": 0.1}, ()),
    "ftml": (
        "ftml_update",
        ("d", "v", "z"),
        {"lr": 0.1, "wd": 0.05, "rescale_grad": 0.5, "clip_grad": 0.7, "beta2": 0.75, "t": "t"},
        (),
    ),
    "ftml_default": ("ftml_update", ("d", "v", "z"), {"lr": 0.1, "t": "t"}, ()),
    "rmsprop": ("rmsprop_update", ("n",), {"gamma1": 0.8, "epsilon": 0.25, "clip_weights": 0.9, **HYPER}, ()),
    "rmsprop_default": ("rmsprop_update", ("n",), {"lr": 0.1}, ()),
    "rmspropalex": (
        "rmspropalex_update",
        ("n", "g", "delta"),
        {"gamma1": 0.75, "gamma2": 0.5, "epsilon": 0.25, "clip_weights": 0.9, **HYPER},
        (),
    ),
    "rmspropalex_default": ("rmspropalex_update", ("n", "g", "delta"), {"lr": 0.01}, ()),
    "signsgd": ("signsgd_update", (), HYPER, ()),
    "signsgd_negative": ("signsgd_update", (), {"lr": 0.1, "rescale_grad": -1.0, "clip_gradient": 0.0}, ()),
    "signum": ("signum_update", ("mom",), {"momentum": 0.9, "wd_lh": 0.2, **HYPER}, ()),
    "signum_default": ("signum_update", ("mom",), {"lr": 0.1}, ()),
    "lamb1": (
        "lamb_update_phase1",
        ("mean", "var"),
        {"beta2": 0.75, "epsilon": 0.25, "t": "t", "wd": 0.05, **LIMITED},
        (),
    ),
    "lamb1_biased": (
        "lamb_update_phase1",
        ("mean", "var"),
        {"t": "t", "wd": 0.05, "bias_correction": False},
        (),
    ),
    "mp_lamb1": (
        "mp_lamb_update_phase1",
        ("mean", "var", "weight32"),
        {"beta2": 0.75, "t": "t", "wd": 0.05, **LIMITED},
        HALVES,
    ),
    "lamb2": ("lamb_update_phase2", ("r1", "r2"), {"lr": 0.1}, ()),
    "lamb2_bounds": ("lamb_update_phase2", ("r1", "r2"), {"lr": 0.1, "lower_bound": 0.5, "upper_bound": 1.5}, ()),
    "lamb2_raised": ("lamb_update_phase2", ("r1", "r2"), {"lr": 0.1, "lower_bound": 9.0}, ()),
    "lamb2_zero_bound": ("lamb_update_phase2", ("r1", "r2"), {"lr": 0.1, "upper_bound": 0.0}, ()),
    "mp_lamb2": (
        "mp_lamb_update_phase2",
        ("r1", "r2", "weight32"),
        {"lr": 0.1, "upper_bound": 1.5},
        ("float16", "float32"),
    ),
}

RATES = {"lrs": (0.1, 0.2), "wds": (0.05, 0.0)}
# name: (operator, states, attributes, dtypes, what comes after the arrays of the weights)
MANY = {
    "multi_sgd": ("multi_sgd_update", (), {**RATES, **LIMITED}, (), ()),
    "multi_sgd_mom": ("multi_sgd_mom_update", ("mom",), {**RATES, **LIMITED, "momentum": 0.9}, (), ()),
    "multi_mp_sgd": ("multi_mp_sgd_update", ("weight32",), {**RATES, **LIMITED}, HALVES, ()),
    "multi_mp_sgd_mom": (
        "multi_mp_sgd_mom_update",
        ("mom", "weight32"),
        {**RATES, **LIMITED, "momentum": 0.9},
        HALVES,
        (),
    ),
    "preloaded_sgd": ("preloaded_multi_sgd_update", (), LIMITED, (), tuple(RATES.values())),
    "preloaded_sgd_mom": (
        "preloaded_multi_sgd_mom_update",
        ("mom",),
        {**LIMITED, "momentum": 0.9},
        (),
        tuple(RATES.values()),
    ),
    "preloaded_mp_sgd": ("preloaded_multi_mp_sgd_update", ("weight32",), LIMITED, HALVES, tuple(RATES.values())),
    "preloaded_mp_sgd_mom": (
        "preloaded_multi_mp_sgd_mom_update",
        ("mom", "weight32"),
        {**LIMITED, "momentum": 0.9},
        HALVES,
        tuple(RATES.values()),
    ),
}

_ADAMW = {"beta1": 0.75, "beta2": 0.5, "epsilon": 0.25, "clip_gradient": 0.7}
_LAMB = {"beta2": 0.75, "epsilon": 0.25, "lower_bound": 0.5, "upper_bound": 3.0, **LIMITED}
# name: (function of nd.contrib, states, arguments by name, dtypes)
CONTRIB = {
    "adamw": ("adamw_update", ("mean", "var"), {"rescale_grad": 0.5, "lr": 0.1, "eta": 0.5, "wd": 0.05, **_ADAMW}, ()),
    "adamw_default": ("adamw_update", ("mean", "var"), {"rescale_grad": 0.5, "lr": 0.1, "eta": 1.0}, ()),
    "adamw_overflow": ("adamw_update", ("mean", "var"), {"rescale_grad": float("inf"), "lr": 0.1, "eta": 1.0}, ()),
    "adamw_zero": ("adamw_update", ("mean", "var"), {"rescale_grad": 0.0, "lr": 0.1, "eta": 1.0, "wd": 0.1}, ()),
    "mp_adamw": (
        "mp_adamw_update",
        ("mean", "var", "weight32"),
        {"rescale_grad": 0.5, "lr": 0.1, "eta": 0.5, "wd": 0.05, **_ADAMW},
        HALVES,
    ),
    "multi_adamw": (
        "multi_adamw_update",
        ("mean", "var"),
        {"rescale_grad": 0.5, **RATES, "etas": (0.5, 1.0), **_ADAMW},
        (),
    ),
    "multi_adamw_overflow": (
        "multi_adamw_update",
        ("mean", "var"),
        {"rescale_grad": float("nan"), **RATES, "etas": (0.5, 1.0)},
        (),
    ),
    "multi_mp_adamw": (
        "multi_mp_adamw_update",
        ("mean", "var", "weights32"),
        {"rescale_grad": 0.5, **RATES, "etas": (0.5, 1.0), **_ADAMW},
        HALVES,
    ),
    "multi_lamb": ("multi_lamb_update", ("mean", "var"), {"step_count": (1, 3), **RATES, **_LAMB}, ()),
    "multi_lamb_biased": (
        "multi_lamb_update",
        ("mean", "var"),
        {"step_count": (1, 3), **RATES, "bias_correction": False},
        (),
    ),
    "multi_mp_lamb": (
        "multi_mp_lamb_update",
        ("mean", "var", "weights32"),
        {"step_count": (1, 3), **RATES, **_LAMB},
        HALVES,
    ),
}


class Arrays:
    """The inputs of one weight: its gradients are those of the steps, its states positive, its float32 copy exact."""

    def __init__(self, mx, shape, states, dtypes):
        rng = np.random.RandomState(len(shape) + 7)
        self.mx = mx
        self.dtypes = [*dtypes, *["float32"] * 2][:2] if len(dtypes) != 1 else [dtypes[0]] * 2
        weight = rng.normal(size=shape).astype(self.dtypes[0])
        self.weight = self.array(weight, self.dtypes[0])
        self.grads = [self.array(rng.normal(size=shape) * 2, self.dtypes[1]) for _ in range(STEPS)]
        half = self.dtypes[0] == "float16"
        kind = "float32" if half else self.dtypes[0]
        self.states = []
        for name in states:
            if name.startswith("weight"):
                self.states.append(self.array(weight, "float32"))
            else:
                size = (1,) if name in ("r1", "r2") else shape
                self.states.append(self.array(rng.uniform(0.5, 2, size=size), kind))

    def array(self, values, dtype):
        return self.mx.nd.array(np.asarray(values, dtype=dtype), dtype=dtype)


def run_one(mx, name):
    """The results and states after each step of an operator of one weight."""
    function, states, attrs, dtypes = ONE[name]
    given = Arrays(mx, (3, 5), states, dtypes)
    found = []
    for step, grad in enumerate(given.grads):
        now = {k: step + 1 if v == "t" else v for k, v in attrs.items()}
        if "phase1" not in function:  # whose result is no weight
            now["out"] = given.weight
        made = getattr(mx.nd, function)(given.weight, grad, *given.states, **now)
        found += [made, *given.states]
        found = [x if isinstance(x, np.ndarray) else x.asnumpy() for x in found]
    return found


def run_many(mx, name):
    """The weights and states after each step of an operator of two weights."""
    function, states, attrs, dtypes, last = MANY[name]
    each = [Arrays(mx, shape, states, dtypes) for shape in ((2, 3), (4,))]
    after = [mx.nd.array(np.array(x, np.float32)) for x in last]
    found = []
    for step in range(STEPS):
        flat = [x for one in each for x in (one.weight, one.grads[step], *one.states)]
        weights = [one.weight for one in each]
        getattr(mx.nd, function)(*flat, *after, num_weights=2, out=weights, **attrs)
        found += [x.asnumpy() for one in each for x in (one.weight, *one.states)]
    return found


def run_contrib(mx, name):
    """The weights and states after each step of a function of ``nd.contrib``."""
    function, states, attrs, dtypes = CONTRIB[name]
    several = function.startswith("multi")
    each = [Arrays(mx, shape, states, dtypes) for shape in (((2, 3), (4,)) if several else ((3, 5),))]
    found = []
    for step in range(STEPS):
        weights, grads = [one.weight for one in each], [one.grads[step] for one in each]
        others = [[one.states[i] for one in each] for i in range(len(states))]
        lists = [weights, grads, *others]
        out = {"out": weights if several else weights[0]}
        getattr(mx.nd.contrib, function)(*(lists if several else [x[0] for x in lists]), **attrs, **out)
        found += [x.asnumpy() for one in each for x in (one.weight, *one.states)]
    return found


def run_lars(mx):
    """The rates of ``multi_lars``, the first two of which are special."""
    arrays = [[0.1, 0.2, 0.3, 0.4], [4.0, 0.0, 9.0, 1e6], [1.0, 1.0, 0.0, 3.0], [0.1, 0.1, 0.1, 0.0]]
    made = mx.nd.multi_lars(*[mx.nd.array(x) for x in arrays], eta=0.5, eps=0.01, rescale_grad=2.0)
    return made.asnumpy()


_LARGE = {"learning_rate": 0.1, "batch_scale": 2, "updates_per_epoch": 2, "warmup_epochs": 2}
# name: (optimizer, its arguments, what else is special), as in frontend_cases
OPTIMIZERS = {
    "ftml": ("ftml", {"learning_rate": 0.1}, {}),
    "ftml_all": ("ftml", {"learning_rate": 0.1, "beta1": 0.5, "beta2": 0.75, "epsilon": 0.25, **ALL}, {}),
    "ftml_default": ("ftml", {}, {}),
    "ftml_float16": ("ftml", {"learning_rate": 0.1, "multi_precision": True, **ALL}, HALF),
    "dcasgd": ("dcasgd", {"learning_rate": 0.1, "lamda": 0.5}, {}),
    "dcasgd_all": ("dcasgd", {"learning_rate": 0.1, **ALL}, {}),
    "lbsgd": ("lbsgd", {"learning_rate": 0.1}, {}),
    "lbsgd_linear": ("lbsgd", {**_LARGE, "momentum": 0.9, **ALL}, {}),
    "lbsgd_power2": ("lbsgd", {**_LARGE, "batch_scale": 3, "warmup_strategy": "power2"}, {}),
    "lbsgd_sqrt": ("lbsgd", {**_LARGE, "warmup_strategy": "sqrt", "begin_epoch": 1}, {}),
    "lbsgd_lars": ("lbsgd", {**_LARGE, "warmup_strategy": "lars", "momentum": 0.9, "wd": 0.1}, {}),
    "lbsgd_schedule": ("lbsgd", {"lr_scheduler": FACTOR, "momentum": 0.9}, {}),
    "lbsgd_float16": ("lbsgd", {**_LARGE, "momentum": 0.9, "multi_precision": True}, HALF),
    "test": ("test", {"rescale_grad": 0.5}, {}),
    "groupadagrad": ("groupadagrad", {"learning_rate": 0.1}, {}),
    "groupadagrad_all": (
        "groupadagrad",
        {"learning_rate": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.7, "eps": 0.25},
        {},
    ),
}

# name: optimizer and arguments, of states that MXNet saved after three of six updates.
SAVED = {
    "sgd": ("sgd", {"learning_rate": 0.1, "momentum": 0.9, **ALL}, {}),
    "sgd_float16": ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": True}, HALF),
    "sgd_plain_float16": ("sgd", {"learning_rate": 0.1, "multi_precision": True}, HALF),
    "adam": ("adam", {"lr_scheduler": FACTOR, "learning_rate": 0.2, **ALL}, {}),
    "adam_float16": ("adam", {"learning_rate": 0.1, "multi_precision": True}, HALF),
    "nag": ("nag", {"learning_rate": np.float64(0.1), "momentum": 0.9}, {}),
    "rmsprop": ("rmsprop", {"learning_rate": 0.1, "centered": True}, {}),
    "lars": ("lars", {"learning_rate": 0.1, "momentum": 0.9}, {}),
    "lbsgd": ("lbsgd", {**_LARGE, "momentum": 0.9}, {}),
    "nadam": ("nadam", {"learning_rate": 0.1}, {}),
    "dcasgd": ("dcasgd", {"learning_rate": 0.1}, {}),
}

KINDS = (
    *("sgd", "ccsgd", "nag", "signum", "ftml", "lars", "lbsgd", "lamb", "dcasgd", "sgld", "adam", "adagrad"),
    *("rmsprop", "adadelta", "ftrl", "adamax", "nadam", "test", "groupadagrad"),
)
STATES = [
    f"{kind} {options} {dtype} {precise}"
    for kind in KINDS
    for options in ("plain", "momentum", "centered")
    for dtype in ("float32", "float16")
    for precise in (False, True)
]


def states_of(mx, case):
    """What the states of a weight are, as text; None where the optimizer does not take the options."""
    kind, options, dtype, precise = case.split()
    given = {"plain": {}, "momentum": {"momentum": 0.9}, "centered": {"centered": True}}[options]
    if precise == "True":
        given["multi_precision"] = True
    try:
        optimizer = mx.optimizer.create(kind, **given)
    except TypeError:
        return None
    return described(optimizer.create_state_multi_precision(0, mx.nd.ones((2, 3), dtype=dtype)))


def described(state):
    """The shapes, dtypes and sums of states, as they are nested."""
    if isinstance(state, (tuple, list)):
        return f"{type(state).__name__}({', '.join(map(described, state))})"
    if state is None:
        return "None"
    return f"{np.dtype(state.dtype).name}{list(state.shape)} of {float(state.asnumpy().sum()):g}"


def made(mx, kind, options):
    """The optimizer, with its schedule."""
    options = dict(options)
    if "lr_scheduler" in options:
        klass, args = options.pop("lr_scheduler")
        options["lr_scheduler"] = getattr(mx.lr_scheduler, klass)(**args)
    return mx.optimizer.create(kind, **options)


def continued(mx, updater, weight, steps, dtype):
    """The weights after these of the six updates."""
    _, grads = problem(dtype)
    found = []
    for i in steps:
        updater(0, mx.nd.array(grads[i], dtype=dtype), weight)
        found.append(weight.asnumpy())
    return np.stack(found)
