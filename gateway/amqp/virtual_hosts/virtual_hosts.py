"""VirtualHosts: AMQP's engine, behind the AMQP connections and RabbitMQ's HTTP API.

It joins definitions, routing, feeds, dead letters, limits, expiry and presence, and offers the operations: declare,
bind, publish, consume. The caller checks the rights before.

ADR 23: exchanges, queues and bindings are key-values. Invariant: a message leaves its queue for a dead-letter
exchange only when its dead letter is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges import exchange as exchanges
from entrepot.domain.exchanges.binding import Binding, check_binding
from entrepot.domain.exchanges.exchange import Exchange
from entrepot.domain.ports import Store
from entrepot.domain.queues import declaration as queue_declaration
from entrepot.domain.queues.arguments import default_delivery_limit
from entrepot.domain.queues.declaration import QueueDeclaration
from entrepot.domain.queues.policy import Policy
from entrepot.gateway.amqp.feeds.consumers import QueueConsumer
from entrepot.gateway.amqp.feeds.stream_feed import StreamConsumer
from entrepot.gateway.amqp.virtual_hosts.consumption import Consumption
from entrepot.gateway.amqp.virtual_hosts.counting import Counting
from entrepot.gateway.amqp.virtual_hosts.dead_letters import DeadLetters
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.delays import Delays
from entrepot.gateway.amqp.virtual_hosts.expiry import Expiry
from entrepot.gateway.amqp.virtual_hosts.overflow import Overflow
from entrepot.gateway.amqp.virtual_hosts.parameters import MAX_QUEUES, Parameters
from entrepot.gateway.amqp.virtual_hosts.presence import ConsumerPresence
from entrepot.gateway.amqp.virtual_hosts.queue_feeds import QueueFeeds
from entrepot.gateway.amqp.virtual_hosts.routing import Routing
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.member.member import Member
from entrepot.gateway.messaging.passed_over import PassedOver
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.settings.amqp import AmqpSettings
from entrepot.gateway.work.background_tasks import BackgroundTasks
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.reply_codes import ReplyCode

SETTLE_SECONDS: Final = 5.0
"""Longest wait for background work at the end, in seconds."""

log = structlog.get_logger(__name__)


class Consumer(QueueConsumer, StreamConsumer, Protocol):
    """A consumer of a queue of any type."""

    @property
    def queue(self) -> Queue: ...


class VirtualHosts:
    """The engine.  Exclusive queues, and presence of consumers, are held under the member's incarnation."""

    def __init__(
        self,
        store: Store,
        sender: Sender,
        routes: Routes,
        definitions: Definitions,
        settings: AmqpSettings,
        clock: Clock,
        member: Member,
    ) -> None:
        self.store, self.definitions, self.clock = store, definitions, clock
        self._member, self._max_queues = member, settings.max_queues
        self.tasks = BackgroundTasks("AMQP")
        self.parameters = Parameters(store.key_values)
        self.counting = Counting(store)
        self.routing = Routing(store, routes, keeps_topics=settings.exchange_topics)
        self.dead_letters = DeadLetters(definitions, self.routing, sender, clock, self.tasks.spawn)
        self.dead_letters.default_limit = default_delivery_limit(settings.product_version)
        self.feeds = QueueFeeds(
            store,
            clock,
            self.dead_letters.sort_out,
            lambda: sender.provenance.gateway,
            lambda queue: PassedOver("amqp", sender.incidents, clock, partial(self.dead_letters.came_back, queue)),
        )
        self.overflow = Overflow(sender, self.counting, self.feeds, self.dead_letters, self.tasks.spawn)
        self.expiry = Expiry(store, definitions, self.feeds, self.dead_letters, clock, member)
        self.expiry.cut = self.overflow.begin_cut
        self.routing.on_timed, self.routing.on_delayed = self.expiry.expect, self.expiry.expect_arrival
        arrived = partial(self.overflow.send_letters, as_a_whole=True)
        self.delays = Delays(store, definitions, self.routing, sender.incidents, clock, arrived)
        self.presence = ConsumerPresence(store, clock, member, self._consumers_changed, self.feeds.settle)
        self.expiry.presence = self.presence
        self.consumption = Consumption(sender.traffic)
        self.queues_declared = self.queues_created = 0
        """Declarations of queues here, and those of new ones, since the process began."""
        self.on_declared_dead: list[Callable[[frozenset[str]], object]] = []
        """Callbacks for the connections here whose exclusive queues others delete."""
        definitions.on_queue_gone.append(self._queue_gone)
        member.identity.on_renewed.append(self._declared_dead)

    @property
    def gateway(self) -> str:
        """This gateway's incarnation."""
        return self._member.identity.incarnation

    async def start(self) -> None:
        """Learn the definitions and follow them. Raises what the store raises."""
        await self.parameters.start()
        await self.definitions.start()
        await self.presence.start()
        await self.expiry.start()
        await self.delays.start()

    async def close(self) -> None:
        """Release the consumers' messages, and stop."""
        try:
            await self.delays.close()
            await self.expiry.close()
            self.overflow.close()
            await self.tasks.settle(SETTLE_SECONDS)
            await self.feeds.close()
            await self.presence.settle()
            self.presence.close()
            await self.tasks.cancel()
        finally:
            self.parameters.close()
            self.definitions.close()

    # -- exchanges -----------------------------------------------------------------------------------------------

    def exchange(self, vhost: Vhost, name: str) -> Exchange | None:
        """The exchange of a name: a declared one, or the Topic of that name."""
        return vhost.routing.exchange(name) or self.routing.exchange_of_topic(vhost, name)

    async def declare_exchange(self, vhost: Vhost, wanted: Exchange) -> bool:
        """Declare an exchange; True if it is new. Raises PRECONDITION_FAILED for a different existing one, FORBIDDEN
        for a system name."""
        exchanges.check_not_default(wanted.name)
        exchanges.check_exchange(wanted, vhost.name)
        found = vhost.routing.exchange(wanted.name)
        is_new = found is None
        if found is None:
            exchanges.check_new_name(wanted.name)
            found = await self.definitions.declare_exchange(vhost, wanted, self.gateway)
        _check_same(exchanges.inequivalence(found, wanted, vhost.name))
        return is_new

    async def bind(self, vhost: Vhost, binding: Binding) -> None:
        """Bind. Raises TOPIC_NOT_FOUND where an end is missing, FORBIDDEN, PRECONDITION_FAILED."""
        exchanges.check_not_default(binding.source)
        found = self.exchange(vhost, binding.source)
        if found is None:
            raise exchanges.not_found(binding.source, vhost.name)
        if vhost.routing.exchange(binding.source) is None:  # a Topic, which the binding declares
            found = await self.definitions.declare_exchange(vhost, found, self.gateway)
        if not self.definitions.destination_exists(vhost, binding):
            kind = binding.destination_kind.value
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"no {kind} '{binding.destination}' in vhost '{vhost.name}'")
        check_binding(binding, found.routing_type)
        await self.definitions.bind(vhost, binding)

    async def put_policy(self, vhost: Vhost, policy: Policy) -> bool:
        """Set a policy; True if it is new. Queues over their new limits are cut before this returns."""
        is_new = all(each.name != policy.name for each in vhost.policies(of_operators=policy.is_operators))
        await self.definitions.put_policy(vhost, policy)
        for queue in tuple(vhost.limited.values()):
            if policy in (queue.policy, queue.operator_policy):
                await self.overflow.cut(queue)
        return is_new

    # -- queues --------------------------------------------------------------------------------------------------

    async def declare_queue(
        self, vhost: Vhost, wanted: QueueDeclaration, owner: str = "", *, is_named_here: bool = False
    ) -> tuple[Queue, bool]:
        """Declare a queue for the connection `owner`; return it, and True if it is new.

        `is_named_here`: the server chose its name. Raises PRECONDITION_FAILED, FORBIDDEN (a system name), or AmqpError
        for another connection's queue.
        """
        self.queues_declared += 1
        found = vhost.queue(wanted.name)
        if found is None:
            if not is_named_here:
                queue_declaration.check_new_name(wanted.name)
            if sum(len(each.queues) for each in self.definitions.vhosts()) >= self._max_queues:
                raise EntrepotError(Code.PRECONDITION_FAILED, f"queue limit ({self._max_queues}) is reached")
            self._check_room(vhost, wanted.name)
            found, is_new = await self.definitions.declare_queue(
                vhost, wanted, gateway=self.gateway, connection=owner, now_ms=self.clock.now_ms()
            )
            if is_new:
                self.queues_created += 1
                self.used(found)
                if found.gateway not in ("", self.gateway):  # declared under an incarnation that ended meanwhile
                    self._fence(frozenset((owner,)))
                return found, True
        check_owner(found, owner, vhost)
        if found.declaration.exclusive != wanted.exclusive:
            raise _locked(found, vhost)
        _check_same(queue_declaration.inequivalence(found.declared, wanted, vhost.name))
        self.used(found)
        return found, False

    def _check_room(self, vhost: Vhost, name: str) -> None:
        """Raise PRECONDITION_FAILED where a virtual host has as many queues as it may."""
        most = self.parameters.vhost(vhost.namespace).limits.get(MAX_QUEUES, -1)
        if 0 <= most <= len(vhost.queues):
            text = f"cannot declare queue '{name}': queue limit in vhost '{vhost.name}' ({most}) is reached"
            raise EntrepotError(Code.PRECONDITION_FAILED, text)

    def used(self, queue: Queue) -> None:
        """Note that the queue was declared or used by basic.get."""
        vhost = self.definitions.vhost_in(queue.namespace)
        if vhost is not None:
            self.expiry.used(vhost, queue)

    async def delete_owned(self, vhost: Vhost, owner: str) -> None:
        """Delete the exclusive queues of a connection."""
        for name in tuple(vhost.owned.get(owner, ())):
            queue = vhost.queue(name)
            if queue is not None:
                await self._delete(vhost, queue)

    async def _delete(self, vhost: Vhost, queue: Queue) -> None:
        try:
            await self.definitions.delete_queue(vhost, queue)
        except EntrepotError as error:
            log.warning("could not delete a queue", queue=queue.name, problem=error.message)

    def _declared_dead(self, before: str) -> None:
        vhosts = self.definitions.vhosts()
        owners = {queue.connection for vhost in vhosts for queue in vhost.queues.values() if queue.gateway == before}
        self._fence(frozenset(owners))

    def _fence(self, owners: frozenset[str]) -> None:
        for told in self.on_declared_dead:
            told(owners)

    def _queue_gone(self, vhost: Vhost, queue: Queue) -> None:
        self.consumption.forget(queue)
        consumers = self.feeds.all_of(queue)
        for feed in self.feeds.forget(queue):
            self.tasks.spawn(feed.close())
        if consumers:
            self.presence.changed(queue, ())
        for consumer in consumers:
            consumer.queue_gone()

    # -- consumers -----------------------------------------------------------------------------------------------

    def consumers_of(self, queue: Queue) -> int:
        """Consumers of a queue, at all gateways."""
        return self.feeds.consumers(queue) + self.presence.elsewhere(queue)

    def add(self, consumer: Consumer) -> None:
        """Feed a consumer from here on."""
        queue = consumer.queue
        self.feeds.feeding(queue).add(consumer)
        self._note_presence(queue)
        self.used(queue)

    def remove(self, consumer: Consumer) -> None:
        """Stop feeding a consumer."""
        queue = consumer.queue
        self.feeds.feeding(queue).remove(consumer)
        self._note_presence(queue)
        self.used(queue)

    async def unused(self, queue: Queue) -> None:
        """Delete an auto-delete queue after its last consumer, at any gateway, has gone."""
        vhost = self.definitions.vhost_in(queue.namespace)
        if vhost is None or vhost.queue(queue.name) is not queue or self.feeds.consumers(queue):
            return
        if await self.presence.is_last(queue) and not self.feeds.consumers(queue):
            await self._delete(vhost, queue)

    def _note_presence(self, queue: Queue) -> None:
        self.presence.changed(queue, self.feeds.all_of(queue))
        self._consumers_changed(queue.topic)

    def _consumers_changed(self, topic: str) -> None:
        """Note a change of the consumers, here or at other gateways."""
        presence = self.presence
        self.feeds.activate(topic, presence.is_first(topic))
        tell = partial(presence.hungry, topic) if presence.matters(topic) else None
        self.feeds.rank(topic, presence.hungriest_elsewhere(topic), tell)


def check_owner(queue: Queue, owner: str, vhost: Vhost) -> None:
    """Raise RESOURCE_LOCKED where a queue is another connection's."""
    if queue.connection and queue.connection != owner:
        raise _locked(queue, vhost)


def _locked(queue: Queue, vhost: Vhost) -> AmqpError:
    return AmqpError(ReplyCode.RESOURCE_LOCKED, queue_declaration.locked(queue.name, vhost.name))


def _check_same(difference: str | None) -> None:
    if difference is not None:
        raise EntrepotError(Code.PRECONDITION_FAILED, difference)
