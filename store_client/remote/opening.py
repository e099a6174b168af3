"""Opening of a store on other machines."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.clock import Clock, ComparedClock
from entrepot.domain.cluster_trust import NO_TRUST, ClusterTrust
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire.authentication import Role
from entrepot.store_client.remote.clock_comparing import ClockComparing
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.directory import Directory
from entrepot.store_client.remote.operating import ClusterOperations
from entrepot.store_client.remote.store import RemoteStore
from entrepot.store_client.remote.tails import Tails

SETTLE_SECONDS = 3.0
"""Wait for the other known brokers once one is there, before listeners open."""
log = structlog.get_logger(__name__)

"""PEM files for connections between the cluster's processes: certificate, key, authority."""


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """The brokers' addresses, and the settings of connections.  `name_servers` or `brokers` have at least one address.
    `reads_nearest`: slaves of the zone answer reads.  `only_reads`: slaves are enough to start.  `tls`: certificate,
    key and authority (PEM files); with none of them the wire is plain TCP."""

    name_servers: Sequence[str] = ()
    brokers: Sequence[str] = ()
    route_cache: Path | None = None
    cluster: str = ""
    zone: str = ""
    reads_nearest: bool = False
    only_reads: bool = False
    who: str = "gateway"
    start_seconds: float = 30.0
    request_seconds: float = 10.0
    silence_seconds: float = 5.0
    group_defaults: ConsumerGroup = field(default_factory=lambda: ConsumerGroup("defaults"))
    trust: ClusterTrust = NO_TRUST
    controllers: Mapping[int, str] = field(default_factory=dict)
    """host:port by id; those that brokers name are added."""


def client_tls(trust: ClusterTrust) -> Callable[[], ssl.SSLContext | None]:
    """Return the contexts of connections to the cluster's processes, None for plain TCP: another one once its files
    have changed. Raises OSError or ssl.SSLError for unusable files."""
    tls = WireTrust.of_client(trust).tls

    def present() -> ssl.SSLContext | None:
        if tls is None:
            return None
        tls.refresh()
        return tls.present

    return present


async def open_remote(settings: RemoteSettings, clock: Clock) -> RemoteStore:
    """Open a store over the brokers of a cluster, once one of them is there.  Raises BAD_REQUEST without any addresses,
    UNAVAILABLE if none comes within `start_seconds`."""
    if not settings.name_servers and not settings.brokers:
        raise EntrepotError(Code.BAD_REQUEST, "neither name servers nor brokers are given: where is the store?")
    trust = WireTrust.of_client(settings.trust)
    links = LinkSettings(
        who=settings.who,
        cluster=settings.cluster,
        trust=trust,
        role=Role.GATEWAY if trust.secret is None else trust.secret.client_role,
        silence_seconds=settings.silence_seconds,
    )
    cluster = Cluster(
        links,
        clock,
        zone=settings.zone,
        request_seconds=settings.request_seconds,
        reads_nearest=settings.reads_nearest,
    )
    directory = Directory(settings.name_servers, links, cluster.take_routes, settings.route_cache)
    store = RemoteStore(cluster, Tails(cluster, clock), settings.group_defaults)
    store.operations = ClusterOperations(cluster, directory, links, settings.controllers)
    for address in settings.brokers:
        cluster.add(address)
    directory.start()
    if not await _some_broker(cluster, settings.start_seconds, only_reads=settings.only_reads):
        await store.close()
        asked = ", ".join((*settings.name_servers, *settings.brokers))
        raise EntrepotError(Code.UNAVAILABLE, f"no broker was found within {settings.start_seconds:g} s: asked {asked}")
    if isinstance(clock, ComparedClock):
        store.clocks = ClockComparing(cluster, clock)
        await store.clocks.start()
    return store


async def _some_broker(cluster: Cluster, seconds: float, *, only_reads: bool) -> bool:
    """Wait for the first broker, and a moment for the others.  Returns True if there is one."""

    def is_some_there() -> bool:
        return cluster.some_readable if only_reads else bool(cluster.ready)

    changed = asyncio.Event()
    cluster.ready_watchers.append(lambda client, is_ready: changed.set())
    cluster.slaves.watchers.append(lambda name, offer: changed.set())
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not is_some_there() or not all(client.is_ready for client in cluster.clients.values()):
        if is_some_there():
            end = min(end, loop.time() + SETTLE_SECONDS)
        changed.clear()
        try:
            async with asyncio.timeout_at(end):
                await changed.wait()
        except TimeoutError:
            break
    return is_some_there()
