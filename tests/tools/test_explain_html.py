"""The HTML page of explain(): read back with the standard library's parser, its claims computed again."""

from __future__ import annotations

import copy
import inspect
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import combinations

import pytest
from xdsl.dialects.builtin import IntegerAttr, i64

import hybridc as mx
from hybridc.compile.lowering_stages import Optimized
from hybridc.gluon import nn
from hybridc.options import OPTIONS

VOID = {"meta", "br"}


@dataclass
class Element:
    tag: str
    attrs: dict
    children: list = field(default_factory=list)

    def text(self):
        return "".join(c if isinstance(c, str) else c.text() for c in self.children)

    def all(self, tag, kind=None):
        """Every element below with this tag and class, in order."""
        found = []
        for child in self.children:
            if isinstance(child, str):
                continue
            if child.tag == tag and (kind is None or kind in child.attrs.get("class", "").split()):
                found.append(child)
            found += child.all(tag, kind)
        return found


class Tree(HTMLParser):
    """A parser that forgives nothing: every end tag must close the element that was opened last."""

    def __init__(self, page):
        super().__init__()
        self.stack = [Element("", {})]
        self.feed(page)
        self.close()
        assert len(self.stack) == 1, f"<{self.stack[-1].tag}> is never closed"

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> has an attribute twice"
        self.stack[-1].children.append(Element(tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(self.stack[-1].children[-1])

    def handle_endtag(self, tag):
        assert self.stack.pop().tag == tag, f"</{tag}> in the wrong place"

    def handle_data(self, data):
        self.stack[-1].children.append(data)


def parse(page):
    return Tree(page).stack[0]


class Mixed(nn.HybridBlock):
    """Products, fused kernels, a host call, views and random numbers."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.hidden = nn.Dense(32, activation="relu")
            self.norm = nn.LayerNorm()
            self.out = nn.Dense(10)
            self.drop = nn.Dropout(0.5)

    def hybrid_forward(self, F, x):
        x = self.hidden(x)
        x = self.norm(x)
        x = self.drop(x)
        x = self.out(x)
        turned = x.transpose()
        ordered = F.sort(F.softmax(turned))
        return F.exp(-ordered * 2)


LINES = [
    (inspect.getsourcelines(Mixed.hybrid_forward)[1] + 1 + i, text.strip())
    for i, text in enumerate(inspect.getsource(Mixed.hybrid_forward).splitlines()[1:])
]


@pytest.fixture(scope="module")
def report():
    """Two signatures, one of them with a backward."""
    net = Mixed(prefix="mixed_")
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((4, 20)))
    with mx.autograd.record():
        y = net(mx.nd.ones((6, 20)))
    y.backward()
    return net.explain()


@pytest.fixture(scope="module")
def tree(report):
    return parse(report.html())


def test_rows_are_the_kernels_and_host_calls_of_the_text(report, tree):
    rows = tree.all("tr", "launch")
    said = [line.strip() for line in report.splitlines()]
    assert [row.all("code")[0].text() for row in rows] == [s[7:] for s in said if s.startswith("kernel ")]
    calls = [small.text() for row in rows for small in row.all("small") if small.text().startswith("host call")]
    assert calls == [s for s in said if s.startswith("host call")]
    assert len(calls) >= 4
    assert [h.text() for h in tree.all("h2")] == [s for s in said if s.startswith("signature")]
    assert [h.text() for h in tree.all("h4")] == ["Source", "forward", "Source", "forward", "backward"]


def test_every_row_shows_its_code(tree):
    head = {"llvm": ("tile_program ", "define "), "numpy": ("def ",)}[OPTIONS.target]
    listed = [program.all("pre")[0].text() for program in tree.all("details")]
    shown: set[str] = set()
    rows = tree.all("tr", "launch")
    names = [row.all("code")[0].text() for row in rows]
    for row in rows:
        name, code = row.all("code")[0].text(), row.all("td")[-1].text()
        call, _, text = code.partition("\n\n")
        own, _, other = call.partition("  # as in")
        assert any(own in each for each in listed)
        if OPTIONS.target == "llvm":
            assert own.startswith(name)
        elif not name.startswith("host_"):  # of those, the operator's own function is called
            assert own.partition("(")[0] in names, "kernels that read alike are one function"
        assert text.startswith(head) or other or name.startswith("host_")
        shown.add(text)
    assert any(text.startswith(head) for text in shown)


def test_every_line_of_the_forward_appears(tree):
    for article in tree.all("article"):
        shown = [row.all("td")[0].text() for row in article.all("tr", "source")]
        for number, text in LINES:
            assert any(text in s and f"{__file__}:{number} (in mixed" in s for s in shown), text


def test_links_lead_to_rows_and_words_are_known(tree):
    names = [row.attrs["id"] for row in tree.all("tr", "launch")]
    assert len(set(names)) == len(names)
    links = [a.attrs["href"] for a in tree.all("a")]
    assert links
    assert {link.removeprefix("#") for link in links} <= set(names)
    words = [e.attrs["data-k"].split() for e in (*tree.all("rect"), *tree.all("tr", "source"))]
    assert {word for each in words for word in each} <= set(names)


def spans(arena):
    """Offset, end, first and last launch of every rectangle."""
    given = ("data-offset", "data-size", "data-start", "data-end")
    numbers = [[int(r.attrs[name]) for name in given] for r in arena.all("rect")]
    return [(offset, offset + size, start, end) for offset, size, start, end in numbers]


def clashes(rectangles):
    """Pairs that have a byte and a moment in common."""
    return [
        (a, b) for a, b in combinations(rectangles, 2) if a[0] < b[1] and b[0] < a[1] and a[2] <= b[3] and b[2] <= a[3]
    ]


def test_arenas_hold_their_rectangles_without_overlap(report, tree):
    arenas = tree.all("svg", "arena")
    assert [a.attrs["data-arena"] for a in arenas] == re.findall(r"arena (\d+) bytes", report)
    for arena in arenas:
        rectangles = spans(arena)
        size = int(arena.attrs["data-arena"])
        assert all(0 <= a < b <= size and 0 <= start <= end for a, b, start, end in rectangles)
        assert -(-max(b for _, b, _, _ in rectangles) // 64) * 64 == size
        assert clashes(rectangles) == []
        for r in arena.all("rect"):
            assert float(r.attrs["x"]) + float(r.attrs["width"]) <= float(arena.attrs["width"]) + 0.01
            assert float(r.attrs["y"]) + float(r.attrs["height"]) <= float(arena.attrs["height"])


def test_what_the_backward_reads_stays_to_the_end(tree):
    alone, recorded, backward = tree.all("svg", "arena")
    assert not alone.all("rect", "saved")
    assert len(recorded.all("rect", "saved")) >= 3
    assert not backward.all("rect", "saved")
    section = tree.all("article")[1]
    count = sum(row.attrs["id"].startswith("s1g0-forward-") for row in section.all("tr", "launch"))
    assert {int(r.attrs["data-end"]) for r in recorded.all("rect", "saved")} == {count}


def test_a_wrong_offset_shows():
    from hybridc.compile.explain_html import launches, rectangles
    from hybridc.dialects.mlir.hybrid_rt import ViewOp

    net = Mixed(prefix="mixed_")
    net.initialize()
    lowered = net.trace(mx.nd.ones((4, 20))).optimize().lower()
    program = lowered.programs["forward"]

    def found():
        rows = rectangles(lowered, program, launches(lowered, program, "p"))
        return [(r.offset, r.offset + r.size, r.start, r.end) for r in rows]

    assert clashes(found()) == []
    for op in lowered.module.walk():
        if isinstance(op, ViewOp):
            op.properties["offset"] = IntegerAttr(0, i64)
    assert clashes(found()) != []


def rows_of(forward, *arrays):
    net = nn.HybridLambda(forward)
    net.hybridize()
    net(*arrays)
    return parse(net.explain().html()).all("tr", "launch")


def test_bytes_and_flops():
    a, b = mx.nd.ones((5, 4, 7)), mx.nd.ones((5, 3, 7))
    (product,) = rows_of(lambda F, a, b: F.batch_dot(a, b, transpose_b=True), a, b)
    assert int(product.attrs["data-flops"]) == 2 * 5 * 4 * 3 * 7
    assert int(product.attrs["data-read"]) == 4 * (5 * 4 * 7 + 5 * 3 * 7)
    assert int(product.attrs["data-written"]) == 4 * 5 * 4 * 3
    (chain,) = rows_of(lambda F, x: F.exp(-x * 3), mx.nd.ones((6, 8)))
    assert int(chain.attrs["data-flops"]) == 3 * 6 * 8
    (total,) = rows_of(lambda F, x: F.sum(x, axis=1), mx.nd.ones((6, 8), dtype="float64"))
    assert int(total.attrs["data-flops"]) == 6 * 8
    assert int(total.attrs["data-read"]) == 8 * 6 * 8
    (call,) = rows_of(lambda F, x: F.sort(x), mx.nd.ones((6,)))
    assert call.attrs["data-flops"] == ""
    assert "FLOPs unknown" in call.text()


def test_a_network_without_arena():
    net = nn.HybridLambda(lambda F, x: x + 1)
    net.hybridize()
    net(mx.nd.ones((2,)))
    tree = parse(net.explain().html())
    assert len(tree.all("tr", "launch")) == 1
    assert not tree.all("svg")
    assert "Nothing lies in the arena." in tree.text()


def test_names_are_escaped():
    net = Mixed(prefix='<b class="x">&amp;_')
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((4, 20)))
    tree = parse(net.explain().html())
    assert not tree.all("b")
    assert tree.all("h1")[0].text() == '<b class="x">&amp;: traced once'
    assert any('(in <b class="x">&amp;_dense0)' in row.text() for row in tree.all("tr", "launch"))


def test_the_page_needs_nothing_else(report, tree):
    page = report.html()
    assert not re.search(r"http|//[a-z]|\bsrc=|<link|@import|url\(|import\(|fetch", page)
    assert all(a.attrs["href"].startswith("#") for a in tree.all("a"))
    assert len(tree.all("script")) == 1


def test_page_of_what_is_not_compiled():
    net = Mixed(prefix="mixed_")
    tree = parse(net.explain().html())
    assert tree.all("pre")[0].text() == "mixed is not hybridized: call hybridize(), then the block"
    assert not tree.all("section")


def test_saved_and_shown_in_a_notebook(report, tmp_path):
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html()
    (frame,) = parse(report._repr_html_()).all("iframe")
    known, full = parse(frame.attrs["srcdoc"]), parse(report.html())
    assert len(known.all("section")) == len(full.all("section")) == 2
    names = [[code.text() for row in tree.all("tr") for code in row.all("code")[-1:]] for tree in (known, full)]
    assert set(names[0]) <= set(names[1])
    assert "explain().html()" in known.text()


def test_a_copy_is_the_text(report):
    again = copy.deepcopy(report)
    assert (again, type(again), repr(again)) == (str(report), type(report), str(report))
    assert not parse(again.html()).all("section")


def test_launches_of_a_shared_kernel_have_their_own_lines():
    def forward(F, x):
        a = F.exp(x)
        a = F.sort(a * 2)
        b = F.exp(a)
        return F.sort(b * 2)

    rows = rows_of(forward, mx.nd.ones((3, 3)))
    start = inspect.getsourcelines(forward)[1]
    found = [
        (row.all("code")[0].text(), [int(n) - start for n in re.findall(r"\.py:(\d+) \(in", row.all("td")[1].text())])
        for row in rows
    ]
    fused, call = found[0][0], found[1][0]
    assert found == [(fused, [1, 2]), (call, [2]), (fused, [3, 4]), (call, [4])]


def test_shared_host_calls_have_their_own_lines():
    def forward(F, x):
        a = F.sort(x)
        return F.sort(F.exp(a))

    net = nn.HybridLambda(forward, prefix="net_")
    net.hybridize()
    net(mx.nd.ones((3,)))
    report, start = net.explain(), inspect.getsourcelines(forward)[1]
    calls = [f"host call hybrid.sort() at {__file__}:{start + i} (in net)" for i in (1, 2)]
    assert [line.strip() for line in report.splitlines() if "host call " in line] == calls
    rows = parse(report.html()).all("tr", "host")
    assert [row.all("td")[3].all("small")[0].text() for row in rows] == calls
    assert [row.all("code")[0].text() for row in rows] == ["host_sort", "host_sort"]


def frame_of(report):
    """The page in the frame that a notebook shows."""
    (frame,) = parse(report._repr_html_()).all("iframe")
    return frame.attrs["srcdoc"]


def test_further_sizes_run_no_stage_of_the_compiler(monkeypatch):
    """In a notebook no size does; on the page the first with its kernels does."""
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(4, in_units=3, activation="relu"), nn.Dense(2, in_units=4))
    net.initialize()
    net.hybridize()
    for size in (20, 21, 22):
        net(mx.nd.ones((size, 3)))
    report, lowered = net.explain(), []
    lower = Optimized.lower
    monkeypatch.setattr(Optimized, "lower", lambda self, *more: lowered.append(self) or lower(self, *more))
    shown = parse(frame_of(report))
    assert len(shown.all("section")) == 3
    assert not lowered
    page = report.html()
    assert len(lowered) == 1
    assert report.html() is page
    assert len(lowered) == 1
    tree = parse(page)
    assert len(tree.all("section")) == 3
    assert [a.text() for a in tree.all("a") if a.attrs["href"] == "#s0g0"] == [
        "signature (float32[20, 3]), predict mode"
    ] * 2


def test_a_training_step_in_a_notebook():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), mx.gluon.Trainer(net.collect_params(), "sgd"))
    step(mx.nd.ones((4, 3)), mx.nd.ones((4, 2)))
    shown = parse(frame_of(step.explain()))
    assert len(shown.all("section")) == 1
    assert "weight" in shown.text() or shown.all("code")
