"""Retained messages, and what of a message reaches its subscribers: properties, expiry, aliases."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.mqtt.packets import (
    Connect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
)
from entrepot.protocols.mqtt.properties import PropertyId as P
from entrepot.protocols.mqtt.reason_codes import ReasonCode as R
from tests.conformance.mqtt.cases.sessions import stays
from tests.conformance.mqtt.script import (
    ID,
    SHORT_SECONDS,
    Case,
    HearOneOf,
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
    wait,
    welcome,
)

G0: Final = R.GRANTED_QOS_0


def _retained(v: int) -> tuple[Steps, ...]:
    """The last one is kept with its QoS, outlives its publisher, and an empty one takes it away."""
    return (
        *(opens("live", v), subscribes("live", T, qos=1), opens("p", v)),
        *(publishes("p", T, b"1", retain=True), publishes("p", T, b"2", retain=True), publishes("p", T, b"3")),
        *(leaves("p"), message("live", T, b"1", 1), message("live", T, b"2", 1), message("live", T, b"3", 1)),
        *(opens("s", v), subscribes("s", f"{T}/#", qos=2), message("s", T, b"2", 1, retain=True), quiet("s")),
        *(opens("q", v), publishes("q", T, b"", retain=True), message("live", T, b"", 1), message("s", T, b"", 1)),
        *(opens("t", v), subscribes("t", T), quiet("t", "s", "live")),
    )


def _retained_qos_0(v: int) -> tuple[Steps, ...]:
    """A retained message of QoS 0 replaces one of QoS 1, or leaves none: never the old one.

    Nothing confirms it, so another subscriber tells when the server has it."""
    return (
        *(opens("p", v), publishes("p", T, b"1", retain=True)),
        *(opens("w", v), subscribes("w", T), message("w", T, b"1", retain=True)),
        *(say("p", Publish(T, b"2", retain=True)), message("w", T, b"2")),
        *(opens("s", v), subscribes("s", T, qos=1), message("s", T, b"2", retain=True), quiet("s", "w", "p")),
        publishes("p", T, b"", retain=True),
    )


def _matching(v: int) -> tuple[Steps, ...]:
    return (
        *(opens("p", v), publishes("p", f"{T}/a", b"1", retain=True), publishes("p", f"{T}/b/c", b"2", retain=True)),
        *(opens("s", v), subscribes("s", f"{T}/+"), message("s", f"{T}/a", b"1", retain=True), quiet("s")),
        *(opens("t", v), subscribes("t", f"{T}/+/c"), message("t", f"{T}/b/c", b"2", retain=True), quiet("t")),
    )


def _handled(on: str, handling: int, packet_id: int) -> tuple[Steps, ...]:
    wanted = [Subscription(T, 0, retain_handling=handling)]
    return (say(on, Subscribe(packet_id, wanted)), hear(on, Suback(packet_id, [G0])))


_PROPERTIES: Final = {
    P.PAYLOAD_FORMAT_INDICATOR: 1,
    P.CONTENT_TYPE: "text/plain; charset=utf-8",
    P.RESPONSE_TOPIC: "answers/\u00fc",
    P.CORRELATION_DATA: b"\0\xff",
    P.USER_PROPERTY: [("b", "1"), ("a", ""), ("b", "1"), ("", "\ufeff")],
}


_ODD_PROPERTIES: Final = {
    P.PAYLOAD_FORMAT_INDICATOR: 0,
    P.CONTENT_TYPE: "",
    P.CORRELATION_DATA: b"",
    P.USER_PROPERTY: [("ce_type", "t"), ("ce_specversion", "1.0"), ("a", "1"), ("ce_type", "u"), ("type", "v")],
}
"""Zero and empty are something else than absent, and `ce_` is a name's beginning as any other."""
_EVENT: Final = {
    P.USER_PROPERTY: [("ce_x", "1"), ("type", "t"), ("id", "1"), ("source", "/s"), ("specversion", "1.0"), ("x", "2")]
}
"""Attributes of a CloudEvent by their plain names."""


def _options() -> list[Case]:
    as_published = [Subscription(T, 0, retain_as_published=True)]
    kept = message("s", T, b"kept", retain=True)
    return [
        case(
            "retain handling",
            *(opens("p"), publishes("p", T, b"kept", retain=True), opens("s"), *_handled("s", 2, 1), quiet("s")),
            *(*_handled("s", 1, 2), quiet("s"), *_handled("s", 0, 3), kept, quiet("s")),
            *(opens("t"), *_handled("t", 1, 1), message("t", T, b"kept", retain=True), *_handled("t", 1, 2)),
            *(quiet("t"), publishes("p", T, b"", retain=True)),
            five="3.3.1-9 3.3.1-10 3.3.1-11 3.8.4-4",
        ),
        case(
            "retain handling 1 remembers the session",
            *(opens("p"), publishes("p", T, b"kept", retain=True), *stays("s", 5), *_handled("s", 1, 1), kept),
            *(cut("s"), *stays("t", 5, True), *_handled("t", 1, 1), quiet("t"), publishes("p", T, b"", retain=True)),
            five="3.3.1-10 3.1.2-5",
        ),
        case(
            "retain as published",
            *(opens("s"), subscribes("s", T), opens("t"), say("t", Subscribe(1, as_published))),
            *(hear("t", Suback(1, [G0])), opens("p"), publishes("p", T, b"x", retain=True)),
            *(message("s", T, b"x"), message("t", T, b"x", retain=True), publishes("p", T, b"y")),
            *(message("s", T, b"y"), message("t", T, b"y"), publishes("p", T, b"", retain=True)),
            five="3.3.1-12 3.3.1-13",
        ),
    ]


FIRST_DELIVERED: Final = 4
"""An expiry that leaves the server the time to deliver the message before."""


def _short_lived(payload: bytes, seconds: int = 1) -> Publish:
    return Publish(T, payload, 2, 5, properties={P.MESSAGE_EXPIRY_INTERVAL: seconds})


def _expiry() -> list[Case]:
    return [
        case(
            "what expired is not delivered",
            *(*stays("s", 5), subscribes("s", T, qos=1), leaves("s"), opens("p")),
            *(publishes("p", T, b"short", props={P.MESSAGE_EXPIRY_INTERVAL: 1}), publishes("p", T, b"long")),
            *(wait(2.2 * SHORT_SECONDS), *stays("t", 5, True), message("t", T, b"long", 1), quiet("t")),
            five="3.3.2-5",
        ),
        case(
            "a retained message expires",
            *(opens("p"), publishes("p", T, b"x", retain=True, props={P.MESSAGE_EXPIRY_INTERVAL: 1})),
            *(wait(2.2 * SHORT_SECONDS), opens("s"), subscribes("s", T), quiet("s")),
            five="3.3.2-5",
        ),
        case(
            "what is left of the expiry",
            *(*stays("s", 5), subscribes("s", T, qos=1), leaves("s"), opens("p")),
            publishes("p", T, b"x", props={P.MESSAGE_EXPIRY_INTERVAL: 100}),
            *(wait(2.2 * SHORT_SECONDS), *stays("t", 5, True)),
            message("t", T, b"x", 1, between={P.MESSAGE_EXPIRY_INTERVAL: (80, 98)}),
            five="3.3.2-6",
        ),
        case(
            "the expiry of a message delivered at once",
            *(opens("s"), subscribes("s", T), opens("p")),
            publishes("p", T, b"x", props={P.MESSAGE_EXPIRY_INTERVAL: 100}),
            message("s", T, b"x", between={P.MESSAGE_EXPIRY_INTERVAL: (90, 100)}),
            five="3.3.2-6",
        ),
        case(
            "QoS 2 is completed though it expired",
            *(*stays("s", 5), subscribes("s", T, qos=2), opens("p")),
            *(say("p", _short_lived(b"x", FIRST_DELIVERED)), hear("p", Pubrec(5))),
            *(say("p", Pubrel(5)), hear("p", Pubcomp(5))),
            message("s", T, b"x", 2, "m", between={P.MESSAGE_EXPIRY_INTERVAL: (1, FIRST_DELIVERED)}),
            wait((FIRST_DELIVERED + 1.2) * SHORT_SECONDS),
            *(answers("s", Pubrec, "m"), hear("s", Pubrel(1), of="m"), cut("s")),
            *(*stays("t", 5, True), hear("t", Pubrel(1), of="m"), answers("t", Pubcomp, "m"), quiet("t")),
            five="4.3.3-7 4.3.3-5",
        ),
        case(
            "QoS 2 of a publisher is completed though it expired",
            *(opens("p"), say("p", _short_lived(b"x")), hear("p", Pubrec(5), reasons=(R.NO_MATCHING_SUBSCRIBERS,))),
            *(wait(2.2 * SHORT_SECONDS), say("p", Pubrel(5)), hear("p", Pubcomp(5))),
            five="4.3.3-13",
        ),
        case(
            "what was sent is completed though it expired",
            *(*stays("s", 5), subscribes("s", T, qos=1), opens("p")),
            publishes("p", T, b"x", props={P.MESSAGE_EXPIRY_INTERVAL: FIRST_DELIVERED}),
            message("s", T, b"x", 1, "m", between={P.MESSAGE_EXPIRY_INTERVAL: (1, FIRST_DELIVERED)}),
            wait((FIRST_DELIVERED + 1.2) * SHORT_SECONDS),
            *(answers("s", Puback, "m"), quiet("s")),
            five="3.3.2-5 4.4.0-1",
        ),
    ]


def _alias(topic: str, payload: bytes, alias: int, packet_id: int = 5) -> Publish:
    return Publish(topic, payload, 1, packet_id, properties={P.TOPIC_ALIAS: alias})


def _either(on: str, topic: str, payload: bytes) -> HearOneOf:
    """The server may give the one alias that the client allows, or none."""
    return HearOneOf(on, ((Publish(topic, payload),), (Publish(topic, payload, properties={P.TOPIC_ALIAS: 1}),)))


def _aliases() -> list[Case]:
    none = (R.NO_MATCHING_SUBSCRIBERS,)
    confirmed = hear("p", Puback(5), reasons=none)
    return [
        case(
            "topic aliases",
            *(opens("s"), subscribes("s", f"{T}/#"), dial("p"), say("p", Connect(ID + "p"))),
            hear("p", welcome(), has=(P.TOPIC_ALIAS_MAXIMUM,)),
            *(say("p", _alias(f"{T}/a", b"1", 1)), confirmed, message("s", f"{T}/a", b"1")),
            *(say("p", _alias("", b"2", 1)), confirmed, message("s", f"{T}/a", b"2")),
            *(say("p", _alias(f"{T}/b", b"3", 1)), confirmed, message("s", f"{T}/b", b"3")),
            *(say("p", _alias("", b"4", 1)), confirmed, message("s", f"{T}/b", b"4"), quiet("s")),
            five="3.3.2-12 3.1.2-27 3.3.2-11",
        ),
        case(
            "an alias does not outlive its connection",
            *(*stays("p", 5, client="p"), say("p", _alias(f"{T}/a", b"1", 1)), confirmed, leaves("p")),
            *(*stays("q", 5, True, client="p"), say("q", _alias("", b"2", 1)), closed("q", R.PROTOCOL_ERROR)),
            five="3.3.2-7 4.13.1-1",
        ),
        case(
            "an alias that was never given",
            *(opens("p"), say("p", _alias("", b"2", 1)), closed("p", R.PROTOCOL_ERROR)),
            five="3.3.2-7 4.13.1-1",
        ),
        case(
            "alias 0",
            *(opens("p"), say("p", _alias(T, b"x", 0)), closed("p", R.TOPIC_ALIAS_INVALID)),
            five="3.3.2-8 4.13.1-1",
        ),
        case(
            "an alias above the maximum",
            *(opens("p"), say("p", _alias(T, b"x", 65_535)), closed("p", R.TOPIC_ALIAS_INVALID)),
            five="3.3.2-9 3.2.2-17 4.13.1-1",
        ),
        case(
            "aliases of the server, within the client's maximum",
            *(opens("s", props={P.TOPIC_ALIAS_MAXIMUM: 1}), subscribes("s", f"{T}/#"), opens("p")),
            *(publishes("p", f"{T}/a", b"1"), _either("s", f"{T}/a", b"1")),
            *(publishes("p", f"{T}/b", b"2"), _either("s", f"{T}/b", b"2"), quiet("s")),
            five="3.1.2-26 3.3.2-8 3.3.2-11",
        ),
    ]


CASES: Final[list[Case]] = [
    *both(
        "a retained message",
        _retained,
        "3.3.1-5 3.3.1-6 3.3.1-7 3.3.1-8 3.3.1-12",
        "3.1.2-7 3.3.1-5 3.3.1-6 3.3.1-8 3.3.1-9 3.3.1-10 3.3.1-11 3.3.1-12",
    ),
    *both("a retained message of QoS 0", _retained_qos_0, "3.3.1-5", "3.3.1-7 3.3.1-5"),
    *both("retained messages of matching topics", _matching, "3.3.1-9 3.3.2-3", "3.3.1-6 3.3.2-3"),
    *_options(),
    case(
        "properties are forwarded",
        *(opens("s"), subscribes("s", T), opens("p"), publishes("p", T, b"x", props=_PROPERTIES)),
        message("s", T, b"x", props=_PROPERTIES),
        five="3.3.2-4 3.3.2-15 3.3.2-16 3.3.2-17 3.3.2-18 3.3.2-20 1.5.4-3",
    ),
    case(
        "properties are retained",
        *(opens("p"), publishes("p", T, b"x", retain=True, props=_PROPERTIES), opens("s"), subscribes("s", T)),
        *(message("s", T, b"x", retain=True, props=_PROPERTIES), publishes("p", T, b"", retain=True)),
        five="3.3.2-4 3.3.2-15 3.3.2-16 3.3.2-17 3.3.2-18 3.3.2-20 3.3.1-5",
    ),
    case(
        "zero, empty and ce_ are forwarded",
        *(opens("s"), subscribes("s", T, qos=2), opens("p"), publishes("p", T, b"x", props=_ODD_PROPERTIES)),
        *(message("s", T, b"x", 1, props=_ODD_PROPERTIES), publishes("p", T, b"y", props=_EVENT)),
        message("s", T, b"y", 1, props=_EVENT),
        five="3.3.2-4 3.3.2-16 3.3.2-17 3.3.2-18 3.3.2-20",
    ),
    case(
        "zero, empty and ce_ are retained",
        *(opens("p"), publishes("p", T, b"x", retain=True, props=_ODD_PROPERTIES), opens("s"), subscribes("s", T)),
        *(message("s", T, b"x", retain=True, props=_ODD_PROPERTIES), publishes("p", T, b"", retain=True)),
        five="3.3.2-4 3.3.2-16 3.3.2-17 3.3.2-18 3.3.2-20",
    ),
    case(
        "3.1.1 hears what 5.0 says",
        *(opens("s", 4), subscribes("s", T), opens("p"), publishes("p", T, b"x", props=_PROPERTIES)),
        *(message("s", T, b"x"), opens("t"), subscribes("t", T), opens("q", 4), publishes("q", T, b"y")),
        *(message("s", T, b"y"), message("t", T, b"y")),
        four="7.0.0-2 3.3.2-3",
    ),
    *_expiry(),
    *_aliases(),
]
