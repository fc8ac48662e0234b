"""Facts of a module: what kinds of operations it has, so that passes that would find none are not run.

A pass states what it needs::

    needs: ClassVar[Needs] = frozenset((Fact.CONTRACTION,))

and the pipeline skips it where the module has none of these. One walk over the module collects all facts, when a pass
asks for the first time after another one has run. With ``HYBRIDC_VERIFY`` the pipeline runs skipped passes, too, and
raises if one changes something. A pass that states nothing is always run.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import cast

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.graph_notes import GRADS, LASTING, ROLES, SAVED
from hybridc.dialects.mlir.hybrid import HybridOp
from hybridc.dialects.mlir.hybrid_rt import SizeOp
from hybridc.dialects.operator import Operator
from hybridc.ir.kernels.kernel_module import KernelFunction
from hybridc.ir.structured import affine_operands, places_of
from hybridc.ir.values import functions


class Fact(enum.Enum):
    """Something that a module has."""

    REWRITTEN = "operations since equal and unused ones were removed"
    GRADIENTS = "a function with gradients to compute, or a backward"
    SIMPLIFIABLE = "an operator with a rule that simplifies"
    CONSTANT = "an operator without inputs"
    COMPOSITE = "an operator that may be made of others"
    HANDWRITTEN = "an operator that may have a handwritten kernel"
    CONTRACTION = "a sum of products of two arrays"
    SOFTMAX = "two contractions and a reduction of one array, as in an attention"
    WINDOWS = "an array that is read at sums of loops"
    INDIRECT = "an array that is read at computed indices"
    SLICE = "a slice or a concatenation"
    ORDER = "something that another order of an array's elements in memory may serve: a view, a fill, a contraction"
    PARAMETER = "a parameter or a constant array, from which alone something may follow"


Needs = frozenset[Fact]


def needs_of(module_pass: ModulePass) -> Needs:
    """The facts of which a pass needs one to change anything; none if it states none."""
    return getattr(module_pass, "needs", frozenset())


class Facts:
    """The facts of a module while passes run on it."""

    def __init__(self, module: ModuleOp) -> None:
        self._module = module
        self._rewritten = True
        self._collected: set[Fact] | None = None

    def suit(self, needs: Needs) -> bool:
        """Whether a pass with these needs may change something."""
        if not needs:
            return True
        if Fact.REWRITTEN in needs:
            return self._rewritten
        if self._collected is not None:
            return not needs.isdisjoint(self._collected)
        collected: set[Fact] = set()
        for fact in (fact for function in functions(self._module) for fact in _facts_of(function)):
            if fact in needs:  # the others are not asked for: what the pass changes may change them
                return True
            collected.add(fact)
        self._collected = collected
        return False

    def follow(self, module_pass: ModulePass) -> None:
        """A pass has run."""
        self._collected = None
        if Fact.REWRITTEN not in needs_of(module_pass):
            self._rewritten = True
        elif getattr(module_pass, "settles", False):
            self._rewritten = False


def _facts_of(function: func.FuncOp) -> Iterator[Fact]:
    """The facts of a function."""
    if isinstance(function, KernelFunction):
        if any(nest.contraction is not None for nest in function.kernel.nests):
            yield Fact.CONTRACTION
        return
    if GRADS.is_on(function) or SAVED.is_on(function):
        yield Fact.GRADIENTS
    if any(role in LASTING for role in ROLES.of(function)):
        yield Fact.PARAMETER
    contractions, reductions = 0, 0
    for op in function.body.block.ops if function.body.blocks else ():
        kind = type(op)
        if issubclass(kind, HybridOp):
            yield from _facts_of_operator(kind.OPERATOR)
            if not op.operands:
                yield Fact.CONSTANT
        elif kind is linalg.GenericOp or kind is linalg.MatmulOp:
            places, affine = places_of(cast(linalg.GenericOp, op)), affine_operands(op)
            reduces, inputs = len(places[-1]) < len({loop for place in places for loop in place}), len(op.operands) - 1
            contractions += reduces and inputs > 1
            reductions += reduces and inputs == 1
            if affine:
                yield Fact.WINDOWS
            if affine or (reduces and inputs > 1) or any(tuple(sorted(place)) != place for place in places):
                yield Fact.ORDER
            if any(inner.name == tensor.ExtractOp.name for inner in op.regions[0].block.ops):
                yield Fact.INDIRECT
        elif kind not in _PLAIN:
            yield Fact.ORDER
            if kind in _SLICES:
                yield Fact.SLICE
        elif kind is arith.ConstantOp:
            yield Fact.PARAMETER
    if contractions:
        yield Fact.CONTRACTION
    if contractions > 1 and reductions:
        yield Fact.SOFTMAX


_SLICES = frozenset((tensor.ExtractSliceOp, tensor.ConcatOp))
# Operations for which the order of elements in memory makes no difference.
_PLAIN = frozenset((arith.ConstantOp, SizeOp, tensor.EmptyOp, func.ReturnOp))


_OF_METHODS = {"simplify": Fact.SIMPLIFIABLE, "decomposes": Fact.COMPOSITE, "kernel": Fact.HANDWRITTEN}


def _facts_of_operator(kind: type[Operator]) -> list[Fact]:
    """The facts of an operator's class: those of its methods that are not the ones of all operators."""
    return [fact for name, fact in _OF_METHODS.items() if getattr(kind, name) is not getattr(Operator, name)]
