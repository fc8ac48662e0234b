"""Each metric, updated by batches that ranks share unequally: sync() equals that of one process on all of them."""

import numpy as np

import hybridc as mx
from hybridc.communication import communicator

RANKS = communicator()


def batches():
    rng = np.random.RandomState(5)
    for n in (4, 7, 3, 6, 5):
        scores = rng.uniform(0.05, 1, (n, 2))
        yield rng.randint(0, 2, n), scores / scores.sum(1, keepdims=True)


def regression():
    rng = np.random.RandomState(6)
    for n in (4, 7, 3, 6, 5):
        yield rng.standard_normal((n, 2)), rng.standard_normal((n, 2))


class Own(mx.metric.EvalMetric):
    """A metric of a user, with sums of its own."""

    def reset(self):
        super().reset()
        self.largest = 0.0

    def update(self, labels, preds):
        self.largest = max([self.largest, *[float(p.max().asscalar()) for p in preds]])

    def get(self):
        return self.name, self.largest

    def counters(self):
        return self.largest

    def take(self, counters):
        self.largest = max(counters)


class Unknown(mx.metric.EvalMetric):
    def get(self):
        return self.name, 1.0


def check(make, source):
    part, whole = make(), make()
    for number, (label, pred) in enumerate(source):
        arrays = [mx.nd.array(label)], [mx.nd.array(pred)]
        whole.update(*arrays)
        if number % RANKS.size == RANKS.rank:  # unequally many
            part.update(*arrays)
        if number == 1:
            whole.reset_local()
            part.reset_local()
    before = part.get_name_value(), part.get_global_name_value()
    for _ in range(2):  # the metric itself is not changed
        total = part.sync()
        for got, want in zip(
            total.get_name_value() + total.get_global_name_value(),
            whole.get_name_value() + whole.get_global_name_value(),
            strict=True,
        ):
            assert got[0] == want[0]
            np.testing.assert_allclose(got[1], want[1], rtol=1e-6, err_msg=str(got))
    assert type(total) is type(part)
    np.testing.assert_equal((part.get_name_value(), part.get_global_name_value()), before)
    total.update(*arrays)  # and can be updated further without changing it
    np.testing.assert_equal((part.get_name_value(), part.get_global_name_value()), before)


M = mx.metric
for make in (
    M.Accuracy,
    M.CrossEntropy,
    M.NegativeLogLikelihood,
    M.PCC,
    M.Loss,
    lambda: M.TopKAccuracy(2),
    lambda: M.Perplexity(None),
    lambda: M.F1(average="macro"),
    lambda: M.F1(average="micro"),
    lambda: M.MCC(average="macro"),
    lambda: M.MCC(average="micro"),
    lambda: M.create(["acc", "ce", M.F1(average="micro")]),
    lambda: M.np(lambda label, pred: float((pred.argmax(1) == label).sum())),
    lambda: Own("own"),
):
    check(make, batches())
for make in (M.MAE, M.MSE, M.RMSE, M.PearsonCorrelation, lambda: M.PearsonCorrelation(average="micro")):
    check(make, regression())
try:
    Unknown("unknown").sync()
    text = ""
except NotImplementedError as error:
    text = str(error)
assert "must define counters() and take(counters)" in text
assert np.isnan(M.Accuracy().sync().get()[1])
print(f"[rank {RANKS.rank}] ok\n", end="", flush=True)
