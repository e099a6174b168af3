"""The journey of a message: one name to every hop that is known, and what is not known."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import Query, Request, Response

from entrepot.domain.access.model import Action, Principal, ResourceType, access_name, whole_topic
from entrepot.domain.journey.facts import JourneyFacts
from entrepot.domain.journey.lineage import descendants, is_copy, places_of, roots
from entrepot.domain.journey.model import JourneyHop
from entrepot.domain.journey.telling import journey_of
from entrepot.domain.message import StoredMessage
from entrepot.domain.names import (
    NAMESPACE_SEPARATOR,
    dead_letter_group,
    is_hidden_topic,
    is_retry_topic,
    qualified,
    retry_group,
)
from entrepot.gateway.http.access import PROTOCOL
from entrepot.gateway.http.admin.journeys.gathering import Gathered, Gathering, gone_message
from entrepot.gateway.http.admin.journeys.looking_up import (
    MAX_FOUND,
    MAX_TOPICS,
    SCANNED,
    By,
    Searched,
    Wanted,
    looked_up,
)
from entrepot.gateway.http.admin.journeys.shapes import (
    groups_shape,
    hop_shape,
    lane_shape,
    message_shape,
    names_shape,
    searched_shape,
    storage_shape,
)
from entrepot.gateway.http.admin.journeys.unsaid import unsaid_shape
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import namespace_of, topic_name
from entrepot.gateway.http.rights import DEFAULT_CLUSTER, PER_TOPIC, contents_in_query
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.ids import ids_of
from entrepot.gateway.operations.operation import PREFIX
from entrepot.gateway.operations.problem import MissingError, bad_request
from entrepot.gateway.operations.times import epoch_ms_of
from entrepot.gateway.security.security import refusal_of

MAX_ID_LENGTH: Final = 1024
"""Longest name that is looked up, in characters."""
MAX_SOURCE_LENGTH: Final = 4096
MAX_PLACE_DIGITS: Final = 19
HIDDEN: Final = "it takes GET or SUB on the group or the topic that they are about"
SUMMARY: Final = "Get the journey of a message: every hop that is known"
Names: TypeAlias = Literal["messageId", "key", "event", "correlationData", "amqpMessageId"]
AT_ONCE: Final = 4
"""Journeys that one gateway looks up at the same time; further ones wait."""


def journey_routes(context: HttpContext) -> Routes:
    """The routes of journeys."""
    routes = Routes(["messages"], PREFIX)
    room = asyncio.Semaphore(AT_ONCE)

    @routes.plain.get("/journeys", PER_TOPIC, summary=SUMMARY)
    @routes.of_namespaces.get("/journeys", contents_in_query, summary=SUMMARY)
    async def get_journey(
        request: Request,
        id: str = Query(min_length=1, max_length=MAX_ID_LENGTH, description="The name"),  # noqa: A002 - the API's word
        by: Annotated[Names, Query(description="What the name is")] = "messageId",
        topic: str | None = Query(
            None, min_length=1, description="Topic of the message; needed for correlationData and amqpMessageId"
        ),
        source: str | None = Query(None, min_length=1, max_length=MAX_SOURCE_LENGTH, description="Source of an event"),
        from_time: str | None = Query(
            None, alias="from", description="Stored at or after: RFC 3339 or epoch milliseconds"
        ),
        to_time: str | None = Query(None, alias="to", description="Stored before: likewise"),
        at: str | None = Query(
            None, min_length=1, max_length=MAX_PLACE_DIGITS, description="One of several candidates, by its `at`"
        ),
    ) -> Response:
        sight, kind = Sight(context, request.state.principal), By(by)
        named = None if topic is None else topic_name(context.store, request, topic)
        wanted = Wanted(
            kind,
            id,
            _topics(context, request, sight, kind, named),
            source or "",
            None if from_time is None else epoch_ms_of(from_time, "from"),
            None if to_time is None else epoch_ms_of(to_time, "to"),
        )
        async with room:
            return json_answer(await _journey(context, sight, wanted, named, at))

    return routes


class Sight:
    """Rights of one principal to see topics and groups."""

    def __init__(self, context: HttpContext, principal: Principal) -> None:
        self._context, self._principal = context, principal

    def _may(self, action: Action, kind: ResourceType, name: str) -> bool:
        return self._context.security.allows(self._principal, action, kind, name, PROTOCOL)

    def reads(self, topic: str) -> bool:
        """True if it may read all messages of a topic."""
        return self._may(Action.SUB, ResourceType.TOPIC, whole_topic(topic))

    def reads_of(self, topic: str) -> bool:
        """True if it may read the messages of a topic; those of dead letters or retries go by SUB on the group."""
        owner = retry_group(topic) if is_retry_topic(topic) else dead_letter_group(topic)
        if owner is not None:
            return self._may(Action.SUB, ResourceType.GROUP, access_name(owner))
        return self.reads(topic)

    @property
    def sees_cluster(self) -> bool:
        """True if it may list brokers."""
        return self._may(Action.LIST, ResourceType.CLUSTER, self._context.settings.cluster.name or DEFAULT_CLUSTER)

    def knows_group(self, group: str) -> bool:
        """True if it may know of a group."""
        name = access_name(group)
        return self._may(Action.GET, ResourceType.GROUP, name) or self._may(Action.SUB, ResourceType.GROUP, name)

    def knows_topic(self, topic: str) -> bool:
        """True if it may know of a topic; that of dead letters or retries goes by its group."""
        owner = retry_group(topic) if is_retry_topic(topic) else dead_letter_group(topic)
        if owner is not None:
            return self.knows_group(owner)
        return self.reads(topic) or self._may(Action.GET, ResourceType.TOPIC, access_name(topic))

    def sees(self, hop: JourneyHop) -> bool:
        """True if it may see a hop."""
        if hop.group and not self.knows_group(hop.group):
            return False
        return not hop.topic or self.knows_topic(hop.topic)


def _topics(context: HttpContext, request: Request, sight: Sight, by: By, named: str | None) -> Sequence[str]:
    """Return the topics to look in.  Raises FORBIDDEN, BAD_REQUEST where they are too many, or none is named."""
    if named is not None:
        if not sight.reads(named):
            raise refusal_of(Action.SUB, ResourceType.TOPIC, whole_topic(named))
        return (named,)
    namespace = namespace_of(context.store, request)
    if by is By.MESSAGE_ID:
        return ()
    if by in SCANNED:
        raise bad_request(f"topic: name one: there is no index of {by.value}, so its newest messages are read")
    found = [
        topic.name
        for topic in context.store.topology.topics()
        if not is_hidden_topic(topic.name) and _is_in(topic.name, namespace) and sight.reads(topic.name)
    ]
    if len(found) > MAX_TOPICS:
        raise bad_request(f"topic: name one: {len(found)} topics are more than the {MAX_TOPICS} that are asked")
    return sorted(found)


def _is_in(topic: str, namespace: str) -> bool:
    prefix = qualified(namespace, "")
    return topic.startswith(prefix) if prefix else NAMESPACE_SEPARATOR not in topic


async def _journey(
    context: HttpContext, sight: Sight, wanted: Wanted, named: str | None, at: str | None
) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    default_type = context.settings.http.event_type
    found = await looked_up(context.store.finder, wanted, default_type, loop.time)
    candidates = _candidates(found.messages, sight, named)
    is_gone = False
    if not candidates and wanted.by is By.MESSAGE_ID and at is None:
        candidates = await _gone(context, sight, wanted.id, named)
        is_gone = bool(candidates)
    chosen = _chosen(candidates, at, wanted, found.searched)
    gathered = await Gathering(context, sees_cluster=sight.sees_cluster).gather(chosen, is_gone=is_gone)
    return {
        "by": wanted.by.value,
        "message": None if is_gone else message_shape(chosen),
        "names": None if is_gone else names_shape(chosen, default_type),
        "unsaid": [] if is_gone else unsaid_shape(chosen, default_type, context.clock.now_ms()),
        "candidates": [message_shape(each) for each in candidates[:MAX_FOUND]] if len(candidates) > 1 else [],
        "searched": searched_shape(found.searched),
        **_told(gathered, sight),
    }


def _candidates(found: Sequence[StoredMessage], sight: Sight, named: str | None) -> list[StoredMessage]:
    """Return the messages of a name that the caller may read: those that a producer sent first, the newest first."""
    readable = [each for each in found if sight.knows_topic(each.topic) and (named is None or _is_at(each, named))]
    own = [each for each in roots(readable) if sight.reads_of(each.topic)]
    return sorted(own, key=lambda each: (is_copy(each), is_hidden_topic(each.topic)))


def _is_at(message: StoredMessage, topic: str) -> bool:
    return any(place[0] == topic for place in places_of(message))


async def _gone(context: HttpContext, sight: Sight, text: str, named: str | None) -> list[StoredMessage]:
    for message_id in ids_of(text):
        message = await gone_message(context.store, message_id)
        if message is not None and sight.reads(message.topic) and named in (None, message.topic):
            return [message]
    return []


def _chosen(
    candidates: Sequence[StoredMessage], at: str | None, wanted: Wanted, searched: Searched | None
) -> StoredMessage:
    """Return the asked candidate, or the newest.  Raises MissingError; a message that may not be read does not
    exist."""
    for each in candidates:
        if at is None or str(each.commit_log_offset) == at:
            return each
    text = f"no message has the {wanted.by.value} {wanted.id[:80]!r}"
    if at is not None and candidates:
        text = f"{text} and lies at {at!r}"
    if searched is not None and not searched.is_complete:
        text = f"{text} among the newest {searched.messages} messages that were read: name a time with from and to"
    raise MissingError("message-not-found", "The message does not exist", text)


def _told(gathered: Gathered, sight: Sight) -> dict[str, Any]:
    facts = gathered.facts
    journey = journey_of(facts)
    seen = [hop for hop in journey.hops if sight.sees(hop)]
    lanes = {hop.lane for hop in seen}
    family = [each for each in _family(facts) if sight.knows_topic(each.topic)]
    places = [place for each in family for place in places_of(each) if sight.knows_topic(place[0])]
    hidden = frozenset(each.consumer.group for each in facts.readings if not sight.knows_group(each.consumer.group))
    return {
        "lanes": [lane_shape(lane) for lane in journey.lanes if lane.id in lanes],
        "hops": [hop_shape(hop) for hop in seen],
        "known": sum(hop.is_known for hop in seen),
        "unknown": sum(not hop.is_known for hop in seen),
        "hidden": {"hops": len(journey.hops) - len(seen), "reason": HIDDEN if len(seen) < len(journey.hops) else None},
        "groups": groups_shape(facts, places, hidden),
        "storage": storage_shape(facts, family),
        "cutCopies": gathered.cut,
        "missing": [{"name": name, "reason": reason} for name, reason in sorted(gathered.missing.items())],
    }


def _family(facts: JourneyFacts) -> list[StoredMessage]:
    return [facts.message, *descendants(facts.message, facts.copies)]
