"""Connections to the gRPC port, which its library accepts, are no more than the process can bear."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
import pytest

from entrepot.domain.descriptors import LEAST_RESERVE, Descriptors
from entrepot.gateway.rocketmq import listener as module
from entrepot.gateway.settings.grpc import GrpcSettings
from entrepot.gateway.transport.binding import reserve
from tests.support.waiting import PATIENCE_SECONDS


def test_they_get_half_of_what_clients_may_have(monkeypatch: pytest.MonkeyPatch):
    found = Descriptors()
    monkeypatch.setattr(module, "descriptors", lambda: found)
    for limit, most in ((400, (400 - LEAST_RESERVE) // 2), (65_536, 32_512), (1 << 30, module.MAX_CONNECTIONS)):
        monkeypatch.setattr(Descriptors, "limit", limit)
        assert module.most_connections() == most
    monkeypatch.setattr(Descriptors, "limit", None)
    assert module.most_connections() == module.MAX_CONNECTIONS


async def test_further_ones_are_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "most_connections", lambda: 5)
    reserved = reserve("127.0.0.1", 0, is_shared=False)
    address = reserved.getsockname()
    handler = grpc.method_handlers_generic_handler("nothing", {})
    listener = module.GrpcListener(GrpcSettings(tls="off"), reserved, handler, lambda *_: None, is_shared=False)
    await listener.start()
    try:
        streams = [await asyncio.open_connection(*address) for _ in range(12)]
        first = await asyncio.wait_for(asyncio.gather(*(reader.read(1) for reader, _ in streams)), PATIENCE_SECONDS)
        assert first.count(b"") == 7
        for _, writer in streams:
            writer.close()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{address[1]}") as channel:
            await asyncio.wait_for(channel.channel_ready(), PATIENCE_SECONDS)  # it tries until there is room
    finally:
        await listener.stop(0)
