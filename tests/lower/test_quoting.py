"""No text of a user is executed: it stays a comment or a docstring, or becomes a name, in what every target writes."""

import ast
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.errors import VerifyError
from hybridc.ground.quoting import docstring, one_line
from hybridc.lower.numpy.emit_module import emit_python_program
from hybridc.transforms.code.array_code import ArrayCodes

HOSTILE = [
    '"""\n    PWNED()\n    """',
    '\\"""\nPWNED()\n',
    "'''\n    PWNED()",
    "\rPWNED()",
    "\x0cPWNED()\x0b\x1c\u2028\u2029\x85",
    "\\",
    '"',
    "</script><script>PWNED()</script>",
    "\udcff\x00 not UTF-8",
    "../../PWNED",
]


@mx.operator.register('x"""\nPWNED()')
class Prop(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        class Op(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0] * 2)

        return Op()


class Net(mx.gluon.HybridBlock):
    def __init__(self, **names):
        super().__init__(**names)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(4, 4), init="ones")

    def hybrid_forward(self, F, x, weight):
        y = F.softmax(F.FullyConnected(x, weight, num_hidden=4, no_bias=True, name=self.prefix) * 3, name=self.prefix)
        return F.Custom(y, op_type='x"""\nPWNED()', name=self.prefix) + F.topk(x, k=4, axis=1)


def net(text):
    made = Net(prefix=text)
    # The user's file has such a name, too.
    scope = {"forward": None}
    code = "def forward(self, F, x, weight):\n    return plain(self, F, F.tanh(x), weight)\n"
    exec(compile(code, text.replace("\0", "") or "file", "exec"), scope, scope)
    scope["plain"] = Net.hybrid_forward
    made.hybrid_forward = scope["forward"].__get__(made)
    made.initialize()
    return made


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_names_of_blocks_operators_and_files_stay_text(text):
    block, x = net(text), mx.nd.ones((2, 4))
    expected = block(x).asnumpy()
    traced = block.trace(x)
    optimized = traced.optimize()
    found = [optimized.lower("numpy").programs["forward"].source]
    found += [f.source for _, called in optimized.lower("triton").programs["forward"].calls for f in called]
    assert len(found) > 1
    for source in found:
        source.encode()  # it can be written to a file
        assert source.splitlines() == source.split("\n")[:-1]  # lines have the numbers that Python gives them
        assert "PWNED" not in {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    with pytest.raises(ParseError, match="a handle names an object"):  # not before: all texts are string literals
        Parser(pipeline.context(), str(traced)).parse_module()
    block.hybridize()
    np.testing.assert_allclose(block(x).asnumpy(), expected, rtol=1e-6)
    assert "<script>PWNED" not in str(block.explain().html())


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_docstring_gives_the_text_back(text):
    made = ast.parse(f'def f():\n    """{docstring(text)}"""\n')
    assert ast.get_docstring(made.body[0], clean=False) == one_line(text)


def test_keywords_and_functions_of_python_are_names_of_arguments():
    names = ["lambda", "np", "arena", "y0", "None", "a b", "1", "print"]
    found = mx.sym.add_n(*[mx.sym.var(n) for n in names])
    executor = found.bind(mx.cpu(), {n: mx.nd.full((2,), i) for i, n in enumerate(names)})
    assert executor.forward()[0].asnumpy().tolist() == [28, 28]


def test_a_dump_stays_in_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "OPTIONS", replace(pipeline.OPTIONS, dump=str(tmp_path / "inside")))
    pipeline.dump("../../out\udcff.mlir", "x = \udcff")
    assert [p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.mlir")] == ["inside/.._.._out_.mlir"]


@pytest.mark.parametrize("name", ["f(): PWNED()\ndef g", "class"])
def test_a_plan_whose_functions_python_cannot_name_is_refused(name):
    module = Parser(pipeline.context(), "func.func @f() { func.return }").parse_module()
    function = module.body.block.first_op
    function.sym_name = StringAttr(name)
    with pytest.raises(VerifyError, match="its name must be a Python identifier, no keyword"):
        emit_python_program(module, name, ArrayCodes(1))
