"""Where a store is, and opening it there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from domain.errors import Code, EntrepotError
from store_client.blocking.reader import BlockingReader
from store_client.blocking.store import BlockingStore
from store_client.remote.opening import RemoteSettings


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Brokers or name servers (`host:port`), or a data directory that no server has open: one of the three.

    `tls`: paths of certificate, key and authority (PEM), empty for none.  `zone`: replicas there are read, where there
    are some.
    """

    brokers: tuple[str, ...] = ()
    name_servers: tuple[str, ...] = ()
    data_dir: str = ""
    cluster: str = ""
    tls: tuple[str, str, str] = ("", "", "")
    seconds: float = 30.0
    zone: str = ""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.brokers, self.name_servers, self.data_dir))) != 1:
            raise EntrepotError(
                Code.BAD_REQUEST, "where is the store? Give brokers, name servers or a data directory, one of the three"
            )

    @property
    def text(self) -> str:
        """For people."""
        return self.data_dir or ",".join(self.brokers or self.name_servers)


def open_reader(location: StoreLocation) -> BlockingReader:
    """A reader of the store.  Raises UNAVAILABLE where no broker answers, StoreFailedError where a server has the
    directory, BAD_REQUEST where there is none."""
    if location.data_dir:
        from store_client.embedded import open_offline

        return open_offline(location.data_dir)
    return open_store(location)


def open_store(location: StoreLocation) -> BlockingStore:
    """The brokers of a store.  Raises UNAVAILABLE where none answers, BAD_REQUEST for a data directory: it is read
    only."""
    if location.data_dir:
        raise EntrepotError(Code.BAD_REQUEST, "a data directory is read only: start a server and name its brokers")
    certificate, key, ca = (Path(path) if path else None for path in location.tls)
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
            tls=(certificate, key, ca),
        ),
        location.seconds,
    )
