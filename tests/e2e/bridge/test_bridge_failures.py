"""What a bridge must not lose, whatever goes away."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.bridge.conftest import bridged_process
from tests.support.gateways.bridges import LEASE_PATIENCE_SECONDS, await_state, bridge, bridge_settings, remote
from tests.support.http.pull import http_json, kept
from tests.support.mqtt.brokers import Mosquitto, OtherBroker, Peer
from tests.support.processes.deployment import ClusterProcesses
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import interop_only

MakeServer = Callable[..., Any]
MakeBroker = Callable[..., OtherBroker]
CERTIFICATES = Path(__file__).resolve().parents[2] / "fixtures" / "tls"
COUNT = 4000
KILLS = 2

IN = {"direction": "in", "filter": "#", "local_prefix": "here/", "remote_prefix": "there/"}
OUT = {"direction": "out", "filter": "#", "local_prefix": "here/", "remote_prefix": "there/"}


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_in_through_kills_of_ours(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path) as broker,
        bridged_process(tmp_path, remote(broker.url, IN)) as server,
        Peer(broker.port) as theirs,
    ):
        await_state(server, "connected")
        each = COUNT // (KILLS + 1)
        for kill in range(KILLS):
            sent = theirs.publish_numbers("there/a", range(each * kill, each * (kill + 1)))
            wait_until(lambda: bridge(server)["received"] > 0, "some have come")
            server.kill()
            for info in sent:
                info.wait_for_publish(PATIENCE_SECONDS)
            server.restart()
            await_state(server, "connected")
        theirs.publish_numbers("there/a", range(each * KILLS, COUNT))
        found: set[int] = set()

        def all_are_here() -> bool:
            found.update(map(int, kept(server, "here")))
            return len(found) == COUNT

        wait_until(all_are_here, lambda: f"{len(found)} of {COUNT}: {bridge(server)}", LEASE_PATIENCE_SECONDS)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_out_through_kills_of_ours(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker, bridged_process(tmp_path, remote(broker.url, OUT)) as server:
        await_state(server, "connected")
        with Peer(broker.port, "there/#") as theirs, Peer(server.port("mqtt")) as ours:
            each = COUNT // (KILLS + 1)
            for kill in range(KILLS):
                before = len(theirs.messages)
                ours.publish_numbers("here/a", range(each * kill, each * (kill + 1)))
                wait_until(lambda before=before: len(theirs.messages) > before, "some have gone")
                server.kill()
                server.restart()
                await_state(server, "connected")
            ours.publish_numbers("here/a", range(each * KILLS, COUNT))
            wait_until(
                lambda: len(theirs.numbers) == COUNT,
                lambda: f"{len(theirs.numbers)} of {COUNT}: {bridge(server)}",
                LEASE_PATIENCE_SECONDS,
            )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", [interop_only(4), 5])
def test_both_ways_through_a_restart_of_the_remote(
    other_broker: MakeBroker, bridged: MakeServer, kind: str, version: int
) -> None:
    count = 1000 if kind == "mosquitto" else 100
    rules = ({**IN, "filter": "in/#"}, {**OUT, "filter": "out/#"})
    with other_broker(keeps=True) as broker, bridged(remote(broker.url, *rules, version=version)) as server:
        await_state(server, "connected")
        with Peer(broker.port, "there/out/#") as theirs, Peer(server.port("mqtt"), "here/in/#") as ours:
            theirs.publish_numbers("there/in/a", range(count))
            ours.publish_numbers("here/out/a", range(count))
            wait_until(lambda: theirs.messages and ours.messages, "some have gone each way")
            broker.stop()
            await_state(server, "back-off")
            assert bridge(server)["lastError"]
            ours.publish_numbers("here/out/a", range(count, 2 * count))
            broker.start()
            await_state(server, "connected")
            wait_until(lambda: theirs.paho.is_connected(), "their client is back")
            theirs.publish_numbers("there/in/a", range(count, 2 * count))
            wait_until(
                lambda: len(ours.numbers) == 2 * count, lambda: f"in: {len(ours.numbers)}", LEASE_PATIENCE_SECONDS
            )
            # A subscriber without a session misses what came while it was away: what was acknowledged is in the group.
            wait_until(lambda: _settled(server, "bridge-old-2") >= 4 * count, lambda: str(bridge(server)))
        assert bridge(server)["connects"] == 2


def _settled(server: Any, group: str) -> int:
    """Messages of the topics that a group reads, what came in included, once it has nothing left to settle; else 0."""
    progress = http_json(server, "GET", f"/api/v1/groups/{group}")["progress"]
    return 0 if any(queue["lag"] for queue in progress) else sum(queue["maxOffset"] for queue in progress)


def test_nothing_is_popped_while_the_remote_is_away(other_broker: MakeBroker, bridged: MakeServer) -> None:
    broker = other_broker()
    with bridged(remote(broker.url, OUT)) as server, Peer(server.port("mqtt")) as ours:
        await_state(server, "back-off")
        for info in ours.publish_numbers("here/a", range(200)):
            info.wait_for_publish(PATIENCE_SECONDS)
        assert http_json(server, "GET", "/api/v1/groups/bridge-old-1")["progress"] == []
        with broker:
            wait_until(lambda: bridge(server)["sent"] == 200, lambda: str(bridge(server)))


def test_a_wrong_password_is_seen_and_may_be_put_right(
    tmp_path: Path, other_broker: MakeBroker, bridged: MakeServer
) -> None:
    password = tmp_path / "password"
    password.write_text("wrong-one\n")
    options = {"username": "us", "password_file": str(password)}
    remote_broker = other_broker(user="us", password="right-one")
    with remote_broker as broker, bridged(remote(broker.url, IN, **options)) as server:
        await_state(server, "back-off")
        assert re.search("ot authori|[Bb]ad user name", bridge(server)["lastError"]), bridge(server)
        assert bridge(server)["connects"] == 0
        password.write_text("right-one\n")
        await_state(server, "connected")
        assert "right-one" not in server.log_text()
        assert "wrong-one" not in server.log_text()


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_one_of_two_gateways_runs_it_and_the_other_takes_over(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with Mosquitto(tmp_path / "other") as broker, Peer(broker.port, "there/out/#") as theirs:
        rules = ({**IN, "filter": "in/#"}, {**OUT, "filter": "out/#"})
        settings = bridge_settings(remote(broker.url, *rules))
        cluster = ClusterProcesses(tmp_path, brokers=1, gateways=0)
        for _ in range(2):
            cluster.add_gateway(**settings)
        with cluster:
            first, second = cluster.gateways
            wait_until(lambda: bridge(first)["state"] == bridge(second)["state"] == "connected", "both say so")
            running, waiting = (first, second) if bridge(first)["isHere"] else (second, first)
            assert not bridge(waiting)["isHere"]
            assert bridge(waiting)["owner"] == bridge(running)["owner"]
            with Peer(waiting.port("mqtt")) as ours:
                ours.publish_numbers("here/out/a", range(500))
                theirs.publish_numbers("there/in/a", range(500))
                wait_until(lambda: len(theirs.numbers) == 500, lambda: f"{len(theirs.numbers)}")
                assert len(theirs.messages) == 500
                running.kill()
                wait_until(lambda: bridge(waiting)["isHere"], "taken over", LEASE_PATIENCE_SECONDS)
                ours.publish_numbers("here/out/a", range(500, 1000))
                theirs.publish_numbers("there/in/a", range(500, 1000))
                wait_until(
                    lambda: len(theirs.numbers) == 1000, lambda: f"{len(theirs.numbers)}", LEASE_PATIENCE_SECONDS
                )
                found: set[int] = set()

                def all_are_here() -> bool:
                    found.update(int(payload) for payload in kept(waiting, "here", "reader"))
                    return found == set(range(1000))

                wait_until(all_are_here, lambda: f"{len(found)}")


@pytest.mark.soak
def test_a_gateway_that_stops_gives_the_bridge_over_at_once(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with Mosquitto(tmp_path / "other") as broker:
        cluster = ClusterProcesses(tmp_path, brokers=1, gateways=0)
        for _ in range(2):
            cluster.add_gateway(**bridge_settings(remote(broker.url, IN)))
        with cluster:
            first, second = cluster.gateways
            wait_until(lambda: bridge(first)["state"] == bridge(second)["state"] == "connected", "both say so")
            running, waiting = (first, second) if bridge(first)["isHere"] else (second, first)
            running.stop()
            wait_until(lambda: bridge(waiting)["isHere"], "given over", timeout=7)


def test_what_the_remote_can_never_take_becomes_a_dead_letter(other_broker: MakeBroker, bridged: MakeServer) -> None:
    max_bytes = 2000
    with (
        other_broker(max_packet_bytes=max_bytes) as broker,
        bridged(remote(broker.url, OUT)) as server,
        Peer(broker.port, "there/#") as theirs,
        Peer(server.port("mqtt")) as ours,
    ):
        await_state(server, "connected")
        ours.publish("here/a", b"7" * max_bytes)
        ours.publish("here/a", b"8")
        wait_until(lambda: theirs.numbers == {8}, lambda: str(theirs.payloads()))
        assert kept(server, "%25DLQ%25bridge-old-1") == [b"7" * max_bytes]
        assert bridge(server)["refusedOut"] == 1
        assert bridge(server)["connects"] == 1


def test_over_tls_and_only_to_whom_is_trusted(other_broker: MakeBroker, bridged: MakeServer) -> None:
    certificate, key = (CERTIFICATES / name for name in ("certificate.pem", "key.pem"))
    broker = other_broker(certificate=certificate, key=key)
    url = broker.url.replace("mqtt:", "mqtts:")
    trusting = remote(url, {**IN, "filter": "x"}, {**OUT, "filter": "y"}, ca_file=str(certificate), client_id="a")
    doubting = remote(url, IN, name="doubting", client_id="b")
    with broker, bridged(trusting, doubting) as server, Peer(server.port("mqtt")) as ours:
        await_state(server, "connected")
        ours.publish_numbers("here/y", range(300))
        wait_until(lambda: bridge(server)["sent"] == 300, lambda: str(bridge(server)))
        await_state(server, "back-off", "doubting")
        assert "certificate" in bridge(server, "doubting")["lastError"].lower()


def test_a_stop_ends_a_bridge_that_waits_for_messages(other_broker: MakeBroker, bridged: MakeServer) -> None:
    """In a thread the end of the context is the stop, which must be in time."""
    with other_broker() as broker, bridged(remote(broker.url, OUT)) as server, Peer(server.port("mqtt")) as ours:
        await_state(server, "connected")
        ours.publish("here/a", b"1")
        wait_until(lambda: bridge(server)["sent"] == 1, "one has gone")
        assert server.stop() == 0
