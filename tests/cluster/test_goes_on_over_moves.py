"""Over a planned move everything goes on where the log says, on the connections that there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]
import pytest

from entrepot.domain.timestamp import to_rfc3339
from entrepot.protocols.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel, Subscription
from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.cluster.conftest import WEBHOOKS
from tests.support.amqp.load import parameters
from tests.support.doors.load import door, event_headers
from tests.support.http.client import http_client
from tests.support.http.event_streams import consumer_at, source
from tests.support.http.group_member import GroupMember
from tests.support.http.webhook_receiver import WebhookReceiver
from tests.support.mqtt.session_client import SessionClient, numbered, publish_from
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.rocketmq.client import GrpcClient, resource
from tests.support.soak_table import tell
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.timeout(120)]
Move = Callable[[], None]


@pytest.fixture(scope="module")
def replicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedProcesses]:
    directory = tmp_path_factory.mktemp("moves")
    with ReplicatedProcesses(directory, "2-3", replicas=3, gateways=2, settings=WEBHOOKS) as running:
        yield running


@pytest.fixture
def move(replicated: ReplicatedProcesses, request: pytest.FixtureRequest) -> Move:
    """Move the mastership to another replica."""

    def move() -> None:
        replicated.wait_in_sync(3)
        replicated.elect(to=replicated.master() % 3 + 1)
        tell(f"a planned move: {request.node.name}", faults=1)

    return move


@pytest.fixture
def client(replicated: ReplicatedProcesses) -> Iterator[httpx2.Client]:
    with door(replicated.gateways[0]) as made:
        yield made


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"t{abs(hash(request.node.name))}"


def publish(client: httpx2.Client, topic: str, *names: str, **more: str) -> None:
    for name in names:
        answer = client.post(f"/topics/{topic}:publish", json={"name": name}, headers=event_headers(name, **more))
        assert answer.status_code == 200, answer.text


# -- MQTT --------------------------------------------------------------------------------------------------------------


def test_an_exactly_once_handshake_goes_on(replicated: ReplicatedProcesses, move: Move, topic: str) -> None:
    """Of both directions, each at another place; then the session goes on at the other gateway."""
    here, there = (gateway.port("mqtt") for gateway in replicated.gateways)
    with SessionClient(here, topic) as subscriber, SessionClient(there, f"{topic}p") as publisher:
        subscriber.open()
        publisher.open()
        subscriber.subscribe_to(Subscription(f"{topic}/#", 2))
        publish_from(there, f"{topic}/n", numbered(6), 2)
        given = subscriber.expect_deliveries(6)
        subscriber.say(*[Pubrec(each.packet_id) for each in given[:4]])
        released = [subscriber.expect(Pubrel).packet_id for _ in range(4)]
        subscriber.say(*[Pubcomp(packet_id) for packet_id in released[:2]])
        publisher.say(Publish(f"{topic}/n", b"6", 2, 1), Publish(f"{topic}/n", b"7", 2, 2))
        assert {publisher.expect(Pubrec).packet_id for _ in range(2)} == {1, 2}
        move()
        publisher.say(Pubrel(1), Pubrel(2), Publish(f"{topic}/n", b"8", 2, 3))
        answers = [publisher.expect(object) for _ in range(3)]
        assert sum(isinstance(each, Pubcomp) for each in answers) == 2
        publisher.say(Pubrel(3))
        assert publisher.expect(Pubcomp).packet_id == 3
        subscriber.say(*[Pubcomp(packet_id) for packet_id in released[2:]])
        subscriber.say(*[Pubrec(each.packet_id) for each in given[4:]])
        assert subscriber.take(3) == numbered(3, 6)
        wait_until(lambda: _is_settled(subscriber), "its handshakes have ended")
    with SessionClient(there, topic) as again:
        assert again.open().session_present
        publish_from(there, f"{topic}/n", [b"last"], 2)
        assert again.take(1) == [b"last"]


def _is_settled(subscriber: SessionClient) -> bool:
    """Whether the server has nothing more to say of what it gave."""
    try:
        subscriber.read(0.3)
    except TimeoutError:
        return True
    assert subscriber.take_what_is_there() == []
    return False


def test_a_share_goes_on(replicated: ReplicatedProcesses, move: Move, topic: str) -> None:
    ports = [gateway.port("mqtt") for gateway in replicated.gateways]
    with SessionClient(ports[0], f"{topic}a") as one, SessionClient(ports[1], f"{topic}b") as two:
        for member in (one, two):
            member.open(clean=True, receive_maximum=5)
            member.subscribe_to(Subscription(f"$share/g/{topic}/#", 1))
        publish_from(ports[0], f"{topic}/n", numbered(10))
        held = {member: member.expect_deliveries(5) for member in (one, two)}
        move()
        for member, given in held.items():
            member.say(*[Puback(each.packet_id) for each in given])
        publish_from(ports[1], f"{topic}/n", numbered(10, 10))
        later: list[bytes] = []

        def all_are_here() -> bool:
            for member in (one, two):
                try:
                    member.read(0.1)
                except TimeoutError:
                    continue
                finally:
                    if member.deliveries:
                        later.extend(member.take_what_is_there())
            return len(later) >= 10

        wait_until(all_are_here, lambda: str(later))
        first = [each.payload for given in held.values() for each in given]
        assert sorted(first + later) == sorted(numbered(20))


# -- AMQP --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def connections(replicated: ReplicatedProcesses) -> Iterator[list[Any]]:
    """One at each gateway."""
    made = [pika.BlockingConnection(parameters(gateway.port("amqp"))) for gateway in replicated.gateways]
    yield made
    for each in made:
        if each.is_open:
            each.close()


def confirmed(channel: Any, queue: str, *numbers: int) -> None:
    channel.confirm_delivery()
    for number in numbers:
        channel.basic_publish("", queue, b"%d" % number)


def taken_by(connection: Any, numbers: list[int], count: int) -> None:
    """Return when a consumer has so many."""

    def turn() -> bool:
        connection.process_data_events(0.05)
        return len(numbers) >= count

    wait_until(turn, lambda: str(numbers))


@pytest.mark.parametrize("kind", ["any", "single active", "exclusive"])
def test_a_queues_consumer_stays_who_it_is(
    client: httpx2.Client, connections: list[Any], move: Move, topic: str, kind: str
) -> None:
    """What it holds it acknowledges after the move, and nothing of that comes again."""
    channel, other = connections[0].channel(), connections[1].channel()
    arguments = {"x-single-active-consumer": True} if kind == "single active" else {}
    channel.queue_declare(topic, durable=True, arguments=arguments)
    channel.basic_qos(prefetch_count=5)
    confirmed(other, topic, *range(8))
    numbers, tags, again = list[int](), list[int](), list[int]()

    def take(_: Any, method: Any, properties: object, body: bytes) -> None:
        numbers.append(int(body))
        tags.append(method.delivery_tag)
        if method.redelivered:
            again.append(int(body))

    channel.basic_consume(topic, take, exclusive=kind == "exclusive")
    taken_by(connections[0], numbers, 5)
    move()
    channel.basic_ack(tags[-1], multiple=True)
    taken_by(connections[0], numbers, 8)
    if kind == "exclusive":
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="in exclusive use"):
            connections[1].channel().basic_consume(topic, take)
    elif kind == "single active":
        idle = connections[1].channel()
        idle.basic_consume(topic, lambda *_: again.append(-1))
    confirmed(other, topic, 8, 9)
    taken_by(connections[0], numbers, 10)
    connections[1].process_data_events(0.1)
    channel.basic_ack(tags[-1], multiple=True)
    assert (numbers, again) == (list(range(10)), [])
    path = f"/api/queues/%2F/{topic}"
    wait_until(lambda: client.get(path).json()["messages"] == 0, lambda: client.get(path).text)


def test_an_exclusive_queue_stays(connections: list[Any], move: Move) -> None:
    channel = connections[0].channel()
    name = channel.queue_declare("", exclusive=True).method.queue
    confirmed(channel, name, 1)
    move()
    confirmed(channel, name, 2)
    assert [channel.basic_get(name, auto_ack=True)[2] for _ in range(2)] == [b"1", b"2"]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="exclusive"):
        connections[1].channel().queue_declare(name, passive=True)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_of_a_channel_goes_on(connections: list[Any], move: Move, topic: str, end: str) -> None:
    channel, other = connections[0].channel(), connections[1].channel()
    channel.queue_declare(topic, durable=True)
    channel.tx_select()
    for number in range(4):
        if number == 2:
            move()
        channel.basic_publish("", topic, b"%d" % number)
    assert other.basic_get(topic)[0] is None
    getattr(channel, f"tx_{end}")()
    expected = [b"0", b"1", b"2", b"3", None] if end == "commit" else [None]
    assert [other.basic_get(topic, auto_ack=True)[2] for _ in expected] == expected


# -- RocketMQ ----------------------------------------------------------------------------------------------------------


def test_half_messages_end_after_the_move(replicated: ReplicatedProcesses, move: Move, topic: str) -> None:
    first, second = (GrpcClient(gateway.address("grpc")) for gateway in replicated.gateways)
    with first, second:
        half = [first.message(topic, body, message_type=v2.TRANSACTION) for body in (b"yes", b"no")]
        entries = first.send(*half).entries
        move()
        for entry, resolution in zip(entries, (v2.COMMIT, v2.ROLLBACK), strict=True):
            question = v2.EndTransactionRequest(
                topic=resource(topic), transaction_id=entry.transaction_id, resolution=resolution
            )
            assert first.call("EndTransaction", question).status.code == v2.OK
        assert [found.body for found in second.receive(topic, "g", wait_ms=10_000)] == [b"yes"]
        assert second.receive(topic, "g") == []


def test_what_was_received_is_acknowledged_and_renewed_after_the_move(
    replicated: ReplicatedProcesses, move: Move, topic: str
) -> None:
    with GrpcClient(replicated.gateways[0].address("grpc")) as client:
        client.send(client.message(topic, b"0"), client.message(topic, b"1"))
        found: list[Any] = []
        wait_until(lambda: found.extend(client.receive(topic, "g")) or len(found) == 2, "both are there")
        move()
        answer = client.ack(topic, "g", found[0])
        assert [entry.status.code for entry in answer.entries] == [v2.OK]
        question = v2.ChangeInvisibleDurationRequest(
            topic=resource(topic), group=resource("g"), receipt_handle=found[1].system_properties.receipt_handle
        )
        question.invisible_duration.FromMilliseconds(10)
        assert client.call("ChangeInvisibleDuration", question).status.code == v2.OK
        [again] = client.receive(topic, "g", wait_ms=10_000)
        assert again.body == found[1].body


# -- timers, webhooks, members, streams --------------------------------------------------------------------------------


def test_a_timer_is_due_once(client: httpx2.Client, move: Move, topic: str) -> None:
    due = time.time() + 2.5
    publish(client, topic, "later", deliverytime=str(to_rfc3339(int(due * 1000))))
    move()
    path = f"/topics/{topic}/eventsubscriptions/g:receive?maxEvents=10&maxWaitTime=10"
    answer = client.post(path).json()
    assert "value" in answer, answer
    [found] = answer["value"]
    assert time.time() >= due
    assert found["event"]["id"] == "later"
    publish(client, topic, "behind")
    [found] = client.post(path).json()["value"]
    assert found["event"]["id"] == "behind"


def test_a_webhook_goes_on(client: httpx2.Client, move: Move, topic: str) -> None:
    receiver = WebhookReceiver()
    receiver.behave(topic)
    try:
        config = {"handshake": "off", "timeoutseconds": 5}
        body = {"source": topic, "sink": receiver.hook(topic), "protocol": "HTTP", "config": config}
        client.put(f"/api/v1/topics/{topic}", json={})
        assert client.post("/subscriptions", json=body).status_code == 201
        publish(client, topic, *(f"e{number}" for number in range(10)))
        move()
        publish(client, topic, *(f"e{number}" for number in range(10, 20)))
        found = receiver.wait(topic, 20)
        assert sorted(each["headers"]["ce-id"] for each in found) == sorted(f"e{number}" for number in range(20))
    finally:
        receiver.stop()


def test_members_keep_their_queues(replicated: ReplicatedProcesses, client: httpx2.Client, move: Move) -> None:
    topic = "members"
    assert client.put(f"/api/v1/topics/{topic}", json={"queues": 4}).status_code == 201
    with door(replicated.gateways[1]) as other:
        one, two = GroupMember(client, topic, "one"), GroupMember(other, topic, "two")
        for member in (one, two, one):
            member.heartbeat()
        before = [(member.assignment["generation"], list(member.offsets)) for member in (one, two)]
        publish(client, topic, *(f"e{number}" for number in range(20)))
        move()
        for member, (generation, queues) in zip((one, two), before, strict=True):
            assert (member.heartbeat(), member.assignment["generation"]) == (queues, generation)
            for queue_id in queues:
                _, following = member.pull(queue_id, limit=50)
                assert member.commit(queue_id, following).status_code == 200


def test_streams_go_on_at_exact_offsets(replicated: ReplicatedProcesses, client: httpx2.Client, move: Move) -> None:
    topic = "streamed"
    client.put(f"/api/v1/topics/{topic}", json={"queues": 3})
    publish(client, topic, *(f"e{number}" for number in range(20)))
    with (
        http_client(f"http://{replicated.gateways[1].address('http')}") as other,
        source(other, topic, start="earliest") as live,
    ):
        first = live.take(10)
        place = live.last_id
        move()
        publish(client, topic, *(f"e{number}" for number in range(20, 30)))
        rest = live.take(20)
        assert sorted(first + rest) == sorted(f"e{number}" for number in range(30))
    with source(client, topic, {"last-event-id": place}) as live:
        assert sorted(live.take(20)) == sorted(rest)


def test_a_consumers_websocket_settles_what_it_had(
    replicated: ReplicatedProcesses, client: httpx2.Client, move: Move, topic: str
) -> None:
    client.put(f"/api/v1/topics/{topic}", json={})
    path = f"/topics/{topic}/eventsubscriptions/g:stream?credit=10"
    with consumer_at(replicated.gateways[0].address("http"), path) as it:
        publish(client, topic, *(f"e{number}" for number in range(5)))
        held = [it.next() for _ in range(5)]
        move()
        assert it.settle("acknowledge", *held)["failedLockTokens"] == []
        publish(client, topic, "e5")
        assert it.next()["id"] == "e5"
