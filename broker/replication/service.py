"""ReplicaService: a replica's answers, master or not, to its peers, its slaves, and electors."""

from __future__ import annotations

from typing import Any, Protocol

from entrepot.broker.remoting.listener import ServerChannel, ServerStream
from entrepot.broker.remoting.service import Service
from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.greeting import Greeting
from entrepot.domain.replication.mastership import Appointment, FenceAnswer, Promise
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.connection import Requested
from entrepot.protocols.wire.operations import ReplicaStatus, StoreSeed
from entrepot.protocols.wire.values import encode


class Answering(Protocol):
    """A replica's operations (`process.py`)."""

    async def fence(self, epoch: int, token: str) -> tuple[FenceAnswer | None, Promise | None]: ...

    async def appoint(self, appointment: Appointment) -> None: ...

    async def quiesce(self, replica: int, seconds: float) -> bool: ...

    def status(self) -> ReplicaStatus: ...

    async def health(self) -> tuple[ReplicaStatus, ReplicaStatus | None]: ...

    async def seed(self) -> StoreSeed: ...

    def greeted(self, greeting: Greeting, stream: ServerStream) -> None: ...

    def have(self, replica: int, stream: int, end: int) -> None: ...


class ReplicaService:
    """The service of one replica."""

    def __init__(self, replica: Answering) -> None:
        self._replica = replica

    def install(self, service: Service) -> None:
        service.calls[wire.FENCE] = self._replica.fence
        service.calls[wire.APPOINT] = self._replica.appoint
        service.calls[wire.QUIESCE] = self._replica.quiesce
        service.calls[wire.REPLICA_STATUS] = self._status
        service.calls[wire.REPLICA_HEALTH] = self._replica.health
        service.calls[wire.SEED] = self._replica.seed
        service.streams[wire.REPLICATE] = self._greeted
        service.direct[wire.HAVE] = self._have

    async def _status(self) -> ReplicaStatus:
        return self._replica.status()

    def _greeted(self, stream: ServerStream, *greeting: Any) -> None:
        self._replica.greeted(Greeting(*greeting), stream)

    def _have(self, channel: ServerChannel, request: Requested) -> None:
        assert wire.HAVE.arguments is not None
        try:
            self._replica.have(*wire.HAVE.arguments.decode(request.payload))
        except EntrepotError as error:
            channel.refuse(request.id, error)
        else:
            channel.answer(request.id, encode(None))
