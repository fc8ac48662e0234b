"""The command: ``python -m hybridc.tools.scaling [--network encoder] [--ranks 8,64,1024] [--explain]``."""

from __future__ import annotations

from hybridc.tools.scaling.scaling_report import main

if __name__ == "__main__":
    main()
