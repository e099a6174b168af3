"""Liveness: this gateway shows that it is alive, and at most one of all gateways sweeps.

Both are leases in the key-values.  Work of its own renews them by time: a sweep of many sessions outlasts a lease.  So
does the death of a gateway count: after an outage of the key-values, others get time to renew before any is taken for
dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValue, KeyValueChange
from entrepot.domain.ports import Store
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.messaging.gateway_leases import DECLARED_DEAD, GATEWAY_PREFIX
from entrepot.gateway.mqtt.sessions.record import held_key
from entrepot.gateway.work.periodic_work import PeriodicWork

LOOK_SECONDS: Final = 0.5
ALIVE_SECONDS: Final = 8.0
"""Age of a gateway's key, in seconds, at which it is dead: its connections are gone with it."""
RENEW_SECONDS: Final = 2.0
GRACE_SECONDS: Final = 2 * RENEW_SECONDS
"""Time for others to renew their keys after an outage of the key-values: until then no gateway is taken for dead."""
SWEEPER_KEY: Final = "gateway-sweeper"

log = structlog.get_logger(__name__)


class Liveness:
    """The leases of this gateway, whose name is `gateway`.

    `on_declared_dead`: others took this gateway for dead, and ended its sessions; it returns the gateway's new name.
    """

    def __init__(
        self, store: Store, clock: Clock, gateway: str, on_declared_dead: Callable[[], str], *, is_alone: bool
    ) -> None:
        self._store, self._clock, self.gateway = store, clock, gateway
        self._on_declared_dead, self._is_alone = on_declared_dead, is_alone
        self._alive_version: int | None = None
        self._renew_at_ms = 0
        self._answered_ms = clock.now_ms()
        """Time of the last look that the store answered."""
        self._grace_ends_ms = self._sweeps_until_ms = 0
        self.work = PeriodicWork("lease of this gateway", LOOK_SECONDS, self.look)

    @property
    def sweeps(self) -> bool:
        """True if this gateway is the one that sweeps."""
        return self._is_alone or self._clock.now_ms() < self._sweeps_until_ms

    @property
    def is_grace(self) -> bool:
        """True while a gateway that is silent may be so for an outage of the key-values."""
        return self._clock.now_ms() < self._grace_ends_ms

    async def start(self) -> None:
        """Be alive from here on. Waits while the key-values are away; raises other errors of the store."""
        while True:
            try:
                await self.look()
                break
            except EntrepotError as error:
                if error.code != Code.UNAVAILABLE or self._store.condition.failure is not None:
                    raise
                log.warning("this gateway cannot be made known yet", problem=error.message)
                await asyncio.sleep(LOOK_SECONDS)
        self.work.start()

    async def close(self) -> None:
        """Leave: other gateways sweep this one's rest at once."""
        await self.work.close()
        if self._store.condition.failure is not None:
            return
        try:
            await self._store.key_values.write([KeyValueChange(GATEWAY_PREFIX + self.gateway, DECLARED_DEAD)])
            [found] = await self._store.key_values.get([SWEEPER_KEY])
            if found is not None and _lease(found)[0] == self.gateway:
                await if_unchanged(self._store.key_values.write([KeyValueChange(SWEEPER_KEY, None, found.version)]))
        except EntrepotError as error:
            log.warning("the end of this gateway was not noted", problem=error.message)

    async def look(self) -> None:
        """Renew what is due, and note an outage. Raises what the store raises."""
        await self.renew()
        now_ms = self._clock.now_ms()
        if now_ms - self._answered_ms > RENEW_SECONDS * 1000:
            self._grace_ends_ms = now_ms + int(GRACE_SECONDS * 1000)
        self._answered_ms = now_ms

    async def renew(self) -> None:
        """Renew the leases that are due: this gateway's own, and the sweeper's if it may. Raises what the store
        raises."""
        await self._renew()
        if not self._is_alone:
            await self._contend()

    async def _renew(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._renew_at_ms:
            return
        key = GATEWAY_PREFIX + self.gateway
        until = str(now_ms + int(ALIVE_SECONDS * 1000)).encode()
        changes = [KeyValueChange(key, until, self._alive_version)]
        if self._alive_version is None:
            changes.append(KeyValueChange(held_key(self.gateway, ""), b""))
        version = await if_unchanged(self._store.key_values.write(changes))
        if version is None:
            await self._renewal_refused(key)
            return
        self._alive_version = version
        self._renew_at_ms = now_ms + int(RENEW_SECONDS * 1000)

    async def _renewal_refused(self, key: str) -> None:
        """Handle a changed key: our own write of unknown outcome, or this gateway was declared dead."""
        [found] = await self._store.key_values.get([key])
        if found is None or found.value == DECLARED_DEAD:
            log.error("this gateway was silent for too long, and its sessions were given up")
            self._alive_version = None
            kept = held_key(self.gateway, "")
            self.gateway = self._on_declared_dead()
            # sweep the old name again: some sessions came meanwhile
            await self._store.key_values.write([KeyValueChange(key, DECLARED_DEAD), KeyValueChange(kept, b"")])
        else:
            self._alive_version = found.version

    async def _contend(self) -> None:
        """Take or renew the sweeper's lease, where that is possible."""
        now_ms = self._clock.now_ms()
        [found] = await self._store.key_values.get([SWEEPER_KEY])
        owner, until = _lease(found)
        if owner != self.gateway and now_ms < until:
            self._sweeps_until_ms = 0
            return
        if owner == self.gateway and now_ms < until - int(RENEW_SECONDS * 1000):
            self._sweeps_until_ms = until
            return
        until = now_ms + int(ALIVE_SECONDS * 1000)
        value, expected = msgspec.msgpack.encode((self.gateway, until)), ABSENT if found is None else found.version
        change = KeyValueChange(SWEEPER_KEY, value, expected)
        version = await if_unchanged(self._store.key_values.write([change]))
        self._sweeps_until_ms = 0 if version is None else until


def _lease(found: KeyValue | None) -> tuple[str, int]:
    """(owner, end) of the sweeper's lease."""
    if found is None:
        return "", 0
    owner, until = msgspec.msgpack.decode(found.value, type=tuple[str, int])
    return owner, until
