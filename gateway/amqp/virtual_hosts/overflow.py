"""Overflow: limits of queues by messages or bytes.

A queue that rejects is counted before a publish; one that drops is cut at its head after the durable publish. Dead
letters are admitted like publishes. A cut follows other arrivals, too: of messages that consumers gave back, delayed
ones, and those of other protocols. A full queue that rejects leaves the message to the other queues of its route, and
the publisher gets a refusal. Gateways that publish to one queue at once may exceed its limit by the messages under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, NamedTuple

import structlog

from entrepot.domain.errors import NOT_THERE, Code, EntrepotError, raise_if
from entrepot.domain.message import Message
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest
from entrepot.domain.queues.arguments import Overflow as Policy
from entrepot.gateway.amqp.virtual_hosts.counting import Counting
from entrepot.gateway.amqp.virtual_hosts.dead_letters import DeadLetters, Spawn
from entrepot.gateway.amqp.virtual_hosts.queue_feeds import QueueFeeds
from entrepot.gateway.amqp.virtual_hosts.routing import places
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.messaging.send import OnSent, Refusals, Sender
from entrepot.gateway.messaging.send_call import Source
from entrepot.protocols.amqp.deaths import DeathReason

DROP_LEASE_MS: Final = 10_000
AGAIN_SECONDS: Final = 1.0
"""Pause before a queue is cut again: its broker did not answer, or it may be a cluster that counts late."""

log = structlog.get_logger(__name__)


class Overflow:
    """The limits of all queues.

    Invariant: one cut of a queue is under way at a time here, so that none drops what another is about to drop.
    """

    def __init__(
        self, sender: Sender, counting: Counting, feeds: QueueFeeds, dead_letters: DeadLetters, spawn: Spawn
    ) -> None:
        self._sender, self._counting, self._spawn = sender, counting, spawn
        self._feeds, self._dead_letters = feeds, dead_letters
        self._cutting: dict[Queue, asyncio.Task[None]] = {}
        self._again: set[Queue] = set()
        """Queues that have got more since their cut under way counted them."""
        self._later: set[Queue] = set()
        """Queues that are looked at once more."""
        self._is_closed = False
        dead_letters.send = self.send_letters
        feeds.on_back = self.begin_cut

    def close(self) -> None:
        """Begin no more cuts."""
        self._is_closed = True

    def admit(
        self, vhost: Vhost, messages: list[Message], on_sent: OnSent, source: Source = None
    ) -> Awaitable[None] | None:
        """Send messages of a source; return an awaitable where a queue among them has a limit."""
        if any(topic in vhost.limited for each in messages for topic, _ in places(each)):
            return self._admit(vhost, messages, on_sent)
        self._sender.send(messages, on_sent, source)
        return None

    async def send_letters(self, vhost: Vhost, letters: list[Message], *, as_a_whole: bool = False) -> Refusals:
        """Send dead letters and return the refusals, those of full queues among them. Raises what made all fail.

        `as_a_whole`: a message goes to none of its queues while one that rejects without dead letters is full. A
        dead letter made of one is not refused."""
        if not any(topic in vhost.limited for each in letters for topic, _ in places(each)):
            return await self._sender.send_and_wait(letters)
        failure, refusals, taken = await self._send_admitted(vhost, letters, as_a_whole=as_a_whole)
        raise_if(failure)
        for queue in self._queues(vhost, taken):
            self.begin_cut(queue)  # nobody waits: its own letters may lead back here
        return refusals

    async def _admit(self, vhost: Vhost, messages: list[Message], on_sent: OnSent) -> None:
        failure, refusals, taken = await self._send_admitted(vhost, messages)
        on_sent(failure, refusals)
        for queue in self._queues(vhost, taken):
            await self.cut(queue)

    async def _send_admitted(
        self, vhost: Vhost, messages: list[Message], *, as_a_whole: bool = False
    ) -> tuple[EntrepotError | None, Refusals, list[Message]]:
        """Send what the queues have room for; return the failure of all, the refusals, and the messages sent."""
        rejecting = {queue for queue in self._queues(vhost, messages) if _rejects(queue)}
        room = {queue: await self._room(queue) for queue in rejecting}
        taken: list[Message] = []
        outcomes: list[_Outcome] = []
        for message in messages:
            wanted = [vhost.limited[topic] for topic, _ in places(message) if topic in vhost.limited]
            full = [queue for queue in wanted if queue in room and not _has_room(room[queue], message)]
            waits = as_a_whole and any(_only_rejects(queue) for queue in full)
            if full and not waits:
                await self._turn_away(full, message)
            is_taken = not waits and (not full or _leave_out(full, message))
            outcomes.append(_Outcome(is_refused=waits if as_a_whole else bool(full), is_taken=is_taken))
            if not is_taken:
                continue
            for queue in wanted:
                if queue in room and queue not in full:
                    room[queue] = (room[queue][0] - 1, room[queue][1] - len(message.body))
            taken.append(message)
        failure, refusals = await self._sent(taken)
        if failure is None and any(each.is_refused for each in outcomes):
            refusals = _told(outcomes, refusals)
        return failure, refusals, taken

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

    # -- cutting -------------------------------------------------------------------------------------------------

    async def cut(self, queue: Queue) -> None:
        """Drop messages beyond the limit from the head, unless the queue rejects; return when it is done."""
        if (cutting := self.begin_cut(queue)) is not None:
            await asyncio.shield(cutting)

    def begin_cut(self, queue: Queue) -> asyncio.Task[None] | None:
        """Begin to cut a queue that has got messages in any way; return the cut, or None where there is none."""
        if not queue.is_limited or _rejects(queue) or self._is_closed:
            return None
        self._look_later(queue)
        return self._begin(queue)

    def _begin(self, queue: Queue) -> asyncio.Task[None]:
        self._again.add(queue)
        cutting = self._cutting.get(queue)
        if cutting is None:
            cutting = self._cutting[queue] = self._spawn(self._cut_all(queue))
        return cutting

    async def _cut_all(self, queue: Queue) -> None:
        try:
            while queue in self._again:
                self._again.discard(queue)
                await self._cut(queue)
        except EntrepotError as error:
            if error.code not in NOT_THERE:
                log.warning("a queue is longer than its limit", queue=queue.name, problem=error.message)
                self._look_later(queue)
        finally:
            self._again.discard(queue)
            del self._cutting[queue]

    def _look_later(self, queue: Queue) -> None:
        if queue not in self._later:
            self._later.add(queue)
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._look_again, queue)

    def _look_again(self, queue: Queue) -> None:
        self._later.discard(queue)
        if not self._is_closed:
            self._begin(queue)

    async def _cut(self, queue: Queue) -> None:
        """Drop what one count finds too much: a second one at once might be late, and drop too many."""
        leased = self._feeds.of(queue).leased
        await leased.settle_releases()
        count, size = await self._room(queue)
        while (count < 0 or size < 0) and not _rejects(queue):
            most = min(int(-count) if count < 0 else 1, MAX_POP_MESSAGES)
            tickets = await leased.ask(PopRequest(queue.topic, queue.group, most, 0, DROP_LEASE_MS))
            if not tickets:
                return
            count, size = count + len(tickets), size + sum(ticket.size for ticket in tickets)
            await self._dead_letters.bury(queue, tickets, DeathReason.MAXLEN)
            await leased.settle()


class QueueFullError(EntrepotError):
    """The refusal of a message by a full queue that rejects."""

    def __init__(self) -> None:
        super().__init__(Code.TOO_MANY_REQUESTS, "the queue is full")


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
            refusal = QueueFullError()
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


def _only_rejects(queue: Queue) -> bool:
    return queue.declaration.arguments.full_queue is Policy.REJECT_PUBLISH


def _has_room(room: tuple[float, float], message: Message) -> bool:
    return room[0] >= 1 and room[1] >= len(message.body)
