"""What single facts become in a journey."""

from __future__ import annotations

from dataclasses import replace

from entrepot.domain.journey.facts import Ingested, JourneyFacts, Receiver, Storage, Tiering
from entrepot.domain.journey.model import JourneyHop, JourneyKind, LaneKind
from entrepot.domain.journey.taking_in import TakenIn, taken_in
from entrepot.domain.journey.telling import journey_of
from entrepot.domain.message import Message, StoredMessage, SystemProperty, SystemValue
from entrepot.domain.query import HopKind, MessageHop
from tests.support.cases import cases

PLACE = ("orders", 0, 7)
MESSAGE = StoredMessage(
    "orders",
    b"x",
    "orders/shop",
    queue_id=0,
    message_id=b"m",
    born_time_ms=100,
    queue_offset=7,
    commit_log_offset=9,
    store_time_ms=105,
)


def hops(facts: JourneyFacts, kind: JourneyKind) -> list[JourneyHop]:
    return [hop for hop in journey_of(facts).hops if hop.kind is kind]


@cases(
    "system, more, found",
    [
        ({SystemProperty.TAKEN_IN: "mqtt gw-1 till 7 from ::1"}, {}, TakenIn("mqtt", "gw-1", "till 7 from ::1")),
        ({SystemProperty.TAKEN_IN: "http - "}, {}, TakenIn("http")),
        ({SystemProperty.TAKEN_IN: ""}, {}, TakenIn()),
        ({SystemProperty.AMQP: b"\0\0\0\0"}, {}, TakenIn("amqp")),
        ({SystemProperty.PROTOCOL: "rocketmq", SystemProperty.BORN_HOST: "h1"}, {}, TakenIn("rocketmq", "", "h1")),
        ({SystemProperty.PUBLISHER: "till"}, {}, TakenIn("mqtt", "", "till")),
        ({}, {"qos": 1}, TakenIn("mqtt")),
        ({}, {}, TakenIn()),
    ],
)
def test_the_way_in_is_what_the_message_tells(system: dict[str, SystemValue], more: dict, found: TakenIn):
    assert taken_in(Message("orders", b"", system=system, **more)) == found
    assert taken_in(Message("orders", b"", system={SystemProperty.TAKEN_IN: found.text})) == found


def test_a_bridge_is_the_way_in():
    facts = JourneyFacts(replace(MESSAGE, system={SystemProperty.BRIDGE: "plant"}), gateway="gw-1")
    [hop] = hops(facts, JourneyKind.BRIDGED_IN)
    assert (hop.lane, hop.gateway, hop.time_ms) == ("bridge/plant", "gw-1", 100)
    assert not hops(facts, JourneyKind.TAKEN_IN)
    lane = next(lane for lane in journey_of(facts).lanes if lane.id == "bridge/plant")
    assert (lane.kind, lane.name) == (LaneKind.BRIDGE, "plant")


def test_tables_have_it_at_a_time_that_is_not_kept():
    ingested = Ingested("lake.orders", "delta", 912, "118", 900)
    facts = JourneyFacts(MESSAGE, tiering={PLACE: Tiering("topics/orders", is_uploaded=True)}, ingested=(ingested,))
    [tiered], [written] = hops(facts, JourneyKind.TIERED), hops(facts, JourneyKind.INGESTED)
    assert tiered.is_known and tiered.time_ms is None and "topics/orders" in tiered.detail
    assert written.time_ms == 900 and "Batch 912" in written.detail and "version 118 of lake.orders" in written.detail
    stuck = JourneyFacts(MESSAGE, tiering={PLACE: Tiering("t", is_uploaded=False, problem="it is away")})
    [hop] = hops(stuck, JourneyKind.TIERED)
    assert not hop.is_known and "it is away" in hop.detail
    assert not hops(JourneyFacts(MESSAGE, tiering={PLACE: Tiering("t", is_uploaded=False)}), JourneyKind.TIERED)


def test_what_brokers_do_not_tell_is_said_once_each():
    facts = JourneyFacts(
        MESSAGE,
        storages={9: Storage("broker-1", 42, 1, ("r1",), ("r2",), dropped_hops=3, problem="it is slow")},
        silent={"broker-2": "it is away"},
    )
    journey = journey_of(facts)
    [stored] = [hop for hop in journey.hops if hop.kind is JourneyKind.STORED and hop.is_known]
    assert (stored.broker, stored.epoch) == ("broker-1", 42)
    assert stored.detail == "Replica 1 was master. Now on r1. Not on r2."
    words = [hop.detail for hop in journey.hops if not hop.is_known]
    for said in ("no room for 3 hops", "it is slow", "broker-2 does not answer", "When its producer was told"):
        assert sum(said in each for each in words) == 1
    assert journey.unknown == len(words)


def test_a_message_that_only_a_trace_knows():
    gone = StoredMessage(
        "orders", b"", message_id=b"m", queue_id=0, queue_offset=7, commit_log_offset=-1, store_time_ms=5
    )
    trace = (
        MessageHop(HopKind.STORED, 5, *PLACE),
        MessageHop(HopKind.DELIVERED, 6, *PLACE, "g", 1, "", "a sink"),
        MessageHop(HopKind.DELIVERED, 6, "orders", 0, 8, "g", 1),
    )
    facts = JourneyFacts(
        gone, hops=trace, traced=frozenset({"orders"}), is_gone=True, receivers={"g": Receiver(LaneKind.WEBHOOK, "b")}
    )
    journey = journey_of(facts)
    assert [(hop.kind, hop.time_ms) for hop in journey.hops if hop.is_known] == [
        (JourneyKind.STORED, 5),
        (JourneyKind.DELIVERED, 6),
    ]
    [unknown] = [hop for hop in journey.hops if not hop.is_known]
    assert unknown.kind is JourneyKind.TAKEN_IN and "left the log" in unknown.detail
    assert [lane.name for lane in journey.lanes] == ["Log", "b", "Door"]
