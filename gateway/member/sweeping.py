"""Sweeping: the leases that are over, and the one member that looks after what they leave.

Invariants: at most one gateway holds the sweeper's lease, and two that think so end nothing twice, since each end is
a compare-and-set; a gateway that renews its lease at the last moment is not swept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from entrepot.domain.callbacks import call_each
from entrepot.domain.clock import Clock
from entrepot.domain.key_value import ABSENT, KeyValue, KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.member.lease import ALIVE_SECONDS, RENEW_SECONDS
from entrepot.gateway.member.record import (
    DECLARED_DEAD,
    LEASE_PREFIX,
    SWEEPER_KEY,
    SweeperRecord,
    lease_end,
    sweeper_of,
)

LEASE_MS: Final = int(ALIVE_SECONDS * 1000)
RENEW_MS: Final = int(RENEW_SECONDS * 1000)


class SweeperLease:
    """The lease of the member that sweeps, as one gateway sees it."""

    def __init__(self, key_values: KeyValues, clock: Clock, identity: Identity) -> None:
        self._key_values, self._clock, self._identity = key_values, clock, identity
        self._until_ms = 0

    @property
    def is_held(self) -> bool:
        """True if this gateway is the one that sweeps."""
        return self._clock.now_ms() < self._until_ms

    async def contend(self) -> None:
        """Take or renew the lease, where that is possible.  Raises what the store raises."""
        now_ms, mine = self._clock.now_ms(), self._identity.incarnation
        [found] = await self._key_values.get([SWEEPER_KEY])
        present = sweeper_of(found)
        if present.incarnation != mine and now_ms < present.until_ms:
            self._until_ms = 0
            return
        if present.incarnation == mine and now_ms < present.until_ms - RENEW_MS:
            self._until_ms = present.until_ms
            return
        record = SweeperRecord(mine, now_ms + LEASE_MS)
        expected = ABSENT if found is None else found.version
        change = KeyValueChange(SWEEPER_KEY, msgspec.msgpack.encode(record), expected)
        version = await if_unchanged(self._key_values.write([change]))
        self._until_ms = 0 if version is None else record.until_ms

    async def release(self) -> None:
        """Release the lease, if it is held.  Raises what the store raises."""
        self._until_ms = 0
        [found] = await self._key_values.get([SWEEPER_KEY])
        if found is not None and sweeper_of(found).incarnation == self._identity.incarnation:
            await if_unchanged(self._key_values.write([KeyValueChange(SWEEPER_KEY, None, found.version)]))


class OtherLeases:
    """The leases of the other members.  A gateway that is alone on its store takes all others for dead."""

    def __init__(self, key_values: KeyValues, clock: Clock, identity: Identity, *, is_alone: bool) -> None:
        self._key_values, self._clock, self._identity, self._is_alone = key_values, clock, identity, is_alone
        self.on_unreadable: list[Callable[[str], object]] = []
        """Callbacks for the key of a lease that tells no time: its gateway is not taken for dead."""

    async def over(self) -> list[KeyValue]:
        """Return the leases whose time is over.  Raises what the store raises."""
        now_ms, mine = self._clock.now_ms(), LEASE_PREFIX + self._identity.incarnation
        found = await self._key_values.scan(LEASE_PREFIX)
        return [each for each in found if each.key != mine and (self._is_alone or self._is_over(each, now_ms))]

    def _is_over(self, lease: KeyValue, now_ms: int) -> bool:
        end = lease_end(lease.value)
        if end is None:
            call_each(self.on_unreadable, lease.key)
            return False
        return end < now_ms

    async def declare_dead(self, lease: KeyValue) -> int | None:
        """End a lease for good; return its version, or None where the gateway is alive after all."""
        change = KeyValueChange(lease.key, DECLARED_DEAD, lease.version)
        return await if_unchanged(self._key_values.write([change]))

    async def forget(self, member: str, version: int, more: Sequence[KeyValueChange]) -> None:
        """Delete a dead member's lease, and what is told beside it, unless it has come back meanwhile."""
        await if_unchanged(self._key_values.write([KeyValueChange(LEASE_PREFIX + member, None, version), *more]))

    async def gone(self, members: Collection[str]) -> set[str]:
        """Return those of some other members that have left, or were declared dead."""
        names = sorted(members)
        if self._is_alone or not names:
            return set(names)
        found = await self._key_values.get([LEASE_PREFIX + name for name in names])
        return {name for name, kept in zip(names, found, strict=True) if kept is None or kept.value == DECLARED_DEAD}


def member_of(lease: KeyValue) -> str:
    """Return the incarnation whose lease this is."""
    return lease.key.removeprefix(LEASE_PREFIX)
