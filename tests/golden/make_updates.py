"""Makes updates.npz: MXNet 1.9.1's update operators and optimizers, over several steps.

Run where MXNet 1.9.1 is installed (Python 3.11, ``pip install mxnet==1.9.1 numpy==1.23.5``)::

    python tests/golden/make_updates.py

The cases are in ``update_cases.py``.
"""

import pathlib
import sys
import warnings

import mxnet as mx  # noqa: TID251
import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import update_cases as cases  # noqa: E402
from frontend_cases import problem, trajectory  # noqa: E402
from store import Writer  # noqa: E402

warnings.simplefilter("ignore")
OUT = Writer()
OUT.index["multi_lars"] = OUT.put(cases.run_lars(mx))
for table, run in ((cases.ONE, cases.run_one), (cases.MANY, cases.run_many), (cases.CONTRIB, cases.run_contrib)):
    for name in table:
        OUT.index[name] = [OUT.put(x) for x in run(mx, name)]
for name, (kind, options, setup) in cases.OPTIMIZERS.items():
    options = dict(options)
    if "lr_scheduler" in options:
        klass, args = options.pop("lr_scheduler")
        options["lr_scheduler"] = getattr(mx.lr_scheduler, klass)(**args)
    OUT.index[f"optimizer/{name}"] = OUT.put(trajectory(mx, kind, options, setup))
OUT.index["states"] = {case: cases.states_of(mx, case) for case in cases.STATES}
for name, (kind, options, setup) in cases.SAVED.items():
    dtype = setup.get("dtype", "float32")
    updater, weight = (
        mx.optimizer.get_updater(cases.made(mx, kind, options)),
        mx.nd.array(problem(dtype)[0], dtype=dtype),
    )
    before = cases.continued(mx, updater, weight, range(3), dtype)
    texts = [np.frombuffer(updater.get_states(dump_optimizer=dump), np.uint8) for dump in (True, False)]
    after = cases.continued(mx, updater, weight, range(3, 6), dtype)
    OUT.index[f"saved/{name}"] = [OUT.put(x) for x in (before, *texts, after)]
OUT.save(HERE / "updates.npz")
