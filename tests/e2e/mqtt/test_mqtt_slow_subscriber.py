"""A subscriber that does not keep up loses nothing of QoS 1 and disturbs nobody; expiry while it waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Puback, Publish
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.http.pull import mqtt_connections
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deploy, Deployment
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled

COUNT = scaled(1_500, 5_000)
NAMES = 8
WINDOW = 200


@pytest.fixture(scope="module")
def small(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A server with little room for each subscriber."""
    settings = {
        "mqtt.max_queued_messages": "50",
        "mqtt.max_inflight_messages": "20",
        "mqtt.write_buffer_bytes": "4096",
    }
    with deploy(tmp_path_factory.mktemp("slow"), settings) as running:
        yield running
        assert running.stop() == 0
        assert "Traceback" not in running.log_text(), running.log_text()


def publish_many(port: int, topic: str, count: int, size: int = 100) -> None:
    """QoS 1, a window of publishes at a time; `topic/n` gets its numbers in order."""
    with RawClient(port) as publisher:
        publisher.connect(f"p-{topic}")
        for start in range(0, count, WINDOW):
            numbers = range(start, min(start + WINDOW, count))
            packets = [
                encode(
                    Publish(f"{topic}/{number % NAMES}", str(number).encode().ljust(size), 1, number % WINDOW + 1), 5
                )
                for number in numbers
            ]
            publisher.send(b"".join(packets))
            for _ in numbers:
                publisher.expect(Puback)


def check_complete(deliveries: list[Publish], count: int) -> None:
    """Everything once, in order for each name."""
    by_name: dict[str, list[int]] = {}
    for delivery in deliveries:
        by_name.setdefault(delivery.topic, []).append(int(delivery.payload))
    for name, numbers in by_name.items():
        first = int(name.rpartition("/")[2])
        assert numbers == list(range(first, count, NAMES)), name
    assert len(deliveries) == count


@pytest.mark.failure(
    "An MQTT subscriber of QoS 1 stops reading",
    group="Gateways and clients",
    does="The others go on, the memory stays bounded. When it reads again, it gets all of it in order.",
    lost="nothing",
)
@pytest.mark.scaled
def test_a_subscriber_that_stops_reading_loses_nothing_and_disturbs_nobody(small: Deployment) -> None:
    port = small.port("mqtt")
    with (
        RawClient(port, receive_buffer=4096) as stuck,
        RawClient(port, 4, receive_buffer=4096) as stuck_too,
        RawClient(port) as quick,
    ):
        for name, client in (("stuck", stuck), ("stuck-too", stuck_too), ("quick", quick)):
            client.connect(name)
            client.subscribe("slow/#")
        before = small.resident_bytes()
        publisher = threading.Thread(target=publish_many, args=(port, "slow", COUNT))
        publisher.start()
        check_complete(quick.expect_deliveries(COUNT), COUNT)  # while the others read nothing
        publisher.join()
        assert small.resident_bytes() - before < 60 << 20
        for client in (stuck, stuck_too):
            check_complete(client.expect_deliveries(COUNT), COUNT)
        # and it goes on live
        publish_many(port, "slow", NAMES)
        for client in (stuck, stuck_too, quick):
            assert len(client.expect_deliveries(NAMES)) == NAMES
            assert client.deliveries == []


def test_a_subscriber_that_never_acknowledges_gets_no_more_than_its_window(small: Deployment) -> None:
    port = small.port("mqtt")
    with RawClient(port, acknowledges=False) as client, RawClient(port) as other:
        client.connect("window", properties={PropertyId.RECEIVE_MAXIMUM: 7})
        client.subscribe("window/#")
        other.connect("other")
        other.subscribe("window/#")
        publish_many(port, "window", 500)
        check_complete(other.expect_deliveries(500), 500)
        held = client.expect_deliveries(7)
        other.publish("window/4", b"500")  # of another queue than the rest: it may come before some of them
        other.expect_deliveries(1)
        assert client.deliveries == []
        client.acknowledges = True
        client.say(*[Puback(delivery.packet_id) for delivery in held])
        check_complete([*held, *client.expect_deliveries(494)], 501)


def test_a_slow_subscriber_that_goes_leaves_nothing_behind(small: Deployment) -> None:
    port = small.port("mqtt")
    for _ in range(3):
        with RawClient(port, receive_buffer=4096) as client:
            client.connect("goes")
            client.subscribe("goes/#")
            publish_many(port, "goes", 1000, size=1000)
            client.reset()
    wait_until(lambda: mqtt_connections(small) == 0, "all connections are gone")


@pytest.mark.soak
def test_a_connection_ends_though_its_peer_does_not_read(small: Deployment) -> None:
    """Taken over while its socket is full: it is closed after a few seconds all the same."""
    port = small.port("mqtt")
    with RawClient(port, receive_buffer=4096) as stuck, RawClient(port) as newer:
        stuck.connect("same")
        stuck.subscribe("full/#", qos=0)
        publish_many(port, "full", 2000, size=10_000)
        wait_until(lambda: mqtt_connections(small) == 2, "the publisher has gone")
        newer.connect("same")
        wait_until(lambda: mqtt_connections(small) == 1, "the older connection is gone")
