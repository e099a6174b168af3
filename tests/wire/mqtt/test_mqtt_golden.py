"""Bytes written out by hand from the specifications, both ways: encoder and decoder cannot share a mistake here."""

from __future__ import annotations

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from entrepot.protocols.mqtt.properties import PropertyId as P
from entrepot.protocols.mqtt.reason_codes import ConnectReturnCode
from entrepot.protocols.mqtt.reason_codes import ReasonCode as R
from tests.support.cases import cases

GOLDEN: list[tuple[int, str, Packet]] = [
    (3, "10 0f 0006 4d5149736470 03 02 000a 0001 63", Connect("c", 3, True, 10)),
    (
        4,
        "10 1c 0004 4d515454 04 ee 003c 0001 63 0002 772f 0003 627965 0001 75 0001 70",
        Connect("c", 4, True, 60, Will("w/", b"bye", 1, True), "u", b"p"),
    ),
    (
        5,
        "10 2a 0004 4d515454 05 56 003c 05 11 0000000a 0001 6307 18 00000005 01 01 0001 77 0002 6869 0006 736563726574",
        Connect(
            *("c", 5, True, 60, Will("w", b"hi", 2, False, {P.WILL_DELAY_INTERVAL: 5, P.PAYLOAD_FORMAT_INDICATOR: 1})),
            *(None, b"secret", {P.SESSION_EXPIRY_INTERVAL: 10}),
        ),
    ),
    (4, "20 02 01 00", Connack(True)),
    (3, "20 02 00 04", Connack(False, ConnectReturnCode.BAD_USER_NAME_OR_PASSWORD)),
    (5, "20 03 00 00 00", Connack()),
    (
        5,
        "20 12 01 00 0f 21 0014 22 000a 12 0002 6964 24 01 2a 00",
        Connack(
            True,
            R.SUCCESS,
            {
                P.RECEIVE_MAXIMUM: 20,
                P.TOPIC_ALIAS_MAXIMUM: 10,
                P.ASSIGNED_CLIENT_IDENTIFIER: "id",
                P.MAXIMUM_QOS: 1,
                P.SHARED_SUBSCRIPTION_AVAILABLE: 0,
            },
        ),
    ),
    (4, "30 07 0003 612f62 6869", Publish("a/b", b"hi")),
    (4, "3b 09 0003 612f62 000a 6869", Publish("a/b", b"hi", 1, 10, True, True)),
    (5, "34 08 0003 612f62 000a 00", Publish("a/b", b"", 2, 10)),
    (5, "30 07 0000 03 23 0005 21", Publish("", b"!", properties={P.TOPIC_ALIAS: 5})),
    (
        5,
        "30 2f 0001 61 2a 01 01 02 00000e10 03 0004 74657874 08 0001 72 09 0002 00ff 0b 01 0b 8001"
        "26 0001 6b 0001 76 26 0001 6b 0001 77 21",
        Publish(
            "a",
            b"!",
            properties={
                P.PAYLOAD_FORMAT_INDICATOR: 1,
                P.MESSAGE_EXPIRY_INTERVAL: 3600,
                P.CONTENT_TYPE: "text",
                P.RESPONSE_TOPIC: "r",
                P.CORRELATION_DATA: b"\x00\xff",
                P.SUBSCRIPTION_IDENTIFIER: [1, 128],
                P.USER_PROPERTY: [("k", "v"), ("k", "w")],
            },
        ),
    ),
    (4, "40 02 0007", Puback(7)),
    (5, "40 02 ffff", Puback(0xFFFF)),
    (5, "40 03 0007 10", Puback(7, R.NO_MATCHING_SUBSCRIBERS)),
    (5, "40 09 0007 87 05 1f 0002 6e6f", Puback(7, R.NOT_AUTHORIZED, {P.REASON_STRING: "no"})),
    (5, "50 03 0007 97", Pubrec(7, R.QUOTA_EXCEEDED)),
    (4, "62 02 0007", Pubrel(7)),
    (5, "70 03 0007 92", Pubcomp(7, R.PACKET_IDENTIFIER_NOT_FOUND)),
    (4, "82 0e 000a 0003 612f62 01 0003 632f64 02", Subscribe(10, [Subscription("a/b", 1), Subscription("c/d", 2)])),
    (
        5,
        "82 0b 000a 02 0b 07 0003 612f23 2e",
        Subscribe(10, [Subscription("a/#", 2, True, True, 2)], {P.SUBSCRIPTION_IDENTIFIER: [7]}),
    ),
    (4, "90 05 000a 00 02 80", Suback(10, [R.GRANTED_QOS_0, R.GRANTED_QOS_2, R.UNSPECIFIED_ERROR])),
    (5, "90 05 000a 00 01 8f", Suback(10, [R.GRANTED_QOS_1, R.TOPIC_FILTER_INVALID])),
    (4, "a2 07 000a 0003 612f62", Unsubscribe(10, ["a/b"])),
    (5, "a2 08 000a 00 0003 612f62", Unsubscribe(10, ["a/b"])),
    (4, "b0 02 000a", Unsuback(10, [])),
    (5, "b0 05 000a 00 00 11", Unsuback(10, [R.SUCCESS, R.NO_SUBSCRIPTION_EXISTED])),
    (4, "c0 00", Pingreq()),
    (5, "d0 00", Pingresp()),
    (4, "e0 00", Disconnect()),
    (5, "e0 00", Disconnect()),
    (5, "e0 01 8e", Disconnect(R.SESSION_TAKEN_OVER)),
    (5, "e0 07 00 05 11 00000000", Disconnect(R.NORMAL_DISCONNECTION, {P.SESSION_EXPIRY_INTERVAL: 0})),
    (5, "f0 00", Auth()),
    (
        5,
        "f0 0b 18 09 15 0001 53 16 0002 0102",
        Auth(R.CONTINUE_AUTHENTICATION, {P.AUTHENTICATION_METHOD: "S", P.AUTHENTICATION_DATA: b"\x01\x02"}),
    ),
]

LONG_FORMS: list[tuple[int, str, Packet]] = [
    (5, "40 04 0007 00 00", Puback(7)),
    (5, "62 03 0007 00", Pubrel(7)),
    (5, "e0 02 00 00", Disconnect()),
    (5, "f0 02 00 00", Auth()),
    (3, "6a 02 0007", Pubrel(7)),
    (3, "8a 06 0007 0001 61 01", Subscribe(7, [Subscription("a", 1)])),
    (3, "10 0f 0006 4d5149736470 03 c2 000a 0001 63", Connect("c", 3, True, 10)),
    (3, "10 0f 0006 4d5149736470 03 03 000a 0001 63", Connect("c", 3, True, 10)),
    (3, "10 0f 0006 4d5149736470 03 3b 000a 0001 63", Connect("c", 3, True, 10)),
]
"""Other ways to say a packet, read but never written: explicit defaults of version 5, peculiarities of 3.1."""


@cases("version, wire, packet", [*GOLDEN, *LONG_FORMS])
def test_decode(version: int, wire: str, packet: Packet) -> None:
    decoder = Decoder(1000, version)
    assert decoder.feed(bytes.fromhex(wire)) == [packet]
    assert decoder.error is None


@cases("version, wire, packet", GOLDEN)
def test_encode(version: int, wire: str, packet: Packet) -> None:
    assert encode(packet, version) == bytes.fromhex(wire)
