"""Operators of installed packages: found through entry points when a name is first not known."""

from __future__ import annotations

import subprocess
import sys

import pytest

OPERATOR = '''
import hybridc as mx
from hybridc import op

@op.register("{dialect}.{name}")
class Made(op.Elementwise):
    """{factor} * x"""

    def scalar(self, b, x):
        return b.mul(x, {factor})
'''


def install(folder, package, entries, **modules):
    """A package in ``folder``, as pip would leave it there."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text("")
    for name, text in modules.items():
        (folder / package / f"{name}.py").write_text(text)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hybridc.operators]\n" + "\n".join(entries) + "\n")


@pytest.fixture
def packages(tmp_path):
    """Three packages: one good, one that raises, one that names a module which is not there."""
    good = OPERATOR.format(dialect="good", name="triple", factor=3.0)
    install(tmp_path, "good_ops", ["triple = good_ops.operators"], operators=good)
    install(tmp_path, "bad_ops", ["bad = bad_ops.operators"], operators="1 / 0\n")
    install(tmp_path, "gone_ops", ["gone = gone_ops.nowhere"])
    return tmp_path


def run(folder, code):
    """What a process prints that has the packages installed, and its warnings."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\nimport hybridc as mx\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout, done.stderr


USES = {
    "mx.nd": "print(mx.nd.triple(mx.nd.ones(2)).asnumpy())",
    "mx.sym": "print(mx.sym.triple(mx.sym.var('x')).eval(x=mx.nd.ones(2))[0].asnumpy())",
    "mx.op": "print(mx.op.get('good.triple').bind().eager(mx.nd.ones(2).asnumpy()))",
    "hybridized": (
        "class Net(mx.gluon.HybridBlock):\n"
        "    def hybrid_forward(self, F, x):\n"
        "        return F.triple(x)\n"
        "net = Net(); net.hybridize(); print(net(mx.nd.ones(2)).asnumpy())"
    ),
}


@pytest.mark.parametrize("use", USES)
def test_operators_are_there_and_broken_packages_are_named(packages, use):
    printed, warnings = run(packages, USES[use])
    assert printed == "[3. 3.]\n"
    said = [line for line in warnings.splitlines() if "UserWarning" in line]
    texts = {
        "bad_ops.operators": "ZeroDivisionError: division by zero",
        "gone_ops.nowhere": "ModuleNotFoundError: No module named 'gone_ops.nowhere'",
    }
    assert sorted(line.partition("UserWarning: ")[2] for line in said) == [
        f"the operators {module!r} of package {module.partition('.')[0]!r} could not be loaded: {text}"
        for module, text in texts.items()
    ]


def test_nothing_is_loaded_before_a_name_is_not_found(packages):
    printed, warnings = run(
        packages,
        "mx.nd.relu(mx.nd.ones(2)); print([m for m in sys.modules if m in ('good_ops', 'bad_ops')])\n"
        "print(hasattr(mx.nd, 'triple'), hasattr(mx.nd, 'quadruple'))",
    )
    assert printed == "[]\nTrue False\n"
    assert warnings.count("could not be loaded") == 2  # once each


def test_check_op_finds_them(packages):
    printed, _ = run(packages, "from hybridc.tools.check_op.check_report import find; print(find('good.triple').NAME)")
    assert printed == "good.triple\n"
