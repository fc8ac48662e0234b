"""The random state that operators draw from: counters, keys and generators."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import hybridc as mx
from hybridc import random


def numbers(key, draw=0, n=4):
    return random.generator(key, draw).random(n)


def test_keys_count_draws():
    mx.random.seed(5)
    keys = [random.next_key(), random.next_key(3), random.next_key()]
    assert [k.tolist() for k in keys] == [[5, 0], [5, 1], [5, 4]]
    assert keys[0].dtype == np.uint64
    assert keys[0].shape == (2,)


def test_a_draw_is_named_by_seed_and_counter_alone():
    key = np.array([5, 10], dtype=np.uint64)
    want = numbers(key)
    np.testing.assert_array_equal(numbers(key), want)
    np.testing.assert_array_equal(numbers(np.array([5, 8], dtype=np.uint64), 2), want)
    assert not np.array_equal(numbers(key, 1), want)
    assert not np.array_equal(numbers(np.array([6, 10], dtype=np.uint64)), want)
    reference = np.random.Generator(np.random.Philox(key=5, counter=[0, 0, 0, 10])).random(4)
    np.testing.assert_array_equal(want, reference)


def test_long_draws_do_not_overlap():
    key = np.array([1, 0], dtype=np.uint64)
    first = random.generator(key, 0).integers(0, 2**63, size=10000)
    second = random.generator(key, 1).integers(0, 2**63, size=10000)
    assert not np.intersect1d(first, second).size


def test_threads_reserve_different_draws():
    mx.random.seed(0)
    seen = []

    def work():
        mine = [int(random.next_key(2)[1]) for _ in range(500)]
        seen.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(seen) == list(range(0, 4000, 2))


def test_isolated_streams_leave_the_main_one():
    mx.random.seed(1)
    random.next_key()
    with random.isolated(77):
        assert random.next_key().tolist() == [77, 0]
        with random.isolated(78):
            assert random.next_key().tolist() == [78, 0]
        mx.random.seed(3)
        assert random.next_key().tolist() == [3, 0]
    assert random.next_key().tolist() == [1, 1]


@pytest.mark.parametrize("seed", [-1, 0, 2**63, np.int64(4), np.uint64(2**64 - 1)])
def test_any_integer_is_a_seed(seed):
    mx.random.seed(seed)
    assert int(random.next_key()[0]) == int(seed) % 2**64


@pytest.mark.parametrize("bad", [1.5, "1", None])
def test_other_seeds_are_refused(bad):
    with pytest.raises(ValueError, match="seed_state must be int"):
        mx.random.seed(bad)


def test_a_device_is_accepted():
    mx.random.seed(4, ctx=mx.cpu())
    assert int(random.next_key()[0]) == 4
    with pytest.raises(ValueError, match="ctx"):
        mx.random.seed(4, ctx="everything")


def test_a_fresh_process_starts_from_seed_0():
    code = "from hybridc import random; print(random.next_key().tolist())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[0, 0]"


def test_operators_are_found_here_too():
    assert mx.random.uniform(0, 1, shape=(2,)).shape == (2,)
    with pytest.raises(AttributeError, match="uniformly"):
        _ = mx.random.uniformly
