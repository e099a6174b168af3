"""3.1.1 has no word for what failed for now: the connection is closed, and nothing is confirmed (MQTT-4.8.0-2)."""

from __future__ import annotations

import resource
from pathlib import Path

from entrepot.protocols.mqtt.packets import Connack, Connect, Puback, Publish
from tests.conformance.mqtt.script import UNIQUE
from tests.conformance.mqtt.wire_client import WireClient
from tests.support.processes.server import ServerProcess


def test_a_store_that_cannot_take_it_closes(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        client = WireClient("127.0.0.1", server.port("mqtt"), 4, UNIQUE.encode())
        client.say(Connect("four", 4))
        assert isinstance(client.next(), Connack)
        client.say(Publish("a/b", b"x", 1, 1))
        assert client.next() == Puback(1)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))  # no write succeeds any more
        client.say(Publish("a/b", b"y", 1, 2))
        assert client.next() is None
        client.close()
