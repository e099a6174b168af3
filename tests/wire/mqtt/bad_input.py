"""Bytes a decoder must refuse, with the clause that says so (of MQTT 5.0 if not 3.1.1) and the reason code."""

from __future__ import annotations

from typing import NamedTuple

from entrepot.protocols.mqtt.reason_codes import ReasonCode as R

LIMIT = 1000


class Bad(NamedTuple):
    """`version` 0 is a connection that has not sent CONNECT; `wire` is hexadecimal."""

    name: str
    clause: str
    version: int
    wire: str
    reason: R


def framed(first: int, content: str) -> str:
    size = len(bytes.fromhex(content))
    assert size < 128
    return f"{first:02x}{size:02x}{content}"


def connect(flags: str, payload: str = "0000", name: str = "00044d515454", level: str = "05", props: str = "00") -> str:
    return framed(0x10, name + level + flags + "003c" + (props if level == "05" else "") + payload)


def with_props(first: int, before: str, props: str, after: str = "") -> str:
    return framed(first, before + f"{len(bytes.fromhex(props)):02x}" + props + after)


MALFORMED, PROTOCOL = R.MALFORMED_PACKET, R.PROTOCOL_ERROR
TOPIC = "0003612f62"
ID = "0007"

FRAMING = [
    Bad("type 0", "2.1.2", 5, "0000", MALFORMED),
    Bad("AUTH before version 5", "3.1.1: 2.2.1", 4, "f000", MALFORMED),
    Bad("remaining length of five bytes", "1.5.5", 5, "c0ffffffff01", MALFORMED),
    Bad("remaining length of four bytes with a continuation", "1.5.5", 5, "c080808080", MALFORMED),
    Bad("remaining length not minimal, two bytes", "MQTT-1.5.5-1", 5, "c08000", MALFORMED),
    Bad("remaining length not minimal, three bytes", "MQTT-1.5.5-1", 5, "30858000" + TOPIC, MALFORMED),
    Bad("longer than the maximum packet size", "3.1.2.11.4", 5, "30e807", R.PACKET_TOO_LARGE),
    Bad("longer than it, its size counting the header", "3.1.2.11.4", 5, "30e607", R.PACKET_TOO_LARGE),
    Bad("longest packet there is", "3.1.2.11.4", 4, "30ffffff7f", R.PACKET_TOO_LARGE),
    Bad("first packet is PUBLISH", "MQTT-3.1.0-1", 0, framed(0x30, TOPIC), PROTOCOL),
    Bad("first packet is PUBACK", "MQTT-3.1.0-1", 0, framed(0x40, ID), PROTOCOL),
    Bad("first bytes are HTTP's", "MQTT-3.1.0-1", 0, b"GET / HTTP/1.1\r\n".hex(), PROTOCOL),
    Bad("first bytes are TLS's", "MQTT-2.1.3-1", 0, "160301", MALFORMED),
]

# What each packet's low four bits must be (2.1.3); PUBLISH has its own.
FLAGS = [
    Bad(f"flags {flags:04b} of packet type {kind}", "MQTT-2.1.3-1", version, f"{kind << 4 | flags:02x}00", MALFORMED)
    for version in (4, 5)
    for kind, right in {1: 0, 2: 0, 4: 0, 5: 0, 6: 2, 7: 0, 8: 2, 9: 0, 10: 2, 11: 0, 12: 0, 13: 0, 14: 0}.items()
    for flags in (0, 1, 2, 4, 8, 10)
    if flags != right
]

CONNECT = [
    Bad("protocol name", "MQTT-3.1.2-1", 0, connect("02", name="00044d515458"), R.UNSUPPORTED_PROTOCOL_VERSION),
    Bad(
        "protocol name in lower case",
        "MQTT-3.1.2-1",
        0,
        connect("02", name="00046d717474"),
        R.UNSUPPORTED_PROTOCOL_VERSION,
    ),
    Bad("level 6", "MQTT-3.1.2-2", 0, connect("02", level="06"), R.UNSUPPORTED_PROTOCOL_VERSION),
    Bad("level 0", "MQTT-3.1.2-2", 0, connect("02", level="00"), R.UNSUPPORTED_PROTOCOL_VERSION),
    Bad("level 3 with the name of 3.1.1", "MQTT-3.1.2-2", 0, connect("02", level="03"), R.UNSUPPORTED_PROTOCOL_VERSION),
    Bad(
        "level 4 with the name of 3.1",
        "MQTT-3.1.2-1",
        0,
        connect("02", name="00064d5149736470", level="04"),
        R.UNSUPPORTED_PROTOCOL_VERSION,
    ),
    Bad("nothing in it", "3.1.2.1", 0, "1000", MALFORMED),
    Bad("ends after the level", "3.1.2.3", 0, framed(0x10, "00044d51545405"), MALFORMED),
    Bad("reserved flag", "MQTT-3.1.2-3", 0, connect("03"), MALFORMED),
    Bad("reserved flag, 3.1.1", "3.1.1: MQTT-3.1.2-3", 0, connect("03", level="04"), MALFORMED),
    Bad("will QoS without a will", "MQTT-3.1.2-11", 0, connect("0a"), MALFORMED),
    Bad("will retain without a will", "MQTT-3.1.2-13", 0, connect("22"), MALFORMED),
    Bad("will QoS 3", "MQTT-3.1.2-12", 0, connect("1e", "0000" + "00" + TOPIC + "0000"), MALFORMED),
    Bad("will flag without a will", "MQTT-3.1.2-9", 0, connect("06", "0000"), MALFORMED),
    Bad(
        "will topic with a wildcard",
        "3.1.3.3",
        0,
        connect("06", "0000" + "00" + "0003612f23" + "0000"),
        R.TOPIC_NAME_INVALID,
    ),
    Bad("will topic empty", "MQTT-4.7.3-1", 0, connect("06", "0000" + "00" + "0000" + "0000"), MALFORMED),
    Bad("property of CONNECT in the will", "2.2.2.2", 0, connect("06", "0000" + "03210005" + TOPIC + "0000"), PROTOCOL),
    Bad("property of the will in CONNECT", "2.2.2.2", 0, connect("02", props="051800000001"), PROTOCOL),
    Bad(
        "password without a user name, 3.1.1",
        "3.1.1: MQTT-3.1.2-22",
        0,
        connect("42", "0000" + "000170", level="04"),
        MALFORMED,
    ),
    Bad("user name flag without a user name", "MQTT-3.1.2-17", 0, connect("82", "0000"), MALFORMED),
    Bad("password flag without a password", "MQTT-3.1.2-19", 0, connect("c2", "0000" + "000175"), MALFORMED),
    Bad("user name without its flag", "MQTT-3.1.2-16", 0, connect("02", "0000" + "000175"), MALFORMED),
    Bad("no client identifier", "MQTT-3.1.3-3", 0, connect("02", ""), MALFORMED),
    Bad("client identifier with NUL", "MQTT-1.5.4-2", 0, connect("02", "000100"), MALFORMED),
    Bad("user name is a surrogate", "MQTT-1.5.4-1", 0, connect("82", "0000" + "0003eda080"), MALFORMED),
    Bad("authentication data without a method", "3.1.2.11.10", 0, connect("02", props="0416000161"), PROTOCOL),
    Bad("receive maximum 0", "3.1.2.11.3", 0, connect("02", props="03210000"), PROTOCOL),
    Bad("receive maximum twice", "3.1.2.11.3", 0, connect("02", props="06210005210005"), PROTOCOL),
    Bad("maximum packet size 0", "3.1.2.11.4", 0, connect("02", props="052700000000"), PROTOCOL),
    Bad("request problem information 2", "3.1.2.11.7", 0, connect("02", props="021702"), PROTOCOL),
    Bad("request response information 2", "3.1.2.11.6", 0, connect("02", props="021902"), PROTOCOL),
    Bad("session expiry interval cut short", "3.1.2.11.2", 0, connect("02", props="03110000"), MALFORMED),
    Bad("unknown property", "2.2.2.2", 0, connect("02", props="027f00"), MALFORMED),
    Bad("property identifier of two bytes", "2.2.2.2", 0, connect("02", props="03a10100"), MALFORMED),
    Bad("property length past the end", "2.2.2.1", 0, connect("02", props="40", payload="0000"), MALFORMED),
]

PUBLISH = [
    Bad("QoS 3", "MQTT-3.3.1-4", 4, framed(0x36, TOPIC + ID), MALFORMED),
    Bad("QoS 3 with DUP and RETAIN", "MQTT-3.3.1-4", 5, framed(0x3F, TOPIC + ID + "00"), MALFORMED),
    Bad("DUP at QoS 0", "MQTT-3.3.1-2", 5, framed(0x38, TOPIC + "00"), MALFORMED),
    Bad("nothing in it", "3.3.2.1", 5, "3000", MALFORMED),
    Bad("one byte", "3.3.2.1", 4, "300100", MALFORMED),
    Bad("topic past the end", "3.3.2.1", 4, framed(0x30, "000461"), MALFORMED),
    Bad("topic past the end, into what follows", "3.3.2.1", 4, framed(0x30, "000a61") + "c000" * 8, MALFORMED),
    Bad("no packet identifier", "3.3.2.2", 4, framed(0x32, TOPIC), MALFORMED),
    Bad("half a packet identifier", "3.3.2.2", 4, framed(0x32, TOPIC + "00") + "c000", MALFORMED),
    Bad("packet identifier 0", "MQTT-2.2.1-3", 4, framed(0x32, TOPIC + "0000"), MALFORMED),
    Bad("packet identifier 0, QoS 2", "MQTT-2.2.1-3", 5, framed(0x34, TOPIC + "0000" + "00"), MALFORMED),
    Bad("no property length", "3.3.2.3.1", 5, framed(0x30, TOPIC) + "c000", MALFORMED),
    Bad("property length past the end", "2.2.2.1", 5, framed(0x30, TOPIC + "05"), MALFORMED),
    Bad("property length not minimal", "MQTT-1.5.5-1", 5, framed(0x30, TOPIC + "8000"), MALFORMED),
    Bad("property past the property length", "2.2.2", 5, framed(0x30, TOPIC + "0223" + "0001"), MALFORMED),
    Bad("topic with #", "MQTT-3.3.2-2", 5, framed(0x30, "0003612f23" + "00"), R.TOPIC_NAME_INVALID),
    Bad("topic with + inside a level", "MQTT-3.3.2-2", 4, framed(0x30, "0003612b62"), R.TOPIC_NAME_INVALID),
    Bad("topic empty", "3.1.1: MQTT-4.7.3-1", 4, framed(0x30, "0000"), MALFORMED),
    Bad("topic empty, no alias", "3.3.2.1", 5, framed(0x30, "0000" + "00"), PROTOCOL),
    Bad("topic empty, no alias among the properties", "3.3.2.1", 5, with_props(0x30, "0000", "0101"), PROTOCOL),
    Bad("topic with NUL", "MQTT-1.5.4-2", 5, framed(0x30, "0003610062" + "00"), MALFORMED),
    Bad("topic not UTF-8", "MQTT-3.3.2-1", 4, framed(0x30, "0002c328"), MALFORMED),
    Bad("topic is an encoded surrogate", "MQTT-1.5.4-1", 4, framed(0x30, "0003eda080"), MALFORMED),
    Bad("topic has an overlong slash", "1.5.4", 4, framed(0x30, "0002c0af"), MALFORMED),
    Bad("topic ends inside a character", "1.5.4", 4, framed(0x30, "0002e282"), MALFORMED),
    Bad("topic beyond the last code point", "1.5.4", 4, framed(0x30, "0004f4908080"), MALFORMED),
    Bad("topic alias 0", "MQTT-3.3.2-8", 5, with_props(0x30, TOPIC, "230000"), R.TOPIC_ALIAS_INVALID),
    Bad("topic alias twice", "3.3.2.3.4", 5, with_props(0x30, TOPIC, "230001230001"), PROTOCOL),
    Bad("payload format 2", "3.3.2.3.2", 5, with_props(0x30, TOPIC, "0102"), PROTOCOL),
    Bad("subscription identifier 0", "3.3.2.3.8", 5, with_props(0x30, TOPIC, "0b00"), PROTOCOL),
    Bad("subscription identifier not minimal", "MQTT-1.5.5-1", 5, with_props(0x30, TOPIC, "0b8100"), MALFORMED),
    Bad("response topic with a wildcard", "MQTT-3.3.2-14", 5, with_props(0x30, TOPIC, "080003612f23"), PROTOCOL),
    Bad("property of CONNECT", "2.2.2.2", 5, with_props(0x30, TOPIC, "1100000001"), PROTOCOL),
    Bad("user property without a value", "1.5.7", 5, with_props(0x30, TOPIC, "26000161"), MALFORMED),
    Bad("content type with NUL", "MQTT-1.5.4-2", 5, with_props(0x30, TOPIC, "03000100"), MALFORMED),
]

# PUBACK, PUBREC, PUBREL and PUBCOMP are alike.
ACKNOWLEDGEMENTS = [
    Bad(f"{name}, first byte {first:02x}", clause, version, framed(first, content), reason)
    for first in (0x40, 0x50, 0x62, 0x70)
    for name, clause, version, content, reason in (
        ("nothing in it", "3.4.2", 5, "", MALFORMED),
        ("half a packet identifier", "3.4.2", 4, "00", MALFORMED),
        ("packet identifier 0", "MQTT-2.2.1-3", 4, "0000", MALFORMED),
        ("reason code, 3.1.1", "3.1.1: 3.4.1", 4, "000700", MALFORMED),
        ("unknown reason code", "3.4.2.1", 5, "0007ff", PROTOCOL),
        ("reason code of another packet", "3.4.2.1", 5, "00078e", PROTOCOL),
        ("bytes after the properties", "2.1.4", 5, "0007000000", MALFORMED),
        ("property not allowed", "2.2.2.2", 5, "000700032100" + "05", PROTOCOL),
        ("reason string twice", "3.4.2.2.2", 5, "0007" + "00" + "08" + "1f000161" * 2, PROTOCOL),
    )
]

SUBSCRIBE = [
    Bad("no filter, 3.1.1", "3.1.1: MQTT-3.8.3-3", 4, framed(0x82, ID), PROTOCOL),
    Bad("no filter", "MQTT-3.8.3-2", 5, framed(0x82, ID + "00"), PROTOCOL),
    Bad("packet identifier 0", "MQTT-2.2.1-3", 5, framed(0x82, "0000" + "00" + TOPIC + "00"), MALFORMED),
    Bad("no options", "3.8.3", 5, framed(0x82, ID + "00" + TOPIC), MALFORMED),
    Bad("QoS 3", "3.8.3.1", 5, framed(0x82, ID + "00" + TOPIC + "03"), MALFORMED),
    Bad("QoS 3, 3.1.1", "3.1.1: MQTT-3-8.3-4", 4, framed(0x82, ID + TOPIC + "03"), MALFORMED),
    Bad("options of version 5, 3.1.1", "3.1.1: MQTT-3-8.3-4", 4, framed(0x82, ID + TOPIC + "04"), MALFORMED),
    Bad("retain handling 3", "3.8.3.1", 5, framed(0x82, ID + "00" + TOPIC + "30"), MALFORMED),
    Bad("reserved option bit 6", "MQTT-3.8.3-5", 5, framed(0x82, ID + "00" + TOPIC + "40"), MALFORMED),
    Bad("reserved option bit 7", "MQTT-3.8.3-5", 5, framed(0x82, ID + "00" + TOPIC + "80"), MALFORMED),
    Bad("second filter cut short", "3.8.3", 5, framed(0x82, ID + "00" + TOPIC + "01" + "0004"), MALFORMED),
    Bad("filter with NUL", "MQTT-4.7.3-2", 5, framed(0x82, ID + "00" + "000100" + "01"), MALFORMED),
    Bad("filter not UTF-8", "MQTT-3.8.3-1", 4, framed(0x82, ID + "0001ff" + "01"), MALFORMED),
    Bad("an empty filter", "MQTT-4.7.3-1", 5, framed(0x82, ID + "00" + "0000" + "01"), MALFORMED),
    Bad("an empty filter, 3.1.1", "3.1.1: MQTT-4.7.3-1", 4, framed(0x82, ID + TOPIC + "01" + "0000" + "01"), MALFORMED),
    Bad("subscription identifier 0", "3.8.2.1.2", 5, with_props(0x82, ID, "0b00", TOPIC + "01"), PROTOCOL),
    Bad("subscription identifier twice", "3.8.2.1.2", 5, with_props(0x82, ID, "0b010b02", TOPIC + "01"), PROTOCOL),
]

UNSUBSCRIBE = [
    Bad("no filter, 3.1.1", "3.1.1: MQTT-3.10.3-2", 4, framed(0xA2, ID), PROTOCOL),
    Bad("no filter", "MQTT-3.10.3-2", 5, framed(0xA2, ID + "00"), PROTOCOL),
    Bad("UNSUBSCRIBE with packet identifier 0", "MQTT-2.2.1-3", 4, framed(0xA2, "0000" + TOPIC), MALFORMED),
    Bad("UNSUBSCRIBE of an empty filter", "MQTT-4.7.3-1", 5, framed(0xA2, ID + "00" + "0000"), MALFORMED),
    Bad("UNSUBSCRIBE of an empty filter, 3.1.1", "3.1.1: MQTT-4.7.3-1", 4, framed(0xA2, ID + "0000"), MALFORMED),
    Bad("filter cut short", "3.10.3", 4, framed(0xA2, ID + "000461"), MALFORMED),
    Bad("subscription identifier", "3.10.2.1", 5, with_props(0xA2, ID, "0b01", TOPIC), PROTOCOL),
]

THE_REST = [
    Bad("PINGREQ with content", "3.12.1", 5, "c00100", MALFORMED),
    Bad("PINGRESP with content", "3.13.1", 4, "d00100", MALFORMED),
    Bad("DISCONNECT with content, 3.1.1", "3.1.1: 3.14.1", 4, "e00100", MALFORMED),
    Bad("DISCONNECT with the reason of another packet", "3.14.2.1", 5, "e00185", PROTOCOL),
    Bad("DISCONNECT with bytes after the properties", "2.1.4", 5, "e003000000", MALFORMED),
    Bad("DISCONNECT with a property not allowed", "3.14.2.2", 5, "e00500" + "03210005", PROTOCOL),
    Bad("AUTH with an unknown reason", "3.15.2.1", 5, "f0021a00", PROTOCOL),
    Bad("AUTH without a property length", "3.15.2.2.1", 5, "f00118", MALFORMED),
    Bad("AUTH with data and no method", "3.15.2.2", 5, "f00618" + "0416000161", PROTOCOL),
    Bad("CONNACK with a reserved flag", "3.2.2.1", 5, "2003020000", MALFORMED),
    Bad("CONNACK with session present in a refusal", "MQTT-3.2.2-6", 5, "2003018700", PROTOCOL),
    Bad("CONNACK with return code 6, 3.1.1", "3.1.1: 3.2.2.3", 4, "20020006", PROTOCOL),
    Bad("CONNACK with maximum QoS 2", "3.2.2.3.4", 5, "20050000" + "022402", PROTOCOL),
    Bad("CONNACK with bytes after its content, 3.1.1", "3.1.1: 3.2.1", 4, "2003000000", MALFORMED),
    Bad("SUBACK with reason 3", "3.9.3", 5, "9004" + ID + "0003", PROTOCOL),
    Bad("SUBACK with a reason of version 5, 3.1.1", "3.1.1: MQTT-3.9.3-2", 4, "9003" + ID + "87", PROTOCOL),
    Bad("UNSUBACK with content, 3.1.1", "3.1.1: 3.11.3", 4, "b003" + ID + "00", MALFORMED),
    Bad("UNSUBACK with a reason of SUBACK", "3.11.3", 5, "b004" + ID + "0001", PROTOCOL),
]

BAD_INPUT = [*FRAMING, *FLAGS, *CONNECT, *PUBLISH, *ACKNOWLEDGEMENTS, *SUBSCRIBE, *UNSUBSCRIBE, *THE_REST]
