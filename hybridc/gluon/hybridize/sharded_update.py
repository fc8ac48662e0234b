"""The update of a training step whose optimizer is sharded over ranks: appended to the trace of its backward."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from hybridc.communication import communicator
from hybridc.gluon.hybridize.gradient_exchange import Exchange, clipped, joined, ready_nodes, split, start
from hybridc.gluon.hybridize.optimizer_shards import OptimizerShards, ShardedBucket
from hybridc.ground.hooks import HOOKS
from hybridc.optimizer.compiled_update import UpdateTracer
from hybridc.optimizer.formula import Kind
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace


class ShardedUpdate:
    """For each bucket: reduce-scatter of the gradients, update of this rank's part, all-gather of the weights."""

    def __init__(
        self,
        trace: Trace,
        tracer: UpdateTracer,
        shards: OptimizerShards,
        kinds: Sequence[Kind],
        sums: Sequence[int],
        limit: TracedSymbol | None,
        exchange: Exchange,
    ) -> None:
        self._F = HOOKS.symbols()
        self._trace, self._tracer, self._shards, self._kinds = trace, tracer, shards, kinds
        self._sums = sums  # the numbers of those of the buckets
        self._limit = limit  # of the norm of all gradients
        self._exchange = exchange
        self._rank = communicator().rank

    def append(self, weights: Sequence[TracedSymbol], gradients: Sequence[TracedSymbol]) -> list[TracedSymbol]:
        """The new weights; new states become results of the tracer."""
        F, buckets = self._F, self._shards.buckets
        nodes = ready_nodes(self._trace, gradients)
        ready = [max(nodes[i] for i in bucket.members) for bucket in buckets]
        started: dict[int, TracedSymbol] = {}
        for number in sorted(range(len(buckets)), key=ready.__getitem__, reverse=True):
            bucket = buckets[number]
            collective = functools.partial(self._exchange.sum, number=self._sums[number], counts=bucket.counts)
            started[number] = start(self._trace, [gradients[i] for i in bucket.members], ready[number], collective)
        order = sorted(started, key=ready.__getitem__)
        own = [self._own(buckets[number], started[number]) for number in order]
        if self._limit is not None:
            own = clipped(own, self._limit, F._allreduce)
        gathered = [self._update(buckets[number], weights, part) for number, part in zip(order, own, strict=True)]
        updated = dict(enumerate(weights))
        for number, flat in zip(order, gathered, strict=True):
            members = buckets[number].members
            parts = split(F, self._exchange.gathered(flat), [weights[i].shape for i in members])
            updated.update(zip(members, parts, strict=True))
        return list(updated.values())

    def _own(self, bucket: ShardedBucket, started: TracedSymbol) -> TracedSymbol:
        """This rank's part of the sum of the gradients of a bucket, which has begun."""
        summed = self._exchange.summed(started, bucket.dtype)
        begin = sum(bucket.counts[: self._rank])
        return self._F.slice_axis(summed, axis=0, begin=begin, end=begin + bucket.counts[self._rank])

    def _update(self, bucket: ShardedBucket, weights: Sequence[TracedSymbol], gradients: TracedSymbol) -> TracedSymbol:
        """Update this rank's part of a bucket, and begin to gather all parts."""
        F, at, new = self._F, 0, list[TracedSymbol]()
        pieces = self._shards.pieces
        for i in bucket.members:
            begin, end = pieces[i]
            if end == begin:
                continue
            kind, weight = self._kinds[i], joined(F, [weights[i]])
            weight = F.reshape_to(F.slice_axis(weight, axis=0, begin=begin, end=end), shape=kind.shape)
            grad = F.slice_axis(gradients, axis=0, begin=at, end=at + end - begin)
            at += end - begin
            self._tracer.add(i, kind, weight, F.reshape_to(grad, shape=kind.shape))
            number = next(n for n, target in enumerate(self._tracer.targets) if target is weight)
            del self._tracer.targets[number]
            new.append(self._tracer.results.pop(number))
        part = joined(F, new) if new else gradients  # an empty array: this rank has no weights of the bucket
        return self._exchange.gather(part, bucket.counts, self._rank)
