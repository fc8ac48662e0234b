"""Makes frontend.npz: what MXNet 1.9.1 gives for optimizers, schedules, initializers, metrics, data loading.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_frontend.py

Every entry is one array. The cases are named in ``frontend_cases.py``, which the tests import too.
"""

import pathlib
import sys

import mxnet as mx  # noqa: TID251
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import frontend_cases as cases

OUT = {}


def optimizers():
    for name, (kind, options, setup) in cases.OPTIMIZERS.items():
        options = dict(options)
        if "lr_scheduler" in options:
            klass, args = options.pop("lr_scheduler")
            options["lr_scheduler"] = getattr(mx.lr_scheduler, klass)(**args)
        OUT[f"optimizer/{name}"] = cases.trajectory(mx, kind, options, setup)
    # AdamW is an operator only: with corrected moments its factors are those of Adam.
    for name, (options, correct) in cases.ADAMW.items():
        weight, grads = cases.problem("float32")
        w = mx.nd.array(weight)
        mean, var = mx.nd.zeros(w.shape), mx.nd.zeros(w.shape)
        lr, wd, eps = options["learning_rate"], options.get("wd", 0.0), options.get("epsilon", 1e-6)
        clip = options.get("clip_gradient", -1.0)
        steps = []
        for t, grad in enumerate(grads, 1):
            first, second = (1 - 0.9**t, 1 - 0.999**t) if correct else (1.0, 1.0)
            mx.nd.contrib.adamw_update(
                w, mx.nd.array(grad), mean, var, mx.nd.array([options.get("rescale_grad", 1.0)]), out=w,
                lr=second**0.5 / first, eta=lr, beta1=0.9, beta2=0.999, epsilon=eps * second**0.5, wd=wd,
                clip_gradient=clip,
            )  # fmt: skip
            steps.append(w.asnumpy())
        OUT[f"optimizer/{name}"] = np.stack(steps)
    opt = mx.optimizer.SGD(param_idx2name={0: "a_weight", 1: "a_bias", 2: "a_gamma", 3: "a_beta"}, wd=0.5)
    opt.set_lr_mult({"a_bias": 2.0, 3: 4.0})
    OUT["optimizer/multipliers"] = np.array([opt._get_lrs(range(5)), opt._get_wds(range(5))])


def schedules():
    for name, (klass, options) in cases.SCHEDULES.items():
        schedule = getattr(mx.lr_scheduler, klass)(**options)
        OUT[f"schedule/{name}"] = np.array([schedule(i) for i in range(40)], dtype=np.float64)


def initializers():
    for name, (make, parameter, shape) in cases.INITIALIZERS.items():
        arr = mx.nd.full(shape, 7)
        make(mx)(mx.init.InitDesc(parameter), arr)
        OUT[f"init/{name}"] = arr.asnumpy()
    for name, (make, parameter, shape) in cases.PLAIN_NAMES.items():
        arr = mx.nd.full(shape, 7)
        make(mx)(parameter, arr)
        OUT[f"init/{name}"] = arr.asnumpy()
    for name, (make, text) in cases.DUMPS.items():
        assert make(mx).dumps() == text, (name, make(mx).dumps())


def metrics():
    for name, (make, batches) in cases.METRICS.items():
        metric = make(mx)
        values = []
        for labels, preds in batches:
            metric.update([mx.nd.array(x) for x in labels], [mx.nd.array(x) for x in preds])
            value = metric.get()[1]
            values.append(value if isinstance(value, list) else [value])
        OUT[f"metric/{name}"] = np.array(values, dtype=np.float64)


def data():
    data = mx.gluon.data
    for last_batch in ("keep", "discard", "rollover"):
        sampler = data.BatchSampler(data.SequentialSampler(10), 3, last_batch)
        for epoch in range(3):
            batches = list(sampler)
            OUT[f"data/{last_batch}/{epoch}/flat"] = np.array([i for b in batches for i in b])
            OUT[f"data/{last_batch}/{epoch}/sizes"] = np.array([len(b) for b in batches])
            OUT[f"data/{last_batch}/{epoch}/len"] = np.array(len(sampler))
    np.random.seed(7)
    OUT["data/shuffle"] = np.array(list(data.RandomSampler(20)))
    for name, items in cases.BATCHES.items():
        made = data.dataloader.default_batchify_fn(items(mx))
        for i, part in enumerate(made if isinstance(made, list) else [made]):
            OUT[f"batchify/{name}/{i}"] = part.asnumpy()
    ten = data.SimpleDataset(list(range(10)))
    for parts in (1, 3, 4):
        shards = [list(ten.shard(parts, i)) for i in range(parts)]
        OUT[f"data/shard{parts}/flat"] = np.array([x for s in shards for x in s])
        OUT[f"data/shard{parts}/sizes"] = np.array([len(s) for s in shards])
    OUT["data/filter"] = np.array(list(ten.filter(lambda x: x % 3 == 1)))
    OUT["data/take"] = np.array(list(ten.take(4)))
    OUT["data/filter_sampler"] = np.array(list(data.FilterSampler(lambda x: x > 6, ten)))
    t = data.vision.transforms
    image = cases.image()
    OUT["transform/to_tensor"] = t.ToTensor()(mx.nd.array(image, dtype="uint8")).asnumpy()
    OUT["transform/to_tensor_batch"] = t.ToTensor()(mx.nd.array(image[None], dtype="uint8")).asnumpy()
    tensor = mx.nd.array(image.transpose(2, 0, 1) / 255.0)
    OUT["transform/normalize"] = t.Normalize((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))(tensor).asnumpy()
    OUT["transform/normalize_one"] = t.Normalize(0.4, 0.25)(tensor).asnumpy()
    OUT["transform/crop"] = t.CenterCrop((6, 4))(mx.nd.array(image, dtype="uint8")).asnumpy()
    OUT["transform/crop_small"] = t.CenterCrop(16)(mx.nd.array(image, dtype="uint8")).asnumpy()
    for name, size, keep in (("up", (20, 15), False), ("down", (5, 4), False), ("keep", 6, True)):
        resize = t.Resize(size, keep_ratio=keep)
        OUT[f"transform/resize_{name}"] = resize(mx.nd.array(image, dtype="uint8")).asnumpy()


for part in (optimizers, schedules, initializers, metrics, data):
    part()
np.savez_compressed(pathlib.Path(__file__).with_name("frontend.npz"), **OUT)
print(f"{len(OUT)} arrays")
