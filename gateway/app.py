"""The composition root: builds the parts and the doors, starts them, and stops them in order.

security, topology, sender -> doors -> listeners -> ready

ADR 81: a door is a plug. Invariants: no door opens before the access rules are loaded; the ready file is written
last; a door that fails at its end takes nothing from the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import Store
from entrepot.domain.ports.cluster import Clustered
from entrepot.gateway.door.door import Counters, Door, Work
from entrepot.gateway.door.kind import door_kinds
from entrepot.gateway.door.parts import Parts
from entrepot.gateway.log import lost_lines
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.member.member import Member
from entrepot.gateway.messaging.membership import Memberships
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.peers.place import gateway_name
from entrepot.gateway.process import StopSignal, announce, withdraw
from entrepot.gateway.retained.retained import RetainedMessages
from entrepot.gateway.security.security import Security
from entrepot.gateway.security.setup_token import FILE_NAME
from entrepot.gateway.settings import Settings
from entrepot.gateway.transport.binding import address_of
from entrepot.gateway.transport.certificate_watch import CertificateWatch
from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.gateway.transport.early_bytes import EarlyBytes

if TYPE_CHECKING:
    from entrepot.gateway.amqp.door import AmqpDoor
    from entrepot.gateway.http.door import HttpDoor
    from entrepot.gateway.http.requests.asgi import AsgiApp
    from entrepot.gateway.mqtt.door import MqttDoor

LOG_COUNTERS: Final[Counters] = {
    "entrepot_log_lines_lost": ("Log lines that could not be written: no reader, no room, or closed", lost_lines)
}
LATE_SECONDS: Final = 1.0
"""Time beyond the drain after which a phase of a door's end is given up, in seconds."""
log = structlog.get_logger(__name__)


def _data_dir(settings: Settings, store: Store) -> Path | None:
    """The data directory, or None where the store is not in this process."""
    return None if isinstance(store, Clustered) else settings.store.data_dir


def is_alone_on(store: Store, settings: Settings) -> bool:
    """True if no other gateway can be on the store, nor on the facts beside it."""
    keeper = settings.facts.keeper
    has_shared_facts = keeper is not None and keeper.is_shared
    is_shared = isinstance(store, Clustered) and not settings.rocketmq.name_servers  # that one keeps no facts
    return not (is_shared or has_shared_facts or settings.broker.enabled)


class Gateway:
    """One gateway process: its doors over one store."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        sockets: dict[str, socket.socket],
        origins: Mapping[str, str] = MappingProxyType({}),
        *,
        is_embedded: bool = False,
    ) -> None:
        """`origins`: the origin of each setting that has none by default, by its key. `is_embedded`: in another
        program, which serves `http_app` and has the signals."""
        self.addresses = {door: address_of(listener) for door, listener in sockets.items()}
        self._loop = asyncio.get_running_loop()
        self._stop = None if is_embedded else StopSignal()
        self._is_ready = False
        topology, identity = Topology(store, settings.topics), Identity(gateway_name(settings))
        data_dir = _data_dir(settings, store)
        self.parts = Parts(
            settings,
            store,
            clock,
            Member(store, clock, identity, is_alone=is_alone_on(store, settings)),
            Security(store.key_values, settings.security, clock, None if data_dir is None else data_dir / FILE_NAME),
            topology,
            Sender(store, topology, clock, identity),
            Routes(store, topology, settings.topics.rules),
            Memberships(store, clock, settings.groups),
            RetainedMessages(store, clock, settings.retained_limits),
            DeadlineWheel(self._loop),
            EarlyBytes(settings.server.max_unauthenticated_bytes),
            sockets,
            self.addresses,
            origins,
            lambda: self._is_ready,
            is_embedded,
            random.SystemRandom(),
            LOG_COUNTERS,
            data_dir,
        )
        self.doors = self.parts.doors
        for kind in door_kinds():
            door = kind.opened(self.parts)
            if door is not None:
                self.doors.append(door)
        self._share_queues()
        certificates = [door.certificates for door in self.doors]
        self._certificate_watch = CertificateWatch(
            [each for each in certificates if each is not None], settings.mqtt.tls_reload_seconds
        )

    def _door(self, name: str) -> Door | None:
        return next((door for door in self.doors if door.name == name), None)

    def _share_queues(self) -> None:
        """Let MQTT's shared subscriptions read AMQP's queues."""
        mqtt, amqp = cast("MqttDoor", self._door("mqtt")), cast("AmqpDoor", self._door("amqp"))
        mqtt.shares.queues = amqp.shared_queues

    @property
    def http_app(self) -> AsgiApp | None:
        """The HTTP application; None where that door is not open."""
        http = cast("HttpDoor | None", self._door("http"))
        return None if http is None else http.app.asgi

    @property
    def security(self) -> Security:
        return self.parts.security

    async def start(self, settle: Callable[[], None] = lambda: None) -> None:
        """Open the doors, once access rules are loaded; the ready file is last, `settle` right before it."""
        parts, wait_seconds = self.parts, self.parts.settings.cluster.start_seconds
        await parts.security.start(wait_seconds)
        await parts.member.start()
        await parts.sender.provenance.introduce(parts.member.identity.name)
        await parts.retained.start()
        for door in self.doors:
            await door.start()
        for door in self.doors:
            await door.open()
        self._certificate_watch.start()
        settle()
        self._is_ready = True
        for name, address in self.addresses.items():
            log.info("listening", door=name, address=address)
        announce(parts.settings.server.ready_file, self.addresses)

    async def until_stopped(self) -> int:
        """Wait for a signal (0) or for the store to fail (1)."""
        assert self._stop is not None, "who embeds a gateway ends it"
        return await self._stop.wait(self.parts.store)

    async def drain(self) -> None:
        """Answer waiting requests, let work under way finish, close connections; for at most `drain_seconds`."""
        self._is_ready = False
        parts, doors = self.parts, sorted(self.doors, key=lambda door: door.drain_order)
        end = self._loop.time() + parts.settings.server.drain_seconds
        withdraw(parts.settings.server.ready_file)
        for door in doors:
            await self._end(door, door.end_waiting, end)
        parts.store.consumption.release_waiting()
        parts.memberships.release_waiting()
        self._certificate_watch.close()
        await asyncio.gather(*(self._end(door, door.stop_accepting, end) for door in doors))
        await self._settle(end)
        for door in doors:
            with _survived(door):
                door.say_goodbye()
        for door in doors:
            with _survived(door):
                for work in door.last_work():
                    await self._settle(end, work)
        await self._within(end, self.parts.member.leave())
        for door in doors:
            await self._end(door, door.close, end)
        await self._within(end, self.parts.retained.close())
        self.parts.sender.provenance.close()
        self.parts.security.close()
        self.parts.wheel.close()

    async def _end(self, door: Door, phase: Callable[[float], Awaitable[None]], end: float) -> None:
        """Do a phase of a door's end.  One that fails, or takes longer than the drain, ends no other's."""
        with _survived(door):
            async with asyncio.timeout_at(max(end, self._loop.time()) + LATE_SECONDS):
                await phase(end)

    async def _within(self, end: float, closing: Awaitable[None]) -> None:
        """Close a part; where the drain is over, it has a moment."""
        try:
            async with asyncio.timeout_at(max(end, self._loop.time() + 0.1)):
                await closing
        except TimeoutError:
            pass
        except Exception:
            log.exception("a part did not end as it should")

    async def _settle(self, end: float, work: Work | None = None) -> None:
        """Wait for sent messages to be settled, then do some work, as far as time and the store's state allow."""
        with contextlib.suppress(TimeoutError, EntrepotError):
            async with asyncio.timeout_at(end):
                if self.parts.store.condition.failure is None:
                    await self.parts.sender.settle()
                    if work is not None:
                        await work()


@contextlib.contextmanager
def _survived(door: Door) -> Iterator[None]:
    """A fault of a door, which may be an installed one, is told; the other doors have their ends."""
    try:
        yield
    except Exception:
        log.exception("a door did not end as it should", door=door.name)
