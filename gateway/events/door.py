"""EventsDoor: rules of CloudEvents, which examine the messages of all doors; a door that nobody connects to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.gateway.door.door import Door
from entrepot.gateway.events.admission import Admission
from entrepot.gateway.events.rules import EventRules

if TYPE_CHECKING:
    from entrepot.gateway.door.parts import Parts

DRAIN_ORDER: Final = 100
"""After HTTP: its rules hold for every event that is still taken."""


class EventsDoor(Door):
    """The rules of topics, and their admission of messages."""

    name, drain_order = "events", DRAIN_ORDER

    def __init__(self, parts: Parts) -> None:
        self._start_seconds = parts.settings.cluster.start_seconds
        self.admission = Admission(EventRules(parts.store.key_values), parts.sender)

    async def start(self) -> None:
        await self.admission.rules.start(self._start_seconds)

    async def close(self, until: float) -> None:
        self.admission.rules.close()
