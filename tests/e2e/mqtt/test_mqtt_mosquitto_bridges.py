"""A real mosquitto bridges to us with its default settings, in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mqtt.brokers import Mosquitto, Peer
from tests.support.waiting import wait_until

COUNT = 200


@pytest.mark.interop
@pytest.mark.parametrize("version", ["mqttv31", "mqttv311", "mqttv50"])
def test_a_bridge_of_mosquitto(port: int, tmp_path: Path, topic: str, version: str) -> None:
    """Each message goes over once and in order, retained ones stay so, and its state is told, that of its end too."""
    state = f"$SYS/broker/connection/{topic}/state"
    bridge = [f"connection {topic}", f"address 127.0.0.1:{port}", f"topic {topic}/# both 1", f"remote_clientid {topic}"]
    lines = [*bridge, *([] if version == "mqttv311" else [f"bridge_protocol_version {version}"])]
    if version == "mqttv50":  # no limit would be a Receive Maximum of 0, which is a protocol error (3.1.2.11.3)
        lines.insert(0, "max_inflight_messages 20")
    with Peer(port, f"{topic}/#", "$SYS/broker/connection/#") as ours, Mosquitto(tmp_path, lines) as broker:
        states = lambda: [payload for name, payload in ours.payloads() if name == state]  # noqa: E731
        wait_until(lambda: states() == [b"1"], lambda: f"it says that it is connected: {ours.payloads()}")
        with Peer(broker.port, f"{topic}/#", version=4) as theirs:
            theirs.publish_numbers(f"{topic}/in", range(COUNT))
            theirs.publish(f"{topic}/kept-there", b"y", retain=True)
            ours.publish_numbers(f"{topic}/out", range(COUNT))
            ours.publish(f"{topic}/kept-here", b"z", retain=True)
            want = 2 * COUNT + 2
            wait_until(lambda: len(theirs.messages) >= want, lambda: f"there: {len(theirs.messages)}")
            wait_until(lambda: len(ours.messages) >= want + 1, lambda: f"here: {len(ours.messages)}")
            theirs.publish(f"{topic}/end", b"")
            wait_until(lambda: f"{topic}/end" in dict(ours.payloads()), "the last one is here")
            wait_until(lambda: f"{topic}/end" in dict(theirs.payloads()), "the last one is there")
            for peer in (ours, theirs):
                for name in ("in", "out"):
                    numbers = [int(payload) for each, payload in peer.payloads() if each == f"{topic}/{name}"]
                    assert numbers == list(range(COUNT)), f"{name}: {len(numbers)}"
        with Peer(port, f"{topic}/#") as late, Peer(broker.port, f"{topic}/#") as late_there:
            kept = {(f"{topic}/kept-there", b"y"), (f"{topic}/kept-here", b"z")}
            for peer in (late, late_there):
                wait_until(lambda peer=peer: set(peer.payloads()) == kept, lambda peer=peer: f"{peer.payloads()}")
        broker.stop()
        wait_until(lambda: states() == [b"1", b"0"], lambda: f"it says that it is away: {states()}")
    with Peer(port, "$SYS/broker/connection/#") as late:
        wait_until(lambda: (state, b"0") in late.payloads(), "its last state is retained")
