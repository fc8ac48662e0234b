"""Print the levels of HYBRIDC_CPU that this machine runs and that are not what it would choose itself."""

from __future__ import annotations

print("generic")
