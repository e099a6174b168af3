"""Operating of a cluster through a gateway: `domain.ports.cluster.ClusterControl` over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from entrepot.broker.remoting.link import LinkSettings
from entrepot.domain.backups import BackupStatus
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_SCAN, KeyValueChange
from entrepot.domain.message import Message
from entrepot.domain.ports.cluster import BrokerStatus, ConfirmLevel, ControllerStatus
from entrepot.domain.replication.control import ReplicaChange
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.store_client.remote.asking import ask_all
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.controllers import ControllerClients
from entrepot.store_client.remote.directory import Directory
from entrepot.store_client.remote.electing import WHO, Electing
from entrepot.store_client.remote.replica_views import seen_by_master, seen_by_themselves
from entrepot.store_client.remote.riding import wait_ready
from entrepot.store_client.remote.statuses import ClusterStatuses

PAGE = MAX_SCAN // 10
LOOK_SECONDS: Final = 1.0
"""Longest wait for a connection to a replica that is only looked at."""
FOUND_SECONDS: Final = 5.0
"""Longest wait of an election for this gateway to find the new master."""
log = structlog.get_logger(__name__)


class ClusterOperations:
    """The operators' actions."""

    def __init__(
        self, cluster: Cluster, directory: Directory, links: LinkSettings, controllers: Mapping[int, str]
    ) -> None:
        """`controllers`: host:port by id, from the settings."""
        self._cluster = cluster
        self._links = replace(links, who=WHO)
        self._controllers = ControllerClients(controllers, self._links)
        self._directory = directory
        self._moving = asyncio.Lock()
        statuses = ClusterStatuses(cluster)
        self.topic_statuses = statuses.topics
        self.group_statuses = statuses.groups

    async def close(self) -> None:
        await self._controllers.close()
        await self._directory.close()

    @property
    def is_available(self) -> bool:
        return bool(self._cluster.ready)

    @property
    def confirm_problem(self) -> str:
        told = [client.info for client in self._cluster.ready if client.info is not None]
        if not told or not all(info.problem for info in told):
            return ""
        return "; ".join(f"broker {info.name}: {info.problem}" for info in told)

    def confirm_level(self, messages: Sequence[Message]) -> ConfirmLevel:
        return min((self._level(message) for message in messages), key=lambda level: level.copies)

    def _level(self, message: Message) -> ConfirmLevel:
        info = self._cluster.of_queue(message.topic, message.queue_id).info
        if info is None or message.topic in self._cluster.confirmed_here:
            return ConfirmLevel("async", 1)
        return ConfirmLevel(info.rule, info.copies)

    def name_servers(self) -> dict[str, bool]:
        return self._directory.name_servers()

    async def brokers(self) -> list[BrokerStatus]:
        clients = sorted(self._cluster.clients.values(), key=lambda client: client.number)
        readers = await self._readers()
        return await self._elected(await asyncio.gather(*(self._status(client, readers) for client in clients)))

    async def _elected(self, brokers: Sequence[BrokerStatus]) -> list[BrokerStatus]:
        """Return brokers with their elections, where controllers hold these."""
        elections = await self._controllers.elections()
        return [replace(each, election=elections.get(each.name)) for each in brokers]

    async def _shown(self, name: str) -> BrokerStatus:
        [found] = await self._elected([await self._status(self._named(name), await self._readers())])
        return found

    async def _readers(self) -> wire.Readers:
        """Return every group with the topics that it reads anywhere."""
        answers = await ask_all(self._cluster.ready, lambda client: client.call(wire.READERS))
        return sorted({tuple(each) for _, told in answers if not isinstance(told, EntrepotError) for each in told})

    async def _status(self, client: BrokerClient, readers: wire.Readers) -> BrokerStatus:
        found = as_known(client)
        try:
            drainage: wire.Drainage = await client.call(wire.DRAINAGE, readers)
        except EntrepotError as error:
            found = replace(found, is_available=False, problem=error.message)
        else:
            found = replace(
                found,
                is_draining=drainage.is_draining,
                unsettled=drainage.unsettled,
                waiting=drainage.waiting,
                unread=drainage.unread,
                key_values=drainage.key_values,
            )
        addresses = replicas_of(client)
        if not addresses:
            return found
        async with Electing(addresses, self._links, LOOK_SECONDS) as electing:
            told = await electing.statuses()
        self._learn(told.values())
        return seen_by_themselves(found, addresses, told)

    def _learn(self, told: Iterable[wire.ReplicaStatus]) -> bool:
        """Add the controllers that replicas name; returns True if there are any."""
        named = {address for each in told for address in each.controllers}
        self._controllers.learn(named)
        return bool(named)

    async def replication(self) -> list[BrokerStatus]:
        clients = sorted(self._cluster.clients.values(), key=lambda client: client.number)
        return await self._elected(await asyncio.gather(*map(self._told_by_master, clients)))

    async def _told_by_master(self, client: BrokerClient) -> BrokerStatus:
        found, addresses = as_known(client), replicas_of(client)
        if not addresses or not client.is_ready:
            return found
        try:
            master: wire.ReplicaStatus = await client.call(wire.REPLICA_STATUS)
        except EntrepotError as error:
            return replace(found, is_available=False, problem=error.message)
        self._learn([master])
        return seen_by_master(found, addresses, master)

    async def controllers(self) -> list[ControllerStatus]:
        return await self._controllers.statuses()

    async def change_controllers(self, old: int, new: int, address: str) -> None:
        await self._controllers.change(old, new, address)

    async def elect(
        self, name: str, to: int = 0, without: Sequence[int] = (), *, is_unclean: bool = False
    ) -> BrokerStatus:
        addresses = self._replicas(name, {to, *without} - {0})
        async with Electing(addresses, self._links) as electing:
            if self._learn((await electing.statuses()).values()):
                await self._controllers.elect(name, to, without, is_unclean=is_unclean)
            else:
                await electing.elect(to, without, is_unclean=is_unclean)
        if not self._named(name).is_ready:
            await wait_ready(self._cluster, lambda client: client.name == name, FOUND_SECONDS)
        return await self._shown(name)

    async def change_replica(self, name: str, replica: int, change: ReplicaChange) -> BrokerStatus:
        addresses = self._replicas(name, {replica})
        async with Electing(addresses, self._links) as electing:
            if not self._learn((await electing.statuses()).values()):
                raise EntrepotError(
                    Code.PRECONDITION_FAILED,
                    f"broker {name!r} has no controllers: its replicas are those of its settings (cluster.controllers)",
                )
        await self._controllers.change_replica(name, replica, change)
        return await self._shown(name)

    def _replicas(self, name: str, wanted: set[int]) -> dict[int, str]:
        """Return the addresses of a broker's replicas.  Raises BAD_REQUEST if a wanted one is missing."""
        addresses = replicas_of(self._named(name))
        if not addresses:
            raise EntrepotError(Code.BAD_REQUEST, f"broker {name!r} has no replicas")
        if unknown := sorted(wanted - addresses.keys()):
            raise EntrepotError(Code.BAD_REQUEST, f"broker {name!r} has no replica {unknown[0]}")
        return addresses

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
            await client.call(wire.SET_DRAINING, True)
            if client.info is not None and client.info.keeps_key_values:
                await self._move_key_values(client, min(others, key=_keeps_already))
        else:
            await client.call(wire.SET_DRAINING, False)
        return await self._shown(name)

    async def backup(self, name: str, *, is_to_start: bool) -> BackupStatus:
        found: BackupStatus = await self._named(name).call(wire.BACKUP, is_to_start)
        return found

    async def leave(self, name: str) -> None:
        client = self._named(name)
        client.check_ready()
        try:
            await client.call(wire.LEAVE, await self._readers())
        except EntrepotError as error:
            if error.code != Code.OUTCOME_UNKNOWN:  # it left before it could answer
                raise

    async def _move_key_values(self, old: BrokerClient, new: BrokerClient) -> None:
        """Move all key-values to another broker: none may change meanwhile, and one broker always has them all.  Of two
        keepers the one with the lower number is asked.  So if a move was cut short before `old` gave them up, `new` has
        been asked since, or never was; the move is completed, or begun anew."""
        async with self._moving:
            if new.info is not None and new.info.keeps_key_values:
                if new.number < old.number:
                    await old.call(wire.KEEP_KEY_VALUES, False, 0)
                    return
                await new.call(wire.KEEP_KEY_VALUES, False, 0)
            token: int = await old.call(wire.SEAL_KEY_VALUES, 0)
            await new.call(wire.IMPORT_KEY_VALUES, [], True)
            after, moved = "", 0
            while True:
                await old.call(wire.SEAL_KEY_VALUES, token)
                page = await old.ask(rows.SCAN.ask("", after=after, limit=PAGE))
                if not page:
                    break
                await new.call(wire.IMPORT_KEY_VALUES, [KeyValueChange(e.key, e.value) for e in page], False)
                after, moved = page[-1].key, moved + len(page)
            await old.call(wire.SEAL_KEY_VALUES, token)
            await new.call(wire.KEEP_KEY_VALUES, True, 0)
            await old.call(wire.KEEP_KEY_VALUES, False, token)
            log.info("another broker now owns the key-values", count=moved, to=new.name, was=old.name)


def as_known(client: BrokerClient) -> BrokerStatus:
    """Return a broker's status without asking it."""
    info, problem = client.info, client.link.problem
    return BrokerStatus(
        client.name,
        client.number,
        client.link.address,
        client.zone,
        client.is_ready,
        client.is_draining,
        info is not None and bool(info.keeps_key_values),
        problem or ("" if info is None else info.problem or info.damage),
    )


def replicas_of(client: BrokerClient) -> dict[int, str]:
    """Return the addresses of a broker's replicas by id; empty without replicas."""
    return {} if client.known is None else dict(client.known.replicas)


def _keeps_already(client: BrokerClient) -> tuple[bool, int]:
    """Return the order of targets: first the one that a move was begun to."""
    return not (client.info is not None and client.info.keeps_key_values), client.number
