"""The custom softmax in a network of symbols, trained through an executor, as the symbolic tutorials do.

Run it with ``python examples/symbol_softmax.py``.
"""

import numpy as np
from custom_softmax import spirals  # importing it registers the operator "softmax"

import hybridc as mx

# %% [markdown]
# ## A network of symbols


# %%
def network():
    """Three layers and the custom loss; weights and the label are made by name."""
    net = mx.symbol.Variable("data")
    for i in (1, 2):
        net = mx.symbol.FullyConnected(data=net, name=f"fc{i}", num_hidden=64)
        net = mx.symbol.Activation(data=net, name=f"relu{i}", act_type="relu")
    fc3 = mx.symbol.FullyConnected(data=net, name="fc3", num_hidden=3)
    return mx.symbol.Custom(data=fc3, name="softmax", op_type="softmax")


mx.random.seed(7)
xs, labels = spirals(200, np.random.default_rng(7))
mlp = network()
print("arguments:", ", ".join(mlp.list_arguments()))
shapes, _, _ = mlp.infer_shape(data=xs.shape)
print("shapes:", dict(zip(mlp.list_arguments(), shapes)))

# %% [markdown]
# ## Training through an executor
#
# `simple_bind` makes the arrays of all arguments and compiles the graph. An updater changes the weights by their
# gradients.

# %%
executor = mlp.simple_bind(ctx=mx.cpu(), data=xs.shape)
executor.copy_params_from({"data": mx.nd.array(xs), "softmax_label": mx.nd.array(labels)})
optimizer = mx.optimizer.Adam(learning_rate=0.01, rescale_grad=1 / len(xs))
updater = mx.optimizer.get_updater(optimizer)
parameters = [name for name in executor.arg_dict if name.startswith("fc")]
for name in parameters:
    mx.init.Xavier()(mx.init.InitDesc(name), executor.arg_dict[name])
for step in range(60):
    (probabilities,) = executor.forward(is_train=True)
    executor.backward()
    for i, name in enumerate(parameters):
        updater(i, executor.grad_dict[name], executor.arg_dict[name])
    if step % 15 == 14:
        right = (probabilities.asnumpy().argmax(axis=1) == labels).mean()
        print(f"step {step + 1}: accuracy {right:.3f}")

# %% [markdown]
# ## The graph as a layer
#
# A `SymbolBlock` is a Gluon block that runs a symbol: here the output of the last layer, without the loss.

# %%
print("the same graph as a layer, without its loss:")
features = mx.gluon.SymbolBlock(mlp.get_internals()["fc3_output"], mx.sym.var("data"))
features.initialize()
for name, parameter in features.collect_params().items():
    parameter.shape = executor.arg_dict[name].shape
    parameter.set_data(executor.arg_dict[name])
features.hybridize()
print((features(mx.nd.array(xs)).asnumpy().argmax(axis=1) == labels).mean().round(3))
print("what the executor runs:")
print("\n".join(line for line in executor.debug_str().splitlines() if "kernels, " in line or "  host call" in line))
