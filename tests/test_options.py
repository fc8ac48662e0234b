"""Settings from the environment: what each variable takes, and what is said of others."""

from __future__ import annotations

import pytest

from hybridc.errors import MXNetError, OptionError
from hybridc.options import OPTIONS, read

WRONG = [
    ("HYBRIDC_NUM_THREADS", "abc", "a whole number from 1 on"),
    ("HYBRIDC_NUM_THREADS", "0", "a whole number from 1 on"),
    ("HYBRIDC_NUM_THREADS", "1.5", "a whole number from 1 on"),
    ("HYBRIDC_CACHE_ENTRIES", "-3", "a whole number from 1 on"),
    ("HYBRIDC_CACHE_BYTES", "much", "a number of bytes, as 1073741824, 512M or 1.5G"),
    ("HYBRIDC_CACHE_BYTES", "-1", "a number of bytes, as 1073741824, 512M or 1.5G"),
    ("HYBRIDC_POOL_BYTES", "1Q", "a number of bytes, as 1073741824, 512M or 1.5G"),
    ("HYBRIDC_POOL_BYTES", "9" * 5000, "a number of bytes, as 1073741824, 512M or 1.5G"),
    ("HYBRIDC_VERIFY", "maybe", "0 (the default) or 1"),
    ("HYBRIDC_TARGET", "cuda", "llvm (the default), numpy or triton"),
    ("HYBRIDC_TRACEBACK", "short", "user (the default) or full"),
    ("HYBRIDC_MACHINE", "fast", "measured (the default) or nominal"),
    ("HYBRIDC_GPU", "tpu", "auto (the default), torch, cupy, cuda or interpreter"),
]


@pytest.mark.parametrize(("name", "value", "takes"), WRONG)
def test_a_value_that_a_setting_cannot_have_is_an_error(name, value, takes):
    with pytest.raises(OptionError) as caught:
        read({name: value})
    assert str(caught.value) == f"{name}={value}: it takes {takes}"
    assert isinstance(caught.value, MXNetError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1000", 1000), ("1K", 1 << 10), ("512M", 1 << 29), ("2 GiB", 2 << 30), ("1.5g", 3 << 29), ("7b", 7)],
)
def test_bytes_have_units(text, size):
    assert read({"HYBRIDC_CACHE_BYTES": text}).cache_bytes == size


@pytest.mark.parametrize(("text", "value"), [("1", True), ("0", False), ("", False), ("TRUE", True), ("off", False)])
def test_switches(text, value):
    assert read({"HYBRIDC_VERIFY": text}).verify is value


def test_what_is_not_set_or_empty_is_the_default():
    names = [name for name, _, _ in WRONG]
    assert read({}) == read(dict.fromkeys(names, "")) == read(dict.fromkeys(names, " "))


def test_threads_are_those_of_openmp():
    assert read({"OMP_NUM_THREADS": "3,2"}).num_threads == 3
    assert read({"OMP_NUM_THREADS": "3", "HYBRIDC_NUM_THREADS": "5"}).num_threads == 5
    assert read({"OMP_NUM_THREADS": "abc"}) == read({"OMP_NUM_THREADS": "0"}) == read({})  # which is OpenMP's to refuse


@pytest.mark.filterwarnings("error")
def test_variables_that_are_no_setting_are_named():
    read({"HYBRIDC_TEST_EXAMPLES": "5", "HYBRIDC_PEERS": "x", "OTHER": "y"})
    with pytest.warns(
        UserWarning, match=r"HYBRIDC_CASH_DIR is no setting of hybridc; did you mean HYBRIDC_CACHE_DIR\?"
    ):
        read({"HYBRIDC_CASH_DIR": "x"})
    with pytest.warns(
        UserWarning, match="HYBRIDC_ZZZZZZZZZZZZZZ is no setting of hybridc; settings are HYBRIDC_CACHE_BYTES, "
    ):
        read({"HYBRIDC_ZZZZZZZZZZZZZZ": "1"})


@pytest.mark.filterwarnings("error")
def test_variables_of_mxnet_that_change_nothing_here():
    read({"MXNET_PROFILER_AUTOSTART": "0", "MXNET_ENGINE_TYPE": "NaiveEngine", "MXNET_SUBGRAPH_BACKEND": "NONE"})
    with pytest.warns(UserWarning, match="MXNET_PROFILER_AUTOSTART has no effect here; use HYBRIDC_PROFILER_AUTOSTART"):
        read({"MXNET_PROFILER_AUTOSTART": "1"})


def test_a_home_that_is_not_there():
    with pytest.raises(OptionError, match=r"HYBRIDC_CACHE_DIR=~no-such-user/x: no such home directory"):
        read({"HYBRIDC_CACHE_DIR": "~no-such-user/x"})
    assert OPTIONS.cache.startswith("/")
