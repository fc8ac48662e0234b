"""Memory: what a large file takes before its arrays are used."""

from __future__ import annotations

import json
import subprocess
import sys

# Prints by how many MB the memory that is this process's own grew, and the first and last element.
LOAD = """
import sys
import hybridc as mx

def own():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))

before = own()
w = mx.nd.load(sys.argv[1])["w"]
grown = own() - before
print(grown // 1000, w[0].asscalar(), w[-1].asscalar())
"""


def test_a_large_file_takes_no_memory_until_it_is_used(tmp_path):
    path = tmp_path / "large.safetensors"
    count = 1 << 26  # 256 MB, which on the disk are a hole
    header = json.dumps({"w": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}).encode().ljust(96)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 4 * count)
    done = subprocess.run([sys.executable, "-c", LOAD, str(path)], check=True, capture_output=True, text=True)
    grown, first, last = done.stdout.split()
    assert int(grown) < 20
    assert (first, last) == ("0.0", "0.0")
