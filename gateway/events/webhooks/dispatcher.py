"""Dispatcher: each message of one topic is matched once against all subscriptions, and put into the feeds that match.

A popped message is matched through the index and appended once with an entry in each feed (store once, refer
many). It is acknowledged when that is durable. If a gateway dies in between, another one does it again: a duplicate,
never a loss. The publisher does not wait for this; a message that matches nothing costs an acknowledgement.

The topic's record is read before a batch is matched: a subscription that was confirmed before a message was stored is
known here before that message is matched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.cesql.value import Value
from entrepot.domain.message import Message, StoredMessage, SystemProperty, place_of_message
from entrepot.domain.names import split_name
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from entrepot.domain.routing.queue_selector import RoundRobin, queue_for_key
from entrepot.gateway.events.subscriptions.record import Subscription
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.messaging.appending import append_and_wait
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.odd_messages import set_aside
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.protocols.cloudevents.event import CloudEvent, ExtensionType
from entrepot.protocols.cloudevents.mapping import PARTITION_KEY, to_event, to_message

WAIT_MS: Final = 20_000
PAUSE_SECONDS: Final = 0.3
"""Pause of a dispatcher after a fault of its own, in seconds."""
RELEASE_MS: Final = 1_000
"""Pause before the next try of a message whose feeds could not take it, in milliseconds."""
MAX_FEEDS: Final = 1_000
"""Feeds of one record; a message for more is stored again for each further so many."""
PART: Final = "webhook dispatch"
"""The part of incidents of dispatchers."""

log = structlog.get_logger(__name__)


class Matching:
    """Matching of messages to feeds, by the index of their topic."""

    def __init__(self, subscriptions: Subscriptions, incidents: Incidents, topic: str, group: str) -> None:
        self._subscriptions, self._incidents = subscriptions, incidents
        self._topic, self._group = topic, group

    async def renew(self) -> bool:
        """Catch up with the store; False if another group dispatches the topic by now, or none."""
        record = await self._subscriptions.current(self._topic)
        return record is not None and record.group == self._group

    @property
    def is_current(self) -> bool:
        """True if this group dispatches the topic, as far as this gateway knows."""
        return self._subscriptions.dispatch_group(self._topic) == self._group

    def of(self, message: StoredMessage, attributes: dict[str, Value]) -> list[Subscription]:
        subscribed = self._subscriptions.by_topic.get(self._topic)
        if subscribed is None:
            return []
        try:
            found = [subscribed.subscriptions[key] for key in subscribed.index.match(attributes)]
        except Exception:  # a fault of our own in one filter must not hurt the other subscriptions
            log.exception("an event is matched one subscription at a time", topic=self._topic)
            found = [each for each in subscribed.subscriptions.values() if self._wants(each, message, attributes)]
        return [each for each in found if message.queue_offset >= each.begins_at(message.queue_id)]

    def _wants(self, subscription: Subscription, message: StoredMessage, attributes: dict[str, Value]) -> bool:
        try:
            return subscription.filters.matches(attributes)
        except Exception as fault:  # noqa: BLE001 - as above: that subscription does not get the event
            reason = f"a filter failed: {type(fault).__name__}: {fault}"
            place = place_of_message(message)
            self._incidents.note(PART, Outcome.PASSED_OVER, reason, place=place, client=subscription.key, fault=fault)
            return False


class CatchingUp(Matching):
    """Matching for one subscription that starts in the past, of the messages from before it."""

    def __init__(self, subscriptions: Subscriptions, incidents: Incidents, subscription: Subscription) -> None:
        super().__init__(subscriptions, incidents, subscription.topic, subscription.catch_up_group)
        self._subscription = subscription

    async def renew(self) -> bool:
        return True

    @property
    def is_current(self) -> bool:
        return self._subscriptions.of_key(self._subscription.key) is not None

    def of(self, message: StoredMessage, attributes: dict[str, Value]) -> list[Subscription]:
        known = self._subscriptions.of_key(self._subscription.key)
        if known is None or message.queue_offset >= self._subscription.begins_at(message.queue_id):
            return []
        return [known] if self._wants(known, message, attributes) else []


class Dispatcher:
    """One group's consumer of one topic."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        topic: str,
        group: str,
        matching: Matching,
        default_type: str,
        incidents: Incidents,
    ) -> None:
        self._store, self.topic, self.group = store, topic, group
        self._incidents = incidents
        self.leased = LeasedConsumer(store, clock, topic, group)
        self._matching = matching
        self._default_type = default_type
        self._turn = RoundRobin()
        self.dispatched = 0

    async def run(self) -> None:
        """Run until cancelled, or until another group dispatches the topic. Raises TOPIC_NOT_FOUND once it is gone."""
        while True:
            try:
                if await self.step(WAIT_MS) is None:
                    return
            except EntrepotError as refusal:
                await self.leased.refused(refusal)
            except Exception as fault:  # noqa: BLE001 - a fault of our own: the topic's other events go on
                background().failed("webhook dispatch", fault)
                await asyncio.sleep(PAUSE_SECONDS)
            await asyncio.sleep(0)

    async def step(self, wait_ms: int) -> int | None:
        """Pop once and dispatch; return the number of messages, or None where another group dispatches now."""
        if self._store.topology.topic(self.topic) is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {self.topic!r}")
        if not self._matching.is_current:
            return None  # a pop would make the group again
        tickets = await self.leased.pop(PopRequest(self.topic, self.group, MAX_POP_MESSAGES, wait_ms))
        try:
            is_wanted = await self._matching.renew()
            if tickets and is_wanted:
                await self._dispatch(tickets)
        except BaseException:
            self.leased.release(tickets, suspend=True)
            raise
        self.dispatched += sum(ticket.is_open for ticket in tickets)
        self.leased.acknowledge(tickets)
        await self.leased.settle()
        return len(tickets) if is_wanted else None

    async def _dispatch(self, tickets: Sequence[Ticket]) -> None:
        """Put each message into its feeds, and release those that failed."""
        messages: list[Message] = []
        sources: list[Ticket] = []
        for ticket in tickets:
            try:
                made = self._for_feeds(ticket.message)
            except Exception as fault:  # noqa: BLE001 - a fault of our own with this message must not hurt the others
                set_aside(self._incidents, PART, ticket, fault)
                continue
            messages += made
            sources += [ticket] * len(made)
        if not messages:
            return
        try:
            outcomes = await append_and_wait(self._store.messages, messages)
        except EntrepotError:
            raise
        except Exception:  # noqa: BLE001 - that of the odd ones is noted there
            outcomes = [await self._appended_alone(*each) for each in zip(sources, messages, strict=True)]
        for ticket, message, refusal in zip(sources, messages, outcomes, strict=True):
            if refusal is not None and not await self._dispatched_singly(message):
                log.warning("a message cannot be dispatched now", topic=self.topic, problem=refusal.message)
                self.leased.release((ticket,), RELEASE_MS, suspend=True)

    async def _appended_alone(self, ticket: Ticket, message: Message) -> EntrepotError | None:
        """Return the outcome of one of several that could not be appended together; an odd one is set aside."""
        if not ticket.is_open:
            return None
        try:
            [refusal] = await append_and_wait(self._store.messages, [message])
        except EntrepotError as failure:
            return failure
        except Exception as fault:  # noqa: BLE001 - noted with its trace
            set_aside(self._incidents, PART, ticket, fault)
            return None
        return refusal

    def _for_feeds(self, stored: StoredMessage) -> list[Message]:
        """Return the records that put a message into the matching feeds."""
        event = to_event(stored, split_name(self.topic)[0], self._default_type)
        wanted = self._matching.of(stored, typed_attributes(event))
        parts = (wanted[start : start + MAX_FEEDS] for start in range(0, len(wanted), MAX_FEEDS))
        return [made for part in parts if (made := self._made(stored, event, part)) is not None]

    def _made(self, stored: StoredMessage, event: CloudEvent, wanted: Sequence[Subscription]) -> Message | None:
        """Return the event as a message of the feeds, with every attribute written out to stay the same."""
        message = to_message(event, stored.topic, stored.sub_topic or stored.topic)
        message.message_id, message.born_time_ms = stored.message_id, stored.born_time_ms
        message.qos, message.tag = stored.qos, stored.tag
        message.message_group = stored.message_group or event.attributes.get(PARTITION_KEY, "")
        kept = (SystemProperty.EXPIRES_AT_MS, SystemProperty.PROTOCOL)
        message.system = {
            **message.system,
            **{name: stored.system[name] for name in kept if name in stored.system},
            SystemProperty.FED_FROM: f"{stored.queue_id} {stored.queue_offset} {stored.topic}",
        }
        feeds = [place for each in wanted if (place := self._place(each, message.message_group)) is not None]
        if not feeds:
            return None
        (message.topic, message.queue_id), *further = feeds
        message.further_queues = tuple(further)
        return message

    def _place(self, subscription: Subscription, key: str) -> tuple[str, int] | None:
        topic = self._store.topology.topic(subscription.feed)
        if topic is None:
            return None  # just deleted
        queues = self._store.topology.queues(topic)
        if subscription.record.is_ordered and key:
            return subscription.feed, queue_for_key(key, queues.writable)
        return subscription.feed, self._turn.queue(queues.preferred)

    async def _dispatched_singly(self, message: Message) -> bool:
        """Append for each feed alone, since one of several may be gone; feeds that are gone are ignored."""
        places = [(message.topic, message.queue_id), *message.further_queues]
        for topic, queue_id in places:
            message.topic, message.queue_id, message.further_queues = topic, queue_id, ()
            [refusal] = await append_and_wait(self._store.messages, [message])
            if refusal is not None and refusal.code is not Code.TOPIC_NOT_FOUND:
                return False
        return True


def typed_attributes(event: CloudEvent) -> dict[str, Value]:
    """The attributes as filters see them: with Boolean and Integer extensions typed."""
    attributes: dict[str, Value] = dict(event.attributes)
    for name, kind in event.typed_extensions.items():
        text = event.attributes[name]
        attributes[name] = int(text) if kind is ExtensionType.INTEGER else text == "true"
    return attributes
