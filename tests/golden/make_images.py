"""Makes images.npz: what MXNet 1.9.1 gives for the programs of ``image_cases.py``.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_images.py
"""

import pathlib
import sys
import tempfile
import warnings

import mxnet as mx  # noqa: TID251
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from image_cases import CASES
from store import Writer

warnings.simplefilter("ignore")
writer = Writer()
for name, program in CASES.items():
    with tempfile.TemporaryDirectory() as folder:
        made = program(mx, pathlib.Path(folder))
    writer.index[name] = [writer.put(np.asarray(x)) for x in made]
writer.save(pathlib.Path(__file__).with_name("images.npz"))
print(len(writer.index), "programs")
