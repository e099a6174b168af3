"""Sessions that outlive their connections: what a client finds when it comes back to a server that goes on running."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from entrepot.protocols.mqtt.packets import Connack, Connect, Disconnect, Puback, Publish, Subscription
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.cases import cases
from tests.support.http.pull import http_json
from tests.support.mqtt.client import RawClient
from tests.support.mqtt.session_client import SessionClient, numbered, publish_all, publish_from
from tests.support.processes.deployment import Deployment
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled

END = b"end"
MANY = 2500
"""More than the window (1024) and than what waits for one subscriber (1000) together."""


@pytest.fixture
def client_id() -> str:
    return f"c{uuid4().hex[:12]}"


def leave_with_subscription(
    port: int, client_id: str, topic: str, qos: int = 1, version: int = 5, expiry: int = 600
) -> None:
    """A session with one subscription and nobody connected."""
    with SessionClient(port, client_id, version) as client:
        assert not client.open(expiry=expiry).session_present
        client.subscribe(f"{topic}/#", qos=qos)
        client.say(Disconnect())
        client.read_to_end()


def rest(client: SessionClient, port: int, topic: str) -> list[bytes]:
    """All that comes before a message that is published now, acknowledged."""
    publish_from(port, f"{topic}/n", [END])
    taken: list[bytes] = []
    while END not in taken:
        taken += client.take_what_is_there()
    assert taken[-1] == END
    return taken[:-1]


@cases("version", [4, 5])
@cases("qos", [1, 2])
@pytest.mark.everywhere
def test_what_came_meanwhile_is_delivered_in_order_and_once(
    port: int, topic: str, client_id: str, version: int, qos: int
) -> None:
    topic, client_id = f"{topic}{version}{qos}", f"{client_id}{version}{qos}"
    leave_with_subscription(port, client_id, topic, qos, version)
    with RawClient(port, acknowledges=False) as publisher:
        publisher.connect(f"publisher-{client_id}")
        for number in range(0, 60, 3):
            first, second, none = numbered(3, number)
            publish_all(publisher, f"{topic}/n", [first], 1)
            publish_all(publisher, f"{topic}/n", [second], 2)
            publish_all(publisher, f"{topic}/n", [b"at most once " + none], 0)
        publish_all(publisher, f"{topic}/n", [b"last"], 1)
    for expected in ([b"%d" % n for n in range(60) if n % 3 != 2] + [b"last"], []):
        with SessionClient(port, client_id, version) as client:
            assert client.open().session_present
            assert rest(client, port, topic) == expected


def test_it_catches_up_and_joins_what_goes_on(port: int, topic: str, client_id: str) -> None:
    """The publisher never stops: no gap and no duplicate where the log meets what is live, five times."""
    leave_with_subscription(port, client_id, topic)
    stop, sent = threading.Event(), [0]

    def publish() -> None:
        with RawClient(port, acknowledges=False) as publisher:
            publisher.connect(f"publisher-{client_id}")
            while not stop.is_set():
                publish_all(publisher, f"{topic}/n", numbered(20, sent[0]))
                sent[0] += 20

    thread = threading.Thread(target=publish)
    thread.start()
    taken: list[bytes] = []
    try:
        for _ in range(5):
            before = sent[0]
            wait_until(lambda before=before: sent[0] >= before + 100, "some were published while it was away")
            with SessionClient(port, client_id) as client:
                assert client.open().session_present
                until = sent[0] + 100
                while len(taken) < until:
                    taken += client.take_what_is_there()
                client.say(Disconnect())
                while client.read():  # what was on its way comes again, and not before what was acknowledged
                    pass
    finally:
        stop.set()
        thread.join()
    with SessionClient(port, client_id) as client:
        assert client.open().session_present
        taken += rest(client, port, topic)
    assert list(dict.fromkeys(taken)) == numbered(sent[0])
    assert len(taken) == sent[0]


@pytest.mark.parametrize("receive_maximum", [0, 1, 7])
def test_a_backlog_beyond_all_limits(port: int, topic: str, client_id: str, receive_maximum: int) -> None:
    count = MANY if receive_maximum != 1 else 300
    leave_with_subscription(port, client_id, topic, 2)
    publish_from(port, f"{topic}/n", numbered(count))
    with SessionClient(port, client_id) as client:
        assert client.open(receive_maximum=receive_maximum).session_present
        if receive_maximum:
            first = client.expect_deliveries(receive_maximum)
            assert len(first) == receive_maximum and not client.deliveries
            client.deliveries = first
        assert client.take(count) == numbered(count)
        assert rest(client, port, topic) == []


def test_unacknowledged_messages_come_again_with_their_identifiers(port: int, topic: str, client_id: str) -> None:
    """First, in their order, with DUP; then what came later.  Three times, the last with a smaller window."""
    with SessionClient(port, client_id) as client:
        client.open()
        client.subscribe(f"{topic}/#", qos=1)
        publish_from(port, f"{topic}/n", numbered(20))
        before = client.expect_deliveries(20)
        client.say(*[Puback(each.packet_id) for each in before[:10:2]])
        client.say(Disconnect())
        client.read_to_end()
    left = before[1:10:2] + before[10:]
    publish_from(port, f"{topic}/n", numbered(5, 20))
    for receive_maximum in (0, 0, 4):
        with SessionClient(port, client_id) as client:
            assert client.open(receive_maximum=receive_maximum).session_present
            again = client.expect_deliveries(min(len(left), receive_maximum or len(left)))
            assert [(e.packet_id, e.payload, e.dup) for e in again] == [
                (e.packet_id, e.payload, True) for e in left[: len(again)]
            ]
            if not receive_maximum:
                later = client.expect_deliveries(5 if len(left) == 15 else 0)
                assert [each.payload for each in later] == numbered(len(later), 20)
                assert not any(each.dup for each in later)
                left += later
            else:
                assert not client.deliveries, "more than the client takes"
                client.deliveries = again
                assert client.take(len(left)) == [each.payload for each in left]
                assert rest(client, port, topic) == []


@pytest.mark.everywhere
def test_options_and_identifiers_survive(port: int, topic: str, client_id: str) -> None:
    with SessionClient(port, client_id) as client:
        client.open()
        client.subscribe_to(
            Subscription(f"{topic}/a", 1, no_local=True, retain_as_published=True, retain_handling=2), identifier=7
        )
        client.subscribe_to(Subscription(f"{topic}/+", 0), identifier=9)
        client.subscribe_to(Subscription(f"{topic}/b", 2), identifier=11)
        client.say(Disconnect())
        client.read_to_end()
    with SessionClient(port, client_id) as client, RawClient(port) as other:
        assert client.open().session_present
        client.say(Publish(f"{topic}/a", b"own", 1, 1))
        client.expect(Puback)
        other.connect(f"other-{client_id}")
        other.say(Publish(f"{topic}/a", b"theirs", 1, 1, retain=True), Publish(f"{topic}/b", b"both", 1, 2))
        found = {}
        for _ in range(3):
            delivery = client.next_delivery()
            identifiers = sorted(delivery.properties[PropertyId.SUBSCRIPTION_IDENTIFIER])
            found[delivery.payload] = (delivery.qos, delivery.retain, identifiers)
        assert found == {
            b"own": (0, False, [9]),
            b"theirs": (1, True, [7, 9]),
            b"both": (1, False, [9, 11]),
        }


@pytest.mark.everywhere
def test_a_topic_that_came_after_the_client_left(port: int, topic: str, client_id: str) -> None:
    leave_with_subscription(port, client_id, topic)
    publish_from(port, f"{topic}/n", numbered(30))
    with SessionClient(port, client_id) as client:
        assert client.open().session_present
        assert client.take(30) == numbered(30)
        assert rest(client, port, topic) == []


@pytest.mark.parametrize("count", [5, 80])
def test_a_topic_that_was_deleted_and_made_anew(
    server: Deployment, port: int, topic: str, client_id: str, count: int
) -> None:
    """Fewer messages than the old topic had, or more: all of them are new to the session."""
    with SessionClient(port, client_id) as client:
        client.open()
        client.subscribe(f"{topic}/#", qos=1)
        publish_from(port, f"{topic}/n", numbered(40))
        client.take(40)
        client.say(Disconnect())
        client.read_to_end()
    http_json(server, "DELETE", f"/api/v1/topics/{topic}")
    wait_until(lambda: _is_away(server, topic), "the topic is away")
    publish_from(port, f"{topic}/n", numbered(count, 100))
    with SessionClient(port, client_id) as client:
        assert client.open().session_present
        assert rest(client, port, topic) == numbered(count, 100)


def _is_away(server: Deployment, topic: str) -> bool:
    return topic not in str(http_json(server, "GET", "/api/v1/topics?limit=1000"))


# -- the end of sessions ---------------------------------------------------------------------------------------------


def test_clean_start_ends_it(port: int, topic: str, client_id: str) -> None:
    leave_with_subscription(port, client_id, topic)
    publish_from(port, f"{topic}/n", [b"missed"])
    with SessionClient(port, client_id) as client:
        assert not client.open(clean=True).session_present
        client.subscribe(f"{topic}/other", qos=1)
        publish_from(port, f"{topic}/other", [END])
        assert client.next_delivery().payload == END
    with SessionClient(port, client_id) as client:
        assert client.open().session_present


@cases("version", [4, 5])
def test_a_session_that_ends_with_its_connection(
    server: Deployment, port: int, topic: str, client_id: str, version: int
) -> None:
    """Also if it was one that lasted before."""
    topic, client_id = f"{topic}{version}", f"{client_id}{version}"
    leave_with_subscription(port, client_id, topic, version=version)
    with SessionClient(port, client_id, version) as client:
        assert client.open(clean=version < 5, expiry=0).session_present is (version == 5)
    wait_until(lambda: _is_gone(server, client_id), "it is gone")


def _is_gone(server: Deployment, client_id: str) -> bool:
    """Looks without a connection, which would change the session."""
    return http_json(server, "GET", f"/api/v1/sessions?prefix={client_id}")["value"] == []


def test_connections_that_are_gone_before_they_are_answered(port: int, topic: str, client_id: str) -> None:
    """They open the session and read nothing: it stays where it was."""
    with SessionClient(port, client_id) as client:
        client.open()
        client.subscribe(f"{topic}/#", qos=1)
        publish_from(port, f"{topic}/n", numbered(50))
        client.take(50)
        client.say(Disconnect())
        client.read_to_end()
    for _ in range(20):
        hasty = [SessionClient(port, client_id) for _ in range(3)]
        for each in hasty:
            each.say(_connect(client_id))
        for each in hasty:
            each.socket.close()
    with open_when_the_others_are_through(port, client_id) as client:
        assert rest(client, port, topic) == []


def open_when_the_others_are_through(port: int, client_id: str) -> SessionClient:
    """A client whose session others take all the time is told so, and asks again."""

    def opened() -> SessionClient | None:
        client = SessionClient(port, client_id)
        client.say(_connect(client_id))
        answer = client.expect(Connack)
        if answer.reason == ReasonCode.SERVER_BUSY:
            client.socket.close()
            return None
        assert answer.reason == 0 and answer.session_present, answer
        return client

    client = wait_until(opened, "the session is free")
    assert client is not None
    return client


def _connect(client_id: str) -> Connect:
    return Connect(client_id, 5, False, properties={PropertyId.SESSION_EXPIRY_INTERVAL: 600})


@pytest.mark.scaled
def test_many_sessions_come_back_at_once(port: int, topic: str, client_id: str) -> None:
    count, threads = scaled(100, 1000), 8
    names = [f"{client_id}-{number}" for number in range(count)]

    def make(part: list[str]) -> None:
        for name in part:
            leave_with_subscription(port, name, topic)

    def come_back(part: list[str]) -> int:
        clients = [SessionClient(port, name) for name in part]
        try:
            for client, name in zip(clients, part, strict=True):
                client.say(_connect(name))
            taken = 0
            for client in clients:
                assert client.expect(Connack).session_present
                taken += client.take(3) == numbered(3)
            return taken
        finally:
            for client in clients:
                client.socket.close()

    parts = [names[number::threads] for number in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(make, parts))
        publish_from(port, f"{topic}/n", numbered(3))
        assert sum(pool.map(come_back, parts)) == count
