"""The levels of the lowering, each reached by its passes alone, for the tests that compare them."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.parser import Parser
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from hybridc import random
from hybridc.compile.pipeline import context
from hybridc.ir import spec
from hybridc.ir.concatenated import strided_arrays
from hybridc.ir.kernels.kernel_module import kernel_functions
from hybridc.ir.structured import VIEWS, loop_sizes, places_of
from hybridc.lower.numpy.emit_module import emit_python_program
from hybridc.runtime.executable import PythonExecutable
from hybridc.tools.check_op.check_compiled import _EXTRA
from hybridc.transforms.code.array_code import ArrayCode, ArrayCodes
from hybridc.transforms.memory.plan_memory import PlanMemory
from hybridc.transforms.memory.verify_plan import VerifyPlan
from hybridc.transforms.structured.hybrid_to_linalg import HybridToLinalg
from hybridc.transforms.views.fold_views import FoldViews
from tests.lower.outline import outline

CLEANUP = (CommonSubexpressionElimination(), DeadCodeElimination())


def inputs_of(trace, arrays):
    """What the compiled graph of one more input passes: the data, and the key of the run."""
    given = iter([_EXTRA.asnumpy(), *arrays])
    with random.isolated(11):
        return [trace.random_key().asnumpy() if role == "key" else next(given) for role in trace.roles]


def saved(function):
    """Which of the forward's inputs and results the backward takes."""
    places = function.attributes["hybrid.saved"]
    assert isinstance(places, DenseArrayBase)
    return places.get_values()


def parses_to_itself(printed):
    if "#hybrid.handle" in printed:  # an object of this process
        return
    module = Parser(context(), printed).parse_module()
    module.verify()
    assert str(module) == printed


def numpy_form(stage):
    """The structured form as the NumPy target wants it."""
    module = stage.module.clone()
    for each in (HybridToLinalg(), *CLEANUP):
        each.apply(Context(), module)
    spec.check_level(module, spec.level_after("hybrid-to-linalg", "structured"), "hybrid-to-linalg")
    return module


def without_views(module):
    """The module with its views folded into loops; None if there is nothing to fold."""
    folded = module.clone()
    FoldViews().apply(Context(), folded)
    if folded.is_structurally_equivalent(module):
        return None
    for each in CLEANUP:
        each.apply(Context(), folded)
    folded.verify()
    spec.check_level(folded, spec.level_after("fold-views", "structured"), "fold-views")
    for function in [op for op in folded.ops if isinstance(op, FuncOp) and op.body.blocks]:
        check_folded(function)
    return folded


def check_folded(function):
    """What every function without views is like."""
    for op in function.body.block.ops:
        if isinstance(op, (*VIEWS, linalg.GenericOp, linalg.MatmulOp)):
            assert "hybrid.operator" in op.attributes, op
        if not isinstance(op, linalg.GenericOp):
            continue
        maps = [list(places) for places in places_of(op)]
        kinds = [k.data.value for k in op.iterator_types.data]
        assert maps[-1] == list(range(len(maps[-1]))), "the loops of the result come first, in its order"
        assert kinds == ["parallel"] * len(maps[-1]) + ["reduction"] * (len(kinds) - len(maps[-1]))
        sizes = loop_sizes(op, maps)
        assert 1 not in sizes, op
        if 0 not in sizes:
            for value in op.inputs:
                assert not isinstance(value.owner, linalg.TransposeOp), "loops read through an indexing map"


def planned(module, donated=()):
    """Each operation a kernel of its own, its memory planned and the plan verified, in this very module."""
    outline(module)
    strided = strided_arrays(module)
    for name, function in kernel_functions(module).items():
        views = sorted({i for call in strided.get(name, ()) for i in call})
        scratch = ArrayCode(function.kernel, 2, frozenset(views)).bytes
        function.attributes["hybrid.scratch"] = IntegerAttr(scratch, i64)
        if views:
            function.attributes["hybrid.strided"] = DenseArrayBase.from_list(i64, views)
    for function in module.ops:
        if function.sym_visibility is None and donated:
            function.attributes["hybrid.donated"] = DenseArrayBase.from_list(i64, donated)
    spec.check_level(module, "kernels", "outline")
    for each in (PlanMemory(), VerifyPlan()):
        each.apply(Context(), module)
    module.verify()
    spec.check_level(module, "plan", "plan-memory")
    return module


def program(module, name="forward", poison=True):
    """A function of a planned module, run by NumPy."""
    return PythonExecutable(emit_python_program(module, name, ArrayCodes(2), poison))
