"""Effects that last seconds by the protocol: delayed wills and messages, expiry of sessions and messages, traces.

By default time goes on as the test says; in the soak tier it is that of real servers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from entrepot.protocols.mqtt.packets import Disconnect, Puback, Publish, Subscription, Will
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.gateways.thread import GatewayThread
from tests.support.http.pull import http_json
from tests.support.mqtt.client import RawClient
from tests.support.mqtt.session_client import SessionClient, numbered, publish_from
from tests.support.processes.deployment import DEPLOYMENTS
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled, soak_only

END = b"end"
DELAY = scaled(4, 10)
"""Of wills that must not be due before a client is back."""
SHORT = scaled(1, 5)
"""Those that are over sooner."""
SMALL = {"max_queued_messages": 50, "max_inflight_messages": 20}
"""Little room for each subscriber."""


@dataclass
class Timed:
    """A server, and how to let seconds pass there."""

    server: Any
    wait: Callable[[float], None]

    @property
    def port(self) -> int:
        return self.server.port("mqtt")

    def is_gone(self, client_id: str) -> bool:
        """Looks without a connection, which would change the session."""
        return http_json(self.server, "GET", f"/api/v1/sessions?prefix={client_id}")["value"] == []


@pytest.fixture(scope="module", params=["with a clock", soak_only("serve"), soak_only("separate")])
def timed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Timed]:
    if request.param == "with a clock":
        with GatewayThread({"mqtt": SMALL}) as gateway:
            yield Timed(gateway, gateway.pass_time)
        return
    settings = {f"mqtt.{name}": str(value) for name, value in SMALL.items()}
    with DEPLOYMENTS[request.param](tmp_path_factory.mktemp("time"), settings) as server:
        yield Timed(server, time.sleep)  # the protocol counts in seconds: nothing to wait for instead
        assert server.stop() == 0
        assert "Traceback" not in server.log_text(), server.log_text()


@pytest.fixture
def client_id() -> str:
    return f"c{uuid4().hex[:12]}"


@pytest.fixture
def watcher(timed: Timed, topic: str) -> Iterator[SessionClient]:
    """Subscribed to where everything goes."""
    with SessionClient(timed.port, f"watcher-{topic}") as client:
        client.open(expiry=0, clean=True)
        client.subscribe_to(Subscription(f"{topic}/#", 2))
        yield client


def test_delayed_wills_wait_and_are_published_once(
    timed: Timed, watcher: SessionClient, topic: str, client_id: str
) -> None:
    """One client stays away; another comes back in time; of a third the session ends sooner than the delay."""

    def will(payload: bytes, delay: int) -> Will:
        return Will(f"{topic}/will", payload, 1, False, {PropertyId.WILL_DELAY_INTERVAL: delay})

    for name, given, expiry in (
        ("back", will(b"never", DELAY), 600),
        ("away", will(b"gone", DELAY), 600),
        ("short", will(b"expired", 600), SHORT),
    ):
        with SessionClient(timed.port, f"{client_id}-{name}") as client:
            client.open(expiry=expiry, will=given)
    with SessionClient(timed.port, f"{client_id}-back") as client:
        assert client.open().session_present
        publish_from(timed.port, f"{topic}/will", [END])
        assert watcher.take(1) == [END], "none is due"
        timed.wait(SHORT + 0.1)
        assert watcher.take(1) == [b"expired"]
        timed.wait(DELAY)
        assert watcher.take(1) == [b"gone"]
        publish_from(timed.port, f"{topic}/will", [END])
        assert watcher.take(1) == [END], "nothing more comes"


def test_a_will_to_a_delayed_name_goes_to_its_topic_after_the_delay(
    timed: Timed, watcher: SessionClient, topic: str
) -> None:
    with RawClient(timed.port) as client:
        client.connect(f"c-{topic}", will=Will(f"$delayed/{DELAY}/{topic}/will", b"late", 1))
    wait_until(lambda: timed.is_gone(f"c-{topic}"), "the connection is over")
    publish_from(timed.port, f"{topic}/now", [END])
    assert watcher.take(1) == [END]
    timed.wait(DELAY + 0.1)
    will = watcher.next_delivery()
    assert (will.topic, will.payload) == (f"{topic}/will", b"late")


def test_a_delayed_message_comes_when_it_is_due(timed: Timed, watcher: SessionClient, topic: str) -> None:
    publish_from(timed.port, f"$delayed/{DELAY}/{topic}/x", [b"later"])
    publish_from(timed.port, f"{topic}/x", [b"now"])
    assert watcher.take(1) == [b"now"]
    timed.wait(DELAY + 0.1)
    assert [(each.topic, each.payload) for each in watcher.expect_deliveries(1)] == [(f"{topic}/x", b"later")]


def leave_with_subscription(port: int, client_id: str, topic: str, expiry: int) -> None:
    with SessionClient(port, client_id) as client:
        assert not client.open(expiry=expiry).session_present
        client.subscribe(f"{topic}/#")
        client.say(Disconnect())
        client.read_to_end()


def test_expiry_passes(timed: Timed, topic: str, client_id: str) -> None:
    leave_with_subscription(timed.port, client_id, topic, 1)
    timed.wait(1.1)
    wait_until(lambda: timed.is_gone(client_id), "it has expired")
    with SessionClient(timed.port, client_id) as client:
        assert not client.open(expiry=0).session_present


def test_disconnect_changes_the_expiry(timed: Timed, topic: str, client_id: str) -> None:
    with SessionClient(timed.port, client_id) as client:
        client.open(expiry=1)
        client.say(Disconnect(ReasonCode.NORMAL_DISCONNECTION, {PropertyId.SESSION_EXPIRY_INTERVAL: 600}))
        client.read_to_end()
    leave_with_subscription(timed.port, f"{client_id}-timer", topic, 1)
    timed.wait(1.1)
    wait_until(lambda: timed.is_gone(f"{client_id}-timer"), "one that lasted a second has expired")
    with SessionClient(timed.port, client_id) as client:
        assert client.open().session_present
        client.say(Disconnect(ReasonCode.NORMAL_DISCONNECTION, {PropertyId.SESSION_EXPIRY_INTERVAL: 0}))
        client.read_to_end()
    with SessionClient(timed.port, client_id) as client:
        assert not client.open().session_present


def test_what_expires_while_a_subscriber_is_behind_is_not_sent(timed: Timed, topic: str) -> None:
    """3.3.2-5, and what is left of the time is (3.3.2-6)."""
    with RawClient(timed.port, acknowledges=False) as slow, RawClient(timed.port) as publisher:
        slow.connect(f"late-{topic}", properties={PropertyId.RECEIVE_MAXIMUM: 1})
        slow.subscribe(f"{topic}/#")
        publisher.connect(f"publisher-{topic}")
        publish_from(timed.port, f"{topic}/0", numbered(60))  # the window, the queue, and a few that are behind
        for packet_id, (payload, seconds) in enumerate([(b"short", 1), (b"long", 1000)], 1):
            properties = {PropertyId.MESSAGE_EXPIRY_INTERVAL: seconds}
            publisher.say(Publish(f"{topic}/0", payload, 1, packet_id, properties=properties))
            publisher.expect(Puback)
        timed.wait(1.1)
        (first,) = slow.expect_deliveries(1)
        slow.acknowledges = True
        slow.say(Puback(first.packet_id))
        deliveries = [first, *slow.expect_deliveries(60)]
        assert b"short" not in [delivery.payload for delivery in deliveries]
        (long,) = [delivery for delivery in deliveries if delivery.payload == b"long"]
        assert 900 <= long.properties[PropertyId.MESSAGE_EXPIRY_INTERVAL] < 1000


def test_a_trace_ends_by_itself(timed: Timed, topic: str) -> None:
    with RawClient(timed.port) as client:
        client.connect(f"traced-{topic}")
        path = f"/api/v1/traces/traced-{topic}"
        http_json(timed.server, "PUT", path, {"seconds": 5})
        client.publish(f"{topic}/x")
        wait_until(lambda: http_json(timed.server, "GET", path)["seen"], "it is traced")
        timed.wait(5.1)
        seen: list[int] = []

        def has_ended() -> bool:
            client.publish(f"{topic}/x")
            seen.append(http_json(timed.server, "GET", path)["seen"])
            return len(seen) > 1 and seen[-1] == seen[-2]

        wait_until(has_ended, "nothing is added any more")
        assert seen[-1] > 0
        http_json(timed.server, "DELETE", path)
