"""Where clients are told to go when a gateway stops or is full (MQTT 5.0, 4.11)."""

from __future__ import annotations

from pathlib import Path

from entrepot.protocols.mqtt.packets import Disconnect
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.client import RawClient
from tests.support.processes.server import ServerProcess


def test_a_server_that_stops_or_is_full_names_another(tmp_path: Path) -> None:
    settings = {"mqtt.server_reference": "other.example:1883", "mqtt.max_connections": "1"}
    with ServerProcess(tmp_path, settings) as server, RawClient(server.port("mqtt")) as first:
        assert first.connect("first").reason == ReasonCode.SUCCESS
        with RawClient(server.port("mqtt")) as second:
            refused = second.connect("second")
            assert refused.reason == ReasonCode.USE_ANOTHER_SERVER
            assert refused.properties[PropertyId.SERVER_REFERENCE] == "other.example:1883"
        server.terminate()
        (goodbye,) = first.read_to_end()
        assert isinstance(goodbye, Disconnect)
        assert goodbye.reason == ReasonCode.USE_ANOTHER_SERVER
        assert goodbye.properties[PropertyId.SERVER_REFERENCE] == "other.example:1883"
