"""A gRPC server of ours in this process, over any methods, on a free port of loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from entrepot.gateway.rocketmq.grpc.call import Method
from entrepot.gateway.rocketmq.grpc.server import GrpcServer
from entrepot.gateway.rocketmq.grpc.terms import GrpcTerms
from entrepot.gateway.rocketmq.listener import NAME, grpc_listener
from entrepot.gateway.settings.grpc import GrpcSettings
from entrepot.gateway.transport.binding import bind
from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.protocols.http2.events import Http2Limits

EARLY_BYTES = 1 << 20


class GrpcSite:
    """The server; settings are those of the door, by their names."""

    def __init__(self, methods: Mapping[bytes, Method], limits: Http2Limits | None = None, **settings: Any) -> None:
        chosen = GrpcSettings.model_validate({"tls": "off", **settings})
        loop = asyncio.get_running_loop()
        self.wheel, self.early = DeadlineWheel(loop), EarlyBytes(EARLY_BYTES)
        self.terms = GrpcTerms(
            methods,
            loop,
            self.wheel,
            chosen.max_request_bytes,
            chosen.request_seconds,
            chosen.write_buffer_bytes,
            limits or Http2Limits(streams=chosen.max_streams, preface_seconds=chosen.handshake_timeout_seconds),
        )
        self.server = GrpcServer(self.terms, NAME)
        listening = bind("127.0.0.1", 0)
        self.port: int = listening.getsockname()[1]
        self._listeners = grpc_listener(chosen, listening, self.server.converse, self.wheel, self.early, None)

    async def start(self) -> None:
        await self._listeners.start()

    async def stop(self, seconds: float) -> None:
        self._listeners.stop_accepting()
        await self.server.drain(seconds)
        self.wheel.close()
