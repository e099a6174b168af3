"""The journey of a message: one name to every hop that is known, and what is not known.

ADR 57: failures are always kept, and the rest is said to be unknown. Invariant: no hop is shown that the caller's
rights do not allow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from entrepot.domain.access.model import Action, ResourceType, whole_topic
from entrepot.domain.access.model import Request as Need
from entrepot.domain.journey.lineage import descendants, is_copy, places_of, roots
from entrepot.domain.journey.telling import journey_of
from entrepot.domain.names import NAMESPACE_SEPARATOR, is_hidden_topic, qualified
from entrepot.gateway.operations.journey.gathering import Gathering, gone_message
from entrepot.gateway.operations.journey.looking_up import MAX_FOUND, MAX_TOPICS, SCANNED, By, Wanted, looked_up
from entrepot.gateway.operations.journey.shapes import (
    HiddenHops,
    JourneyShown,
    groups_shown,
    hop_shown,
    lane_shown,
    message_shown,
    names_of,
    searched_shown,
    storage_shown,
)
from entrepot.gateway.operations.journey.sight import Sight
from entrepot.gateway.operations.journey.unsaid import unsaid_of
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.gathered import Missing
from entrepot.gateway.operations.row.ids import ids_of
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import MissingError, bad_request
from entrepot.gateway.operations.row.rights import CONTENTS_IN_QUERY, Right
from entrepot.gateway.operations.row.shapes import Query
from entrepot.gateway.operations.row.times import epoch_ms_of
from entrepot.gateway.security.security import refusal_of

if TYPE_CHECKING:
    from entrepot.domain.clock import Clock
    from entrepot.domain.journey.facts import JourneyFacts
    from entrepot.domain.message import StoredMessage
    from entrepot.domain.ports import Store
    from entrepot.gateway.bridge.status import BridgeStatus
    from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
    from entrepot.gateway.operations.journey.gathering import Gathered
    from entrepot.gateway.operations.journey.looking_up import Searched
    from entrepot.gateway.security.security import Security

MAX_ID_LENGTH: Final = 1024
"""Longest name that is looked up, in characters."""
MAX_SOURCE_LENGTH: Final = 4096
MAX_PLACE_DIGITS: Final = 19
HIDDEN: Final = "it takes GET or SUB on the group or the topic that they are about"
AT_ONCE: Final = 4
"""Journeys that one gateway looks up at the same time; further ones wait."""
_Source = Annotated[str, Meta(min_length=1, max_length=MAX_SOURCE_LENGTH)]
_Place = Annotated[str, Meta(min_length=1, max_length=MAX_PLACE_DIGITS)]


class JourneyAsked(Query, frozen=True, kw_only=True):
    id: Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH, description="The name")]
    by: Annotated[
        Literal["messageId", "key", "event", "correlationData", "amqpMessageId"], Meta(description="Kind of the name")
    ] = "messageId"
    topic: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="Topic of the message; needed for correlationData and amqpMessageId"),
    ] = None
    source: Annotated[_Source | None, Meta(description="Source of an event")] = None
    begin: Annotated[str | None, Meta(description="Stored at or after: RFC 3339 or epoch milliseconds")] = (
        msgspec.field(default=None, name="from")
    )
    end: Annotated[str | None, Meta(description="Stored before: likewise")] = msgspec.field(default=None, name="to")
    at: Annotated[_Place | None, Meta(description="One of several candidates, by its `at`")] = None


def _needs(own: Journeys, asked: Asked) -> list[Need]:
    """In a namespace, its contents; else the handler looks at each topic."""
    return CONTENTS_IN_QUERY.needs(own, asked) if "namespace" in asked.plain else []


JOURNEYS: Final = Noun("messages", "/journeys", "journey", is_in_namespaces=True)


class Journeys:
    """The operation of journeys."""

    def __init__(
        self,
        store: Store,
        security: Security,
        subscriptions: Subscriptions,
        bridges: Callable[[], Sequence[BridgeStatus]],
        clock: Clock,
        default_type: str,
    ) -> None:
        """`bridges`: state of each; `default_type`: of events that no producer gave one."""
        self._store, self._security, self._subscriptions = store, security, subscriptions
        self._bridges, self._clock, self._default_type = bridges, clock, default_type
        self._room = asyncio.Semaphore(AT_ONCE)

    @JOURNEYS.get("", "getJourney", "Get the journey of a message: every hop that is known", Right(_needs))
    async def show(self, asked: Asked, query: JourneyAsked) -> JourneyShown:
        sight, by = Sight(self._security, asked.principal, asked.cluster), By(query.by)
        named = None if query.topic is None else asked.topic(query.topic)
        wanted = Wanted(
            by,
            query.id,
            self._topics(asked.namespace, sight, by, named),
            query.source or "",
            None if query.begin is None else epoch_ms_of(query.begin, "from"),
            None if query.end is None else epoch_ms_of(query.end, "to"),
        )
        async with self._room:
            return await self._journey(sight, wanted, named, query.at)

    def _topics(self, namespace: str, sight: Sight, by: By, named: str | None) -> Sequence[str]:
        """Return the topics to look in.  Raises FORBIDDEN, BAD_REQUEST where they are too many, or none is named."""
        if named is not None:
            if not sight.reads(named):
                raise refusal_of(Action.SUB, ResourceType.TOPIC, whole_topic(named))
            return (named,)
        if by is By.MESSAGE_ID:
            return ()
        if by in SCANNED:
            raise bad_request(f"topic: name one: there is no index of {by.value}, so its newest messages are read")
        found = [
            topic.name
            for topic in self._store.topology.topics()
            if not is_hidden_topic(topic.name) and _is_in(topic.name, namespace) and sight.reads(topic.name)
        ]
        if len(found) > MAX_TOPICS:
            raise bad_request(f"topic: name one: {len(found)} topics are more than the {MAX_TOPICS} that are asked")
        return sorted(found)

    async def _journey(self, sight: Sight, wanted: Wanted, named: str | None, at: str | None) -> JourneyShown:
        default_type = self._default_type
        found = await looked_up(self._store.finder, wanted, default_type, asyncio.get_running_loop().time)
        candidates = _candidates(found.messages, sight, named)
        is_gone = False
        if not candidates and wanted.by is By.MESSAGE_ID and at is None:
            candidates = await self._gone(sight, wanted.id, named)
            is_gone = bool(candidates)
        chosen = _chosen(candidates, at, wanted, found.searched)
        gathering = Gathering(self._store, self._subscriptions, self._bridges, sees_cluster=sight.sees_cluster)
        gathered = await gathering.gather(chosen, is_gone=is_gone)
        return JourneyShown(
            by=wanted.by,
            message=None if is_gone else message_shown(chosen),
            names=None if is_gone else names_of(chosen, default_type),
            unsaid=[] if is_gone else unsaid_of(chosen, default_type, self._clock.now_ms()),
            candidates=[message_shown(each) for each in candidates[:MAX_FOUND]] if len(candidates) > 1 else [],
            searched=searched_shown(found.searched),
            **_told(gathered, sight),
        )

    async def _gone(self, sight: Sight, text: str, named: str | None) -> list[StoredMessage]:
        for message_id in ids_of(text):
            message = await gone_message(self._store, message_id)
            if message is not None and sight.reads(message.topic) and named in (None, message.topic):
                return [message]
        return []


def _is_in(topic: str, namespace: str) -> bool:
    prefix = qualified(namespace, "")
    return topic.startswith(prefix) if prefix else NAMESPACE_SEPARATOR not in topic


def _candidates(found: Sequence[StoredMessage], sight: Sight, named: str | None) -> list[StoredMessage]:
    """Return the messages of a name that the caller may read: those that a producer sent first, the newest first."""
    readable = [each for each in found if sight.knows_topic(each.topic) and (named is None or _is_at(each, named))]
    own = [each for each in roots(readable) if sight.reads_of(each.topic)]
    return sorted(own, key=lambda each: (is_copy(each), is_hidden_topic(each.topic)))


def _is_at(message: StoredMessage, topic: str) -> bool:
    return any(place[0] == topic for place in places_of(message))


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
    """Return the fields of what a caller may see of the facts, by name."""
    facts = gathered.facts
    journey = journey_of(facts)
    seen = [hop for hop in journey.hops if sight.sees(hop)]
    lanes = {hop.lane for hop in seen}
    family = [each for each in _family(facts) if sight.knows_topic(each.topic)]
    places = [place for each in family for place in places_of(each) if sight.knows_topic(place[0])]
    hidden = frozenset(each.consumer.group for each in facts.readings if not sight.knows_group(each.consumer.group))
    return {
        "lanes": [lane_shown(lane) for lane in journey.lanes if lane.id in lanes],
        "hops": [hop_shown(hop) for hop in seen],
        "known": sum(hop.is_known for hop in seen),
        "unknown": sum(not hop.is_known for hop in seen),
        "hidden": HiddenHops(len(journey.hops) - len(seen), HIDDEN if len(seen) < len(journey.hops) else None),
        "groups": groups_shown(facts, places, hidden),
        "storage": storage_shown(facts, family),
        "cut_copies": gathered.cut,
        "missing": [Missing(name, reason) for name, reason in sorted(gathered.missing.items())],
    }


def _family(facts: JourneyFacts) -> list[StoredMessage]:
    return [facts.message, *descendants(facts.message, facts.copies)]
