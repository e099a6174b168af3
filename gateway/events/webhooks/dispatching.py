"""Dispatching: this gateway's dispatcher for each topic with subscriptions, and for what was stored before one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.gateway.events.subscriptions.record import Subscription, TopicRecord
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.events.webhooks.dispatcher import CatchingUp, Dispatcher, Matching
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.work.background_tasks import BackgroundTasks

PAUSE_SECONDS: Final = 0.5
PROGRESS_MS: Final = 1_000
"""Longest pop of past messages, in milliseconds, before the progress is checked."""

log = structlog.get_logger(__name__)


class Dispatching:
    """The dispatchers.  `tasks`: those that their owner waits for at the end."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        subscriptions: Subscriptions,
        default_type: str,
        incidents: Incidents,
        tasks: BackgroundTasks,
    ) -> None:
        self._store, self._clock, self._subscriptions = store, clock, subscriptions
        self._default_type, self._incidents, self._tasks = default_type, incidents, tasks
        self._running: dict[str, asyncio.Task[None]] = {}
        self._groups: dict[str, str] = {}
        """Groups of topics that are dispatched."""
        self._catching_up: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        tasks = [*self._running.values(), *self._catching_up.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def change(self, topic: str, record: TopicRecord | None) -> None:
        """Follow a topic's dispatch group; the old one is deleted again, as a late pop may have made it anew."""
        before = self._groups.get(topic)
        if record is not None and record.group == before:
            return
        if before is not None:
            del self._groups[topic]
            dispatching = self._running.pop(topic, None)
            if dispatching is not None:
                dispatching.cancel()
            self._tasks.spawn(self._forget(before))
        if record is not None:
            self._groups[topic] = record.group
            self._follow(self._running, topic, self._dispatch(topic, record.group))

    def _follow(self, tasks: dict[str, asyncio.Task[None]], name: str, work: Coroutine[Any, Any, None]) -> None:
        task = background().start("webhook dispatch", work)
        tasks[name] = task
        task.add_done_callback(lambda done: self._ended(tasks, name, done))

    @staticmethod
    def _ended(tasks: dict[str, asyncio.Task[None]], name: str, task: asyncio.Task[None]) -> None:
        if tasks.get(name) is task:
            del tasks[name]

    def catch_up(self, subscription: Subscription) -> None:
        """Dispatch what was stored before a subscription was made, unless that is done or under way."""
        if subscription.record.is_catching_up and subscription.key not in self._catching_up:
            self._follow(self._catching_up, subscription.key, self._catch_up(subscription))

    async def _dispatch(self, topic: str, group: str) -> None:
        matching = Matching(self._subscriptions, self._incidents, topic, group)
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
        return Dispatcher(self._store, self._clock, topic, group, matching, self._default_type, self._incidents)

    async def _forget(self, group: str) -> None:
        """Delete a group that a late pop made again after its topic's last subscription went."""
        with contextlib.suppress(EntrepotError):
            await self._store.topology.delete_group(group)

    async def _catch_up(self, subscription: Subscription) -> None:
        """Dispatch the messages that were stored before the subscription was made."""
        matching = CatchingUp(self._subscriptions, self._incidents, subscription)
        group = subscription.catch_up_group
        dispatcher = self._dispatcher(subscription.topic, group, matching)
        try:
            await self._dispatch_past(dispatcher, subscription)
        finally:
            await dispatcher.leased.close()
        if not self._is_closed:
            await self._forget(group)

    async def _dispatch_past(self, dispatcher: Dispatcher, subscription: Subscription) -> None:
        """Run until all of it is read, or the subscription is gone."""
        while not self._is_closed:
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
