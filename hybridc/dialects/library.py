"""All of our operators: importing this module registers them. One line for each family."""

from __future__ import annotations

from hybridc.dialects import elementwise as elementwise
from hybridc.dialects import layout as layout
from hybridc.dialects import shape as shape
