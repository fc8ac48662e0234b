"""The command: ``python -m hybridc.tools.machine [--json]``."""

from __future__ import annotations

from hybridc.tools.machine import main

if __name__ == "__main__":
    main()
