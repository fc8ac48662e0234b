"""Iterators of ``mx.io``, ``mx.image`` and ``mx.rnn``: ``load_state`` goes on where ``state`` was taken."""

import json

import numpy as np
import pytest

import hybridc as mx
from hybridc import gluon, nd
from hybridc.array.plain_data import decode, encode
from hybridc.errors import MXNetError, UnsupportedError
from tests.golden.image_cases import noise

ITEMS, BATCH = 22, 4


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """The arguments that name a record file of images, whose labels are their numbers."""
    folder = tmp_path_factory.mktemp("records")
    index, file = str(folder / "a.idx"), str(folder / "a.rec")
    writer = mx.recordio.MXIndexedRecordIO(index, file, "w")
    for i in range(ITEMS):
        writer.write_idx(i, mx.recordio.pack_img((0, float(i), i, 0), noise(9, 11, seed=i), 3, ".png"))
    writer.close()
    return {"path_imgrec": file, "path_imgidx": index, "data_shape": (3, 5, 6), "batch_size": BATCH}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "table.csv"
    np.savetxt(path, np.arange(ITEMS * 3).reshape(ITEMS, 3), delimiter=",")
    return {"data_csv": str(path), "data_shape": (3,), "batch_size": BATCH}


def arrays(**options):
    return mx.io.NDArrayIter(np.arange(ITEMS * 2.0).reshape(ITEMS, 2), np.arange(ITEMS), BATCH, **options)


def loaded():
    data = gluon.data.ArrayDataset(np.arange(ITEMS * 2.0).reshape(ITEMS, 2), np.arange(ITEMS))
    return mx.contrib.io.DataLoaderIter(gluon.data.DataLoader(data, BATCH, shuffle=True))


SENTENCES = [[1 + i % 7] * (3 + i % 5) for i in range(60)]
RANDOM = {"rand_crop": True, "rand_mirror": True}
ITERATORS = {
    "arrays": lambda records, table: arrays(),
    "arrays shuffled": lambda records, table: arrays(shuffle=True),
    "arrays rolled over": lambda records, table: arrays(shuffle=True, last_batch_handle="roll_over"),
    "table": lambda records, table: mx.io.CSVIter(**table),
    "table without the rest": lambda records, table: mx.io.CSVIter(**table, round_batch=False),
    "resized": lambda records, table: mx.io.ResizeIter(arrays(shuffle=True), 9),
    "prefetched": lambda records, table: mx.io.PrefetchingIter(arrays()),
    "prefetched records": lambda records, table: mx.io.PrefetchingIter(mx.io.ImageRecordIter(**records, **RANDOM)),
    "records": lambda records, table: mx.io.ImageRecordIter(**records),
    "records shuffled": lambda records, table: mx.io.ImageRecordIter(**records, **RANDOM, shuffle=True, seed=3),
    "records padded": lambda records, table: mx.io.ImageRecordIter(**records, round_batch=False),
    "images": lambda records, table: mx.image.ImageIter(**records, **RANDOM, shuffle=True),
    "images rolled over": lambda records, table: mx.image.ImageIter(**records, last_batch_handle="roll_over"),
    "images in order": lambda records, table: mx.image.ImageIter(**{**records, "path_imgidx": None}),
    "sentences": lambda records, table: mx.rnn.BucketSentenceIter(SENTENCES, BATCH, [4, 7]),
    "loader": lambda records, table: loaded(),
}


def stored(iterator):
    """The state of an iterator and of the generators, as it comes out of a file."""
    kept = []
    text = json.dumps(encode([iterator.state(), mx.random.generator_states()], kept))
    return decode(json.loads(text), kept)


def rest(iterator, epochs):
    """What an iterator gives from here to the end of some epochs."""
    found = []
    for _ in range(epochs):
        for batch in iterator:
            found.append((batch.data[0].asnumpy(), batch.label[0].asnumpy(), batch.pad))
        found.append((iterator.batch_size,) * 3)
        iterator.reset()
    return found


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 8])
@pytest.mark.parametrize("name", ITERATORS)
def test_an_iterator_goes_on(name, count, records, table):
    iterator = ITERATORS[name](records, table)
    for _ in range(count):
        try:
            iterator.next()
        except StopIteration:
            iterator.reset()
    state, generators = stored(iterator)
    wanted = rest(iterator, 3)
    other = ITERATORS[name](records, table)
    other.next()  # it may have begun
    mx.random.load_generator_states(generators)
    other.load_state(state)
    got = rest(other, 3)
    assert len(got) == len(wanted)
    for one, another in zip(got, wanted, strict=True):
        for x, y in zip(one, another, strict=True):
            np.testing.assert_array_equal(x, y)


def test_the_state_stays_what_it_was():
    iterator = arrays(shuffle=True)
    iterator.next()
    state = iterator.state()
    before, after = [], []
    text = json.dumps(encode(state, before))  # which copies arrays
    rest(iterator, 2)
    assert json.dumps(encode(state, after)) == text
    for x, y in zip(after, before, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_checkpoint_has_it(tmp_path):
    iterator = arrays(shuffle=True)
    net = gluon.nn.Dense(1, in_units=2)
    net.initialize()
    with mx.distributed.Checkpoint(tmp_path / "run", net=net, data=iterator) as checkpoint:
        iterator.next()
        checkpoint.save()
    wanted = rest(iterator, 2)
    other = arrays(shuffle=True)
    mx.distributed.Checkpoint(tmp_path / "run", net=net, data=other).restore()
    for one, another in zip(rest(other, 2), wanted, strict=True):
        for x, y in zip(one, another, strict=True):
            np.testing.assert_array_equal(x, y)


class Own(mx.io.DataIter):
    """A user's iterator."""

    def __init__(self):
        super().__init__(1)
        self.provide_data, self.provide_label = [("data", (1, 1))], []
        self.at = 0

    def next(self):
        if self.at == 3:
            raise StopIteration
        self.at += 1
        return mx.io.DataBatch([nd.array([[self.at]])], [], 0)

    def reset(self):
        self.at = 0


class Positioned(Own):
    POSITION = ("at",)


def test_iterators_of_users():
    for iterator in (Own(), mx.io.PrefetchingIter(Own())):
        assert len(list(iterator)) == 3
        with pytest.raises(UnsupportedError, match=r"Own does not say where it is: define state\(\) and load_state"):
            iterator.state()
    iterator = Positioned()
    iterator.next()
    state = iterator.state()
    assert state == {"at": 1}
    other = Positioned()
    other.load_state(state)
    assert [batch.data[0].asscalar() for batch in other] == [2, 3]


def test_states_of_others(records, table):
    with pytest.raises(MXNetError, match="the state is of another iterator"):
        mx.io.CSVIter(**table).load_state(arrays().state())
    part = mx.io.ImageRecordIter(**records, num_parts=2, part_index=1)
    with pytest.raises(MXNetError, match="the state is of other records"):
        part.load_state(mx.io.ImageRecordIter(**records).state())
