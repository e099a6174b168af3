"""What no client may send on an open connection, as bytes: 5.0 hears why, 3.1.1 hears nothing."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.mqtt.reason_codes import ReasonCode as R
from tests.conformance.mqtt.script import ID, Case, Steps, case, ends, opens, say

_TOPIC: Final = (b"\0\x0a" + b"c/" + ID.encode()).hex()
_MALFORMED: Final = (R.MALFORMED_PACKET,)
_PROTOCOL: Final = (R.PROTOCOL_ERROR,)
_EITHER: Final = (R.MALFORMED_PACKET, R.PROTOCOL_ERROR)
"""Where the specification forbids the packet and does not say which of the two it is."""


def _wire(first: int, content: str) -> bytes:
    """A packet of this content, in hexadecimal; `{p}` is where version 5 has its properties."""
    body = bytes.fromhex(content.replace(" ", ""))
    return bytes((first, len(body))) + body


def _ends(v: int, wire: bytes, *reasons: R) -> tuple[Steps, ...]:
    return (opens("a", v), say("a", wire), ends("a", v, *reasons))


# name: (first byte, content with {p} for no properties, reason, statements of 5.0, statements of 3.1.1)
_BOTH: Final[dict[str, tuple[int, str, tuple[R, ...], str, str]]] = {
    "PUBREL with flags 0000": (0x60, "0001", _MALFORMED, "3.6.1-1 2.1.3-1", "3.6.1-1 2.2.2-1 2.2.2-2"),
    "SUBSCRIBE with flags 0000": (0x80, "0001{p}" + _TOPIC + "00", _MALFORMED, "3.8.1-1", "3.8.1-1 2.2.2-2"),
    "UNSUBSCRIBE with flags 0000": (0xA0, "0001{p}" + _TOPIC, _MALFORMED, "3.10.1-1", "3.10.1-1 2.2.2-2"),
    "DISCONNECT with flags 0001": (0xE1, "", _MALFORMED, "3.14.1-1", "3.14.1-1 2.2.2-2"),
    "PINGREQ with flags 0001": (0xC1, "", _MALFORMED, "2.1.3-1", "2.2.2-1 2.2.2-2"),
    "PUBACK with flags 0010": (0x42, "0001", _MALFORMED, "2.1.3-1", "2.2.2-2"),
    "packet type 0": (0x00, "", _MALFORMED, "4.13.1-1", "4.8.0-1"),
    "PUBLISH of QoS 3": (0x36, _TOPIC + "0001{p}", _MALFORMED, "3.3.1-4", "3.3.1-4"),
    "PUBLISH of QoS 0 with DUP": (0x38, _TOPIC + "{p}", _MALFORMED, "3.3.1-2", "3.3.1-2"),
    "PUBLISH of bad UTF-8": (0x30, "0002c328{p}", _MALFORMED, "3.3.2-1 1.5.4-1", "3.3.2-1 1.5.3-1"),
    "PUBLISH with NUL": (0x30, "0003610062{p}", _MALFORMED, "1.5.4-2 4.7.3-2", "1.5.3-2 4.7.3-2"),
    "PUBLISH cut short": (0x32, "0005612f", _MALFORMED, "4.13.1-1", "4.8.0-1"),
    "PUBLISH without its identifier": (0x32, _TOPIC, _MALFORMED, "4.13.1-1", "2.3.1-1"),
    "PUBLISH with identifier 0": (0x32, _TOPIC + "0000{p}", _EITHER, "2.2.1-3", "2.3.1-1"),
    "SUBSCRIBE with identifier 0": (0x82, "0000{p}" + _TOPIC + "00", _EITHER, "2.2.1-3", "2.3.1-1"),
    "SUBSCRIBE of QoS 3": (0x82, "0001{p}" + _TOPIC + "03", _MALFORMED, "3.8.3-5", "3.8.3-4"),
    "SUBSCRIBE with reserved bits": (0x82, "0001{p}" + _TOPIC + "c0", _MALFORMED, "3.8.3-5", "3.8.3-4"),
    "SUBSCRIBE without a QoS": (0x82, "0001{p}" + _TOPIC, _MALFORMED, "4.13.1-1", "4.8.0-1"),
    "SUBSCRIBE of bad UTF-8": (0x82, "0001{p}0002c32800", _MALFORMED, "3.8.3-1", "3.8.3-1"),
    "UNSUBSCRIBE of bad UTF-8": (0xA2, "0001{p}0002c328", _MALFORMED, "3.10.3-1", "3.10.3-1"),
    "UNSUBSCRIBE with identifier 0": (0xA2, "0000{p}" + _TOPIC, _EITHER, "2.2.1-3", "2.3.1-1"),
    "SUBSCRIBE of an empty filter": (0x82, "0001{p}000000", _MALFORMED, "4.7.3-1", "4.7.3-1"),
    "UNSUBSCRIBE of an empty filter": (0xA2, "0001{p}0000", _MALFORMED, "4.7.3-1", "4.7.3-1"),
    "CONNACK from a client": (0x20, "0000{p}", _PROTOCOL, "4.13.1-1", "4.8.0-1"),
    "SUBACK from a client": (0x90, "0001{p}00", _PROTOCOL, "4.13.1-1", "4.8.0-1"),
    "UNSUBACK from a client": (0xB0, "0001{p}", _PROTOCOL, "4.13.1-1", "4.8.0-1"),
    "PINGRESP from a client": (0xD0, "", _PROTOCOL, "4.13.1-1", "4.8.0-1"),
    "PUBACK without an identifier": (0x40, "00", _MALFORMED, "4.13.1-1", "4.8.0-1"),
}

_FIVE: Final[dict[str, tuple[int, str, tuple[R, ...], str]]] = {
    "PUBLISH without topic and alias": (0x30, "0000 00", _PROTOCOL, "4.7.3-1"),
    "PUBLISH with a wildcard, QoS 0": (0x30, "0003612f23 00", (R.TOPIC_NAME_INVALID,), "3.3.2-2 4.7.0-1"),
    "PUBLISH with a subscription identifier": (0x30, _TOPIC + "020b01", _PROTOCOL, "3.3.4-6"),
    "PUBLISH with subscription identifier 0": (0x30, _TOPIC + "020b00", _PROTOCOL, "3.3.4-6"),
    "PUBLISH with alias 0": (0x30, _TOPIC + "03230000", (R.TOPIC_ALIAS_INVALID,), "3.3.2-8"),
    "PUBLISH with a property twice": (0x30, _TOPIC + "0401000100", _PROTOCOL, "4.13.1-1"),
    "PUBLISH with a property of CONNECT": (0x30, _TOPIC + "03210001", _PROTOCOL, "4.13.1-1"),
    "PUBLISH with an unknown property": (0x30, _TOPIC + "027f00", _MALFORMED, "4.13.1-1"),
    "PUBLISH with properties past its end": (0x30, _TOPIC + "0401", _MALFORMED, "4.13.1-1"),
    "PUBLISH with payload format 2": (0x30, _TOPIC + "020102", _PROTOCOL, "4.13.1-1"),
    "PUBLISH with a wildcard in the response topic": (0x30, _TOPIC + "06080003612f23", _PROTOCOL, "3.3.2-14"),
    "PUBLISH with a response topic of bad UTF-8": (0x30, _TOPIC + "05080002c328", _MALFORMED, "3.3.2-13"),
    "PUBLISH with a content type of bad UTF-8": (0x30, _TOPIC + "05030002c328", _MALFORMED, "3.3.2-19"),
    "PUBLISH with a pair of bad UTF-8": (0x30, _TOPIC + "0826000161 0002c328", _MALFORMED, "1.5.7-1"),
    "SUBSCRIBE with subscription identifier 0": (0x82, "0001 020b00" + _TOPIC + "00", _PROTOCOL, "4.13.1-1"),
    "SUBSCRIBE with two subscription identifiers": (*(0x82, "0001 040b010b02" + _TOPIC + "00", _PROTOCOL, "4.13.1-1"),),
    "SUBSCRIBE with retain handling 3": (0x82, "0001 00" + _TOPIC + "30", _EITHER, "3.8.3-5"),
    "DISCONNECT with an unknown reason": (0xE0, "03", _EITHER, "3.14.2-1"),
    "DISCONNECT with the reason of another packet": (0xE0, "10", _EITHER, "3.14.2-1"),
    "PUBACK with an unknown reason": (0x40, "0001 7f", _EITHER, "3.4.2-1"),
    "PUBREL with the reason of PUBACK": (0x62, "0001 10", _EITHER, "3.6.2-1"),
    "AUTH with flags 0001": (0xF1, "", _MALFORMED, "3.15.1-1"),
    "AUTH with an unknown reason": (0xF0, "01 00", _EITHER, "3.15.2-1"),
}


def _of_both() -> list[Case]:
    found = []
    for name, (first, content, reasons, five, four) in _BOTH.items():
        wire5, wire4 = _wire(first, content.replace("{p}", "00")), _wire(first, content.replace("{p}", ""))
        found.append(case(f"{name} [5]", *_ends(5, wire5, *reasons), five=f"{five} 4.13.1-1"))
        found.append(case(f"{name} [3.1.1]", *_ends(4, wire4), four=f"{four} 4.8.0-1"))
    return found


CASES: Final[list[Case]] = [
    *_of_both(),
    *[
        case(name, *_ends(5, _wire(first, content), *reasons), five=f"{five} 4.13.1-1 4.13.2-1")
        for name, (first, content, reasons, five) in _FIVE.items()
    ],
    case("PUBLISH with a wildcard [3.1.1]", *_ends(4, _wire(0x30, "0003612f23")), four="3.3.2-2 4.7.1-1"),
    case("PUBLISH without a topic [3.1.1]", *_ends(4, _wire(0x30, "0000")), four="4.7.3-1"),
    case("AUTH in 3.1.1", *_ends(4, b"\xf0\0"), four="4.8.0-1 2.2.2-1"),
    case("a remaining length of five bytes [5]", *_ends(5, b"\x30\xff\xff\xff\xff\x01", *_MALFORMED), five="1.5.5-1"),
    case("a remaining length of five bytes [3.1.1]", *_ends(4, b"\x30\xff\xff\xff\xff\x01"), four="4.8.0-1"),
    case("a remaining length of more bytes than it takes", *_ends(5, b"\xc0\x80\0", *_MALFORMED), five="1.5.5-1"),
]
