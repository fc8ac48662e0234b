"""Loops, choices, functions, memory and vectors of loop form, run as machine code, against NumPy."""

from __future__ import annotations

import numpy as np

from tests.lower.llvm.loops import compute, region
from tests.lower.llvm.native import run


def test_sums_of_rows():
    body = """%z = arith.constant 0.0 : f32
    scf.for %i = %lo to %hi step %one {
      %row = arith.muli %i, %n : index
      %s = scf.for %j = %zero to %n step %one iter_args(%a = %z) -> (f32) {
        %p = arith.addi %row, %j : index
        %v = memref.load %x[%p] : memref<?xf32>
        %w = arith.addf %a, %v fastmath<reassoc, nsz, contract> : f32
        scf.yield %w : f32
      }
      memref.store %s, %y[%i] : memref<?xf32>
    }"""
    source = region("%x: memref<?xf32>, %y: memref<?xf32>, %n: index", body)
    for columns in (0, 1, 7, 8, 33, 200):
        x = np.random.default_rng(columns).standard_normal((6, columns)).astype("f4")
        _, got = run(source, [x, np.ones(6, "f4")], [columns], extent=6, cuts=[1, 4])
        np.testing.assert_allclose(got, x.astype("f8").sum(1), rtol=1e-5, atol=1e-5)


def test_several_values_go_around_a_loop():
    body = """%z = arith.constant 0 : i64
    %o = arith.constant 1 : i64
    %a, %b = scf.for %i = %lo to %hi step %one iter_args(%p = %z, %q = %o) -> (i64, i64) {
      %r = arith.addi %p, %q : i64
      scf.yield %q, %r : i64, i64
    }
    memref.store %a, %y[%zero] : memref<?xi64>"""
    (got,) = run(region("%y: memref<?xi64>", body), [np.zeros(1, "i8")], extent=50)
    assert got[0] == 12586269025


def test_choices_and_loops_until():
    body = """%two = arith.constant 2 : i64
    %three = arith.constant 3 : i64
    %w = arith.constant 1 : i64
    %z = arith.constant 0 : i64
    scf.for %i = %lo to %hi step %one {
      %v = memref.load %x[%i] : memref<?xi64>
      %last, %steps = scf.while (%c = %v, %s = %z) : (i64, i64) -> (i64, i64) {
        %go = arith.cmpi sgt, %c, %w : i64
        scf.condition(%go) %c, %s : i64, i64
      } do {
      ^bb0(%c: i64, %s: i64):
        %bit = arith.andi %c, %w : i64
        %odd = arith.cmpi eq, %bit, %w : i64
        %next = scf.if %odd -> (i64) {
          %t = arith.muli %c, %three : i64
          %u = arith.addi %t, %w : i64
          scf.yield %u : i64
        } else {
          %h = arith.divsi %c, %two : i64
          scf.yield %h : i64
        }
        %s1 = arith.addi %s, %w : i64
        scf.yield %next, %s1 : i64, i64
      }
      %long = arith.cmpi sgt, %steps, %three : i64
      scf.if %long {
        memref.store %steps, %y[%i] : memref<?xi64>
      }
    }"""

    def collatz(n):
        steps = 0
        while n > 1:
            n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
        return steps

    x = np.arange(1, 30)
    steps = np.array([collatz(int(n)) for n in x])
    _, got = run(region("%x: memref<?xi64>, %y: memref<?xi64>", body), [x, x * 0 - 1], extent=len(x), cuts=[10])
    np.testing.assert_array_equal(got, np.where(steps > 3, steps, -1))


def test_private_functions_with_and_without_results():
    functions = """
  func.func private @twice(%v: f32) -> f32 {
    %h = func.call @half(%v) : (f32) -> f32
    %four = arith.constant 4.0 : f32
    %w = arith.mulf %h, %four : f32
    func.return %w : f32
  }
  func.func private @half(%v: f32) -> f32 {
    %two = arith.constant 2.0 : f32
    %w = arith.divf %v, %two : f32
    func.return %w : f32
  }
  func.func private @nothing() {
    func.return
  }"""
    x = np.arange(9, dtype="f4")
    body = "func.call @nothing() : () -> ()\n%r = func.call @twice(%0) : (f32) -> f32"
    np.testing.assert_array_equal(compute(body, "f4", x, functions=functions), 2 * x)


def test_numbers_of_every_type():
    body = """%f = arith.extf %b : f32 to f64
    %g = arith.sitofp %c : i64 to f64
    %k = arith.index_cast %a : index to i64
    %h = arith.sitofp %k : i64 to f64
    %1 = arith.addf %f, %g : f64
    %2 = arith.addf %1, %h : f64
    %3 = arith.addf %2, %d : f64
    memref.store %3, %y[%zero] : memref<?xf64>"""
    source = region("%y: memref<?xf64>, %a: index, %b: f32, %c: i64, %d: f64", body)
    (got,) = run(source, [np.zeros(1)], [-7, np.float32(0.25), 2**40, np.float64(0.125)])
    assert got[0] == -7 + 0.25 + 2**40 + 0.125


def test_scratch_memory_of_threads_and_of_calls():
    body = """%n = arith.subi %hi, %lo : index
    %four = arith.constant 4 : index
    %half = arith.muli %n, %four : index
    %a = memref.view %scratch[%zero][%n] : memref<?xi8> to memref<?xf32>
    %b = memref.view %scratch[%half][%n] : memref<?xi8> to memref<?xf32>
    %own = memref.alloca() : memref<1xf32>
    scf.for %i = %zero to %n step %one {
      %p = arith.addi %lo, %i : index
      %v = memref.load %x[%p] : memref<?xf32>
      memref.store %v, %a[%i] : memref<?xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %b[%i] : memref<?xf32>
    }
    scf.for %i = %zero to %n step %one {
      %v = memref.load %a[%i] : memref<?xf32>
      memref.store %v, %own[%zero] : memref<1xf32>
      %u = memref.load %own[%zero] : memref<1xf32>
      %w = memref.load %b[%i] : memref<?xf32>
      %s = arith.addf %u, %w : f32
      %p = arith.addi %lo, %i : index
      memref.store %s, %y[%p] : memref<?xf32>
    }"""
    x = np.arange(100, dtype="f4")
    source = region("%x: memref<?xf32>, %y: memref<?xf32>", body)
    _, got = run(source, [x, 0 * x], extent=100, cuts=[64], scratch=64 * 8)
    np.testing.assert_array_equal(got, 3 * x)


def test_vectors():
    body = """%eight = arith.constant 8 : index
    %c = arith.constant dense<0.5> : vector<8xf32>
    scf.for %i = %lo to %hi step %eight {
      %v = vector.load %x[%i] : memref<?xf32>, vector<8xf32>
      %s = memref.load %x[%i] : memref<?xf32>
      %b = vector.broadcast %s : f32 to vector<8xf32>
      %f = vector.fma %v, %b, %c : vector<8xf32>
      %m = arith.mulf %f, %c : vector<8xf32>
      vector.store %m, %y[%i] : memref<?xf32>, vector<8xf32>
      %t = vector.reduction <add>, %m : vector<8xf32> into f32
      %u = vector.reduction <maximumf>, %m : vector<8xf32> into f32
      %k = arith.divui %i, %eight : index
      memref.store %t, %sums[%k] : memref<?xf32>
      memref.store %u, %greatest[%k] : memref<?xf32>
    }"""
    arguments = "%x: memref<?xf32>, %y: memref<?xf32>, %sums: memref<?xf32>, %greatest: memref<?xf32>"
    x = np.random.default_rng(0).standard_normal(32).astype("f4")
    few = np.zeros(4, "f4")
    _, y, sums, greatest = run(region(arguments, body), [x, 0 * x, few, few], extent=32, cuts=[16])
    rows = x.reshape(4, 8).astype("f8")
    expected = (rows * rows[:, :1] + 0.5) * 0.5
    np.testing.assert_allclose(y.reshape(4, 8), expected, rtol=1e-6)
    np.testing.assert_allclose(sums, expected.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(greatest, y.reshape(4, 8).max(1))


def test_vectors_are_permuted():
    body = """%v = vector.load %x[%zero] : memref<?xf32>, vector<4xf32>
    %w = vector.shuffle %v, %v [3, 2, 1, 4] : vector<4xf32>, vector<4xf32>
    vector.store %w, %y[%zero] : memref<?xf32>, vector<4xf32>"""
    x = np.arange(4, dtype="f4")
    _, got = run(region("%x: memref<?xf32>, %y: memref<?xf32>", body), [x, 0 * x])
    np.testing.assert_array_equal(got, x[[3, 2, 1, 0]])
