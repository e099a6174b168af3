"""AmqpFrontend: the AMQP door: its connections, and what they share."""

from __future__ import annotations

import asyncio
import platform
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from domain.clock import Clock
from domain.errors import EntrepotError
from domain.exchanges.exchange import Exchange
from domain.ports import Store
from domain.queues.declaration import declared_queue
from gateway.amqp.connections.access import AmqpAccess
from gateway.amqp.connections.consuming import Consumer
from gateway.amqp.connections.consumption import Consumption
from gateway.amqp.connections.conversation import AmqpConversation
from gateway.amqp.connections.login import CERTIFIED_MECHANISMS, MECHANISMS
from gateway.amqp.connections.messages import HANDLERS
from gateway.amqp.connections.names import REPLY_TO_QUEUE
from gateway.amqp.connections.remembered_publishes import RememberedPublishes
from gateway.amqp.feeds.queue_feeds import QueueFeeds
from gateway.amqp.virtual_hosts.bindings import Bindings
from gateway.amqp.virtual_hosts.counting import Counting
from gateway.amqp.virtual_hosts.dead_letters import DeadLetters
from gateway.amqp.virtual_hosts.definitions import Definitions
from gateway.amqp.virtual_hosts.expiry import Expiry
from gateway.amqp.virtual_hosts.overflow import Overflow
from gateway.amqp.virtual_hosts.presence import ConsumerPresence
from gateway.amqp.virtual_hosts.routing import Routing
from gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from gateway.messaging.routes import Routes
from gateway.messaging.send import Sender
from gateway.security.security import PrincipalChange, Security
from gateway.settings.amqp import AmqpSettings
from protocols.amqp.connection_events import ConnectionLimits, Greeting
from protocols.amqp.errors import AmqpError
from protocols.amqp.reply_codes import ReplyCode

TIMEOUT_LOOK_SECONDS: Final = 5.0
"""How often is looked for messages that consumers hold too long."""
SETTLE_SECONDS: Final = 5.0
FULL_SECONDS: Final = 1.0
"""How long publishers are blocked before they may try whether a full store has room again."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class AmqpCounters:
    """Since the process began."""

    published: int = 0
    confirmed: int = 0
    refused: int = 0
    returned: int = 0


class AmqpFrontend:
    """`gateway`: this gateway's name among all.  `is_alone`: no other gateway works on the store."""

    def __init__(
        self,
        store: Store,
        sender: Sender,
        routes: Routes,
        security: Security,
        definitions: Definitions,
        settings: AmqpSettings,
        clock: Clock,
        gateway: Callable[[], str],
        version: str,
        *,
        is_alone: bool,
    ) -> None:
        self.store, self.sender, self.security, self.definitions = store, sender, security, definitions
        self.settings, self.clock, self._gateway = settings, clock, gateway
        self.limits = ConnectionLimits(
            channel_max=settings.max_channels,
            frame_max=settings.frame_max_bytes,
            heartbeat_seconds=settings.heartbeat_seconds,
            max_message_size_bytes=settings.max_message_bytes,
            handshake_timeout_seconds=settings.handshake_timeout_seconds,
        )
        self.greeting = _greeting(settings, gateway(), version)
        self.certified_greeting = replace(self.greeting, mechanisms=CERTIFIED_MECHANISMS)
        self.handlers = HANDLERS
        self.max_unacknowledged = settings.max_unacknowledged
        self.access = AmqpAccess(security)
        self.counting = Counting(store)
        self.routing = Routing(store, routes, keeps_topics=settings.exchange_topics)
        self.remembered = RememberedPublishes(definitions, security, store.topology)
        self.dead_letters = DeadLetters(definitions, self.routing, sender, clock, self.spawn)
        self.feeds = QueueFeeds(store, clock, self.dead_letters.sort_out)
        self.overflow = Overflow(store, sender, self.counting, self.feeds, self.dead_letters)
        self.expiry = Expiry(store, definitions, self.feeds, self.dead_letters, clock, gateway, is_alone=is_alone)
        self.routing.on_timed = self.expiry.expect
        sender.bindings = Bindings(store, definitions, self.expiry.expect)
        self.presence = ConsumerPresence(
            store, clock, gateway, self._consumers_changed, self.feeds.settle, is_alone=is_alone
        )
        self.expiry.presence = self.presence
        self.conversations: set[AmqpConversation] = set()
        self.counters = AmqpCounters()
        self.consumption = Consumption(sender.traffic)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self.time, self.call_later = self._loop.time, self._loop.call_later
        self._is_stopping = self._is_full = False
        self._looking: asyncio.TimerHandle | None = None
        definitions.on_queue_gone.append(self._queue_gone)
        security.watch_principals(self._rights_changed)

    @property
    def gateway(self) -> str:
        """The name of this gateway among all, as long as it is not taken for dead."""
        return self._gateway()

    async def start(self) -> None:
        """Learn the definitions and keep them.  Raises what the store raises."""
        await self.definitions.start()
        await self.presence.start()
        await self.expiry.start()
        self._looking = self._loop.call_later(TIMEOUT_LOOK_SECONDS, self._look_for_late)

    # -- connections ---------------------------------------------------------------------------------------------

    def converse(self) -> AmqpConversation:
        return AmqpConversation(self, self.time())

    def opened(self, conversation: AmqpConversation) -> None:
        self.conversations.add(conversation)

    def closed(self, conversation: AmqpConversation) -> None:
        self.conversations.discard(conversation)

    def new_identity(self) -> str:
        return f"{self.gateway}/{secrets.token_hex(8)}"

    def refusal(self) -> str | None:
        """Why no connection is opened now, or None."""
        if self._is_stopping:
            return "the server is shutting down"
        if len(self.conversations) > self.settings.max_connections:
            return "too many connections"
        return None

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("work of the AMQP door failed", exc_info=error)

    def ended(self, conversation: AmqpConversation) -> asyncio.Task[None]:
        """A connection is over: what it had for itself goes."""
        if conversation.vhost is not None and conversation.principal is not None:
            self.remembered.leave(conversation.vhost, conversation.principal)
        return self.spawn(self._owner_gone(conversation))

    async def _owner_gone(self, conversation: AmqpConversation) -> None:
        """Delete the exclusive queues of a connection."""
        vhost = conversation.vhost
        if vhost is None:
            return
        for name in tuple(vhost.owned.get(conversation.identity, ())):
            queue = vhost.queue(name)
            if queue is not None:
                await self._delete(vhost, queue)

    async def _delete(self, vhost: Vhost, queue: Queue) -> None:
        try:
            await self.definitions.delete_queue(vhost, queue)
        except EntrepotError as error:
            log.warning("a queue that is to go stays", queue=queue.name, problem=error.message)

    # -- queues --------------------------------------------------------------------------------------------------

    def check_queue_room(self) -> None:
        """Raise PRECONDITION_FAILED where there are as many queues as there may be."""
        if sum(len(vhost.queues) for vhost in self.definitions.vhosts()) >= self.settings.max_queues:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"queue limit ({self.settings.max_queues}) is reached")

    def exchange(self, vhost: Vhost, name: str) -> Exchange | None:
        """The exchange of a name: that which was declared, or else the Topic of that name."""
        return vhost.routing.exchange(name) or self.routing.exchange_of_topic(vhost, name)

    def used(self, queue: Queue) -> None:
        """Somebody declared the queue or got of it."""
        vhost = self.definitions.vhost_in(queue.namespace)
        if vhost is not None:
            self.expiry.used(vhost, queue)

    async def make_reply_queue(self, conversation: AmqpConversation) -> Queue:
        """The queue of one channel's replies: only its connection's, and gone with that."""
        assert conversation.vhost is not None
        vhost, name = conversation.vhost, f"{REPLY_TO_QUEUE}.{secrets.token_urlsafe(24)}"
        wanted = declared_queue(name, vhost.name, exclusive=True, auto_delete=True, arguments={})
        queue, _ = await self.definitions.declare_queue(
            vhost, wanted, gateway=self.gateway, connection=conversation.identity, now_ms=self.clock.now_ms()
        )
        return queue

    # -- consumers -----------------------------------------------------------------------------------------------

    def consumers_of(self, queue: Queue) -> int:
        """How many consumers a queue has, at all gateways."""
        return self.feeds.consumers(queue) + self.presence.elsewhere(queue)

    def _consumers_changed(self, topic: str) -> None:
        """Other gateways have more or fewer consumers of a queue."""
        self.feeds.activate(topic, self.presence.is_first(topic))

    def _note_presence(self, queue: Queue) -> None:
        consumers = self.feeds.all_of(queue)
        is_exclusive = any(isinstance(each, Consumer) and each.exclusive for each in consumers)
        self.presence.changed(queue, len(consumers), is_exclusive=is_exclusive)
        self.feeds.activate(queue.topic, self.presence.is_first(queue.topic))

    def consumer_came(self, consumer: Consumer) -> None:
        if consumer.queue.is_stream:
            self.feeds.stream(consumer.queue).add(consumer)
        else:
            self.feeds.of(consumer.queue).add(consumer)
        self._note_presence(consumer.queue)
        self.used(consumer.queue)

    def consumer_went(self, consumer: Consumer) -> None:
        queue = consumer.queue
        if queue.is_stream:
            self.feeds.stream(queue).remove(consumer)
        else:
            self.feeds.of(queue).remove(consumer)
        self._note_presence(queue)
        self.used(queue)
        if queue.declaration.auto_delete:
            consumer.channel.conversation.going(self.spawn(self.unused(queue)))

    async def unused(self, queue: Queue) -> None:
        """A consumer went: an auto-delete queue goes with the last one, at whichever gateway that was."""
        vhost = self.definitions.vhost_in(queue.namespace)
        if vhost is None or vhost.queue(queue.name) is not queue or self.feeds.consumers(queue):
            return
        if await self.presence.is_last(queue) and not self.feeds.consumers(queue):
            await self._delete(vhost, queue)

    def _queue_gone(self, vhost: Vhost, queue: Queue) -> None:
        self.consumption.forget(queue)
        consumers = self.feeds.all_of(queue)
        for feed in self.feeds.forget(queue):
            self.spawn(feed.close())
        if consumers:
            self.presence.changed(queue, 0)
        for consumer in consumers:
            if isinstance(consumer, Consumer):
                consumer.channel.consuming.queue_gone(consumer)

    def _look_for_late(self) -> None:
        """Close channels whose consumers hold a message too long."""
        self._looking = self._loop.call_later(TIMEOUT_LOOK_SECONDS, self._look_for_late)
        for conversation in tuple(self.conversations):
            for channel in tuple(conversation.channels.values()):
                if channel.consuming.holds_too_long(self.time(), self.settings.consumer_timeout_seconds):
                    text = f"delivery acknowledgement on channel {channel.number} timed out"
                    channel.fail(AmqpError(ReplyCode.PRECONDITION_FAILED, text))

    # -- a store that is full ------------------------------------------------------------------------------------

    def storage_full(self) -> None:
        """The store refuses: who publishes is told, and read no more for a while."""
        if not self._is_full:
            self._is_full = True
            log.warning("publishing AMQP connections are blocked: the store is full")
            self._loop.call_later(FULL_SECONDS, self._look_for_room)
        for conversation in tuple(self.conversations):
            conversation.block("low on disk")

    def _look_for_room(self) -> None:
        """Let them try again; whoever is refused again blocks all again."""
        self._is_full = False
        for conversation in tuple(self.conversations):
            conversation.unblock()

    def _rights_changed(self, change: PrincipalChange) -> None:
        """Connections of who may nothing any more end."""
        for conversation in tuple(self.conversations):
            principal = conversation.principal
            if principal is None or (change.name is not None and principal.name != change.name):
                continue
            if change.is_revoked:
                conversation.close_connection(ReplyCode.CONNECTION_FORCED, "the user's rights were revoked")
            else:
                for channel in conversation.channels.values():
                    channel.consuming.ask_again()

    # -- the end -------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Say goodbye to all."""
        self._is_stopping = True
        for conversation in tuple(self.conversations):
            conversation.close_connection(ReplyCode.CONNECTION_FORCED, "broker forced connection closure")

    async def close(self) -> None:
        """Give back what consumers held, and stop."""
        self._is_stopping = True
        if self._looking is not None:
            self._looking.cancel()
        await self.expiry.close()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=SETTLE_SECONDS)
        await self.feeds.close()
        await self.presence.settle()
        self.presence.close()
        for task in tuple(self._tasks):
            task.cancel()
        for conversation in tuple(self.conversations):
            if conversation.driver is not None:
                conversation.driver.close()
        self.definitions.close()


def _greeting(settings: AmqpSettings, gateway: str, version: str) -> Greeting:
    capabilities = (
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    )
    return Greeting(
        {
            "capabilities": dict.fromkeys(capabilities, True),
            "cluster_name": f"entrepot@{gateway}",
            "copyright": "",
            "information": "Entrepôt speaks AMQP 0-9-1 as RabbitMQ does",
            "platform": f"Python {platform.python_version()}",
            "product": settings.product,
            "version": settings.product_version,
            "gateway_product": "Entrepôt",
            "gateway_version": version,
        },
        MECHANISMS,
    )
