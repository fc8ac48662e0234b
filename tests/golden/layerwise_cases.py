"""The cases of layerwise.npz: optimizers whose rate depends on the length of each weight."""

from frontend_cases import ALL, FACTOR, HALF

_BOTH = {"learning_rate": 0.1, "momentum": 0.9, "eta": 0.1}

# name: (optimizer, its arguments, what else is special)
LAYERWISE = {
    "lamb": ("lamb", {}, {}),
    "lamb_all": ("lamb", {"learning_rate": 0.1, **ALL}, {}),
    "lamb_bounds": ("lamb", {"learning_rate": 0.1, "lower_bound": 10.0, "upper_bound": 12.0}, {}),
    "lamb_upper": ("lamb", {"learning_rate": 0.1, "upper_bound": 2.0}, {}),
    "lamb_uncorrected": ("lamb", {"learning_rate": 0.1, "bias_correction": False, "epsilon": 1e-3, **ALL}, {}),
    "lars": ("lars", {"learning_rate": 0.1}, {}),
    "lars_all": ("lars", {**_BOTH, **ALL}, {}),
    "lars_eps": ("lars", {**_BOTH, "eps": 0.5}, {}),
    "lars_schedule": ("lars", {"momentum": 0.9, "eta": 0.1, "lr_scheduler": FACTOR}, {}),
    "lars_uncorrected": (
        "lars",
        {"momentum": 0.9, "eta": 0.1, "lr_scheduler": FACTOR, "momentum_correction": False},
        {},
    ),
    "lars_weight": ("lars", {**_BOTH, "wd": 0.1, "param_idx2name": {0: "a_weight"}}, {}),
    "lars_gamma": ("lars", {**_BOTH, "wd": 0.1, "param_idx2name": {0: "a_gamma"}}, {}),
    "lars_bias": ("lars", {**_BOTH, "wd": 0.1, "param_idx2name": {0: "a_bias"}}, {}),
    "lars_float16": ("lars", {**_BOTH, "multi_precision": True, **ALL}, HALF),
}
