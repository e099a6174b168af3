"""PUBLISH in both directions: the three QoS, what is sent again, order."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from entrepot.protocols.mqtt.reason_codes import ReasonCode as R
from tests.conformance.mqtt.cases.sessions import stays
from tests.conformance.mqtt.script import (
    ID,
    Case,
    HearAll,
    Steps,
    T,
    answers,
    both,
    case,
    cut,
    hear,
    message,
    opens,
    publishes,
    quiet,
    say,
    subscribes,
)

NO_SUBSCRIBERS: Final = (R.NO_MATCHING_SUBSCRIBERS,)


_SYSTEM: Final = f"$SYS/{ID}"
"""A topic that is the server's alone (4.7.2)."""


def _qos_0(v: int) -> tuple[Steps, ...]:
    return (
        *(opens("s", v), subscribes("s", T, qos=2), opens("p", v), say("p", Publish(T, b"x"), Publish(T, b"y"))),
        *(message("s", T, b"x"), message("s", T, b"y"), quiet("p", "s")),
    )


def _qos_1(v: int) -> tuple[Steps, ...]:
    """What is said with DUP is forwarded without it; after PUBACK the same identifier is a new message."""
    return (
        *(opens("s", v), subscribes("s", T, qos=1), opens("p", v)),
        *(publishes("p", T, b"x", packet_id=65_535, dup=True), message("s", T, b"x", 1, "m1")),
        *(answers("s", Puback, "m1"), publishes("p", T, b"x", packet_id=65_535, dup=True)),
        *(message("s", T, b"x", 1, "m2"), answers("s", Puback, "m2"), quiet("p", "s")),
    )


def _qos_2(v: int) -> tuple[Steps, ...]:
    return (
        *(opens("s", v), subscribes("s", T, qos=2), opens("p", v), say("p", Publish(T, b"x", 2, 5))),
        *(hear("p", Pubrec(5), reasons=NO_SUBSCRIBERS), say("p", Pubrel(5)), hear("p", Pubcomp(5))),
        *(message("s", T, b"x", 2, "m"), answers("s", Pubrec, "m"), hear("s", Pubrel(1), of="m")),
        *(answers("s", Pubcomp, "m"), quiet("p", "s")),
    )


def _qos_2_again(v: int) -> tuple[Steps, ...]:
    """Sent again before PUBREL it is the same message; after PUBCOMP it is a new one."""
    return (
        *(opens("s", v), subscribes("s", T), opens("p", v), say("p", Publish(T, b"x", 2, 5))),
        *(hear("p", Pubrec(5)), say("p", Publish(T, b"x", 2, 5, dup=True)), hear("p", Pubrec(5))),
        *(say("p", Pubrel(5)), hear("p", Pubcomp(5)), message("s", T, b"x"), quiet("s")),
        *(say("p", Publish(T, b"y", 2, 5, dup=True)), hear("p", Pubrec(5)), say("p", Pubrel(5))),
        *(hear("p", Pubcomp(5)), message("s", T, b"y"), quiet("s")),
    )


def _qos_2_across(v: int) -> tuple[Steps, ...]:
    """The identifier is remembered with the session, not with the connection."""
    return (
        *(opens("s"), subscribes("s", T), *stays("p", v, client="p"), say("p", Publish(T, b"x", 2, 5))),
        *(hear("p", Pubrec(5)), cut("p"), *stays("q", v, True, client="p")),
        *(say("q", Publish(T, b"x", 2, 5, dup=True)), hear("q", Pubrec(5)), say("q", Pubrel(5))),
        *(hear("q", Pubcomp(5)), message("s", T, b"x"), quiet("s")),
    )


def _unknown_pubrel(v: int) -> tuple[Steps, ...]:
    pubcomp = Pubcomp(77, R.PACKET_IDENTIFIER_NOT_FOUND if v == 5 else R.SUCCESS)
    return (opens("a", v), say("a", Pubrel(77)), hear("a", pubcomp), quiet("a"))


def _unknown_answers(v: int) -> tuple[Steps, ...]:
    """Answers to nothing are no reason to close, and nothing comes of them but PUBREL where it must."""
    return (opens("a", v), say("a", Puback(77), Pubcomp(78)), quiet("a"))


def _again_qos_1(v: int) -> tuple[Steps, ...]:
    """Unacknowledged it is sent again on coming back: DUP, same identifier, same order, before what is new."""
    return (
        *(*stays("s", v), subscribes("s", T, qos=1), opens("p")),
        *(publishes("p", T, b"1"), publishes("p", T, b"2"), message("s", T, b"1", 1, "m1")),
        *(message("s", T, b"2", 1, "m2"), quiet("s"), cut("s"), publishes("p", T, b"3"), *stays("t", v, True)),
        *(hear("t", Publish(T, b"1", 1, 1, dup=True), of="m1"), hear("t", Publish(T, b"2", 1, 1, dup=True), of="m2")),
        *(message("t", T, b"3", 1, "m3"), answers("t", Puback, "m1"), answers("t", Puback, "m2")),
        *(answers("t", Puback, "m3"), quiet("t"), cut("t"), *stays("u", v, True), quiet("u")),
    )


def _again_qos_2(v: int) -> tuple[Steps, ...]:
    """PUBLISH again before PUBREC, PUBREL again after it."""
    return (
        *(*stays("s", v), subscribes("s", T, qos=2), opens("p"), say("p", Publish(T, b"1", 2, 5))),
        *(hear("p", Pubrec(5)), say("p", Pubrel(5)), hear("p", Pubcomp(5)), message("s", T, b"1", 2, "m")),
        *(cut("s"), *stays("t", v, True), hear("t", Publish(T, b"1", 2, 1, dup=True), of="m")),
        *(answers("t", Pubrec, "m"), hear("t", Pubrel(1), of="m"), cut("t"), *stays("u", v, True)),
        *(hear("u", Pubrel(1), of="m"), answers("u", Pubcomp, "m"), quiet("u"), cut("u")),
        *(*stays("x", v, True), quiet("x")),
    )


def _order(v: int) -> tuple[Steps, ...]:
    payloads = [b"%d" % number for number in range(15)]
    return (
        *(opens("s", v), subscribes("s", T, qos=1), opens("p", v)),
        say("p", *[Publish(T, payload, 1, number) for number, payload in enumerate(payloads, 1)]),
        *[message("s", T, payload, 1) for payload in payloads],
    )


def _topic_bytes(v: int) -> tuple[Steps, ...]:
    """U+FEFF is kept, and what looks alike is not the same."""
    bom, composed, parted = f"{T}/\ufeffa", f"{T}/\u00e9", f"{T}/e\u0301"
    return (
        *(opens("s", v), subscribes("s", bom, composed), opens("p", v)),
        *(publishes("p", f"{T}/a", b"1"), publishes("p", parted, b"2"), publishes("p", composed.upper(), b"3")),
        *(publishes("p", f"{T}//\u00e9", b"4"), publishes("p", bom, b"5"), message("s", bom, b"5")),
        *(publishes("p", composed, b"6"), message("s", composed, b"6"), quiet("s")),
    )


def _big(v: int) -> tuple[Steps, ...]:
    """As large as the server takes, with every byte there is."""
    payload = bytes(range(256)) * 250
    return (
        *(opens("s", v), subscribes("s", T, qos=1), opens("p", v), publishes("p", T, payload)),
        *(message("s", T, payload, 1), publishes("p", T, b""), message("s", T, b"", 1)),
    )


def _refused_by_subscriber(kind: type, qos: int) -> tuple[Steps, ...]:
    publish: tuple[Steps, ...] = (say("p", Publish(T, b"1", qos, 5)),)
    if qos == 1:
        publish += (hear("p", Puback(5)),)
    else:
        publish += (hear("p", Pubrec(5)), say("p", Pubrel(5)), hear("p", Pubcomp(5)))
    return (
        *(*stays("s", 5), subscribes("s", T, qos=qos), opens("p"), *publish, message("s", T, b"1", qos, "m")),
        *(answers("s", kind, "m", R.UNSPECIFIED_ERROR), quiet("s"), cut("s"), *stays("t", 5, True), quiet("t")),
    )


CASES: Final[list[Case]] = [
    *both("QoS 0", _qos_0, "2.2.1-2 4.3.1-1 3.3.1-2 3.3.4-1 3.3.2-1", "2.3.1-5 4.3.1-1 3.3.1-2 3.3.4-1 3.3.2-1"),
    *both(
        "QoS 1",
        _qos_1,
        "2.2.1-4 2.2.1-5 3.3.1-3 3.3.4-1 4.3.2-1 4.3.2-2 4.3.2-4 4.3.2-5 4.5.0-1",
        "2.3.1-1 2.3.1-4 2.3.1-6 3.3.1-3 3.3.4-1 4.3.2-1 4.3.2-2 4.5.0-1",
    ),
    *both(
        "QoS 2",
        _qos_2,
        "2.2.1-4 2.2.1-5 3.3.4-1 4.3.3-1 4.3.3-2 4.3.3-4 4.3.3-8 4.3.3-11",
        "2.3.1-6 3.3.4-1 4.3.3-1 4.3.3-2",
    ),
    *both("QoS 2 sent again", _qos_2_again, "4.3.3-10 4.3.3-11 4.3.3-12", "4.3.3-2"),
    *both("QoS 2 sent again on another connection", _qos_2_across, "4.3.3-10 3.1.2-23", "4.3.3-2 4.1.0-1"),
    *both("PUBREL of an unknown identifier", _unknown_pubrel, "4.3.3-11 3.7.2-1", "4.3.3-2"),
    *both("answers to nothing", _unknown_answers, "4.3.2-3", "4.3.2-1"),
    *both("QoS 1 is sent again", _again_qos_1, "3.3.1-1 4.3.2-3 4.4.0-1 4.6.0-5", "3.3.1-1 4.3.2-1 4.4.0-1 4.6.0-1"),
    *both("QoS 2 is sent again", _again_qos_2, "3.3.1-1 4.3.3-3 4.3.3-5 4.3.3-6 4.4.0-1", "4.3.3-1 4.4.0-1 3.3.1-1"),
    *both("order", _order, "4.6.0-5 4.6.0-6", "4.6.0-5 4.6.0-6"),
    *both("topics are bytes", _topic_bytes, "1.5.4-3 4.7.3-4 3.3.2-3", "1.5.3-3 4.7.3-4 3.3.2-3"),
    *both("a large message", _big, "3.3.4-1 4.2.0-1", "3.3.4-1 7.1.1-1"),
    case("PUBACK 0x80 of a subscriber", *_refused_by_subscriber(Puback, 1), five="4.4.0-2"),
    case("PUBREC 0x80 of a subscriber", *_refused_by_subscriber(Pubrec, 2), five="4.4.0-2 4.3.3-4"),
    case(
        "after a refused QoS 2 the identifier is free",
        *(opens("s"), subscribes("s", T), opens("p"), say("p", Publish(_SYSTEM, b"no", 2, 5))),
        hear("p", Pubrec(5, R.NOT_AUTHORIZED), reasons=(R.TOPIC_NAME_INVALID, R.IMPLEMENTATION_SPECIFIC_ERROR)),
        *(say("p", Publish(T, b"x", 2, 5)), hear("p", Pubrec(5)), say("p", Pubrel(5)), hear("p", Pubcomp(5))),
        *(message("s", T, b"x"), quiet("s")),
        five="4.3.3-9",
    ),
    case(
        "a client may not publish for the server [5]",
        *(opens("p"), say("p", Publish(_SYSTEM, b"no", 1, 5))),
        hear("p", Puback(5, R.NOT_AUTHORIZED), reasons=(R.TOPIC_NAME_INVALID, R.IMPLEMENTATION_SPECIFIC_ERROR)),
        *(say("p", Publish(_SYSTEM, b"no")), quiet("p")),
        five="3.4.2-1 3.3.4-1",
    ),
    case(
        "a client may not publish for the server [3.1.1]",
        *(opens("s", 4), subscribes("s", _SYSTEM), opens("p", 4), say("p", Publish(_SYSTEM, b"no", 1, 5))),
        *(hear("p", Puback(5)), quiet("s")),
        four="3.3.5-2",
    ),
    case(
        "many identifiers at once",
        *(opens("s"), subscribes("s", T, qos=1), opens("p", client_id=ID + "p")),
        say("p", *[Publish(T, b"x", 1, number) for number in (1, 65_535, 256, 255)]),
        HearAll("p", (Puback(1), Puback(65_535), Puback(256), Puback(255))),
        *[message("s", T, b"x", 1) for _ in range(4)],
        five="2.2.1-5 4.3.2-4",
    ),
]
