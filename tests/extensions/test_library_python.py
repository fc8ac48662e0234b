"""``mx.library.load`` of Python files and packages that register operators."""

import sys

import numpy as np
import pytest

import hybridc as mx
from hybridc.dialects import operator_registry
from hybridc.errors import MXNetError

SQUARE = '''
import hybridc as mx

@mx.op.register("filetest.{name}")
class {title}(mx.op.Elementwise):
    """x * x"""

    def scalar(self, b, x):
        return b.mul(x, x)
'''


@pytest.fixture(autouse=True)
def clean():
    """What a test registers and imports is gone after it."""
    modules, operators, functions = (
        set(sys.modules),
        dict(operator_registry.operators()),
        dict(operator_registry.functions()),
    )
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    for table, before in ((operator_registry.operators(), operators), (operator_registry.functions(), functions)):
        table.clear()
        table.update(before)


def square(name):
    return SQUARE.format(name=name, title=name.title().replace("_", ""))


def test_file(tmp_path, capfd):
    path = tmp_path / "squaring_ops.py"
    path.write_text(square("file_square"))
    module = mx.library.load(str(path))
    np.testing.assert_array_equal(mx.nd.file_square(mx.nd.array([2, 3])).asnumpy(), [4, 9])
    assert module is sys.modules["squaring_ops"]
    assert capfd.readouterr().err == "Found 1 operators in library\n\tOp[0] filetest.file_square\n"


def test_relative_path(tmp_path, monkeypatch):
    (tmp_path / "relative_ops.py").write_text(square("relative_square"))
    monkeypatch.chdir(tmp_path)
    mx.library.load("relative_ops.py", verbose=False)
    assert mx.nd.relative_square(mx.nd.array([3])).asscalar() == 9


def test_package(tmp_path):
    package = tmp_path / "package_of_ops"
    package.mkdir()
    (package / "__init__.py").write_text("from package_of_ops import first\nfrom . import second\n")
    (package / "first.py").write_text(square("first_square"))
    (package / "second.py").write_text(square("second_square"))
    mx.library.load(str(package), verbose=False)
    assert mx.nd.first_square(mx.nd.array([3])).asscalar() == 9
    assert mx.nd.second_square(mx.nd.array([4])).asscalar() == 16


def test_again_after_an_edit(tmp_path):
    path = tmp_path / "edited_ops.py"
    path.write_text(square("edited_square"))
    mx.library.load(str(path), verbose=False)
    path.write_text(square("edited_square").replace("b.mul(x, x)", "b.mul(x, b.mul(x, x))"))
    mx.library.load(str(path), verbose=False)
    assert mx.nd.edited_square(mx.nd.array([3])).asscalar() == 27


def test_name_of_another_module(tmp_path):
    """A file called as an imported module does not replace it."""
    path = tmp_path / "json.py"
    path.write_text(square("json_square"))
    import json

    module = mx.library.load(str(path), verbose=False)
    assert sys.modules["json"] is json
    assert module.__name__.startswith("json_")
    assert mx.nd.json_square(mx.nd.array([3])).asscalar() == 9


def test_name_that_is_no_identifier(tmp_path):
    path = tmp_path / "my-ops 2.py"
    path.write_text(square("odd_square"))
    mx.library.load(str(path), verbose=False)
    assert mx.nd.odd_square(mx.nd.array([3])).asscalar() == 9


def test_file_that_fails(tmp_path):
    path = tmp_path / "failing_ops.py"
    path.write_text("value = 1\nundefined_name\n")
    with pytest.raises(MXNetError) as info:
        mx.library.load(str(path))
    assert str(info.value) == (
        f"Error loading library: '{path}'\nNameError: name 'undefined_name' is not defined (line 2 of {path})"
    )
    assert "failing_ops" not in sys.modules


def test_file_that_does_not_parse(tmp_path):
    path = tmp_path / "typo_ops.py"
    path.write_text("value = (\n")
    with pytest.raises(MXNetError, match=r"SyntaxError: '\(' was never closed \(typo_ops.py, line 1\)$"):
        mx.library.load(str(path))


def test_folder_that_is_no_package(tmp_path):
    with pytest.raises(MXNetError, match=f"^load path {tmp_path} is NOT a library file$"):
        mx.library.load(str(tmp_path))
