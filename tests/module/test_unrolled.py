"""Modules of unrolled cells: their steps are loops, with the results, gradients and parameters of the operators."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx

BATCH, WORDS, HIDDEN = 3, 11, 4
# How a graph comes that is not compiled; from the disk, if an earlier process had such a graph.
ORIGINS = ("planned with the kernels", "from the cache on the disk")


def language_model(steps: int, layers: int = 2):
    """Words, LSTM layers and the next word at each step, as a bucketing program makes it."""
    stack = mx.rnn.SequentialRNNCell()
    for layer in range(layers):
        stack.add(mx.rnn.LSTMCell(num_hidden=HIDDEN, prefix=f"lstm{layer}_"))
    words = mx.sym.Embedding(mx.sym.var("data"), input_dim=WORDS, output_dim=HIDDEN, name="embed")
    rows, _ = stack.unroll(steps, inputs=words, merge_outputs=True)
    found = mx.sym.FullyConnected(mx.sym.reshape(rows, shape=(-1, HIDDEN)), num_hidden=WORDS, name="pred")
    loss = mx.sym.SoftmaxOutput(found, mx.sym.reshape(mx.sym.var("softmax_label"), shape=(-1,)), name="softmax")
    return loss, ("data",), ("softmax_label",)


def batch(steps: int):
    """A batch of words and the next words."""
    words = mx.nd.array(np.random.default_rng(steps).integers(0, WORDS, (BATCH, steps)))
    data, label = (mx.io.DataDesc(name, (BATCH, steps)) for name in ("data", "softmax_label"))
    return mx.io.DataBatch([words], [words], 0, bucket_key=steps, provide_data=[data], provide_label=[label])


def parameters(symbol, steps: int):
    """Random values of the parameters, by name."""
    shapes, _, _ = symbol.infer_shape(data=(BATCH, steps), softmax_label=(BATCH, steps))
    rng = np.random.default_rng(0)
    named = zip(symbol.list_arguments(), shapes, strict=True)
    return {n: mx.nd.array(rng.standard_normal(s) / 2) for n, s in named if n not in ("data", "softmax_label")}


def trained(steps: int, is_shown: bool):
    """Results, gradients and new parameters of a step of training; with a monitor operators run one by one."""
    model = language_model(steps)
    module, given = mx.mod.Module(*model), batch(steps)
    module.bind(given.provide_data, given.provide_label)
    module.init_params(arg_params=parameters(model[0], steps))
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5})
    (executor,) = module._exec_group.execs
    if is_shown:
        executor.set_monitor_callback(lambda name, array: None)
    module.forward(given, is_train=True)
    module.backward()
    module.update()
    grads = {n: g.asnumpy() for n, g in executor.grad_dict.items() if g is not None}
    return module.get_outputs()[0].asnumpy(), grads, module.get_params()[0], executor


@pytest.mark.parametrize("steps", [4, 23])
def test_a_module_has_a_loop_of_equal_steps(steps):
    output, grads, params, executor = trained(steps, is_shown=False)
    expected, expected_grads, expected_params, _ = trained(steps, is_shown=True)
    assert f"{steps} equal steps of 27 operators are one loop" in executor.debug_str()
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
    for name, grad in expected_grads.items():
        np.testing.assert_allclose(grads[name], grad, rtol=1e-4, atol=1e-5, err_msg=name)
    for name, value in expected_params.items():
        np.testing.assert_allclose(params[name].asnumpy(), value.asnumpy(), rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.usefixtures("natively_stored")
def test_buckets_share_a_loop():
    """Buckets after the first are planned, not compiled, and train the same parameters."""
    module = mx.mod.BucketingModule(language_model, default_bucket_key=24)
    given = batch(24)
    module.bind(given.provide_data, given.provide_label)
    module.init_params(arg_params=parameters(language_model(24)[0], 24))
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1})
    for steps in (24, 22, 4):
        module.forward(batch(steps), is_train=True)
        module.backward()
        module.update()
        text = module._curr_module._exec_group.execs[0].debug_str()
        assert f"{steps} equal steps" in text
        assert steps == 24 or any(origin in text for origin in ORIGINS), text


def test_steps_of_both_directions_are_loops():
    cell = mx.rnn.BidirectionalCell(mx.rnn.GRUCell(HIDDEN, prefix="l_"), mx.rnn.GRUCell(HIDDEN, prefix="r_"))
    rows, _ = cell.unroll(30, inputs=mx.sym.var("data"), merge_outputs=True)
    rng = np.random.default_rng(2)
    executor = rows.simple_bind(mx.cpu(), data=(BATCH, 30, HIDDEN))
    for array in executor.arg_dict.values():
        array[:] = rng.standard_normal(array.shape)
    found = executor.forward()[0].asnumpy()
    text = executor.debug_str()
    assert text.count("equal steps") == 2, text
    executor.set_monitor_callback(lambda name, array: None)
    np.testing.assert_allclose(found, executor.forward()[0].asnumpy(), rtol=1e-5, atol=1e-6)
