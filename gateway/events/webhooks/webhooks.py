"""Webhooks: this gateway's dispatcher for each topic with subscriptions, and deliverer for each subscription.

ADR 27: one dispatch for each topic, a queue for each sink. Invariant: a message is acknowledged in its topic only
when its entries in the feeds are durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from typing import Any, Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.gateway.events.subscriptions.record import Subscription, TopicRecord
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.events.webhooks.access_tokens import AccessTokens
from entrepot.gateway.events.webhooks.circuit import Circuit
from entrepot.gateway.events.webhooks.deliverer import Deliverer
from entrepot.gateway.events.webhooks.delivery_context import DeliveryContext, WebhookCounters
from entrepot.gateway.events.webhooks.dispatcher import CatchingUp, Dispatcher, Matching
from entrepot.gateway.events.webhooks.handshake import Handshake
from entrepot.gateway.events.webhooks.orphans import SWEEP_SECONDS, Orphans
from entrepot.gateway.events.webhooks.sink_client import SinkClient
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.settings import WebhookSettings
from entrepot.gateway.work.background_tasks import BackgroundTasks
from entrepot.gateway.work.periodic_work import PeriodicWork

PAUSE_SECONDS: Final = 0.5
PROGRESS_MS: Final = 1_000
"""Longest pop of past messages, in milliseconds, before the progress is checked."""

log = structlog.get_logger(__name__)


class Webhooks:
    """The dispatchers and deliverers, made on the event loop that they run on."""

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
        self._settings, self._default_type = settings, default_type
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
        self._dispatching: dict[str, asyncio.Task[None]] = {}
        self._groups: dict[str, str] = {}
        self._catching_up: dict[str, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks("webhooks")
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
            self._dispatch_changed(topic, record)
        self._subscriptions.on_change.append(self._changed)
        self._subscriptions.on_dispatch.append(self._dispatch_changed)
        self.sweeping.start()

    async def close(self, grace_seconds: float) -> None:
        """Stop: requests have `grace_seconds` to end, then the rest is released."""
        self._is_running = False
        self._stop_watching()
        if self._changed in self._subscriptions.on_change:
            self._subscriptions.on_change.remove(self._changed)
            self._subscriptions.on_dispatch.remove(self._dispatch_changed)
        tasks = [*self._dispatching.values(), *self._catching_up.values()]
        await self.sweeping.close()
        for task in tasks:
            task.cancel()
        stops = [deliverer.stop(grace_seconds) for deliverer in self._deliverers.values()]
        await asyncio.gather(*stops, *tasks, self._tasks.settle(), return_exceptions=True)
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
            if now.record.is_catching_up and now.key not in self._catching_up:
                self._follow(self._catching_up, now.key, self._catch_up(now))

    def _dispatch_changed(self, topic: str, record: TopicRecord | None) -> None:
        """Follow a topic's dispatch group; the old one is deleted again, as a late pop may have made it anew."""
        before = self._groups.get(topic)
        if record is not None and record.group == before:
            return
        if before is not None:
            del self._groups[topic]
            dispatching = self._dispatching.pop(topic, None)
            if dispatching is not None:
                dispatching.cancel()
            self._tasks.spawn(self._forget(before))
        if record is not None:
            self._groups[topic] = record.group
            self._follow(self._dispatching, topic, self._dispatch(topic, record.group))

    def _follow(self, tasks: dict[str, asyncio.Task[None]], name: str, work: Coroutine[Any, Any, None]) -> None:
        task = background().start("webhook dispatch", work)
        tasks[name] = task
        task.add_done_callback(lambda done: self._ended(tasks, name, done))

    @staticmethod
    def _ended(tasks: dict[str, asyncio.Task[None]], name: str, task: asyncio.Task[None]) -> None:
        if tasks.get(name) is task:
            del tasks[name]

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

    # -- dispatching ---------------------------------------------------------------------------------------------

    async def _dispatch(self, topic: str, group: str) -> None:
        matching = Matching(self._subscriptions, self._context.incidents, topic, group)
        dispatcher = self._dispatcher(topic, group, matching)
        try:
            while True:
                try:
                    await dispatcher.run()
                except EntrepotError:
                    pass  # the topic is gone, and may come again
                except Exception as fault:  # noqa: BLE001 - a fault of our own: the topic's next events are dispatched
                    background().failed("webhook dispatch", fault)
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await dispatcher.leased.close()

    def _dispatcher(self, topic: str, group: str, matching: Matching) -> Dispatcher:
        incidents = self._context.incidents
        return Dispatcher(self._store, self._clock, topic, group, matching, self._default_type, incidents)

    async def _forget(self, group: str) -> None:
        """Delete a group that a late pop made again after its topic's last subscription went."""
        with contextlib.suppress(EntrepotError):
            await self._store.topology.delete_group(group)

    async def _catch_up(self, subscription: Subscription) -> None:
        """Dispatch the messages that were stored before the subscription was made."""
        matching = CatchingUp(self._subscriptions, self._context.incidents, subscription)
        group = subscription.catch_up_group
        dispatcher = self._dispatcher(subscription.topic, group, matching)
        try:
            await self._dispatch_past(dispatcher, subscription)
        finally:
            await dispatcher.leased.close()
        if self._is_running:
            await self._forget(group)

    async def _dispatch_past(self, dispatcher: Dispatcher, subscription: Subscription) -> None:
        """Run until all of it is read, or the subscription is gone."""
        while self._is_running:
            known = self._subscriptions.of_key(subscription.key)
            if known is None or not known.record.is_catching_up:
                return
            try:
                if await self._has_caught_up(subscription):
                    await self._subscriptions.caught_up(known)
                    continue
                await dispatcher.step(PROGRESS_MS)
            except EntrepotError as error:
                if error.code is Code.TOPIC_NOT_FOUND:
                    await self._subscriptions.caught_up(known)
                    continue
                if error.code is not Code.PRECONDITION_FAILED:
                    log.warning(
                        "stored events are not dispatched at the moment; will retry",
                        subscription=known.key,
                        problem=error.message,
                    )
                await asyncio.sleep(PAUSE_SECONDS)
            except Exception:  # a fault of our own: the next messages are dispatched all the same
                log.exception("stored events are not dispatched at the moment; will retry", subscription=known.key)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _has_caught_up(self, subscription: Subscription) -> bool:
        status = await self._store.topology.group_status(subscription.catch_up_group)
        reached = {each.queue_id: each.committed_offset for each in status.progress if each.topic == subscription.topic}
        return all(reached.get(int(queue_id), 0) >= begin for queue_id, begin in subscription.record.begins.items())
