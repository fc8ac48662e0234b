"""DataLoader.state and load_state: a pass goes on where it was, whoever loads it."""

import json
import random

import numpy as np
import pytest

import hybridc as mx
from hybridc.array.plain_data import decode, encode
from hybridc.gluon.data import ArrayDataset, BatchSampler, DataLoader, DistributedSampler
from tests.gluon.test_dataloader import MODES, mode  # noqa: F401 - a fixture

ITEMS, BATCH = 22, 4


class Noisy(ArrayDataset):
    """Items with noise from ``mx.random``."""

    def __getitem__(self, index):
        return super().__getitem__(index) + mx.nd.random.uniform(shape=(1,)).asnumpy()


class Shuffled:
    """A sampler of batches without a state, which draws from Python's generator."""

    def __iter__(self):
        order = list(range(ITEMS))
        random.shuffle(order)
        return iter([order[i : i + BATCH] for i in range(0, ITEMS, BATCH)])

    def __len__(self):
        return -(-ITEMS // BATCH)


SAMPLERS = {
    "in order": lambda: {"batch_size": BATCH},
    "shuffled": lambda: {"batch_size": BATCH, "shuffle": True},
    "rollover": lambda: {"batch_size": BATCH, "shuffle": True, "last_batch": "rollover"},
    "discard": lambda: {"batch_size": BATCH, "shuffle": True, "last_batch": "discard"},
    "distributed": lambda: {"batch_size": BATCH, "sampler": DistributedSampler(ITEMS, 2, 1, seed=4)},
    "distributed rollover": lambda: {
        "batch_size": BATCH,
        "sampler": DistributedSampler(ITEMS, 2, 1, seed=4),
        "last_batch": "rollover",
    },
    "batches": lambda: {"batch_sampler": Shuffled()},
    "distributed batches": lambda: {"batch_sampler": BatchSampler(DistributedSampler(ITEMS, 1, 0), BATCH, "rollover")},
}


def loader(sampler, **options):
    return DataLoader(Noisy(np.arange(float(ITEMS))), **SAMPLERS[sampler](), **options)


def stored(state):
    """The state as it comes out of a file, with those of the generators."""
    arrays = []
    text = json.dumps(encode([state, mx.random.generator_states()], arrays))
    return decode(json.loads(text), arrays)


def batches(loader, count, saves=()):
    """So many batches, over as many passes as they take, and the states after some of them."""
    found, states = [], {}
    if 0 in saves:
        states[0] = stored(loader.state())
    while True:
        for batch in loader:
            found.append(batch.asnumpy().tolist())
            found[-1].append(np.random.rand())  # a program draws, too
            if len(found) in saves:
                states[len(found)] = stored(loader.state())
            if len(found) == count:
                return found, states


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_pass_goes_on(mode, sampler):  # noqa: F811
    mx.random.seed(1)
    np.random.seed(2)
    random.seed(3)
    want, states = batches(loader(sampler, **mode), 14, saves=(0, 1, 3, 5, 6, 11))
    for done, (state, generators) in states.items():
        again = loader(sampler, **mode)
        mx.random.load_generator_states(generators)
        again.load_state(state)
        assert batches(again, 14 - done)[0] == want[done:], done


def test_a_pass_goes_on_whoever_loads():
    mx.random.seed(1)
    np.random.seed(2)
    want, states = batches(loader("shuffled", **MODES["processes"]), 9, saves=(2,))
    state, generators = states[2]
    again = loader("shuffled", **MODES["here"])
    mx.random.load_generator_states(generators)
    again.load_state(state)
    assert batches(again, 7)[0] == want[2:]


def test_loading_a_state_twice_and_into_a_pass():
    first = loader("shuffled")
    want, states = batches(first, 5, saves=(2,))
    state, generators = states[2]
    for _ in range(2):
        mx.random.load_generator_states(generators)
        first.load_state(state)
        assert batches(first, 3)[0] == want[2:]


def test_a_pass_that_was_left_is_not_gone_on_with():
    made = loader("in order")
    for _ in made:
        break
    assert "batches" not in made.state()
    again = loader("in order")
    again.load_state(made.state())
    assert len(list(again)) == len(again)


def test_loaders_that_reload():
    made = loader("shuffled", auto_reload=True, num_workers=1)
    mx.random.seed(1)
    np.random.seed(2)
    want, states = batches(made, 14, saves=(3, 6))
    for done, (state, generators) in states.items():
        again = loader("shuffled", auto_reload=True, num_workers=1)
        mx.random.load_generator_states(generators)
        again.load_state(state)
        assert batches(again, 14 - done)[0] == want[done:]
