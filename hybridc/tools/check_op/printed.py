"""Check of an operator's form in the IR: what is printed parses to the same operation."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Region
from xdsl.parser import Parser

from hybridc.compile import pipeline
from hybridc.compile.lowering_stages import mlir_text
from hybridc.dialects.mlir.hybrid import HandleAttr, HybridOp, tensor_type
from hybridc.dialects.operator import Opaque
from hybridc.ground.location import Location
from hybridc.tools.check_op.case import Case, each_sample, equal, fail, keyed, require
from hybridc.tools.check_op.checks import check

_FILE, _LINE, _BLOCK = "model.py", 7, "net"


def operation(case: Case) -> tuple[Any, Any]:
    """A module with a function that applies the operator, and the operation in it."""
    operator = case.unbound()
    types = [tensor_type(x.shape, x.dtype) for x in keyed(operator, case.arrays())]
    block = Block(arg_types=types)
    op = HybridOp.build_op(operator, list(block.args), Location(_FILE, _LINE, _BLOCK))
    block.add_ops([op, func.ReturnOp(*op.results)])
    kind = FunctionType.from_lists(types, [r.type for r in op.results])
    return ModuleOp([func.FuncOp("f", kind, Region(block))]), op


@check(each_sample)
def print_and_parse(case: Case) -> str | None:
    """The operation verifies, and its text parses to the same operation, location included."""
    module, op = operation(case)
    module.verify()
    if any(isinstance(a, HandleAttr) for a in op.attributes.values()):
        require(issubclass(case.cls, Opaque), "an attribute is a Python object; only host calls may refer to such")
        return "not parsed: an attribute is a Python object"
    printed = mlir_text(module, locations=True)
    again = Parser(pipeline.context(), printed).parse_module()
    again.verify()
    equal(mlir_text(again, locations=True), printed, "text after parsing and printing")
    found = [o for o in again.walk() if isinstance(o, HybridOp)]
    equal(len(found), 1, "number of operations")
    if found[0].operator is not op.operator or found[0].location != op.location:
        raise fail(f"parsed again it is {found[0].operator} at {found[0].location}")
    return None
