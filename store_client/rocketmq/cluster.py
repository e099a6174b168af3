"""Cluster: connections to name servers and brokers of RocketMQ, routes, and local definitions of groups."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

import orjson
import structlog

from entrepot.domain.background import Work, background
from entrepot.domain.broker_of_queue import broker_number
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import AWAY, Code, EntrepotError
from entrepot.domain.names import DEAD_LETTER_PREFIX, check_group_name, split_name
from entrepot.domain.topic import Topic
from entrepot.protocols.rocketmq.names import is_rocketmq_topic
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.dialect import table
from entrepot.protocols.rocketmq.remoting.frames import SUCCESS, Frame
from entrepot.protocols.rocketmq.remoting.names import Names
from entrepot.protocols.rocketmq.remoting.records import Record, decode_records
from entrepot.protocols.rocketmq.remoting.signing import signed
from entrepot.store_client.rocketmq.link import Link
from entrepot.store_client.rocketmq.routes import MASTER, Route, Routes, route_of
from entrepot.store_client.rocketmq.settings import RocketMqSettings

MAX_LINKS: Final = 1024
"""Most connected places."""
_SYSTEM_BEGINS: Final = ("%RETRY%", "%LMQ%")
_SYSTEM_ENDS: Final = ("_REPLY_TOPIC",)
IDLE_SECONDS: Final = 300.0
"""Idle time after which a link is closed: its broker may be gone for good."""
T = TypeVar("T")
OnRequest = Callable[[Frame, str], None]
log = structlog.get_logger(__name__)


class Cluster:
    """The state shared by the parts of the store.  `brokers`: addresses of the masters by name, as the name servers
    told last."""

    def __init__(self, settings: RocketMqSettings, clock: Clock, group_defaults: ConsumerGroup) -> None:
        self.settings = settings
        self.clock = clock
        self.names = Names(settings.namespace)
        self.timeout_seconds = settings.request_timeout_ms / 1000
        self.client_id = f"{socket.gethostname()}@{os.getpid()}@{secrets.token_hex(4)}"
        self.routes = Routes(self._ask_route)
        self.groups: dict[str, ConsumerGroup] = {}
        self.brokers: dict[str, str] = {}
        self.own_names: set[str] = set()
        """Names of brokers and clusters: RocketMQ has a topic of each for itself."""
        self.on_request: OnRequest = lambda frame, address: None
        self._group_defaults = group_defaults
        self._links: dict[str, Link] = {}
        self._name_server = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- requests ----------------------------------------------------------------------------------------------------

    async def ask(
        self,
        address: str,
        code: int,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        what: str,
        seconds: float | None = None,
        good: tuple[int, ...] = (SUCCESS,),
    ) -> Frame:
        """Return an answer whose code is one of `good`.  Raises the refusal that another one is; `what` names the
        action in words.  Raises UNAVAILABLE, OUTCOME_UNKNOWN and REQUEST_TIMEOUT as `Link.ask`."""
        request = self._request(code, fields, body)
        answer = await self._link(address).ask(request, self.timeout_seconds if seconds is None else seconds)
        if answer.code not in good:
            raise codes.refusal_of(answer, what)
        return answer

    async def tell(self, address: str, code: int, fields: Mapping[str, object]) -> None:
        """Send a request that gets no answer."""
        await self._link(address).tell(self._request(code, fields, b""))

    def _request(self, code: int, fields: Mapping[str, object] | None, body: bytes) -> Frame:
        texts = {name: _text(value) for name, value in (fields or {}).items()}
        own = self.settings.credentials
        if own.access_key:
            texts = signed(texts, body, own.access_key, own.secret, own.session_token)
        return Frame(code, 0, texts, body)

    def _link(self, address: str) -> Link:
        found = self._links.get(address)
        if found is None:
            self._close_idle()
            if len(self._links) >= MAX_LINKS:
                raise EntrepotError(Code.UNAVAILABLE, f"the cluster has more than {MAX_LINKS} places")
            found = Link(address, self.settings.tls, lambda frame: self.on_request(frame, address))
            self._links[address] = found
        return found

    def turn_at(self, address: str) -> int:
        """Return a number that changes with each connection to a place."""
        link = self._links.get(address)
        return -1 if link is None else link.turn

    def _close_idle(self) -> None:
        before = asyncio.get_running_loop().time() - IDLE_SECONDS
        for address, link in list(self._links.items()):
            if link.used_at < before:
                link.close()
                del self._links[address]

    async def ask_name_server(
        self, code: int, fields: Mapping[str, object] | None = None, *, what: str, good: tuple[int, ...] = (SUCCESS,)
    ) -> Frame:
        """Return the answer of a name server: of the one that answered last, else of the next."""
        servers = self.settings.name_servers
        failure = EntrepotError(Code.UNAVAILABLE, "no name server of a cluster is configured")
        first = self._name_server
        for turn in range(first, first + len(servers)):
            try:
                answer = await self.ask(servers[turn % len(servers)], code, fields, what=what, good=good)
            except EntrepotError as refusal:
                if refusal.code not in AWAY:
                    raise
                failure = refusal
            else:
                self._name_server = turn % len(servers)
                return answer
        raise failure.with_traceback(None)

    async def ask_all(self, addresses: Mapping[str, str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
        """Return the answers of brokers by their names.  Raises the first refusal of any."""
        answers = await asyncio.gather(*map(ask, addresses.values()), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return dict(zip(addresses, answers, strict=True))  # type: ignore[arg-type]

    # -- routes ------------------------------------------------------------------------------------------------------

    def place(self, address: str) -> str:
        """Return the address to connect to for a broker's own."""
        return self.settings.addresses.get(address, address)

    async def _ask_route(self, topic: str) -> Route:
        resource = self.names.resource(topic)
        if self.is_systems(resource):
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"topic {topic!r} is RocketMQ's own")
        fields = {"topic": resource, "acceptStandardJsonOnly": True}
        answer = await self.ask_name_server(codes.ROUTE, fields, what=f"tell the route of topic {topic!r}")
        known = self.routes.known(topic)
        route = route_of(topic, table(answer.body), self.place, *(() if known is None else (known.type,)))
        # receipts go to a master that has moved without waiting for the next look at all brokers
        self.brokers |= {b.name: b.address for b in route.brokers if b.has_master and b.name in self.brokers}
        return route

    def look_again(self, topic: str) -> None:
        """Ask for a topic's route in the background: an answer, or its absence, has put it in doubt."""

        async def look() -> None:
            with suppress(EntrepotError):
                await self.routes.refresh(topic)

        self.spawn(look())

    def is_systems(self, resource: str) -> bool:
        """True for topics that RocketMQ has for itself, such as the half messages of all producers."""
        if resource.startswith(DEAD_LETTER_PREFIX):
            return False
        is_named = is_rocketmq_topic(resource) or resource.startswith(_SYSTEM_BEGINS) or resource.endswith(_SYSTEM_ENDS)
        return is_named or resource in self.own_names

    async def masters(self) -> dict[str, str]:
        """Ask for all brokers: the address of each one's master, by name.  Raises UNAVAILABLE where there is none."""
        answer = await self.ask_name_server(codes.CLUSTER_INFO, what="tell its brokers")
        told = table(answer.body)
        brokers = told.get("brokerAddrTable") if isinstance(told, dict) else None
        clusters = told.get("clusterAddrTable") if isinstance(told, dict) else None
        named = self.settings.cluster
        listed = (clusters or {}).get(named, ()) if named else (brokers or {})
        found: dict[str, str] = {}
        for name in sorted(listed):
            places = ((brokers or {}).get(name) or {}).get("brokerAddrs") or {}
            if MASTER in places:
                found[name] = self.place(str(places[MASTER]))
        if not found:
            of = f" of cluster {named!r}" if named else ""
            raise EntrepotError(Code.UNAVAILABLE, f"the name servers know no master of a broker{of}")
        self.brokers = found
        self.own_names = {*(brokers or {}), *(clusters or {})}
        return found

    async def address_of(self, broker: str) -> str:
        """Return the address of a broker's master.  Raises UNAVAILABLE."""
        found = self.brokers.get(broker) or (await self.masters()).get(broker)
        if found is None:
            raise EntrepotError(Code.UNAVAILABLE, f"broker {broker!r} has no master now")
        return found

    async def name_of(self, number: int) -> str:
        """Return the broker with a number.  Raises OFFSET_NOT_FOUND."""
        names = self.brokers or await self.masters()
        found = next((name for name in names if broker_number(name) == number), None)
        if found is None:
            raise EntrepotError(Code.OFFSET_NOT_FOUND, f"the cluster has no broker with the number {number}")
        return found

    async def record_at(self, broker: str, commit_log_offset: int) -> Record | None:
        """Return the record at a place in a broker's log, or None.  A broker gives what lies there, whatever it is."""
        good = (SUCCESS, codes.SYSTEM_ERROR, codes.NOT_FOUND)
        fields = {"offset": commit_log_offset}
        answer = await self.ask(await self.address_of(broker), codes.VIEW, fields, what="show a message", good=good)
        records = decode_records(answer.body) if answer.code == SUCCESS else []
        return records[0] if records else None

    # -- local definitions -------------------------------------------------------------------------------------------

    def group(self, name: str) -> ConsumerGroup:
        """Return the known definition of a group, else the defaults."""
        return self.groups.get(name) or replace(self._group_defaults, name=name)

    def group_in_use(self, name: str) -> ConsumerGroup:
        """Return the group, and keep its definition from now on.  Raises ILLEGAL_CONSUMER_GROUP."""
        check_group_name(split_name(name)[1])
        return self.groups.setdefault(name, self.group(name))

    def topic(self, name: str) -> Topic | None:
        """Return a topic's definition from the known routes, or None."""
        route = self.routes.known(name)
        return None if route is None else route.definition

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

    async def close(self) -> None:
        """End all background work, and then the connections."""
        await self.routes.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in self._links.values():
            link.close()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def json_body(value: Any) -> bytes:
    """Return a body of plain JSON."""
    return orjson.dumps(value)
