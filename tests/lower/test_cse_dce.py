"""cse and dce leave what xDSL's own passes of these names leave, at every stage of a compilation."""

from __future__ import annotations

import cProfile

import pytest
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.transforms import common_subexpression_elimination, dead_code_elimination

import hybridc as mx
from hybridc.compile import pipeline, stages
from hybridc.gluon import nn
from hybridc.lower.llvm.native_target import native_machine
from hybridc.trace.tracer import trace_call
from hybridc.transforms.graph.cse import CommonSubexpressionElimination
from hybridc.transforms.graph.dce import DeadCodeElimination

OURS = CommonSubexpressionElimination(), DeadCodeElimination()
THEIRS = (
    common_subexpression_elimination.CommonSubexpressionElimination(),
    dead_code_elimination.DeadCodeElimination(),
)


class Block(mx.gluon.HybridBlock):
    """Equal parts, unused parts, draws that are no equals, and a library call."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.norm = nn.LayerNorm(in_channels=8)
            self.dense = nn.Dense(8, flatten=False, in_units=8)

    def hybrid_forward(self, F, x):
        F.exp(x)  # nobody asks for it
        h = self.dense(self.norm(x)) + self.dense(self.norm(x))
        drawn = F.random.uniform(shape=(2, 4, 8)) + F.random.uniform(shape=(2, 4, 8))
        scores = F.softmax(F.batch_dot(h, h, transpose_b=True)) + F.softmax(F.batch_dot(h, h, transpose_b=True))
        return F.batch_dot(scores, F.Dropout(h, p=0.5)) + F.sort(x) + F.sort(x) + drawn


def steps(F, x):
    """Three equal steps over slices of which some are equal, too."""
    state = F.zeros_like(F.slice_axis(x, axis=1, begin=0, end=1))
    for i in (0, 1, 0):
        part = F.slice_axis(x, axis=1, begin=i, end=i + 1)
        state = F.tanh(part) * F.sigmoid(state) + F.tanh(part) * F.mean(state)
    return F.concat(state, F.tanh(state), F.tanh(state), dim=1)


def after_each(net, *arrays):
    """The module of a network and its gradient, after each pass that changes it."""
    net.initialize()
    with mx.autograd.record():
        trace = trace_call(net, list(arrays), True)
    module = stages.Traced(trace, tuple(range(len(trace.leaves)))).module
    found = [module.clone()]
    for each in (*pipeline.graph_passes(), *pipeline.llvm_kernels(native_machine())):
        each.apply(Context(), module)
        if not module.is_structurally_equivalent(found[-1]):
            found.append(module.clone())
    return found


def applied(passes, module):
    """What passes make of a module, as text: after one, then after both."""
    made = module.clone()
    texts = []
    for each in passes:
        each.apply(Context(), made)
        made.verify()
        texts.append(str(made))
    return texts


@pytest.mark.parametrize(
    ("net", "shape"),
    [pytest.param(Block, (2, 4, 8), marks=pytest.mark.long), (lambda: nn.HybridLambda(steps), (2, 3, 5))],
    ids=["block", "steps"],
)
def test_networks(net, shape):
    modules = after_each(net(), mx.nd.ones(shape))
    changed = 0
    for module in modules:
        ours = applied(OURS, module)
        assert ours == applied(THEIRS, module)
        changed += ours[1] != str(module)
    assert changed >= 3


NESTED = """
builtin.module {
  func.func @f(%x: tensor<4xf32>, %e: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %two = arith.constant 2.000000e+00 : f32
    %unused = arith.constant 3.000000e+00 : f32
    %a = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i)->(i)>], iterator_types = ["parallel"]}
        ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%v: f32, %w: f32):
      %c = arith.constant 2.000000e+00 : f32
      %p = arith.mulf %v, %c : f32
      %q = arith.mulf %v, %two : f32
      %r = arith.addf %p, %q : f32
      linalg.yield %r : f32
    } -> tensor<4xf32>
    %b = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i)->(i)>], iterator_types = ["parallel"]}
        ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%v: f32, %w: f32):
      %p = arith.mulf %v, %two : f32
      %r = arith.addf %p, %p : f32
      linalg.yield %r : f32
    } -> tensor<4xf32>
    %d = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i)->(i)>], iterator_types = ["parallel"]}
        ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%v: f32, %w: f32):
      %d = arith.constant 4.000000e+00 : f32
      %r = arith.mulf %d, %v : f32
      linalg.yield %r : f32
    } -> tensor<4xf32>
    func.return %a, %b, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.func @g() -> f32 {
    %two = arith.constant 2.000000e+00 : f32
    func.return %two : f32
  }
}
"""


def test_constants_of_a_block_are_known_in_it_and_its_loops_only():
    module = Parser(pipeline.context(), NESTED).parse_module()
    ours = applied(OURS, module)
    assert ours == applied(THEIRS, module)
    assert ours[1].count("arith.constant") == 3  # two in @f, 4 in the other loop, two in @g


def test_slices_of_one_array_are_compared_with_their_equals_alone():
    class Slices(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            y = F.exp(x)
            return [F.slice_axis(y, axis=0, begin=i % 50, end=i % 50 + 2) for i in range(100)]

    made = Slices().trace(mx.nd.ones((64, 3)))
    with cProfile.Profile() as profile:
        made.optimize()
    compared = [entry.callcount for entry in profile.getstats() if "_are_equal" in str(entry.code)]
    assert 50 <= sum(compared) < 200
