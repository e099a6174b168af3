"""The location of a store, and opening it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from entrepot.domain.cluster_trust import ClusterTrust
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.tiering import TierAddress
from entrepot.protocols.rocketmq.headers import Credentials
from entrepot.store_client.blocking.clock import SystemClock
from entrepot.store_client.blocking.cold import ColdReader
from entrepot.store_client.blocking.reader import BlockingReader
from entrepot.store_client.blocking.rocketmq import RocketMqReader
from entrepot.store_client.blocking.store import BlockingStore
from entrepot.store_client.remote.opening import RemoteSettings
from entrepot.store_client.rocketmq import RocketMqSettings
from entrepot.store_client.rocketmq.tls import client_tls

ROCKETMQ_IS_READ_ONLY: Final = (
    "a RocketMQ cluster is only read: it keeps no key-values, by which a repeated task finds what it has written. "
    "Send through a gateway, or with a client of RocketMQ"
)


@dataclass(frozen=True, slots=True)
class RocketMqPlace:
    """An Apache RocketMQ cluster.  `name_servers`, `addresses` (places to connect to instead of those that brokers
    tell) and `namespace` as in `RocketMqSettings`.  `access_key`: its secret is in the location's `secret_file`.
    `has_tls`: TLS also without files, by the system's authorities."""

    name_servers: tuple[str, ...]
    namespace: str = ""
    addresses: tuple[tuple[str, str], ...] = ()
    access_key: str = ""
    has_tls: bool = False


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Brokers or name servers (`host:port`), a data directory that no server has open, or RocketMQ: one of the four.

    `tls`: paths of certificate, key and authority (PEM), or empty.  `secret_file`: path of the cluster's secret.
    `zone`: preferred zone of replicas to read.  `tier`: the object store of cold messages; without brokers nothing else
    is read.  `tables`: paths of its tables to read then; empty: all.
    """

    brokers: tuple[str, ...] = ()
    name_servers: tuple[str, ...] = ()
    data_dir: str = ""
    cluster: str = ""
    tls: tuple[str, str, str] = ("", "", "")
    secret_file: str = ""
    seconds: float = 30.0
    zone: str = ""
    tier: TierAddress | None = None
    tables: tuple[str, ...] = ()
    rocketmq: RocketMqPlace | None = None

    def __post_init__(self) -> None:
        given = sum(map(bool, (self.brokers, self.name_servers, self.data_dir, self.rocketmq)))
        if given > 1 or not (given or self.tier):
            text = "Give brokers, name servers, a data directory or RocketMQ's name servers, one of the four"
            raise EntrepotError(Code.BAD_REQUEST, f"where is the store? {text}")
        if self.rocketmq and (self.tier or self.zone):
            text = "RocketMQ's brokers read their tiered storage themselves, and know no zones"
            raise EntrepotError(Code.BAD_REQUEST, f"{text}: leave out tier and zone")
        if self.data_dir and self.tier:
            raise EntrepotError(Code.BAD_REQUEST, "a data directory is read without its tier: leave out one of the two")
        if self.tables and not self.has_tier_only:
            raise EntrepotError(Code.BAD_REQUEST, "brokers know which tables are theirs: tables are for a tier alone")

    @property
    def has_tier_only(self) -> bool:
        """True without brokers: only the object store is read."""
        return self.tier is not None and not (self.brokers or self.name_servers)

    @property
    def text(self) -> str:
        """The location as text."""
        names = self.rocketmq.name_servers if self.rocketmq else self.brokers or self.name_servers
        where = self.data_dir or ",".join(names)
        return where or (self.tier.url if self.tier else "")


def open_reader(location: StoreLocation) -> BlockingReader:
    """Open a reader of the store.  Raises UNAVAILABLE if no broker answers, StoreFailedError if a server has the
    directory, BAD_REQUEST if it does not exist, or files of secret and certificates cannot be used; UNSUPPORTED if
    packages of the tier are missing."""
    if location.data_dir:
        from entrepot.store_client.embedded import open_offline

        return open_offline(location.data_dir)
    if location.has_tier_only:
        from entrepot.store_client.embedded import open_tables

        assert location.tier is not None, "it is all that there is"
        return open_tables(location.tier, location.tables, SystemClock())
    if location.rocketmq is not None:
        return RocketMqReader(_rocketmq_settings(location, location.rocketmq), location.seconds)
    return open_store(location)


def _rocketmq_settings(location: StoreLocation, place: RocketMqPlace) -> RocketMqSettings:
    certificate, key, ca = (Path(path) if path else None for path in location.tls)
    return RocketMqSettings(
        place.name_servers,
        location.cluster,
        place.namespace,
        Credentials(place.access_key, _secret_in(location.secret_file)),
        client_tls(ca, certificate, key, "tls") if place.has_tls or any(location.tls) else None,
        dict(place.addresses),
    )


def _secret_in(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip() if path else ""
    except OSError as error:
        raise EntrepotError(Code.BAD_REQUEST, f"the secret file {path} cannot be read: {error.strerror}") from error


def open_cold(address: TierAddress) -> ColdReader:
    """Open the tables of an object store.  Raises UNSUPPORTED if packages are missing, BAD_REQUEST."""
    from entrepot.store_client import embedded

    return embedded.open_cold(address, SystemClock())


def open_store(location: StoreLocation) -> BlockingStore:
    """Open the brokers of a store.  Raises UNAVAILABLE if none answers, BAD_REQUEST for a data directory or a tier
    alone, and UNSUPPORTED for RocketMQ: these are read-only."""
    if location.rocketmq:
        raise EntrepotError(Code.UNSUPPORTED, ROCKETMQ_IS_READ_ONLY)
    if location.data_dir:
        raise EntrepotError(Code.BAD_REQUEST, "a data directory is read only: start a server and name its brokers")
    if location.has_tier_only:
        raise EntrepotError(Code.BAD_REQUEST, "an object store is read only: name brokers")
    certificate, key, ca, secret = (Path(path) if path else None for path in (*location.tls, location.secret_file))
    return BlockingStore(
        RemoteSettings(
            name_servers=location.name_servers,
            brokers=location.brokers,
            cluster=location.cluster,
            zone=location.zone,
            reads_nearest=bool(location.zone),
            only_reads=True,
            who="job",
            start_seconds=location.seconds,
            trust=ClusterTrust(certificate, key, ca, secret_file=secret),
        ),
        location.seconds,
    )
