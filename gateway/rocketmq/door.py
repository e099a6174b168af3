"""RocketMqDoor: the gRPC listener for RocketMQ's clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from entrepot.gateway.door.door import Counters, Door, Work, seconds_to_stop
from entrepot.gateway.door.shown import ConnectedClient, DoorFigures
from entrepot.gateway.messaging.group_consumer import GroupConsumer
from entrepot.gateway.messaging.readiness import reason_unready
from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
from entrepot.gateway.rocketmq.grpc.common_services import common_services
from entrepot.gateway.rocketmq.grpc.server import GrpcServer
from entrepot.gateway.rocketmq.grpc.terms import GrpcTerms
from entrepot.gateway.rocketmq.listener import NAME, grpc_listener
from entrepot.gateway.rocketmq.service import SERVICE, RocketMqService
from entrepot.protocols.grpc.reflection import file_and_imports
from entrepot.protocols.http2.events import Http2Limits
from entrepot.protocols.rocketmq import v2_pb2 as v2

if TYPE_CHECKING:
    from entrepot.gateway.door.parts import Parts
    from entrepot.gateway.transport.certificates import ServerCertificates

DRAIN_ORDER: Final = 20


class RocketMqDoor(Door):
    """The RocketMQ clients of one gateway.  Made only where its listener is bound."""

    name, drain_order = "grpc", DRAIN_ORDER

    def __init__(self, parts: Parts) -> None:
        """Raise OSError for unusable certificates."""
        settings, bound = parts.settings, parts.sockets["grpc"]
        host, port = bound.getsockname()[:2]
        self.frontend = RocketMqFrontend(
            parts.store,
            parts.sender,
            parts.topology,
            parts.security,
            settings.grpc,
            settings.groups,
            parts.clock,
            (host, port),
            parts.member.identity,
        )
        self.service = RocketMqService(self.frontend)
        chosen = settings.grpc
        of_all = common_services(
            SERVICE,
            file_and_imports(v2.DESCRIPTOR),
            lambda: not reason_unready(parts.store, parts.is_ready),
            lambda: self.frontend.is_stopping,
        )
        terms = GrpcTerms(
            {**self.service.methods(), **of_all},
            asyncio.get_running_loop(),
            parts.wheel,
            chosen.max_request_bytes,
            chosen.request_seconds,
            chosen.write_buffer_bytes,
            Http2Limits(streams=chosen.max_streams, preface_seconds=chosen.handshake_timeout_seconds),
        )
        self._server = GrpcServer(terms, NAME)
        self._listeners = grpc_listener(chosen, bound, self._server.converse, parts.wheel, parts.early, parts.data_dir)

    async def open(self) -> None:
        await self.service.start()
        await self._listeners.start()

    async def end_waiting(self, until: float) -> None:
        self.frontend.shut_down()

    async def stop_accepting(self, until: float) -> None:
        self._listeners.stop_accepting()
        await self._server.drain(seconds_to_stop(until))

    def last_work(self) -> Sequence[Work]:
        return (self.service.close,)

    @property
    def certificates(self) -> ServerCertificates | None:
        return self._listeners.certificates

    def counters(self) -> Counters:
        counted = self.frontend.counters
        return {
            "entrepot_rocketmq_calls": ("Calls of RocketMQ clients", lambda: counted.calls),
            "entrepot_rocketmq_refused_calls": (
                "Calls of RocketMQ clients refused as a whole",
                lambda: counted.refused,
            ),
            "entrepot_rocketmq_publishes": ("Messages sent by RocketMQ clients", lambda: counted.published),
            "entrepot_rocketmq_deliveries": ("Messages delivered to RocketMQ consumers", lambda: counted.delivered),
            "entrepot_rocketmq_acknowledgements": (
                "Messages acknowledged by RocketMQ consumers",
                lambda: counted.acknowledged,
            ),
            "entrepot_rocketmq_transaction_checks": (
                "Transaction checks sent to RocketMQ producers",
                lambda: counted.checks,
            ),
        }

    @property
    def connections(self) -> int:
        return self.frontend.counters.clients

    @property
    def protocol(self) -> str:
        return "rocketmq"

    @property
    def figures(self) -> DoorFigures:
        counted = self.frontend.counters
        return DoorFigures(self.connections, counted.published, counted.delivered, counted.refused)

    def clients(self) -> Iterator[ConnectedClient]:
        for each in self.service.clients():
            topics, detail = [name for name, _ in each.topics], f"{each.kind} {each.group}".strip()
            yield ConnectedClient(
                each.client_id, each.user, each.address, each.since_ms, topics, each.in_flight, detail
            )

    async def disconnect(self, client: str, reason: str) -> bool:
        """End its streams, which have no reason; its SDK connects again."""
        return await self.service.disconnect(client) > 0

    def consumers_of(self, group: str) -> list[GroupConsumer]:
        return [
            GroupConsumer(
                "rocketmq",
                client.client_id,
                client.user,
                client.address,
                tuple(topic for topic, _ in client.topics),
                held=client.in_flight,
                detail=client.kind,
            )
            for client in self.service.clients()
            if client.group == group
        ]
