"""DeadLetters: messages that leave their queue unconsumed, on their way to its dead-letter exchange.

A message is removed from its queue when its dead letter is durable, so a crash between the two leaves both. Where the
queue has no dead-letter exchange, or nothing is bound there, the message is dropped. A message whose letter cannot be
made, by a fault of our own, goes to the dead-letter topic of the queue's group, and the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

import structlog

from entrepot.domain.callbacks import hand_over
from entrepot.domain.clock import Clock
from entrepot.domain.errors import PASSING, Code, EntrepotError
from entrepot.domain.exchanges.routing import UnknownExchange
from entrepot.domain.message import Message, SystemProperty
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.routing import Routing
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.messaging.odd_messages import set_aside
from entrepot.gateway.messaging.send import Refusals, Sender, first_refusal
from entrepot.gateway.messaging.ticket import Ticket, acknowledge_all
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.consumed import origin_of
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.deaths import DeathReason, dead_header, goes_round
from entrepot.protocols.amqp.mapping import CC, bcc_of, further_keys, read_bcc
from entrepot.protocols.amqp.value_space import ROUTING_KEY

PART: Final = "amqp dead letters"

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]

AGAIN_SECONDS: Final = 1.0
"""Pause before a letter is published again that the store could not take."""

LATER: Final = PASSING - {Code.TOO_MANY_REQUESTS}
"""Refusals after which a letter is published again; not those of a full queue that rejects publishes."""

log = structlog.get_logger(__name__)


class DeadLetters:
    """The publisher of dead letters."""

    def __init__(self, definitions: Definitions, routing: Routing, sender: Sender, clock: Clock, spawn: Spawn) -> None:
        self._definitions, self._routing, self._sender = definitions, routing, sender
        self._clock, self._spawn = clock, spawn
        self.send: Callable[[Vhost, list[Message]], Awaitable[Refusals]] = lambda _, letters: sender.send_and_wait(
            letters
        )
        """The way of letters to their queues, by whose limits it goes; it raises what made all of them fail."""
        self.default_limit: int | None = None
        """Delivery limit of quorum queues without one."""
        self.count = 0
        """Dead letters published since the process began."""

    async def reject(self, dead: Sequence[tuple[Queue, Ticket]]) -> None:
        """Dead-letter messages that consumers refused, or that came back too often."""
        for queue in {queue for queue, _ in dead}:
            of = [ticket for other, ticket in dead if other is queue]
            spent = [ticket for ticket in of if self.is_spent(queue, ticket.attempt)]
            await self.bury(queue, spent, DeathReason.DELIVERY_LIMIT)
            await self.bury(queue, [ticket for ticket in of if ticket not in spent], DeathReason.REJECTED)

    def sort_out(self, queue: Queue, tickets: list[Ticket], waiting_since_ms: int | None = None) -> list[Ticket]:
        """Return the messages to deliver; expired ones are dead-lettered. A message that comes for the first time was
        delivered when a consumer waited for it: `waiting_since_ms` counts then, not the time of the pop."""
        now_ms, lifetime_ms = self._clock.now_ms(), queue.declaration.arguments.message_ttl_ms
        # one that was born in the millisecond in which the wait began came later
        first_ms = now_ms if waiting_since_ms is None else waiting_since_ms - 1
        over: list[Ticket] = []

        def look(some: list[Ticket]) -> None:
            over.extend([each for each in some if each.is_over(first_ms if each.attempt == 1 else now_ms, lifetime_ms)])

        odd = hand_over(tickets, look)
        for ticket, fault in odd:
            set_aside(self._sender.incidents, PART, ticket, fault)
        if over:
            self._spawn(self.bury(queue, over, DeathReason.EXPIRED))
        if not over and not odd:
            return tickets
        return [each for each in tickets if each.is_open and each not in over]

    def is_spent(self, queue: Queue, attempt: int) -> bool:
        """True if a message that comes back after this attempt came back too often."""
        limit = queue.declaration.arguments.attempts_allowed(self.default_limit)
        return limit is not None and attempt > limit

    def came_back(self, queue: Queue, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Return the messages that came back too often: they are dead-lettered, and not to be released."""
        spent = [each for each in tickets if self.is_spent(queue, each.attempt)]
        if spent:
            self._spawn(self.bury(queue, spent, DeathReason.DELIVERY_LIMIT))
        return spent

    async def bury(self, queue: Queue, tickets: Sequence[Ticket], reason: DeathReason) -> None:
        """Publish the dead letters, and remove the messages from their queue when that is durable. Letters that the
        store cannot take now are published later; until then their messages stay held here."""
        waiting = await self._bury(queue, tickets, reason)
        if waiting:
            self._spawn(self._bury_later(queue, waiting, reason))

    async def _bury_later(self, queue: Queue, tickets: Sequence[Ticket], reason: DeathReason) -> None:
        while tickets:
            await asyncio.sleep(AGAIN_SECONDS)
            tickets = await self._bury(queue, [ticket for ticket in tickets if ticket.is_open], reason)

    async def _bury(self, queue: Queue, tickets: Sequence[Ticket], reason: DeathReason) -> list[Ticket]:
        """Publish and remove; return the messages whose letters may be taken later."""
        letters = self._letters(queue, tickets, reason)
        refusals: Refusals = None
        if letters:
            try:
                refusals = await self._send(queue, list(letters.values()))
            except EntrepotError as error:
                refusals = [error] * len(letters)
        waiting = [
            ticket
            for ticket, refusal in zip(letters, refusals or (), strict=False)  # without refusals none waits
            if refusal is not None and refusal.code in LATER
        ]
        if (refused := first_refusal(refusals)) is not None:
            log.warning("dead letters were refused", queue=queue.name, waiting=len(waiting), problem=refused.message)
        for ticket, refusal in zip(letters, refusals or (), strict=False):
            if refusal is not None and refusal.code not in (*LATER, Code.TOO_MANY_REQUESTS):
                set_aside(self._sender.incidents, PART, ticket, refusal)  # such as one that its death made too long
        self.count += len(letters) - len(waiting)
        acknowledge_all([ticket for ticket in tickets if ticket not in waiting])
        return waiting

    async def turn_away(self, queue: Queue, message: Message) -> None:
        """Publish the dead letter of a message that a full queue refuses. Its publisher is told of the refusal, also
        where there is no letter."""
        try:
            letter = self.letter(queue, message, DeathReason.MAXLEN)
            if letter is not None:
                await self._send(queue, [letter])
        except EntrepotError as refusal:
            log.warning("dead letters were refused", queue=queue.name, waiting=0, problem=refusal.message)
        except Exception as fault:  # noqa: BLE001 - the publishes after it go on
            reason = f"{type(fault).__name__}: {fault}"
            self._sender.incidents.note(PART, Outcome.SET_ASIDE, reason, place=queue.topic, fault=fault)

    async def _send(self, queue: Queue, letters: list[Message]) -> Refusals:
        vhost = self._definitions.vhost_in(queue.namespace)
        return None if vhost is None else await self.send(vhost, letters)

    def _letters(self, queue: Queue, tickets: Sequence[Ticket], reason: DeathReason) -> dict[Ticket, Message]:
        """The letters of those that have a destination; odd messages are set aside."""
        letters: dict[Ticket, Message] = {}

        def make(some: list[Ticket]) -> None:
            made = [(ticket, self.letter(queue, ticket.message, reason)) for ticket in some]
            letters.update({ticket: letter for ticket, letter in made if letter is not None})

        for ticket, fault in hand_over(list(tickets), make):
            set_aside(self._sender.incidents, PART, ticket, fault)
        return letters

    def letter(self, queue: Queue, message: Message, reason: DeathReason) -> Message | None:
        """The dead letter of a message, or None without a destination."""
        arguments = queue.declaration.arguments
        vhost = self._definitions.vhost_in(queue.namespace)
        if arguments.dead_letter_exchange is None or vhost is None:
            return None
        exchange, key, data = origin_of(message, self._sender.incidents.unsaid)
        now_ms, bcc = self._clock.now_ms(), read_bcc(message)
        before = ContentHeader(data)
        cc = further_keys(before, CC) if before.may_have_header(b"CC") else []
        header = dead_header(
            before,
            queue=queue.name,
            reason=reason,
            exchange=exchange,
            keys=[key, *cc],
            now_seconds=now_ms // 1000,
        )
        keys = [key, *cc, *bcc]
        if arguments.dead_letter_routing_key is not None:
            key, bcc = ROUTING_KEY.shortened(arguments.dead_letter_routing_key), []
            keys, header = [key], _without_cc(header) if cc else header
        publish = Publish(arguments.dead_letter_exchange, key, False, header, message.body)
        found = vhost.routing.route(publish.exchange, keys, lambda: header.headers or {}, lambda: dict(header.values()))
        if isinstance(found, UnknownExchange):
            if self._routing.exchange_of_topic(vhost, publish.exchange) is None:
                return None
            found = ()  # a Topic without bindings: the letter is stored there
        if reason is not DeathReason.REJECTED:
            found = tuple(name for name in found if not goes_round(header, name))
        letter = self._routing.message(vhost, publish, found, now_ms)
        if letter is not None and bcc:
            letter.system = {**letter.system, SystemProperty.AMQP_BCC: bcc_of(bcc)}
        return letter


def _without_cc(header: ContentHeader) -> ContentHeader:
    """The properties without the header CC, whose keys a letter with a key of its own does not go to."""
    return header.replaced(headers={name: value for name, value in (header.headers or {}).items() if name != CC})
