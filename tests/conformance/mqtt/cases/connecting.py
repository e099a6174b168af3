"""CONNECT and CONNACK: versions, identifiers, refusals, takeover, keep alive."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Will,
)
from entrepot.protocols.mqtt.properties import PropertyId as P
from entrepot.protocols.mqtt.reason_codes import ConnectReturnCode
from entrepot.protocols.mqtt.reason_codes import ReasonCode as R
from tests.conformance.mqtt.script import (
    ID,
    SHORT_SECONDS,
    Case,
    Step,
    Steps,
    T,
    both,
    case,
    closed,
    cut,
    dial,
    ends,
    hear,
    leaves,
    message,
    opens,
    publishes,
    quiet,
    say,
    subscribes,
    wait,
    welcome,
)

_UNIQUE_HEX: Final = ID.encode().hex()


def _raw(version: int, flags: int, payload: str, name: str = "00044d515454", props: str = "00") -> bytes:
    """A CONNECT with any flags and payload (in hexadecimal), as no encoder makes it."""
    body = bytes.fromhex(f"{name}{version:02x}{flags:02x}003c{props if version == 5 else ''}{payload}")
    return bytes((0x10, len(body))) + body


_CLIENT = "0009" + _UNIQUE_HEX + "61"


def _refused(name: str, wire: bytes, reason: R, five: str) -> Case:
    return case(name, dial("a"), say("a", wire), hear("a", Connack(False, reason)), closed("a"), five=five)


def _silent(name: str, wire: bytes, four: str) -> Case:
    return case(name, dial("a", 4), say("a", wire), closed("a"), four=four)


def _first_packets() -> list[Case]:
    first: dict[str, bytes] = {
        "PINGREQ": b"\xc0\0",
        "PUBLISH": b"\x30\x04\0\x01a\0",
        "SUBSCRIBE": bytes.fromhex("8207000100000161 00"),
        "DISCONNECT": b"\xe0\0",
        "AUTH": b"\xf0\0",
        "CONNACK": b"\x20\x03\0\0\0",
        "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    }
    return [
        case(
            f"first packet is {name}",
            dial("a"),
            say("a", wire),
            closed("a"),
            five="3.1.0-1 3.14.0-1 3.2.0-1",
            four="3.1.0-1 3.2.0-1",
        )
        for name, wire in first.items()
    ]


def _second_connect(v: int) -> tuple[Steps, ...]:
    return (opens("a", v), say("a", Connect(ID + "a", v)), ends("a", v, R.PROTOCOL_ERROR))


def _packets_with_connect(v: int) -> tuple[Steps, ...]:
    return (dial("a", v), say("a", Connect(ID + "a", v), Pingreq()), hear("a", welcome(v)), hear("a", Pingresp()))


def _takeover(v: int) -> tuple[Steps, ...]:
    return (
        *(opens("a", v), opens("b", v, client_id=ID + "a"), ends("a", v, R.SESSION_TAKEN_OVER)),
        *(quiet("b"), opens("c", v), quiet("b", "c")),
    )


def _takeover_wills(v: int) -> tuple[Steps, ...]:
    return (
        opens("w", 5),
        subscribes("w", T),
        opens("a", v, will=Will(T, b"gone")),
        opens("b", v, client_id=ID + "a"),
        message("w", T, b"gone"),
    )


def _alphanumeric(v: int) -> tuple[Steps, ...]:
    letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return tuple(opens(f"a{at}", v, client_id=ID + letters[at : at + 15]) for at in (0, 15, 30, 45, 60))


def _keep_alive(v: int) -> tuple[Steps, ...]:
    """Pings keep it for longer than one and a half times its keep alive, and half of one does not."""
    ping: tuple[Step, ...] = (wait(SHORT_SECONDS), *say("a", Pingreq()), hear("a", Pingresp()))
    return (
        opens("w", 5),
        subscribes("w", T),
        opens("a", v, keep_alive=3, will=Will(T, b"timed out")),
        *(ping * 5),
        say("a", b"\xc0"),
        ends("a", v, R.KEEP_ALIVE_TIMEOUT),
        message("w", T, b"timed out"),
    )


def _after_refusal(v: int) -> tuple[Steps, ...]:
    """A CONNECT refused for its flags, and a PUBLISH behind it that must reach nobody."""
    publish = Publish(T, b"refused")
    refused = _raw(v, 0x03, _CLIENT)
    answer: tuple[Steps, ...] = (hear("a", Connack(False, R.MALFORMED_PACKET)),) if v == 5 else ()
    return (
        *(opens("w", 5), subscribes("w", T), dial("a", v), say("a", refused, publish), *answer, closed("a")),
        *(opens("b", 5), publishes("b", T, b"after"), message("w", T, b"after")),
    )


def _ping(v: int) -> tuple[Steps, ...]:
    return (opens("a", v), say("a", Pingreq(), Pingreq()), hear("a", Pingresp()), hear("a", Pingresp()))


def _user(v: int) -> tuple[Steps, ...]:
    return (opens("a", v, username="u", password=b"p"), quiet("a"))


def _versions() -> list[Case]:
    level = "3.1.2-2"
    v311 = Connack(False, ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION)
    return [
        case(
            "level 6", dial("a", 4), say("a", _raw(6, 2, _CLIENT)), hear("a", v311), closed("a"), five=level, four=level
        ),
        case("level 0", dial("a", 4), say("a", _raw(0, 2, _CLIENT)), hear("a", v311), closed("a"), four=level),
        case(
            "another protocol name, nothing is processed",
            *(dial("a", 4), say("a", _raw(4, 2, _CLIENT, name="00044d515458"))),
            *(hear("a", v311), closed("a")),
            five="3.1.2-1",
            four="3.1.2-1 3.2.2-5",
        ),
        case("3.1 is welcome", opens("a", 3), quiet("a"), four="7.0.0-2"),
    ]


def _malformed() -> list[Case]:
    will = "0003612f62" + "0001" + "78"
    wires: dict[str, tuple[int, str, str, str]] = {
        "reserved flag": (0x03, _CLIENT, "3.1.2-3 3.1.4-1 4.13.1-1", "3.1.2-3 3.1.4-1 4.8.0-1"),
        "will QoS 3": (0x1E, _CLIENT + "{p}" + will, "3.1.2-12", "3.1.2-14"),
        "will QoS without a will": (0x0A, _CLIENT, "3.1.2-11", "3.1.2-11 3.1.2-13"),
        "will retain without a will": (0x22, _CLIENT, "3.1.2-13", "3.1.2-11 3.1.2-15"),
        "will flag without a will": (0x06, _CLIENT, "3.1.2-9 3.1.3-1", "3.1.2-9 3.1.3-1"),
        "user name flag without a name": (0x82, _CLIENT, "3.1.2-17", "3.1.2-19"),
        "user name without its flag": (0x02, _CLIENT + "000175", "3.1.2-16", "3.1.2-18"),
        "password flag without a password": (0xC2, _CLIENT + "000175", "3.1.2-19", "3.1.2-21"),
        "password without its flag": (0x82, _CLIENT + "000175" + "000170", "3.1.2-18", "3.1.2-20"),
        "no client identifier": (0x02, "", "3.1.3-3", "3.1.3-3"),
        "client identifier of bad UTF-8": (0x02, "0002c328", "3.1.3-4 1.5.4-1", "3.1.3-4 1.5.3-1"),
        "client identifier with a surrogate": (0x02, "0003eda080", "1.5.4-1", "1.5.3-1"),
        "client identifier with NUL": (0x02, "00026100", "1.5.4-2", "1.5.3-2"),
        "user name of bad UTF-8": (0x82, _CLIENT + "0002c328", "3.1.3-12", "3.1.3-11"),
        "will topic of bad UTF-8": (0x06, _CLIENT + "{p}" + "0002c328" + "000178", "3.1.3-11", "3.1.3-10"),
        "will topic with NUL": (0x06, _CLIENT + "{p}" + "00026100" + "000178", "4.7.3-2", "4.7.3-2"),
    }
    found = []
    for name, (flags, payload, five, four) in wires.items():
        found.append(_refused(f"CONNECT: {name} [5]", _raw(5, flags, payload.format(p="00")), R.MALFORMED_PACKET, five))
        found.append(_silent(f"CONNECT: {name} [3.1.1]", _raw(4, flags, payload.format(p="")), four))
    return found


def _bad_properties() -> list[Case]:
    refused = {
        "receive maximum 0": ("03210000", R.PROTOCOL_ERROR),
        "receive maximum twice": ("06210005210005", R.PROTOCOL_ERROR),
        "maximum packet size 0": ("052700000000", R.PROTOCOL_ERROR),
        "session expiry twice": ("0a11000000051100000005", R.PROTOCOL_ERROR),
        "request problem information 2": ("021702", R.PROTOCOL_ERROR),
        "request response information 2": ("021902", R.PROTOCOL_ERROR),
        "authentication data without a method": ("0416000161", R.PROTOCOL_ERROR),
        "a property of PUBLISH": ("020100", R.PROTOCOL_ERROR),
        "an unknown property": ("020400", R.MALFORMED_PACKET),
        "properties past the end": ("7f11", R.MALFORMED_PACKET),
        "a pair of bad UTF-8": ("08260001610002c328", R.MALFORMED_PACKET),
    }
    numbers = {"a pair of bad UTF-8": "1.5.7-1 1.5.4-1"}
    return [
        _refused(f"CONNECT: {name}", _raw(5, 2, _CLIENT, props=props), reason, numbers.get(name, "3.1.4-1 3.2.2-7"))
        for name, (props, reason) in refused.items()
    ]


def _identifiers() -> list[Case]:
    rejected = Connack(False, ConnectReturnCode.IDENTIFIER_REJECTED)
    return [
        case(
            "no client identifier is assigned one [5]",
            *(dial("a"), say("a", Connect("")), hear("a", welcome(), has=(P.ASSIGNED_CLIENT_IDENTIFIER,)), quiet("a")),
            *(dial("b"), say("b", Connect("")), hear("b", welcome(), has=(P.ASSIGNED_CLIENT_IDENTIFIER,))),
            *quiet("a", "b"),
            five="3.1.3-6 3.1.3-7 3.2.2-16",
        ),
        case(
            "no client identifier with Clean Start 0 is assigned one [5]",
            *(dial("a"), say("a", Connect("", 5, False)), hear("a", welcome(), has=(P.ASSIGNED_CLIENT_IDENTIFIER,))),
            five="3.1.3-6 3.2.2-16",
        ),
        case(
            "a client identifier of its own is not assigned one",
            *(dial("a"), say("a", Connect(ID + "a")), hear("a", welcome(), without=(P.ASSIGNED_CLIENT_IDENTIFIER,))),
            five="3.2.2-16 3.2.2-22 4.12.0-6 3.1.2-28",
        ),
        case(
            "no client identifier [3.1.1]",
            *(opens("a", 4, client_id=""), opens("b", 4, client_id=""), quiet("a", "b")),
            four="3.1.3-6",
        ),
        case(
            "no client identifier and Clean Session 0 [3.1.1]",
            *(dial("a", 4), say("a", Connect("", 4, False)), hear("a", rejected), closed("a")),
            four="3.1.3-7 3.1.3-8 3.1.3-9 3.2.2-4 3.2.2-5",
        ),
        case(
            "no client identifier [3.1]",
            *(dial("a", 3), say("a", Connect("", 3)), hear("a", rejected), closed("a")),
            four="3.1.3-9",
        ),
        *both("client identifiers of letters and digits", _alphanumeric, "3.1.3-5", "3.1.3-5"),
    ]


_INFORMATION: Final = {P.REQUEST_RESPONSE_INFORMATION: 0}

CASES: Final[list[Case]] = [
    *_first_packets(),
    *_versions(),
    *_malformed(),
    *_bad_properties(),
    *_identifiers(),
    *both("second CONNECT", _second_connect, "3.1.0-2 3.2.0-2 4.13.1-1", "3.1.0-2 4.8.0-1"),
    *both("packets with CONNECT", _packets_with_connect, "3.1.4-5 3.2.0-1", "3.1.4-4 3.2.0-1"),
    *both("takeover", _takeover, "3.1.4-3 3.1.3-2", "3.1.4-2 3.1.3-2"),
    *both("the will of who is taken over", _takeover_wills, "3.1.4-3 3.1.2-8", "3.1.4-2 3.1.2-8"),
    *both("keep alive", _keep_alive, "3.1.2-22 3.2.2-22 3.1.2-8", "3.1.2-24"),
    *both("nothing after a refused CONNECT", _after_refusal, "3.1.4-6 3.2.2-7 3.2.2-6 3.14.0-1", "3.1.4-5"),
    *both("PINGREQ", _ping, "3.12.4-1 4.2.0-1", "3.12.4-1 7.1.1-1 7.0.0-2"),
    *both("user name and password", _user, "3.1.4-2 3.1.2-17 3.1.2-19", "3.1.2-19 3.1.2-21"),
    case("a password without a user name [5]", opens("a", password=b"p"), five="3.1.2-19"),
    case(
        "a password without a user name [3.1.1]",
        *(dial("a", 4), say("a", _raw(4, 0x42, _CLIENT + "000170")), closed("a")),
        four="3.1.2-22 3.1.4-1 3.2.2-6",
    ),
    case(
        "response information is not given unasked",
        *(dial("a"), say("a", Connect(ID + "a", properties=_INFORMATION))),
        hear("a", welcome(), without=(P.RESPONSE_INFORMATION,)),
        five="3.1.2-28",
    ),
    case(
        "without problem information there are no texts",
        opens("a", props={P.REQUEST_PROBLEM_INFORMATION: 0}),
        say("a", Subscribe(1, [Subscription("a/#/b")])),
        hear("a", Suback(1, [R.TOPIC_FILTER_INVALID]), without=(P.REASON_STRING, P.USER_PROPERTY)),
        five="3.1.2-29 4.7.1-1",
    ),
    case(
        "a will topic with a wildcard",
        *(dial("a"), say("a", Connect(ID + "a", will=Will(f"{T}/#", b"x")))),
        *(hear("a", Connack(False, R.TOPIC_NAME_INVALID)), closed("a")),
        five="4.7.0-1 3.2.2-7 4.13.2-1",
    ),
    case(
        "an unknown authentication method",
        *(dial("a"), say("a", Connect(ID + "a", properties={P.AUTHENTICATION_METHOD: "NONE-SUCH"}))),
        *(hear("a", Connack(False, R.BAD_AUTHENTICATION_METHOD)), closed("a")),
        five="4.12.0-1 4.13.2-1 3.1.4-2 3.2.2-7",
    ),
    case(
        "a CONNECT larger than the server takes",
        *(dial("a"), say("a", Connect(ID + "a", username="u", password=b"x" * 65_530))),
        *(hear("a", Connack(False, R.PACKET_TOO_LARGE)), closed("a")),
        five="3.14.0-1 3.1.4-1 3.2.2-7 4.13.2-1",
    ),
    case(
        "after DISCONNECT nothing is processed",
        *(opens("w"), subscribes("w", T), opens("a")),
        *(say("a", Disconnect(), Publish(T, b"late")), closed("a")),
        *(opens("b"), publishes("b", T, b"after"), message("w", T, b"after")),
        five="3.14.4-1 3.14.4-2",
        four="3.14.4-2",
    ),
    case(
        "a refusal ends it, and its identifier may be used again",
        *(dial("a"), say("a", _raw(5, 3, _CLIENT)), hear("a", Connack(False, R.MALFORMED_PACKET)), closed("a")),
        *(opens("b", client_id=ID + "a"), quiet("b")),
        five="3.2.2-6 3.2.2-7 4.13.2-1",
    ),
    case(
        "the server closes after DISCONNECT",
        *(opens("a", 4), leaves("a"), opens("b", 5), leaves("b"), opens("c"), cut("c")),
        five="3.14.4-2",
        four="3.14.4-1",
    ),
]
