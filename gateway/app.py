"""The composition root: builds the parts, starts them, and stops them in order.

topology, sender -> delivery hub -> front ends -> listeners -> ready
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import Store
from entrepot.domain.ports.cluster import Clustered
from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.amqp.listener import amqp_listeners
from entrepot.gateway.amqp.virtual_hosts.bindings import Bindings
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.shared_queues import SharedQueues
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts
from entrepot.gateway.counters import LOG_COUNTERS, Counters, event_counters, protocol_counters, rocketmq_counters
from entrepot.gateway.events.admission import Admission
from entrepot.gateway.events.deduplication import Deduplication
from entrepot.gateway.events.rules import EventRules
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.messaging.membership import Memberships
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from entrepot.gateway.mqtt.frontend import MqttFrontend
from entrepot.gateway.mqtt.listener import HTTP_PATH, MqttListeners
from entrepot.gateway.mqtt.retained.retained import RetainedMessages
from entrepot.gateway.mqtt.shares.shares import Shares
from entrepot.gateway.mqtt.sys_messages import sys_topics
from entrepot.gateway.peers.place import gateway_name
from entrepot.gateway.process import StopSignal, announce, withdraw
from entrepot.gateway.security.security import Security
from entrepot.gateway.security.setup_token import FILE_NAME
from entrepot.gateway.settings import Settings
from entrepot.gateway.settings.version import own_version
from entrepot.gateway.transport.binding import address_of
from entrepot.gateway.transport.certificate_watch import CertificateWatch
from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.work.periodic_work import PeriodicWork

if TYPE_CHECKING:
    from entrepot.gateway.bridge.bridges import Bridges
    from entrepot.gateway.events.webhooks.webhooks import Webhooks
    from entrepot.gateway.http.requests.asgi import AsgiApp
    from entrepot.gateway.http.requests.context import HttpContext
    from entrepot.gateway.http.server import HttpListener
    from entrepot.gateway.peer_listener import PeerListener
    from entrepot.gateway.rocketmq.listener import GrpcListener
    from entrepot.gateway.rocketmq.service import RocketMqService

WEBHOOK_MARGIN_SECONDS: Final = 3.0
"""Share of the drain time kept back from webhook deliveries, in seconds."""
log = structlog.get_logger(__name__)


def _setup_token_file(settings: Settings, store: Store) -> Path | None:
    """The setup token's file in the data directory, or None where the store is not in this process."""
    is_here = not isinstance(store, Clustered) and not settings.rocketmq.endpoints
    return settings.store.data_dir / FILE_NAME if is_here else None


class Gateway:
    """One gateway process: the front ends and listeners over one store."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        sockets: dict[str, socket.socket],
        origins: Mapping[str, str] = MappingProxyType({}),
        *,
        is_embedded: bool = False,
    ) -> None:
        """`origins`: the origin of each setting that has none by default, by its key. `is_embedded`: in another
        program, which serves `http_app` and has the signals."""
        self.settings, self._origins = settings, origins
        self.store, self._is_alone = store, not isinstance(store, Clustered) and not settings.broker.enabled
        self.addresses = {door: address_of(listener) for door, listener in sockets.items()}
        self._loop = asyncio.get_running_loop()
        self._wheel = DeadlineWheel(self._loop)
        self._early = EarlyBytes(settings.server.max_unauthenticated_bytes)
        self._stop = None if is_embedded else StopSignal()
        self._is_ready = False
        topology = Topology(store, settings.topics)
        self.sender = Sender(store, topology, clock)
        self.security = Security(store.key_values, settings.security, clock, _setup_token_file(settings, store))
        self.event_rules = EventRules(store.key_values)
        self._admission = Admission(self.event_rules, self.sender)
        self.subscriptions = Subscriptions(store, clock, settings.webhooks.max_subscriptions)
        self._webhooks: Webhooks | None = None
        self._http_context: HttpContext | None = None
        self.memberships = Memberships(store, clock, settings.groups)
        self.retained = RetainedMessages(store, clock, settings.mqtt.retained_limits)
        self.hub = DeliveryHub(store, clock, self.sender.incidents)
        self.shares = Shares(
            store,
            clock,
            settings.groups.by_use,
            lambda: self.hub.any_level_topics,
            self.sender.traffic,
            self.sender.incidents,
            lambda: self.sender.provenance.gateway,
        )
        self.mqtt = MqttFrontend(
            store,
            self.sender,
            topology,
            self.hub,
            self.shares,
            self.retained,
            self.security,
            settings,
            clock,
            is_alone=self._is_alone,
        )
        hosts = self._virtual_hosts = VirtualHosts(
            store,
            self.sender,
            self.mqtt.services.routes,
            Definitions(store),
            settings.amqp,
            clock,
            lambda: self.mqtt.services.sessions.gateway,
            is_alone=self._is_alone,
        )
        self.sender.bindings = Bindings(store, hosts.definitions, hosts.expiry.expect)
        self.amqp = AmqpFrontend(hosts, self.sender, self.security, settings.amqp, clock, own_version())
        self.shares.queues = SharedQueues(hosts.definitions, hosts.dead_letters)
        self._amqp_listeners = amqp_listeners(settings.amqp, sockets, self.amqp.converse, self._wheel, self._early)
        self._sys = sys_topics(self.mqtt, own_version(), settings.mqtt.sys_interval_seconds)
        self._mqtt_listeners = MqttListeners(
            settings.mqtt,
            sockets,
            self.mqtt.converse,
            self._wheel,
            self._early,
            settings.http.allowed_origins,
            settings.hosts,
            self.security.takes_anonymous,
        )
        self._bridges = self._build_bridges(clock)
        self.rocketmq: RocketMqService | None = None
        self._grpc_listener: GrpcListener | None = None
        if "grpc" in sockets:
            self._build_grpc(sockets["grpc"], topology, clock)
        self._http_listener: HttpListener | None = None
        self._http_work: tuple[PeriodicWork, ...] = ()
        self._peer_listener: PeerListener | None = None
        self.http_app: AsgiApp | None = None
        if "http" in sockets or is_embedded:
            self._http_listener = self._build_http(sockets.get("http"), topology, clock)
        https = self._http_listener.certificates if self._http_listener is not None else None
        grpcs = self._grpc_listener.certificates if self._grpc_listener is not None else None
        self._certificate_watch = CertificateWatch(
            [
                each
                for each in (self._mqtt_listeners.certificates, self._amqp_listeners.certificates, grpcs, https)
                if each is not None
            ],
            settings.mqtt.tls_reload_seconds,
        )

    def _build_bridges(self, clock: Clock) -> Bridges | None:
        """Bridges to other brokers, or None.  Their libraries are imported only where a bridge is configured."""
        if not self.settings.bridge.remotes:
            return None
        from entrepot.gateway.bridge.bridges import Bridges

        routes = self.mqtt.services.routes
        return Bridges(
            self.settings.bridge,
            self.store,
            self.sender,
            self.retained,
            routes,
            routes.rule_topics,
            clock,
            random.SystemRandom(),
        )

    def _build_grpc(self, reserved: socket.socket, topology: Topology, clock: Clock) -> None:
        """Build the listener for RocketMQ's clients.  Its libraries are imported only where it is enabled."""
        from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
        from entrepot.gateway.rocketmq.listener import GrpcListener
        from entrepot.gateway.rocketmq.service import RocketMqService

        host, port = reserved.getsockname()[:2]
        settings = self.settings
        gateway = f"{os.getpid()}-{random.SystemRandom().getrandbits(48):x}"
        frontend = RocketMqFrontend(
            self.store,
            self.sender,
            topology,
            self.security,
            settings.grpc,
            settings.groups,
            clock,
            (host, port),
            gateway,
        )
        self.rocketmq = RocketMqService(frontend)
        hosts = frontend.access.hosts

        def relayed(peer: str, source: str | None) -> None:
            if source is None:
                hosts.pop(peer, None)
            else:
                hosts[peer] = source

        is_shared = settings.cluster.workers > 1
        self._grpc_listener = GrpcListener(
            settings.grpc, reserved, self.rocketmq.handler(), relayed, is_shared=is_shared
        )

    def _build_http(self, listener: socket.socket | None, topology: Topology, clock: Clock) -> HttpListener | None:
        """Build the HTTP application, and its listener for a socket.  Their libraries are imported only here."""
        from entrepot.gateway.events.webhooks.webhooks import Webhooks
        from entrepot.gateway.http.app import build_app
        from entrepot.gateway.http.requests.context import HttpContext
        from entrepot.gateway.http.server import HttpListener
        from entrepot.gateway.peer_listener import PeerListener

        beside = self._peer_listener = PeerListener(
            self.settings, self.store, clock, self.security, self._early, is_alone=self._is_alone
        )
        deduplication = Deduplication(self.store, clock)
        webhooks = self._webhooks = Webhooks(
            self.store,
            self.subscriptions,
            self.settings.webhooks,
            clock,
            self.settings.http.event_type,
            random.SystemRandom(),
            self.sender.incidents,
            gateway_name(self.settings),
        )
        context = self._http_context = HttpContext(
            store=self.store,
            sender=self.sender,
            topology=topology,
            memberships=self.memberships,
            retained=self.retained,
            security=self.security,
            event_rules=self.event_rules,
            deduplication=deduplication,
            subscriptions=self.subscriptions,
            webhooks=webhooks,
            settings=self.settings,
            origins=self._origins,
            clock=clock,
            peers=beside.peers,
            logins=beside.logins,
            is_ready=lambda: self._is_ready,
            mqtt=self.mqtt,
            amqp=self.amqp if self.settings.amqp.enabled else None,
            rocketmq=self.rocketmq,
            counters=self._counters(webhooks, deduplication),
            connections={
                "amqp": lambda: len(self.amqp.conversations),
                "mqtt": lambda: len(self.mqtt.conversations),
                "http": lambda: self._http_listener.connections if self._http_listener is not None else 0,
                "grpc": lambda: self.rocketmq.frontend.counters.clients if self.rocketmq is not None else 0,
            },
            addresses=self.addresses,
            bridges=list if self._bridges is None else self._bridges.status,
            background=(
                self.retained.sweeping,
                self.mqtt.sweeper.life.work,
                self.mqtt.sweeper.rounds,
                self.mqtt.census.counting,
                self.mqtt.unused_groups.sweeping,
                beside.peers.pinging,
                beside.logins.sweeping,
                self._virtual_hosts.expiry.sweeping,
                webhooks.sweeping,
            ),
        )
        has_websocket = self.settings.mqtt.enabled and self.settings.mqtt.ws_on_http
        websockets = {HTTP_PATH.encode(): self._mqtt_listeners.http_upgrade()} if has_websocket else {}
        app = build_app(context)
        self.http_app, self._http_work = app.asgi, app.sampler.work
        context.background = (*context.background, *app.sampler.work)
        if listener is None:
            return None
        return HttpListener(app.asgi, listener, self.settings.http, self._early, websockets, app.publish)

    def _counters(self, webhooks: Webhooks, deduplication: Deduplication) -> Counters:
        found = protocol_counters(self.hub, self.mqtt, self.amqp, self._mqtt_listeners)
        found |= event_counters(webhooks, deduplication, self._admission) | LOG_COUNTERS
        return found if self.rocketmq is None else {**found, **rocketmq_counters(self.rocketmq)}

    async def start(self, settle: Callable[[], None] = lambda: None) -> None:
        """Open the listeners, once access rules are loaded; the ready file is last, `settle` right before it."""
        await self.security.start(self.settings.cluster.start_seconds)
        await self.sender.provenance.introduce(gateway_name(self.settings))
        if self._peer_listener is not None:
            await self._peer_listener.start()
        await self.event_rules.start(self.settings.cluster.start_seconds)
        await self.subscriptions.start(self.settings.cluster.start_seconds)
        await self.retained.start()
        await self.mqtt.start()
        if self.settings.mqtt.enabled:
            self._sys.start()
        if self.settings.amqp.enabled:
            await self.amqp.start()
        await self._mqtt_listeners.start()
        await self._amqp_listeners.start()
        if self._grpc_listener is not None and self.rocketmq is not None:
            await self.rocketmq.start()
            await self._grpc_listener.start()
        if self._http_listener is not None:
            await self._http_listener.start()
        for work in self._http_work:
            work.start()
        self._certificate_watch.start()
        if self._webhooks is not None:
            self._webhooks.start()
        if self._bridges is not None:
            self._bridges.start()
        settle()
        self._is_ready = True
        for door, address in self.addresses.items():
            log.info("listening", door=door, address=address)
        announce(self.settings.server.ready_file, self.addresses)

    async def until_stopped(self) -> int:
        """Wait for a signal (0) or for the store to fail (1)."""
        assert self._stop is not None, "who embeds a gateway ends it"
        return await self._stop.wait(self.store)

    async def drain(self) -> None:
        """Answer waiting requests, let work under way finish, close connections; for at most `drain_seconds`."""
        self._is_ready = False
        end = self._loop.time() + self.settings.server.drain_seconds
        withdraw(self.settings.server.ready_file)
        if self._bridges is not None:
            await self._bridges.stop()  # first: their pops are to be cancelled, not answered
        if self.rocketmq is not None:
            self.rocketmq.frontend.shut_down()
        if self._webhooks is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    await self._webhooks.close(max(end - self._loop.time() - WEBHOOK_MARGIN_SECONDS, 0.0))
        for end_of in self._http_context.on_drain if self._http_context is not None else ():
            end_of()
        self.store.consumption.release_waiting()
        self.memberships.release_waiting()
        self._certificate_watch.close()
        self._sys.close()
        self._mqtt_listeners.stop_accepting()
        self._amqp_listeners.stop_accepting()
        if self._grpc_listener is not None and self.rocketmq is not None:
            await self._grpc_listener.stop(max(end - self._loop.time(), 0.1))
            await self._settle(end, self.rocketmq.close)
        await self._settle(end)
        self.mqtt.shut_down()
        self.amqp.shut_down()
        await self._settle(end, self.amqp.close)
        await self._settle(end, self.mqtt.settle)  # the wills, and the sessions' last records
        await self._settle(end, self.shares.close)
        await self._settle(end, self.mqtt.close)
        for work in self._http_work:
            await work.close()
        if self._peer_listener is not None:
            await self._settle(end, self._peer_listener.close)
        if self._http_listener is not None:
            await self._http_listener.stop(max(end - self._loop.time(), 0.1))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(max(end, self._loop.time() + 0.1)):
                await self.retained.close()
        self.sender.provenance.close()
        self.event_rules.close()
        self.subscriptions.close()
        self.security.close()
        self._wheel.close()

    async def _settle(self, end: float, work: Callable[[], Awaitable[None]] | None = None) -> None:
        """Wait for sent messages to be settled, then do some work, as far as time and the store's state allow."""
        with contextlib.suppress(TimeoutError, EntrepotError):
            async with asyncio.timeout_at(end):
                if self.store.condition.failure is None:
                    await self.sender.settle()
                    if work is not None:
                        await work()
