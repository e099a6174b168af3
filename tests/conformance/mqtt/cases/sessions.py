"""Sessions, and the wills that go with their end."""

from __future__ import annotations

from typing import Any, Final

from entrepot.protocols.mqtt.packets import (
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Unsuback,
    Unsubscribe,
    Will,
)
from entrepot.protocols.mqtt.properties import PropertyId as P
from entrepot.protocols.mqtt.reason_codes import ReasonCode as R
from tests.conformance.mqtt.script import (
    ID,
    SHORT_SECONDS,
    Case,
    Step,
    Steps,
    T,
    answers,
    both,
    case,
    closed,
    cut,
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
)

LONG: Final = {P.SESSION_EXPIRY_INTERVAL: 60}
"""A session that outlives the case."""

NEVER: Final = {P.SESSION_EXPIRY_INTERVAL: 0xFFFF_FFFF}


def stays(on: str, version: int, present: bool = False, client: str = "a", **other: Any) -> tuple[Step, ...]:
    """Open the kept session of client `a`."""
    properties = LONG if version == 5 else {}
    return opens(on, version, present, clean=False, client_id=ID + client, props=properties, **other)


def _resumed(v: int) -> tuple[Steps, ...]:
    return (
        *(*stays("a", v), subscribes("a", T, qos=1), leaves("a")),
        *(opens("p"), publishes("p", T, b"1"), publishes("p", T, b"2"), say("p", Publish(T, b"3", 2, 7))),
        *(hear("p", Pubrec(7)), say("p", Pubrel(7)), hear("p", Pubcomp(7)), *stays("b", v, True)),
        *(message("b", T, b"1", 1, "m1"), message("b", T, b"2", 1), message("b", T, b"3", 1)),
        *(answers("b", Puback, "m1"), publishes("p", T, b"4"), message("b", T, b"4", 1)),
    )


def _clean_discards(v: int) -> tuple[Steps, ...]:
    return (
        *(*stays("a", v), subscribes("a", T, qos=1), leaves("a")),
        *(opens("p"), publishes("p", T, b"1"), opens("b", v, client_id=ID + "a"), quiet("b")),
        *(publishes("p", T, b"2"), quiet("b"), leaves("b")),
        *(*stays("c", v, False), quiet("c")),
    )


def _clean_ends(v: int) -> tuple[Steps, ...]:
    """A session without expiry, or of Clean Session 1, is over with its connection."""
    return (
        *(opens("a", v), subscribes("a", T, qos=1), leaves("a"), opens("p"), publishes("p", T, b"1")),
        *(*stays("b", v, False), quiet("b"), publishes("p", T, b"2"), quiet("b")),
    )


def _cut_stays(v: int) -> tuple[Steps, ...]:
    return (
        *(*stays("a", v), subscribes("a", T, qos=1), cut("a")),
        *(opens("p"), publishes("p", T, b"1"), *stays("b", v, True), message("b", T, b"1", 1)),
    )


def _qos_0_while_connected(v: int) -> tuple[Steps, ...]:
    """The session holds while the connection is open, whatever its expiry."""
    return (opens("a", v), subscribes("a", T), opens("p"), publishes("p", T, b"1"), message("a", T, b"1"))


def _unsubscribed_while_away(v: int) -> tuple[Steps, ...]:
    unsuback = Unsuback(2, [R.SUCCESS] if v == 5 else [])
    return (
        *(*stays("a", v), subscribes("a", T, f"{T}/b", qos=1), say("a", Unsubscribe(2, [T])), hear("a", unsuback)),
        *(leaves("a"), opens("p"), publishes("p", T, b"1"), publishes("p", f"{T}/b", b"2")),
        *(*stays("b", v, True), message("b", f"{T}/b", b"2", 1), quiet("b")),
    )


def _will(v: int) -> tuple[Steps, ...]:
    return (
        *(opens("w"), subscribes("w", T, qos=2), opens("a", v, will=Will(T, b"gone", 1)), cut("a")),
        message("w", T, b"gone", 1),
    )


def _will_discarded(v: int) -> tuple[Steps, ...]:
    """A proper DISCONNECT takes the will away: of two clients the second's is heard first."""
    return (
        *(opens("w"), subscribes("w", T), opens("a", v, will=Will(T, b"a")), leaves("a"), quiet("w")),
        *(opens("b", v, will=Will(T, b"b")), cut("b"), message("w", T, b"b"), quiet("w")),
    )


def _will_once(v: int) -> tuple[Steps, ...]:
    """Coming back without a will and going again publishes none."""
    return (
        *(opens("w"), subscribes("w", T), *stays("a", v, will=Will(T, b"gone")), cut("a"), message("w", T, b"gone")),
        *(*stays("b", v, True), cut("b"), quiet("w")),
        *(opens("p"), publishes("p", T, b"after"), message("w", T, b"after")),
    )


def _will_retained(v: int) -> tuple[Steps, ...]:
    return (
        *(opens("w"), subscribes("w", f"{T}/#"), opens("a", v, will=Will(f"{T}/r", b"kept", 1, True)), cut("a")),
        *(message("w", f"{T}/r", b"kept"), opens("b", v, will=Will(f"{T}/n", b"not", 1, False)), cut("b")),
        *(message("w", f"{T}/n", b"not"), opens("s"), subscribes("s", f"{T}/#", qos=1)),
        *(message("s", f"{T}/r", b"kept", 1, retain=True), quiet("s")),
    )


def _will_after_violation(v: int) -> tuple[Steps, ...]:
    return (
        *(opens("w"), subscribes("w", T), opens("a", v, will=Will(T, b"gone")), say("a", b"\xc1\0")),
        *(ends("a", v, R.MALFORMED_PACKET), message("w", T, b"gone")),
    )


_WILL_PROPERTIES: Final = {
    P.PAYLOAD_FORMAT_INDICATOR: 1,
    P.CONTENT_TYPE: "text/plain",
    P.RESPONSE_TOPIC: "answers/here",
    P.CORRELATION_DATA: b"\0\x01",
    P.USER_PROPERTY: [("b", "1"), ("a", "2"), ("b", "3")],
}


def _five() -> list[Case]:
    soon = Will(T, b"gone", 0, False, {P.WILL_DELAY_INTERVAL: 1})
    delayed = Will(T, b"gone", 0, False, {P.WILL_DELAY_INTERVAL: 4})
    late = Will(T, b"gone", 0, False, {P.WILL_DELAY_INTERVAL: 60})
    return [
        case(
            "a session expires",
            *opens("a", clean=False, props={P.SESSION_EXPIRY_INTERVAL: 1}),
            *(subscribes("a", T, qos=1), leaves("a"), wait(2.5 * SHORT_SECONDS), stays("b", 5, False)),
            five="4.1.0-2 3.2.2-3",
        ),
        case(
            "a session that never expires",
            *(opens("a", clean=False, props=NEVER), subscribes("a", T, qos=1), cut("a")),
            *(opens("b", present=True, clean=False, client_id=ID + "a"), leaves("b"), stays("c", 5, False)),
            five="3.1.2-23 3.2.2-3 4.1.0-2",
        ),
        case(
            "DISCONNECT changes the session expiry",
            *(stays("a", 5), leaves("a", properties={P.SESSION_EXPIRY_INTERVAL: 0}), stays("b", 5, False)),
            five="4.1.0-2 3.2.2-3",
        ),
        case(
            "DISCONNECT makes no session of none",
            *(opens("a"), say("a", Disconnect(properties={P.SESSION_EXPIRY_INTERVAL: 5})), closed("a", 0x82)),
            five="4.13.1-1",
        ),
        case(
            "a will with its delay",
            *(opens("w"), subscribes("w", T), stays("a", 5, will=delayed), cut("a"), quiet("w")),
            *(wait(4 * SHORT_SECONDS), message("w", T, b"gone")),
            five="3.1.2-8",
        ),
        case(
            "coming back within the delay takes the will away",
            *(opens("w"), subscribes("w", T), stays("a", 5, will=delayed), cut("a"), stays("b", 5, True)),
            *(wait(5 * SHORT_SECONDS), quiet("w")),
            five="3.1.3-9 3.1.2-8",
        ),
        case(
            "taking over a session takes its delayed will away",
            *(opens("w"), subscribes("w", T), stays("a", 5, will=soon), stays("b", 5, True)),
            *(closed("a", R.SESSION_TAKEN_OVER), wait(2 * SHORT_SECONDS), quiet("w")),
            five="3.1.3-9 3.1.4-3",
        ),
        case(
            "a new session ends the old one and publishes its delayed will",
            *(opens("w"), subscribes("w", T), stays("a", 5, will=late), cut("a")),
            *(opens("b", client_id=ID + "a"), message("w", T, b"gone")),
            five="3.1.2-8 3.1.2-4",
        ),
        case(
            "the end of the session ends the delay",
            *(opens("w"), subscribes("w", T), opens("a", will=late), cut("a"), message("w", T, b"gone")),
            five="3.1.2-8",
        ),
        case(
            "a will's properties",
            *(opens("w"), subscribes("w", T), opens("a", will=Will(T, b"x", 0, False, _WILL_PROPERTIES)), cut("a")),
            message("w", T, b"x", props=_WILL_PROPERTIES),
            five="3.1.3-10 3.1.2-9",
        ),
        case(
            "a will at every QoS, retained",
            *(opens("w"), subscribes("w", f"{T}/#", qos=2), opens("a", will=Will(f"{T}/2", b"2", 2, True)), cut("a")),
            *(message("w", f"{T}/2", b"2", 2), opens("b", will=Will(f"{T}/1", b"1", 1, True)), cut("b")),
            *(message("w", f"{T}/1", b"1", 1), opens("c", will=Will(f"{T}/0", b"0", 0, True)), cut("c")),
            message("w", f"{T}/0", b"0"),
            five="3.2.2-12 3.2.2-13 3.1.2-12",
        ),
        case(
            "DISCONNECT 0x04 publishes the will",
            *(opens("w"), subscribes("w", T), opens("a", will=Will(T, b"gone"))),
            *(leaves("a", reason=R.DISCONNECT_WITH_WILL_MESSAGE), message("w", T, b"gone")),
            five="3.14.4-3 3.1.2-8",
        ),
        case(
            "DISCONNECT 0x80 publishes the will",
            *(opens("w"), subscribes("w", T), opens("a", will=Will(T, b"gone"))),
            *(leaves("a", reason=R.UNSPECIFIED_ERROR), message("w", T, b"gone")),
            five="3.14.4-3 3.1.2-8",
        ),
    ]


CASES: Final[list[Case]] = [
    *both(
        "what came while away",
        _resumed,
        "3.1.2-5 3.1.2-6 3.1.2-23 3.1.4-4 3.2.2-3 4.5.0-1 4.6.0-5",
        "3.1.2-4 3.1.2-5 3.1.4-3 3.2.2-2 3.2.2-3 4.1.0-1 4.5.0-1 4.6.0-6",
    ),
    *both("a clean start discards", _clean_discards, "3.1.2-4 3.2.2-2 3.1.4-4", "3.1.2-6 3.2.2-1 3.2.2-3 3.1.4-3"),
    *both("a session of one connection", _clean_ends, "4.1.0-2 3.2.2-3 3.1.2-6", "3.1.2-6 3.2.2-3"),
    *both("a session outlives a cut", _cut_stays, "3.1.2-23 3.1.2-5 3.1.3-2", "3.1.2-4 3.1.2-5 3.1.3-2 4.1.0-1"),
    *both("the session holds with the connection", _qos_0_while_connected, "4.1.0-1", "4.1.0-2 4.1.0-1"),
    *both("unsubscribing stays", _unsubscribed_while_away, "3.1.2-5 3.10.4-1 3.10.4-2", "3.1.2-4 3.10.4-1 3.10.4-2"),
    *both("a will", _will, "3.1.2-7 3.1.2-8", "3.1.2-8"),
    *both("a will discarded", _will_discarded, "3.14.4-3 3.1.2-10", "3.14.4-3 3.1.2-10"),
    *both("a will once", _will_once, "3.1.2-10", "3.1.2-10 3.1.2-12"),
    *both("a will retained and not", _will_retained, "3.1.2-14 3.1.2-15", "3.1.2-16 3.1.2-17"),
    *both("a will after a violation", _will_after_violation, "3.1.2-8 2.1.3-1 4.13.1-1", "3.1.2-8 2.2.2-2 4.8.0-1"),
    *_five(),
]
