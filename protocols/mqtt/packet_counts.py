"""PacketCounts: control packets by direction, protocol level and type: what the connections of a server share.

Packets that come in are counted a read at a time; of what goes out, all but PUBLISH: those of a fan-out are made
elsewhere and counted there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from protocols.mqtt.packets import Packet, Puback, Pubacks

PacketType = type[Packet]


class PacketCounts:
    """Totals.  Keys of `sent`: (protocol level, packet type); of `received`: the level, then the type."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.received: dict[int, Counter[PacketType]] = {}
        self.sent: Counter[tuple[int, PacketType]] = Counter()

    def note_received(self, version: int, packets: Sequence[Packet]) -> None:
        """Packets that came in one read."""
        of_version = self.received.get(version)
        if of_version is None:
            of_version = self.received[version] = Counter()
        if len(packets) == 1:
            of_version[type(packets[0])] += 1
        else:
            of_version.update(map(type, packets))
        if of_version.pop(Pubacks, 0):
            of_version[Puback] += sum(len(packet.packet_ids) for packet in packets if isinstance(packet, Pubacks))
