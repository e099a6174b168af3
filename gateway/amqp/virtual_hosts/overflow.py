"""Overflow: limits of queues by messages or bytes.

A queue that rejects is counted before a publish; one that drops is cut at its head after the durable publish. A full
queue that rejects leaves the message to the other queues of its route, and the publisher gets a refusal. Gateways that
publish to one queue at once may exceed its limit by the messages under way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final, NamedTuple

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest
from entrepot.domain.queues.arguments import Overflow as Policy
from entrepot.gateway.amqp.virtual_hosts.counting import Counting
from entrepot.gateway.amqp.virtual_hosts.dead_letters import DeadLetters
from entrepot.gateway.amqp.virtual_hosts.queue_feeds import QueueFeeds
from entrepot.gateway.amqp.virtual_hosts.routing import places
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.messaging.send import OnSent, Refusals, Sender
from entrepot.gateway.messaging.send_call import Source
from entrepot.protocols.amqp.deaths import DeathReason

DROP_LEASE_MS: Final = 10_000


class Overflow:
    """The limits of all queues."""

    def __init__(self, sender: Sender, counting: Counting, feeds: QueueFeeds, dead_letters: DeadLetters) -> None:
        self._sender, self._counting = sender, counting
        self._feeds, self._dead_letters = feeds, dead_letters

    def admit(
        self, vhost: Vhost, messages: list[Message], on_sent: OnSent, source: Source = None
    ) -> Awaitable[None] | None:
        """Send messages of a source; return an awaitable where a queue among them has a limit."""
        if any(topic in vhost.limited for each in messages for topic, _ in places(each)):
            return self._admit(vhost, messages, on_sent)
        self._sender.send(messages, on_sent, source)
        return None

    async def _admit(self, vhost: Vhost, messages: list[Message], on_sent: OnSent) -> None:
        rejecting = {queue for queue in self._queues(vhost, messages) if _rejects(queue)}
        room = {queue: await self._room(queue) for queue in rejecting}
        taken: list[Message] = []
        outcomes: list[_Outcome] = []
        for message in messages:
            wanted = [vhost.limited[topic] for topic, _ in places(message) if topic in vhost.limited]
            full = [queue for queue in wanted if queue in room and not _has_room(room[queue], message)]
            if full:
                await self._turn_away(full, message)
            is_taken = not full or _leave_out(full, message)
            outcomes.append(_Outcome(is_refused=bool(full), is_taken=is_taken))
            if not is_taken:
                continue
            for queue in wanted:
                if queue in room and queue not in full:
                    room[queue] = (room[queue][0] - 1, room[queue][1] - len(message.body))
            taken.append(message)
        failure, refusals = await self._sent(taken)
        if failure is None and any(each.is_refused for each in outcomes):
            refusals = _told(outcomes, refusals)
        on_sent(failure, refusals)
        for queue in self._queues(vhost, taken):
            await self.cut(queue)

    async def _sent(self, messages: list[Message]) -> tuple[EntrepotError | None, Refusals]:
        if not messages:
            return None, None
        try:
            return None, await self._sender.send_and_wait(messages)
        except EntrepotError as failure:
            return failure, None

    @staticmethod
    def _queues(vhost: Vhost, messages: Sequence[Message]) -> set[Queue]:
        return {vhost.limited[topic] for each in messages for topic, _ in places(each) if topic in vhost.limited}

    async def _turn_away(self, full: Sequence[Queue], message: Message) -> None:
        """Refuse a message, which may become a dead letter of the full queues."""
        for queue in full:
            if queue.declaration.arguments.full_queue is Policy.REJECT_PUBLISH_DLX:
                await self._dead_letters.turn_away(queue, message)

    async def _room(self, queue: Queue) -> tuple[float, float]:
        """Messages, and bytes, that a queue may still take."""
        arguments = queue.declaration.arguments
        ready = await self._counting.ready(queue)
        count = float("inf") if arguments.max_length is None else arguments.max_length - ready
        size = float("inf")
        if arguments.max_length_bytes is not None:
            size = arguments.max_length_bytes - await self._counting.ready_bytes(queue)
        return count, size

    async def cut(self, queue: Queue) -> None:
        """Drop messages beyond the limit from the head, unless the queue rejects."""
        while not _rejects(queue):
            count, size = await self._room(queue)
            if count >= 0 and size >= 0:
                return
            most = min(int(-count) if count < 0 else 1, MAX_POP_MESSAGES)
            leased = self._feeds.of(queue).leased
            tickets = await leased.ask(PopRequest(queue.topic, queue.group, most, 0, DROP_LEASE_MS))
            if not tickets:
                return
            await self._dead_letters.bury(queue, tickets, DeathReason.MAXLEN)
            await leased.settle()


class _Outcome(NamedTuple):
    """The outcome of a message: a full queue may refuse it, and another one take it."""

    is_refused: bool
    is_taken: bool


def _told(outcomes: Sequence[_Outcome], refusals: Refusals) -> Refusals:
    """The refusals of all messages, from those of the messages taken: a full queue alone makes one."""
    left = iter(refusals or ())
    found: list[EntrepotError | None] = []
    for outcome in outcomes:
        refusal = next(left, None) if outcome.is_taken else None
        if refusal is None and outcome.is_refused:
            refusal = EntrepotError(Code.TOO_MANY_REQUESTS, "the queue is full")
        found.append(refusal)
    return found


def _leave_out(full: Sequence[Queue], message: Message) -> bool:
    """Take full queues out of a message's destinations; False if no other is left."""
    topics = {queue.topic for queue in full}
    left = [place for place in places(message) if place[0] not in topics]
    if not left:
        return False
    (message.topic, message.queue_id), *further = left
    message.further_queues = tuple(further)
    return True


def _rejects(queue: Queue) -> bool:
    return queue.declaration.arguments.full_queue is not Policy.DROP_HEAD


def _has_room(room: tuple[float, float], message: Message) -> bool:
    return room[0] >= 1 and room[1] >= len(message.body)
