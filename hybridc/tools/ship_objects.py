"""Compile what is the same for all users into the package: ``python -m hybridc.tools.ship_objects``.

The native runtime and its variant that records events, for each architecture of ``SHIPPED``, whatever this computer is.
Building a wheel does it, and setting up a source tree; where an object is missing, it is compiled at first use.
"""

from __future__ import annotations

from hybridc.ground.store import ship, shipped, unship
from hybridc.lower.llvm.executor.runtime_object import SHIPPED, compiled_runtime, runtime_key


def main() -> None:
    """Make the objects, unless those of these sources are there."""
    wanted = [(architecture, records) for architecture in SHIPPED for records in (False, True)]
    keys = [runtime_key("linux", *each) for each in wanted]
    if all(shipped(key, bytes) for key in keys):
        return
    unship()
    for key, (architecture, records) in zip(keys, wanted, strict=True):
        ship(key, compiled_runtime(architecture, records, SHIPPED[architecture]))


if __name__ == "__main__":
    main()
