"""The site: every page has a place in it, and the reference has what it says. ``make site`` builds it."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hybridc as mx

ROOT = Path(__file__).resolve().parents[2]
# Parameters of which nothing is said. It only falls: whoever adds a parameter describes it.
UNDESCRIBED = 0


@pytest.fixture(scope="module")
def reference():
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    try:
        yield importlib.import_module("reference")
    finally:
        sys.path.remove(str(ROOT / "docs" / "site"))


@pytest.fixture(scope="module")
def pages(reference):
    return reference.pages()


def test_every_page_has_a_place(reference):
    build = importlib.import_module("build")
    named = {name for names in build.CONTENTS.values() for name in names}
    moved = {page.removesuffix(".md") for page in build.MOVED.values()} - {"index"}
    assert named == {path.stem for path in (ROOT / "docs").glob("*.md")} | moved | {"reference/index"}


def test_parameters_are_described():
    """In a process of its own: what other tests register or import is no part of the reference."""
    command = [sys.executable, "docs/site/reference.py", "--list"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line for line in lines if line.startswith("mx.")]
    assert len(found) <= UNDESCRIBED, "describe it in the docstring, or name it there in ``quotes``"
    assert len(found) == UNDESCRIBED, f"UNDESCRIBED is {len(found)} now: write it down"


def test_operators_have_examples(reference):
    entries = [each for page in reference.operators() for each in page.entries]
    assert len(entries) > 350
    assert not [each.title for each in entries if not each.example], (
        "give it a sample of small arrays, or a section Examples of its docstring"
    )


def test_an_example_prints_what_it_shows(reference):
    """By the interpreter of a process of its own, in NumPy's format of four digits."""
    (found,) = [each for page in reference.operators() for each in page.entries if each.title == "topk"]
    code, text = found.example.removeprefix("```py\n").removesuffix("\n```").split("\n```\n\n```text\n")
    code = f"import numpy\nnumpy.set_printoptions(precision=4, suppress=True)\n{code}"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip("\n") == text


def test_an_entry(pages):
    layers = pages["gluon_nn.md"]
    assert "## Dense\n\n```py\nmx.gluon.nn.Dense(" in layers
    softmax = pages["operators_nn.md"].partition("\n## softmax\n")[2].partition("\n## ")[0]
    assert "mx.nd.softmax(" in softmax
    assert "| `axis` | an integer, default -1 | the axis along which the results sum to 1 |" in softmax
    assert "print(mx.nd.softmax(x))" in softmax


def test_operators_are_found_by_all_their_names(pages):
    text = "\n".join(text for name, text in pages.items() if name.startswith("operators_"))
    for name in ("mx.nd.contrib.box_nms", "mx.nd.linalg.gemm2", "mx.nd.image.resize", "mx.nd.random.normal_like"):
        assert f"`{name}`" in text


def test_entries_say_how_mxnet_differs(pages):
    """As the table of docs/mxnet_differences.md, which is made of the same comments."""
    table = (ROOT / "docs" / "mxnet_differences.md").read_text()
    note = 'with mode="raise" negative indices count from the end, as in NumPy; MXNet rejects them.'
    assert f"| `nd.take` | {note} |" in table
    entry = pages["operators_array.md"].partition("\n## take\n")[2].partition("\n## ")[0]
    assert f"\nDiffers from MXNet 1.9 (*there*): {note}\n" in entry
    method = pages["module.md"].partition("\n## BaseModule\n")[2].partition(" predict\n")[2].partition("\n### ")[0]
    assert "\nDiffers from MXNet 1.9 (*there*): there this is in train mode if" in method
    assert sum(text.count("\nDiffers from MXNet 1.9") for text in pages.values()) > 140


def test_members_are_those_that_a_reader_looks_for(pages):
    layers, cells = pages["gluon_nn.md"], pages["gluon_rnn.md"]
    stack = layers.partition("\n## Sequential\n")[2].partition("\n## ")[0]
    assert "\n### add\n" in stack, "of a private base"
    lstm = cells.partition("\n## LSTM\n")[2].partition("\n## ")[0]
    assert "\n### `__call__`\n" in lstm
    assert "| `sequence_length` |" in lstm
    residual = cells.partition("\n## ResidualCell\n")[2].partition("\n## ")[0]
    assert "| `length` | `int` | The number of steps" in residual, "as the method says that it overrides"


def test_a_class_is_described_once(pages):
    assert "The same class as [`mx.gluon.Block`](gluon.md#block)." in pages["gluon_nn.md"]
    assert "\n### collect_params\n" in pages["gluon.md"]
    assert "\n### collect_params\n" not in pages["gluon_nn.md"]


def test_names_lead_to_what_they_name(reference, pages):
    layers = pages["gluon_nn.md"]
    assert "| [`Dense`](#dense) | `activation(x" in layers
    assert reference.markdown(":class:`Dense`") == "[`Dense`](gluon_nn.md#dense)"
    assert reference.markdown(":meth:`HybridBlock.hybridize`") == "[`HybridBlock.hybridize`](gluon.md#hybridblock)"
    assert reference.markdown(":class:`Loss`") == "`Loss`", "there is one of gluon, and a metric"


def test_stars_of_formulas_are_no_emphasis(reference):
    assert reference.markdown("n + 2*pad - d*(k - 1), ``a*b``, *args, x * y") == (
        "n + 2\\*pad - d\\*(k - 1), `a*b`, *args, x * y"
    )


def test_docstrings_become_markdown(reference):
    text, parameters = reference.parsed(
        """Look at :class:`~hybridc.x.Y` and :meth:`Y.run`, see :mod:`hybridc.x`, with ``z``.

        Parameters
        ----------
        a, b:
            two of
            them
        *c : int
            others
        """
    )
    assert text == "Look at `Y` and `Y.run`, see `mx.x`, with `z`."
    assert [(p.name, p.kind, p.text) for p in parameters] == [
        ("a", "", "two of them"),
        ("b", "", "two of them"),
        ("c", "int", "others"),
    ]


def test_overrides_inherit_descriptions(reference):
    class Base:
        def run(self, x, y):
            """What the base says.

            Parameters
            ----------
            x:
                the first
            y:
                the second
            """

        def stop(self):
            """Stop."""

    class Derived(Base):
        def run(self, x, y):
            """What the derived class says.

            Parameters
            ----------
            y:
                another
            """

        def stop(self):
            pass

    [run] = reference.members(Derived)  # stop stands at the base alone
    assert run.text == "What the derived class says."
    assert [(p.name, p.text) for p in run.parameters] == [("x", "the first"), ("y", "another")]

    Base.__name__ = "_Base"  # one that no page has
    assert [m.text for m in reference.members(Derived)] == ["What the derived class says.", "Stop."]


def test_every_public_name_has_a_place():
    """In a process of its own, too."""
    command = [sys.executable, "docs/site/public_names.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "give it a page in SECTIONS of docs/site/reference.py, or a reason:\n" + done.stdout
    assert int(done.stdout.split()[0]) > 1500
    assert done.stdout.endswith(" without a place, 0 apart in vain\n")


def test_every_step_has_a_row(reference):
    """As many rows as steps; what an example says is NumPy's own result."""
    text = reference.scalar_steps().intro
    assert {row.partition("(")[0] for row in text.split("| `b.")[1:]} == set(vars(mx.op.Steps)) & set(reference.STEPS)
    assert "| `b.exp(x)` | `e ** x`. | float32 | float64 | float16 | float16 |" in text
    assert "`atan2(2.0, 0.5)` = 1.325818" in text  # the angle of (0.5, 2): atan 4
    assert "`left_shift(6, 2)` = 24" in text
    assert "| `b.bitwise_and(x, y)` | The bits that both have. | none | int32 |" in text


def test_every_setting_has_a_row(reference):
    text = reference.settings().intro
    read = set(re.findall(r'"(HYBRIDC_\w+)"', (ROOT / "hybridc/options.py").read_text()))
    assert read - {"HYBRIDC_PEERS", "HYBRIDC_TEST_EXAMPLES"} <= {row.partition("`")[0] for row in text.split("| `")}


def test_every_error_has_a_text(reference):
    for name, value in reference.namespace_entries(mx.errors):
        assert inspect.isclass(value)
        assert vars(value).get("__doc__"), name


def test_a_name_of_several_modules_is_described_once(reference):
    pages = {page.file: page for listed in reference.namespaces().values() for page in listed}
    (cond,) = [e for e in pages["nd_contrib.md"].entries if e.title == "cond"]
    assert cond.call.startswith("mx.nd.contrib.cond(")
    layers = {each.title for each in pages["gluon_contrib_nn.md"].entries if each.elsewhere}
    assert "HybridConcurrent" in layers
