"""Member: this gateway among the gateways of its cluster.

All doors share one identity, one lease, one table of others.  MQTT's sessions and AMQP's exclusive queues are held
under the incarnation, and swept when the lease is over; questions to all gateways, alarms and pages go by the table.  A
bridge keeps a lease of its own: it has one owner, and another margin (ADR 82).

A gateway is dead by time.  After an outage of the key-values, others get time to renew before any is taken for dead.

Invariants: what a live gateway holds is swept only after it has been declared dead, by compare-and-set; it notices with
its next renewal, and goes on under a new incarnation; who leaves says so, and is swept at once.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.member.lease import RENEW_SECONDS, MemberLease
from entrepot.gateway.member.others import OtherMembers
from entrepot.gateway.member.record import MemberRecord
from entrepot.gateway.member.sweeping import OtherLeases, SweeperLease
from entrepot.gateway.settings.version import own_version
from entrepot.gateway.work.periodic_work import PeriodicWork

LOOK_SECONDS: Final = 0.5
GRACE_SECONDS: Final = 2 * RENEW_SECONDS
"""Time for others to renew their leases after an outage of the key-values: until then no gateway is taken for dead."""

log = structlog.get_logger(__name__)


class Member:
    """This gateway as a member.  `is_alone`: no other gateway is on the store."""

    def __init__(self, store: Store, clock: Clock, identity: Identity, *, is_alone: bool) -> None:
        self._store, self._clock, self.identity, self.is_alone = store, clock, identity, is_alone
        key_values = store.key_values
        self.lease = MemberLease(key_values, clock, identity)
        self.leases = OtherLeases(key_values, clock, identity, is_alone=is_alone)
        self._sweeper = SweeperLease(key_values, clock, identity)
        own = MemberRecord(identity.name, "", own_version(), clock.now_ms())
        self.others = OtherMembers(key_values, clock, identity, self.leases, own)
        self._answered_ms = clock.now_ms()
        """Time of the last look that the store answered."""
        self._grace_ends_ms = 0
        self.is_kept = True
        """False on a store without key-values, which knows no members."""
        self.work = PeriodicWork("lease of this gateway", LOOK_SECONDS, self.look)

    @property
    def sweeps(self) -> bool:
        """True if this gateway is the one that sweeps."""
        return self.is_alone or self._sweeper.is_held

    @property
    def is_grace(self) -> bool:
        """True while a gateway that is silent may be so for an outage of the key-values."""
        return self._clock.now_ms() < self._grace_ends_ms

    async def start(self) -> None:
        """Be alive from here on.  Waits while the key-values are away; raises other errors of the store."""
        while True:
            try:
                await self.look()
                break
            except EntrepotError as error:
                if error.code == Code.UNSUPPORTED:
                    self.is_kept = False
                    return
                if error.code != Code.UNAVAILABLE or self._store.condition.failure is not None:
                    raise
                log.warning("this gateway cannot be made known yet", problem=error.message)
                await asyncio.sleep(LOOK_SECONDS)
        self.work.start()

    async def look(self) -> None:
        """Renew what is due, and note an outage.  Raises what the store raises."""
        await self.renew()
        now_ms = self._clock.now_ms()
        if now_ms - self._answered_ms > RENEW_SECONDS * 1000:
            self._grace_ends_ms = now_ms + int(GRACE_SECONDS * 1000)
        self._answered_ms = now_ms

    async def renew(self) -> None:
        """Renew the leases that are due: this gateway's own, and the sweeper's if it may.  Raises what the store
        raises."""
        await self.lease.renew()
        if not self.is_alone:
            await self._sweeper.contend()

    async def leave(self) -> None:
        """Say that this gateway ends: others sweep its rest, and forget it, at once.  Raises nothing."""
        await self.work.close()
        forgotten = self.others.close()
        if not self.is_kept or self._store.condition.failure is not None:
            return
        try:
            await self._store.key_values.write([self.lease.end(), *forgotten])
            await self._sweeper.release()
        except EntrepotError as error:
            log.warning("could not announce that this gateway is leaving", problem=error.message)
