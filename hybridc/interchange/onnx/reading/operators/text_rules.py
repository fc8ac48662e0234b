"""Operators on text: always on known values."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.size_limits import check_size


@onnx_op("StringConcat", host=True)
def string_concat(_: OnnxCall, x: Any, y: Any) -> Any:
    return np.asarray(x + y, object)


@onnx_op("StringSplit", host=True)
def string_split(call: OnnxCall, x: Any) -> Any:
    """The words of each text, with empty ones at the end, and how many there are."""
    delimiter, most = call["delimiter"] or None, -1 if call["maxsplit"] is None else call["maxsplit"]
    words = [text.split(delimiter, most) if text else [] for text in x.ravel()]
    width = max(map(len, words), default=0)
    rows = [w + [""] * (width - len(w)) for w in words]
    counts = np.array(list(map(len, words)), np.int64).reshape(x.shape)
    return np.array(rows, object).reshape(*x.shape, width), counts


@onnx_op("StringNormalizer", host=True)
def string_normalizer(call: OnnxCall, x: Any) -> Any:
    """Texts without those that are left out, in upper or lower case."""
    change = {"UPPER": str.upper, "LOWER": str.lower}.get(call["case_change_action"] or "NONE", str)
    stops = set(call["stopwords"] or ())
    if not call["is_case_sensitive"]:
        stops = {s.lower() for s in stops}
    rows = [
        [t for t in row if (t if call["is_case_sensitive"] else t.lower()) not in stops] for row in np.atleast_2d(x)
    ]
    rows = [[change(t) for t in row] for row in rows]
    made = np.array(rows if rows[0] else [[""]], object)
    return made if x.ndim == 2 else made[0]


@onnx_op("RegexFullMatch", host=True)
def regex_full_match(call: OnnxCall, x: Any) -> Any:
    pattern = re.compile(call["pattern"] or "")
    return np.array([pattern.fullmatch(t) is not None for t in x.ravel()], bool).reshape(x.shape)


@onnx_op("TfIdfVectorizer", host=True)
def tf_idf_vectorizer(call: OnnxCall, x: Any) -> Any:
    """How often each n-gram of a pool occurs in each row, words being skipped or not, or weighted."""
    starts, indexes = call["ngram_counts"], call["ngram_indexes"]
    pool = call["pool_int64s"] if call["pool_strings"] is None else call["pool_strings"]
    grams: dict[tuple[Any, ...], int] = {}
    for n, (begin, end) in enumerate(zip(starts, (*starts[1:], len(pool))), 1):
        for i in range(begin, end, n):
            grams[tuple(pool[i : i + n])] = len(grams)
    rows = np.atleast_2d(x)
    check_size((len(rows), max(indexes) + 1))
    counts = np.zeros((len(rows), max(indexes) + 1), np.float32)
    for row, count in zip(rows.tolist(), counts):
        for n in range(call["min_gram_length"], min(call["max_gram_length"], len(row)) + 1):
            for skip in range(1 if n == 1 else min(call["max_skip_count"], len(row)) + 1):
                for i in range(len(row) - (n - 1) * (skip + 1)):
                    found = grams.get(tuple(row[i : i + n * (skip + 1) : skip + 1]))
                    if found is not None:
                        count[indexes[found]] += 1
    weights = np.ones(counts.shape[1], np.float32)
    for index, weight in zip(indexes, call["weights"] or ()):
        weights[index] = weight
    mode = call["mode"]
    made = counts if mode == "TF" else (counts > 0) * weights if mode == "IDF" else counts * weights
    return (made if x.ndim == 2 else made[0]).astype(np.float32)


@onnx_op("LabelEncoder", host=True, domain="ai.onnx.ml")
def label_encoder(call: OnnxCall, x: Any) -> Any:
    """What a table has for each element."""
    kinds = ("strings", "int64s", "floats", "tensor")
    keys, values = (
        next(call[f"{what}_{k}"] for k in kinds if call[f"{what}_{k}"] is not None) for what in ("keys", "values")
    )
    kind = next(k for k in kinds if call[f"values_{k}"] is not None)
    default: Any = {
        "strings": call["default_string"],
        "int64s": call["default_int64"],
        "floats": call["default_float"],
    }.get(kind)
    if kind == "tensor":
        default = (
            np.zeros(1, values.dtype)[0] if call["default_tensor"] is None else call["default_tensor"].reshape(-1)[0]
        )
    table = dict(zip(np.asarray(keys).tolist(), np.asarray(values).tolist()))
    missing = next((v for k, v in table.items() if k != k), default)
    dtype = {"strings": object, "int64s": np.int64, "floats": np.float32}.get(kind) or values.dtype
    found = [missing if v != v else table.get(v, default) for v in x.ravel().tolist()]
    return np.array(found, dtype).reshape(x.shape)
