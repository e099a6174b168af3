"""Sweeper: the timed work on disconnected sessions: delayed wills, session expiry, and the sessions of dead gateways.

Every gateway renews a key to show that it is alive. The holder of the sweeper's lease does the rest. All of it is
compare-and-set on the records, so that a client that comes back at the same moment wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange, KeyValueEvent
from entrepot.domain.ports import Store
from entrepot.gateway.messaging.compare_and_set import if_unchanged
from entrepot.gateway.messaging.gateway_leases import DECLARED_DEAD, GATEWAY_PREFIX
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.messaging.watched_keys import WatchedKeys
from entrepot.gateway.mqtt.sessions.ending import MAX_TOGETHER, Ending, Endings
from entrepot.gateway.mqtt.sessions.journal import PART
from entrepot.gateway.mqtt.sessions.lifecycle import depart, is_over
from entrepot.gateway.mqtt.sessions.opening import readable
from entrepot.gateway.mqtt.sessions.record import (
    DUE_PREFIX,
    KICK_PREFIX,
    SESSION_PREFIX,
    TAKEN_PREFIX,
    due_key,
    time_in,
)
from entrepot.gateway.mqtt.sessions.wills import PublishWill, Wills
from entrepot.gateway.periodic_work import PeriodicWork

SWEEP_SECONDS: Final = 0.5
ALIVE_SECONDS: Final = 8.0
"""Age of a gateway's key, in seconds, at which it is dead: its connections are gone with it."""
RENEW_SECONDS: Final = 2.0
GRACE_SECONDS: Final = 2 * RENEW_SECONDS
"""Time for others to renew their keys after an outage of the key-values: until then no gateway is taken for dead."""
PAGE: Final = 500
LOOKED_AT: Final = 100
"""Records of one read."""
SWEEPER_KEY: Final = "gateway-sweeper"

log = structlog.get_logger(__name__)


class Sweeper:
    """The sweeper of this gateway, with callbacks for news from others.

    `on_taken(name, epoch)`: another gateway has the session now; its result is done when this one has let go.
    `on_declared_dead`: others took this gateway for dead, and ended its sessions; it returns the gateway's new name.
    `on_kicked(name, ends)`: an operator disconnects a client, and may end its session.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        gateway: str,
        publish_will: PublishWill,
        incidents: Incidents,
        on_taken: Callable[[str, int], Awaitable[None]],
        on_declared_dead: Callable[[], str],
        on_kicked: Callable[[str, bool], None],
        *,
        is_alone: bool,
    ) -> None:
        self._store, self._clock, self._gateway = store, clock, gateway
        self._incidents = incidents
        self.endings = Endings(store, clock, Wills(store, clock, publish_will, incidents), incidents)
        self._on_taken, self._on_declared_dead, self._on_kicked = on_taken, on_declared_dead, on_kicked
        self._is_alone = is_alone
        self._alive_version: int | None = None
        self._renew_at_ms = 0
        self._round_ms = clock.now_ms()
        """Time of the last round that the store answered."""
        self._grace_ends_ms = 0
        self.rounds = PeriodicWork("sessions that are away", SWEEP_SECONDS, self.round)
        self._tasks: list[asyncio.Task[None]] = []
        self._watched: list[WatchedKeys] = []
        self._under_way: set[tuple[str, int]] = set()
        """Keys with their versions that were told and are not deleted yet: a full look tells them again."""

    @property
    def expired(self) -> int:
        """Sessions that were over, since the start."""
        return self.endings.expired

    async def start(self) -> None:
        """Be alive and sweep from here on. Waits while the key-values are away; raises other errors of the store."""
        while True:
            try:
                await self._renew()
                break
            except EntrepotError as error:
                if error.code != Code.UNAVAILABLE or self._store.condition.failure is not None:
                    raise
                log.warning("this gateway cannot be made known yet", problem=error.message)
                await asyncio.sleep(SWEEP_SECONDS)
        self._watch()
        self.rounds.start()

    def _watch(self) -> None:
        self._stop_watching()
        prefixes = [f"{each}{self._gateway}/" for each in (TAKEN_PREFIX, KICK_PREFIX)]
        self._watched = [WatchedKeys(self._store.key_values, prefix, self._told, lambda: ()) for prefix in prefixes]
        for keys in self._watched:
            keys.go_on()

    def _stop_watching(self) -> None:
        for keys in self._watched:
            keys.close()

    async def close(self) -> None:
        """Leave: other gateways sweep this one's rest at once."""
        self._stop_watching()
        await self.rounds.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._store.condition.failure is None:
            try:
                await self._store.key_values.write([KeyValueChange(GATEWAY_PREFIX + self._gateway, DECLARED_DEAD)])
            except EntrepotError as error:
                log.warning("the end of this gateway was not noted", problem=error.message)

    def _told(self, events: Sequence[KeyValueEvent]) -> None:
        done: set[tuple[str, int]] = set()
        giving_up: list[Awaitable[None]] = []
        for event in events:
            told = (event.key, event.version)
            if event.value is not None and told not in self._under_way:
                done.add(told)
                try:
                    self._take(event.key, event.value, giving_up)
                except Exception as fault:  # noqa: BLE001 - a fault of one key: the others are to be taken
                    reason = f"{type(fault).__name__}: {fault}"
                    self._incidents.note(PART, Outcome.SET_ASIDE, reason, place=event.key, fault=fault)
        if done:
            self._under_way |= done
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks.append(background().start("told keys of sessions", self._forget(done, giving_up)))

    def _take(self, key: str, value: bytes, giving_up: list[Awaitable[None]]) -> None:
        name = key.removeprefix(KICK_PREFIX).removeprefix(TAKEN_PREFIX).partition("/")[2]
        if key.startswith(KICK_PREFIX):
            self._on_kicked(name, value == b"end")
        else:
            giving_up.append(self._on_taken(name, int(value)))

    async def _forget(self, done: set[tuple[str, int]], giving_up: list[Awaitable[None]]) -> None:
        """Delete told keys: a gateway that took a session over waits for that, as this one is done with it."""
        await asyncio.gather(*giving_up, return_exceptions=True)
        while self._store.condition.failure is None:
            try:
                await self._store.key_values.write(
                    [KeyValueChange(key, None) for key in sorted({key for key, _ in done})]
                )
                break
            except EntrepotError as error:
                log.debug("told keys stay for a while", problem=error.message)
            except Exception as fault:  # noqa: BLE001 - another gateway waits for it
                background().failed("told keys of sessions", fault)
            await asyncio.sleep(SWEEP_SECONDS)
        self._under_way -= done

    async def round(self) -> None:
        """Renew this gateway's key, and sweep if it has the lease."""
        await self._renew()
        now_ms = self._clock.now_ms()
        if now_ms - self._round_ms > RENEW_SECONDS * 1000:
            self._grace_ends_ms = now_ms + int(GRACE_SECONDS * 1000)
        self._round_ms = now_ms
        if await self._has_lease():
            await self.sweep()
            self._round_ms = self._clock.now_ms()

    # -- who is alive, and who sweeps ----------------------------------------------------------------------------

    async def _renew(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._renew_at_ms:
            return
        key = GATEWAY_PREFIX + self._gateway
        until = str(now_ms + int(ALIVE_SECONDS * 1000)).encode()
        change = KeyValueChange(key, until, self._alive_version)
        version = await if_unchanged(self._store.key_values.write([change]))
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
            self._gateway = self._on_declared_dead()
            self._watch()
            await self._store.key_values.write(
                [KeyValueChange(key, DECLARED_DEAD)]
            )  # sweep again: some sessions came meanwhile
        else:
            self._alive_version = found.version

    async def _has_lease(self) -> bool:
        if self._is_alone:
            return True
        now_ms = self._clock.now_ms()
        [found] = await self._store.key_values.get([SWEEPER_KEY])
        owner, until = _lease(found)
        if owner != self._gateway and now_ms < until:
            return False
        if owner == self._gateway and now_ms < until - int(RENEW_SECONDS * 1000):
            return True
        value = msgspec.msgpack.encode((self._gateway, now_ms + int(ALIVE_SECONDS * 1000)))
        change = KeyValueChange(SWEEPER_KEY, value, 0 if found is None else found.version)
        return await if_unchanged(self._store.key_values.write([change])) is not None

    # -- sweeping ------------------------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Sweep once: first what is due by time, then the rest of dead gateways."""
        await self._sweep_due()
        await self.endings.wills.publish_overdue()
        await self._sweep_dead()

    async def _sweep_due(self) -> None:
        """Look at disconnected sessions that are due, the longest due ones first."""
        now_ms = self._clock.now_ms()
        due: list[tuple[str, str]] = []
        for each in await self._store.key_values.scan(DUE_PREFIX, limit=PAGE):
            if time_in(each.key, DUE_PREFIX) > now_ms:
                break
            due.append((each.key.removeprefix(DUE_PREFIX).partition("/")[2], each.key))
        for start in range(0, len(due), LOOKED_AT):
            await self._look(due[start : start + LOOKED_AT], now_ms)

    async def _look(self, due: list[tuple[str, str]], now_ms: int) -> None:
        """Look at sessions that are due, each with the key that says so."""
        found = await self._store.key_values.get([SESSION_PREFIX + name for name, _ in due])
        endings: dict[str, Ending] = {}
        void: list[KeyValueChange] = []
        for (name, key), value in zip(due, found, strict=True):
            record = None if value is None else readable(name, value)
            if value is None or record is None or record.owner or due_key(record.due_at_ms, name) != key:
                void.append(KeyValueChange(key, None))
                continue
            will = None
            if record.will is not None and (record.will_at_ms <= now_ms or is_over(record, now_ms)):
                will, record.will, record.will_at_ms = record.will, None, 0
            endings[name] = Ending(name, value, record, will, (KeyValueChange(key, None),))
        if void:
            await self._store.key_values.write(void)
        await self.endings.put(list(endings.values()))

    async def _sweep_dead(self) -> None:
        """Sweep the sessions of dead gateways; a gateway that is alone takes all earlier ones for dead."""
        now_ms = self._clock.now_ms()
        if now_ms < self._grace_ends_ms:
            return
        for each in await self._store.key_values.scan(GATEWAY_PREFIX):
            gateway = each.key.removeprefix(GATEWAY_PREFIX)
            if gateway != self._gateway and (self._is_alone or self._is_dead(each, now_ms)):
                log.info("sweeping the sessions of a gateway that is gone", gateway=gateway)
                dead = KeyValueChange(each.key, DECLARED_DEAD, each.version)
                version = await if_unchanged(self._store.key_values.write([dead]))
                if version is None:
                    continue  # alive after all
                await self._sweep_sessions_of(gateway)
                for prefix in (TAKEN_PREFIX, KICK_PREFIX):
                    told = await self._store.key_values.scan(f"{prefix}{gateway}/")
                    await self._store.key_values.write([KeyValueChange(key.key, None) for key in told])
                await if_unchanged(self._store.key_values.write([KeyValueChange(each.key, None, version)]))

    def _is_dead(self, lease: KeyValue, now_ms: int) -> bool:
        if lease.value.isdigit():
            return int(lease.value) < now_ms
        self._incidents.note(PART, Outcome.SET_ASIDE, "a gateway's lease cannot be read", place=lease.key)
        return False

    async def _sweep_sessions_of(self, gateway: str) -> None:
        after = ""
        while page := await self._store.key_values.scan(SESSION_PREFIX, after=after, limit=PAGE):
            endings: list[Ending] = []
            for found in page:
                name = found.key.removeprefix(SESSION_PREFIX)
                record = readable(name, found)
                if record is not None and record.owner == gateway:
                    record.epoch += 1
                    now_ms = self._clock.now_ms()
                    will = depart(record, now_ms, keeps_will=True)
                    if not record.expiry_seconds:
                        record.expires_at_ms = now_ms
                    endings.append(Ending(name, found, record, will))
            for start in range(0, len(endings), MAX_TOGETHER):
                await self.endings.put(endings[start : start + MAX_TOGETHER])
                await self._sweep_due()  # others' time has come meanwhile
                await self._renew()
                await self._has_lease()  # nor does another gateway begin the same
            after = page[-1].key
            await self._renew()


def _lease(found: KeyValue | None) -> tuple[str, int]:
    """(owner, end) of the sweeper's lease."""
    if found is None:
        return "", 0
    owner, until = msgspec.msgpack.decode(found.value, type=tuple[str, int])
    return owner, until
