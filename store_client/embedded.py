"""The store in this process, whose ports are the broker's own; and the processes made of `broker` alone.  The engine is
loaded when a function here is called, so that an import for a name alone never loads it.

ADR 1: rooms and layers. Invariant: no other module of this folder loads the engine.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from entrepot.domain.clock import Clock
from entrepot.domain.cluster_trust import ClusterTrust
from entrepot.domain.errors import Code, EntrepotError, StoreFailedError
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Store
from entrepot.domain.replication.confirmation_rule import Rule
from entrepot.domain.tiering import TierAddress

if TYPE_CHECKING:
    from entrepot.broker.inspect.offline import OfflineStore
    from entrepot.broker.namesrv.server import NameServer as NameServer
    from entrepot.broker.settings.store import BrokerSettings
    from entrepot.broker.tiered.direct import DirectReader
    from entrepot.broker.tiered.objects import ObjectStore
    from entrepot.broker.tiered.offline import OfflineTables
    from entrepot.broker.tiered.verification import TableShown as TableShown
    from entrepot.broker.tiered.verification import Verdict as Verdict

    EmbeddedSettings = BrokerSettings


class ServedBroker(Protocol):
    """A broker process that serves a store to gateways on other machines, perhaps as a replica.  `start` and `close`
    it.  `stopped` is done when it has left its cluster (None), or may not be in it (the reason)."""

    stopped: asyncio.Future[EntrepotError | None]

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class ServedController(Protocol):
    """A controller.  `stopped` is done when it cannot go on, with the reason."""

    stopped: asyncio.Future[EntrepotError]

    async def start(self) -> None: ...

    async def close(self) -> None: ...


def embedded_settings(
    data_dir: Path,
    *,
    segment_size_bytes: int,
    preallocate_bytes: int,
    reserve_bytes: int,
    free_bytes: tuple[int, int, int],
    index_sizes: tuple[int, int],
    tier: dict[str, Any] | None = None,
    backup: dict[str, Any] | None = None,
    **others: Any,
) -> BrokerSettings:
    """Return the broker's settings from plain values; `others` are fields of `BrokerSettings` by name.  `free_bytes`:
    free disk below which it warns, refuses, and clears early.  `index_sizes`: slots and entries of an index file.
    `tier`: fields of `TierSettings` by name; a number kept with the data replaces theirs.  None: no object store.
    `backup`: fields of `BackupSettings` by name."""
    from entrepot.broker.settings.backup import BackupSettings
    from entrepot.broker.settings.store import BrokerSettings
    from entrepot.broker.settings.tier import Missing, Payload, ReadPolicy, TierSettings
    from entrepot.broker.store.index_file import IndexLayout
    from entrepot.broker.store.log_reading import CommitLogLayout
    from entrepot.broker.store.watermarks import DiskWatermarks

    changed: dict[str, Any] = {}
    if tier is not None:
        changed = {"number": _number_of(data_dir, tier["number"])}
        changed |= {"read": ReadPolicy(tier["read"]), "payload": Payload(tier["payload"])}
        changed["missing"] = Missing(tier["missing"])
    return BrokerSettings(
        data_dir,
        layout=CommitLogLayout(segment_size_bytes, preallocate_bytes, reserve_bytes),
        watermarks=DiskWatermarks(*free_bytes),
        index=IndexLayout(*index_sizes),
        tier=None if tier is None else TierSettings(**tier | changed),
        backup=BackupSettings(**backup or {}),
        **others,
    )


def _number_of(data_dir: Path, number: int) -> int:
    """Return the number that a data directory was served with, or else `number`.  Rows of its tables have it: another
    one would upload all of them again."""
    from entrepot.broker.metadata.identity import number_kept

    kept = number_kept(data_dir)
    return number if kept is None else kept


async def open_embedded(settings: BrokerSettings, clock: Clock) -> Store:
    """Open the data directory.  Raises StoreFailedError or CorruptedError with the reason."""
    from entrepot.broker.broker import Broker

    return await Broker.open(settings, clock)


def serve_embedded(
    store: Store, listener: socket.socket, clock: Clock, *, trust: ClusterTrust, **others: Any
) -> ServedBroker:
    """Return a broker process that serves an embedded store to gateways on other machines.  `trust`: of the
    cluster.  `others`: fields of `BrokerProcessSettings` by name.  Raises StoreFailedError if the data directory
    belongs to another broker."""
    from entrepot.broker.broker import Broker
    from entrepot.broker.server.process import BrokerProcess, BrokerProcessSettings

    assert isinstance(store, Broker), "only a store in this process can be served"
    return BrokerProcess(store, BrokerProcessSettings(trust=trust, **others), listener, clock)


def make_replica(
    settings: BrokerSettings,
    listener: socket.socket,
    clock: Clock,
    *,
    replica: int,
    addresses: dict[int, str],
    rule: Rule,
    observers: frozenset[int],
    rates: tuple[int, int],
    controllers: tuple[str, ...],
    lease: float,
    elects_async: bool,
    trust: ClusterTrust,
    **others: Any,
) -> ServedBroker:
    """Return a replica of a broker group, with its data directory open.  `rates`: bytes a second of comparing and of
    copying.  `controllers`, `lease` (seconds) and `elects_async`: as in `GroupSettings`.  `others`: fields of
    `BrokerProcessSettings`.  Raises StoreFailedError, CorruptedError."""
    from entrepot.broker.replication.peers import GroupSettings
    from entrepot.broker.replication.process import ReplicaProcess
    from entrepot.broker.server.process import BrokerProcessSettings

    process = BrokerProcessSettings(trust=trust, **others)
    group = GroupSettings(replica, addresses, rule, observers, *rates, controllers, lease, elects_async)
    return ReplicaProcess(settings, process, group, listener, clock)


def open_offline(data_dir: str) -> OfflineStore:
    """Open the messages of a data directory that no server has open.  Raises BAD_REQUEST if it does not exist,
    StoreFailedError while a server has it, CorruptedError."""
    from entrepot.broker.inspect.offline import OfflineStore
    from entrepot.broker.inspect.verification import NotAStoreError

    try:
        return OfflineStore(data_dir)
    except NotAStoreError as error:
        raise EntrepotError(Code.BAD_REQUEST, str(error)) from error


def encoded_record(message: StoredMessage) -> bytes:
    """Return a stored message as its record lies in a log of ours (`protocols.wire.records`).  Raises struct.error for
    a field that is longer than a record allows, MESSAGE_PROPERTIES_TOO_LARGE."""
    from entrepot.broker.cold.records import record_of

    return record_of(message)


def tables_shown(url: str, options: dict[str, Any], clock: Clock) -> Iterator[TableShown]:
    """Yield the tables of an object store, without a broker.  `options`: by the names of `StoreOptions`.  Raises
    BAD_REQUEST, UNSUPPORTED if packages are missing, UNAVAILABLE if the store is away."""
    objects = _objects(url, options)
    from entrepot.broker.tiered.verification import roots, show

    for root in roots(objects):
        yield show(objects, root, clock)


def tables_verified(url: str, options: dict[str, Any], clock: Clock, *, is_full: bool) -> Iterator[Verdict]:
    """Yield the tables with their faults.  `is_full`: all rows are read.  Otherwise as `tables_shown`."""
    objects = _objects(url, options)
    from entrepot.broker.tiered.verification import roots, verify

    for root in roots(objects):
        yield verify(objects, root, clock, is_full=is_full)


def _objects(url: str, options: dict[str, Any]) -> ObjectStore:
    from entrepot.broker.settings.tier import check_installed
    from entrepot.broker.tiered.opening_store import open_objects
    from entrepot.broker.tiered.store_options import StoreOptions

    try:
        check_installed()
    except StoreFailedError as missing:
        raise EntrepotError(Code.UNSUPPORTED, missing.message) from None
    return open_objects(url, StoreOptions(**options))


def open_cold(address: TierAddress, clock: Clock) -> DirectReader:
    """Open the tables of an object store, read by their columns.  Raises UNSUPPORTED, BAD_REQUEST."""
    objects = _objects(address.url, _options_of(address))
    from entrepot.broker.tiered.direct import DirectReader

    return DirectReader(objects, address, clock)


def open_tables(address: TierAddress, tables: Sequence[str], clock: Clock) -> OfflineTables:
    """Open the messages of an object store, without a broker.  `tables`: paths of the tables to read; empty: all.
    Raises UNSUPPORTED, BAD_REQUEST."""
    objects = _objects(address.url, _options_of(address))
    from entrepot.broker.tiered.offline import OfflineTables

    return OfflineTables(objects, address, clock, tables)


def _options_of(address: TierAddress) -> dict[str, Any]:
    return {
        "endpoint": address.endpoint or None,
        "region": address.region or None,
        "allow_http": address.allow_http,
    }


def make_name_server(listener: socket.socket, *, trust: ClusterTrust, lease_seconds: float, cluster: str) -> NameServer:
    """Return a name server behind a listening socket."""
    from entrepot.broker.namesrv.server import NameServer

    return NameServer(listener, lease_seconds=lease_seconds, cluster=cluster, trust=trust)


def make_controller(
    listening: socket.socket | NameServer,
    clock: Clock,
    *,
    controller: int,
    addresses: dict[int, str],
    data_dir: Path,
    lease: float,
    cluster: str,
    silence_seconds: float,
    trust: ClusterTrust,
) -> ServedController:
    """Return a controller, with its data directory open.  `listening`: a listening socket, or a name server to share.
    `addresses`: those of all controllers, by id.  `lease`: seconds of silence after which a master is replaced.  In a
    name server it is `stopped` if its directory cannot be opened; else that raises StoreFailedError, OSError."""
    from entrepot.broker.controller.listener import BrokenController, OwnListener, SharedListener, links_of, options_of
    from entrepot.broker.controller.process import ControllerServer, ControllerSettings
    from entrepot.broker.store.store_files import DirectoryInUseError

    settings = ControllerSettings(controller, addresses, data_dir, cluster, options_of(lease))
    links = links_of(controller, cluster, lease, silence_seconds, trust)
    try:
        server = ControllerServer(settings, links, clock)
    except (OSError, EntrepotError) as error:
        if isinstance(listening, socket.socket) or isinstance(error, DirectoryInUseError):
            raise  # the process ends, and is started again
        told = error if isinstance(error, EntrepotError) else StoreFailedError(f"the controller's disk: {error}")
        return BrokenController(controller, told, listening.service)
    if isinstance(listening, socket.socket):
        return OwnListener(server, listening, cluster, trust)
    return SharedListener(server, listening.service)
