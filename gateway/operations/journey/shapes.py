"""Shapes: a journey as it is shown."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import UNSET, UnsetType

from entrepot.domain.journey.model import JourneyKind, LaneKind
from entrepot.domain.names import split_name
from entrepot.domain.value_space import Rule
from entrepot.gateway.operations.journey.looking_up import By, amqp_id, correlation_data
from entrepot.gateway.operations.nouns.message_head import HEAD
from entrepot.gateway.operations.nouns.messages import STATES
from entrepot.gateway.operations.nouns.place import PlaceShown, place_shown
from entrepot.gateway.operations.row.gathered import Missing
from entrepot.gateway.operations.row.ids import id_text
from entrepot.gateway.operations.row.shapes import Part, Shown, Time, one_of, shown_as
from entrepot.gateway.operations.row.times import time_shape
from entrepot.protocols.cloudevents.mapping import to_event

if TYPE_CHECKING:
    from entrepot.domain.journey.facts import JourneyFacts
    from entrepot.domain.journey.model import JourneyHop, Lane
    from entrepot.domain.message import Place, StoredMessage
    from entrepot.gateway.operations.journey.looking_up import Searched

_TIME: Final = "2026-12-01T08:00:00.000Z"


class JourneyMessage(Part, frozen=True):
    """`at` names it among others of its id."""

    at: str
    id: str
    place: PlaceShown
    sub_topic: str
    tag: str
    message_group: str
    qos: int
    born_time: Time | None
    store_time: Time | None
    size: int


class EventNames(Part, frozen=True):
    source: str | None
    id: str | None
    type: str | None


class CorrelationData(Part, frozen=True):
    """A text, or bytes that are none."""

    value: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET


class Names(Part, frozen=True):
    event: EventNames
    keys: list[str]
    correlation_data: CorrelationData | None
    amqp_message_id: str | None
    traceparent: str | None


class UnsaidShown(Part, frozen=True):
    protocol: str
    kind: str
    name: str | None
    fate: Rule


class SearchedShown(Part, frozen=True):
    topics: int
    messages: int
    bytes: int
    until: Time | None
    is_complete: bool


class LaneShown(Part, frozen=True):
    id: str
    kind: LaneKind
    name: str
    detail: str | None


class JourneyHopShown(Part, frozen=True):
    kind: JourneyKind
    is_known: bool
    time: Time | None
    lane: str
    door: str | None
    client: str | None
    gateway: str | None
    broker: str | None
    epoch: str | None
    place: PlaceShown | None
    group: str | None
    attempt: int | None
    outcome: str | None
    detail: str | None


class HiddenHops(Part, frozen=True):
    hops: int
    reason: str | None


class GroupAtPlace(Part, frozen=True):
    group: str
    place: PlaceShown
    state: Annotated[str, one_of(STATES.values())]
    attempts: int


class StorageShown(Part, frozen=True):
    place: PlaceShown
    log_offset: str
    broker: str | None
    epoch: str | None
    replicas: list[str]
    lacking: list[str]
    table: str | None
    problem: str | None


class JourneyShown(Shown, frozen=True, kw_only=True):
    """The hops of a message; those with a time first, in its order, and last what is not known"""

    by: By
    message: JourneyMessage | None
    names: Names | None
    unsaid: list[UnsaidShown]
    candidates: list[JourneyMessage]
    searched: SearchedShown | None
    lanes: list[LaneShown]
    hops: list[JourneyHopShown]
    known: int
    unknown: int
    hidden: HiddenHops
    groups: list[GroupAtPlace]
    storage: list[StorageShown]
    cut_copies: int
    missing: list[Missing]


_PLACE: Final = PlaceShown("orders", "default", 2, "41")
_MESSAGE: Final = JourneyMessage("298771104882", HEAD["id"], _PLACE, "orders/shop-17", "", "", 1, _TIME, _TIME, 301)
_RETRY: Final = "HTTP 503, next try after 1.9 s"
_HOP: Final = JourneyHopShown(
    JourneyKind.TAKEN_IN,
    True,
    _TIME,
    "group/billing",
    "mqtt",
    "webhook billing at gw-1:8080",
    "gw-1:8080",
    "broker-1",
    "42",
    _PLACE,
    "billing",
    2,
    _RETRY,
    _RETRY,
)
shown_as(
    JourneyShown(
        by=By.MESSAGE_ID,
        message=_MESSAGE,
        names=Names(
            EventNames("/line1", "7", "reading"),
            ["7"],
            CorrelationData("9f1c02aa", "/w=="),
            "m-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
        unsaid=[UnsaidShown("amqp", "routing key", "a header", next(iter(Rule)))],
        candidates=[_MESSAGE],
        searched=SearchedShown(1, 250, 65_536, _TIME, True),
        lanes=[LaneShown("group/billing", LaneKind.DOOR, "billing", "https://billing.example/in")],
        hops=[_HOP],
        known=14,
        unknown=1,
        hidden=HiddenHops(0, "it takes GET or SUB on the group or the topic that they are about"),
        groups=[GroupAtPlace("workers", _PLACE, "notYet", 1)],
        storage=[
            StorageShown(
                _PLACE,
                "298771104882",
                "broker-1",
                "42",
                ["r0", "r1"],
                ["r2"],
                "topics/default/orders/broker-1",
                "broker-1 is away",
            )
        ],
        cut_copies=0,
        missing=[Missing("broker-2", "it is away")],
    )
)


def hop_shown(hop: JourneyHop) -> JourneyHopShown:
    """Return a hop as it is shown."""
    return JourneyHopShown(
        hop.kind,
        hop.is_known,
        None if hop.time_ms is None else time_shape(hop.time_ms),
        hop.lane,
        hop.door or None,
        hop.client or None,
        hop.gateway or None,
        hop.broker or None,
        str(hop.epoch) if hop.epoch else None,
        place_shown((hop.topic, hop.queue_id, hop.queue_offset)) if hop.topic else None,
        split_name(hop.group)[1] if hop.group else None,
        hop.attempt or None,
        hop.outcome or None,
        hop.detail or None,
    )


def lane_shown(lane: Lane) -> LaneShown:
    """Return a lane as it is shown."""
    return LaneShown(lane.id, lane.kind, lane.name, lane.detail or None)


def message_shown(message: StoredMessage) -> JourneyMessage:
    """Return a message without its content."""
    return JourneyMessage(
        str(message.commit_log_offset),
        id_text(message.message_id),
        place_shown((message.topic, message.queue_id, message.queue_offset)),
        message.sub_topic,
        message.tag,
        message.message_group,
        message.qos,
        time_shape(message.born_time_ms) if message.born_time_ms else None,
        time_shape(message.store_time_ms),
        len(message.body),
    )


def names_of(message: StoredMessage, default_type: str) -> Names:
    """Return all names of a message."""
    attributes = to_event(message, split_name(message.topic)[0], default_type).attributes
    correlation = correlation_data(message)
    return Names(
        EventNames(attributes.get("source"), attributes.get("id"), attributes.get("type")),
        list(message.keys),
        None if correlation is None else _text_or_base64(correlation),
        amqp_id(message),
        attributes.get("traceparent"),
    )


def _text_or_base64(value: bytes) -> CorrelationData:
    try:
        return CorrelationData(value.decode())
    except UnicodeDecodeError:
        return CorrelationData(base64=b64encode(value).decode("ascii"))


def searched_shown(searched: Searched | None) -> SearchedShown | None:
    """Return how far a look-up went."""
    if searched is None:
        return None
    until = None if searched.until_ms is None else time_shape(searched.until_ms)
    return SearchedShown(searched.topics, searched.messages, searched.bytes, until, searched.is_complete)


def groups_shown(facts: JourneyFacts, places: Sequence[Place], hidden: frozenset[str]) -> list[GroupAtPlace]:
    """Return the state of each group at each place of the message."""
    return [
        GroupAtPlace(
            split_name(each.consumer.group)[1],
            place_shown(each.place),
            STATES[each.consumer.state],
            each.consumer.attempts,
        )
        for each in facts.readings
        if each.place in places and each.consumer.group not in hidden
    ]


def storage_shown(facts: JourneyFacts, family: Sequence[StoredMessage]) -> list[StorageShown]:
    """Return where each record is now."""
    found = []
    for message in family:
        place = (message.topic, message.queue_id, message.queue_offset)
        storage, tier = facts.storages.get(message.commit_log_offset), facts.tiering.get(place)
        if storage is not None:
            found.append(
                StorageShown(
                    place_shown(place),
                    str(message.commit_log_offset),
                    storage.broker or None,
                    str(storage.epoch) if storage.epoch else None,
                    list(storage.holders),
                    list(storage.lacking),
                    tier.table if tier is not None and tier.is_uploaded else None,
                    storage.problem or None,
                )
            )
    return found
