"""Flow control, sizes, shared subscriptions, authentication, WebSocket."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import (
    Auth,
    Connack,
    Connect,
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
)
from entrepot.protocols.mqtt.properties import PropertyId as P
from entrepot.protocols.mqtt.reason_codes import ReasonCode as R
from tests.conformance.mqtt.cases.sessions import stays
from tests.conformance.mqtt.script import (
    ID,
    Authenticate,
    Case,
    Hear,
    HearTogether,
    SayFrames,
    Steps,
    T,
    answers,
    both,
    case,
    closed,
    cut,
    dial,
    hear,
    leaves,
    message,
    opens,
    publishes,
    quiet,
    say,
    subscribes,
    welcome,
)
from tests.conformance.mqtt.servers import MAX_PACKET_BYTES, PASSWORD, RECEIVE_MAXIMUM, USER

_SHARED: Final = f"$share/{ID}/{T}"


def _flow() -> list[Case]:
    two = {P.RECEIVE_MAXIMUM: 2}
    return [
        case(
            "the client's receive maximum",
            *(opens("s", props=two), subscribes("s", T, qos=2), opens("p")),
            *[publishes("p", T, b"%d" % number) for number in range(1, 5)],
            *(message("s", T, b"1", 1, "m1"), message("s", T, b"2", 1, "m2"), quiet("s")),
            *(answers("s", Puback, "m1"), message("s", T, b"3", 1, "m3"), quiet("s")),
            *(answers("s", Puback, "m3"), answers("s", Puback, "m2"), message("s", T, b"4", 1)),
            five="3.3.4-9 3.3.4-10 4.9.0-1 4.9.0-2 4.9.0-3",
        ),
        case(
            "QoS 2 holds its place until PUBCOMP",
            *(opens("s", props={P.RECEIVE_MAXIMUM: 1}), subscribes("s", T, qos=2), opens("p")),
            *(say("p", Publish(T, b"1", 2, 5)), hear("p", Pubrec(5)), say("p", Pubrel(5)), hear("p", Pubcomp(5))),
            *(publishes("p", T, b"2"), message("s", T, b"1", 2, "m"), answers("s", Pubrec, "m")),
            *(hear("s", Pubrel(1), of="m"), quiet("s"), answers("s", Pubcomp, "m"), message("s", T, b"2", 1)),
            five="3.3.4-9 4.9.0-2",
        ),
        case(
            "at a quota of 0 all else goes on",
            *(opens("s", props={P.RECEIVE_MAXIMUM: 1}), subscribes("s", T, qos=1), opens("p")),
            *(publishes("p", T, b"1"), publishes("p", T, b"2"), message("s", T, b"1", 1)),
            *(say("s", Pingreq()), hear("s", Pingresp()), subscribes("s", f"{T}/0", packet_id=9)),
            *(publishes("s", f"{T}/x", b""), say("s", Unsubscribe(10, [f"{T}/0"]))),
            *(hear("s", Unsuback(10, [R.SUCCESS])), quiet("s")),
            five="3.3.4-10 4.9.0-3",
        ),
        case(
            "more than the server's receive maximum",
            opens("p"),
            say("p", *[Publish(T, b"x", 2, number) for number in range(1, RECEIVE_MAXIMUM + 1)]),
            *[hear("p", Pubrec(number), reasons=(0x10,)) for number in range(1, RECEIVE_MAXIMUM + 1)],
            say("p", Publish(T, b"x", 2, RECEIVE_MAXIMUM + 1)),
            closed("p", R.RECEIVE_MAXIMUM_EXCEEDED),
            five="3.3.4-7 4.9.0-1 4.13.1-1",
        ),
        case(
            "a message larger than the client takes",
            *(*_tight("s"), subscribes("s", T, qos=1), opens("p"), publishes("p", T, b"x" * 200)),
            *(publishes("p", T, b"small"), message("s", T, b"small", 1, "m"), answers("s", Puback, "m"), quiet("s")),
            *(cut("s"), *stays("t", 5, True), quiet("t")),
            five="3.1.2-24 3.1.2-25 3.2.2-19 3.2.2-20",
        ),
        case(
            "a packet larger than the server takes",
            *(opens("p"), say("p", Publish(T, b"x" * MAX_PACKET_BYTES)), closed("p", R.PACKET_TOO_LARGE)),
            five="3.2.2-15 4.13.2-1 3.14.2-2",
        ),
    ]


def _tight(on: str) -> tuple[Steps, ...]:
    properties = {P.MAXIMUM_PACKET_SIZE: 100, P.SESSION_EXPIRY_INTERVAL: 60}
    return opens(on, clean=False, client_id=ID + "a", props=properties)


def _share_bad(name: str, wrong: str, five: str) -> Case:
    suback = Suback(1, [R.TOPIC_FILTER_INVALID])
    return case(name, opens("a"), say("a", Subscribe(1, [Subscription(wrong)])), hear("a", suback), five=five)


def _shares() -> list[Case]:
    one = (Publish(T, b"1", 1),)
    two = (Publish(T, b"1", 2),)
    group = ("a", "b")

    def joins(qos: int) -> tuple[Steps, ...]:
        first = (*stays("a", 5), subscribes("a", _SHARED, qos=qos))
        return (*first, *stays("b", 5, client="b"), subscribes("b", _SHARED, qos=qos))

    published = (opens("p"), say("p", Publish(T, b"1", 2, 5)), hear("p", Pubrec(5)), say("p", Pubrel(5)))
    return [
        case(
            "a shared subscription",
            *(*joins(1), opens("c"), subscribes("c", T), opens("p"), publishes("p", T, b"1")),
            *(message("c", T, b"1"), HearTogether(group, one, "m", "chosen"), answers("chosen", Puback, "m")),
            *(say("a", Unsubscribe(3, [_SHARED])), hear("a", Unsuback(3, [R.SUCCESS]))),
            *(publishes("p", T, b"2"), message("b", T, b"2", 1), quiet("a")),
            five="4.8.2-1 4.8.2-2",
        ),
        case(
            "shared at the QoS granted",
            *(opens("a"), subscribes("a", _SHARED, qos=0), opens("p"), publishes("p", T, b"1")),
            *(message("a", T, b"1"), say("a", Unsubscribe(3, [_SHARED])), hear("a", Unsuback(3, [R.SUCCESS]))),
            *(opens("b"), subscribes("b", _SHARED, qos=1), publishes("p", T, b"2"), message("b", T, b"2", 1)),
            five="4.8.2-3",
        ),
        case(
            "no retained messages for a shared subscription",
            *(opens("p"), publishes("p", T, b"kept", retain=True), opens("a"), subscribes("a", _SHARED), quiet("a")),
            publishes("p", T, b"", retain=True),
            five="4.8.2-1",
        ),
        case(
            "a shared subscription does not match topics that begin with $",
            *(opens("a"), subscribes("a", f"$share/{ID}/+/{ID}/x"), opens("p"), publishes("p", f"$c/{ID}/x", b"1")),
            *(publishes("p", f"c/{ID}/x", b"2"), message("a", f"c/{ID}/x", b"2"), quiet("a")),
            five="4.7.2-1",
        ),
        case(
            "shared QoS 2 is completed on coming back",
            *(*joins(2), *published, hear("p", Pubcomp(5)), HearTogether(group, two, "m", "chosen"), cut("chosen")),
            quiet("not chosen"),
            five="4.8.2-4 4.8.2-5",
        ),
        case(
            "shared QoS 2 is completed by the one who has it",
            *(*stays("a", 5), subscribes("a", _SHARED, qos=2), *published, hear("p", Pubcomp(5))),
            *(message("a", T, b"1", 2, "m"), cut("a"), *stays("b", 5, client="b"), subscribes("b", _SHARED, qos=2)),
            *(quiet("b"), *stays("c", 5, True), hear("c", Publish(T, b"1", 2, 1, dup=True), of="m")),
            *(answers("c", Pubrec, "m"), hear("c", Pubrel(1), of="m"), answers("c", Pubcomp, "m"), quiet("b", "c")),
            five="4.8.2-4",
        ),
        case(
            "shared QoS 2 ends with its session",
            *(opens("a"), subscribes("a", _SHARED, qos=2), opens("b"), *published, hear("p", Pubcomp(5))),
            *(message("a", T, b"1", 2, "m"), subscribes("b", _SHARED, qos=2), cut("a"), quiet("b")),
            *(publishes("p", T, b"2"), message("b", T, b"2", 1)),
            five="4.8.2-5",
        ),
        case(
            "a shared message refused goes to nobody else",
            *(*joins(1), opens("p"), publishes("p", T, b"1"), HearTogether(group, one, "m", "chosen")),
            *(answers("chosen", Puback, "m", R.UNSPECIFIED_ERROR), quiet("a", "b")),
            five="4.8.2-6",
        ),
        case(
            "a shared QoS 2 message refused goes to nobody else",
            *(*joins(2), *published, hear("p", Pubcomp(5)), HearTogether(group, two, "m", "chosen")),
            *(answers("chosen", Pubrec, "m", R.UNSPECIFIED_ERROR), quiet("a", "b")),
            five="4.8.2-6 4.4.0-2",
        ),
        _share_bad("a share without a filter", f"$share/{ID}", "4.8.2-2"),
        _share_bad("a share with an empty filter", f"$share/{ID}/", "4.8.2-2 4.7.3-1"),
        _share_bad("a share without a name", f"$share//{T}", "4.8.2-1"),
        _share_bad("a share name with +", f"$share/a+/{T}", "4.8.2-2"),
        _share_bad("a share name with #", f"$share/#/{T}", "4.8.2-2"),
    ]


_METHOD: Final = {P.AUTHENTICATION_METHOD: "SCRAM-SHA-256"}
_HELLO: Final = Connect(ID + "a", properties=_METHOD)
_CONTINUES: Final = R.CONTINUE_AUTHENTICATION
_NAMES: Final = Auth(R.RE_AUTHENTICATE, _METHOD)


def _with_data(data: bytes) -> dict[P, object]:
    return {**_METHOD, P.AUTHENTICATION_DATA: data}


def _in() -> tuple[Steps, ...]:
    return (dial("a"), Authenticate("a", _HELLO, welcome(), USER, PASSWORD))


def _authentication() -> list[Case]:
    first = Connect(ID + "a", properties=_with_data(b"n,,n=conformance,r=abcdefgh"))
    asked = Hear("a", Auth(_CONTINUES, _METHOD), has=(P.AUTHENTICATION_DATA,))
    wrong = Auth(_CONTINUES, _with_data(b"c=biws,r=abcdefghwrong,p=AAAA"))
    refusals = (R.NOT_AUTHORIZED, R.BAD_USER_NAME_OR_PASSWORD, R.PROTOCOL_ERROR)
    return [
        case(
            "SCRAM",
            *_in(),
            say("a", Pingreq()),
            hear("a", Pingresp()),
            five="4.12.0-2 4.12.0-5 3.15.2-1",
            needs="scram",
        ),
        case(
            "SCRAM again",
            *(*_in(), Authenticate("a", _NAMES, Auth(R.SUCCESS, _METHOD), USER, PASSWORD)),
            *(say("a", Pingreq()), hear("a", Pingresp())),
            five="4.12.0-2 4.12.0-5 4.12.1-1",
            needs="scram",
        ),
        case(
            "SCRAM refused",
            *(dial("a"), say("a", first), asked, say("a", wrong)),
            *(hear("a", Connack(False, R.NOT_AUTHORIZED), reasons=refusals), closed("a")),
            five="4.12.0-4 4.12.0-2 3.14.0-1",
            needs="scram",
        ),
        case(
            "SCRAM again with another method",
            *(*_in(), say("a", Auth(R.RE_AUTHENTICATE, {P.AUTHENTICATION_METHOD: "OTHER"}))),
            closed("a", R.BAD_AUTHENTICATION_METHOD, R.PROTOCOL_ERROR),
            five="4.12.1-1 4.12.1-2",
            needs="scram",
        ),
        case(
            "SCRAM again refused",
            *(*_in(), say("a", Auth(R.RE_AUTHENTICATE, _with_data(b"n,,n=conformance,r=abcdefgh")))),
            *(asked, say("a", wrong), closed("a", *refusals)),
            five="4.12.1-2",
            needs="scram",
        ),
        case(
            "AUTH without a method",
            *(opens("a"), say("a", Auth(R.RE_AUTHENTICATE, {P.AUTHENTICATION_METHOD: "OTHER"}))),
            closed("a", R.PROTOCOL_ERROR),
            five="4.12.0-6 4.12.0-7 4.13.1-1",
        ),
        case(
            "another packet during authentication",
            *(dial("a"), say("a", first), asked, say("a", Pingreq())),
            *(hear("a", Connack(False, R.PROTOCOL_ERROR)), closed("a")),
            five="3.1.2-30 3.14.0-1",
            needs="scram",
        ),
    ]


def _frames(v: int) -> tuple[bytes, ...]:
    """CONNECT and two PINGREQ, cut where no packet ends."""
    wire = encode(Connect(ID + "a", v), v) + b"\xc0\0\xc0\0"
    return (wire[:3], wire[3:20], wire[20:-1], wire[-1:])


def _websocket(v: int) -> tuple[Steps, ...]:
    return (
        *(dial("a", v, "ws"), SayFrames("a", _frames(v)), hear("a", welcome(v))),
        *(hear("a", Pingresp()), hear("a", Pingresp()), leaves("a")),
    )


def _text_frame(v: int) -> tuple[Steps, ...]:
    return (dial("a", v, "ws"), SayFrames("a", (encode(Connect(ID + "a", v), v),), text=True), closed("a"))


CASES: Final[list[Case]] = [
    *_flow(),
    *_shares(),
    *_authentication(),
    *[
        Case(one.name, one.steps, one.five, one.four, needs="ws")
        for one in (
            *both("WebSocket frames", _websocket, "6.0.0-1 6.0.0-2 6.0.0-4 4.2.0-1", "6.0.0-1 6.0.0-2 6.0.0-4"),
            *both("a text frame", _text_frame, "6.0.0-1", "6.0.0-1"),
        )
    ],
]
