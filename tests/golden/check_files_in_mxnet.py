"""Checks that what hybridc writes loads in MXNet 1.9.1, with equal values and equal results.

Run it with both interpreters, one after the other:

    .venv/bin/python tests/golden/check_files_in_mxnet.py write FOLDER
    path/to/mxnet-venv/bin/python tests/golden/check_files_in_mxnet.py check FOLDER

With a third argument, ``samples``, they write and check only the samples of all operators, which takes a minute.

The second prints a table and each file that fails, and keeps the symbols that pass in `symbols_checked.json.gz` and
`loop_symbols_checked.json`, and the shapes that MXNet infers for the samples of all operators in
`samples_checked.json.gz`: the tests compare what hybridc writes with these.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sys
import warnings
import zipfile
from pathlib import Path

os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"
warnings.simplefilter("ignore")
here = Path(__file__).resolve().parent
sys.path[:0] = [str(here.parents[1]), str(here)]

import numpy as np  # noqa: E402
from network_cases import flat, input_names, networks, outputs  # noqa: E402
from programs import Recorded  # noqa: E402

from tests.golden import loop_symbol_cases as loops  # noqa: E402
from tests.golden import sample_cases as samples  # noqa: E402
from tests.golden.file_cases import CASES, NUMPY_SHAPES  # noqa: E402
from tests.golden.image_cases import FILES, NAMES, RECORD_DATA, noise  # noqa: E402
from tests.golden.store import Reader  # noqa: E402
from tests.golden.symbol_cases import results_in_mxnet, written_by_hybridc  # noqa: E402

OPS = Reader(here / "ops.npz")


# --- hybridc ---------------------------------------------------------------------------------------------------


def write(folder):
    import hybridc as mx

    for name, data in {**CASES, **NUMPY_SHAPES}.items():
        mx.nd.save(folder / f"{name}.params", mapped(lambda x: mx.nd.array(x, dtype=x.dtype), data))
    write_records(mx, folder)
    texts = written_by_hybridc(mx)
    (folder / "symbols.json").write_text(json.dumps(texts, ensure_ascii=False), encoding="utf-8")
    for name, net, inputs in networks(mx):
        outputs(mx, net, inputs)
        net.export(str(folder / name))
    texts = {name: make(mx).tojson() for name, make in loops.CASES.items()}
    (folder / "loop_symbols.json").write_text(json.dumps(texts), encoding="utf-8")
    write_samples(folder)
    print(len(texts), "symbols")


def write_samples(folder):
    import hybridc as mx

    (folder / "samples.json").write_text(json.dumps(samples.written(mx), ensure_ascii=False), encoding="utf-8")


def write_records(mx, folder):
    """Records of any bytes, of image files, and of images that hybridc packs."""
    writer = mx.recordio.MXIndexedRecordIO(folder / "bytes.idx", folder / "bytes.rec", "w")
    for i, data in enumerate(RECORD_DATA):
        writer.write_idx(i, data)
    writer.close()
    writer = mx.recordio.MXIndexedRecordIO(folder / "images.idx", folder / "images.rec", "w")
    for i, name in enumerate(NAMES):
        writer.write_idx(i, mx.recordio.pack((0, [i, 0.5], i, 0), (FILES / name).read_bytes()))
    for i in range(4):
        record = mx.recordio.pack_img((0, [i, 0.5], i, 0), noise(9, 7, seed=i)[:, :, ::-1], 5, ".png")
        writer.write_idx(100 + i, record)
    writer.close()


def mapped(make, data):
    """Every array of a list or dict made by a function."""
    return {k: make(x) for k, x in data.items()} if isinstance(data, dict) else [make(x) for x in data]


# --- MXNet -----------------------------------------------------------------------------------------------------


def check(folder):
    import mxnet as mx  # noqa: TID251

    for name, data in CASES.items():
        assert_same(mx.nd.load(str(folder / f"{name}.params")), data)
    with mx.util.np_shape(True):
        for name, data in NUMPY_SHAPES.items():
            assert_same(mx.nd.load(str(folder / f"{name}.params")), data)
    print(len(CASES) + len(NUMPY_SHAPES), "files of arrays are equal")
    check_records(mx, folder)
    check_networks(mx, folder)
    read_samples(folder)
    check_loops(mx, json.loads((folder / "loop_symbols.json").read_text(encoding="utf-8")))
    check_symbols(mx, json.loads((folder / "symbols.json").read_text(encoding="utf-8")))


def check_records(mx, folder):
    """Read records one after the other and by key, and decode the images in them."""
    reader = mx.recordio.MXIndexedRecordIO(str(folder / "bytes.idx"), str(folder / "bytes.rec"), "r")
    assert [reader.read() for _ in RECORD_DATA] == RECORD_DATA
    assert [reader.read_idx(i) for i in range(len(RECORD_DATA))][::-1] == RECORD_DATA[::-1]
    images = mx.gluon.data.vision.ImageRecordDataset(str(folder / "images.rec"))
    for i, name in enumerate(NAMES):
        assert np.array_equal(images[i][0].asnumpy(), mx.image.imread(str(FILES / name)).asnumpy())
        assert images[i][1].tolist() == [i, 0.5]
    for i in range(4):
        assert np.array_equal(images[len(NAMES) + i][0].asnumpy(), noise(9, 7, seed=i))
    print(len(RECORD_DATA) + len(images), "records are equal")


def check_networks(mx, folder):
    """Run every network with MXNet and compare with what the same network gave there."""
    passed = 0
    with zipfile.ZipFile(here / "networks.zip") as archive:
        for name, _, inputs in networks(mx):
            path = str(folder / name)
            net = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", input_names(inputs), f"{path}-0000.params")
            with np.load(io.BytesIO(archive.read(f"{name}.npz"))) as file:
                wanted = [file[key] for key in file.files]
            found = outputs(mx, net, flat(inputs))
            assert len(found) == len(wanted), name
            for x, y in zip(found, wanted):
                assert x.dtype == y.dtype, name
                assert np.allclose(x, y, 2e-5, 2e-6), name
            passed += 1
    print(passed, "networks give MXNet's results")


def read_samples(folder):
    import mxnet as mx  # noqa: TID251

    check_samples(mx, json.loads((folder / "samples.json").read_text(encoding="utf-8")))


def check_samples(mx, texts):
    """Have MXNet infer the shapes of the results of each sample's file; keep them, or what it lacks, by digest."""
    found = {}
    for name, text in texts.items():
        answer = in_child(shapes_or_error, mx, text)
        result = json.loads(answer) if answer.startswith("[") else answer
        found[samples.digest(text)] = [name.partition(" ")[0], result]
        if not answer.startswith(("[", "lacks")):
            print(f"{name}\n    {answer}")
    content = json.dumps(dict(sorted(found.items())), indent=0).encode()
    (here / "samples_checked.json.gz").write_bytes(gzip.compress(content, mtime=0))
    read = sum(isinstance(answer, list) for _, answer in found.values())
    print(f"{read} samples are read by MXNet, {len(found) - read} are not")


def shapes_or_error(mx, text):
    """What MXNet infers, as JSON; or why it does not."""
    try:
        return json.dumps(samples.answer(mx, text))
    except Exception as error:
        words = " ".join(str(error).split())
        lacking = re.search(r"Operator (\S+) is not registered", words)
        return f"lacks {lacking[1]}" if lacking else re.sub(r"\[\d\d:\d\d:\d\d\] ", "", words)[-200:]


def check_loops(mx, texts):
    """Run every symbol with loops and compare with what its program gave."""
    recorded = Recorded("loop_symbols")
    for name, text in texts.items():
        found = loops.results(mx, mx.sym.load_json(text), name not in loops.NO_GRADIENT)
        recorded.assert_same(name, found)
    (here / "loop_symbols_checked.json").write_text(json.dumps(texts, indent=1) + "\n", encoding="utf-8")
    print(len(texts), "symbols with loops give MXNet's results")


def assert_same(found, data):
    """Equal keys, shapes, dtypes and values."""
    assert type(found) is type(data)
    assert len(found) == len(data)
    for key in data if isinstance(data, dict) else range(len(data)):
        assert found[key].shape == data[key].shape
        assert found[key].dtype == data[key].dtype
        assert np.array_equal(found[key].asnumpy(), data[key])


def check_symbols(mx, texts):
    """Run every symbol with MXNet on the case's inputs and compare with the case's results."""
    passed, operators, failed = {}, {}, 0
    for name, text in texts.items():
        why = in_child(failure, mx, name, text)
        if why:
            failed += 1
            print(f"{name}\n    {why}")
            continue
        passed[name] = text
        for node in json.loads(text)["nodes"]:
            operators[node["op"]] = operators.get(node["op"], 0) + 1
    del operators["null"]
    content = json.dumps(passed, indent=0, ensure_ascii=False).encode()
    (here / "symbols_checked.json.gz").write_bytes(gzip.compress(content, mtime=0))
    print(f"{len(passed)} symbols of {len(operators)} operators give MXNet's results, {failed} fail")


def in_child(function, *args):
    """A function's text, from a process of its own: some symbols kill MXNet."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(write, function(*args).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return f"killed by signal {status}" if status else answer


def failure(mx, name, text):
    """Why a symbol does not give what MXNet gave for the case; empty if it does."""
    record = OPS.index[name]
    try:
        found = results_in_mxnet(mx, text, {key: OPS.get(ref) for key, ref in record["inputs"].items()})
    except Exception as error:
        return " ".join(str(error).split())[-300:]
    wanted = [OPS.get(ref) for ref in record["outs"]]
    if len(found) != len(wanted):
        return f"{len(found)} results, expected {len(wanted)}"
    for x, y in zip(found, wanted):
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"{x.dtype}{x.shape}, expected {y.dtype}{y.shape}"
        if not np.allclose(x.astype("float64"), y.astype("float64"), 1e-5, 1e-6, equal_nan=True):
            return "other values"
    return ""


if __name__ == "__main__":
    np.seterr(all="ignore")
    target = Path(sys.argv[2])
    target.mkdir(exist_ok=True)
    whole = {"write": write, "check": check}
    {"samples": {"write": write_samples, "check": read_samples}}.get(sys.argv[-1], whole)[sys.argv[1]](target)
