"""BridgeLease: the right of one gateway to run a bridge, as a key-value with an end.

Every change is a compare-and-set, so at most one gateway holds an unended lease. The holder counts by its own clock
from before each renewal, and stops a margin before others may take over. Clocks of gateways should differ by less than
that margin. The record also carries the holder's report on the bridge, for the others to show.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT
from entrepot.domain.ports import KeyValues
from entrepot.gateway.bridge.errors import LeaseLostError
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.key_values.watched_table import WatchedTable
from entrepot.gateway.member.identity import Identity

PREFIX: Final = "bridge/"
LEASE_MS: Final = 10_000
RENEW_SECONDS: Final = LEASE_MS / 1000 / 4
MARGIN_MS: Final = 2_000
RETRY_SECONDS: Final = 0.5
"""Pause before a renewal is retried that the store did not answer."""


class LeaseRecord(msgspec.Struct, frozen=True):
    """The key-value: the owner of the bridge, the end of the lease (epoch milliseconds), and the owner's report."""

    owner: str
    until_ms: int
    state: str = ""
    since_ms: int = 0
    last_error: str = ""


Report = Callable[[], tuple[str, int, str]]
"""Report in the record: state, since when (epoch milliseconds), last error."""


class BridgeLease:
    """One bridge's lease, as one gateway sees it."""

    def __init__(self, key_values: KeyValues, clock: Clock, name: str, identity: Identity, report: Report) -> None:
        decode = msgspec.json.Decoder(LeaseRecord).decode
        self._table = WatchedTable(key_values, PREFIX, decode, msgspec.json.encode)
        self._table.on_change.append(self._seen)
        self.close = self._table.close
        self._clock = clock
        self._name = name
        self._identity = identity
        self._report = report
        self._version = ABSENT
        self._held_until_ms = 0
        self._changed = asyncio.Event()

    @property
    def record(self) -> LeaseRecord | None:
        """The record as this gateway knows it."""
        return self._table.get(self._name)

    @property
    def _owner(self) -> str:
        return f"{self._identity.name}-{self._identity.incarnation}"

    @property
    def is_held(self) -> bool:
        """True if this gateway may run the bridge now."""
        return self._clock.now_ms() < self._held_until_ms

    async def acquire(self) -> None:
        """Return when this gateway holds the lease. Raises the store's refusal."""
        await self._table.start()
        while True:
            record = await self._table.look(self._name)
            self._changed.clear()
            wait_ms = 0 if record is None else record.until_ms - self._clock.now_ms()
            if (wait_ms <= 0 or (record is not None and record.owner == self._owner)) and await self._take():
                return
            # A lease far longer than ours comes from a wrong clock: it is looked at again all the same.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(max(wait_ms, 10), LEASE_MS) / 1000)

    async def keep(self) -> None:
        """Renew as long as possible. Raises `LeaseLostError` when the lease is, or may be, lost."""
        wait_seconds = RENEW_SECONDS
        while True:
            remaining = (self._held_until_ms - self._clock.now_ms()) / 1000
            await asyncio.sleep(min(wait_seconds, max(remaining, 0)))
            remaining = (self._held_until_ms - self._clock.now_ms()) / 1000
            if remaining <= 0:
                raise LeaseLostError("the lease could not be renewed in time")
            try:
                async with asyncio.timeout(remaining):
                    await self._write(self._version)
            except EntrepotError as error:
                if error.code is Code.PRECONDITION_FAILED:
                    self._held_until_ms = 0
                    raise LeaseLostError("another gateway has taken the lease") from None
                wait_seconds = RETRY_SECONDS
            except TimeoutError:
                wait_seconds = 0.0
            else:
                wait_seconds = RENEW_SECONDS

    async def release(self) -> None:
        """Release the lease at once, if it is held."""
        if self._version != ABSENT:
            version, self._version, self._held_until_ms = self._version, ABSENT, 0
            with contextlib.suppress(EntrepotError):  # it ends by itself
                await self._table.write([self._table.change(self._name, None, version)])

    async def _take(self) -> bool:
        return await if_unchanged(self._write(self._table.version(self._name))) is not None

    async def _write(self, expected_version: int) -> int:
        until_ms = self._clock.now_ms() + LEASE_MS
        record = LeaseRecord(self._owner, until_ms, *self._report())
        self._version = await self._table.write([self._table.change(self._name, record, expected_version)])
        self._held_until_ms = until_ms - MARGIN_MS
        return self._version

    def _seen(self, name: str, *_: LeaseRecord | None) -> None:
        if name == self._name:
            self._changed.set()
