"""Training by SVRG: linear regression on few examples, run by MXNet (make_svrg.py) and by hybridc (tests/module)."""

from importlib import import_module

import numpy as np

# With one computation of full gradients: MXNet adds later ones to the means before.
CASES = {
    "sgd": {"update_freq": 3, "epochs": 3},
    "momentum": {"update_freq": 3, "epochs": 3, "params": (("learning_rate", 0.05), ("momentum", 0.9))},
    "adam": {"update_freq": 5, "epochs": 4, "optimizer": "adam"},
    "decay": {"update_freq": 2, "epochs": 2, "params": (("learning_rate", 0.1), ("wd", 0.1))},
    "whole batches": {"update_freq": 2, "epochs": 2, "count": 12},
}
START = {"fc_weight": [[0.1, 0.2, 0.3]], "fc_bias": [0.0]}


def examples(count):
    """Inputs and labels."""
    x = np.random.RandomState(0).normal(size=(count, 3)).astype("float32")
    return x, (x @ np.array([1, -2, 0.5]) + 0.3).astype("float32")


def run(mx, update_freq, epochs, count=10, devices=1, optimizer="sgd", params=(("learning_rate", 0.1),)):
    """The parameters after training in batches of 4."""
    module = import_module(f"{mx.__name__}.contrib.svrg_optimization.svrg_module").SVRGModule
    iterator = mx.io.NDArrayIter(*examples(count), batch_size=4, label_name="label")
    layer = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    symbol = mx.sym.LinearRegressionOutput(layer, mx.sym.Variable("label"), name="loss")
    contexts = [mx.cpu(i) for i in range(devices)]
    made = module(symbol, label_names=["label"], context=contexts, update_freq=update_freq)
    start = {name: mx.nd.array(value) for name, value in START.items()}
    given = {"optimizer": optimizer, "optimizer_params": params, "arg_params": start}
    made.fit(iterator, eval_metric="mse", num_epoch=epochs, **given)
    return {name: x.asnumpy().tolist() for name, x in made.get_params()[0].items()}
