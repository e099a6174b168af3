"""Key-values over several brokers: one of them keeps them all (`BrokerInfo.keeps_key_values`).

Versions get the broker's number, so that those of one keeper are never those of another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from broker.remoting.link import ClientStream
from domain.errors import EntrepotError
from domain.key_value import ABSENT, MAX_SCAN, KeyValue, KeyValueChange, KeyValueEvent, check_changes
from domain.shard import broker_of_place, local_place
from protocols.remoting import operations as wire
from store_client.remote.broker_client import BrokerClient, unavailable
from store_client.remote.cluster import Cluster

NEVER: Final = (1 << 62) - 1
"""A version that no key ever has."""
LOOK_AGAIN_SECONDS: Final = 1.0
"""After a look at all there is that failed."""
OnEvents = Callable[[list[KeyValueEvent]], None]

log = structlog.get_logger(__name__)


class RemoteKeyValues:
    """`domain.ports.KeyValues`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watches: set[_Watch] = set()
        cluster.ready_watchers.append(lambda client, is_ready: self._look())
        cluster.info_watchers.append(self._look)

    def keeper(self) -> BrokerClient:
        """The broker that keeps them.  Raises UNAVAILABLE."""
        claims = [c for c in self._cluster.clients.values() if c.info is not None and c.info.keeps_key_values]
        if not claims:
            raise unavailable("the one that keeps key-values is away")
        keeper = min(claims, key=lambda client: client.number)
        keeper.check_ready()
        return keeper

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        keeper = self.keeper()
        found: list[KeyValue | None] = await keeper.ask(wire.GET, list(keys))
        return [None if each is None else _to_world(each, keeper) for each in found]

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        keeper = self.keeper()
        limit = min(limit, MAX_SCAN)
        found: list[KeyValue] = []
        while True:
            page: list[KeyValue] = await keeper.ask(wire.SCAN, prefix, after, limit - len(found))
            found += [_to_world(each, keeper) for each in page]
            if len(found) >= limit or sum(len(each.value) for each in page) < wire.SCAN_BYTES:
                return found
            after = page[-1].key

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        check_changes(changes)
        keeper = self.keeper()
        version: int = await keeper.ask(wire.WRITE, [_to_keeper(change, keeper) for change in changes])
        return keeper.world_place(version)

    def watch(self, prefix: str, callback: OnEvents) -> Callable[[], None]:
        watch = _Watch(self, prefix, callback)
        self._watches.add(watch)
        watch.look()

        def stop() -> None:
            self._watches.discard(watch)
            watch.close()

        return stop

    def close(self) -> None:
        for watch in self._watches:
            watch.close()
        self._watches.clear()

    def _look(self) -> None:
        for watch in tuple(self._watches):
            watch.look()


def _to_world(found: KeyValue, keeper: BrokerClient) -> KeyValue:
    return KeyValue(found.key, found.value, keeper.world_place(found.version)) if keeper.number else found


def _to_keeper(change: KeyValueChange, keeper: BrokerClient) -> KeyValueChange:
    expected = change.expected_version
    if expected in (None, ABSENT) or (not keeper.number and broker_of_place(expected) == 0):
        return change
    assert expected is not None
    own = local_place(expected) if broker_of_place(expected) == keeper.number else NEVER
    return KeyValueChange(change.key, change.value, own)


class _Watch:
    """One watcher, whoever keeps them.

    What it was told of is remembered by version: when a stream had to be begun anew, what was missed is found by
    looking at all of it, and told as if it had come; so is all of it where the first look was not brought to its end.
    """

    def __init__(self, key_values: RemoteKeyValues, prefix: str, callback: OnEvents) -> None:
        self._key_values = key_values
        self._prefix, self._callback = prefix, callback
        self._keeper: BrokerClient | None = None
        self._stream: ClientStream | None = None
        self._versions: dict[str, int] = {}
        self._fresh: set[str] | None = None
        self._beginnings = 0
        self._has_begun = self._has_looked = False
        self._looking: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Follow the keeper, if it is another than before or is back."""
        try:
            keeper = self._key_values.keeper()
            if self._stream is not None and keeper is self._keeper:
                return
            if self._stream is not None:
                self._stream.close()
            self._keeper, self._has_begun = keeper, False
            payload = wire.WATCH_KEY_VALUES.encode_arguments(self._prefix)
            self._stream = keeper.link.open_stream(wire.WATCH_KEY_VALUES, payload, self._item, self._ended)
        except EntrepotError:
            self._stream = None  # looked for again when a broker comes

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._looking is not None:
            self._looking.cancel()

    def _ended(self, error: EntrepotError) -> None:
        self._stream = None
        if self._looking is not None:
            self._looking.cancel()
        asyncio.get_running_loop().call_soon(self.look)

    def _item(self, payload: bytes) -> None:
        assert wire.WATCH_KEY_VALUES.result is not None
        assert self._keeper is not None
        told: list[KeyValueEvent] = wire.WATCH_KEY_VALUES.result.decode(payload)
        if not self._has_begun:
            self._has_begun = True
            self._beginnings += 1
            if self._looking is not None:
                self._looking.cancel()
            self._looking = asyncio.get_running_loop().create_task(self._catch_up(self._keeper))
        if told:
            self._tell([KeyValueEvent(e.key, e.value, self._keeper.world_place(e.version)) for e in told])

    def _tell(self, events: list[KeyValueEvent]) -> None:
        for event in events:
            if self._fresh is not None:
                self._fresh.add(event.key)
            if event.value is None:
                self._versions.pop(event.key, None)
            else:
                self._versions[event.key] = event.version
        try:
            self._callback(events)
        except Exception:
            log.exception("a watcher of key-values failed", prefix=self._prefix)

    async def _catch_up(self, keeper: BrokerClient) -> None:
        """Look until that succeeds: what is not found now would never be told."""
        while True:
            try:
                return await self._look_at_all(keeper)
            except EntrepotError as error:
                log.warning("key-values cannot be looked at", prefix=self._prefix, problem=error.message)
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _look_at_all(self, keeper: BrokerClient) -> None:
        """Look at all there is; what differs from what is known was missed.  The first time nothing was."""
        self._fresh = set()
        there: set[str] = set()
        events: list[KeyValueEvent] = []
        after = ""
        while page := [_to_world(e, keeper) for e in await keeper.ask(wire.SCAN, self._prefix, after, MAX_SCAN)]:
            for found in page:
                there.add(found.key)
                if found.key not in self._fresh and self._versions.get(found.key) != found.version:
                    events.append(KeyValueEvent(found.key, found.value, found.version))
            after = page[-1].key
        fresh, self._fresh = self._fresh, None
        events = [event for event in events if event.key not in fresh]
        gone = [key for key in self._versions if key not in there and key not in fresh]
        if self._has_looked or self._beginnings > 1:
            self._tell([*events, *(KeyValueEvent(key, None, ABSENT) for key in gone)])
        else:
            self._versions.update((event.key, event.version) for event in events)
        self._has_looked = True
