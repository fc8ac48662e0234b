"""Collectives of hvd against NumPy on the arrays of all ranks, which every rank can make."""

import re
import sys

import numpy as np

import hybridc as mx
from hybridc import horovod as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def of(rank, shape, dtype="float32"):
    values = np.random.RandomState(rank + 17).uniform(1, 3, shape)
    return (values * 10).astype(dtype) if np.dtype(dtype).kind in "iu" else values.astype(dtype)


def mine(shape, dtype="float32"):
    return mx.nd.array(of(RANK, shape, dtype), dtype=dtype)


def all_of(shape, dtype="float32"):
    return np.stack([of(r, shape, dtype).astype("float64") for r in range(SIZE)])


def close(got, want, dtype="float32"):
    rtol = {"float16": 2e-3}.get(dtype, 1e-6)
    assert got.dtype == np.dtype(dtype), (got.dtype, dtype)
    np.testing.assert_allclose(got.asnumpy().astype("float64"), want, rtol=rtol)


def error_of(call, kind):
    try:
        call()
    except kind as error:
        return str(error)
    sys.exit("no error")


# --- ranks
assert hvd.is_initialized()
assert (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()) == (RANK, SIZE, 0, 1)
assert [hvd.mpi_built(), hvd.mpi_enabled(), hvd.is_homogeneous()] == [True] * 3
assert not any([hvd.gloo_built(), hvd.gloo_enabled(), hvd.nccl_built(), hvd.cuda_built(), hvd.rocm_built()])

# --- all-reduce
for dtype in ("float32", "float64", "float16", "int32", "int64", "uint8"):
    for shape in ((), (5,), (3, 4)):
        x, every = mine(shape, dtype), all_of(shape, dtype)
        before = x.asnumpy()
        mean = every.mean(0) if np.dtype(dtype).kind == "f" else np.trunc(every.sum(0) / SIZE)
        close(hvd.allreduce(x), mean, dtype)
        close(hvd.allreduce(x, average=False), every.sum(0), dtype)
        close(hvd.allreduce(x, op=hvd.Min), every.min(0), dtype)
        close(hvd.allreduce(x, op=hvd.Max), every.max(0), dtype)
        if dtype != "uint8":
            close(hvd.allreduce(x, op=hvd.Product), every.prod(0), dtype)
        np.testing.assert_array_equal(x.asnumpy(), before)
        if np.dtype(dtype).kind == "f":
            close(hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3), 1.5 * every.sum(0), dtype)
        assert hvd.allreduce_(x, op=hvd.Sum) is x
        close(x, every.sum(0), dtype)
big = mx.nd.array([40000.0], dtype="float16")  # the sum does not fit, the mean does
close(hvd.allreduce(big), [40000], "float16")

shapes, dtypes = [(3,), (2, 2), (4,), (1, 5)], ["float32", "float16", "float32", "int32"]
xs = [mine(s, d) for s, d in zip(shapes, dtypes)]
for got, s, d in zip(hvd.grouped_allreduce(xs, op=hvd.Sum), shapes, dtypes):
    close(got, all_of(s, d).sum(0), d)
assert hvd.grouped_allreduce_(xs, average=False) is xs
for got, s, d in zip(xs, shapes, dtypes):
    close(got, all_of(s, d).sum(0), d)
assert hvd.grouped_allreduce([]) == []

# A view is not contiguous in memory, and is written in place.
base = mine((4, 6))
view = base.T
hvd.allreduce_(view, op=hvd.Sum)
close(view, all_of((4, 6)).sum(0).T)

# --- all-gather, broadcast, all-to-all, reduce-scatter
part = np.full((RANK + 1, 2), RANK, "float32")
whole = np.concatenate([np.full((r + 1, 2), r, "float32") for r in range(SIZE)])
close(hvd.allgather(mx.nd.array(part)), whole)
close(hvd.grouped_allgather([mx.nd.array(part), mine((2,))])[1], all_of((2,)).reshape(-1))
uneven = mx.nd.array(np.ones((3 if RANK == SIZE - 1 else 0, 2)))
close(hvd.allgather(uneven), np.ones((3, 2)))
for root in range(SIZE):
    for dtype in ("float32", "int8", "bool"):
        x = mx.nd.array(of(RANK, (3, 2), "float32") > 2 if dtype == "bool" else of(RANK, (3, 2), dtype), dtype=dtype)
        want = of(root, (3, 2), "float32") > 2 if dtype == "bool" else of(root, (3, 2), dtype)
        np.testing.assert_array_equal(hvd.broadcast(x, root).asnumpy(), want)
        hvd.broadcast_(x, root_rank=root)
        np.testing.assert_array_equal(x.asnumpy(), want)

rows = mx.nd.array([[10 * RANK + to] * 3 for to in range(SIZE)])
close(hvd.alltoall(rows), [[10 * r + RANK] * 3 for r in range(SIZE)])
splits = [RANK + 1 + to for to in range(SIZE)]  # rank r sends r + 1 + to rows
got, counts = hvd.alltoall(mx.nd.array(np.repeat([10.0 * RANK + to for to in range(SIZE)], splits)), splits=splits)
assert counts.dtype == np.int32
assert counts.asnumpy().tolist() == [r + 1 + RANK for r in range(SIZE)]
close(got, np.repeat([10.0 * r + RANK for r in range(SIZE)], [r + 1 + RANK for r in range(SIZE)]))

for dtype in ("float32", "float16"):
    x, every = mine((SIZE + 1, 3), dtype), all_of((SIZE + 1, 3), dtype)  # one row more than ranks
    first = 0 if RANK == 0 else RANK + 1
    want = every[:, first : first + (2 if RANK == 0 else 1)]
    close(hvd.reducescatter(x), want.mean(0), dtype)
    close(hvd.reducescatter(x, op=hvd.Sum, prescale_factor=0.5), want.sum(0) / 2, dtype)
    close(hvd.grouped_reducescatter([x, x], op=hvd.Sum)[1], want.sum(0), dtype)

# --- gradients: of the sum of the losses of all ranks
weight = [np.random.RandomState(90 + r).uniform(1, 2, (SIZE * 2, 2)).astype("float32") for r in range(SIZE)]
for name, call, want in (
    ("mean", lambda v: hvd.allreduce(v), np.mean([w[:2] for w in weight], 0)),
    ("sum", lambda v: hvd.allreduce(v, op=hvd.Sum), np.sum([w[:2] for w in weight], 0)),
    ("gather", lambda v: hvd.allgather(v), np.sum(weight, 0)[2 * RANK : 2 * RANK + 2]),
    ("root", lambda v: hvd.broadcast(v, 0), np.sum([w[:2] for w in weight], 0) * (RANK == 0)),
    ("scatter", lambda v: hvd.reducescatter(v, op=hvd.Sum), np.concatenate([w[: 2 // SIZE] for w in weight])),
    ("to", lambda v: hvd.alltoall(v), np.concatenate([w[RANK : RANK + 1] for w in weight])),
):
    if 2 % SIZE and name in ("scatter", "to"):
        continue
    x = mine((2, 2))
    x.attach_grad()
    with mx.autograd.record():
        y = call(x)
        loss = (y * mx.nd.array(weight[RANK][: len(y)])).sum()
    loss.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), want, rtol=1e-5, err_msg=name)

# --- objects
assert hvd.broadcast_object({"rank": RANK}, 1) == {"rank": 1}
assert hvd.allgather_object("r" * RANK) == ["r" * r for r in range(SIZE)]

# --- sets of ranks
only = hvd.add_process_set([1])
both = hvd.add_process_set(hvd.ProcessSet([*range(SIZE - 1)]))
assert (only.included(), only.size(), only.process_set_id) == (RANK == 1, 1, 1)
assert [s.process_set_id for s in hvd.process_sets()] == [0, 1, 2]
assert hvd.process_set_by_id(2) is both
if both.included():
    close(hvd.allreduce(mine((3,)), op=hvd.Sum, process_set=both), all_of((3,))[: SIZE - 1].sum(0))
    close(hvd.broadcast(mine((3,)), SIZE - 2, process_set=both), of(SIZE - 2, (3,)))
else:
    assert f"rank {RANK} is not in" in error_of(lambda: hvd.allreduce(mine((3,)), process_set=both), ValueError)
assert hvd.remove_process_set(only)
assert not hvd.remove_process_set(hvd.global_process_set)
assert only.process_set_id is None
assert "there is a set" in error_of(lambda: hvd.add_process_set([*range(SIZE - 1)]), ValueError)

# --- different calls are an error on all ranks
for call in (
    lambda: hvd.allreduce(mx.nd.ones(3 + RANK)),
    lambda: hvd.allreduce(mx.nd.ones(3, dtype="float32" if RANK else "float64")),
    lambda: hvd.allreduce(mx.nd.ones(3)) if RANK else hvd.allgather(mx.nd.ones(3)),
    lambda: hvd.allreduce(mx.nd.ones(3), name=f"x{RANK}"),
):
    text = error_of(call, mx.MXNetError)
    assert re.search(rf"rank {RANK} on \S+ calls hvd\.all", text), text
    assert "in the same order" in text, text

hvd.shutdown()
assert not hvd.is_initialized()
assert error_of(hvd.rank, ValueError) == "Horovod has not been initialized; use hvd.init()."
hvd.init()
assert hvd.size() == SIZE
print(f"[rank {RANK}] ok\n", end="", flush=True)
