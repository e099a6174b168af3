"""Delays: messages to exchanges of type x-delayed-message, which are routed when their delay ends.

They wait as timed messages of one Topic for each virtual host.  When its time comes a message is there to be popped; a
gateway routes it by the bindings that hold then, and acknowledges it when it is durable in its queues.  A gateway that
dies in between leaves it to another one: a duplicate, never a loss.  A queue that rejects and is full keeps the message
waiting; one that drops is cut.

Source: https://github.com/rabbitmq/rabbitmq-delayed-message-exchange
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.errors import PASSING, Code, EntrepotError
from entrepot.domain.exchanges.exchange import ExchangeType
from entrepot.domain.exchanges.routing import UnknownExchange
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.names import DEFAULT_NAMESPACE, split_name
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions, waiting_group, waiting_topic
from entrepot.gateway.amqp.virtual_hosts.routing import Routing
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.odd_messages import set_aside
from entrepot.gateway.messaging.send import Refusals
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.consumed import origin_of
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.mapping import CC, bcc_of, further_keys, read_bcc

PART: Final = "amqp delays"
WAIT_MS: Final = 20_000
PAUSE_SECONDS: Final = 0.3
"""Pause after a fault of our own, in seconds."""
AGAIN_MS: Final = 1_000
"""Pause before a message is routed again that its queues could not take, in milliseconds."""
ROUTED_AGAIN: Final = PASSING | {Code.TOO_MANY_REQUESTS, Code.TOPIC_NOT_FOUND}
"""Refusals after which a message is routed again: of a store that is away, of a full queue, and of one just deleted."""

SendArrived = Callable[[Vhost, list[Message]], Awaitable[Refusals]]

log = structlog.get_logger(__name__)


class Delays:
    """The routing of delayed messages.  `send`: stores messages in queues by their limits, each in all or none."""

    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        routing: Routing,
        incidents: Incidents,
        clock: Clock,
        send: SendArrived,
    ) -> None:
        self._store, self._definitions, self._routing = store, definitions, routing
        self._incidents, self._clock, self._send = incidents, clock, send
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stop: Callable[[], None] | None = None

    async def start(self) -> None:
        """Route what arrives in each virtual host from here on. Raises what the store raises."""
        for vhost in self._definitions.vhosts():
            if any(each.type is ExchangeType.DELAYED for each in vhost.routing.exchanges()):
                await self._definitions.make_waiting(vhost.namespace)  # of exchanges from before there were such Topics
        self._stop = self._store.topology.watch_topics(self._look)
        for namespace in {DEFAULT_NAMESPACE, *self._store.topology.namespaces()}:
            self._look(waiting_topic(namespace))

    async def close(self) -> None:
        """Stop; return when the store has back what was held."""
        if self._stop is not None:
            self._stop()
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _look(self, topic: str) -> None:
        namespace = split_name(topic)[0]
        if topic != waiting_topic(namespace) or self._store.topology.topic(topic) is None:
            return
        task = self._running.get(namespace)
        if task is None or task.done():
            self._running[namespace] = background().keep("delayed messages of AMQP", partial(self._run, namespace))

    async def _run(self, namespace: str) -> None:
        """Route what arrives until the Topic is gone."""
        leased = LeasedConsumer(self._store, self._clock, waiting_topic(namespace), waiting_group(namespace))
        try:
            while self._store.topology.topic(leased.topic) is not None:
                try:
                    await self._step(namespace, leased)
                except EntrepotError as refusal:
                    with suppress(EntrepotError):  # it raises once the Topic is gone
                        await leased.refused(refusal)
                except Exception as fault:  # noqa: BLE001 - a fault of our own: the other messages go on
                    background().failed("delayed messages of AMQP", fault)
                    await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await leased.close()
        asyncio.get_running_loop().call_soon(self._look, leased.topic)  # it may be there again by now

    async def _step(self, namespace: str, leased: LeasedConsumer) -> None:
        tickets = await leased.pop(PopRequest(leased.topic, leased.group, MAX_POP_MESSAGES, WAIT_MS))
        if not tickets:
            return
        try:
            await self._definitions.catch_up()  # a binding counts that was confirmed at another gateway
            vhost = self._definitions.vhost_in(namespace)
            if vhost is None:
                raise EntrepotError(Code.UNAVAILABLE, f"the virtual host of {namespace!r} is not known here")
            await self._route(vhost, leased, tickets)
        except BaseException:
            leased.release(tickets, suspend=True)
            raise
        leased.acknowledge(tickets)
        await leased.settle()

    async def _route(self, vhost: Vhost, leased: LeasedConsumer, tickets: Sequence[Ticket]) -> None:
        """Store each message in the queues that it is bound to now; release those that cannot be taken yet."""
        arrived: dict[Ticket, Message] = {}
        for ticket in tickets:
            try:
                message = self._arrived(vhost, ticket.message)
            except Exception as fault:  # noqa: BLE001 - a fault of our own with this message must not hurt the others
                set_aside(self._incidents, PART, ticket, fault)
                continue
            if message is not None:
                arrived[ticket] = message
        refusals = await self._send(vhost, list(arrived.values())) if arrived else None
        for ticket, refusal in zip(arrived, refusals or (), strict=False):  # without refusals all are stored
            if refusal is None:
                continue
            if refusal.code in ROUTED_AGAIN:
                leased.release((ticket,), AGAIN_MS, suspend=True)
            else:
                set_aside(self._incidents, PART, ticket, refusal)

    def _arrived(self, vhost: Vhost, waiting: Message) -> Message | None:
        """The message for the queues that are bound now, or None without any."""
        exchange, key, data = origin_of(waiting, self._incidents.unsaid)
        header = ContentHeader(data)
        cc = further_keys(header, CC) if header.may_have_header(b"CC") else []
        keys = [key, *cc, *read_bcc(waiting)]
        found = vhost.routing.route(exchange, keys, lambda: header.headers or {}, lambda: dict(header.values()))
        if isinstance(found, UnknownExchange):
            return None
        publish = Publish(exchange, key, False, header, waiting.body)
        message = self._routing.arrived(vhost, publish, found, self._clock.now_ms())
        if message is not None and (bcc := read_bcc(waiting)):
            message.system = {**message.system, SystemProperty.AMQP_BCC: bcc_of(bcc)}
        return message
