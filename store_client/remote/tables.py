"""Tables that become topics of one of the brokers.  The broker makes the definition, with a revision of this gateway's;
the others are told of it like any other change."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from entrepot.domain.errors import Code, EntrepotError, raise_if
from entrepot.domain.tiering import AttachRequest, RestoreRequest, TableSeen, TableTopic
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.row import Ask
from entrepot.store_client.remote.asking import ask_all
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.cluster import Cluster

TABLE_SECONDS: Final = 120.0
"""Longest wait for a broker to examine a table, which may be large and far away."""
Request = TypeVar("Request", RestoreRequest, AttachRequest)


class RemoteTables:
    """Implements `domain.tiering.TierTables`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def restore(self, request: RestoreRequest) -> TableTopic:
        client = self._client(request.broker)
        return await self._made(client, rows.RESTORE_TOPIC.ask(self._revised(request, client, request.topic)))

    async def look(self, request: AttachRequest) -> TableSeen:
        return await self._client(request.broker).ask(rows.LOOK_AT_TABLE.ask(request), seconds=TABLE_SECONDS)

    async def attach(self, request: AttachRequest) -> TableTopic:
        client = self._client(request.broker)
        return await self._made(client, rows.ATTACH_TOPIC.ask(self._revised(request, client, request.name or "")))

    async def accept(self, topic: str) -> None:
        asked = (
            self._cluster.of_topic(topic) if topic else self._cluster.all_ready("the object store is accepted by all")
        )
        answers = await ask_all(asked, lambda client: client.ask(rows.ACCEPT_TABLE.ask(topic)))
        raise_if(next((answer for _, answer in answers if isinstance(answer, EntrepotError)), None))

    def _client(self, name: str) -> BrokerClient:
        """Return the broker of a name, or the only one.  Raises BAD_REQUEST, UNAVAILABLE."""
        clients = {client.name: client for client in self._cluster.clients.values()}
        if name in clients:
            return clients[name]
        if not name and len(clients) == 1:
            return next(iter(clients.values()))
        text = f"there is no broker {name!r}" if name else "there are several brokers, name one"
        raise EntrepotError(Code.BAD_REQUEST, f"{text}: {', '.join(sorted(clients))}")

    def _revised(self, request: Request, client: BrokerClient, topic: str) -> Request:
        """Return the request with a new revision.  With several brokers the topic is the named one's alone, by
        default."""
        known = self._cluster.definition(topic)
        revision = self._cluster.next_revision(f"topic/{topic}", 0 if known is None else known.revision)
        is_alone = len(self._cluster.clients) == 1
        return replace(request, broker="" if is_alone else client.name, revision=revision)

    async def _made(self, client: BrokerClient, asked: Ask[TableTopic]) -> TableTopic:
        found = await client.ask(asked, seconds=TABLE_SECONDS)
        client.view.took_topic(found.topic)
        self._cluster.merge([found.topic.name], ())
        return replace(found, topic=self._cluster.definition(found.topic.name) or found.topic)
