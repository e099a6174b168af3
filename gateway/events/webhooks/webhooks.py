"""Webhooks: this gateway's deliverer for each subscription; `dispatching.py` has the dispatchers of topics.

ADR 27: one dispatch for each topic, a queue for each sink. Invariant: a message is acknowledged in its topic only
when its entries in the feeds are durable.
"""

from __future__ import annotations

import asyncio
import random

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import Store
from entrepot.gateway.events.subscriptions.record import Subscription
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.events.webhooks.access_tokens import AccessTokens
from entrepot.gateway.events.webhooks.circuit import Circuit
from entrepot.gateway.events.webhooks.deliverer import Deliverer
from entrepot.gateway.events.webhooks.delivery_context import DeliveryContext, WebhookCounters
from entrepot.gateway.events.webhooks.dispatching import Dispatching
from entrepot.gateway.events.webhooks.handshake import Handshake
from entrepot.gateway.events.webhooks.orphans import SWEEP_SECONDS, Orphans
from entrepot.gateway.events.webhooks.sink_client import SinkClient
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.settings import WebhookSettings
from entrepot.gateway.work.background_tasks import BackgroundTasks
from entrepot.gateway.work.periodic_work import PeriodicWork

log = structlog.get_logger(__name__)


class Webhooks:
    """The deliverers, and what belongs to them, made on the event loop that they run on."""

    def __init__(
        self,
        store: Store,
        subscriptions: Subscriptions,
        settings: WebhookSettings,
        clock: Clock,
        default_type: str,
        jitter: random.Random,
        incidents: Incidents,
        gateway: str = "",
    ) -> None:
        """`gateway`: name of this gateway, for people."""
        self._store, self._subscriptions, self._clock = store, subscriptions, clock
        self._settings = settings
        self.client = SinkClient(settings)
        self.handshake = Handshake(subscriptions, self.client, settings, clock)
        self._context = DeliveryContext(
            store,
            clock,
            subscriptions,
            self.client,
            AccessTokens(self.client, clock),
            self.handshake,
            settings,
            asyncio.Semaphore(settings.max_requests),
            jitter,
            incidents,
            gateway,
        )
        self._circuits: dict[tuple[str, str], Circuit] = {}
        self._deliverers: dict[str, Deliverer] = {}
        self._tasks = BackgroundTasks("webhooks")
        self._dispatching = Dispatching(store, clock, subscriptions, default_type, incidents, self._tasks)
        self.orphans = Orphans(store, subscriptions)
        self.sweeping = PeriodicWork("what deleted subscriptions left behind", SWEEP_SECONDS, self.orphans.sweep)
        self._is_running = False
        self._stop_watching = store.topology.watch_topics(self._topic_changed)

    @property
    def counters(self) -> WebhookCounters:
        return self._context.counters

    def deliverer(self, subscription: Subscription) -> Deliverer | None:
        return self._deliverers.get(subscription.key)

    def start(self) -> None:
        """Begin to dispatch and deliver, if this gateway is to."""
        if not self._settings.enabled:
            return
        self._is_running = True
        for subscription in self._subscriptions.all():
            self._changed(None, subscription)
        for topic, record in self._subscriptions.dispatched():
            self._dispatching.change(topic, record)
        self._subscriptions.on_change.append(self._changed)
        self._subscriptions.on_dispatch.append(self._dispatching.change)
        self.sweeping.start()

    async def close(self, grace_seconds: float) -> None:
        """Stop: requests have `grace_seconds` to end, then the rest is released."""
        self._is_running = False
        self._stop_watching()
        if self._changed in self._subscriptions.on_change:
            self._subscriptions.on_change.remove(self._changed)
            self._subscriptions.on_dispatch.remove(self._dispatching.change)
        await self.sweeping.close()
        stops = [deliverer.stop(grace_seconds) for deliverer in self._deliverers.values()]
        await asyncio.gather(*stops, self._dispatching.close(), self._tasks.settle(), return_exceptions=True)
        self._deliverers.clear()
        await self.client.close()

    # -- what is told --------------------------------------------------------------------------------------------

    def _changed(self, before: Subscription | None, now: Subscription | None) -> None:
        if now is None and before is None:
            return  # the removal of a definition that nobody could read
        if now is None:
            assert before is not None
            deliverer = self._deliverers.pop(before.key, None)
            if deliverer is not None:
                self._tasks.spawn(deliverer.stop())
            self._forget_circuit(before)
        else:
            deliverer = self._deliverers.get(now.key)
            circuit = self._circuit(now)
            if deliverer is None:
                self._deliverers[now.key] = Deliverer(self._context, now, circuit)
            else:
                deliverer.change(now, circuit)
                if before is not None and before.record.sink != now.record.sink:
                    self._forget_circuit(before)
            if before is not None and self.handshake.wait_ms(now) == 0:
                self._tasks.spawn(self._ask(now))  # its deliverer may be waiting for events
            self._dispatching.catch_up(now)

    def _topic_changed(self, topic: str) -> None:
        if self._is_running and self._store.topology.topic(topic) is None and topic in self._subscriptions.by_topic:
            self._tasks.spawn(self._begin_anew(topic))

    async def _ask(self, subscription: Subscription) -> None:
        try:
            await self.handshake.ask(subscription)
        except EntrepotError as error:
            log.warning("a receiver cannot be asked now", subscription=subscription.key, problem=error.message)

    async def _begin_anew(self, topic: str) -> None:
        try:
            await self._subscriptions.begin_anew(topic)
        except EntrepotError as error:
            log.warning("subscriptions of a topic that is gone cannot be changed", topic=topic, problem=error.message)

    def _circuit(self, subscription: Subscription) -> Circuit:
        """The circuit of a sink within the subscription's namespace: other namespaces may have other access."""
        sink = subscription.record.namespace, subscription.record.sink
        circuit = self._circuits.get(sink)
        if circuit is None:
            settings = self._settings
            circuit = Circuit(settings.circuit_failures, settings.circuit_seconds, settings.circuit_max_seconds)
            self._circuits[sink] = circuit
        return circuit

    def _forget_circuit(self, subscription: Subscription) -> None:
        gone = subscription.record.namespace, subscription.record.sink
        others = (each.subscription.record for each in self._deliverers.values())
        if not any((each.namespace, each.sink) == gone for each in others):
            self._circuits.pop(gone, None)
