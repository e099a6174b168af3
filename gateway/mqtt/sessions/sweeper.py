"""Sweeper: the timed work on disconnected sessions: delayed wills, session expiry, and the sessions of dead gateways.

One gateway does it for all (`gateway/member`). All of it is compare-and-set on the records, so that a client that comes
back at the same moment wins. Sessions are found by their time, and by the gateway that had them: a round costs
what it does, however many sessions there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange, KeyValueEvent
from entrepot.domain.ports import Store
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.key_values.watched_keys import WatchedKeys
from entrepot.gateway.member.member import Member
from entrepot.gateway.member.sweeping import member_of
from entrepot.gateway.messaging.incidents import Incidents, Outcome
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
    held_key,
    time_in,
)
from entrepot.gateway.mqtt.sessions.wills import PublishWill, Wills
from entrepot.gateway.work.periodic_work import PeriodicWork

SWEEP_SECONDS: Final = 0.5
PAGE: Final = 500
MAX_PAGES: Final = 20
"""Pages of due sessions in one round, behind which gateways' deaths are looked at again."""
LOOKED_AT: Final = 100
"""Records of one read."""

log = structlog.get_logger(__name__)


class Found(NamedTuple):
    """A session: its name and record, and the key by which its gateway held it; None where all sessions are looked
    at."""

    name: str
    record: KeyValue | None
    held: KeyValue | None = None


class Sweeper:
    """The sweeper of this gateway, with callbacks for news from others.

    `on_taken(name, epoch)`: another gateway has the session now; its result is done when this one has let go.
    `on_kicked(name, ends)`: an operator disconnects a client, and may end its session.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        member: Member,
        publish_will: PublishWill,
        incidents: Incidents,
        on_taken: Callable[[str, int], Awaitable[None]],
        on_kicked: Callable[[str, bool], None],
    ) -> None:
        self._store, self._clock, self._incidents, self.member = store, clock, incidents, member
        member.lease.beside.append(lambda incarnation: held_key(incarnation, ""))
        member.leases.on_unreadable.append(self._unreadable)
        member.identity.on_renewed.append(self._watch_anew)
        self.endings = Endings(store, clock, Wills(store, clock, publish_will, incidents), incidents)
        self._on_taken, self._on_kicked = on_taken, on_kicked
        self.rounds = PeriodicWork("sessions that are away", SWEEP_SECONDS, self.round)
        self._tasks: list[asyncio.Task[None]] = []
        self._watched: list[WatchedKeys] = []
        self._under_way: set[tuple[str, int]] = set()
        """Keys with their versions that were told and are not deleted yet: a full look tells them again."""

    @property
    def expired(self) -> int:
        """Sessions that were over, since the start."""
        return self.endings.expired

    def start(self) -> None:
        """Sweep from here on, and hear what others tell of this gateway's sessions."""
        self._watch()
        self.rounds.start()

    def _watch_anew(self, before: str) -> None:
        if self._watched:
            self._stop_watching()
            self._watch()

    def _watch(self) -> None:
        prefixes = [f"{each}{self.member.identity.incarnation}/" for each in (TAKEN_PREFIX, KICK_PREFIX)]
        self._watched = [WatchedKeys(self._store.key_values, prefix, self._told, lambda: ()) for prefix in prefixes]
        for keys in self._watched:
            keys.go_on()

    def _stop_watching(self) -> None:
        watched, self._watched = self._watched, []
        for keys in watched:
            keys.close()

    async def close(self) -> None:
        """Sweep no more."""
        self._stop_watching()
        await self.rounds.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

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
                log.debug("keys that were read could not be deleted; will retry", problem=error.message)
            except Exception as fault:  # noqa: BLE001 - another gateway waits for it
                background().failed("told keys of sessions", fault)
            await asyncio.sleep(SWEEP_SECONDS)
        self._under_way -= done

    async def round(self) -> None:
        """Sweep, if this gateway is the one that does."""
        if self.member.sweeps:
            await self.sweep()

    # -- sweeping ------------------------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Sweep once: first what is due by time, then the rest of dead gateways."""
        await self._sweep_due()
        await self.endings.wills.publish_overdue()
        await self._sweep_dead()

    async def _sweep_due(self) -> None:
        """Look at disconnected sessions that are due, the longest due ones first."""
        now_ms, after = self._clock.now_ms(), ""
        for _ in range(MAX_PAGES):
            page = await self._store.key_values.scan(DUE_PREFIX, after=after, limit=PAGE)
            keys = [each.key for each in page if time_in(each.key, DUE_PREFIX) <= now_ms]
            due = [(key.removeprefix(DUE_PREFIX).partition("/")[2], key) for key in keys]
            for start in range(0, len(due), LOOKED_AT):
                await self._look(due[start : start + LOOKED_AT], now_ms)
            if len(keys) < PAGE:
                return
            after = keys[-1]

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
        """Sweep the sessions of dead gateways."""
        if self.member.is_grace:
            return
        for lease in await self.member.leases.over():
            log.info("sweeping the sessions of a gateway that is gone", gateway=member_of(lease))
            version = await self.member.leases.declare_dead(lease)
            if version is not None:  # else it is alive after all
                await self._sweep_gateway(member_of(lease), version)

    async def _sweep_gateway(self, gateway: str, version: int) -> None:
        """End the sessions of a dead gateway, and then forget it."""
        async for found in self._sessions_of(gateway):
            await self._end_all(gateway, found)
            await self._sweep_due()  # others' time has come meanwhile
            if not self.member.sweeps:
                return  # another gateway goes on
        for prefix in (TAKEN_PREFIX, KICK_PREFIX):
            told = await self._store.key_values.scan(f"{prefix}{gateway}/")
            await self._store.key_values.write([KeyValueChange(key.key, None) for key in told])
        await self.member.leases.forget(gateway, version, [KeyValueChange(held_key(gateway, ""), None)])

    def _unreadable(self, key: str) -> None:
        self._incidents.note(PART, Outcome.SET_ASIDE, "a gateway's lease cannot be read", place=key)

    async def _sessions_of(self, gateway: str) -> AsyncIterator[list[Found]]:
        """The sessions whose connections a gateway had, some at a time: by its keys of held sessions, or among all
        sessions if it is of a version that had none."""
        keys, prefix, after = self._store.key_values, held_key(gateway, ""), ""
        [lists_them] = await keys.get([prefix])
        if lists_them is None:
            while page := await keys.scan(SESSION_PREFIX, after=after, limit=PAGE):
                after = page[-1].key
                for start in range(0, len(page), MAX_TOGETHER):
                    some = page[start : start + MAX_TOGETHER]
                    yield [Found(found.key.removeprefix(SESSION_PREFIX), found) for found in some]
            return
        while page := await keys.scan(prefix, after=after or prefix, limit=MAX_TOGETHER):
            after = page[-1].key
            names = [each.key.removeprefix(prefix) for each in page]
            records = await keys.get([SESSION_PREFIX + name for name in names])
            yield list(map(Found, names, records, page))

    async def _end_all(self, gateway: str, sessions: Sequence[Found]) -> None:
        """End the connections of a dead gateway's sessions; those that it does not have any more are left alone."""
        now_ms = self._clock.now_ms()
        endings: list[Ending] = []
        void: list[KeyValueChange] = []
        for name, found, held in sessions:
            record = None if found is None else readable(name, found)
            if found is None or record is None or record.owner != gateway:
                if held is not None:
                    void.append(KeyValueChange(held.key, None, held.version))
                continue
            record.epoch += 1
            will = depart(record, now_ms, keeps_will=True)
            if not record.expiry_seconds:
                record.expires_at_ms = now_ms
            more = () if held is None else (KeyValueChange(held.key, None),)
            endings.append(Ending(name, found, record, will, more))
        await self.endings.put(endings)
        if void:  # if one is held anew, its gateway lives, and is swept under that name once more
            await if_unchanged(self._store.key_values.write(void))
