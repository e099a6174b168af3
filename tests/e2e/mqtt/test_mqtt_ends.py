"""How connections end: wills at every abnormal end and at no other, takeover, shutdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Puback,
    Publish,
    Subscribe,
    Subscription,
    Will,
)
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.cases import cases
from tests.support.http.pull import kept
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deploy, Deployment


@pytest.fixture
def watcher(port: int, topic: str) -> Iterator[RawClient]:
    with RawClient(port) as client:
        client.connect(f"watch-{topic}")
        client.subscribe(f"{topic}/#")
        yield client


def killed(client: RawClient) -> None:
    client.reset()


def closed(client: RawClient) -> None:
    client.socket.close()


def malformed(client: RawClient) -> None:
    client.send(b"\x00\x00")


def protocol_error(client: RawClient) -> None:
    client.say(Connect("again", client.version))


def disconnect_with_will(client: RawClient) -> None:
    client.say(Disconnect(ReasonCode.DISCONNECT_WITH_WILL_MESSAGE))


ABNORMAL = [(end, version) for end in (killed, closed, malformed, protocol_error) for version in (4, 5)]


@cases("end, version", [*ABNORMAL, (disconnect_with_will, 5)])
def test_the_will_is_published(
    port: int, topic: str, watcher: RawClient, end: Callable[[RawClient], None], version: int
) -> None:
    will = Will(f"{topic}/will", b"gone", 1)
    with RawClient(port, version) as client:
        client.connect(f"c-{topic}", will=will, keep_alive=60)
        end(client)
        (delivery,) = watcher.expect_deliveries(1)
    assert (delivery.topic, delivery.payload, delivery.qos) == (will.topic, b"gone", 1)


def test_the_will_of_who_falls_silent_is_published(port: int, topic: str, watcher: RawClient) -> None:
    """Of either version; with nothing said, or in the middle of a handshake of QoS 2."""
    with ExitStack() as stack:
        wills = [f"{topic}/{version}{is_publishing}" for version in (4, 5) for is_publishing in ("", "publishing")]
        for name in wills:
            client = stack.enter_context(RawClient(port, 4 if "/4" in name else 5))
            client.connect(f"c-{name}", will=Will(name, b"gone", 1), keep_alive=1)
            if name.endswith("publishing"):
                client.say(Publish(f"half{topic}", b"", 2, 1))
        found = watcher.expect_deliveries(len(wills))
    assert sorted((each.topic, each.payload) for each in found) == [(name, b"gone") for name in sorted(wills)]


@cases("version", [4, 5])
def test_the_will_is_not_published_at_a_normal_disconnect(
    port: int, topic: str, watcher: RawClient, version: int
) -> None:
    with RawClient(port, version) as client:
        client.connect(f"c-{topic}", will=Will(f"{topic}/will", b"gone", 1))
        client.say(Publish(f"{topic}/last", b"words"), Disconnect())
        assert client.read_to_end() == []
        client.reset()
    (last,) = watcher.expect_deliveries(1)
    assert last.payload == b"words"
    watcher.publish(f"{topic}/end", b"end")
    assert [delivery.payload for delivery in watcher.expect_deliveries(1)] == [b"end"]


def test_a_will_carries_its_properties(port: int, topic: str, watcher: RawClient) -> None:
    given = {
        PropertyId.CONTENT_TYPE: "text/plain",
        PropertyId.RESPONSE_TOPIC: "r",
        PropertyId.CORRELATION_DATA: b"c",
        PropertyId.USER_PROPERTY: [("a", "1"), ("a", "2")],
    }
    with RawClient(port) as client:
        client.connect(f"c-{topic}", will=Will(f"{topic}/will", b"gone", 0, properties=given))
        client.reset()
    (delivery,) = watcher.expect_deliveries(1)
    assert delivery.properties == given
    assert delivery.qos == 0


@cases(
    "will, reason",
    [
        (Will("$SYS/a", b""), ReasonCode.NOT_AUTHORIZED),
        (Will("$share/g/a", b""), ReasonCode.NOT_AUTHORIZED),
        (Will("$delayed/x/a", b""), ReasonCode.TOPIC_NAME_INVALID),
        (Will("a/#", b""), ReasonCode.TOPIC_NAME_INVALID),
    ],
)
def test_a_will_that_cannot_be_kept_is_refused(port: int, will: Will, reason: ReasonCode) -> None:
    with RawClient(port) as client:
        assert client.connect("c", will=will).reason == reason
        assert client.read_to_end() == []


def test_keep_alive_is_told_of_and_pings_keep_it_open(port: int, topic: str, watcher: RawClient) -> None:
    with RawClient(port) as client:
        client.connect(f"c-{topic}", keep_alive=1)
        (goodbye,) = client.read_to_end()
        assert isinstance(goodbye, Disconnect)
        assert goodbye.reason == ReasonCode.KEEP_ALIVE_TIMEOUT
    watcher.say(Pingreq())  # it has no keep-alive, and is still there


def test_takeover_publishes_the_will_and_ends_the_subscriptions(port: int, topic: str, watcher: RawClient) -> None:
    with RawClient(port) as older, RawClient(port) as newer:
        older.connect(f"c-{topic}", will=Will(f"{topic}/will", b"gone", 1))
        older.subscribe(f"{topic}/x")
        assert newer.connect(f"c-{topic}").reason == ReasonCode.SUCCESS
        (goodbye,) = older.read_to_end()
        assert isinstance(goodbye, Disconnect)
        assert goodbye.reason == ReasonCode.SESSION_TAKEN_OVER
        assert [delivery.payload for delivery in watcher.expect_deliveries(1)] == [b"gone"]
        newer.publish(f"{topic}/x", b"1")
        watcher.expect_deliveries(1)
        assert newer.deliveries == older.deliveries == []


@pytest.mark.everywhere
def test_everything_in_one_segment(server: Deployment, port: int, topic: str) -> None:
    """A client need not wait for CONNACK (3.1.4), nor for anything else."""
    with RawClient(port) as client:
        client.say(
            Connect(f"c-{topic}", 5),
            Subscribe(1, [Subscription(f"{topic}/#", 1)]),
            Publish(f"{topic}/a", b"1", 1, 1),
            Publish(f"{topic}/a", b"2", 1, 2),
            Disconnect(),
        )
        said = client.read_to_end()
        assert isinstance(said[0], Connack)
    with RawClient(port) as other:
        other.connect(f"o-{topic}")
        other.publish(f"{topic}/a", b"3")
    assert kept(server, topic) == [b"1", b"2", b"3"]


@cases("name", ["$SYS/x", "$share/g/x"])
def test_the_server_s_own_names_are_not_published_to(port: int, topic: str, name: str) -> None:
    with RawClient(port) as new, RawClient(port, 4) as old:
        new.connect(f"n-{topic}")
        assert new.publish(name).reason == ReasonCode.NOT_AUTHORIZED
        assert new.publish(f"{topic}/x").reason == ReasonCode.SUCCESS
        old.connect(f"o-{topic}")
        assert old.publish(name) == Puback(1), "version 3 has no code for it: the message alone is lost (3.3.5-2 there)"
        assert old.publish(f"{topic}/x") == Puback(1)


def test_shutdown_says_goodbye_and_keeps_the_wills(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(tmp_path) as server:
        with RawClient(server.port("mqtt")) as client, RawClient(server.port("mqtt"), 4) as old:
            client.connect("a", will=Will("t/will", b"gone", 1))
            old.connect("b")
            client.publish("t/x")
            server.terminate()
            (goodbye,) = client.read_to_end()
            assert isinstance(goodbye, Disconnect)
            assert goodbye.reason == ReasonCode.SERVER_SHUTTING_DOWN
            assert old.read_to_end() == []
        assert server.wait() == 0
        server.restart()
        assert kept(server, "t") == [b"gone", b"x"]
        assert "Traceback" not in server.log_text()
