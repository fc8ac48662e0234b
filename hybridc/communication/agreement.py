"""What all ranks must have in common is compared before it is used: a difference is an error on all, not a hang."""

from __future__ import annotations

from typing import Any

from hybridc.communication.communicator import Communicator
from hybridc.communication.disagreement import COMPARISON
from hybridc.communication.world import communicator


def require_equal(what: str, value: Any, ranks: Communicator | None = None) -> None:
    """Raise on all ranks unless ``value`` is equal on all of them; all call this. ``what`` names it: "the optimizer".

    Values are plain ones, which differ where their ``repr`` does. Of two mappings or sequences the message names the
    first entry that differs.
    """
    ranks = communicator() if ranks is None else ranks
    if ranks.size > 1:
        ranks.agree(COMPARISON + what, value)
