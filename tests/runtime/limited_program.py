"""What a process with few threads, little memory or few files does; each line is a name and ``ok`` or the error.

The arguments are a limit and its value: ``threads 1``, ``memory 450`` in MiB, ``files 40``, ``nothing 0``; a folder;
and the cases, by default all.
"""

import ctypes
import os
import resource
import sys

KIND, VALUE = sys.argv[1], int(sys.argv[2])
USER = 100_000_000 + os.getpid()  # the limit is of all threads of a user: no other process is this one's


def become_another_user():
    """The system limits no threads of root's: another user, who may read root's files still."""
    libc = ctypes.CDLL(None)
    libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(6, 6, 0, 0, 0, 0)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(head, data) == 0


if KIND == "threads":
    resource.setrlimit(resource.RLIMIT_NPROC, (VALUE, VALUE))
    if os.getuid() == 0:
        become_another_user()
elif KIND == "memory":
    resource.setrlimit(resource.RLIMIT_AS, (VALUE << 20, VALUE << 20))
elif KIND == "files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (VALUE, VALUE))

import hybridc as mx  # noqa: E402, I001  # before NumPy: it decides on the threads of NumPy's BLAS
import numpy as np  # noqa: E402
from hybridc import gluon, nd  # noqa: E402
from hybridc.gluon import nn  # noqa: E402


class Squares(gluon.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return np.float32(index) ** 2


def network():
    net = nn.HybridSequential()
    net.add(nn.Dense(32, activation="tanh", in_units=300), nn.Dense(3, in_units=32))
    net.initialize()
    return net


def hybridized():
    net, x = network(), nd.ones((600, 300))
    eager = net(x).asnumpy()
    net.hybridize()
    assert np.allclose(net(x).asnumpy(), eager, 1e-4, 1e-5)


def convolution():
    net, x = nn.HybridSequential(), nd.ones((4, 8, 24, 24))
    net.add(nn.Conv2D(16, 3, in_channels=8, activation="relu"), nn.MaxPool2D(), nn.Dense(3, in_units=16 * 11 * 11))
    net.initialize()
    eager = net(x).asnumpy()
    net.hybridize()
    assert np.allclose(net(x).asnumpy(), eager, 1e-4, 1e-5)


def train_step():
    net = network()
    step = gluon.TrainStep(net, gluon.loss.L2Loss(), gluon.Trainer(net.collect_params(), "adam"))
    losses = [float(step(nd.ones((60, 300)), nd.ones((60, 3))).mean().asscalar()) for _ in range(3)]
    assert losses[0] > losses[2]


def loaded(**options):
    loader = gluon.data.DataLoader(Squares(), 2, **options)
    assert sum(float(batch.sum().asscalar()) for batch in loader) == 140


def save():
    path = os.path.join(sys.argv[3], "x.params")
    network().save_parameters(path)
    network().load_parameters(path)


CASES = {
    "eager": lambda: network()(nd.ones((60, 300))).asnumpy(),
    "hybridized": hybridized,
    "convolution": convolution,
    "train_step": train_step,
    "loader_threads": lambda: loaded(num_workers=2, thread_pool=True),
    "loader_processes": lambda: loaded(num_workers=2),
    "save": save,
}
for name, case in CASES.items():
    if sys.argv[4:] and name not in sys.argv[4:]:
        continue
    try:
        case()
    except mx.MXNetError as error:
        print(name, f"{type(error).__name__}: {error}", flush=True)
    else:
        print(name, "ok", flush=True)
