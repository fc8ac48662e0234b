"""Makes errors.json: the classes of what MXNet 1.9.1 raises for the mistakes of ``error_cases.py``.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_errors.py

An entry names the class, or is null where MXNet raises nothing; it is "" for a case that ends the process, or hangs.
Each case runs in a process of its own.
"""

import json
import multiprocessing
import pathlib
import sys
import tempfile
import warnings

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import mxnet as mx  # noqa: E402, TID251
from error_cases import CASES, raised  # noqa: E402


def run(case, queue):
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        error = raised(mx, folder, case)
    queue.put(None if error is None else type(error).__name__)


def main():
    context = multiprocessing.get_context("fork")
    found = {}
    for case in CASES:
        queue = context.Queue()
        process = context.Process(target=run, args=(case, queue))
        process.start()
        process.join(20)
        if process.is_alive():
            process.kill()
        found[case] = queue.get(timeout=5) if process.exitcode == 0 else ""
    (HERE / "errors.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
