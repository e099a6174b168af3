"""What only version 5 has: topic aliases, AUTH, DISCONNECT with reasons and properties; as in `connection_cases`."""

from __future__ import annotations

from typing import Any

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
    Pubrec,
)
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.wire.mqtt.connection_cases import CAPABILITIES, WELCOME5, Case, Said, five, five_ends

R = ReasonCode
P = PropertyId

METHOD: dict[PropertyId, Any] = {P.AUTHENTICATION_METHOD: "M"}
HELLO_WITH_METHOD = Connect("c", 5, properties=METHOD)
WHO = Auth(R.CONTINUE_AUTHENTICATION, METHOD | {P.AUTHENTICATION_DATA: b"who?"})
YES = Auth(R.CONTINUE_AUTHENTICATION, METHOD | {P.AUTHENTICATION_DATA: b"yes"})
WELL = Auth(R.SUCCESS, METHOD | {P.AUTHENTICATION_DATA: b"well"})
LET_IN = Connack(False, R.SUCCESS, CAPABILITIES | METHOD)
CLIENTS_REASONS = (0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99)
SERVERS_REASONS = (0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2)


def _aliased(topic: str, alias: int, qos: int = 1, packet_id: int = 1) -> Publish:
    return Publish(topic, b"x", qos, packet_id if qos else 0, properties={P.TOPIC_ALIAS: alias})


def _not_let_in(clause: str, name: str, *says: Said, reason: ReasonCode = R.PROTOCOL_ERROR) -> Case:
    return Case(clause, name, (HELLO_WITH_METHOD, *says), (WHO, Connack(False, reason)), reason)


def _let_in(clause: str, name: str, *says: Said, hears: tuple[Packet, ...]) -> Case:
    return Case(clause, name, (HELLO_WITH_METHOD, YES, *says), (WHO, LET_IN, *hears))


def _put_out(clause: str, name: str, *says: Said, hears: tuple[Packet, ...] = ()) -> Case:
    end = Disconnect(R.PROTOCOL_ERROR)
    return Case(clause, name, (HELLO_WITH_METHOD, YES, *says), (WHO, LET_IN, *hears, end), R.PROTOCOL_ERROR)


ALIASES: list[Case] = [
    five("3.3.2-8", "an alias is set and used", _aliased("a", 1), _aliased("", 1), hears=(Puback(1), Puback(1))),
    five("3.3.2-10", "every alias up to the maximum", _aliased("a", 1), _aliased("b", 2), hears=(Puback(1), Puback(1))),
    five(
        "3.3.2.3.4",
        "an alias is set by QoS 0 and used by QoS 2",
        _aliased("a", 2, 0),
        _aliased("", 2, 2),
        hears=(Pubrec(1),),
    ),
    five_ends("3.3.2.3.4", "an alias that was not set", _aliased("", 1), reason=R.PROTOCOL_ERROR),
    five_ends(
        "3.3.2.3.4",
        "another alias than was set",
        _aliased("a", 1),
        _aliased("", 2),
        reason=R.PROTOCOL_ERROR,
        hears=(Puback(1),),
    ),
    five_ends("3.3.2-9", "an alias above the maximum", _aliased("a", 3), reason=R.TOPIC_ALIAS_INVALID),
    five_ends("3.3.2-8", "alias 0", _aliased("a", 0), reason=R.TOPIC_ALIAS_INVALID),
    five_ends("3.3.2.1", "neither a topic nor an alias", bytes.fromhex("30 03 0000 00"), reason=R.PROTOCOL_ERROR),
]

AUTHENTICATION: list[Case] = [
    _let_in("4.12", "an exchange before CONNACK", Pingreq(), hears=(Pingresp(),)),
    Case("4.12.0-2", "an exchange of several steps", (HELLO_WITH_METHOD, WHO, WHO, YES), (WHO, WHO, WHO, LET_IN)),
    five_ends("4.12.0-6", "AUTH where CONNECT had no method", YES, reason=R.PROTOCOL_ERROR),
    _not_let_in("4.12.0-5", "AUTH without its method", Auth(R.CONTINUE_AUTHENTICATION)),
    _not_let_in("4.12.0-5", "AUTH of another method", Auth(R.CONTINUE_AUTHENTICATION, {P.AUTHENTICATION_METHOD: "N"})),
    _not_let_in("4.12.0-3", "re-authentication before CONNACK", Auth(R.RE_AUTHENTICATE, METHOD)),
    _not_let_in("3.15.2-1", "AUTH of success from a client", Auth(R.SUCCESS, METHOD)),
    *[
        _not_let_in("3.1.2-30", f"{type(packet).__name__} before CONNACK", packet)
        for packet in (Pingreq(), Publish("a", b""), Puback(1), Connect("c", 5))
    ],
    Case(
        "3.1.2-30",
        "DISCONNECT before CONNACK",
        (HELLO_WITH_METHOD, Disconnect()),
        (WHO,),
        R.NORMAL_DISCONNECTION,
        will=False,
    ),
    _let_in(
        "4.12.1-1",
        "authentication again",
        Auth(R.RE_AUTHENTICATE, METHOD),
        YES,
        Pingreq(),
        hears=(WHO, WELL, Pingresp()),
    ),
    _put_out("4.12.1-1", "again with another method", Auth(R.RE_AUTHENTICATE, {P.AUTHENTICATION_METHOD: "N"})),
    _put_out("4.12.1-1", "again without a method", Auth(R.RE_AUTHENTICATE)),
    _put_out("3.15.2-1", "success is the server's to say", Auth(R.SUCCESS, METHOD)),
]

GOODBYES: list[Case] = [
    *[
        Case(
            "3.14.2.1",
            f"a client's reason 0x{code:02x}",
            (Connect("c", 5), Disconnect(R(code))),
            (WELCOME5,),
            R(code),
        )
        for code in CLIENTS_REASONS
    ],
    *[
        five_ends("3.14.2.1", f"0x{code:02x} is a server's reason", Disconnect(R(code)), reason=R.PROTOCOL_ERROR)
        for code in SERVERS_REASONS
    ],
    five_ends(
        "3.14.2-2",
        "a session expiry where CONNECT had none",
        Disconnect(properties={P.SESSION_EXPIRY_INTERVAL: 5}),
        reason=R.PROTOCOL_ERROR,
    ),
    Case(
        "3.14.2-2",
        "a session expiry where CONNECT had 0",
        (
            Connect("c", 5, properties={P.SESSION_EXPIRY_INTERVAL: 0}),
            Disconnect(properties={P.SESSION_EXPIRY_INTERVAL: 5}),
        ),
        (WELCOME5, Disconnect(R.PROTOCOL_ERROR)),
        R.PROTOCOL_ERROR,
    ),
    Case(
        "3.14.2.2.2",
        "a session expiry of 0 where CONNECT had none",
        (Connect("c", 5), Disconnect(properties={P.SESSION_EXPIRY_INTERVAL: 0})),
        (WELCOME5,),
        R.NORMAL_DISCONNECTION,
        will=False,
        session_expiry=0,
    ),
    *[
        Case(
            "3.14.2.2.2",
            f"a session expiry of {expiry} instead of CONNECT's",
            (
                Connect("c", 5, properties={P.SESSION_EXPIRY_INTERVAL: 60}),
                Disconnect(properties={P.SESSION_EXPIRY_INTERVAL: expiry}),
            ),
            (WELCOME5,),
            R.NORMAL_DISCONNECTION,
            will=False,
            session_expiry=expiry,
        )
        for expiry in (0, 5, 0xFFFF_FFFF)
    ],
    five_ends(
        "3.14.2.2.5",
        "a server reference from a client",
        Disconnect(properties={P.SERVER_REFERENCE: "elsewhere"}),
        reason=R.PROTOCOL_ERROR,
    ),
]

CASES = ALIASES + AUTHENTICATION + GOODBYES
