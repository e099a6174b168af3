"""PacketCounts: control packets by direction, protocol level and type: what the connections of a server share.

Publishes that come in are counted a run at a time; of what goes out, all but PUBLISH: those of a fan-out are made
elsewhere and counted there.
"""

from __future__ import annotations

from collections import Counter

from protocols.mqtt.packets import Packet

PacketType = type[Packet]


class PacketCounts:
    """Totals.  Keys of `sent`: (protocol level, packet type); of `received`: the level, then the type."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.received: dict[int, Counter[PacketType]] = {}
        self.sent: Counter[tuple[int, PacketType]] = Counter()

    def received_of(self, version: int) -> Counter[PacketType]:
        """What came of one protocol level, to be added to."""
        of_version = self.received.get(version)
        if of_version is None:
            of_version = self.received[version] = Counter()
        return of_version
