"""PacketCounts: control packets by direction, protocol level and type, shared by the connections of a server.  Incoming
publishes are counted a run at a time.  Outgoing PUBLISH packets are not counted here: a fan-out counts its own."""

from __future__ import annotations

from collections import Counter

from entrepot.protocols.mqtt.packets import Packet

PacketType = type[Packet]


class PacketCounts:
    """Totals.  Keys of `sent`: (protocol level, packet type); of `received`: the level, then the type."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.received: dict[int, Counter[PacketType]] = {}
        self.sent: Counter[tuple[int, PacketType]] = Counter()

    def received_of(self, version: int) -> Counter[PacketType]:
        """Return the counter of packets received at a protocol level."""
        of_version = self.received.get(version)
        if of_version is None:
            of_version = self.received[version] = Counter()
        return of_version
