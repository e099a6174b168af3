"""One AMQP queue, consumed by AMQP, by MQTT's `$share` and by HTTP pull at once: all are consumers of its one group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pika  # type: ignore[import-untyped]
import pytest

from entrepot.domain.entity_name import encoded_name
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.amqp.load import parameters
from tests.support.http.pull import http_json
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deploy, Deployment
from tests.support.waiting import wait_until

COUNT = 90


@pytest.fixture(scope="module")
def server(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deploy(tmp_path_factory.mktemp("queues")) as running:
        yield running
        assert running.stop() == 0, running.log_text()
        assert "Traceback" not in running.log_text(), running.log_text()


@pytest.fixture
def channel(server: Deployment) -> Iterator[Any]:
    connection = pika.BlockingConnection(parameters(server.port("amqp")))
    made = connection.channel()
    made.confirm_delivery()
    yield made
    connection.close()


def declared(channel: Any, name: str = "", arguments: dict[str, Any] | None = None) -> str:
    return str(
        channel.queue_declare(name or f"orders.{uuid4().hex[:8]}", durable=True, arguments=arguments).method.queue
    )


def shared(queue: str) -> str:
    """The filter of a share of the queue."""
    return f"$share/{queue}/%AMQP%{encoded_name(queue)}/#"


def path_of(queue: str) -> str:
    name = encoded_name(queue).replace("%", "%25")
    return f"/topics/%25AMQP%25{name}/eventsubscriptions/{name}"


class Puller:
    """Receives by HTTP and acknowledges."""

    def __init__(self, server: Deployment, queue: str) -> None:
        self._server, self._path = server, path_of(queue)
        self.taken: list[str] = []

    def pull(self) -> None:
        found = http_json(self._server, "POST", f"{self._path}:receive?maxEvents=1&maxWaitTime=0")["value"]
        tokens = [item["brokerProperties"]["lockToken"] for item in found]
        if tokens:
            answer = http_json(self._server, "POST", f"{self._path}:acknowledge", {"lockTokens": tokens})
            assert answer["failedLockTokens"] == []
        self.taken += [item["event"]["data"] for item in found]


class MqttMember:
    """A member of the share that acknowledges what it reads, one at a time."""

    def __init__(self, server: Deployment, queue: str) -> None:
        self.client = RawClient(server.port("mqtt"))
        self.client.connect(f"m-{queue}", properties={PropertyId.RECEIVE_MAXIMUM: 1})
        assert self.client.subscribe(shared(queue)).reasons == [ReasonCode.GRANTED_QOS_1]

    def pull(self) -> None:
        try:
            self.client.read(0.02)
        except TimeoutError:
            pass

    @property
    def taken(self) -> list[str]:
        return [each.payload.decode() for each in self.client.deliveries]


class AmqpConsumer:
    """Consumes with a prefetch of one, on a connection of its own."""

    def __init__(self, server: Deployment, queue: str) -> None:
        self.connection = pika.BlockingConnection(parameters(server.port("amqp")))
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=1)
        self.taken: list[str] = []

        def take(channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            self.taken.append(body.decode())
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume(queue, take)

    def pull(self) -> None:
        self.connection.process_data_events(0.02)


def test_each_message_goes_to_one_of_the_three_doors(server: Deployment, channel: Any) -> None:
    """Published by AMQP to the queue, and by MQTT and AMQP to a name that is bound to it."""
    queue = declared(channel)
    topic = f"t{uuid4().hex[:8]}"
    channel.queue_bind(queue, "amq.topic", f"{topic}.#")
    consumers: list[Puller | MqttMember | AmqpConsumer] = [
        Puller(server, queue),
        MqttMember(server, queue),
        AmqpConsumer(server, queue),
    ]
    sent = [f"message-{number}" for number in range(COUNT)]
    with RawClient(server.port("mqtt")) as publisher:
        publisher.connect(f"p-{topic}")
        for number, body in enumerate(sent):
            if number % 3 == 0:
                channel.basic_publish("", queue, body.encode())
            elif number % 3 == 1:
                channel.basic_publish("amq.topic", f"{topic}.line", body.encode())
            else:
                publisher.publish(f"{topic}/line", body.encode(), number + 1)

    def all_came() -> bool:
        for consumer in consumers:
            consumer.pull()
        return sum(len(consumer.taken) for consumer in consumers) >= COUNT

    wait_until(all_came, lambda: f"{[len(consumer.taken) for consumer in consumers]} of {COUNT}")
    for _ in range(3):  # nothing comes twice
        all_came()
    assert sorted(body for consumer in consumers for body in consumer.taken) == sorted(sent)
    assert all(consumer.taken for consumer in consumers), [len(consumer.taken) for consumer in consumers]
    wait_until(lambda: channel.queue_declare(queue, passive=True).method.message_count == 0, "an empty queue")


def test_what_a_member_leaves_behind_comes_again_to_amqp_and_is_marked(server: Deployment, channel: Any) -> None:
    queue = declared(channel)
    member = RawClient(server.port("mqtt"), acknowledges=False)
    member.connect(f"m-{queue}")
    member.subscribe(shared(queue))
    channel.basic_publish("", queue, b"one")
    (delivery,) = member.expect_deliveries(1)
    assert (delivery.payload, delivery.qos) == (b"one", 1)
    assert delivery.topic == f"%AMQP%{encoded_name(queue)}"
    assert channel.basic_get(queue)[0] is None, "it is with the member"
    member.reset()
    got: list[Any] = []

    def is_back() -> bool:
        got[:] = channel.basic_get(queue, auto_ack=True)
        return got[0] is not None

    wait_until(is_back, "the message in the queue")
    assert (got[0].redelivered, got[2]) == (True, b"one")


def test_time_to_live_and_dead_letters_hold_for_a_member(server: Deployment, channel: Any) -> None:
    """What a member had no room for in time is a dead letter, as it would be with AMQP's consumers."""
    dead = declared(channel)
    queue = declared(channel, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    with RawClient(server.port("mqtt"), acknowledges=False) as member:
        member.connect(f"m-{queue}", properties={PropertyId.RECEIVE_MAXIMUM: 1})
        member.subscribe(shared(queue))
        channel.basic_publish("", queue, b"held")
        (held,) = member.expect_deliveries(1)
        assert held.payload == b"held"
        channel.basic_publish("", queue, b"late", pika.BasicProperties(expiration="100"))
        got: list[Any] = []

        def is_dead() -> bool:
            got[:] = channel.basic_get(dead, auto_ack=True)
            return got[0] is not None

        wait_until(is_dead, "a dead letter")
        assert got[2] == b"late" and got[1].headers["x-death"][0]["reason"] == "expired"
        assert member.deliveries == []


def test_the_delivery_limit_holds_for_members(server: Deployment, channel: Any) -> None:
    dead = declared(channel)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = declared(channel, arguments={"x-queue-type": "quorum", "x-delivery-limit": 1, **arguments})
    channel.basic_publish("", queue, b"poison")
    for attempt in range(2):
        with RawClient(server.port("mqtt"), acknowledges=False) as member:
            member.connect(f"m{attempt}-{queue}")
            member.subscribe(shared(queue))
            assert [each.payload for each in member.expect_deliveries(1)] == [b"poison"]
            member.reset()
    got: list[Any] = []

    with RawClient(server.port("mqtt")) as last:
        last.connect(f"last-{queue}")
        last.subscribe(shared(queue))

        def is_dead() -> bool:
            got[:] = channel.basic_get(dead, auto_ack=True)
            return got[0] is not None

        wait_until(is_dead, "a dead letter")
        assert got[1].headers["x-death"][0]["reason"] == "delivery_limit"
        assert last.deliveries == []


def test_what_cannot_be_shared_is_refused(server: Deployment, channel: Any) -> None:
    queue, exclusive = declared(channel), str(channel.queue_declare("", exclusive=True).method.queue)
    single = declared(channel, arguments={"x-single-active-consumer": True})
    stream = declared(channel, arguments={"x-queue-type": "stream"})
    filters = {
        f"$share/others/%AMQP%{encoded_name(queue)}/#": ReasonCode.NOT_AUTHORIZED,
        shared(exclusive): ReasonCode.NOT_AUTHORIZED,
        shared(single): ReasonCode.NOT_AUTHORIZED,
        shared(stream): ReasonCode.NOT_AUTHORIZED,
        shared("nowhere"): ReasonCode.UNSPECIFIED_ERROR,
    }
    with RawClient(server.port("mqtt")) as client:
        client.connect(f"r-{queue}")
        for topic_filter, reason in filters.items():
            assert (topic_filter, client.subscribe(topic_filter).reasons) == (topic_filter, [reason])
        assert client.subscribe(shared(queue), qos=2).reasons == [ReasonCode.GRANTED_QOS_1], "AMQP is at least once"
        channel.basic_publish("", queue, b"x")
        (delivery,) = client.expect_deliveries(1)
        assert delivery.qos == 1


def test_a_queue_that_was_deleted_and_declared_again_is_read_on(server: Deployment, channel: Any) -> None:
    queue = declared(channel)
    with RawClient(server.port("mqtt")) as member:
        member.connect(f"m-{queue}")
        member.subscribe(shared(queue))
        channel.basic_publish("", queue, b"before")
        assert [each.payload for each in member.expect_deliveries(1)] == [b"before"]
        channel.queue_delete(queue)
        declared(channel, queue)
        channel.basic_publish("", queue, b"after")
        assert [each.payload for each in member.expect_deliveries(1)] == [b"after"]
