"""Control packet types (MQTT 5.0 section 2.1.2)."""

from __future__ import annotations

from enum import IntEnum


class PacketType(IntEnum):
    """The high four bits of a packet's first byte.  `WILL` takes the reserved number 0: it is not a packet, but the
    will inside CONNECT has a property list of its own."""

    WILL = 0
    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15
