"""The model of scaling: its formulas by hand, and against a simulation of messages between ranks one by one."""

from __future__ import annotations

import heapq
import json
import math

import numpy as np
import pytest

import hybridc as mx
from hybridc.communication.gradient_buckets import BYTES, FIRST_BYTES
from hybridc.errors import AttributeValueError
from hybridc.gluon.hybridize.optimizer_shards import _buckets
from hybridc.gluon.model_zoo import vision
from hybridc.tools.scaling.cluster import ALGORITHMS, Cluster, LinkedRanks, Network
from hybridc.tools.scaling.model_layers import LayerSize, encoder, layers_of, of_zoo
from hybridc.tools.scaling.predicted_step import RankWork, buckets, largest, predict
from hybridc.tools.scaling.scaling_report import main

LATENCY, BANDWIDTH, SUMMING = 3e-6, 1e9, 4e9
NETWORK = Network(BANDWIDTH, LATENCY)
SIZE = 1 << 20


# --- the oracle: ranks that send messages --------------------------------------------------------------------------


class Simulation:
    """Ranks with a link each, and events in the order of time: at most one message leaves a rank at once."""

    def __init__(self, ranks, network=NETWORK, summing=SUMMING):
        self.ranks, self.network, self.summing = ranks, network, summing
        self.events, self.number = [], 0
        self.free = [0.0] * ranks  # when the link of a rank is free

    def at(self, time, action):
        self.number += 1
        heapq.heappush(self.events, (time, self.number, action))

    def send(self, now, source, size, arrived):
        begin = max(now, self.free[source])
        self.free[source] = begin + size / self.network.bandwidth
        self.at(self.free[source] + self.network.latency, arrived)

    def run(self):
        now = 0.0
        while self.events:
            now, _, action = heapq.heappop(self.events)
            action(now)
        return now

    def exchanges(self, steps, begin=None):
        """Each rank does steps in order, ``(to, size, source, adds)``: sends to a rank, waits for what comes, adds it.

        ``to`` and ``source`` may be none. The result is when each rank is done.
        """
        ranks = self.ranks
        done, at = [0.0] * ranks, [0] * ranks
        arrived = {}
        waiting = [False] * ranks

        def go_on(rank, now):
            if at[rank] == len(steps[rank]):
                done[rank] = now
                return
            to, size, source, _ = steps[rank][at[rank]]
            if to is not None:
                self.send(now, rank, size, lambda t: receive(rank, to, size, t))
            if source is not None:
                waiting[rank] = True
                take(rank, now)
            else:
                at[rank] += 1
                self.at(self.free[rank], lambda t: go_on(rank, t))

        def receive(source, rank, size, now):
            arrived.setdefault((source, rank), []).append(size)
            take(rank, now)

        def take(rank, now):
            if not waiting[rank]:
                return
            _, _, source, adds = steps[rank][at[rank]]
            if not arrived.get((source, rank)):
                return
            size = arrived[source, rank].pop(0)
            waiting[rank] = False
            at[rank] += 1
            self.at(now + (size / self.summing if adds else 0), lambda t: go_on(rank, t))

        for rank in range(ranks):
            self.at(0.0 if begin is None else begin[rank], lambda t, rank=rank: go_on(rank, t))
        self.run()
        return done


def ring(ranks, size, adds=True, gathers=True):
    """The steps of a ring all-reduce, or of a half of it."""
    rounds = [True] * (ranks - 1) * adds + [False] * (ranks - 1) * gathers
    return [[((rank + 1) % ranks, size / ranks, (rank - 1) % ranks, add) for add in rounds] for rank in range(ranks)]


def power(ranks):
    return 1 << (ranks.bit_length() - 1)


def folded(ranks, size, inner):
    """Steps of ``inner(rank)`` for a power of two of ranks; each other rank sends to a partner, and gets from it."""
    p = power(ranks)
    steps = [inner(rank) for rank in range(p)] + [[] for _ in range(ranks - p)]
    for extra in range(p, ranks):
        partner = extra - p
        steps[partner] = [(None, 0, extra, True), *steps[partner], (extra, size, None, False)]
        steps[extra] = [(partner, size, None, False), (None, 0, partner, False)]
    return steps


def halving(ranks, size):
    p = power(ranks)
    distances = [1 << i for i in range(p.bit_length() - 1)]

    def inner(rank):
        scatter = [(rank ^ d, size * d / p, rank ^ d, True) for d in reversed(distances)]
        return scatter + [(rank ^ d, size * d / p, rank ^ d, False) for d in distances]

    return folded(ranks, size, inner)


def doubling(ranks, size):
    distances = [1 << i for i in range(power(ranks).bit_length() - 1)]
    return folded(ranks, size, lambda rank: [(rank ^ d, size, rank ^ d, True) for d in distances])


STEPS = {"ring": ring, "halving": halving, "doubling": doubling}


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 8, 13, 16, 64])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_reduce_takes_as_long_as_its_messages(algorithm, ranks):
    simulated = max(Simulation(ranks).exchanges(STEPS[algorithm](ranks, SIZE)))
    # Where one of few ranks is late by what it gets before, the other's message is there already: one sum is hidden.
    early = SIZE / SUMMING if algorithm == "doubling" and ranks in (3, 6) else 0
    found = ALGORITHMS[algorithm][0](LinkedRanks(ranks, NETWORK, SUMMING), SIZE)
    assert found - early == pytest.approx(simulated, rel=1e-3 if early else 1e-9)


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_halves_of_a_ring(ranks):
    group = LinkedRanks(ranks, NETWORK, SUMMING)
    scattered = max(Simulation(ranks).exchanges(ring(ranks, SIZE, gathers=False)))
    gathered = max(Simulation(ranks).exchanges(ring(ranks, SIZE, adds=False)))
    assert group.scatter_ring(SIZE) == pytest.approx(scattered, rel=1e-9)
    assert group.gather_ring(SIZE) == pytest.approx(gathered, rel=1e-9)


@pytest.mark.parametrize("ranks", [2, 4, 16, 128])
def test_halves_of_halving_and_doubling_make_the_whole(ranks):
    group = LinkedRanks(ranks, NETWORK, SUMMING)
    assert group.scatter_halving(SIZE) + group.gather_halving(SIZE) == pytest.approx(group.halving(SIZE), rel=1e-12)


# --- by hand -------------------------------------------------------------------------------------------------------


def test_costs_by_hand():
    # 4 ranks, 8 MB at 1 GB/s: 6 messages of 2 MB (2 ms each), 3 of them added (0.5 ms each), 6 times 3 us.
    assert LinkedRanks(4, NETWORK, SUMMING).ring(8e6) == pytest.approx(6 * 2e-3 + 3 * 0.5e-3 + 6 * 3e-6)
    # 4 messages instead of 6: 4, 2, 2, 4 MB.
    assert LinkedRanks(4, NETWORK, SUMMING).halving(8e6) == pytest.approx(12e-3 + 1.5e-3 + 4 * 3e-6)
    # 2 messages of 8 MB, each added in 2 ms.
    assert LinkedRanks(4, NETWORK, SUMMING).doubling(8e6) == pytest.approx(2 * (8e-3 + 2e-3 + 3e-6))
    # 5 ranks: the fifth sends 8 MB before, which are added, and gets them after.
    assert LinkedRanks(5, NETWORK, SUMMING).doubling(8e6) == pytest.approx(4 * (8e-3 + 3e-6) + 3 * 2e-3)
    assert LinkedRanks(1, NETWORK, SUMMING).ring(8e6) == LinkedRanks(1, NETWORK, SUMMING).doubling(8e6) == 0


def test_the_cheapest_algorithm_is_taken():
    cluster = Cluster(8, NETWORK, NETWORK, SUMMING)
    assert cluster.all_reduce(4)[1] == "doubling"  # 3 messages instead of 6
    assert cluster.all_reduce(1e8)[1] == "halving"
    assert cluster.with_ranks(6).all_reduce(1e8)[1] == "ring"  # no rank sends everything to a partner
    only = Cluster(8, NETWORK, NETWORK, SUMMING, algorithms=("ring",))
    assert only.all_reduce(4) == (LinkedRanks(8, NETWORK, SUMMING).ring(4), "ring")


def test_ranks_of_a_machine_share_its_link():
    local = Network(1e10, 1e-6)
    cluster = Cluster(8, NETWORK, local, SUMMING, per_machine=4, algorithms=("ring",))
    # In a machine: 3 + 3 messages of 2 MB in 0.2 ms, 3 of them added in 0.5 ms. Then each rank has 2 MB with its
    # partner of the other machine at a quarter of the bandwidth: 2 messages of 1 MB in 4 ms, one added in 0.25 ms.
    by_hand = 6 * (0.2e-3 + 1e-6) + 3 * 0.5e-3 + 2 * (4e-3 + 3e-6) + 0.25e-3
    assert cluster.all_reduce(8e6)[0] == pytest.approx(by_hand)
    assert cluster.reduce_scatter(8e6)[0] + cluster.all_gather(8e6)[0] == pytest.approx(by_hand)
    one = cluster.with_ranks(4)
    assert one.all_reduce(8e6)[0] == pytest.approx(6 * (0.2e-3 + 1e-6) + 3 * 0.5e-3)


# From tables of the expected values of normal order statistics.
@pytest.mark.parametrize(
    ("ranks", "expected"),
    [(1, 0), (2, 1 / math.sqrt(math.pi)), (3, 1.5 / math.sqrt(math.pi)), (4, 1.02938), (10, 1.53875), (100, 2.50759)],
)
def test_the_largest_of_normals(ranks, expected):
    assert largest(ranks) == pytest.approx(expected, abs=2e-5)


def test_the_largest_of_many_normals_against_samples():
    samples = np.random.default_rng(0).standard_normal((4000, 1024)).max(axis=1)
    assert largest(1024) == pytest.approx(samples.mean(), abs=4 * samples.std() / math.sqrt(len(samples)))


def test_a_step_by_hand():
    # 3 layers of a third of the operations each: forward 1 s of 3, then 2/3 s of backward for each.
    layers = [LayerSize(name, (size,), 1.0) for name, size in (("a", 100), ("b", 300), ("c", 200))]
    work = RankWork(layers, compute=3.0, update=0.5, first_bucket=800, other_buckets=1200)
    shares = [(1 + 2 / 3) / 3, (1 + 4 / 3) / 3, 1.0]
    assert work.ready == [(pytest.approx(share), size) for share, size in zip(shares, [800, 1200, 400])]
    # 400 bytes per second, both ranks: 2 s, 3 s and 1 s for the buckets, from 5/3 s on.
    cluster = Cluster(2, Network(400.0, 0.0), NETWORK, math.inf)
    found = predict(work, cluster)
    assert found.step == pytest.approx(5 / 3 + 6 + 0.5)
    assert found.exposed == pytest.approx(5 / 3 + 6 - 3)
    assert found.communication == pytest.approx(6)
    assert found.hidden == pytest.approx(1 - (5 / 3 + 3) / 6)
    assert found.efficiency == pytest.approx(3.5 / found.step)


def test_a_sharded_step_by_hand():
    layers = [LayerSize(name, (size,), 1.0) for name, size in (("a", 100), ("b", 100))]
    work = RankWork(layers, compute=3.0, update=4.0, sharded=True, first_bucket=400, other_buckets=400)
    cluster = Cluster(2, Network(400.0, 0.0), NETWORK, math.inf)
    # Ready at 2 s and 3 s, scattered in 0.5 s each: 3.5 s. Updates of 1 s each end at 4.5 s and 5.5 s, gathered by 6 s.
    found = predict(work, cluster)
    assert found.step == pytest.approx(6.0)
    assert found.exposed == pytest.approx(6 - 3 - 2)


def test_one_rank_has_nothing_to_wait_for():
    found = predict(RankWork(encoder(), 1.0, 0.1, spread=0.5), Cluster(1, NETWORK, NETWORK, SUMMING))
    assert (found.step, found.exposed, found.hidden, found.efficiency) == (1.1, 0, 1, 1)


# --- whole steps ---------------------------------------------------------------------------------------------------


def simulated_step(layers, compute, size_limits, ranks, network, factors):
    """A step of ranks that compute layer by layer, each as fast as it is, and sum buckets by rings of messages."""
    total = sum(layer.flops for layer in layers)
    limit, done, backward = size_limits[0], [np.asarray(factors) * compute / 3], []
    for layer in reversed(layers):
        done.append(done[-1] + np.asarray(factors) * compute * 2 / 3 * layer.flops / total)
        backward.append((layer, done[-1]))
    filled, ended = 0, np.zeros(ranks)
    bucket_ready = None

    def flush():
        begin = np.maximum(bucket_ready, ended)
        return np.array(Simulation(ranks, network).exchanges(ring(ranks, filled), begin))

    for layer, at in backward:
        size = 4 * sum(layer.parameters)
        if filled and filled + size > limit:
            ended, filled, limit = flush(), 0, size_limits[1]
        filled, bucket_ready = filled + size, at
    return max(flush())


@pytest.mark.parametrize("bandwidth", [1e8, 1e9, 1e10])  # most is exposed, some is, nearly nothing is
def test_steps_take_as_long_as_simulated_ones(bandwidth):
    rng = np.random.default_rng(1)
    layers = [LayerSize(str(i), (int(rng.integers(1000, 200_000)),), float(rng.integers(1, 9))) for i in range(20)]
    limits, ranks, spread, compute = (100_000, 600_000), 8, 0.05, 10e-3
    network = Network(bandwidth, LATENCY)
    cluster = Cluster(ranks, network, network, SUMMING, algorithms=("ring",))
    exact = simulated_step(layers, compute, limits, ranks, network, np.ones(ranks))
    work = RankWork(layers, compute, 0.0, 0.0, False, *limits)
    assert predict(work, cluster).step == pytest.approx(exact, rel=1e-9)
    # Stragglers: the mean of many steps.
    steps = [
        simulated_step(layers, compute, limits, ranks, network, 1 + spread * rng.standard_normal(ranks))
        for _ in range(60)
    ]
    late = RankWork(layers, compute, 0.0, spread, False, *limits)
    assert predict(late, cluster).step == pytest.approx(np.mean(steps), rel=0.02)


# --- networks ------------------------------------------------------------------------------------------------------


def test_resnet50_of_the_zoo():
    layers = layers_of("resnet50")
    net = vision.resnet50_v1()
    net.initialize()
    net(mx.nd.zeros((1, 3, 32, 32)))
    trained = [p for p in net.collect_params().values() if p.grad_req != "null"]
    assert sum(sum(layer.parameters) for layer in layers) == sum(math.prod(p.shape) for p in trained) == 25_575_912
    # He et al. 2015, table 1: 3.8e9 multiplications and additions.
    assert sum(layer.flops for layer in layers) / 2 == pytest.approx(3.8e9, rel=0.02)


def test_the_encoder_has_the_parameters_of_bert_base():
    layers = encoder()
    assert sum(sum(layer.parameters) for layer in layers) == 109_482_240
    matrices = 12 * (4 * 768 * 768 + 2 * 768 * 3072)
    attention = 12 * 2 * 2 * 128 * 128 * 768
    assert sum(layer.flops for layer in layers) == 2 * 128 * matrices + attention + 2 * 768 * 768


def test_buckets_are_those_of_the_training_step():
    layers = of_zoo("squeezenet1.1")
    weights = [mx.nd.zeros((size,)) for layer in layers for size in layer.parameters]
    ours = [size for _, size in buckets(layers, FIRST_BYTES, BYTES, 4)]
    assert ours == [sum(weights[i].size for i in bucket.members) * 4 for bucket in _filled(weights)]


def _filled(weights):
    found = _buckets(weights)
    assert len(found) > 1
    return found


# --- the command ---------------------------------------------------------------------------------------------------


def test_the_command(tmp_path, capsys):
    path = tmp_path / "layers.csv"
    path.write_text("# forward order\n1000, 2e6\n0, 1e6  # no parameters\n500000, 1e6\n")
    options = ["--network", str(path), "--ranks", "2,8", "--gigabits", "10", "--compute", "5", "--update", "1"]
    main([*options, "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [(row["ranks"], row["sharded"]) for row in rows] == [(2, False), (8, False), (2, True), (8, True)]
    assert all(0 <= row["hidden"] <= 1 and row["step"] >= row["compute"] for row in rows)
    assert rows[0]["single"] == pytest.approx(6e-3)
    main([*options, "--explain"])
    text = capsys.readouterr().out
    assert "501,000 parameters" in text
    assert "start_i = max(ready_i, end_(i-1))" in text
    assert text.count("10 Gbit/s") == 3


@pytest.mark.parametrize(
    ("lines", "error"),
    [("1,2\n3\n", "line 2: must be the parameters"), ("10,-1\n", "line 1"), ("10,0\n", "operations")],
)
def test_files_that_are_no_network(tmp_path, capsys, lines, error):
    path = tmp_path / "layers.csv"
    path.write_text(lines)
    with pytest.raises(SystemExit):
        main(["--network", str(path)])
    assert error in capsys.readouterr().err


def test_what_is_not_possible():
    with pytest.raises(AttributeValueError, match="6 ranks are no whole machines of 4 ranks each"):
        Cluster(6, NETWORK, NETWORK, SUMMING, per_machine=4)
    with pytest.raises(AttributeValueError, match="must include ring or halving"):
        Cluster(6, NETWORK, NETWORK, SUMMING, algorithms=("doubling",))
    with pytest.raises(AttributeValueError, match="network must be resnet50, encoder, a name of the model zoo, or a"):
        layers_of("resnet-50-of-nobody")
