"""Backlog: the events that wait while nothing may be sent to a sink: it is suspended, or has not consented.

They wait in the subscription's feed, up to a limit. Above it the oldest become dead letters, so they can still be read
and sent again. Every gateway keeps to the limit: places decide which events go, so none goes for two gateways' sake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from entrepot.domain.definitions.consumer_group import QueueProgress
from entrepot.domain.errors import NOT_THERE, EntrepotError
from entrepot.domain.message import place_of_message
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from entrepot.gateway.events.subscriptions.record import Subscription
from entrepot.gateway.events.webhooks.delivery_context import PART, DeliveryContext
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.ticket import Ticket

log = structlog.get_logger(__name__)


class Backlog:
    """The limit of one subscription's waiting events. `is_held`: True while nothing may be sent."""

    def __init__(self, context: DeliveryContext, leased: LeasedConsumer, is_held: Callable[[], bool]) -> None:
        self._context, self._leased, self._is_held = context, leased, is_held

    async def keep_to_limit(self, subscription: Subscription) -> None:
        """Make dead letters of the oldest events above the limit; while the store is away, of none."""
        try:
            progress = await feed_progress(self._context.store, subscription)
            kept_from = oldest_kept(progress, self._context.settings.max_waiting_events)
            while kept_from and await self._bury_before(kept_from):
                pass
        except EntrepotError as refusal:
            if refusal.code not in NOT_THERE:
                log.warning("waiting events cannot be counted now", seldom="waiting", problem=refusal.message)

    async def _bury_before(self, kept_from: dict[int, int]) -> bool:
        """Pop once; return True if another pop may find more of what is too old."""
        leased = self._leased
        tickets = await leased.ask(PopRequest(leased.topic, leased.group, MAX_POP_MESSAGES))
        held = self._is_held()
        old = [each for each in tickets if held and _is_before(each, kept_from)]
        if old:
            most = self._context.settings.max_waiting_events
            why = f"over the limit of {most} waiting events"
            place = place_of_message(old[0].message)
            leased.reject(old, why)
            self._context.counters.dead_letters += len(old)
            self._context.incidents.note(PART, Outcome.DEAD_LETTERED, why, place=place, count=len(old))
        leased.release(tickets, suspend=True)  # what is still open
        await leased.settle()
        return bool(old)


def _is_before(ticket: Ticket, kept_from: dict[int, int]) -> bool:
    message = ticket.message
    return message.queue_offset < kept_from.get(message.queue_id, 0)


def oldest_kept(progress: Sequence[QueueProgress], most: int) -> dict[int, int]:
    """Return by queue the first offset to keep, where that is not all: at most `most` messages over all queues. The
    longest queues (there is one for each broker) give theirs first."""
    left, queues = most, len(progress)
    for lag in sorted(each.lag for each in progress):
        share = left // queues
        if lag > share:
            return {each.queue_id: each.max_offset - share for each in progress if each.lag > share}
        left, queues = left - lag, queues - 1
    return {}


async def feed_progress(store: Store, subscription: Subscription) -> list[QueueProgress]:
    """Return the progress of deliveries on each queue of the feed, queues included that nothing was popped from.
    Raises TOPIC_NOT_FOUND, CONSUMER_GROUP_NOT_FOUND, UNAVAILABLE."""
    status = await store.topology.group_status(subscription.group)
    return [
        *(each for each in status.progress if each.topic == subscription.feed),
        *await unread(store, subscription.feed, status.progress),
    ]


async def unread(store: Store, topic: str, progress: Sequence[QueueProgress]) -> list[QueueProgress]:
    """Return the queues of a topic that a group which reads from the beginning has not read yet: all of them waits.
    Raises TOPIC_NOT_FOUND, UNAVAILABLE."""
    known = {each.queue_id for each in progress if each.topic == topic}
    return [
        QueueProgress(topic, each.queue_id, each.first, each.max_offset, 0, each.max_offset - each.first)
        for each in await store.messages.bounds(topic)
        if each.queue_id not in known
    ]
