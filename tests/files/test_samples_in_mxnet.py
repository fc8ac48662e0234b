"""MXNet 1.9.1 reads the files of all operators' samples, and infers the same shapes.

What it answered is in ``samples_checked.json.gz``, by the digests of the files.
"""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path

import hybridc as mx
from tests.golden.sample_cases import LACKING, OTHER_SHAPES, REFUSED, answer, digest, written

CHECKED = json.loads(gzip.decompress((Path(__file__).parents[1] / "golden" / "samples_checked.json.gz").read_bytes()))


@functools.cache
def files():
    return written(mx)


def test_each_file_was_read_by_mxnet():
    unknown = [name for name, text in files().items() if digest(text) not in CHECKED]
    how = "tests/golden/check_files_in_mxnet.py write FOLDER samples, then check FOLDER samples with MXNet's Python"
    assert unknown == [], f"MXNet must read these files first: {how}"


def test_what_mxnet_does_not_read_is_known():
    found = [(name, CHECKED[digest(text)][1]) for name, text in files().items()]
    others = [(name.partition(" ")[0], why) for name, why in found if not isinstance(why, list)]
    assert {why.removeprefix("lacks ") for _, why in others if why.startswith("lacks ")} == LACKING
    assert {name for name, why in others if not why.startswith("lacks ")} == REFUSED


def test_shapes_are_those_of_mxnet():
    read = {name: (text, CHECKED[digest(text)][1]) for name, text in files().items()}
    other = {n.partition(" ")[0] for n, (text, s) in read.items() if isinstance(s, list) and answer(mx, text) != s}
    assert other == OTHER_SHAPES
