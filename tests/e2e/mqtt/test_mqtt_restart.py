"""What was confirmed survives SIGKILL, and clients go on where they were."""

from __future__ import annotations

import threading
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from entrepot.protocols.mqtt.packets import Puback, Publish
from tests.support.http.pull import events, kept
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deploy
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled, soak_only

KILLS = scaled(1, 3)


@pytest.mark.scaled
def test_confirmed_messages_survive_a_kill(deploy: Deploy, tmp_path: Path) -> None:
    """Killed while it confirms."""
    confirmed: set[bytes] = set()
    sent = 0
    with deploy(tmp_path) as server:
        for _ in range(KILLS):
            with RawClient(server.port("mqtt")) as client:
                client.connect("device")
                kill_soon = threading.Timer(0.1, server.kill)
                try:
                    while True:
                        window = [str(sent + number).encode() for number in range(50)]
                        sent += len(window)
                        client.say(*[Publish("kept/n", body, 1, at + 1) for at, body in enumerate(window)])
                        for _ in window:
                            confirmed.add(window[client.expect(Puback).packet_id - 1])
                        if kill_soon.ident is None:  # else it runs
                            kill_soon.start()
                except (OSError, AssertionError):
                    pass
            server.kill()
            server.restart()
        found = kept(server, "kept")
    assert len(confirmed) >= 50 * KILLS
    assert confirmed <= set(found)
    assert len(found) == len(set(found))
    assert set(found) <= {str(number).encode() for number in range(sent)}


@pytest.mark.parametrize("version", [soak_only(MQTTProtocolVersion.MQTTv311), MQTTProtocolVersion.MQTTv5])
def test_a_client_that_reconnects_keeps_publishing(
    deploy: Deploy, tmp_path: Path, version: MQTTProtocolVersion
) -> None:
    """paho sends again what was not confirmed: everything is there at least once."""
    with deploy(tmp_path) as server:
        client = paho.Client(CallbackAPIVersion.VERSION2, "device", protocol=version)
        client.reconnect_delay_set(0.1, 0.5)  # type: ignore[arg-type]
        client.connect("127.0.0.1", server.port("mqtt"))
        client.loop_start()
        try:
            for number in range(300):
                client.publish("again/n", str(number), 1)
                if number == 150:
                    server.kill()
                    server.restart()
            wait_until(lambda: not client._out_messages, "all are confirmed")
        finally:
            client.disconnect()
            client.loop_stop()
        assert set(kept(server, "again")) == {str(number).encode() for number in range(300)}


def test_a_clean_restart_keeps_everything(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(tmp_path) as server:
        with RawClient(server.port("mqtt")) as client:
            client.connect("device")
            for number in range(20):
                client.publish("clean/a/b", str(number).encode(), number + 1)
        assert server.stop() == 0
        server.restart()
        found = events(server, "clean")
        assert [event["subject"] for event in found] == ["a/b"] * 20
        with RawClient(server.port("mqtt")) as client:
            client.connect("device")
            client.subscribe("clean/#")
            client.publish("clean/a/b", b"more")
            assert [delivery.payload for delivery in client.expect_deliveries(1)] == [b"more"]
        assert [len(events(server, "clean", group)) for group in ("reader", "another")] == [1, 21]
