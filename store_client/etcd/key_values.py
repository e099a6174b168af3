"""EtcdKeyValues: the port `KeyValues` on etcd v3, for several gateways that share facts.

A version is the revision of etcd's store; writes that went together (`combining`) have one.  A read of several keys,
and a write, is one transaction.  Members answer linearizably.  `requests` makes the messages, `members` asks,
`refusals` says what a failed call means, `watching` tells changes, `currency` their age, and `opening` refuses an etcd
that breaks promises.

ADR 85: facts in etcd.  Invariants: a write that may have been done is told as OUTCOME_UNKNOWN and never repeated here;
a call is answered after the beginning of each watch asked for before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents, check_changes
from entrepot.protocols.etcd import kv_pb2 as kv
from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd.calls import RANGE, TRANSACTION
from entrepot.store_client.etcd.combining import Combined
from entrepot.store_client.etcd.currency import Currency
from entrepot.store_client.etcd.members import Compacted, Members
from entrepot.store_client.etcd.requests import (
    Keys,
    conditions_of,
    end_of,
    first_conflict,
    found_in,
    reads,
    transaction,
    write_seconds,
)
from entrepot.store_client.etcd.settings import EtcdSettings
from entrepot.store_client.etcd.watching import Watch

GROUP: Final = 100
"""Keys of one transaction of reads."""
FIRST_PAGE: Final = 32
PAGE_GROWTH: Final = 4
PAGE_BYTES: Final = 4 << 20
"""Keys of a scan's first page, growth of its pages, and about the bytes of the largest: etcd limits no answer."""
TRIES: Final = 3
"""Reads at one revision begin anew where it is compacted away meanwhile."""


class EtcdKeyValues:
    """Implements `domain.ports.KeyValues`.  To be made on a running event loop, by `open_etcd`, which checks the
    members."""

    def __init__(self, settings: EtcdSettings, members: Members | None = None) -> None:
        self._settings = settings
        self._keys = Keys(settings.root)
        self._members = members or Members(settings)
        self._combined = Combined(self._ask_to_write)
        self._watches: set[Watch] = set()
        self._members.left.append(self._left)
        self._currency = Currency(self._members, self._keys, self._watches, settings.probe_seconds)

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        await self._watches_begun()
        found = await self._found([self._keys.stored(key) for key in keys])
        return [
            None if kept is None else KeyValue(key, kept.value, kept.mod_revision)
            for key, kept in zip(keys, found, strict=True)
        ]

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        await self._watches_begun()
        for _ in range(TRIES):
            try:
                return [self._keys.value(kept) for kept in await self._scanned(prefix, after, min(limit, MAX_SCAN))]
            except Compacted:
                continue
        raise _compacted()

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        check_changes(changes)
        question = transaction(changes, self._keys)
        await self._watches_begun()
        answer = await self._combined.write(question, [self._keys.stored(change.key) for change in changes])
        if answer.succeeded:  # of absent keys alone that are deleted, this is the revision of the last write
            return answer.header.revision
        conditions = conditions_of(changes)
        if answer.responses:
            raise first_conflict(conditions, found_in(answer.responses))
        raise await self._conflict(conditions, answer.header.revision)

    def age_seconds(self) -> float:
        """As of the port; 0.0 stands for up to two and a half intervals of probes."""
        return self._currency.age_seconds()

    @property
    def failure(self) -> EntrepotError | None:
        """None: an etcd that is away may come back."""
        return None

    @property
    def damage(self) -> list[str]:
        """Nothing: etcd's files are its own affair."""
        return []

    def gauges(self) -> dict[str, float]:
        return {
            "facts_age_seconds": self.age_seconds(),
            "facts_calls": float(self._members.asked),
            "facts_failed_calls": float(self._members.refused),
            "facts_moves": float(self._members.turn),
            "facts_waiting_writes": float(self._combined.waiting),
        }

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        watch = Watch(self._members, self._keys, prefix, on_events, on_begun)
        self._watches.add(watch)

        def stop() -> None:
            self._watches.discard(watch)
            watch.close()

        return stop

    async def close(self) -> None:
        """Stop watching, and close the connections."""
        self._currency.close()
        self._combined.close()
        for watch in self._watches:
            watch.close()
        self._watches.clear()
        await self._members.close()

    # ------------------------------------------------------------------------------------------------------------

    async def _ask_to_write(self, question: pb.TxnRequest) -> pb.TxnResponse:
        seconds = write_seconds(question, self._settings.request_seconds)
        return await self._members.ask(TRANSACTION, question, seconds, is_write=True)

    async def _watches_begun(self) -> None:
        """Wait until watches asked for before have begun, or failed once: streams and calls have no order in etcd."""
        for watch in [each for each in self._watches if not each.tried.is_set()]:
            await watch.tried.wait()

    def _left(self) -> None:
        for watch in tuple(self._watches):  # a member that answers no calls tells no changes either
            watch.move()

    async def _found(
        self, keys: Sequence[bytes], revision: int = 0, *, keys_only: bool = False
    ) -> list[kv.KeyValue | None]:
        """Return key-values, all of one revision; 0: the newest."""
        for _ in range(TRIES):
            try:
                return await self._grouped(keys, revision, keys_only)
            except Compacted:
                continue
        raise _compacted()

    async def _grouped(self, keys: Sequence[bytes], revision: int, keys_only: bool) -> list[kv.KeyValue | None]:
        found: list[kv.KeyValue | None] = []
        size = GROUP
        while len(found) < len(keys):
            group = keys[len(found) : len(found) + size]
            answer = await self._members.ask(TRANSACTION, reads(group, revision, keys_only=keys_only))
            revision = revision or answer.header.revision
            found += found_in(answer.responses)
            size = _next_page(size, len(group), answer.ByteSize(), GROUP)
        return found

    async def _scanned(self, prefix: str, after: str, limit: int) -> list[kv.KeyValue]:
        start, end = self._keys.stored(prefix), end_of(self._keys.stored(prefix))
        if after and (behind := self._keys.stored(after) + b"\0") > start:
            start = behind
        found: list[kv.KeyValue] = []
        size, revision = FIRST_PAGE, 0
        while len(found) < limit and start < end:
            question = pb.RangeRequest(key=start, range_end=end, limit=min(size, limit - len(found)), revision=revision)
            answer = await self._members.ask(RANGE, question)
            revision = revision or answer.header.revision
            found += answer.kvs
            if not answer.more:
                break
            start = answer.kvs[-1].key + b"\0"
            size = _next_page(size, len(answer.kvs), answer.ByteSize(), MAX_SCAN)
        return found

    async def _conflict(self, conditions: Sequence[KeyValueChange], revision: int) -> EntrepotError:
        """Return the refusal of a large write, which etcd was not told to explain."""
        keys = [self._keys.stored(change.key) for change in conditions]
        try:
            return first_conflict(conditions, await self._found(keys, revision, keys_only=True))
        except EntrepotError:  # the refusal itself is certain
            return EntrepotError(Code.PRECONDITION_FAILED, "a condition of the write does not hold")


def _next_page(size: int, count: int, size_bytes: int, largest: int) -> int:
    """Return the size of the next page: larger, but by the mean of the last one within `PAGE_BYTES`."""
    fitting = PAGE_BYTES * count // max(size_bytes, 1)
    return max(min(size * PAGE_GROWTH, fitting, largest), 1)


def _compacted() -> EntrepotError:
    return EntrepotError(Code.UNAVAILABLE, "etcd compacts each revision away before it is read to its end")
