"""Cluster: connections to a RocketMQ cluster, the sessions on them, its routes, and local definitions of groups."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import grpc

from entrepot.domain.background import Work, background
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.names import check_group_name, split_name
from entrepot.domain.topic import Topic
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.headers import headers
from entrepot.protocols.rocketmq.names import Address, Namespaces, duration, endpoints
from tests.support.rocketmq.sdk.calls import QUERY_ROUTE, Connection, Metadata
from tests.support.rocketmq.sdk.routes import Route, Routes, route_of
from tests.support.rocketmq.sdk.session import OnCommand, Session
from tests.support.rocketmq.sdk.settings import RocketMqSettings

MAX_CONNECTIONS: Final = 1024
"""Most connected places."""

try:
    _VERSION = version("entrepot")
except PackageNotFoundError:
    _VERSION = "0"


class Cluster:
    """The state shared by the parts of the store."""

    def __init__(self, settings: RocketMqSettings, clock: Clock, group_defaults: ConsumerGroup) -> None:
        self.settings = settings
        self.clock = clock
        self.namespaces = Namespaces(settings.namespace)
        self.timeout_seconds = settings.request_timeout_ms / 1000
        self.routes = Routes(self._ask_route, settings.route_refresh_ms / 1000)
        self.groups: dict[str, ConsumerGroup] = {}
        self.on_command: OnCommand = lambda command, connection: None
        self._group_defaults = group_defaults
        self._client = f"{socket.gethostname()}@{os.getpid()}@{secrets.token_hex(4)}"
        self._credentials = grpc.ssl_channel_credentials(settings.root_certificates) if settings.tls else None
        self._connections: dict[tuple[Address, ...], Connection] = {}
        self._consumers: dict[str, Session] = {}
        self._read_by: dict[str, dict[str, FilterExpression | None]] = {}
        self._published: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.producer = self._session("p", v2.PRODUCER, None, self._publishing)

    # -- connections -------------------------------------------------------------------------------------------------

    def connection(self, places: tuple[Address, ...]) -> Connection:
        """Return the channel to these addresses."""
        found = self._connections.get(places)
        if found is None:
            if len(self._connections) >= MAX_CONNECTIONS:
                raise EntrepotError(Code.UNAVAILABLE, f"the cluster has more than {MAX_CONNECTIONS} places")
            found = self._connections[places] = Connection(places, self._credentials)
        return found

    async def _ask_route(self, topic: str) -> Route:
        failure: EntrepotError | None = None
        for place in self.settings.endpoints:
            question = v2.QueryRouteRequest(topic=self.namespaces.resource(topic), endpoints=endpoints([place]))
            try:
                answer = await self.connection((place,)).call(
                    QUERY_ROUTE, question, self.timeout_seconds, self.producer.headers()
                )
            except EntrepotError as refusal:
                if refusal.code not in (Code.UNAVAILABLE, Code.REQUEST_TIMEOUT):
                    raise
                failure = refusal
            else:
                return route_of(topic, list(answer.message_queues), (place,))
        raise failure or EntrepotError(Code.UNAVAILABLE, "no endpoint of a cluster is configured")

    # -- sessions ----------------------------------------------------------------------------------------------------

    def _session(self, role: str, kind: v2.ClientType.ValueType, group: str | None, settings: Any) -> Session:
        return Session(
            kind,
            None if group is None else self.namespaces.resource(group),
            settings,
            partial(self._headers, f"{self._client}@{role}"),
            lambda command, connection: self.on_command(command, connection),
            timeout_seconds=self.timeout_seconds,
            heartbeat_seconds=self.settings.heartbeat_ms / 1000,
        )

    def _headers(self, client_id: str) -> Metadata:
        s = self.settings
        now, call_id = self.clock.now_ms(), secrets.token_hex(16)
        return headers(client_id, s.credentials, s.namespace, _VERSION, now, call_id)

    async def consumer(self, group: str, topic: str, filter: FilterExpression | None) -> Session:
        """Return the session of a group's consumer, with the topic among its subscriptions."""
        session = self._consumers.get(group)
        if session is None:
            settings = partial(self._subscription, group)
            session = self._session(f"c{len(self._consumers)}", v2.SIMPLE_CONSUMER, group, settings)
            self._consumers[group] = session
        read = self._read_by.setdefault(group, {})
        if topic not in read or read[topic] != filter:
            read[topic] = filter
            await session.say_settings()
        return session

    async def consumer_for_settling(self, group: str, topic: str) -> Session:
        """Return the session of a group's consumer, keeping its present filter of the topic."""
        read = self._read_by.get(group, {})
        return await self.consumer(group, topic, read.get(topic, self.group(group).filter))

    async def publisher(self, topic: str) -> Session:
        """Return the producer's session, with the topic among those it publishes to: checks of its transactions come
        here."""
        if topic not in self._published:
            self._published.add(topic)
            await self.producer.say_settings()
        return self.producer

    def topics_read_by(self, group: str) -> list[str]:
        """Return the topics that the group has read through this store."""
        return sorted(self._read_by.get(group, {}))

    def _publishing(self) -> v2.Settings:
        topics = [self.namespaces.resource(topic) for topic in sorted(self._published)]
        return self._settings(v2.PRODUCER, publishing=v2.Publishing(topics=topics, validate_message_type=True))

    def _subscription(self, group: str) -> v2.Settings:
        subscription = v2.Subscription(
            group=self.namespaces.resource(group),
            fifo=self.group(group).fifo,
            receive_batch_size=self.settings.max_batch,
            long_polling_timeout=duration(self.settings.most_poll_ms),
        )
        for topic, wanted in self._read_by.get(group, {}).items():
            entry = v2.SubscriptionEntry(topic=self.namespaces.resource(topic), expression=wire_filter(wanted))
            subscription.subscriptions.append(entry)
        return self._settings(v2.SIMPLE_CONSUMER, subscription=subscription)

    def _settings(self, kind: v2.ClientType.ValueType, **what: Any) -> v2.Settings:
        return v2.Settings(
            client_type=kind,
            access_point=endpoints(self.settings.endpoints),
            request_timeout=duration(self.settings.request_timeout_ms),
            user_agent=v2.UA(language=v2.PYTHON, version=_VERSION, hostname=socket.gethostname()),
            **what,
        )

    # -- local definitions -------------------------------------------------------------------------------------------

    def group(self, name: str) -> ConsumerGroup:
        """Return the local definition of a group, else the defaults."""
        return self.groups.get(name) or replace(self._group_defaults, name=name)

    def group_in_use(self, name: str) -> ConsumerGroup:
        """Return the group, and keep its definition from now on.  Raises ILLEGAL_CONSUMER_GROUP."""
        check_group_name(split_name(name)[1])
        return self.groups.setdefault(name, self.group(name))

    def topic(self, name: str) -> Topic | None:
        """Return a topic's definition from the known routes, or None."""
        route = self.routes.known(name)
        return None if route is None else route.definition()

    # -- background work ---------------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start background work, which ends with the store.  Its errors are counted and logged."""
        return self._added(background().start("work at the RocketMQ cluster", work))

    def keep(self, name: str, work: Work) -> asyncio.Task[None]:
        """Run endless background work, which ends with the store."""
        return self._added(background().keep(name, work))

    def _added(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def drop_work(self) -> None:
        """Cancel all background work."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Close the sessions, and then the channels."""
        await self.routes.close()
        sessions: Sequence[Session] = [self.producer, *self._consumers.values()]
        await asyncio.gather(*(session.close() for session in sessions))
        await self.drop_work()
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))


def wire_filter(filter: FilterExpression | None) -> v2.FilterExpression:
    """Return the expression for the protocol.  For a topic filter, which it lacks, that is everything."""
    if filter is None or filter.kind is FilterKind.SUB_TOPIC:
        return v2.FilterExpression(type=v2.TAG, expression="*")
    kind = v2.TAG if filter.kind is FilterKind.TAG else v2.SQL
    return v2.FilterExpression(type=kind, expression=filter.text or "*")
