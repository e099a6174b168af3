"""Key-values over several brokers: one of them keeps them all (`BrokerInfo.keeps_key_values`).  Versions get the
broker's number, so that versions of two keepers never coincide."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import structlog

from entrepot.broker.remoting.link import ClientStream
from entrepot.domain.broker_of_queue import broker_of_place, local_place
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import ABSENT, MAX_SCAN, KeyValue, KeyValueChange, KeyValueEvent, OnEvents, check_changes
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.forms import world_place
from entrepot.protocols.wire.row import Ask
from entrepot.store_client.remote.broker_client import BrokerClient, unavailable
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.riding import rides
from entrepot.store_client.remote.sent import sent

T = TypeVar("T")
NEVER: Final = (1 << 62) - 1
"""A version that no key ever has."""

SETTLE_SECONDS: Final = 1.0
"""Time for watchers to learn what has changed, once the keeper is back: until then they are as old as before."""
log = structlog.get_logger(__name__)


class RemoteKeyValues:
    """Implements `domain.ports.KeyValues`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watches: set[_Watch] = set()
        self._loop = asyncio.get_running_loop()
        self._stale_since: float | None = self._loop.time()
        self._settling: asyncio.TimerHandle | None = None
        cluster.ready_watchers.append(lambda client, is_ready: self._look())
        cluster.info_watchers.append(self._look)

    def keeper(self) -> BrokerClient:
        """Return the broker that keeps them.  Raises UNAVAILABLE."""
        claims = [c for c in self._cluster.clients.values() if c.info is not None and c.info.keeps_key_values]
        if not claims:
            raise unavailable("the one that keeps key-values is away")
        keeper = min(claims, key=lambda client: (client.number, not client.is_ready))
        keeper.check_ready()
        return keeper

    async def _of_keeper(self, asked: Ask[T]) -> T:
        return await self.keeper().ask(asked)

    get = sent(rows.GET, _of_keeper)

    @rides
    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        limit = min(limit, MAX_SCAN)
        found: list[KeyValue] = []
        while True:
            page = await self.keeper().ask(rows.SCAN.ask(prefix, after=after, limit=limit - len(found)))
            found += page
            if len(found) >= limit or sum(len(each.value) for each in page) < rows.SCAN_BYTES:
                return found
            after = page[-1].key

    @rides
    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        check_changes(changes)
        keeper = self.keeper()
        return await keeper.ask(rows.WRITE.ask([_to_keeper(change, keeper) for change in changes]))

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        watch = _Watch(self, prefix, on_events, on_begun)
        self._watches.add(watch)
        watch.look()

        def stop() -> None:
            self._watches.discard(watch)
            watch.close()

        return stop

    def _settled(self) -> None:
        self._settling, self._stale_since = None, None

    def _is_current(self) -> bool:
        """True if the keeper answers, and is not cut off from its replicas: another one may be elected then."""
        try:
            info = self.keeper().info
        except EntrepotError:
            return False
        return info is not None and not info.problem

    def close(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
        for watch in self._watches:
            watch.close()
        self._watches.clear()

    def age_seconds(self) -> float:
        return 0.0 if self._stale_since is None else self._loop.time() - self._stale_since

    def _look(self) -> None:
        if not self._is_current():
            if self._settling is not None:
                self._settling.cancel()
                self._settling = None
            if self._stale_since is None:
                self._stale_since = self._loop.time()
        elif self._stale_since is not None and self._settling is None:
            self._settling = self._loop.call_later(SETTLE_SECONDS, self._settled)
        for watch in tuple(self._watches):
            watch.look()


def _to_keeper(change: KeyValueChange, keeper: BrokerClient) -> KeyValueChange:
    expected = change.expected_version
    if expected in (None, ABSENT) or (not keeper.number and broker_of_place(expected) == 0):
        return change
    assert expected is not None
    own = local_place(expected) if broker_of_place(expected) == keeper.number else NEVER
    return KeyValueChange(change.key, change.value, own)


class _Watch:
    """One watcher, whichever broker keeps them: it begins anew with each keeper and after each break."""

    def __init__(
        self, key_values: RemoteKeyValues, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]
    ) -> None:
        self._key_values = key_values
        self._prefix, self._on_events, self._on_begun = prefix, on_events, on_begun
        self._keeper: BrokerClient | None = None
        self._is_closed = False
        self._stream: ClientStream | None = None
        self._has_begun = False

    def look(self) -> None:
        """Follow the keeper, if it has changed or is back."""
        if self._is_closed:
            return
        try:
            keeper = self._key_values.keeper()
            if self._stream is not None and keeper is self._keeper:
                return
            if self._stream is not None:
                self._stream.close()
            self._keeper, self._has_begun = keeper, False
            payload = wire.WATCH_KEY_VALUES.encode_arguments(self._prefix)
            self._stream = keeper.link.open_stream(wire.WATCH_KEY_VALUES, payload, self._item, self._ended)
        except EntrepotError:  # retried when a broker comes
            if self._stream is not None:
                self._stream.close()
            self._stream = None

    def close(self) -> None:
        self._is_closed = True
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _ended(self, error: EntrepotError) -> None:
        self._stream = None
        asyncio.get_running_loop().call_soon(self.look)

    def _item(self, payload: bytes) -> None:
        assert wire.WATCH_KEY_VALUES.result is not None
        assert self._keeper is not None
        told: list[KeyValueEvent] = wire.WATCH_KEY_VALUES.result.decode(payload)
        try:
            if not self._has_begun:
                self._has_begun = True
                self._on_begun()
            if told:
                self._on_events([KeyValueEvent(e.key, e.value, world_place(e.version, self._keeper)) for e in told])
        except Exception:  # a fault of the watcher: others go on
            log.exception("a watcher of key-values failed; others go on", prefix=self._prefix)
