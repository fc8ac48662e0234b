"""Values and gradients where a function has two answers: at ties, of signed zeros, of empty windows and steps.

A case is code with ``F`` and inputs ``x``, ``y``, ``z``, of which those of a dtype of floats have gradients.
"""

import numpy as np

V = [-2.0, -1.0, -0.0, 0.0, 1.0, 2.0]
X, Y = [[0.0, 0, 1], [1, -1, 2], [-0.0, 3, -2]], [[0.0, 1, 1], [0, -1, -2], [0, 3, 2]]
MAP, OTHER = np.reshape(X, (1, 1, 3, 3)), np.reshape(Y, (1, 1, 3, 3))
FULL = "kernel=(1, 3), stride=(3, 2), pad=(0, 1), pooling_convention='full'"
SHORT = np.where(np.arange(24).reshape(4, 2, 3) >= 18, np.nan, np.random.RandomState(0).randn(4, 2, 3))
BOXES = [[[0, 0.9, 0, 0, 1, 1], [-1, 0.95, 0, 0, 2, 2], [1, 0.8, 5, 5, 6, 6], [-1.2, 0.3, 8, 8, 9, 9]]]

CASES = {
    **{
        f"{name} {V}": (code, [V])
        for name, code in {
            "sign": "F.sign(x)",
            "abs": "F.abs(x)",
            "relu": "F.relu(x)",
            "leaky": "F.LeakyReLU(x, slope=0.1)",
            "clip": "F.clip(x, -1, 1)",
            "smooth_l1": "F.smooth_l1(x, scalar=1)",
            "hard_sigmoid": "F.hard_sigmoid(x, alpha=0.5, beta=0.5)",
            "maximum": "F.maximum(x, 1)",
            "minimum": "F.minimum(x, 1)",
            "norm 1": "F.norm(x, ord=1)",
            "norm of zeros": "F.norm(F.slice_axis(x, axis=0, begin=2, end=4))",
            "max": "F.max(F.abs(x))",
            "topk": "F.topk(F.abs(x), ret_typ='value', k=2)",
        }.items()
    },
    **{
        f"{name} of equal numbers": (code, [X, Y])
        for name, code in {
            "maximum": "F.broadcast_maximum(x, y)",
            "minimum": "F.broadcast_minimum(x, y)",
            "hypot": "F.broadcast_hypot(x + 1, y + 1)",
            "mae": "F.MAERegressionOutput(x, y)",
            "linear": "F.LinearRegressionOutput(x, y)",
            "l1": "F.mean(F.abs(x - y), axis=1)",
            "huber": "F.smooth_l1(x - y, scalar=1)",
            "hinge": "F.relu(1 - x * y)",
        }.items()
    },
    "svm": ("F.SVMOutput(x, y)", [[[1.0, 1, 0], [2, 1, 0], [0, 1, -1]], [0.0, 1, 2]]),
    "svm, linear": ("F.SVMOutput(x, y, use_linear=True)", [[[1.0, 1, 0], [2, 1, 0], [0, 1, -1]], [0.0, 1, 2]]),
    **{
        f"correlation {most} {pad}": (
            f"F.Correlation(x, y, max_displacement={most}, pad_size={pad}, is_multiply=False)",
            [MAP, OTHER],
        )
        for most, pad in ((0, 0), (1, 1), (1, 0))
    },
    **{
        f"pooling of equal numbers {kind} {how}": (
            f"F.Pooling(x, kernel=(2, 2), pool_type='{kind}', pooling_convention='{how}')",
            [MAP],
        )
        for kind in ("max", "avg")
        for how in ("valid", "full")
    },
    **{
        f"windows of padding {dtype}": (f"F.Pooling(x, {FULL})", [np.arange(12.0).reshape(1, 1, 2, 6).astype(dtype)])
        for dtype in ("float16", "float32", "float64")
    },
    "windows of padding, 1 axis": (
        "F.Pooling(x, kernel=(1,), stride=(3,), pooling_convention='full')",
        [np.arange(2.0).reshape(1, 1, 2)],
    ),
    "windows of padding, 3 axes": (
        "F.Pooling(x, kernel=(1, 1, 1), stride=(3, 1, 3), pooling_convention='full')",
        [np.arange(4.0).reshape(1, 1, 2, 1, 2)],
    ),
    "windows of padding, sum": (f"F.Pooling(x, {FULL}, pool_type='sum')", [np.arange(12.0).reshape(1, 1, 2, 6)]),
    "windows of padding, old": (
        "F.Pooling_v1(x, kernel=(1, 1), stride=(3, 1), pooling_convention='full')",
        [np.arange(4.0).reshape(1, 1, 2, 2)],
    ),
    "nan behind a sequence": (
        "F.CTCLoss(x, y, z, use_data_lengths=True)",
        [SHORT, np.array([[1, 2], [2, 0]], "float32"), np.array([3, 3], "float32")],
    ),
    "nan behind a sequence and labels": (
        "F.CTCLoss(x, y, F.ones_like(z) * 3, z, use_data_lengths=True, use_label_lengths=True)",
        [SHORT, np.array([[1, 2], [2, 0]], "float32"), np.array([2, 1], "float32")],
    ),
    "padded labels": ("F.CTCLoss(x, y)", [SHORT[:3], np.array([[1, 0], [2, 0]], "float32")]),
    "padded labels, last": (
        "F.CTCLoss(x, y, blank_label='last')",
        [SHORT[:3], np.array([[1, -1], [0, 1]], "float32")],
    ),
    "nan in ignored rows": (
        "F.SoftmaxOutput(x, y, use_ignore=True, ignore_label=-1)",
        [[[1.0, 2], [np.nan, np.nan], [3, 1]], [0.0, -1, 1]],
    ),
    "nan in ignored rows of maps": (
        "F.SoftmaxOutput(x, y, use_ignore=True, ignore_label=2, multi_output=True)",
        [[[[1.0, np.nan], [2, np.nan]], [[3, 4], [5, 6]]], [[0.0, 2], [2, 1]]],
    ),
    **{
        f"boxes {options}": (f"F.contrib.box_nms(x, id_index=0, coord_start=2{options})", [BOXES])
        for options in ("", ", background_id=1", ", background_id=-2", ", force_suppress=True", ", topk=2")
    },
}
# Of two inputs, the gradients of labels are not compared: MXNet leaves them as they were.
LABELS = ("mae", "linear", "svm", "nan", "padded", "boxes")


def run(mx, name, hybridize=False):
    """The output of a case, and the gradients of its inputs but for labels."""
    code, inputs = CASES[name]
    arrays = [mx.nd.array(x, dtype=getattr(x, "dtype", "float32")) for x in inputs]
    arrays = [x.astype("float32") if x.dtype == np.float64 and "float64" not in name else x for x in arrays]
    with_gradient = arrays[:1] if name.startswith(LABELS) else arrays
    for x in with_gradient:
        x.attach_grad()

    class Case(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, *others):
            return eval(code, {"F": F, "x": x, **dict(zip("yz", others))})

    block = Case()
    if hybridize:
        block.hybridize()
    with mx.autograd.record():
        out = block(*arrays)
    out.backward()
    return [x.asnumpy() for x in (out, *(x.grad for x in with_gradient))]


def halves(mx):
    """Images of a half of the width and height, of some of which all pixels lie between two levels."""
    made = {}
    for h, w, c in ((12, 22, 3), (28, 30, 1), (40, 50, 3), (4, 6, 3)):
        ramp = np.mgrid[:h, :w][1][..., None] * 5 + 36
        noise = np.random.RandomState(h).randint(0, 256, (h, w, c))
        for kind, image in (("ramp", ramp * np.ones(c)), ("noise", noise)):
            array = mx.nd.array((image % 256).astype("uint8"), dtype="uint8")
            for height, width in ((h // 2, w // 2), (h, w // 2), (h // 2, w), (2 * h, w)):
                key = f"half/{kind} {h} {w} {c} {height} {width}"
                made[key] = mx.image.imresize(array, width, height, interp=2).asnumpy()
    return made
