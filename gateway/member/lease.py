"""MemberLease: the proof in the key-values that a gateway is alive.

One write every two seconds renews it, by compare-and-set on the version of the write before.  A renewal that is refused
says either that our own write of unknown outcome was done, or that the sweeper took this gateway for dead: then what it
held is swept, and it goes on under a new incarnation.

Invariant: a gateway whose lease is over has lost what it holds only once the sweeper has declared it dead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.member.record import DECLARED_DEAD, LEASE_PREFIX

ALIVE_SECONDS: Final = 8.0
"""Age of a gateway's lease, in seconds, at which it is over: its connections are gone with it."""
RENEW_SECONDS: Final = 2.0

log = structlog.get_logger(__name__)


class MemberLease:
    """The lease of one gateway.

    `beside`: keys that doors want to have written together with a new lease, each made of the incarnation.  The sweeper
    deletes them with the lease.
    """

    def __init__(self, key_values: KeyValues, clock: Clock, identity: Identity) -> None:
        self._key_values, self._clock, self._identity = key_values, clock, identity
        self.beside: list[Callable[[str], str]] = []
        self._version: int | None = None
        self._renew_at_ms = 0
        self._owed: list[str] = []
        """Incarnations before, to be swept once more: something of theirs came meanwhile."""

    async def renew(self) -> None:
        """Renew it if that is due.  Raises what the store raises."""
        now_ms = self._clock.now_ms()
        if now_ms < self._renew_at_ms:
            return
        incarnation = self._identity.incarnation
        until = str(now_ms + int(ALIVE_SECONDS * 1000)).encode()
        changes = [KeyValueChange(LEASE_PREFIX + incarnation, until, self._version)]
        if self._version is None:
            changes += self._beside(incarnation)
        owed = tuple(self._owed)
        for before in owed:
            changes += [KeyValueChange(LEASE_PREFIX + before, DECLARED_DEAD), *self._beside(before)]
        version = await if_unchanged(self._key_values.write(changes))
        if version is None:
            await self._refused(incarnation)
            return
        self._owed = self._owed[len(owed) :]
        self._version = version
        self._renew_at_ms = now_ms + int(RENEW_SECONDS * 1000)

    async def _refused(self, incarnation: str) -> None:
        key = LEASE_PREFIX + incarnation
        [found] = await self._key_values.get([key])
        if found is not None and found.value != DECLARED_DEAD:
            self._version = found.version
            return
        log.error("this gateway was silent for too long, and what it held was given up", incarnation=incarnation)
        self._version = None
        self._owed.append(incarnation)
        self._identity.renew()
        await self.renew()  # at once: others take one without a lease for gone

    def _beside(self, incarnation: str) -> list[KeyValueChange]:
        return [KeyValueChange(key_of(incarnation), b"") for key_of in self.beside]

    def end(self) -> KeyValueChange:
        """Return the change by which this gateway leaves: others sweep its rest at once."""
        return KeyValueChange(LEASE_PREFIX + self._identity.incarnation, DECLARED_DEAD)
