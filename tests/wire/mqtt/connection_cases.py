"""What a server answers to what a client says: conversations as data, with the clause that wants it (MQTT 5.0, or
3.1.1 where the version is 4).

`says` are packets or raw bytes; the answers are packets of the connection's version.  A closing answer to version 5
is a DISCONNECT or CONNACK of which only the reason is compared, since its text is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from entrepot.domain.routing.topic_filter import MAX_LEVELS
from entrepot.protocols.mqtt.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode

Said: TypeAlias = Packet | bytes

HELLO5 = Connect("c", 5)
HELLO4 = Connect("c", 4)
CAPABILITIES = {
    PropertyId.RECEIVE_MAXIMUM: 3,
    PropertyId.MAXIMUM_PACKET_SIZE: 2048,
    PropertyId.TOPIC_ALIAS_MAXIMUM: 2,
}
WELCOME5 = Connack(False, ReasonCode.SUCCESS, CAPABILITIES)
WELCOME4 = Connack(False, ConnectReturnCode.ACCEPTED)
WILL = Will("w", b"gone")


@dataclass(frozen=True)
class Case:
    """One conversation.  `closes` is the reason it ends with; None: it stays open.  `will`: whether a will goes out;
    `session_expiry`: what DISCONNECT says of it."""

    clause: str
    name: str
    says: tuple[Said, ...]
    hears: tuple[Packet, ...] = ()
    closes: ReasonCode | None = None
    will: bool = True
    session_expiry: int | None = None


def five(clause: str, name: str, *says: Said, hears: tuple[Packet, ...] = ()) -> Case:
    return Case(clause, name, (HELLO5, *says), (WELCOME5, *hears))


def five_ends(clause: str, name: str, *says: Said, reason: ReasonCode, hears: tuple[Packet, ...] = ()) -> Case:
    """The server says why in a DISCONNECT."""
    return Case(clause, name, (HELLO5, *says), (WELCOME5, *hears, Disconnect(reason)), reason)


def four(clause: str, name: str, *says: Said, hears: tuple[Packet, ...] = ()) -> Case:
    return Case(clause, name, (HELLO4, *says), (WELCOME4, *hears))


def four_ends(clause: str, name: str, *says: Said, reason: ReasonCode, hears: tuple[Packet, ...] = ()) -> Case:
    """Version 4 has no word for it: the connection is closed."""
    return Case(clause, name, (HELLO4, *says), (WELCOME4, *hears), reason)


def _publish(packet_id: int, **other: object) -> Publish:
    return Publish("a/b", b"x", 1, packet_id, **other)  # type: ignore[arg-type]


def _subscribe(topic_filter: str, qos: int = 1, packet_id: int = 9, **options: bool) -> Subscribe:
    return Subscribe(packet_id, [Subscription(topic_filter, qos, **options)])


R = ReasonCode
P = PropertyId

CASES: list[Case] = [
    # -- the first packet
    *[
        Case("3.1.0-1", f"first packet is {name}", (raw,), closes=R.PROTOCOL_ERROR)
        for name, raw in {
            "PUBLISH": bytes.fromhex("3003000161"),
            "PINGREQ": bytes.fromhex("c000"),
            "SUBSCRIBE": bytes.fromhex("82060001000161 00"),
            "DISCONNECT": bytes.fromhex("e000"),
            "CONNACK": bytes.fromhex("20020000"),
        }.items()
    ],
    Case("3.1.0-1", "not MQTT at all", (b"GET / HTTP/1.1\r\n\r\n",), closes=R.PROTOCOL_ERROR),
    five_ends("3.1.0-2", "second CONNECT", HELLO5, reason=R.PROTOCOL_ERROR),
    four_ends("3.1.0-2", "second CONNECT in 3.1.1", HELLO4, reason=R.PROTOCOL_ERROR),
    Case(
        "3.1.2-2",
        "level 6 is answered in the form of 3.1.1, which all understand",
        (bytes.fromhex("100d00044d5154540602003c000000"),),
        (Connack(False, ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION),),
        R.UNSUPPORTED_PROTOCOL_VERSION,
    ),
    Case(
        "3.1.2-2",
        "level 2",
        (bytes.fromhex("100c00044d5154540202003c0000"),),
        (Connack(False, ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION),),
        R.UNSUPPORTED_PROTOCOL_VERSION,
    ),
    Case(
        "3.1.2-3",
        "reserved flag of CONNECT",
        (bytes.fromhex("100d00044d5154540503003c000000"),),
        (Connack(False, R.MALFORMED_PACKET),),
        R.MALFORMED_PACKET,
    ),
    Case("3.1.2-3", "reserved flag in 3.1.1", (bytes.fromhex("100c00044d5154540403003c0000"),), (), R.MALFORMED_PACKET),
    # -- CONNACK
    five("3.2.2.3", "CONNACK says the limits"),
    four("3.2.2", "CONNACK of 3.1.1 says no more than yes"),
    five("3.1.4-5", "packets in the segment of CONNECT", Pingreq(), _publish(1), hears=(Pingresp(), Puback(1))),
    # -- PING, and what only servers say
    five("3.12.4-1", "PINGREQ", Pingreq(), Pingreq(), hears=(Pingresp(), Pingresp())),
    four("3.12.4-1", "PINGREQ in 3.1.1", Pingreq(), hears=(Pingresp(),)),
    *[
        five_ends("2.1.2", f"{type(packet).__name__} from a client", packet, reason=R.PROTOCOL_ERROR)
        for packet in (Connack(), Suback(1, [R.SUCCESS]), Unsuback(1, [R.SUCCESS]), Pingresp())
    ],
    five_ends("4.12.0-1", "AUTH without a method", Auth(), reason=R.PROTOCOL_ERROR),
    five("4.3.2", "PUBACK of what was not sent is passed over", Puback(7), Pingreq(), hears=(Pingresp(),)),
    # -- PUBLISH
    five("4.3.2-4", "PUBACK", _publish(1), hears=(Puback(1),)),
    five(
        "4.6.0-2", "PUBACKs in the order of the publishes", *map(_publish, (3, 1, 2)), hears=(*map(Puback, (3, 1, 2)),)
    ),
    five("3.3.1-2", "QoS 0 is not answered", Publish("a", b"x")),
    five("4.3.2", "DUP changes nothing", _publish(1, dup=True), hears=(Puback(1),)),
    five(
        "2.2.1",
        "an identifier may be used again when it is confirmed",
        _publish(1),
        _publish(1),
        hears=(Puback(1), Puback(1)),
    ),
    five_ends(
        "3.3.4-6",
        "subscription identifier from a client",
        Publish("a", b"", properties={P.SUBSCRIPTION_IDENTIFIER: [1]}),
        reason=R.PROTOCOL_ERROR,
    ),
    five_ends("3.3.2-2", "wildcard in a topic", Publish("a/+", b""), reason=R.TOPIC_NAME_INVALID),
    five_ends("4.7.3", "a topic of 201 levels", Publish("/" * MAX_LEVELS, b""), reason=R.TOPIC_NAME_INVALID),
    five("4.7.3", "a topic of 200 levels", Publish("/" * (MAX_LEVELS - 1), b"")),
    five_ends("3.3.1-4", "QoS 3", bytes.fromhex("36 06 0001 61 0001 00"), reason=R.MALFORMED_PACKET),
    five_ends("2.2.1-3", "packet identifier 0", bytes.fromhex("32 06 0001 61 0000 00"), reason=R.MALFORMED_PACKET),
    five_ends("3.1.2-24", "a packet over the maximum", Publish("a", b"x" * 2048), reason=R.PACKET_TOO_LARGE),
    five_ends(
        "3.1.2-24", "the same before its content is there", bytes.fromhex("30 ff ff ff 7f"), reason=R.PACKET_TOO_LARGE
    ),
    five_ends("1.5.5-1", "a length of five bytes", bytes.fromhex("30 ff ff ff ff 01"), reason=R.MALFORMED_PACKET),
    four_ends("2.2.3", "too large in 3.1.1", bytes.fromhex("30 ff ff ff 7f"), reason=R.PACKET_TOO_LARGE),
    # -- SUBSCRIBE and UNSUBSCRIBE
    five("3.8.4-6", "SUBSCRIBE", _subscribe("a/#"), hears=(Suback(9, [R.GRANTED_QOS_1]),)),
    five("3.8.4-7", "QoS 2 is granted", _subscribe("a", 2), hears=(Suback(9, [R.GRANTED_QOS_2]),)),
    four("3.8.4-6", "QoS 2 is granted in 3.1.1", _subscribe("a", 2), hears=(Suback(9, [R.GRANTED_QOS_2]),)),
    *[
        five("4.7.1", f"filter {bad!r}", _subscribe(bad), hears=(Suback(9, [R.TOPIC_FILTER_INVALID]),))
        for bad in ("a/#/b", "a#", "a+/b", "#/a", "/" * MAX_LEVELS)
    ],
    four("3.9.3", "bad filter in 3.1.1", _subscribe("a/#/b"), hears=(Suback(9, [R.UNSPECIFIED_ERROR]),)),
    five(
        "3.9.3-1",
        "one reason a filter, in their order",
        Subscribe(
            5, [Subscription("a", 0), Subscription("a/#/b", 1), Subscription("$share/g/a", 2), Subscription("b", 1)]
        ),
        hears=(Suback(5, [R.GRANTED_QOS_0, R.TOPIC_FILTER_INVALID, R.GRANTED_QOS_2, R.GRANTED_QOS_1]),),
    ),
    five_ends(
        "3.8.3-4", "no-local on a shared subscription", _subscribe("$share/g/a", no_local=True), reason=R.PROTOCOL_ERROR
    ),
    five_ends(
        "3.8.1-1", "SUBSCRIBE with flags 0000", bytes.fromhex("80 07 0001 00 0001 61 00"), reason=R.MALFORMED_PACKET
    ),
    five_ends("3.8.3-2", "SUBSCRIBE without a filter", bytes.fromhex("82 03 0001 00"), reason=R.PROTOCOL_ERROR),
    five_ends("3.8.3-5", "reserved option bits", bytes.fromhex("82 07 0001 00 0001 61 c0"), reason=R.MALFORMED_PACKET),
    five(
        "3.11.3",
        "UNSUBSCRIBE",
        _subscribe("a"),
        Unsubscribe(2, ["a", "b"]),
        hears=(Suback(9, [R.GRANTED_QOS_1]), Unsuback(2, [R.SUCCESS, R.NO_SUBSCRIPTION_EXISTED])),
    ),
    five(
        "3.10.4-1",
        "a filter is compared as text",
        _subscribe("a/+"),
        Unsubscribe(2, ["a/#"]),
        hears=(Suback(9, [R.GRANTED_QOS_1]), Unsuback(2, [R.NO_SUBSCRIPTION_EXISTED])),
    ),
    four("3.10.4-5", "UNSUBACK of 3.1.1 has no reasons", Unsubscribe(2, ["a"]), hears=(Unsuback(2, []),)),
    # -- the end
    Case(
        "3.14.4-3", "DISCONNECT drops the will", (HELLO5, Disconnect()), (WELCOME5,), R.NORMAL_DISCONNECTION, will=False
    ),
    Case("3.14.4-3", "DISCONNECT of 3.1.1", (HELLO4, Disconnect()), (WELCOME4,), R.NORMAL_DISCONNECTION, will=False),
    Case(
        "3.1.2-8",
        "DISCONNECT 0x04 keeps the will",
        (HELLO5, Disconnect(R.DISCONNECT_WITH_WILL_MESSAGE)),
        (WELCOME5,),
        R.DISCONNECT_WITH_WILL_MESSAGE,
    ),
    Case(
        "3.14.4-3",
        "another reason keeps the will",
        (HELLO5, Disconnect(R.UNSPECIFIED_ERROR)),
        (WELCOME5,),
        R.UNSPECIFIED_ERROR,
    ),
    Case(
        "3.14.4-1",
        "what follows DISCONNECT is not read",
        (HELLO5, Disconnect(), Pingreq(), b"\xff\xff"),
        (WELCOME5,),
        R.NORMAL_DISCONNECTION,
        will=False,
    ),
    five_ends(
        "4.13.1-1", "what follows an error is not read", Connack(), _publish(1), Pingreq(), reason=R.PROTOCOL_ERROR
    ),
    five_ends(
        "4.13.1-1",
        "what precedes an error is answered",
        Pingreq(),
        _subscribe("a"),
        _publish(1),
        HELLO5,
        hears=(Pingresp(), Suback(9, [R.GRANTED_QOS_1]), Puback(1)),
        reason=R.PROTOCOL_ERROR,
    ),
    five_ends("2.1.2-1", "packet type 0", bytes.fromhex("00 00"), reason=R.MALFORMED_PACKET),
    four_ends("2.2.1", "AUTH in 3.1.1", bytes.fromhex("f0 00"), reason=R.MALFORMED_PACKET),
    five_ends("1.5.4-1", "a topic that is not UTF-8", bytes.fromhex("30 04 0001 ff 00"), reason=R.MALFORMED_PACKET),
    five_ends("2.2.2.2", "an unknown property", bytes.fromhex("30 06 0001 61 02 7f 00"), reason=R.MALFORMED_PACKET),
]
