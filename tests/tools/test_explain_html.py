"""The HTML page of explain(): read back with the standard library's parser, its claims computed again."""

from __future__ import annotations

import copy
import inspect
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import pytest
from xdsl.dialects.builtin import IntegerAttr, i64

import hybridc as mx
from hybridc.compile.explanation.launch_groups import MOST, kind_of
from hybridc.compile.lowering_stages import Optimized
from hybridc.gluon import nn
from hybridc.options import OPTIONS

VOID = {"meta", "br", "input"}


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


ROOT = Path(__file__).resolve().parents[2]


def figures(tree):
    """Of each program the rows of its groups: name, launches, bytes and FLOPs as the page sorts them."""
    keys = ("data-name", "data-count", "data-bytes", "data-flops")
    return [[tuple(row.attrs[k] for k in keys) for row in t.all("tbody", "group")] for t in tree.all("table", "groups")]


def programs_of(net):
    """What the network's graphs run, in the order of the report."""
    kept = net._cached_graph._kept()
    return [program for _, entry, _ in kept for each in entry.compilations() for _, program in each.programs]


def test_groups_are_those_of_the_text(report, tree):
    said = re.findall(r"^ +kernel (\w+): (?:(\d+) (?:times|launches))?", report, re.M)
    assert [(name, int(count or 1)) for name, count in said] == [
        (name, int(count)) for table in figures(tree) for name, count, _, _ in table
    ]
    calls = [item.text() for details in tree.all("details", "hosts") for item in details.all("code")]
    assert calls == re.findall(r"host call (.+)", report)
    assert len(calls) >= 4
    assert [h.text() for h in tree.all("h2")] == [*re.findall(r"^signature.*", report, re.M), "Code"]
    assert [h.text().split()[0] for h in tree.all("h3")] == ["forward", "forward", "backward"]


def test_groups_cover_the_plan():
    """Names, counts, bytes and FLOPs, summed from the notes of the programs that run; FLOPs as one counts by hand."""
    net = nn.HybridSequential(prefix="net_")
    net.add(*[nn.Dense(4, in_units=4, activation="relu") for _ in range(5)], nn.Dense(3, in_units=4))
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((2, 4)))
    (program,), (table,) = programs_of(net), figures(parse(net.explain().html()))
    for name, count, size, flops in table:
        notes = [note for note in program.notes if note.name == name]
        assert int(count) == len(notes)
        assert int(size) == sum(a.nbytes for n in notes for a in (*n.reads, *n.writes))
        assert int(flops) == sum(n.flops for n in notes)
    assert {name for name, *_ in table} == {*program.launches}
    products = 5 * 2 * 4 * 4 + 2 * 3 * 4
    added, cut = 5 * 2 * 4 + 2 * 3, 5 * 2 * 4
    assert sum(int(flops) for *_, flops in table) == 2 * products + added + cut


def test_a_hundred_equal_layers_are_few_rows():
    net = nn.HybridSequential(prefix="net_")
    net.add(*[nn.Dense(4, in_units=4, activation="tanh") for _ in range(100)])
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((2, 4)))
    report = net.explain()
    assert len(report.splitlines()) < 15
    assert "100 equal steps of 2 operators are one loop" in report
    tree = parse(report.html())
    (table,), (program,) = figures(tree), programs_of(net)
    assert len(table) <= 6
    assert sum(int(count) for _, count, *_ in table) == len(tree.all("tr", "launch")) == len(program.launches)
    if OPTIONS.target == "llvm":  # a product, a sum and tanh
        assert sum(int(flops) for *_, flops in table) == 100 * (2 * 2 * 4 * 4 + 2 * 4 + 2 * 4)


def test_a_hundred_different_layers_are_a_short_text():
    """Trained and predicted; more kinds than are shown are one line."""
    kinds = ["relu", "tanh", "sigmoid", "softrelu", "softsign"]
    net = nn.HybridSequential(prefix="net_")
    for i in range(50):
        net.add(nn.Dense(8 + i), (nn.Activation(kinds[i % 5]), nn.LayerNorm(), nn.GELU(), nn.ELU())[i % 4])
    net.initialize()
    net.hybridize()
    x = mx.nd.ones((2, 8))
    net(x)
    with mx.autograd.record():
        y = net(x)
    y.backward()
    lines = net.explain().splitlines()
    assert len(lines) <= 60
    kinds = max(len({kind_of(name) for name in program.launches}) for program in programs_of(net))
    assert any(re.fullmatch(r" +\d+ launches of \d+ smaller kinds: .+", line) for line in lines) == (kinds > MOST)
    for start, line in enumerate(lines):
        if match := re.match(r"  (forward|backward): (\d+) kernels", line):
            rows = []
            for row in lines[start + 1 :]:
                if not row.startswith("    "):
                    break
                rows.append(re.match(r" {4}(?:kernel \w+: )?(?:(\d+) (times|launches))?", row))
            listed = [int(row[1] or 1) for row in rows if row and ("kernel" in row.string or "smaller" in row.string)]
            assert sum(listed) == int(match[2])


def test_many_sizes_are_one_block():
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(4, in_units=3, activation="relu"), nn.Dense(2, in_units=4))
    net.initialize()
    net.hybridize()
    for size in range(20, 60):
        net(mx.nd.ones((size, 3)))
    report = net.explain()
    assert len(report.splitlines()) <= 15
    assert len(re.findall("^signature ", report, re.M)) == 1
    assert "  3. to 40. likewise, at last: argument 0 has shape (59, 3), compiled before for (58, 3)" in report
    assert re.search(r"likewise for .+, \d+ more, \(float32\[59, 3\]\)(: planned with|; arena)", report)
    tree = parse(report.html())
    sizes, (arena,) = tree.all("details", "sizes"), tree.all("svg", "arena")
    assert [len(each.all("tbody", "row")) for each in sizes] == [39]
    arenas = [int(row.all("td")[2].text().replace(",", "").split()[0]) for row in sizes[0].all("tbody", "row")]
    assert sorted([int(arena.attrs["data-arena"]), *arenas]) == sorted(program.arena for program in programs_of(net))


def test_a_text_of_many_programs_has_at_most_60_lines():
    """More programs, fewer kernels of each; of many signatures those that were used last."""

    class Powers(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            for i in range(x.shape[0]):
                x = F.sort(F.exp(x) if i % 2 else F.dot(x, x))
            return x

    net = Powers()
    net.hybridize()
    for n in range(2, 11):
        net(mx.nd.ones((n, n)))
        text = net.explain()
        signatures = re.findall(r"^signature \(float32\[(\d+), ", text, re.M)
        assert signatures == [str(i) for i in range(max(2, n - 5), n + 1)]
        assert len(text.splitlines()) <= 60
    assert "3 signatures that were used longer ago" in text
    assert len(parse(net.explain().html(assembly=False)).all("section")) == 9


def test_sizes_with_other_kernels_are_apart():
    net = nn.HybridLambda(lambda F, x: F.exp(x) if x.shape[0] < 4 else F.sort(x))
    net.hybridize()
    for size in (2, 3, 4):
        net(mx.nd.ones((size,)))
    signatures = re.findall("^signature .*", net.explain(), re.M)
    assert len(signatures) == 2


def test_code_is_there_once_for_each_kernel(report, tree):
    (codes,) = tree.all("details", "codes")
    listed = codes.all("details", "kernel")
    assert all("open" not in each.attrs for each in (codes, *listed))
    words = [each.attrs["id"] for each in listed]
    links = {a.attrs["href"].removeprefix("#") for row in tree.all("tr", "launch") for a in row.all("a")}
    assert links == {*words}
    assert len(set(words)) == len(words)
    texts = [pre.text() for each in listed for pre in each.all("pre", "code")]
    assert any("linalg.generic" in text for text in texts)
    assert any("hybrid.sort" in text for text in texts)
    sources = [p.text() for each in listed for p in each.all("pre", "code")[1:2]]
    assert len(set(sources)) == len(sources)
    if OPTIONS.target == "llvm":
        assert any(text.startswith("tile_program") for text in texts)
        assert any("\tret" in text for text in texts), "no assembly"
    else:
        assert any(text.startswith("def ") for text in texts)


@pytest.mark.skipif(OPTIONS.target != "llvm", reason="the NumPy target has no assembly")
def test_pages_of_many_kernels_have_assembly_if_it_is_asked_for(monkeypatch):
    from hybridc.compile.explanation import explain_page

    net = nn.HybridLambda(lambda F, x: F.exp(x))
    net.hybridize()
    net(mx.nd.ones((2,)))

    def assembly(page):
        (codes,) = parse(page).all("details", "codes")
        texts = [pre.text() for each in codes.all("details", "kernel") for pre in each.all("pre", "code")]
        return sum("\tret" in text for text in texts), "has no assembly" in codes.text()

    report = net.explain()
    assert assembly(report.html()) == (1, False)
    assert assembly(report.html(assembly=False)) == (0, True)
    monkeypatch.setattr(explain_page, "MOST_WITH_ASSEMBLY", 0)
    assert assembly(net.explain().html()) == (0, True)
    assert assembly(net.explain().html(assembly=True)) == (1, False)


def test_code_is_highlighted_and_nothing_else_is_changed():
    from hybridc.compile.explanation.code_listing import listing

    code = 'func.func @f(%0: tensor<2xf32>) {  // "a" & <b>\n  %1 = arith.addf %0, %0 : f32\n}\n'
    pre = parse(f"<pre>{listing(code, 'mlir')}</pre>")
    assert pre.text() == code
    marked = {(span.attrs["class"], span.text()) for span in pre.all("span")}
    assert {("f", "@f"), ("t", "f32"), ("k", "arith.addf"), ("c", '// "a" & <b>')} <= marked
    python = "def f(x):\n    return x + 1  # one\n"
    assert parse(f"<pre>{listing(python, 'python')}</pre>").text() == python


def test_every_line_of_the_forward_appears(tree):
    for article in tree.all("article"):
        shown = [row.all("td")[0].text() for row in article.all("tbody", "source")]
        for number, text in LINES:
            assert any(text in s and f"{__file__}:{number} (in mixed" in s for s in shown), text


def test_layers_are_named_by_their_paths(tree):
    places = {row.all("td", "place")[0].text() for row in tree.all("tbody", "group")}
    assert any(".hidden Dense" in place for place in places)
    rows = [row for row in tree.all("tr", "launch") if "net.hidden Dense" in row.text()]
    assert rows
    assert all("x = self.hidden(x)" in row.text() for row in rows if "LayerNorm" not in row.text())


def test_links_lead_somewhere(tree):
    tags = ("tr", "details", "section", "article", "h3")
    names = [e.attrs["id"] for tag in tags for e in tree.all(tag) if "id" in e.attrs]
    assert len(set(names)) == len(names)
    links = [a.attrs["href"] for a in tree.all("a")]
    assert {link.removeprefix("#") for link in links} <= set(names)
    contents = [a.attrs["href"] for a in tree.all("nav")[0].all("a")]
    assert {f"#{section.attrs['id']}" for section in tree.all("section")} <= {*contents}
    assert {f"#{h.attrs['id']}" for h in tree.all("h3")} <= {*contents}
    words = [e.attrs["data-k"].split() for e in (*tree.all("rect"), *tree.all("tbody", "group"))]
    assert {word for each in words for word in each} <= set(names)


def test_tables_can_be_sorted(tree):
    """Each key of a head is one that all rows have, as a number where it is one."""
    for table in tree.all("table", "groups"):
        keys = [button.attrs["data-sort"] for button in table.all("thead")[0].all("button")]
        assert keys == ["name", "count", "bytes", "flops", "order", "operators"]
        for row in table.all("tbody", "group"):
            assert all(f"data-{key}" in row.attrs for key in keys)
            assert all(re.fullmatch(r"\d+", row.attrs[f"data-{key}"]) for key in ("order", "count", "bytes"))
            assert re.fullmatch(r"\d*", row.attrs["data-flops"])


def test_times_of_the_profiler():
    """The page and the text have a time for each group that ran while the profiler did, and only then."""
    net = Mixed(prefix="timed_")
    net.initialize()
    net.hybridize()
    x = mx.nd.ones((4, 20))
    net(x)
    assert "µs" not in net.explain()
    mx.profiler.set_state("run")
    for _ in range(3):
        net(x)
    mx.profiler.set_state("stop")
    table = re.sub(r"\n +(?=\d)", " ", mx.profiler.dumps())  # the numbers of long names have a line of their own
    sort = next(n for n, text in LINES if "F.sort" in text)
    lines = [line.split() for line in table.splitlines() if line.startswith(f"{__file__}:{sort} (in timed")]
    assert lines
    assert [line[-5] for line in lines] == ["3"] * len(lines)
    report = net.explain()
    rows = parse(report.html()).all("tbody", "group")
    timed = [row for row in rows if row.attrs["data-time"]]
    once = [row for row in rows if "once" in row.all("td", "name")[0].text()]
    assert len(timed) == len(rows) - len(once)
    assert all(0 < float(row.attrs["data-time"]) < 10 for row in timed)
    (runs,) = {row.all("td")[-2].text().split(", ")[1] for group in timed for row in group.all("tr", "launch")}
    assert runs == "3"
    assert report.count("µs") + report.count(" ms") >= len(timed)


def spans(arena):
    """Offset, end, first and last launch of every rectangle, as they are drawn."""
    size = int(arena.attrs["data-arena"])
    found = []
    for r in arena.all("rect"):
        x, y, width, height = (int(r.attrs[name]) for name in ("x", "y", "width", "height"))
        assert size - y - height == int(r.attrs["data-offset"])
        found.append((size - y - height, size - y, x, x + width - 1))
    return found


def clashes(rectangles):
    """Pairs that have a byte and a moment in common."""
    return [
        (a, b) for a, b in combinations(rectangles, 2) if a[0] < b[1] and b[0] < a[1] and a[2] <= b[3] and b[2] <= a[3]
    ]


def test_arenas_hold_their_rectangles_without_overlap(report, tree):
    arenas = tree.all("svg", "arena")
    assert [a.attrs["data-arena"] for a in arenas] == re.findall(r"arena (\d+) bytes", report)
    assert [a.attrs["data-live"] for a in arenas] == re.findall(r"\((\d+) at once\)", report)
    for arena in arenas:
        rectangles = spans(arena)
        size = int(arena.attrs["data-arena"])
        assert all(0 <= a < b <= size and 0 <= start <= end for a, b, start, end in rectangles)
        assert -(-max(b for _, b, _, _ in rectangles) // 64) * 64 == size
        assert clashes(rectangles) == []
        assert [*map(int, arena.attrs["viewbox"].split())][3] == size


def test_the_line_of_live_bytes(tree):
    """Added up from the rectangles, in units of 64 bytes as the arena has them; the peak is where it is highest."""
    for arena in tree.all("svg", "arena"):
        rectangles, size = spans(arena), int(arena.attrs["data-arena"])
        steps = int(arena.attrs["viewbox"].split()[2])
        sizes = [(-(-(b - a) // 64) * 64, range(start, end + 1)) for a, b, start, end in rectangles]
        live = [sum(n for n, alive in sizes if i in alive) for i in range(steps)]
        points = [tuple(map(int, point.split(","))) for point in arena.all("polyline")[0].attrs["points"].split()]
        assert points == [(x, size - n) for i, n in enumerate(live) for x in (i, i + 1)]
        peak = int(arena.attrs["data-peak"])
        assert live[peak] == max(live) == int(arena.attrs["data-live"])
        assert float(arena.all("line")[0].attrs["x1"]) == peak + 0.5


def test_arrays_that_are_written_part_by_part_are_on_the_map():
    """A border and what is inside it, and the parts of a concatenation: the greatest live set is the plan's."""

    def forward(F, x):
        x = F.Pooling(F.sort(F.pad(F.sort(x), mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1))), kernel=(2, 2))
        return F.sort(F.concat(F.sort(x), F.exp(F.sort(-x)), dim=1))

    net = nn.HybridLambda(forward)
    net.hybridize()
    net(mx.nd.ones((2, 3, 6, 6)))
    (program,), (arena,) = programs_of(net), parse(net.explain().html()).all("svg", "arena")
    assert int(arena.attrs["data-live"]) == program.live
    assert clashes(spans(arena)) == []


def test_what_the_backward_reads_stays_to_the_end(tree):
    alone, recorded, backward = tree.all("svg", "arena")
    assert not alone.all("rect", "saved")
    assert len(recorded.all("rect", "saved")) >= 3
    assert not backward.all("rect", "saved")
    section = tree.all("article")[1]
    count = sum(row.attrs["id"].startswith("s1g0-forward-") for row in section.all("tr", "launch"))
    assert count == int(recorded.attrs["data-steps"])
    assert {int(r.attrs["x"]) + int(r.attrs["width"]) - 1 for r in recorded.all("rect", "saved")} == {count}


def test_a_wrong_offset_shows():
    from hybridc.compile.explanation.explain_page import memory_of
    from hybridc.dialects.mlir.hybrid_rt import ViewOp

    net = Mixed(prefix="mixed_")
    net.initialize()
    lowered = net.trace(mx.nd.ones((4, 20))).optimize().lower()
    program = lowered.programs["forward"]

    def found():
        areas = memory_of(lowered, program).areas
        return [(r.offset, r.offset + r.size, r.start, r.end) for r in areas]

    assert clashes(found()) == []
    for op in lowered.module.walk():
        if isinstance(op, ViewOp):
            op.properties["offset"] = IntegerAttr(0, i64)
    assert clashes(found()) != []


def rows_of(forward, *arrays):
    """The rows of the launches of a network, in order."""
    net = nn.HybridLambda(forward)
    net.hybridize()
    net(*arrays)
    rows = parse(net.explain().html()).all("tr", "launch")
    return sorted(rows, key=lambda row: int(row.attrs["id"].rpartition("-")[2]))


def test_bytes_and_flops():
    a, b = mx.nd.ones((5, 4, 7)), mx.nd.ones((5, 3, 7))
    (product,) = rows_of(lambda F, a, b: F.batch_dot(a, b, transpose_b=True), a, b)
    assert int(product.attrs["data-flops"]) == 2 * 5 * 4 * 3 * 7
    assert int(product.attrs["data-bytes"]) == 4 * (5 * 4 * 7 + 5 * 3 * 7 + 5 * 4 * 3)
    (chain,) = rows_of(lambda F, x: F.exp(-x * 3), mx.nd.ones((6, 8)))
    assert int(chain.attrs["data-flops"]) == 3 * 6 * 8
    (total,) = rows_of(lambda F, x: F.sum(x, axis=1), mx.nd.ones((6, 8), dtype="float64"))
    assert int(total.attrs["data-flops"]) == 6 * 8
    assert int(total.attrs["data-bytes"]) == 8 * (6 * 8 + 6)
    (call,) = rows_of(lambda F, x: F.sort(x), mx.nd.ones((6,)))
    assert call.attrs["data-flops"] == ""
    assert "unknown" in call.text()


def test_flops_of_a_size_that_was_only_planned():
    net = nn.HybridLambda(lambda F, x, w: F.dot(x, w))
    net.hybridize()
    for size in (32, 40):
        net(mx.nd.ones((size, 6)), mx.nd.ones((6, 5)))
    sums = [sum(note.flops for note in program.notes) for program in programs_of(net)]
    assert sums == [2 * size * 6 * 5 for size in (32, 40)]


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
    assert any('(in <b class="x">&amp;_dense0)' in row.text() for row in tree.all("tbody", "source"))


def test_the_page_needs_nothing_else(report, tree):
    page = report.html()
    assert not re.search(r"http|//[a-z]|\bsrc=|<link|@import|url\(|import\(|fetch", page.replace("http-equiv", ""))
    assert all(a.attrs["href"].startswith("#") for a in tree.all("a"))
    assert len(tree.all("script")) == 1
    (viewport,) = [m for m in tree.all("meta") if m.attrs.get("name") == "viewport"]
    assert "width=device-width" in viewport.attrs["content"]
    assert "prefers-color-scheme: dark" in tree.all("style")[0].text()
    assert [e.attrs["type"] for e in tree.all("input")] == ["search"]


def test_nothing_long_is_unfolded(tree):
    """All code is in folded elements; launches are hidden rows, and tables scroll in boxes of their own."""
    folded = {id(pre) for details in tree.all("details") if "open" not in details.attrs for pre in details.all("pre")}
    assert {id(pre) for pre in tree.all("pre")} == folded
    assert all("hidden" in row.attrs for row in tree.all("tr", "launches"))
    boxes = [table for box in tree.all("div", "scroll") for table in box.all("table")]
    assert len(boxes) == len(tree.all("table"))


def test_page_of_what_is_not_compiled():
    net = Mixed(prefix="mixed_")
    tree = parse(net.explain().html())
    assert (
        tree.all("pre")[0].text()
        == "mixed is not hybridized: call hybridize(), then the block; a TrainStep has an explain() of its own"
    )
    assert not tree.all("section")
    assert not tree.all("input")


def test_saved_and_shown_in_a_notebook(report, tmp_path):
    """A notebook shows the text of a report, and the page if that is what a cell gives."""
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html()
    assert repr(report) == str(report)
    assert not hasattr(report, "_repr_html_")
    (frame,) = parse(report.html()._repr_html_()).all("iframe")
    assert frame.attrs["srcdoc"] == report.html()


def test_a_copy_is_the_text(report):
    again = copy.deepcopy(report)
    assert (again, type(again), repr(again)) == (str(report), type(report), str(report))
    assert not parse(again.html()).all("section")


@pytest.mark.parametrize("missing", ["jinja2", "pygments"])
def test_without_a_package_the_page_says_what_to_install(missing):
    """In a process of its own, in which the package cannot be imported; the text needs none."""
    program = f"""
import sys
sys.modules[{missing!r}] = None
import hybridc as mx
net = mx.gluon.nn.HybridLambda(lambda F, x: x + 1)
net.hybridize()
net(mx.nd.ones((2,)))
report = net.explain()
print("kernel" in repr(report))
try:
    report.html()
except mx.errors.MissingPackageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True\nthe page of explain() is made by Jinja and highlighted by Pygments")
    assert f"of which {missing} is not installed" in done.stdout
    assert "pip install 'hybridc[viz]'" in done.stdout


def test_the_template_is_part_of_the_package():
    """What setuptools takes into a wheel, by the patterns of pyproject.toml."""
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["hybridc"]
    taken = {path for pattern in patterns for path in (ROOT / "hybridc").glob(pattern)}
    assert {*(ROOT / "hybridc").glob("**/*.html")} <= taken
    assert {"jinja2", "pygments"} <= {*settings["project"]["optional-dependencies"]["viz"]}


def test_launches_of_a_shared_kernel_have_their_own_lines():
    def forward(F, x):
        a = F.exp(x)
        a = F.sort(a * 2)
        b = F.exp(a)
        return F.sort(b * 2)

    rows = rows_of(forward, mx.nd.ones((3, 3)))
    start = inspect.getsourcelines(forward)[1]
    found = [
        (row.all("code")[-1].text(), [int(n) - start for n in re.findall(r"\.py:(\d+) ", row.all("td")[1].text())])
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
    (details,) = parse(report.html()).all("details", "hosts")
    assert [f"host call {code.text()}" for code in details.all("code")] == calls


def test_stages_run_when_the_page_is_asked_for(monkeypatch):
    """Once for all sizes of the same kernels, and not for the text."""
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Dense(4, in_units=3, activation="relu"), nn.Dense(2, in_units=4))
    net.initialize()
    net.hybridize()
    for size in (20, 21, 22):
        net(mx.nd.ones((size, 3)))
    lowered = []
    lower = Optimized.lower
    monkeypatch.setattr(Optimized, "lower", lambda self, *more: lowered.append(self) or lower(self, *more))
    report = net.explain()
    assert repr(report)
    assert not lowered
    page = report.html()
    assert len(lowered) == 1
    assert report.html() is page
    assert len(lowered) == 1
    assert len(parse(page).all("section")) == 1


def test_a_training_step():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    step = mx.gluon.TrainStep(net, mx.gluon.loss.L2Loss(), mx.gluon.Trainer(net.collect_params(), "sgd"))
    step(mx.nd.ones((4, 3)), mx.nd.ones((4, 2)))
    report = step.explain()
    assert re.search(r"kernel \w+: .*net Dense", report)
    assert re.search(r"kernel \w+: .*net Dense(?:, | to )step", report)  # the optimizer has no line of its own
    assert Path(__file__).name not in report
    tree = parse(report.html())
    assert len(tree.all("section")) == 1
    ((_, entry, _),) = step._block.compiled._kept()
    ((_, ((_, program),)),) = entry.compilations()
    (table,) = figures(tree)
    assert sum(int(count) for _, count, *_ in table) == len(program.launches)
