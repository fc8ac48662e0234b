"""The fuzzer of mx.np: its programs are text, they hold, and a planted fault is found and shrunk."""

from __future__ import annotations

import pytest

from hybridc.np import by_element
from hybridc.tools.fuzz.main import NUMPY, fuzz
from hybridc.tools.fuzz.numpy_program import NumpyProgram, check_numpy, numpy_program, numpy_source, shrink_numpy

PROGRAMS = 60


def test_programs_are_text_and_differ():
    programs = [numpy_program(1, i) for i in range(PROGRAMS)]
    assert len(set(programs)) > PROGRAMS - 5
    assert all(NumpyProgram.from_json(p.to_json()) == p for p in programs)
    assert len({name for p in programs for name in p.names()}) > 80


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_a_program_holds(number):
    failure = check_numpy(numpy_program(7, number))
    assert failure is None, (failure.kind, failure.text)


def test_a_worker_checks_them():
    report = fuzz(5, ["numpy"], count=5, fuzzed=NUMPY)
    assert report.programs == 5
    assert not report.found


def test_a_fault_is_found_and_shrunk(monkeypatch):
    true = by_element.maximum
    monkeypatch.setattr("hybridc.np.maximum", lambda x1, x2: true(x1, x2) + (x2 > 2))

    def fails(program):
        found = check_numpy(program)
        return found is not None and found.kind == "values"

    program = next(p for p in (numpy_program(2, i) for i in range(400)) if fails(p))
    small = shrink_numpy(program, fails, 20)
    assert fails(small)
    assert sum("maximum" in step for step in small.steps) == 1
    assert len(small.outputs) == 1
    assert "np.maximum" in numpy_source(small, "llvm", "values")
