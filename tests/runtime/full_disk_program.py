"""What writes files into a folder whose file system becomes full; each line is a name and ``ok`` or the error.

The last line says which files are not as they were, and which are new.
"""

import json
import os
import sys

import hybridc as mx
from hybridc import gluon, nd

FOLDER = sys.argv[1]


def content():
    """The bytes of all files."""
    found = {}
    for folder, _, names in os.walk(FOLDER):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.relpath(file.name, FOLDER)] = file.read()
    return found


def profile():
    mx.profiler.set_config(filename=f"{FOLDER}/profile.json")
    mx.profiler.start()
    net(nd.ones((2, 8))).wait_to_read()
    mx.profiler.dump()


net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(8, in_units=8))
net.initialize()
net.hybridize()
net(nd.ones((2, 8)))
trainer = gluon.Trainer(net.collect_params(), "adam")
gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)(nd.ones((2, 8)), nd.ones((2, 8)))
CASES = {
    "save_parameters": lambda: net.save_parameters(f"{FOLDER}/x.params"),
    "save": lambda: nd.save(f"{FOLDER}/x.nd", {"a": nd.ones((10,))}),
    "save_states": lambda: trainer.save_states(f"{FOLDER}/x.states"),
    "export": lambda: net.export(f"{FOLDER}/x"),
    "symbol": lambda: mx.sym.var("a").save(f"{FOLDER}/x-sym.json"),
    "checkpoint": lambda: mx.distributed.Checkpoint(f"{FOLDER}/steps", net, trainer).save(),
    "profile": profile,
}
for case in CASES.values():
    case()
before = content()
filler = os.open(f"{FOLDER}/filler", os.O_CREAT | os.O_WRONLY)
try:
    while os.write(filler, bytes(1 << 12)):
        pass
except OSError:
    pass
for name, case in CASES.items():
    try:
        case()
    except mx.MXNetError as error:
        print(name, f"{type(error).__name__}: {error}")
    else:
        print(name, "ok")
after = content()
json.loads(after["profile.json"])
changed = [name for name in before if after.get(name) != before[name] and name != "profile.json"]
print("changed", changed, "new", [name for name in after if name not in before and name != "filler"])
