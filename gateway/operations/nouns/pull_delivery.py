"""Pull delivery: receive, acknowledge, release, reject, renewLock, by the paths of Event Grid Namespaces.

A topic is read by its name, and a group is its subscription.  Lock tokens are the store's receipt handles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import check_group_name, check_topic_name
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest
from entrepot.gateway.messaging.provenance import consumer_at
from entrepot.gateway.messaging.release import release
from entrepot.gateway.operations.nouns.event_filters import CesqlAsked, FiltersAsked, filters_in
from entrepot.gateway.operations.nouns.event_schema import EVENT, EVENT_REFERENCE
from entrepot.gateway.operations.nouns.filtered_pop import pop_wanted
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.change_names import NO_CHANGE
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.refusals import REFUSAL, RefusalShown
from entrepot.gateway.operations.row.rights import consuming
from entrepot.gateway.operations.row.shapes import Body, GroupName, Like, Part, Query, Raw, Shown, TopicName, shown_as
from entrepot.protocols.cloudevents.json_format import encode_event
from entrepot.protocols.cloudevents.mapping import to_event
from entrepot.protocols.cloudevents.recorded import event_json_of

if TYPE_CHECKING:
    from entrepot.domain.delivery import Delivery
    from entrepot.domain.ports import Store
    from entrepot.gateway.messaging.incidents import Incidents
    from entrepot.gateway.messaging.send import Sender
    from entrepot.gateway.messaging.topology import Topology
    from entrepot.gateway.settings.listeners import GroupsSettings, HttpSettings

PART: Final = "http receive"
MAX_LOCK_TOKENS: Final = 1000
DEFAULT_WAIT_SECONDS: Final = 60.0
LONGEST_DELAY_SECONDS: Final = 1_000_000_000
"""Longest delay of a release, in seconds, over thirty years: longer ones are cut to it."""
TOKEN: Final = "AQAtMDE5QUYyQzRBNDhEMTU0OUJBNEYxRkMx"

Outcomes = Sequence[EntrepotError | None]
Settle = Callable[[str, str, list[str]], Awaitable[Outcomes]]


# -- what goes out -----------------------------------------------------------------------------------------------------


class BrokerProperties(Part, frozen=True):
    lock_token: str
    delivery_count: int


class Received(Part, frozen=True):
    broker_properties: BrokerProperties
    event: Annotated[Any, EVENT_REFERENCE]


class ReceiveResultShown(Shown, frozen=True):
    """Events that are locked for the group"""

    value: list[Received]


class FailedToken(Part, frozen=True):
    lock_token: str
    error: RefusalShown


class SettleResultShown(Shown, frozen=True):
    """The outcome for each lock token"""

    succeeded_lock_tokens: list[str]
    failed_lock_tokens: list[FailedToken]


shown_as(ReceiveResultShown([Received(BrokerProperties(TOKEN, 1), EVENT)]))
shown_as(SettleResultShown([TOKEN], [FailedToken(TOKEN, REFUSAL)]))
ReceiveResult = Annotated[Raw, Like(ReceiveResultShown)]
"""Joined from encoded events, which are not decoded."""


# -- what comes in -----------------------------------------------------------------------------------------------------


class ReceiveAsked(Query, frozen=True):
    max_events: Annotated[int, Meta(ge=1, le=MAX_POP_MESSAGES)] = 1
    max_wait_time: Annotated[
        float | None,
        Like(float),
        Meta(
            extra_json_schema={
                "minimum": 0,
                "default": DEFAULT_WAIT_SECONDS,
                "description": "Longest wait, in seconds, at most the setting `http.max_wait_seconds`",
            }
        ),
    ] = None
    filters: FiltersAsked = None
    cesql: CesqlAsked = None
    create: Annotated[bool, Meta(description="Create a missing topic or group")] = True


class LockTokens(Body, forbid_unknown_fields=False, frozen=True):
    """Lock tokens of received events."""

    lock_tokens: Annotated[list[str], Meta(min_length=1, max_length=MAX_LOCK_TOKENS)]


class ReleaseAsked(Query, frozen=True):
    release_delay_in_seconds: Annotated[float, Meta(ge=0)] = 0


# -- the operations ----------------------------------------------------------------------------------------------------

PULL_DELIVERY: Final = Noun(
    "pull delivery", "/topics/{topic}/eventsubscriptions/{group}", is_in_namespaces=True, prefix=""
)
_CONSUMING: Final = consuming("topic", "group")
_settling: Final = partial(
    PULL_DELIVERY.post,
    right=_CONSUMING,
    change=NO_CHANGE,
    outcome="The outcome for each lock token, which is durable",
    example={"lockTokens": [TOKEN]},
)


class PullDelivery:
    """The operations of pull delivery."""

    def __init__(
        self, store: Store, topology: Topology, groups: GroupsSettings, sender: Sender, settings: HttpSettings
    ) -> None:
        self._store, self._topology, self._groups, self._sender = store, topology, groups, sender
        self._longest_wait, self._event_type = settings.max_wait_seconds, settings.event_type

    @PULL_DELIVERY.post(
        ":receive",
        "receiveCloudEvents",
        "Receive events, locked until they are settled or expire",
        _CONSUMING,
        change=NO_CHANGE,
        outcome="The events, or none when the time was over",
    )
    async def receive(self, topic: TopicName, group: GroupName, query: ReceiveAsked, asked: Asked) -> ReceiveResult:
        check_group_name(asked.plain["group"])
        wait_seconds = query.max_wait_time
        if wait_seconds is None:
            wait_seconds = min(DEFAULT_WAIT_SECONDS, self._longest_wait)
        elif not 0 <= wait_seconds <= self._longest_wait:
            told = "greater than or equal to 0" if wait_seconds < 0 else f"less than or equal to {self._longest_wait:g}"
            raise bad_request(f"maxWaitTime: Input should be {told}")
        if not query.create:
            _check_both_are_there(self._store, topic, group)
        await ensure_both(self._store, self._topology, self._groups, topic, group)
        who = f"HTTP client {asked.principal.name or 'without a name'} from {asked.principal.source}"
        consumer = consumer_at(who, self._sender.provenance.gateway)
        pop = PopRequest(topic, group, query.max_events, int(wait_seconds * 1000), consumer=consumer)
        filters = filters_in(query.filters, query.cesql)
        popping: Awaitable[Sequence[Delivery]]
        if filters.filters:
            popping = pop_wanted(self._store, pop, filters, self._event_type)
        else:
            popping = self._store.consumption.pop(pop)
        popped = await self._popped(asked, pop, popping)
        self._sender.traffic.count_out(topic, group, popped)
        return Raw(_received(self._sender.incidents, popped, self._event_type), "application/json")

    async def _popped(
        self, asked: Asked, request: PopRequest, work: Awaitable[Sequence[Delivery]]
    ) -> Sequence[Delivery]:
        """Pop, but claim nothing for a client that has disconnected meanwhile."""
        pop = asyncio.ensure_future(work)
        try:
            return await asked.while_connected(pop)
        except BaseException:  # cancelled, too: nobody gets them
            pop.add_done_callback(lambda done: self._take_back(request, done))
            raise

    def _take_back(self, request: PopRequest, pop: asyncio.Future[Sequence[Delivery]]) -> None:
        """Release messages popped just as the client disconnected."""
        if not pop.cancelled() and pop.exception() is None:
            release(self._store, request.topic, request.group, pop.result())

    @_settling(":acknowledge", "acknowledgeCloudEvents", "Acknowledge events for the group")
    async def acknowledge(
        self, topic: TopicName, group: GroupName, body: LockTokens, asked: Asked
    ) -> SettleResultShown:
        return await _settled(topic, group, body, asked, self._store.consumption.acknowledge)

    @_settling(":release", "releaseCloudEvents", "Release events to other consumers, after a delay")
    async def release(
        self, topic: TopicName, group: GroupName, query: ReleaseAsked, body: LockTokens, asked: Asked
    ) -> SettleResultShown:
        delay_ms = int(min(query.release_delay_in_seconds, LONGEST_DELAY_SECONDS) * 1000)
        change = self._store.consumption.change_invisible_duration

        async def release(topic: str, group: str, tokens: list[str]) -> Outcomes:
            return await change(topic, group, tokens, delay_ms, release=True)

        return await _settled(topic, group, body, asked, release)

    @_settling(":reject", "rejectCloudEvents", "Reject events to the group's dead-letter topic")
    async def reject(self, topic: TopicName, group: GroupName, body: LockTokens, asked: Asked) -> SettleResultShown:
        return await _settled(topic, group, body, asked, self._store.consumption.reject)

    @_settling(":renewLock", "renewCloudEventLocks", "Renew the locks for another invisible duration")
    async def renew_lock(self, topic: TopicName, group: GroupName, body: LockTokens, asked: Asked) -> SettleResultShown:
        change = self._store.consumption.change_invisible_duration

        async def renew(topic: str, group: str, tokens: list[str]) -> Outcomes:
            return await change(topic, group, tokens, None, release=False)

        return await _settled(topic, group, body, asked, renew)


async def _settled(topic: str, group: str, body: LockTokens, asked: Asked, settle: Settle) -> SettleResultShown:
    """Settle the tokens of the body; each has its own outcome."""
    check_topic_name(asked.plain["topic"], system_allowed=True)
    check_group_name(asked.plain["group"])
    outcomes = await settle(topic, group, body.lock_tokens)
    succeeded, failed = list[str](), list[FailedToken]()
    for token, refusal in zip(body.lock_tokens, outcomes, strict=True):
        if refusal is None:
            succeeded.append(token)
        else:
            failed.append(FailedToken(token, RefusalShown(refusal.code.name, refusal.message)))
    return SettleResultShown(succeeded, failed)


def _check_both_are_there(store: Store, topic: str, group: str) -> None:
    """Raise TOPIC_NOT_FOUND, CONSUMER_GROUP_NOT_FOUND: a typo creates neither."""
    if store.topology.topic(topic) is None:
        raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic!r}")
    if store.topology.group(group) is None:
        raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no consumer group {group!r}")


async def ensure_both(store: Store, topology: Topology, groups: GroupsSettings, topic: str, group: str) -> None:
    """Create the topic and the group where the settings allow it.  Raises otherwise."""
    if store.topology.topic(topic) is None:
        await topology.ensure_readable(topic)
    if store.topology.group(group) is None:
        groups.by_use(group)  # the store creates it with the first pop


def _received(incidents: Incidents, deliveries: Sequence[Delivery], default_type: str) -> bytes:
    """Event Grid's ReceiveResult, joined from encoded events; lock tokens need no escapes."""

    def encode(delivery: Delivery) -> bytes:
        record = delivery.record
        event = None if record is None else event_json_of(record)
        if event is None:
            event = encode_event(to_event(delivery.message, default_type=default_type, unsaid=incidents.unsaid))
        handle = delivery.receipt_handle.encode("ascii")
        return b'{"brokerProperties":{"lockToken":"%b","deliveryCount":%d},"event":%b}' % (
            handle,
            delivery.attempt,
            event,
        )

    value = incidents.encoded(PART, deliveries, encode, lambda delivery: delivery.message)
    return b'{"value":[%b]}' % b",".join(value)
