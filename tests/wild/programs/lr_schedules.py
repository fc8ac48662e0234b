"""Learning rates over time: schedules, by hand, of the optimizers, with warm-up, and one of one's own."""

import math

import mxnet as mx
from mxnet import autograd, gluon, nd


def plot_schedule(schedule_fn, iterations=12):
    return [round(float(schedule_fn(i)), 6) for i in range(1, iterations + 1)]


print("factor", plot_schedule(mx.lr_scheduler.FactorScheduler(step=4, factor=0.5, base_lr=1)))
print("floor", plot_schedule(mx.lr_scheduler.FactorScheduler(step=2, factor=0.1, base_lr=1, stop_factor_lr=0.01)))
print("multi", plot_schedule(mx.lr_scheduler.MultiFactorScheduler(step=[3, 8, 10], factor=0.1, base_lr=1)))
print("poly", plot_schedule(mx.lr_scheduler.PolyScheduler(max_update=10, base_lr=1, pwr=2)))
print("poly end", plot_schedule(mx.lr_scheduler.PolyScheduler(max_update=8, base_lr=3, pwr=0.5, final_lr=1)))
print("cosine", plot_schedule(mx.lr_scheduler.CosineScheduler(max_update=10, base_lr=3, final_lr=0.1)))
warm = mx.lr_scheduler.CosineScheduler(max_update=12, base_lr=1, warmup_steps=4, warmup_begin_lr=0.2)
print("warm", plot_schedule(warm, 14))
constant = mx.lr_scheduler.FactorScheduler(
    step=100, base_lr=1, warmup_steps=3, warmup_mode="constant", warmup_begin_lr=0.5
)
print("constant", plot_schedule(constant, 6))


class CyclicalSchedule:
    """Triangles, or whatever a schedule gives, again and again."""

    def __init__(self, schedule_class, cycle_length, cycle_length_decay=1, cycle_magnitude_decay=1, **kwargs):
        self.schedule_class = schedule_class
        self.length = cycle_length
        self.length_decay = cycle_length_decay
        self.magnitude_decay = cycle_magnitude_decay
        self.kwargs = kwargs

    def __call__(self, iteration):
        cycle_idx, cycle_length, idx = 0, self.length, self.length
        while idx <= iteration:
            cycle_length = math.ceil(cycle_length * self.length_decay)
            cycle_idx += 1
            idx += cycle_length
        cycle_offset = iteration - idx + cycle_length
        schedule = self.schedule_class(max_update=cycle_length, **self.kwargs)
        return schedule(cycle_offset) * self.magnitude_decay**cycle_idx


print("cycles", plot_schedule(CyclicalSchedule(mx.lr_scheduler.PolyScheduler, 4, 1.5, 0.8, base_lr=1), 14))


def train(optimizer, options, by_hand=None):
    weight = gluon.Parameter("weight", shape=(2,))
    weight.initialize(mx.init.One())
    trainer = gluon.Trainer([weight], optimizer, options)
    rates = []
    for i in range(8):
        if by_hand is not None and i in by_hand:
            trainer.set_learning_rate(trainer.learning_rate * by_hand[i])
        with autograd.record():
            loss = ((weight.data() - nd.array([0.2, -0.4])) ** 2).sum()
        loss.backward()
        trainer.step(1)
        rates.append(round(float(trainer.learning_rate), 6))
    print(optimizer, rates, weight.data().asnumpy().round(5).tolist())


schedule = mx.lr_scheduler.FactorScheduler(step=3, factor=0.5, base_lr=0.2)
train("sgd", {"learning_rate": 0.2, "lr_scheduler": schedule, "momentum": 0.9})
train(
    "adam",
    {"learning_rate": 0.1, "lr_scheduler": mx.lr_scheduler.CosineScheduler(max_update=6, base_lr=0.1, warmup_steps=2)},
)
train("sgd", {"learning_rate": 0.1, "wd": 0.01}, by_hand={3: 0.1, 6: 0.5})
train("nag", {"learning_rate": 0.1, "momentum": 0.9, "lr_scheduler": mx.lr_scheduler.PolyScheduler(6, base_lr=0.1)})
try:
    mx.optimizer.SGD(lr_scheduler=mx.lr_scheduler.FactorScheduler(5)).set_learning_rate(0.3)
except UserWarning as error:
    print("refused", type(error).__name__)
