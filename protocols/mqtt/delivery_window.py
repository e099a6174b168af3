"""DeliveryWindow: unfinished deliveries to a client at QoS 1 and 2, by packet identifier.

Invariants: an identifier is in use from the PUBLISH until its PUBACK or PUBCOMP (MQTT-2.2.1-4, -4.3.3-5).  Never more
are in use than the client allows (MQTT-3.3.4-9), those that wait for PUBCOMP included.  The order is that of sending,
which is the order of sending again (MQTT-4.6.0-1).
"""

from __future__ import annotations

from typing import Final

from entrepot.protocols.mqtt.errors import protocol_error

MAX_PACKET_ID: Final = 65_535


class DeliveryWindow:
    """Deliveries by packet identifier, in order of sending.  `held`: the server's object of each delivery (the
    message's place or its owner).  `unreceived`: identifiers of QoS 2 that wait for PUBREC; `released`: those that wait
    for PUBCOMP."""

    __slots__ = ("held", "maximum", "next_id", "released", "unreceived")

    def __init__(self, maximum: int) -> None:
        self.held: dict[int, object] = {}
        self.unreceived: set[int] = set()
        self.released: set[int] = set()
        self.maximum = maximum
        self.next_id = 0

    @property
    def room(self) -> int:
        """Messages that may still be sent now."""
        return self.maximum - len(self.held)

    def take(self, qos: int, held: object) -> int:
        """Return an identifier for a sent message; there must be room."""
        in_use = self.held
        packet_id = self.next_id
        while True:
            packet_id = packet_id % MAX_PACKET_ID + 1
            if packet_id not in in_use:
                break
        self.next_id = packet_id
        in_use[packet_id] = held
        if qos == 2:
            self.unreceived.add(packet_id)
        return packet_id

    def take_run(self, qos: int, count: int) -> int:
        """Return the first of consecutive identifiers for messages sent together, with nothing held.

        0 if they are not all free.  There must be room.
        """
        first = self.next_id % MAX_PACKET_ID + 1
        last = first + count - 1
        identifiers = range(first, last + 1)
        if last > MAX_PACKET_ID or not self.held.keys().isdisjoint(identifiers):
            return 0
        self.next_id = last
        self.held.update(dict.fromkeys(identifiers))
        if qos == 2:
            self.unreceived.update(identifiers)
        return first

    def acknowledge_run(self, packet_ids: list[int], ended: list[object]) -> None:
        """Take PUBACKs, as `acknowledge` takes one."""
        held = self.held
        if self.unreceived or self.released:
            for packet_id in packet_ids:
                self.acknowledge(packet_id, ended)
        else:
            ended += [held.pop(packet_id) for packet_id in packet_ids if packet_id in held]

    def acknowledge(self, packet_id: int, ended: list[object]) -> None:
        """Take PUBACK, and append the held object of the delivery that it ends to `ended`.  Raises MqttError where
        PUBREC or PUBCOMP is due (4.3.3)."""
        if packet_id in self.unreceived or packet_id in self.released:
            raise protocol_error("PUBACK of a message of QoS 2")
        if packet_id in self.held:
            ended.append(self.held.pop(packet_id))

    def receive(self, packet_id: int) -> bool:
        """Take PUBREC; returns True for the first of its message.  Raises MqttError where PUBACK is due (4.3.2)."""
        if packet_id not in self.unreceived:
            if packet_id in self.held and packet_id not in self.released:
                raise protocol_error("PUBREC of a message of QoS 1")
            return False
        self.unreceived.discard(packet_id)
        self.released.add(packet_id)
        return True

    def complete(self, packet_id: int, ended: list[object]) -> None:
        """Take PUBCOMP; append as `acknowledge`.  Raises MqttError where PUBACK or PUBREC is due (4.3.3)."""
        if packet_id in self.released:
            ended.append(self.finish(packet_id))
        elif packet_id in self.held:
            raise protocol_error("PUBCOMP of a message of QoS 1, or before PUBREC")

    def finish(self, packet_id: int) -> object:
        """Free the identifier, and return its held object."""
        self.unreceived.discard(packet_id)
        self.released.discard(packet_id)
        return self.held.pop(packet_id)
