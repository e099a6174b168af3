"""Operating a cluster through a gateway: `domain.cluster.ClusterControl` over the wire."""

from __future__ import annotations

import asyncio

import structlog

from domain.cluster import BrokerStatus
from domain.errors import Code, EntrepotError
from domain.key_value import MAX_SCAN, KeyValue, KeyValueChange
from protocols.remoting import operations as wire
from store_client.remote.broker_client import BrokerClient
from store_client.remote.cluster import Cluster
from store_client.remote.directory import Directory
from store_client.remote.topology import ask_all

PAGE = MAX_SCAN // 10
log = structlog.get_logger(__name__)


class ClusterOperations:
    """What operators do."""

    def __init__(self, cluster: Cluster, directory: Directory) -> None:
        self._cluster = cluster
        self._directory = directory
        self._moving = asyncio.Lock()

    async def close(self) -> None:
        await self._directory.close()

    @property
    def is_available(self) -> bool:
        return bool(self._cluster.ready)

    def name_servers(self) -> dict[str, bool]:
        return self._directory.name_servers()

    async def brokers(self) -> list[BrokerStatus]:
        clients = sorted(self._cluster.clients.values(), key=lambda client: client.number)
        readers = await self._readers()
        return list(await asyncio.gather(*(self._status(client, readers) for client in clients)))

    async def _readers(self) -> wire.Readers:
        """Every group with the topics that it reads anywhere."""
        answers = await ask_all(self._cluster.ready, lambda client: client.ask(wire.READERS))
        return sorted({tuple(each) for _, told in answers if not isinstance(told, EntrepotError) for each in told})

    async def _status(self, client: BrokerClient, readers: wire.Readers) -> BrokerStatus:
        problem, drainage = client.link.problem, None
        try:
            drainage = await client.ask(wire.DRAINAGE, readers)
        except EntrepotError as error:
            problem = error.message
        info = client.info
        if info is not None and not problem:
            problem = info.damage
        return BrokerStatus(
            client.name,
            client.number,
            client.link.address,
            client.zone,
            client.is_ready and drainage is not None,
            client.is_draining if drainage is None else drainage.is_draining,
            info is not None and bool(info.keeps_key_values),
            problem,
            *((drainage.unsettled, drainage.waiting, drainage.unread, drainage.key_values) if drainage else ()),
        )

    def _named(self, name: str) -> BrokerClient:
        for client in self._cluster.clients.values():
            if client.name == name:
                return client
        raise EntrepotError(Code.BAD_REQUEST, f"there is no broker {name!r}")

    async def drain(self, name: str, *, is_draining: bool) -> BrokerStatus:
        client = self._named(name)
        client.check_ready()
        if is_draining:
            others = [c for c in self._cluster.ready if c is not client and not c.is_draining]
            if not others:
                raise EntrepotError(
                    Code.PRECONDITION_FAILED, f"there is no other broker that could take what {name!r} does"
                )
            await client.ask(wire.SET_DRAINING, True)
            if client.info is not None and client.info.keeps_key_values:
                await self._move_key_values(client, min(others, key=_keeps_already))
        else:
            await client.ask(wire.SET_DRAINING, False)
        return await self._status(client, await self._readers())

    async def leave(self, name: str) -> None:
        client = self._named(name)
        client.check_ready()
        try:
            await client.ask(wire.LEAVE, await self._readers())
        except EntrepotError as error:
            if error.code != Code.OUTCOME_UNKNOWN:  # it is gone before it could answer
                raise

    async def _move_key_values(self, old: BrokerClient, new: BrokerClient) -> None:
        """Hand all of them to another broker: none may change meanwhile, and there is always one that has them all.

        Of two that keep them the one with the lower number is asked.  So where this was cut short before `old` gave
        them up, `new` has been asked since, or never was; and it is ended, or begun anew.
        """
        async with self._moving:
            if new.info is not None and new.info.keeps_key_values:
                if new.number < old.number:
                    await old.ask(wire.KEEP_KEY_VALUES, False, 0)
                    return
                await new.ask(wire.KEEP_KEY_VALUES, False, 0)
            token: int = await old.ask(wire.SEAL_KEY_VALUES, 0)
            await new.ask(wire.IMPORT_KEY_VALUES, [], True)
            after, moved = "", 0
            while True:
                await old.ask(wire.SEAL_KEY_VALUES, token)
                page: list[KeyValue] = await old.ask(wire.SCAN, "", after, PAGE)
                if not page:
                    break
                await new.ask(wire.IMPORT_KEY_VALUES, [KeyValueChange(e.key, e.value) for e in page], False)
                after, moved = page[-1].key, moved + len(page)
            await old.ask(wire.SEAL_KEY_VALUES, token)
            await new.ask(wire.KEEP_KEY_VALUES, True, 0)
            await old.ask(wire.KEEP_KEY_VALUES, False, token)
            log.info("key-values moved", count=moved, to=new.name, was=old.name)


def _keeps_already(client: BrokerClient) -> tuple[bool, int]:
    """First the one that a hand-over was begun to."""
    return not (client.info is not None and client.info.keeps_key_values), client.number
