"""Sessions through the end of the server: told to stop, or killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.protocols.mqtt.packets import Pingreq, Pingresp, Puback, Pubcomp, Pubrec, Pubrel
from tests.support.mqtt.session_client import SessionClient, numbered, publish_from
from tests.support.processes.deployment import Deploy, Deployment
from tests.tiers.marks import scaled

COUNT = 30
KILLS = scaled(1, 3)
"""After a first one."""


def end(server: Deployment, how: str) -> None:
    """End it in one of the ways, and start it again."""
    if how == "SIGTERM":
        assert server.stop() == 0
    else:
        server.kill()
    server.restart()


@pytest.mark.parametrize("how", ["SIGTERM", "kill -9"])
def test_sessions_go_on_after_a_restart(deploy: Deploy, tmp_path: Path, how: str) -> None:
    """One that is connected with everything in its window, one that is away, one without anything, and one that a
    version 3 client has."""
    with deploy(tmp_path) as server:
        connected = SessionClient(server.port("mqtt"), "connected")
        connected.open()
        connected.subscribe("room/#", qos=2)
        for name, version in (("away", 5), ("old", 4)):
            with SessionClient(server.port("mqtt"), name, version) as client:
                client.open()
                client.subscribe("room/#", qos=1)
        publish_from(server.port("mqtt"), "room/n", numbered(COUNT), 1)
        publish_from(server.port("mqtt"), "room/n", numbered(COUNT, COUNT), 2)
        before = connected.expect_deliveries(2 * COUNT)
        ones, twos = before[:COUNT], before[COUNT:]
        connected.say(*[Puback(each.packet_id) for each in ones[:10:2]])
        connected.say(*[Pubrec(each.packet_id) for each in twos[:10:2]])
        released = [connected.expect(Pubrel).packet_id for _ in range(5)]
        assert released == [each.packet_id for each in twos[:10:2]]
        connected.say(Pubcomp(released[0]), Pingreq())
        connected.expect(Pingresp)
        end(server, how)
        port = server.port("mqtt")
        publish_from(port, "room/n", numbered(5, 2 * COUNT))
        with SessionClient(port, "connected") as client:
            assert client.open().session_present
            acknowledged = {each.packet_id for each in ones[:10:2]}
            again = client.expect_deliveries(2 * COUNT + 5 - 5 - len(acknowledged)) if how == "SIGTERM" else []
            if how != "SIGTERM":  # what was acknowledged last may come again at QoS 1
                while not any(each.payload == b"%d" % (2 * COUNT + 4) for each in again):
                    again += client.expect_deliveries(1)
            known = {each.packet_id for each in before}
            repeated = [each for each in again if each.dup]
            assert [(e.packet_id, e.payload) for e in repeated if e.packet_id not in acknowledged] == [
                (e.packet_id, e.payload)
                for e in before
                if e.packet_id not in acknowledged and e.packet_id not in released
            ]
            assert [each.payload for each in again if not each.dup] == numbered(5, 2 * COUNT)
            assert all(each.packet_id in known for each in repeated)
            wanted = released if how != "SIGTERM" else released[1:]
            pending = [packet for packet in client._waiting if isinstance(packet, Pubrel)]
            assert [packet.packet_id for packet in pending][-len(released[1:]) :] == released[1:]
            assert len(pending) <= len(wanted)
        for name, version in (("away", 5), ("old", 4)):
            with SessionClient(port, name, version) as client:
                assert client.open().session_present
                assert client.take(2 * COUNT + 5) == numbered(2 * COUNT + 5)
        connected.socket.close()


@pytest.mark.scaled
def test_identifiers_stay_through_kill_after_kill(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(tmp_path) as server:
        with SessionClient(server.port("mqtt"), "device") as client:
            client.open()
            client.subscribe("room/#", qos=1)
            publish_from(server.port("mqtt"), "room/n", numbered(COUNT))
            first = [(each.packet_id, each.payload) for each in client.expect_deliveries(COUNT)]
            server.kill()
        for _ in range(KILLS):
            server.restart()
            with SessionClient(server.port("mqtt"), "device") as client:
                assert client.open().session_present
                again = client.expect_deliveries(COUNT)
                assert all(each.dup for each in again)
                assert [(each.packet_id, each.payload) for each in again] == first
                server.kill()
        server.restart()
        publish_from(server.port("mqtt"), "room/n", numbered(1, COUNT))
        with SessionClient(server.port("mqtt"), "device") as client:
            assert client.open().session_present
            assert client.take(COUNT + 1) == numbered(COUNT + 1)
