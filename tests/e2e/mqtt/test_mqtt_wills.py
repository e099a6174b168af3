"""Wills: published once when a connection ends badly, never when it ends well, and after their delay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from uuid import uuid4

import pytest

from entrepot.protocols.mqtt.packets import Disconnect, Publish, Subscribe, Subscription, Will
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.cases import cases
from tests.support.mqtt.client import RawClient
from tests.support.mqtt.session_client import SessionClient, publish_from
from tests.support.waiting import wait_until

END = b"end"


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


@pytest.mark.parametrize("end", BAD_ENDS)
def test_every_bad_end(port: int, topic: str, client_id: str, end: Callable[[SessionClient], None]) -> None:
    """Of either version, with a session that lasts and one that does not: all of them at once."""
    keep_alive = 1 if end is _wait_for_keep_alive else 0
    with ExitStack() as stack:
        made: list[tuple[SessionClient, SessionClient, str]] = []
        for version, is_lasting in product((4, 5), (False, True)):
            name = f"{topic}{version}{is_lasting:d}"
            watcher = stack.enter_context(watching(port, name))
            client = stack.enter_context(SessionClient(port, f"{client_id}-{name}", version))
            expiry = 600 if is_lasting else 0
            client.open(clean=not is_lasting, expiry=expiry, will=will_of(name), keep_alive=keep_alive)
            made.append((client, watcher, name))
        for client, watcher, name in made:
            end(client)
            assert watcher.take(1) == [b"gone"]
            assert nothing_more(watcher, port, name)


@cases("reason, is_published", [(0x00, False), (0x04, True), (0x80, True)])
@cases("expiry", [0, 600])
def test_disconnect(port: int, topic: str, client_id: str, reason: int, is_published: bool, expiry: int) -> None:
    name = f"{topic}{reason}{expiry}"
    with watching(port, name) as watcher:
        with SessionClient(port, f"{client_id}-{name}") as client:
            client.open(expiry=expiry, will=will_of(name))
            client.say(Disconnect(ReasonCode(reason)))
            client.read_to_end()
        if is_published:
            assert watcher.take(1) == [b"gone"]
        with SessionClient(port, f"{client_id}-{name}") as client:  # nor does the next connection have it
            client.open(expiry=expiry)
        assert nothing_more(watcher, port, name)


@cases("qos", [0, 1, 2])
@pytest.mark.everywhere
def test_its_quality_and_retain(port: int, topic: str, client_id: str, qos: int) -> None:
    name = f"{topic}{qos}"
    with watching(port, name) as watcher:
        with SessionClient(port, f"{client_id}-{qos}") as client:
            client.open(will=will_of(name, qos, retain=True))
        delivery = watcher.next_delivery()
        assert (delivery.qos, delivery.retain, delivery.payload) == (qos, True, b"gone")
        kept = wait_until(lambda: _retained(port, name), "it is retained")
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
