"""SUBSCRIBE and UNSUBSCRIBE: grants, matching, options, identifiers, replacing."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.mqtt.packets import (
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
from tests.conformance.mqtt.script import (
    Case,
    HearOneOf,
    Steps,
    T,
    answers,
    both,
    case,
    closed,
    ends,
    hear,
    message,
    opens,
    publishes,
    quiet,
    say,
    subscribes,
)

G0, G1, G2 = R.GRANTED_QOS_0, R.GRANTED_QOS_1, R.GRANTED_QOS_2


def _unsuback(v: int, packet_id: int, *reasons: R) -> Unsuback:
    return Unsuback(packet_id, list(reasons) if v == 5 else [])


def _grants(v: int) -> tuple[Steps, ...]:
    wanted = [Subscription(f"{T}/{at}", qos) for at, qos in enumerate((2, 0, 1, 0))]
    return (
        *(opens("a", v), say("a", Subscribe(300, wanted)), hear("a", Suback(300, [G2, G0, G1, G0]))),
        *(opens("p", v), publishes("p", f"{T}/3", b"x"), message("a", f"{T}/3", b"x")),
        *(publishes("p", f"{T}/2", b"y"), message("a", f"{T}/2", b"y", 1), quiet("a")),
    )


def _unsubscribes(v: int) -> tuple[Steps, ...]:
    filters = [f"{T}/a", f"{T}/none", f"{T}/+"]
    return (
        *(opens("a", v), subscribes("a", f"{T}/a", f"{T}/b", f"{T}/+"), say("a", Unsubscribe(65_535, filters))),
        hear("a", _unsuback(v, 65_535, R.SUCCESS, R.NO_SUBSCRIPTION_EXISTED, R.SUCCESS)),
        *(opens("p", v), publishes("p", f"{T}/a", b"1"), publishes("p", f"{T}/b", b"2"), message("a", f"{T}/b", b"2")),
        *(say("a", Unsubscribe(2, [f"{T}/B"])), hear("a", _unsuback(v, 2, R.NO_SUBSCRIPTION_EXISTED))),
        *(publishes("p", f"{T}/b", b"3"), message("a", f"{T}/b", b"3"), quiet("a")),
    )


def _unsubscribe_completes(v: int) -> tuple[Steps, ...]:
    """A delivery that has begun goes on after UNSUBSCRIBE."""
    return (
        *(opens("a", v), subscribes("a", T, qos=2), opens("p", v), say("p", Publish(T, b"1", 2, 5))),
        *(hear("p", Pubrec(5)), say("p", Pubrel(5)), hear("p", Pubcomp(5)), message("a", T, b"1", 2, "m")),
        *(say("a", Unsubscribe(2, [T])), hear("a", _unsuback(v, 2, R.SUCCESS))),
        *(answers("a", Pubrec, "m"), hear("a", Pubrel(1), of="m"), answers("a", Pubcomp, "m"), quiet("a")),
    )


def _replaces(v: int) -> tuple[Steps, ...]:
    return (
        *(opens("p"), publishes("p", T, b"kept", retain=True)),
        *(opens("a", v), subscribes("a", T, qos=2), message("a", T, b"kept", 1, retain=True)),
        *(subscribes("a", T, packet_id=2), message("a", T, b"kept", retain=True)),
        *(publishes("p", T, b"x"), message("a", T, b"x"), quiet("a"), publishes("p", T, b"", retain=True)),
    )


def _lower_qos(v: int) -> tuple[Steps, ...]:
    steps: list[Steps] = [opens("p", v)]
    for granted in (0, 1, 2):
        steps += [opens(f"s{granted}", v), subscribes(f"s{granted}", T, qos=granted)]
    for published in (0, 1, 2):
        payload = b"%d" % published
        steps.append(say("p", Publish(T, payload, published, 5 if published else 0)))
        if published == 1:
            steps.append(hear("p", Puback(5)))
        if published == 2:
            steps += [hear("p", Pubrec(5)), say("p", Pubrel(5)), hear("p", Pubcomp(5))]
        for granted in (0, 1, 2):
            steps.append(message(f"s{granted}", T, payload, min(granted, published)))
    return tuple(steps)


def _wildcards(v: int) -> tuple[Steps, ...]:
    def heard(on: str, *topics: str) -> tuple[Steps, ...]:
        return (*[message(on, topic, topic.encode()[-1:]) for topic in topics], quiet(on))

    topics = [T, f"{T}/", f"{T}/a", f"{T}/a/b", f"{T}/a/b/c", f"{T}//b"]
    filters = {
        "many": f"{T}/#",
        "one": f"{T}/+",
        "middle": f"{T}/+/b",
        "after": f"{T}/a/#",
        "first": f"+/{T[2:]}/a",
        "two": f"{T}/+/+",
    }
    steps: list[Steps] = []
    for on, topic_filter in filters.items():
        steps += [opens(on, v), subscribes(on, topic_filter)]
    steps.append(opens("p", v))
    steps += [publishes("p", topic, topic.encode()[-1:]) for topic in topics]
    steps += heard("one", f"{T}/", f"{T}/a")
    steps += heard("middle", f"{T}/a/b", f"{T}//b")
    steps += heard("after", f"{T}/a", f"{T}/a/b", f"{T}/a/b/c")
    steps += heard("first", f"{T}/a")
    steps += heard("two", f"{T}/a/b", f"{T}//b")
    steps += heard("many", *topics)
    return tuple(steps)


def _dollar(v: int) -> tuple[Steps, ...]:
    """Wildcards at the beginning leave out what begins with $; a filter that says the $ does not."""
    below = T[2:]
    return (
        *(opens("a", v), subscribes("a", f"+/{below}/x", f"c/{below}/y"), opens("b", v)),
        *(subscribes("b", f"$c/{below}/+"), opens("p", v), publishes("p", f"$c/{below}/x", b"1")),
        *(message("b", f"$c/{below}/x", b"1"), publishes("p", f"c/{below}/y", b"2")),
        *(message("a", f"c/{below}/y", b"2"), quiet("a")),
    )


def _bad_filter(v: int, wrong: str) -> tuple[Steps, ...]:
    """Only the filter that is wrong is refused: with 0x8F in 5.0; 3.1.1 says 0x80."""
    refusal = R.TOPIC_FILTER_INVALID if v == 5 else R.UNSPECIFIED_ERROR
    wanted = [Subscription(f"{T}/a"), Subscription(wrong)]
    return (
        *(opens("a", v), say("a", Subscribe(1, wanted)), hear("a", Suback(1, [G0, refusal]))),
        *(opens("p", v), publishes("p", f"{T}/a", b"x"), message("a", f"{T}/a", b"x")),
    )


def _bad_filters() -> list[Case]:
    wrong = {
        "# inside": (f"{T}/#/a", "4.7.1-1", "4.7.1-2"),
        "# after a word": (f"{T}/a#", "4.7.1-1", "4.7.1-2"),
        "+ after a word": (f"{T}/a+", "4.7.1-2", "4.7.1-3"),
        "+ before a word": (f"{T}/+a/b", "4.7.1-2", "4.7.1-3"),
    }
    found = []
    for name, (topic_filter, five, four) in wrong.items():
        found += both(
            f"a filter with {name}",
            lambda v, topic_filter=topic_filter: _bad_filter(v, topic_filter),  # type: ignore[misc]
            f"{five} 3.8.4-7 3.9.3-2",
            f"{four} 3.8.4-5 3.9.3-2",
        )
    return found


def _overlapping(v: int) -> tuple[Steps, ...]:
    """One copy, or one for each subscription; the best QoS is among them."""
    ways = ((Publish(T, b"x", 1),), (Publish(T, b"x"), Publish(T, b"x", 1)))
    return (
        *(opens("a", v), subscribes("a", T, qos=0), subscribes("a", f"{T}/#", qos=1, packet_id=2)),
        *(opens("p", v), publishes("p", T, b"x"), HearOneOf("a", ways)),
    )


def _identified(payload: bytes, qos: int, *identifiers: int) -> Publish:
    return Publish(T, payload, qos, properties={P.SUBSCRIPTION_IDENTIFIER: list(identifiers)})


def _five() -> list[Case]:
    one = (_identified(b"x", 1, 7, 268_435_455),)
    several = (_identified(b"x", 0, 7), _identified(b"x", 1, 268_435_455))
    turned = (_identified(b"x", 1, 268_435_455), _identified(b"x", 0, 7))
    own = [Subscription(T, 0, no_local=True)]
    return [
        case(
            "subscription identifiers of overlapping subscriptions",
            *(opens("a"), subscribes("a", T, subscription_id=7)),
            subscribes("a", f"{T}/#", qos=1, packet_id=2, subscription_id=268_435_455),
            *(opens("p"), publishes("p", T, b"x"), HearOneOf("a", (one, several, turned))),
            five="3.3.4-2 3.3.4-3 3.3.4-4 3.3.4-5",
        ),
        case(
            "a subscription identifier comes with retained messages",
            *(opens("p"), publishes("p", T, b"kept", retain=True), opens("a"), subscribes("a", T, subscription_id=3)),
            message("a", T, b"kept", retain=True, props={P.SUBSCRIPTION_IDENTIFIER: [3]}),
            publishes("p", T, b"", retain=True),
            five="3.3.4-3 3.3.1-9",
        ),
        case(
            "replacing a subscription replaces its identifier",
            *(opens("a"), subscribes("a", T, subscription_id=3), subscribes("a", T, packet_id=2, subscription_id=4)),
            *(opens("p"), publishes("p", T, b"1"), message("a", T, b"1", props={P.SUBSCRIPTION_IDENTIFIER: [4]})),
            *(subscribes("a", T, packet_id=3), publishes("p", T, b"2"), message("a", T, b"2"), quiet("a")),
            five="3.8.4-3 3.3.4-3",
        ),
        case(
            "no local",
            *(opens("a"), say("a", Subscribe(1, own)), hear("a", Suback(1, [G0]))),
            *(opens("b"), subscribes("b", T), publishes("a", T, b"own"), message("b", T, b"own")),
            *(opens("p"), publishes("p", T, b"other"), message("a", T, b"other"), message("b", T, b"other")),
            quiet("a"),
            five="3.8.3-3",
        ),
        case(
            "no local on a shared subscription",
            *(opens("a"), say("a", Subscribe(1, [Subscription(f"$share/g/{T}", 0, no_local=True)]))),
            closed("a", R.PROTOCOL_ERROR),
            five="3.8.3-4 4.13.1-1",
        ),
        case(
            "SUBSCRIBE at every QoS",
            *(opens("a"), subscribes("a", f"{T}/0", qos=0), subscribes("a", f"{T}/1", qos=1, packet_id=2)),
            subscribes("a", f"{T}/2", qos=2, packet_id=3),
            five="3.2.2-9 3.2.2-10 3.8.4-7",
        ),
    ]


def _empty(v: int, first: int) -> tuple[Steps, ...]:
    wire = bytes((first, 3, 0, 1, 0)) if v == 5 else bytes((first, 2, 0, 1))
    return (opens("a", v), say("a", wire), ends("a", v, R.PROTOCOL_ERROR))


CASES: Final[list[Case]] = [
    *both(
        "grants in order",
        _grants,
        "2.2.1-6 3.8.4-1 3.8.4-2 3.8.4-5 3.8.4-6 3.8.4-7 3.9.3-1 3.9.3-2 3.2.2-10",
        "2.3.1-7 3.8.3-2 3.8.4-1 3.8.4-2 3.8.4-4 3.8.4-5 3.9.3-1 3.9.3-2",
    ),
    *both(
        "UNSUBSCRIBE",
        _unsubscribes,
        "2.2.1-6 3.10.4-1 3.10.4-2 3.10.4-4 3.10.4-5 3.10.4-6 3.11.3-1 3.11.3-2",
        "2.3.1-7 3.10.4-1 3.10.4-2 3.10.4-4 3.10.4-5 3.10.4-6",
    ),
    *both("UNSUBSCRIBE completes what has begun", _unsubscribe_completes, "3.10.4-3", "3.10.4-3"),
    *both("the same filter again", _replaces, "3.8.4-3 3.8.4-4", "3.8.4-3"),
    *both("the lower QoS", _lower_qos, "3.8.4-8 4.3.1-1", "3.8.4-6 4.3.1-1"),
    *both("wildcards", _wildcards, "3.3.2-3 4.7.1-1 4.7.1-2", "3.3.2-3 4.7.1-2 4.7.1-3 3.8.3-2"),
    *both("topics that begin with $", _dollar, "4.7.2-1", "4.7.2-1"),
    *both("overlapping subscriptions", _overlapping, "3.3.4-2", "3.3.5-1"),
    *both("SUBSCRIBE of nothing", lambda v: _empty(v, 0x82), "3.8.3-2 4.13.1-1", "3.8.3-3 4.8.0-1"),
    *both("UNSUBSCRIBE of nothing", lambda v: _empty(v, 0xA2), "3.10.3-2 4.13.1-1", "3.10.3-2 4.8.0-1"),
    *_bad_filters(),
    *_five(),
]
