"""Wills: published once when a connection ends badly, never when it ends well, and after their delay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from protocols.mqtt.packets import Disconnect, Publish, Subscribe, Subscription, Will
from protocols.mqtt.properties import PropertyId
from protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt_client import RawClient
from tests.support.session_client import SessionClient, publish_from
from tests.support.waiting import wait_until

END = b"end"
DELAY = 2


@pytest.fixture
def client_id() -> str:
    return f"c{uuid4().hex[:12]}"


@contextmanager
def watching(port: int, topic: str) -> Iterator[SessionClient]:
    """Subscribed to where the wills go."""
    with SessionClient(port, f"watcher-{topic}") as client:
        client.open(expiry=0, clean=True)
        client.subscribe_to(Subscription(f"{topic}/#", 2, retain_as_published=True))
        yield client


@pytest.fixture
def watcher(port: int, topic: str) -> Iterator[SessionClient]:
    with watching(port, topic) as client:
        yield client


def will_of(topic: str, qos: int = 1, *, retain: bool = False, delay: int = 0) -> Will:
    properties = {PropertyId.WILL_DELAY_INTERVAL: delay} if delay else {}
    return Will(f"{topic}/will", b"gone", qos, retain, properties)


def nothing_more(watcher: SessionClient, port: int, topic: str) -> bool:
    """Whether nothing comes before what is published to the same name now."""
    publish_from(port, f"{topic}/will", [END])
    return watcher.take(1) == [END]


def _cut(client: SessionClient) -> None:
    client.socket.close()


def _reset(client: SessionClient) -> None:
    client.reset()


def _wait_for_keep_alive(client: SessionClient) -> None:
    packets = client.read_to_end()
    if client.version == 5:
        [goodbye] = packets
        assert isinstance(goodbye, Disconnect) and goodbye.reason == ReasonCode.KEEP_ALIVE_TIMEOUT


def _violate(client: SessionClient) -> None:
    client.say(Subscribe(1, []))
    client.read_to_end()


def _send_nonsense(client: SessionClient) -> None:
    client.send(b"\xff\xff\xff\xff\xff")
    client.read_to_end()


def _ask_for_it(client: SessionClient) -> None:
    client.say(Disconnect(ReasonCode.DISCONNECT_WITH_WILL_MESSAGE))
    client.read_to_end()


def _be_taken_over(client: SessionClient) -> None:
    port = client.socket.getpeername()[1]
    with SessionClient(port, client.client_id, client.version) as other:
        other.open()
        other.say(Disconnect())
        other.read_to_end()


BAD_ENDS = [_cut, _reset, _wait_for_keep_alive, _violate, _send_nonsense, _be_taken_over]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("end", BAD_ENDS)
@pytest.mark.parametrize("is_lasting", [False, True])
def test_every_bad_end(
    watcher: SessionClient, port: int, topic: str, client_id: str, version: int, end, is_lasting: bool
) -> None:
    client = SessionClient(port, client_id, version)
    client.open(
        clean=not is_lasting,
        expiry=600 if is_lasting else 0,
        will=will_of(topic),
        keep_alive=1 if end is _wait_for_keep_alive else 0,
    )
    end(client)
    assert watcher.take(1) == [b"gone"]
    assert nothing_more(watcher, port, topic)
    client.socket.close()


@pytest.mark.parametrize(("reason", "is_published"), [(0x00, False), (0x04, True), (0x80, True)])
@pytest.mark.parametrize("expiry", [0, 600])
def test_disconnect(
    watcher: SessionClient, port: int, topic: str, client_id: str, reason: int, is_published: bool, expiry: int
) -> None:
    with SessionClient(port, client_id) as client:
        client.open(expiry=expiry, will=will_of(topic))
        client.say(Disconnect(ReasonCode(reason)))
        client.read_to_end()
    if is_published:
        assert watcher.take(1) == [b"gone"]
    with SessionClient(port, client_id) as client:  # nor does the next connection have it
        client.open(expiry=expiry)
    assert nothing_more(watcher, port, topic)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_its_quality_and_retain(watcher: SessionClient, port: int, topic: str, client_id: str, qos: int) -> None:
    with SessionClient(port, client_id) as client:
        client.open(will=will_of(topic, qos, retain=True))
    delivery = watcher.next_delivery()
    assert (delivery.qos, delivery.retain, delivery.payload) == (qos, True, b"gone")
    kept = wait_until(lambda: _retained(port, topic), "it is retained")
    assert [(each.qos, each.retain, each.payload) for each in kept] == [(qos, True, b"gone")]


def _retained(port: int, topic: str) -> list[Publish]:
    """What a new subscription brings."""
    with RawClient(port, acknowledges=False) as late:
        late.connect(f"late-{topic}")
        late.subscribe(f"{topic}/#", qos=2)
        late.say(Publish(f"{topic}/other", END, 0))
        found = late.expect_deliveries(1)
        while found[-1].payload != END:
            found += late.expect_deliveries(1)
        return found[:-1]


def test_a_delayed_one_waits_and_is_published_once(port: int, topic: str, client_id: str) -> None:
    """One client stays away; another comes back in time; of a third the session ends sooner than the delay."""
    attempts = (_delayed_ones_are_published_once(port, f"{topic}{at}", f"{client_id}-{at}") for at in range(5))
    assert any(attempts), "never in time"


def _delayed_ones_are_published_once(port: int, topic: str, client_id: str) -> bool:
    """False where it took so long to come back that one may have been due by then."""
    with watching(port, topic) as watcher:
        with SessionClient(port, f"{client_id}-back") as client:
            client.open(will=Will(f"{topic}/will", b"never", 1, False, {PropertyId.WILL_DELAY_INTERVAL: DELAY}))
            back_until = time.monotonic() + DELAY - 0.1
        with SessionClient(port, f"{client_id}-short") as client:
            properties = {PropertyId.WILL_DELAY_INTERVAL: 600}
            client.open(expiry=1, will=Will(f"{topic}/will", b"expired", 1, False, properties))
            short_until = time.monotonic() + 0.9
        with SessionClient(port, f"{client_id}-away") as client:
            client.open(will=will_of(topic, delay=DELAY))
        with SessionClient(port, f"{client_id}-back") as client:
            is_present = client.open().session_present
            is_in_time = time.monotonic() < back_until
            publish_from(port, f"{topic}/will", [END])
            if not is_in_time or time.monotonic() > short_until:
                return False
            assert is_present
            assert watcher.take(1) == [END]
            assert sorted(watcher.take(2)) == [b"expired", b"gone"]
            assert nothing_more(watcher, port, topic)
            return True


def test_a_delayed_one_when_the_session_begins_anew(
    watcher: SessionClient, port: int, topic: str, client_id: str
) -> None:
    """Clean start ends the old session, and with it the delay (3.1.3.2.2)."""
    with SessionClient(port, client_id) as client:
        client.open(will=will_of(topic, delay=600))
    with SessionClient(port, client_id) as client:
        client.open(clean=True)
        assert watcher.take(1) == [b"gone"]
        assert nothing_more(watcher, port, topic)
