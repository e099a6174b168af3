"""Shapes: a journey as JSON.  Offsets are texts: JavaScript's numbers end at 2^53."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from entrepot.domain.journey.facts import JourneyFacts
from entrepot.domain.journey.model import JourneyHop, Lane
from entrepot.domain.message import Place, StoredMessage
from entrepot.domain.names import split_name
from entrepot.gateway.http.admin.journeys.looking_up import Searched, amqp_id, correlation_data
from entrepot.gateway.operations.ids import id_text
from entrepot.gateway.operations.messages import STATES
from entrepot.gateway.operations.times import time_shape
from entrepot.protocols.cloudevents.mapping import to_event


def hop_shape(hop: JourneyHop) -> dict[str, Any]:
    """Return a hop as JSON."""
    return {
        "kind": hop.kind.value,
        "isKnown": hop.is_known,
        "time": None if hop.time_ms is None else time_shape(hop.time_ms),
        "lane": hop.lane,
        "door": hop.door or None,
        "client": hop.client or None,
        "gateway": hop.gateway or None,
        "broker": hop.broker or None,
        "epoch": str(hop.epoch) if hop.epoch else None,
        "place": place_shape((hop.topic, hop.queue_id, hop.queue_offset)) if hop.topic else None,
        "group": split_name(hop.group)[1] if hop.group else None,
        "attempt": hop.attempt or None,
        "outcome": hop.outcome or None,
        "detail": hop.detail or None,
    }


def lane_shape(lane: Lane) -> dict[str, Any]:
    """Return a lane as JSON."""
    return {"id": lane.id, "kind": lane.kind.value, "name": lane.name, "detail": lane.detail or None}


def place_shape(place: Place) -> dict[str, Any]:
    """Return a place in the log as JSON."""
    namespace, topic = split_name(place[0])
    return {"topic": topic, "namespace": namespace, "queueId": place[1], "offset": str(place[2])}


def message_shape(message: StoredMessage) -> dict[str, Any]:
    """Return a message without its content; `at` names it among others of its id."""
    return {
        "at": str(message.commit_log_offset),
        "id": id_text(message.message_id),
        "place": place_shape((message.topic, message.queue_id, message.queue_offset)),
        "subTopic": message.sub_topic,
        "tag": message.tag,
        "messageGroup": message.message_group,
        "qos": message.qos,
        "bornTime": time_shape(message.born_time_ms) if message.born_time_ms else None,
        "storeTime": time_shape(message.store_time_ms),
        "size": len(message.body),
    }


def names_shape(message: StoredMessage, default_type: str) -> dict[str, Any]:
    """Return all names of a message."""
    attributes = to_event(message, split_name(message.topic)[0], default_type).attributes
    correlation = correlation_data(message)
    return {
        "event": {"source": attributes.get("source"), "id": attributes.get("id"), "type": attributes.get("type")},
        "keys": list(message.keys),
        "correlationData": None if correlation is None else _text_or_base64(correlation),
        "amqpMessageId": amqp_id(message),
        "traceparent": attributes.get("traceparent"),
    }


def _text_or_base64(value: bytes) -> dict[str, str]:
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode("ascii")}


def searched_shape(searched: Searched | None) -> dict[str, Any] | None:
    """Return how far a look-up went."""
    if searched is None:
        return None
    return {
        "topics": searched.topics,
        "messages": searched.messages,
        "bytes": searched.bytes,
        "until": None if searched.until_ms is None else time_shape(searched.until_ms),
        "isComplete": searched.is_complete,
    }


def groups_shape(facts: JourneyFacts, places: Sequence[Place], hidden: frozenset[str]) -> list[dict[str, Any]]:
    """Return the state of each group at each place of the message."""
    return [
        {
            "group": split_name(each.consumer.group)[1],
            "place": place_shape(each.place),
            "state": STATES[each.consumer.state],
            "attempts": each.consumer.attempts,
        }
        for each in facts.readings
        if each.place in places and each.consumer.group not in hidden
    ]


def storage_shape(facts: JourneyFacts, family: Sequence[StoredMessage]) -> list[dict[str, Any]]:
    """Return where each record is now."""
    found = []
    for message in family:
        storage = facts.storages.get(message.commit_log_offset)
        tier = facts.tiering.get((message.topic, message.queue_id, message.queue_offset))
        if storage is not None:
            found.append(
                {
                    "place": place_shape((message.topic, message.queue_id, message.queue_offset)),
                    "logOffset": str(message.commit_log_offset),
                    "broker": storage.broker or None,
                    "epoch": str(storage.epoch) if storage.epoch else None,
                    "replicas": list(storage.holders),
                    "lacking": list(storage.lacking),
                    "table": tier.table if tier is not None and tier.is_uploaded else None,
                    "problem": storage.problem or None,
                }
            )
    return found
