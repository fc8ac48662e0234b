"""What recurrent cells do, run by MXNet (make_rnn.py) and by hybridc (tests/gluon/test_rnn_cells.py)."""

from __future__ import annotations

from gluon_cases import fill, random

CASES = {}
N, T, C = 3, 4, 5  # batch, steps, channels


def case(function):
    """Enter a case under its name."""
    CASES[function.__name__] = function
    return function


def listed(x):
    """A list of arrays of one array, or of several."""
    return list(x) if isinstance(x, list | tuple) else [x]


def observed(mx, parameters, arrays, run):
    """Results of ``run()`` and the gradients of ``sum(result * weights)``."""
    for x in arrays:
        x.attach_grad()
    with mx.autograd.record(train_mode=False):
        outputs, states = run()
        results = [*listed(outputs), *states]
        total = sum((y * mx.nd.array(random(*y.shape, seed=70 + i))).sum() for i, y in enumerate(results))
    total.backward()
    found = {"count": [len(listed(outputs)), len(states), isinstance(outputs, list)]}
    found.update({f"result{i}": y.asnumpy() for i, y in enumerate(results)})
    found.update({f"input{i}.grad": x.grad.asnumpy() for i, x in enumerate(arrays)})
    for name, p in parameters.items():
        if p.grad_req != "null":
            found[f"{name}.grad"] = p.grad().asnumpy()
    return found


def simple(mx):
    """Cells that run no other, with the shape of their inputs."""
    rnn, contrib, nn = mx.gluon.rnn, mx.gluon.contrib.rnn, mx.gluon.nn
    yield "rnn", rnn.RNNCell(3), (N, C)
    yield "rnn_relu", rnn.RNNCell(3, activation="relu", i2h_bias_initializer="ones", input_size=C), (N, C)
    yield "rnn_leaky", rnn.RNNCell(3, nn.LeakyReLU(0.2)), (N, C)
    yield "rnn_softrelu", rnn.RNNCell(3, "softrelu", prefix="own_"), (N, C)
    yield "lstm", rnn.LSTMCell(3), (N, C)
    yield "lstm_activations", rnn.LSTMCell(3, activation="softsign", recurrent_activation="tanh"), (N, C)
    yield "gru", rnn.GRUCell(3), (N, C)
    yield "lstmp", contrib.LSTMPCell(4, 2), (N, C)
    line, image, volume = (2, 7), (2, 5, 4), (1, 4, 3, 3)
    yield "conv1d_rnn", contrib.Conv1DRNNCell(line, 2, 3, 1), (N, *line)
    yield "conv1d_lstm", contrib.Conv1DLSTMCell(line, 2, (3,), (3,), i2h_pad=1, activation="relu"), (N, *line)
    yield "conv1d_gru", contrib.Conv1DGRUCell(line, 2, 2, 3, i2h_dilate=2, h2h_dilate=2), (N, *line)
    yield "conv2d_rnn", contrib.Conv2DRNNCell(image, 2, (3, 2), 3, activation=nn.LeakyReLU(0.1)), (N, *image)
    yield "conv2d_lstm", contrib.Conv2DLSTMCell(image, 2, 3, (1, 3), i2h_pad=(1, 0)), (N, *image)
    yield "conv2d_gru", contrib.Conv2DGRUCell(image, 2, 2, 1, prefix="own_"), (N, *image)
    yield "conv3d_rnn", contrib.Conv3DRNNCell(volume, 2, 2, 1), (N, *volume)
    yield "conv3d_lstm", contrib.Conv3DLSTMCell(volume, 1, (2, 1, 3), 1), (N, *volume)
    yield "conv3d_gru", contrib.Conv3DGRUCell(volume, 1, 2, 3, activation="sigmoid"), (N, *volume)


def started(mx, cell, shape):
    """Initialize a cell with fixed weights, and give its states with fixed values."""
    cell.initialize()
    cell(mx.nd.zeros(shape), cell.begin_state(batch_size=shape[0], func=mx.nd.zeros))
    fill(cell, mx)
    states = cell.begin_state(batch_size=shape[0], func=mx.nd.zeros)
    return [mx.nd.array(random(*s.shape, seed=20 + i)) for i, s in enumerate(states)]


@case
def steps(mx, hybridize):
    """Two steps of each simple cell, from given states."""
    found = {}
    with mx.name.NameManager():
        for name, cell, shape in simple(mx):
            hybridize(cell)
            states = started(mx, cell, shape)
            x, y = (mx.nd.array(random(*shape, seed=seed)) for seed in (30, 31))

            def run(cell=cell, x=x, y=y, states=states):
                return cell(y, cell(x, states)[1])

            got = observed(mx, cell.collect_params(), [x, y, *states], run)
            found.update({f"{name}/{k}": v for k, v in got.items()})
    return found


def composed(mx):
    """Cells that run others, of steps with C channels, and whether they can be stepped."""
    rnn, contrib = mx.gluon.rnn, mx.gluon.contrib.rnn
    stack = rnn.HybridSequentialRNNCell()
    with stack.name_scope():
        stack.add(rnn.LSTMCell(4))
        stack.add(rnn.DropoutCell(0.5))
        stack.add(rnn.ZoneoutCell(rnn.GRUCell(4), 0.3, 0.2))
        stack.add(rnn.ResidualCell(rnn.RNNCell(4)))
    yield "stack", stack, True
    plain = rnn.SequentialRNNCell(prefix="plain_")
    with plain.name_scope():
        plain.add(rnn.GRUCell(2))
        plain.add(rnn.LSTMCell(3))
    yield "plain", plain, True
    yield "residual", rnn.ResidualCell(rnn.GRUCell(C)), True
    yield "zoneout", rnn.ZoneoutCell(rnn.LSTMCell(3), 0.4), True
    yield "dropout", rnn.DropoutCell(0.4, axes=(1,)), True
    yield "variational", contrib.VariationalDropoutCell(rnn.LSTMCell(3), 0.4, 0, 0.3), True
    yield "variational_states", contrib.VariationalDropoutCell(rnn.LSTMCell(3), 0, 0.3), True
    yield "both_ways", rnn.BidirectionalCell(rnn.LSTMCell(2), rnn.GRUCell(3)), False
    deep = rnn.HybridSequentialRNNCell()
    with deep.name_scope():
        deep.add(rnn.BidirectionalCell(rnn.GRUCell(2), rnn.ResidualCell(rnn.RNNCell(C))))
        deep.add(rnn.ResidualCell(rnn.BidirectionalCell(rnn.RNNCell(4), rnn.RNNCell(3), "again_")))
    yield "deep", deep, False


@case
def texts(mx, hybridize):
    """What cells print, their parameters and the names under which these are saved, and their states."""
    found = {}
    with mx.name.NameManager():
        for name, cell, shape in simple(mx):
            found[f"{name} before"] = declared(cell)
            started(mx, cell, shape)
            found[name] = declared(cell)
        for name, cell, _ in composed(mx):
            found[f"{name} before"] = declared(cell)
            cell.initialize()
            cell.unroll(T, mx.nd.zeros((N, T, C)), begin_state=cell.begin_state(batch_size=N, func=mx.nd.zeros))
            found[name] = declared(cell)
    return found


def declared(cell):
    """All that says how a cell was made."""
    return [
        cell.name,
        repr(cell),
        [[name, list(p.shape), p.grad_req] for name, p in cell.collect_params().items()],
        sorted(cell._collect_params_with_prefix()),
        [[list(info["shape"]), info["__layout__"]] for info in cell.state_info(7)],
    ]


FORMS = {
    "NTC": {"layout": "NTC"},
    "TNC": {"layout": "TNC", "merge_outputs": True},
    "split": {"layout": "NTC", "merge_outputs": False},
    "list": {"layout": "NTC"},
    "list_merged": {"layout": "TNC", "merge_outputs": True},
}


def unrolled(mx, cell, form, lengths):
    """What a cell gives for a sequence, from zeros."""
    options, shape = dict(FORMS[form]), {"NTC": (N, T, C), "TNC": (T, N, C)}[FORMS[form]["layout"]]
    if form.startswith("list"):
        inputs = arrays = [mx.nd.array(random(N, C, seed=40 + i)) for i in range(T)]
    else:
        inputs = mx.nd.array(random(*shape, seed=40))
        arrays = [inputs]
    if lengths:
        options["valid_length"] = mx.nd.array([2, T, 1])

    def run():
        states = cell.begin_state(batch_size=N, func=mx.nd.zeros)
        return cell.unroll(T, inputs, begin_state=states, **options)

    return observed(mx, cell.collect_params(), arrays, run)


@case
def sequences(mx, hybridize):
    """A cell unrolled over sequences in every form."""
    found = {}
    with mx.name.NameManager():
        cell = mx.gluon.rnn.LSTMCell(2)
        hybridize(cell)
        started(mx, cell, (N, C))
        for form in FORMS:
            for lengths in (False, True):
                got = unrolled(mx, cell, form, lengths)
                found.update({f"{form}{lengths}/{k}": v for k, v in got.items()})
        ones = mx.nd.ones((N, 1, C))  # a single step
        found["one"] = cell.unroll(1, ones)[0][0].asnumpy()
        found["one_valid"] = cell.unroll(1, ones, valid_length=mx.nd.array([1, 0, 1]))[0].asnumpy()
    return found


@case
def cells_of_cells(mx, hybridize):
    """Cells that run others, unrolled, with and without lengths."""
    found = {}
    with mx.name.NameManager():
        for name, cell, can_step in composed(mx):
            hybridize(cell)
            states = cell.begin_state(batch_size=N, func=mx.nd.zeros)
            cell.initialize()
            cell.unroll(T, mx.nd.zeros((N, T, C)), begin_state=states)
            fill(cell, mx)
            for form in ("NTC", "list_merged"):
                for lengths in (False, True):
                    # MXNet confuses axes of cells that run from both ends there.
                    if lengths and form == "NTC" and name in ("both_ways", "deep"):
                        continue
                    got = unrolled(mx, cell, form, lengths)
                    found.update({f"{name}/{form}{lengths}/{k}": v for k, v in got.items()})
            if can_step:
                cell.reset()
                y, after = cell(mx.nd.array(random(N, C, seed=50)), states)
                found[f"{name}/step"] = y.asnumpy()
                found.update({f"{name}/state{i}": s.asnumpy() for i, s in enumerate(after)})
    return found


@case
def symbols(mx, hybridize):
    """Cells on symbols: names of arguments and results, shapes that follow, and results."""
    found = {}
    with mx.name.NameManager():
        cells = [*simple(mx), *((name, cell, (N, C)) for name, cell, _ in composed(mx))]
    for name, cell, shape in cells:
        if name in ("rnn_leaky", "conv2d_rnn"):  # MXNet cannot unroll cells whose activation is a block
            continue
        with mx.name.NameManager():
            inputs = [mx.sym.var(f"t{i}_data") for i in range(2)]
            outputs, states = cell.unroll(2, inputs, begin_state=cell.begin_state(func=mx.sym.zeros))
            group = mx.sym.Group([*outputs, *states])
            shapes = group.infer_shape(t0_data=shape, t1_data=shape)
            found[name] = [group.list_arguments(), list(map(list, shapes[0])), list(map(list, shapes[1]))]
            if name not in ("stack", "plain", "deep", "variational", "variational_states", "zoneout", "both_ways"):
                found[f"{name} outputs"] = group.list_outputs()
    cell = mx.gluon.rnn.LSTMCell(2, prefix="rnn_")
    states = cell.begin_state(func=mx.sym.var)
    output, after = cell(mx.sym.var("x"), states)
    group = mx.sym.Group([output, *after])
    shapes = group.infer_shape(x=(N, C))
    found["variables"] = [group.list_arguments(), list(map(list, shapes[0])), [s.attr("__layout__") for s in states]]
    data = mx.sym.var("data")
    outputs, _ = cell.unroll(2, data, layout="TNC", merge_outputs=True, valid_length=mx.sym.var("lengths"))
    executor = outputs.simple_bind(mx.cpu(), data=(2, N, C), lengths=(N,))
    for i, (key, array) in enumerate(sorted(executor.arg_dict.items())):
        array[:] = mx.nd.array([1, 2, 0] if key == "lengths" else random(*array.shape, seed=60 + i))
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((2, N, 2)))
    found["bound"] = executor.outputs[0].asnumpy()
    found.update({f"{k}.grad": v.asnumpy() for k, v in executor.grad_dict.items() if k != "lengths"})
    return found


def network(mx):
    """The network whose parameters are in a file."""
    rnn, contrib = mx.gluon.rnn, mx.gluon.contrib.rnn
    net = rnn.HybridSequentialRNNCell(prefix="net_")
    with net.name_scope():
        net.add(rnn.BidirectionalCell(rnn.LSTMCell(2), rnn.GRUCell(2)))
        net.add(rnn.ResidualCell(rnn.ZoneoutCell(rnn.GRUCell(4), 0.2)))
        net.add(contrib.VariationalDropoutCell(contrib.LSTMPCell(3, 2), 0.2))
    return net
