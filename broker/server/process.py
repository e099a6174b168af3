"""BrokerProcess: a broker as others see it: the listener of its store, and its registration.

store -> identity -> service and control -> listener -> registration -> keeper of the key-values

ADR 16: several brokers, one store. Invariant: a broker is registered only once its listener takes requests.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from entrepot.broker.backup.running import BackupRun
from entrepot.broker.broker import Broker
from entrepot.broker.metadata.identity import BrokerIdentity, KeptIdentity, open_identity
from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.remoting.listener import RemotingListener
from entrepot.broker.remoting.listener_limits import ListenerLimits
from entrepot.broker.remoting.service import Service
from entrepot.broker.remoting.trust import WireTrust
from entrepot.broker.server.control import BrokerControl
from entrepot.broker.server.definition_log import DefinitionLog
from entrepot.broker.server.registration import Registrar
from entrepot.broker.server.store_service import StoreService
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.clock import Clock
from entrepot.domain.cluster_trust import NO_TRUST, ClusterTrust
from entrepot.domain.errors import EntrepotError, StoreFailedError
from entrepot.domain.route import BrokerInfo
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.authentication import Role

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerProcessSettings:
    """The settings of a broker process. `number` None: derived from the name. `address`: host:port for gateways.
    `keeps_key_values` None: settled with the other brokers."""

    name: str
    address: str
    number: int | None = None
    zone: str = ""
    cluster: str = ""
    name_servers: Sequence[str] = ()
    keeps_key_values: bool | None = None
    register_seconds: float = 600.0
    heartbeat_seconds: float = 1.0
    silence_seconds: float = 5.0
    trust: ClusterTrust = NO_TRUST


@dataclass(frozen=True, slots=True)
class Mastership:
    """A master's term, as in `domain.route.BrokerInfo`. `copies`: the disks that confirm a message at present.
    `problem`: the reason why nothing can be confirmed, in words, or nothing. `has_right_clock`: controllers say so."""

    order: int
    replica: int = 0
    replicas: tuple[tuple[int, str], ...] = ()
    rule: str = "single"
    copies: Callable[[], int] = lambda: 1
    problem: Callable[[], str] = lambda: ""
    has_right_clock: Callable[[], bool] = lambda: False


def make_listener(settings: BrokerProcessSettings, listener: socket.socket, store: BrokerSettings) -> RemotingListener:
    """Return the listener of a broker, which offers nothing yet."""
    window = min(ListenerLimits().window_bytes, store.max_unconfirmed_bytes)
    return RemotingListener(
        Service(),
        listener,
        settings.name,
        settings.cluster,
        WireTrust.of_server(settings.trust),
        ListenerLimits(window_bytes=window),
    )


class BrokerProcess:
    """A server of an opened store. `stopped` is done when it has left (None), or may not be in its cluster (why)."""

    def __init__(
        self,
        broker: Broker,
        settings: BrokerProcessSettings,
        listener: socket.socket | RemotingListener,
        clock: Clock,
        mastership: Mastership | None = None,
    ) -> None:
        """Create the process on its own `listener`, or on that of the replica whose master this is by `mastership`."""
        self._broker, self._settings, self._clock, self._mastership = broker, settings, clock, mastership
        data_dir = broker.core.settings.data_dir
        self.identity: BrokerIdentity = open_identity(data_dir, settings.name, settings.number)
        self.identity.epoch = max(clock.now_ms(), self.identity.epoch + 1)
        self.identity.save(data_dir)
        self._kept = KeptIdentity(data_dir, self.identity, None if mastership is None else broker.key_values)
        self._loop = asyncio.get_running_loop()
        self.stopped: asyncio.Future[EntrepotError | None] = self._loop.create_future()
        self._deletions = DefinitionLog(broker.key_values)
        self.service = StoreService(broker, self._deletions, self.info)
        self._control = BrokerControl(broker, self._kept, self.service, self.info_changed, lambda: self._stop(None))
        self._owns_listener = isinstance(listener, socket.socket)
        self._listener = (
            make_listener(settings, listener, broker.core.settings) if isinstance(listener, socket.socket) else listener
        )
        engine = broker.core.engine
        self._backup = BackupRun(
            broker.core.settings.backup, data_dir, self.identity.name, clock, lambda: engine.confirmed_offset
        )
        self._offer = self._offered()
        self._registrar = Registrar(
            settings.name_servers,
            LinkSettings(
                who=self.identity.name,
                cluster=settings.cluster,
                trust=WireTrust.of_client(settings.trust),
                role=Role.BROKER,
                silence_seconds=settings.silence_seconds,
            ),
            broker,
            self.info,
            register_seconds=settings.register_seconds,
            heartbeat_seconds=settings.heartbeat_seconds,
            on_refused=self._stop,
        )
        self._deciding: asyncio.Task[None] | None = None

    def _offered(self) -> Service:
        """Install its operations in the listener's service."""
        offered = Service()
        self.service.install(offered)
        self._control.install(offered)
        offered.calls[wire.TIME] = self._time
        offered.calls[wire.BACKUP] = self._backup.ask
        self._listener.service.add(offered)
        return offered

    async def _time(self) -> tuple[int, bool]:
        return self._clock.now_ms(), self._mastership is not None and self._mastership.has_right_clock()

    def info(self) -> BrokerInfo:
        """Return the present information on this broker."""
        mastership = self._mastership or Mastership(self.identity.epoch)
        return BrokerInfo(
            self.identity.name,
            self.identity.number,
            self._settings.address,
            self._broker.core.store_id,
            mastership.order,
            self._settings.zone,
            self.identity.is_draining,
            self.identity.keeps_key_values,
            "; ".join(self._broker.condition.damage),
            mastership.replica,
            mastership.replicas,
            mastership.rule,
            mastership.copies(),
            mastership.problem(),
        )

    async def start(self) -> None:
        """Listen, and register."""
        await self._deletions.load()
        await self._kept.load()
        wanted = self._settings.keeps_key_values
        if wanted is not None and wanted != self.identity.keeps_key_values:
            self.identity.keeps_key_values = wanted
            await self._kept.save()
        self.service.info_changed()  # a replica's listener is there before: others may know what was in the file
        if self._owns_listener:
            await self._listener.start()
        self._registrar.start()
        if self.identity.keeps_key_values is None:
            self._deciding = background(self._loop).keep("choice of the key-values' keeper", self._decide)
        log.info(
            "broker started",
            name=self.identity.name,
            number=self.identity.number,
            address=self._settings.address,
            name_servers=list(self._settings.name_servers),
        )

    async def _decide(self) -> None:
        keeps = await self._registrar.decide_keeper(self.identity)
        log.info("this broker owns the key-values" if keeps else "another broker owns them", broker=self.identity.name)
        try:
            await self._control.keep_key_values(keeps)
        except StoreFailedError as error:  # the next master decides; of a broken store others tell
            log.info("could not record who owns the key-values; the next start decides", problem=error.message)

    def watch_replicas(self, refuses: Callable[[], EntrepotError | None]) -> None:
        """Tell nothing that the replicas do not have, and take no messages while `refuses` has a reason."""
        self.service.refuses = refuses
        engine, registry = self._broker.engine, self._broker.registry
        self.service.is_confirmed = lambda: registry.changed_at < engine.confirmed_offset

    def refuse_held(self) -> None:
        """Refuse the messages held back, and all later ones."""
        self.service.refuse_held()
        self._listener.service.withdraw(Service(self._offer.calls, self._offer.streams))

    def info_changed(self) -> None:
        """Tell gateways and name servers the present information on this broker."""
        self.service.info_changed()
        self._registrar.changed()

    def _stop(self, why: EntrepotError | None) -> None:
        if not self.stopped.done():
            self.stopped.set_result(why)

    async def close(self) -> None:
        """Close all connections; a broker that has left announces that, too."""
        self._backup.close()
        await cancel_tasks(self._deciding)
        if self.stopped.done() and self.stopped.result() is None:
            await self._registrar.unregister()
        await self._registrar.close()
        self._broker.consumption.release_waiting()
        self._listener.service.withdraw(self._offer)
        if self._owns_listener:
            await self._listener.close()
