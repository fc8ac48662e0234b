"""Verification after each pass sees whatever a pass did."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FloatAttr, ModuleOp, StringAttr, UnitAttr, f32, f64
from xdsl.ir import Block, Region

from hybridc.ir import spec as verified
from hybridc.ir.spec import Verifier


def module():
    """A function that adds its two arguments and returns what it gets; and a number that nobody needs."""
    block = Block(arg_types=[f32, f32])
    total = arith.AddfOp(*block.args)
    block.add_ops([arith.ConstantOp(FloatAttr(1.0, 32)), total, func.ReturnOp(total.result)])
    return ModuleOp([func.FuncOp("forward", ((f32, f32), (f32,)), Region(block))])


def parts(made):
    (function,) = made.ops
    block = function.body.block
    return function, block, block.first_op.next_op


def with_another_operand(made):
    _, block, total = parts(made)
    total.operands[1] = block.args[0]


def with_another_result_type(made):
    total = parts(made)[2]
    total.results[0]._type = f64


def with_another_argument_type(made):
    parts(made)[1].args[1]._type = f64


def with_an_attribute(made):
    parts(made)[2].attributes["noted"] = UnitAttr()


def with_another_property(made):
    total = parts(made)[2]
    total.properties["fastmath"] = arith.FastMathFlagsAttr("fast")


def with_one_operation_more(made):
    parts(made)[1].insert_op_before(arith.ConstantOp(FloatAttr(1.0, 32)), parts(made)[2])


def with_one_less(made):
    _, block, total = parts(made)
    block.last_op.operands[0] = block.args[0]
    block.erase_op(total)


def in_another_order(made):
    _, block, total = parts(made)
    total.detach()
    block.insert_op_before(total, block.first_op)


CHANGES = [
    with_another_operand, with_another_result_type, with_another_argument_type, with_an_attribute,
    with_another_property, with_one_operation_more, with_one_less, in_another_order,
]  # fmt: skip


@pytest.fixture
def checked(monkeypatch):
    """The names of the passes after which a module was checked; whatever it is, it is valid."""
    names = []
    for kind in (ModuleOp, func.FuncOp):
        monkeypatch.setattr(kind, "verify", lambda self, verify_nested_ops=True: None)
    monkeypatch.setattr(verified.spec, "check_level", lambda module, level, after: names.append(after))
    return names


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_change_is_seen(checked, change):
    made = module()
    verifier = Verifier(made, ())
    verifier.verify("one")
    verifier.verify("idle")
    change(made)
    verifier.verify("two")
    verifier.verify("idle")
    assert checked == ["one", "two"]


def test_another_level_is_another_question(checked):
    verifier = Verifier(module(), ())
    verifier.verify("one")
    verifier.verify("decompose")
    assert checked == ["one", "decompose"]


def test_functions_that_did_not_change_are_not_verified_again(monkeypatch):
    made = module()
    other = parts(module())[0]
    other.detach()
    other.sym_name = StringAttr("other")
    made.body.block.add_op(other)
    seen = []
    whole = func.FuncOp.verify
    monkeypatch.setattr(func.FuncOp, "verify", lambda self: seen.append(self) or whole(self))
    monkeypatch.setattr(verified.spec, "check_level", lambda module, level, after: None)
    verifier = Verifier(made, ())
    verifier.verify("one")
    other.attributes["noted"] = UnitAttr()
    verifier.verify("two")
    assert seen == [*made.ops, other]


def test_what_is_wrong_stays_wrong(monkeypatch):
    monkeypatch.setattr(verified.spec, "check_level", lambda module, level, after: None)
    made = module()
    verifier = Verifier(made, ())
    verifier.verify("one")
    with_another_result_type(made)
    for _ in range(2):
        with pytest.raises(Exception, match="verif"):
            verifier.verify("two")
