"""Answered: settlements and recalls that this gateway has answered with OK, so that the same call again is answered
alike.

A client whose answer was lost sends its call again. By then the handle is no longer current, and a refusal would tell
it that the call failed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

MAX_ANSWERED: Final = 100_000
"""Settlements that are remembered; each is one number."""

ACKNOWLEDGED: Final = "acknowledged"
DEAD_LETTERED: Final = "dead-lettered"
RELEASED: Final = "released"
RECALLED: Final = "recalled"
"""Of a message that waits for its time: the handle is that of the send, and there is no group."""


class Answered:
    """The newest settlements of this gateway, of any client."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, None] = OrderedDict()

    def note(self, how: str, topic: str, group: str, handle: str) -> None:
        """Remember that a delivery was settled this way."""
        self._known[hash((how, topic, group, handle))] = None
        if len(self._known) > MAX_ANSWERED:
            self._known.popitem(last=False)

    def is_known(self, how: str, topic: str, group: str, handle: str) -> bool:
        """True if a delivery was settled this way lately."""
        return hash((how, topic, group, handle)) in self._known
