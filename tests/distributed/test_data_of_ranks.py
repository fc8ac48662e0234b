"""What ranks read, draw and measure: samplers, sharded files, loaders, random numbers, metrics."""

import itertools
import json
import time

import pytest

import hybridc as mx
from hybridc.communication.data_parts import adjacent_part
from hybridc.gluon.data import ArrayDataset, DataLoader, DistributedSampler
from tests.distributed import ranks


def parts(length, count, **options):
    return [DistributedSampler(length, count, i, **options) for i in range(count)]


# --- samplers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", ["pad", "discard", "keep"])
@pytest.mark.parametrize(("length", "count"), [(10, 1), (10, 2), (10, 3), (11, 4), (4, 4), (3, 7)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_parts_of_an_epoch(length, count, tail, shuffle):
    if tail == "discard" and length < count:
        with pytest.raises(
            mx.MXNetError, match="3 items make no part for each of 7 ranks; use fewer ranks, or tail='pad'"
        ):
            parts(length, count, tail=tail)
        return
    given = [list(s) for s in parts(length, count, tail=tail, shuffle=shuffle)]
    assert [len(g) for g in given] == [len(s) for s in parts(length, count, tail=tail, shuffle=shuffle)]
    order = [i for row in itertools.zip_longest(*given) for i in row if i is not None]  # as the ranks take turns
    [whole] = (list(s) for s in parts(length, 1, shuffle=shuffle))
    assert sorted(whole) == [*range(length)]
    if tail == "keep":
        assert order == whole
        return
    assert len({len(g) for g in given}) == 1
    size = len(given[0]) * count
    assert size == (-(-length // count) if tail == "pad" else length // count) * count
    assert order == [*itertools.islice(itertools.cycle(whole), size)]


def test_epochs_follow_from_the_seed():
    [one], [again], [other] = parts(20, 1, seed=4), parts(20, 1, seed=4), parts(20, 1, seed=5)
    epochs = [list(one) for _ in range(3)]
    assert len({tuple(e) for e in epochs}) == 3
    assert one.epoch == 3
    assert list(again) == epochs[0]
    assert list(other) != epochs[0]
    again.set_epoch(2)
    assert list(again) == epochs[2]
    again.set_epoch(1)
    assert list(again) == epochs[1]


def test_an_iteration_that_is_broken_off_ends_its_epoch():
    [sampler] = parts(6, 1)
    first = list(itertools.islice(sampler, 2))
    assert sampler.epoch == 0
    assert list(sampler) == sampler.order(1)
    assert sampler.epoch == 2
    assert first == sampler.order(0)[:2]


@pytest.mark.parametrize("at", [0, 1, 4, 5])
def test_state_goes_on_where_it_was(at):
    [sampler] = parts(10, 2, seed=1)[:1]
    begun = iter(sampler)
    before = [next(begun) for _ in range(at)]
    state = json.loads(json.dumps(sampler.state()))
    [resumed] = parts(10, 2, seed=9)[:1]
    resumed.load_state(state)
    assert resumed.epoch == (1 if at == 5 else 0)  # all were given
    rest = list(resumed)
    assert (before + rest if at < 5 else before) == sampler.order(0)
    assert list(resumed) == sampler.order(2 if at == 5 else 1)
    resumed.load_state(state)
    resumed.set_epoch(resumed.epoch)  # as loops do that count epochs by themselves
    assert list(resumed) == rest


def test_state_of_another_count_of_ranks():
    two = parts(12, 2, seed=1)
    begun = [iter(s) for s in two]
    given = [next(i) for _ in range(3) for i in begun]
    three = parts(12, 3, seed=0)
    for sampler in three:
        sampler.load_state(two[0].state())
    rest = [i for row in zip(*three, strict=True) for i in row]
    assert given + rest == DistributedSampler(12, 1, 0, seed=1).order(0)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: DistributedSampler(5, 2), "num_parts=2, part_index=None; give both"),
        (lambda: DistributedSampler(5, 2, 2), r"part_index must be from 0 to 1, got 2"),
        (lambda: DistributedSampler(5, 2, 1, tail="drop"), "tail must be 'pad', 'discard' or 'keep', got 'drop'"),
        (lambda: DistributedSampler(0, 2, 1), "the data set is empty"),
        (lambda: DistributedSampler(5, 2, 1).load_state(DistributedSampler(6, 2, 1).state()), "length=6, but this"),
    ],
)
def test_wrong_samplers(call, text):
    with pytest.raises(mx.MXNetError, match=text):
        call()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [0, 1, 2, 3])
@pytest.mark.parametrize("last_batch", ["keep", "discard"])
def test_loader_goes_on_where_a_checkpoint_was(workers, taken, last_batch):
    def loader():
        sampler = DistributedSampler(20, 2, 1, seed=3)  # 10 indices: 2 batches of 4, and 2 are left
        return DataLoader(
            ArrayDataset(mx.nd.arange(20)),
            4,
            sampler=sampler,
            last_batch=last_batch,
            num_workers=workers,
            thread_pool=True,
        )

    def rows(batches):
        return [b.asnumpy().tolist() for b in batches]

    whole = loader()
    epochs = [rows(whole), rows(whole)]
    if taken > len(epochs[0]):
        return
    broken = loader()
    batches = iter(broken)
    given = [next(batches) for _ in range(taken)]
    resumed = loader()
    resumed.load_state(broken.state())
    first = rows(resumed)
    if first == epochs[1]:  # the epoch was over: the next one begins
        assert rows(given) == epochs[0]
    else:
        assert rows(given) + first == epochs[0]
        assert rows(resumed) == epochs[1]


# --- sharded files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "number"), [(12, 4), (13, 4), (3, 5), (1, 1)])
def test_adjacent_parts(count, number):
    def every(tail):
        return [adjacent_part("x", count, number, i, tail) for i in range(number)]

    assert [*itertools.chain(*every("keep"))] == [*range(count)]
    assert max(map(len, every("keep"))) - min(map(len, every("keep"))) <= 1
    assert {len(p) for p in every("pad")} == {-(-count // number)}
    assert {*itertools.chain(*every("pad"))} == {*range(count)}
    assert {len(p) for p in every("discard")} == {count // number}
    assert [*itertools.chain(*every("discard"))] == [*range(count // number * number)]


def rows_of(iterator):
    return [x for b in iterator for x in b.data[0].asnumpy()[: len(b.data[0]) - b.pad].reshape(-1).tolist()]


@pytest.mark.parametrize("kind", ["csv", "libsvm", "records"])
def test_files_in_parts(kind, tmp_path):
    count, number = 7, 3
    path = tmp_path / "data"
    if kind == "csv":
        path.write_text("".join(f"{i}\n" for i in range(count)))
    elif kind == "libsvm":
        path.write_text("".join(f"0 0:{i}\n" for i in range(count)))
    else:
        with_index = mx.recordio.MXIndexedRecordIO(str(tmp_path / "idx"), str(path), "w")
        for i in range(count):
            with_index.write_idx(i, str(i).encode())
        with_index.close()

    def part(index, tail):
        if kind == "records":
            reader = mx.recordio.MXIndexedRecordIO(str(tmp_path / "idx"), str(path), "r")
            return [int(reader.read_idx(key)) for key in reader.part(number, index, tail)]
        options = {"data_shape": (1,), "batch_size": 1, "num_parts": number, "part_index": index, "tail": tail}
        kind_of = mx.io.CSVIter if kind == "csv" else mx.io.LibSVMIter
        return rows_of(kind_of(**{f"data_{kind}": str(path)}, **options))

    assert [part(i, "pad") for i in range(number)] == [[0, 1, 2], [3, 4, 5], [6, 0, 1]]
    assert [part(i, "discard") for i in range(number)] == [[0, 1], [2, 3], [4, 5]]
    assert [part(i, "keep") for i in range(number)] == [[0, 1, 2], [3, 4], [5, 6]]
    with pytest.raises(mx.MXNetError, match="part_index must be from 0 to 2, got 3"):
        part(3, "pad")


# --- random numbers -----------------------------------------------------------------------------------------------


def test_one_process_draws_as_before():
    mx.random.seed(3)
    with mx.autograd.record():
        assert mx.random.next_key().tolist() == [3, 0]


def test_keys_of_a_rank():
    code = mx.random.set_rank, mx.random.next_key
    try:
        seeds = set()
        for rank in range(1000):
            code[0](rank)
            mx.random.seed(3)
            with mx.autograd.record():
                seeds.add(int(code[1]()[0]))
            assert code[1](2).tolist() == [3, 1]
            assert code[1]().tolist() == [3, 3]
        assert len(seeds) == 1000
        assert 3 in seeds  # rank 0
    finally:
        mx.random.set_rank(0)


# --- real ranks ---------------------------------------------------------------------------------------------------


@pytest.mark.mpi
class TestRanks:
    @pytest.mark.long
    def test_random_numbers(self):
        runs = [ranks.run("random_numbers.py").lines for _ in range(2)]
        assert runs[0] == runs[1]
        first, second = (json.loads(runs[0][r][0]) for r in (0, 1))
        for made in (first, second):
            assert made["eager"] == made["hybridized"]
            assert made["step"] == made["plain"]
            masks = [*made["eager"]["masks"], *made["step"]]
            assert all(8 < sum(mask) < 32 for mask in masks)
            assert len({tuple(m) for m in made["eager"]["masks"]}) == 2
        assert first["eager"]["drawn"] == second["eager"]["drawn"]
        for name in ("step", "plain"):
            assert all(a != b for a, b in zip(first[name], second[name], strict=True))
        assert all(a != b for a, b in zip(first["eager"]["masks"], second["eager"]["masks"], strict=True))
        # Rank 0 draws what a process draws that is alone.
        alone = json.loads(ranks.run("random_numbers.py", ranks=1).lines[0][0])
        assert alone == first

    @pytest.mark.long
    def test_metrics(self):
        assert ranks.run("metrics_over_ranks.py").lines == {0: ["ok"], 1: ["ok"]}

    @pytest.mark.long
    def test_metrics_of_three(self):
        assert ranks.run("metrics_over_ranks.py", ranks=3).lines == {rank: ["ok"] for rank in range(3)}

    @pytest.mark.long
    def test_loader_workers(self):
        assert ranks.run("loader_workers.py").lines == {0: ["ok"], 1: ["ok"]}

    @pytest.mark.long
    def test_a_rank_that_dies_while_workers_load(self):
        begin = time.monotonic()
        done = ranks.run("loader_workers.py", arguments=["die"], check=False)
        assert "rank 1 on" in done.stderr
        assert "died: its connection closed" in done.stderr
        assert time.monotonic() - begin < 25  # loading goes on for 60 s
        assert done.returncode
