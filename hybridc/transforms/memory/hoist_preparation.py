"""Mark what depends on parameters alone as the program's preparation, and move it to the front.

A packed weight, a scale that follows from running statistics: between two writes of the parameters these are the same
in every call. Calls of kernels that read nothing but parameters, constants and results of each other get the attribute
``hybrid.preparation``. Memory planning puts what other calls read of them into memory that the executable keeps, which
runs them when a parameter is another array or was written (:mod:`hybridc.ground.watches`), and otherwise skips them.

Only graphs of predict mode without a backward have a preparation: in training, parameters change with every step. Host
calls may do anything, so they are called every time; so are kernels whose results are the caller's, parts of a
concatenation, or read by a host call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.graph_notes import PREPARATION
from hybridc.ground.records import dataclass
from hybridc.ir.concatenated import part_of
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.structured import (
    changes_parameters,
    indirect_operands,
    is_host,
    is_scaffold,
    is_view_op,
    kernels,
    lasting_parameters,
    parameters_of,
    root,
)
from hybridc.ir.values import functions


@dataclass(frozen=True)
class HoistPreparation(ModulePass):
    """See the module's docstring."""

    name = "hoist-preparation"
    needs: ClassVar[Needs] = frozenset((Fact.PARAMETER,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        called = kernels(op)
        hosts = {name for name, kernel in called.items() if is_host(kernel)}
        planned = [f for f in functions(op) if f.sym_visibility is None]
        if len(planned) == 1 and not changes_parameters(planned[0]):
            _hoist(planned[0], hosts)


def prepared_values(function: func.FuncOp) -> set[SSAValue]:
    """The parameters, and what follows from them alone: what is made of these will be part of the preparation.

    Views have the place of their roots.
    """
    known: set[SSAValue] = {*lasting_parameters(function)}
    scaffold: set[SSAValue] = set()  # the initial values of results, which say nothing of these
    for op in function.body.block.ops if known else ():
        if is_scaffold(op) or (is_view_op(op) and op.operands[0] in scaffold):
            scaffold.update(op.results)
            continue
        read = [v for v in op.operands if v not in scaffold]
        if known.issuperset(read) and known.issuperset(more := indirect_operands(op)) and (read or more):
            known.update(op.results)
    return known


def calls_of(value: SSAValue) -> Iterator[Operation]:
    """The operations, but for views, that read a value or a view of it."""
    for use in value.uses:
        if is_view_op(use.operation):
            yield from calls_of(use.operation.results[0])
        else:
            yield use.operation


def _hoist(function: func.FuncOp, hosts: set[str]) -> None:
    block = function.body.block
    end = block.last_op
    assert end is not None
    returned = {root(v) for v in end.operands}
    known: set[SSAValue] = {*parameters_of(function)}
    prepared: list[Operation] = []
    for op in block.ops:
        match op:
            case arith.ConstantOp():
                known.add(op.results[0])
            case func.CallOp() if op.callee.string_value() not in hosts:
                fixed = bool(op.operands) and all(root(v) in known for v in op.operands)
                if fixed and not any(v in returned or _is_apart(v, hosts) for v in op.results):
                    known.update(op.results)
                    prepared.append(op)
            case _:
                pass
    front: list[Operation] = []
    for call in prepared:
        PREPARATION.put(call, True)
        for index, value in enumerate(call.operands):
            call.operands[index] = _at_front(value, front)
            _erase_unused(value)
        call.detach()
        front.append(call)
    if front and block.first_op is not None:
        block.insert_ops_before(front, block.first_op)


def _is_apart(value: SSAValue, hosts: set[str]) -> bool:
    """Whether a value has a place of its own, or is read where only arrays of a call are known."""
    readers = (op for op in calls_of(value) if isinstance(op, func.CallOp))
    return part_of(value) is not None or any(op.callee.string_value() in hosts for op in readers)


def _at_front(value: SSAValue, front: list[Operation]) -> SSAValue:
    """A value as calls at the front can read it: views become views of their own, constants move there, too."""
    op = value.owner
    if is_view_op(op):
        view = op.clone({v: _at_front(v, front) for v in op.operands})
        view.results[0].name_hint = value.name_hint
        front.append(view)
        return view.results[0]
    if isinstance(op, arith.ConstantOp | tensor.EmptyOp) and op.parent is not None:
        op.detach()
        front.append(op)
    return value


def _erase_unused(value: SSAValue) -> None:
    """Erase a chain of views that nobody reads any more."""
    while is_view_op(op := value.owner) and not value.uses:
        value = op.operands[0]
        erase_op(op)
