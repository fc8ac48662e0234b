"""As ``equal_steps.py``, with a simulated GPU for each rank and an NCCL of our own; prints how often NCCL was asked.

With ``same`` as the first argument the ranks have the same GPU.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest

from tests.distributed.programs import equal_steps
from tests.runtime.devices.simulated import SimulatedCuda, simulated_gpu
from tests.runtime.devices.stub_nccl import StubNccl

first, *cases = sys.argv[1:]
stub = SimulatedCuda()
if first != "same":
    stub.uuid = f"{os.getpid()}".encode().ljust(15)
library = StubNccl(stub)
with pytest.MonkeyPatch.context() as patch, simulated_gpu(stub):
    patch.setattr("hybridc.runtime.devices.nvidia.cuda.nccl_library", lambda: library)
    for case in cases:
        equal_steps.run(case)
    stub.finish()
print("calls", sorted(Counter(name for name, _ in library.calls)), library.together, flush=True)
