"""Every test verifies the IR after each pass, and the memory plan."""

from __future__ import annotations

import os

os.environ.setdefault("HYBRIDC_VERIFY", "1")  # read when hybridc is imported, so before that
