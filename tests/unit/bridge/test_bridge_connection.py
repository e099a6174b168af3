"""A connection to a remote that does not keep to what it was told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from entrepot.gateway.bridge.connection import RemoteConnection
from entrepot.gateway.settings.bridge import BridgeRemote, BridgeRule
from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connack, Connect, Publish
from entrepot.protocols.mqtt.properties import PropertyId

MOST = 4096


class Remote:
    """It accepts one connection, and sends these bytes."""

    def __init__(self, version: int, sent: bytes) -> None:
        self.version, self._sent = version, sent
        self.connect: Connect | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = Decoder(1 << 20, self.version)
        while self.connect is None:
            for packet in decoder.feed(await reader.read(65_536)):
                assert isinstance(packet, Connect)
                self.connect = packet
        writer.write(encode(Connack(), self.version) + self._sent)
        await reader.read()
        writer.close()


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("size", [MOST - 200, MOST + 1])
async def test_a_packet_beyond_the_size_that_was_announced(version: Any, size: int) -> None:
    whole = encode(Publish("a/b", bytes(size)), version)
    remote = Remote(version, whole if size < MOST else whole[:10])  # the beginning is enough
    server = await asyncio.start_server(remote.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    came: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    settings = BridgeRemote(
        name="there",
        url=f"mqtt://127.0.0.1:{port}",
        version=version,
        max_packet_size_bytes=MOST,
        rules=[BridgeRule(direction="in", filter="a/#", local_prefix="here/")],
    )
    connection = RemoteConnection(settings, lambda message: came.set_result(len(message.payload)))
    await connection.open()
    assert remote.connect is not None
    announced = remote.connect.properties.get(PropertyId.MAXIMUM_PACKET_SIZE)
    assert announced == (MOST if version == 5 else None)
    if size < MOST:
        assert await came == size
    else:
        assert f"more than {MOST}" in await connection.until_ended()
    connection.close()
    server.close()
