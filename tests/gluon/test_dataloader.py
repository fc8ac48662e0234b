"""DataLoader: the same batches in every mode; errors, deaths and endings of workers."""

import collections
import gc
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing.pool import ThreadPool
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon.data import ArrayDataset, DataLoader, Dataset, SimpleDataset, batchify
from hybridc.gluon.data.dataloader import _MultiWorkerIter
from tests.slices import crossed

MODES = {
    "here": {},
    "processes": {"num_workers": 2},
    "one process": {"num_workers": 1, "prefetch": 0},
    "threads": {"num_workers": 2, "thread_pool": True},
}


@pytest.fixture(params=MODES)
def mode(request):
    return MODES[request.param]


def values(batch):
    if isinstance(batch, (list, tuple)):
        return [values(b) for b in batch]
    return batch.asnumpy().tolist()


def test_batches_and_epochs(mode):
    x, y = np.arange(20.0, dtype="float32").reshape(10, 2), np.arange(10)
    loader = DataLoader(ArrayDataset(x, y), batch_size=4, **mode)
    assert len(loader) == 3
    for _ in range(3):
        batches = list(loader)
        assert [b[0].shape for b in batches] == [(4, 2), (4, 2), (2, 2)]
        np.testing.assert_array_equal(np.concatenate([b[0].asnumpy() for b in batches]), x)
        np.testing.assert_array_equal(np.concatenate([b[1].asnumpy() for b in batches]), y)
        assert batches[0][0].dtype == np.float32
        assert batches[0][1].dtype == np.int64


def test_batches_belong_to_the_caller(mode):
    x = np.zeros((4, 2), "float32")
    for batch in DataLoader(ArrayDataset(x), batch_size=2, **mode):
        batch += 1
        assert batch.asnumpy().tolist() == [[1, 1], [1, 1]]
    assert not x.any()


def test_rollover_across_epochs(mode):
    loader = DataLoader(SimpleDataset(list(range(5))), batch_size=2, last_batch="rollover", **mode)
    assert [values(b) for b in loader] == [[0, 1], [2, 3]]
    assert len(loader) == 3
    assert [values(b) for b in loader] == [[4, 0], [1, 2], [3, 4]]


def test_shuffle_takes_every_sample_once(mode):
    np.random.seed(3)
    loader = DataLoader(SimpleDataset(list(range(50))), batch_size=8, shuffle=True, **mode)
    first, second = ([i for b in loader for i in values(b)] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second


def test_samplers_and_batch_samplers(mode):
    ten = SimpleDataset(list(range(10)))
    assert [values(b) for b in DataLoader(ten, 2, sampler=[3, 1, 4], **mode)] == [[3, 1], [4]]
    assert [values(b) for b in DataLoader(ten, batch_sampler=[[9], [8, 7]], **mode)] == [[9], [8, 7]]


Pair = collections.namedtuple("Pair", "a b")


def test_structures_arrive_as_they_are(mode):
    def collate(samples):
        return {
            "pair": Pair(mx.nd.array(samples), np.array(samples)),
            "list": [mx.nd.zeros((0, 3)), (1, "text", None)],
            "half": mx.nd.array(samples, dtype="float16").reshape((1, -1)),
            "scalar": np.float32(samples[0]),
        }

    (batch,) = DataLoader(SimpleDataset([1, 2]), 2, batchify_fn=collate, **mode)
    assert type(batch["pair"]) is Pair
    assert isinstance(batch["pair"].a, mx.nd.NDArray)
    assert isinstance(batch["pair"].b, np.ndarray)
    assert batch["pair"].a.asnumpy().tolist() == batch["pair"].b.tolist() == [1, 2]
    assert batch["list"][0].shape == (0, 3)
    assert batch["list"][1] == (1, "text", None)
    assert batch["half"].dtype == np.float16
    assert batch["half"].shape == (1, 2)
    assert batch["scalar"] == 1


def test_lambdas_and_closures_work(mode):
    scale = 3
    ds = ArrayDataset(list(range(6)), list("abcdef")).transform_first(lambda x: x * scale)
    loader = DataLoader(ds, 3, batchify_fn=batchify.Group(batchify.Stack(), batchify.AsList()), **mode)
    assert [(values(x), names) for x, names in loader] == [
        ([0, 3, 6], ["a", "b", "c"]),
        ([9, 12, 15], ["d", "e", "f"]),
    ]


def test_random_transforms_do_not_depend_on_the_workers():
    ds = SimpleDataset(list(range(12))).transform(lambda _: mx.random_number())

    def epochs(mode):
        mx.random.seed(8)
        loader = DataLoader(ds, 3, **mode)
        return [[values(b) for b in loader] for _ in range(2)]

    def number():
        key = mx.random.next_key()
        return float(mx.random.generator(key).random())

    mx.random_number = number
    try:
        results = [epochs(mode) for mode in MODES.values()]
    finally:
        del mx.random_number
    assert all(r == results[0] for r in results)
    flat = [x for epoch in results[0] for batch in epoch for x in batch]
    assert len(set(flat)) == len(flat)


def test_workers_do_not_draw_alike_from_numpy_and_python():
    ds = SimpleDataset(list(range(8))).transform(lambda _: (np.random.rand(), random.random()))
    made = [values(b) for b in DataLoader(ds, 1, num_workers=2)]
    assert len({b[0][0] for b in made}) == len({b[1][0] for b in made}) == 8


class Faulty(Dataset):
    def __init__(self, error=None):
        self.error = error or ValueError("item 5 is bad")

    def __len__(self):
        return 8

    def __getitem__(self, idx):
        if idx == 5:
            raise self.error
        return idx


def test_an_error_arrives_and_the_rest_goes_on(mode):
    loader = DataLoader(Faulty(), 2, **mode)
    for _ in range(2):
        it = iter(loader)
        assert [values(next(it)) for _ in range(2)] == [[0, 1], [2, 3]]
        with pytest.raises(ValueError, match="item 5 is bad"):
            next(it)
        assert values(next(it)) == [6, 7]
        with pytest.raises(StopIteration):
            next(it)


def test_the_workers_traceback_is_shown():
    with pytest.raises(ValueError, match="item 5") as info:
        list(DataLoader(Faulty(), 2, num_workers=1))
    assert "in __getitem__" in str(info.value.__cause__)
    assert "raise self.error" in str(info.value.__cause__)


class Picky(Exception):
    def __init__(self, code, detail):
        super().__init__(f"{code}: {detail}")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Picky(3, "x"), mx.MXNetError, "Picky: 3: x"),
        (KeyError("k"), KeyError, "k"),
        (StopIteration(), RuntimeError, "StopIteration"),
    ],
)
def test_awkward_errors_arrive_from_workers(error, kind, text):
    it = iter(DataLoader(Faulty(error), 2, num_workers=1))
    assert [values(next(it)) for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(kind, match=text):
        next(it)


def test_stop_iteration_does_not_end_the_loop_silently():
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Faulty(StopIteration()), 2))


def test_what_cannot_be_pickled_is_reported():
    loader = DataLoader(SimpleDataset([1, 2]), 1, batchify_fn=lambda s: lambda: s, num_workers=1)
    with pytest.raises(mx.MXNetError, match="cannot be pickled"):
        next(iter(loader))


class Deadly(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, idx):
        if idx == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return idx


def test_a_killed_worker_is_reported_and_replaced():
    order = [[2, 3]]
    loader = DataLoader(Deadly(), batch_sampler=order, num_workers=1)
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match=r"worker 0 died \(signal SIGKILL\).*samples \[2, 3\]"):
            list(loader)
    order[:] = [[0, 1], [4]]
    assert [values(b) for b in loader] == [[0, 1], [4]]


@pytest.fixture
def fork_that_lives():
    """What starts a process that has all that this one has open, as one that another thread forks would."""
    made = []

    def start():
        made.append(os.fork())
        if made[-1] == 0:
            while True:
                time.sleep(60)

    yield start
    for process in made:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_killed_worker_whose_pipe_another_process_has(monkeypatch, fork_that_lives):
    """No end of the pipe tells of it then."""
    from hybridc.gluon.data import workers

    start = multiprocessing.process.BaseProcess.start

    def started(process):
        start(process)
        fork_that_lives()

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", started)
    loader = DataLoader(Deadly(), batch_sampler=[[2, 3]], num_workers=1, timeout=60)
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", start)
    monkeypatch.setattr(workers, "_LOOK", 0.05)
    with pytest.raises(mx.MXNetError, match=r"worker 0 died \(signal SIGKILL\).*samples \[2, 3\]"):
        list(loader)


class Halves(Dataset):
    """Its second sample is half sent when the worker stops, or is killed, from outside."""

    def __len__(self):
        return 2

    def __getitem__(self, idx):
        return np.full(1 << 22, idx, np.uint8)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_half_a_message(monkeypatch, tmp_path, number):
    """A worker that ends, or stops, while it writes an array. The one that replaces it does not."""
    from hybridc.gluon.data import workers

    monkeypatch.setattr(workers, "_PATIENCE", 1.0)
    monkeypatch.setattr(workers, "_LOOK", 0.05)
    write = workers._write

    def write_half(fd, data):
        if len(data) == 1 << 22 and not (tmp_path / "half").exists():
            write(fd, data[: 1 << 21])
            (tmp_path / "half").touch()
            os.kill(os.getpid(), number)  # by itself: a signal from another process may come when all is sent
            time.sleep(600)  # until it has ended or stopped, which may take a moment
        else:
            write(fd, data)

    monkeypatch.setattr(workers, "_write", write_half)
    loader = DataLoader(Halves(), 1, num_workers=1, timeout=60)
    if number == signal.SIGKILL:
        error, message = mx.MXNetError, r"worker 0 died \(signal SIGKILL\)"
    else:
        error, message = TimeoutError, "within 5 seconds"
        monkeypatch.setattr(loader._pool, "_timeout", 5)
    with pytest.raises(error, match=message):
        list(loader)
    assert (tmp_path / "half").exists()
    monkeypatch.setattr(loader._pool, "_timeout", 60)  # another worker has time to start, however busy the machine is
    assert [int(batch[0, -1].asscalar()) for batch in loader] == [0, 1]


class Collecting:
    """Sent as 7; the thread of a worker that sends it collects garbage."""

    def __reduce__(self):
        gc.collect()
        return int, (7,)


class DeadlyOrCollecting(Deadly):
    def __getitem__(self, idx):
        super().__getitem__(idx)
        return Collecting()


def test_garbage_of_the_loader_in_the_thread_of_a_worker():
    """A worker that is started while its pool is locked has iterators of this process, which nobody uses, in memory."""
    order = [[0], [1]]
    loader = DataLoader(
        DeadlyOrCollecting(), batch_sampler=order, batchify_fn=lambda x: x, num_workers=1, prefetch=2, timeout=20
    )
    gc.collect()
    gc.disable()
    try:
        cycle = [iter(loader)]
        next(cycle[0])
        cycle.append(cycle)
        del cycle
        order[:] = [[3]]
        with pytest.raises(mx.MXNetError, match="died"):
            list(loader)
        order[:] = [[0], [1]]
        assert list(loader) == [[7], [7]]
    finally:
        gc.enable()


def test_an_interrupt_amid_a_message_leaves_the_loader_usable(monkeypatch):
    from hybridc.gluon.data import workers

    x = np.arange(8.0).reshape(4, 2)
    loader = DataLoader(SimpleDataset(list(x)), 1, num_workers=1)
    assert [values(b) for b in loader] == x.reshape(4, 1, 2).tolist()

    def interrupted(incoming, _place):
        os.read(incoming._pipe, 3)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(workers._Incoming, "_some", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(iter(loader))
    assert [values(b) for b in loader] == x.reshape(4, 1, 2).tolist()


class Slow(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, idx):
        if idx == 0:
            time.sleep(30)
        return idx


def test_a_timeout_says_what_to_do():
    with pytest.raises(TimeoutError, match=r"within 0\.2 seconds.*larger timeout"):
        next(iter(DataLoader(Slow(), 1, num_workers=1, timeout=0.2)))


def test_two_iterators_at_once(mode):
    loader = DataLoader(SimpleDataset(list(range(6))), 2, **mode)
    pairs = [(values(a), values(b)) for a, b in zip(loader, loader)]
    assert pairs == [([0, 1],) * 2, ([2, 3],) * 2, ([4, 5],) * 2]


def test_an_abandoned_pass_leaves_the_loader_usable(mode):
    loader = DataLoader(SimpleDataset(list(range(40))), 2, **mode)
    for _ in range(5):
        assert values(next(iter(loader))) == [0, 1]
    assert [i for b in loader for i in values(b)] == list(range(40))


def test_large_batches_do_not_block():
    x = np.arange(6 * 300_000, dtype="float64").reshape(6, -1)
    loader = DataLoader(SimpleDataset(list(x)), 1, num_workers=2, prefetch=6)
    time.sleep(0.05)
    np.testing.assert_array_equal(np.concatenate([b.asnumpy() for b in loader]), x)


def test_large_index_lists_do_not_block():
    n = 200_000
    loader = DataLoader(SimpleDataset(range(n)), n // 4, num_workers=1, prefetch=4)
    assert sum(int(b.asnumpy().sum()) for b in loader) == n * (n - 1) // 2


def test_forking_beside_busy_threads():
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            x = mx.nd.ones((200, 200))
            mx.random.next_key()
            (x * 2 + 1).sum()

    threads = [threading.Thread(target=spin) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        ds = SimpleDataset(list(range(8))).transform(lambda i: (np.ones((100, 100)) @ np.ones((100, 100)))[0, 0] + i)
        loader = DataLoader(ds, 2, num_workers=2, timeout=60)
        assert [values(b) for b in loader] == [[100, 101], [102, 103], [104, 105], [106, 107]]
    finally:
        stop.set()
        for t in threads:
            t.join()


def processes():
    import multiprocessing

    return [p for p in multiprocessing.active_children() if p.name.startswith("DataLoader")]


def test_dropping_the_loader_ends_its_workers():
    before = len(processes())
    loader = DataLoader(SimpleDataset([1, 2, 3]), 1, num_workers=2)
    next(iter(loader))
    assert len(processes()) == before + 2
    del loader
    assert len(processes()) == before


def is_running(pid):
    try:
        return "State:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("kwargs", "end"),
    crossed(
        2,
        ["num_workers=2", "num_workers=2, thread_pool=True"],
        ["pass", "raise SystemExit(0)", "import os, signal; os.kill(os.getpid(), 9)"],
    ),
)
def test_the_interpreter_ends_amid_an_iteration(kwargs, end):
    code = f"""
        import os, time
        from hybridc.gluon.data import DataLoader, SimpleDataset

        def load(i):
            print(os.getpid(), flush=True)
            time.sleep(0.01 if i == 0 else 0.3)
            return i

        loader = DataLoader(SimpleDataset(list(range(100))).transform(load), 1, {kwargs})
        it = iter(loader)
        next(it)
        {end}
    """
    started = time.monotonic()
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert out.returncode == (-9 if "kill" in end else 0)
    assert out.stderr == ""
    assert time.monotonic() - started < 30
    time.sleep(0.5)
    for pid in set(map(int, out.stdout.split())):
        assert not is_running(pid)


ERRORS = [
    ({}, "batch_size must be specified"),
    ({"batch_size": 2, "shuffle": True, "sampler": [0]}, "shuffle must not be specified"),
    ({"batch_size": 2, "batch_sampler": [[0]]}, "must not be specified if batch_sampler"),
    ({"last_batch": "keep", "batch_sampler": [[0]]}, "must not be specified if batch_sampler"),
    ({"batch_size": 2, "last_batch": "drop"}, "'keep', 'discard', or 'rollover'"),
    ({"batch_size": 2, "timeout": 0}, "timeout must be positive"),
]


@pytest.mark.parametrize(("kwargs", "text"), ERRORS)
def test_bad_arguments(kwargs, text):
    with pytest.raises(ValueError, match=text):
        DataLoader(SimpleDataset([1, 2]), **kwargs)


def test_arguments_without_effect_are_taken():
    loader = DataLoader([1, 2], 1, pin_memory=True, pin_device_id=1, auto_reload=True, num_workers=-1)
    assert [values(b) for b in loader] == [[1], [2]]


def test_the_short_cut_for_arrays_gives_the_same():
    x = mx.nd.array(np.arange(24).reshape(6, 2, 2))
    y = mx.nd.array(np.arange(6))
    z = np.arange(6) % 2 == 0
    fast = DataLoader(ArrayDataset(x, y, z), 4)
    slow = DataLoader(ArrayDataset(x, y, z), 4, batchify_fn=lambda s: batchify.default_batchify_fn(s))
    for a, b in zip(fast, slow):
        assert [p.dtype for p in a] == [p.dtype for p in b]
        assert values(a) == values(b)


def test_the_short_cut_is_not_taken_by_subclasses_and_lists():
    class Twice(ArrayDataset):
        def __getitem__(self, idx):
            return super().__getitem__(idx) * 2

    assert [values(b) for b in DataLoader(Twice(np.arange(3)), 3)] == [[0, 2, 4]]
    (batch,) = DataLoader(ArrayDataset(np.arange(2), [5, 6]), 2)
    assert values(batch) == [[0, 1], [5, 6]]


class Transformed(_MultiWorkerIter):
    """Derived as GluonCV derives its iterator: another function is applied to the samples of every other batch."""

    def __init__(self, functions, *args, prefetch=0, **kwargs):
        super().__init__(*args, **kwargs)
        self._functions = functions
        for _ in range(prefetch):
            self._push_next()

    def _push_next(self):
        indices = next(self._iter, None)
        if indices is None:
            return
        given = (indices, self._functions[self._sent_idx % 2], self._batchify_fn)
        self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(self._worker_fn, given)
        self._sent_idx += 1


class DerivedLoader(DataLoader):
    """Its pool of processes is its own, as GluonCV's is."""

    def __init__(self, functions, dataset, *args, workers, **kwargs):
        super().__init__(dataset, *args, num_workers=0, **kwargs)
        self._functions = functions
        self._num_workers = workers
        self._pool_of_processes = multiprocessing.get_context("fork").Pool(workers, set_samples, [self._dataset])

    def __iter__(self):
        pool, batchify_fn = self._pool_of_processes, self._batchify_fn
        return Transformed(
            self._functions,
            pool,
            batchify_fn,
            self._batch_sampler,
            pin_memory=self._pin_memory,
            pin_device_id=self._pin_device_id,
            worker_fn=load_pickled,
            prefetch=2,
        )


SAMPLES = []


def set_samples(samples):
    SAMPLES[:] = [samples]


def load_pickled(indices, function, batchify_fn):
    samples = SAMPLES[0].transform(function)
    return bytes(ForkingPickler.dumps(batchify_fn([samples[i] for i in indices])))


def double(x):
    return 2 * x


def negate(x):
    return -x


def test_loaders_derived_from_the_multi_worker_iterator():
    data = SimpleDataset([mx.nd.array([i], ctx=mx.Context("cpu_shared", 0)) for i in range(5)])
    loader = DerivedLoader([double, negate], data, 2, workers=2)
    for _ in range(2):
        batches = iter(loader)
        assert len(batches) == 3
        assert [values(b) for b in batches] == [[[0], [2]], [[-2], [-3]], [[8]]]
    loader._pool_of_processes.terminate()


def test_the_multi_worker_iterator_itself_and_its_errors():
    with ThreadPool(2) as pool:

        def load(indices, batchify_fn, data):
            return batchify_fn([data[i] for i in indices])

        given = (pool, batchify.Stack(), [[0, 2], [1], [7]])
        batches = _MultiWorkerIter(*given, worker_fn=load, prefetch=1, dataset=[3, 4, 5])
        assert [values(next(batches)) for _ in range(2)] == [[3, 5], [4]]
        with pytest.raises(IndexError):
            next(batches)
