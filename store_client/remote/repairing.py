"""Repairing: tells brokers the topics, groups and namespaces that they missed (`definitions` plans it).  Every gateway
does it, a moment after it sees brokers disagree.  Often another has done it by then, and telling a broker what it has
changes nothing.  Refusals are logged once, and retried now and then."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.errors import NOT_THERE, Code, EntrepotError
from entrepot.protocols.wire import store_rows as rows
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.definitions import Repairs, plan_repairs

PAUSE_SECONDS: Final = 0.3
AGAIN_SECONDS: Final = 10.0
ABSENCE: Final = NOT_THERE | {Code.BAD_REQUEST}
"""Refusals that mean a deletion is done already."""

log = structlog.get_logger(__name__)


class Repairing:
    """The repairs of brokers.  `clients`: all known brokers."""

    def __init__(self, clients: Callable[[], Collection[BrokerClient]]) -> None:
        self._clients = clients
        self._loop = asyncio.get_running_loop()
        self._topics: set[str] | None = None
        self._groups: set[str] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._told: set[str] = set()
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def look_at(self, topics: Collection[str], groups: Collection[str]) -> None:
        """Note topics and groups on which brokers may disagree."""
        if self._topics is not None:
            self._topics.update(topics)
        if self._groups is not None:
            self._groups.update(groups)
        self._soon(PAUSE_SECONDS)

    def look_at_all(self) -> None:
        """Note that brokers may disagree about anything: one has come, or refused something."""
        self._topics = self._groups = None

    def _soon(self, seconds: float) -> None:
        if self._timer is None and not self._is_closed:
            pause = seconds * random.uniform(0.5, 1.5)
            self._timer = self._loop.call_later(pause, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._task is not None and not self._task.done():
            self._soon(PAUSE_SECONDS)
        else:
            self._task = background(self._loop).start("repair of definitions", self._repair())

    async def _repair(self) -> None:
        clients = self._clients()
        if len(clients) < 2:
            return
        views = [client.view for client in clients]
        topics, groups = self._topics, self._groups
        self._topics, self._groups = set(), set()
        is_whole = True
        for client in sorted((c for c in clients if c.is_ready), key=lambda c: c.number):
            plan = plan_repairs(client.view, views, topics, groups)
            if plan:
                is_whole &= await self._carry_out(client, plan)
        if not is_whole:
            self.look_at_all()
            self._soon(AGAIN_SECONDS)

    async def _carry_out(self, client: BrokerClient, plan: Repairs) -> bool:
        """Carry out a plan; returns True if all of it was taken."""
        log.info(
            "bringing a broker up to date",
            broker=client.name,
            topics=len(plan.topics),
            groups=len(plan.groups),
            gone=len(plan.gone_topics) + len(plan.gone_groups),
        )
        is_whole = True
        for deleting, gone in (
            (rows.DELETE_TOPIC, plan.gone_topics),
            (rows.DELETE_GROUP, plan.gone_groups),
            (rows.DELETE_NAMESPACE, plan.gone_namespaces),
        ):
            for name, revision in gone:
                is_whole &= await self._tell(client, name, client.ask(deleting.ask(name, revision)), ABSENCE)
        for name, revision in plan.namespaces:
            is_whole &= await self._tell(client, name, client.ask(rows.PUT_NAMESPACE.ask(name, revision)))
        if plan.topics:
            is_whole &= await self._tell(client, "topics", self._put_topics(client, plan))
        for group in plan.groups:
            is_whole &= await self._tell(client, group.name, client.ask(rows.PUT_GROUP.ask(group)))
        return is_whole

    async def _put_topics(self, client: BrokerClient, plan: Repairs) -> None:
        outcomes = await client.ask(rows.PUT_TOPICS.ask(plan.topics))
        for topic, refusal in zip(plan.topics, outcomes, strict=True):
            if refusal is not None:
                raise EntrepotError(refusal.code, f"{topic.name}: {refusal.message}")

    async def _tell(
        self, client: BrokerClient, what: str, telling: Awaitable[object], fine: Collection[Code] = ()
    ) -> bool:
        """Tell one thing; returns True if the broker took it."""
        try:
            await telling
        except EntrepotError as error:
            if error.code in fine:
                return True
            if f"{client.name} {what} {error.code}" not in self._told:
                self._told.add(f"{client.name} {what} {error.code}")
                log.warning("a broker could not be brought up to date", broker=client.name, error=error.message)
            return False
        return True
