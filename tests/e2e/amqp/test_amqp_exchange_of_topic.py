"""Whether an exchange is there: a passive declare, a publish, a bind and the management API give one answer.

Played by py-amqp on ours and on RabbitMQ.  What RabbitMQ has not is that every Topic is an exchange.  One that was
deleted is none until it is declared again, although its Topic stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import amqp  # type: ignore[import-untyped]
import pytest

from entrepot.protocols.mqtt.packets import Publish
from tests.support.amqp import servers
from tests.support.http.pull import http_json
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deployment
from tests.support.rocketmq.in_front import deployment_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PORT_OF = Callable[[str], int]


def answers(port: int, exchange: str) -> tuple[str, str, str]:
    """What a passive declare, a publish with a confirm and a bind are answered, each on a channel of its own."""
    connection = amqp.Connection(f"127.0.0.1:{port}", confirm_publish=True)
    connection.connect()

    def ask(question: Callable[[amqp.Channel], object]) -> str:
        try:
            question(connection.channel())
        except amqp.NotFound:
            return "404"
        return "ok"

    def bind(channel: amqp.Channel) -> None:
        channel.queue_bind(channel.queue_declare(exclusive=True).queue, exchange, "k")

    try:
        return (
            ask(lambda channel: channel.exchange_declare(exchange, "topic", passive=True)),
            ask(lambda channel: channel.basic_publish(amqp.Message("x"), exchange, "k")),
            ask(bind),
        )
    finally:
        connection.close()


@pytest.mark.parametrize("server", servers.SERVERS)
def test_one_answer_to_every_question(server: str, amqp_port: PORT_OF) -> None:
    port, name = amqp_port(server), f"e.{uuid4().hex[:8]}"
    assert answers(port, name) == ("404", "404", "404")
    connection = amqp.Connection(f"127.0.0.1:{port}")
    connection.connect()
    channel = connection.channel()
    channel.exchange_declare(name, "direct", auto_delete=False)
    assert answers(port, name) == ("ok", "ok", "ok")
    channel.exchange_delete(name)
    assert answers(port, name) == ("404", "404", "404"), "what was published to it keeps its Topic alone"
    channel.exchange_declare(name, "fanout", auto_delete=False)
    assert answers(port, name) == ("ok", "ok", "ok")
    channel.exchange_delete(name)
    channel.exchange_delete(name)
    assert answers(port, name) == ("404", "404", "404")
    unused = f"{name}.unused"
    channel.exchange_declare(unused, "direct", auto_delete=False)
    channel.exchange_delete(unused)
    assert answers(port, unused) == ("404", "404", "404"), "nothing was published to it, so there is no Topic"
    connection.close()


@pytest.mark.parametrize("server", servers.SERVERS)
def test_an_exchange_that_goes_with_its_last_binding_is_gone(server: str, amqp_port: PORT_OF) -> None:
    port, name = amqp_port(server), f"e.{uuid4().hex[:8]}"
    connection = amqp.Connection(f"127.0.0.1:{port}", confirm_publish=True)
    connection.connect()
    channel = connection.channel()
    channel.exchange_declare(name, "topic", auto_delete=True)
    queue = channel.queue_declare(exclusive=True).queue
    channel.queue_bind(queue, name, "#")
    channel.basic_publish(amqp.Message("x"), name, "k")
    channel.queue_unbind(queue, name, "#")
    assert answers(port, name) == ("404", "404", "404")
    connection.close()


@pytest.mark.parametrize("server", servers.SERVERS)
def test_dead_letters_to_a_deleted_exchange_are_dropped(server: str, amqp_port: PORT_OF) -> None:
    port, name = amqp_port(server), f"e.{uuid4().hex[:8]}"
    connection = amqp.Connection(f"127.0.0.1:{port}", confirm_publish=True)
    connection.connect()
    channel = connection.channel()
    channel.exchange_declare(name, "fanout", auto_delete=False)
    channel.basic_publish(amqp.Message("x"), name, "k")
    channel.exchange_delete(name)
    queue = channel.queue_declare(exclusive=True, arguments={"x-dead-letter-exchange": name}).queue
    channel.basic_publish(amqp.Message("bad"), "", queue)
    channel.basic_reject(channel.basic_get(queue).delivery_tag, requeue=False)
    channel.exchange_declare(name, "fanout", auto_delete=False)
    letters = channel.queue_declare(exclusive=True).queue
    channel.queue_bind(letters, name)
    channel.basic_publish(amqp.Message("good"), "", queue)
    channel.basic_reject(channel.basic_get(queue).delivery_tag, requeue=False)
    letter = wait_until(lambda: channel.basic_get(letters, no_ack=True), "a letter")
    assert letter.body == "good"
    channel.exchange_delete(name)
    connection.close()


# -- every Topic is an exchange --------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=servers.OURS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployment_of(request)(tmp_path_factory.mktemp("topics"), servers.USERS) as running:
        yield running
        assert running.stop() == 0, running.log_text()
        assert "Traceback" not in running.log_text(), running.log_text()


GUEST = {"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


def test_what_is_published_to_a_topic_reaches_who_reads_the_topic(server: Deployment) -> None:
    """Nothing is declared and nothing bound: the Topic came into being by MQTT."""
    topic = f"t{uuid4().hex[:8]}"
    port = server.port("amqp")
    assert answers(port, topic) == ("404", "404", "404")
    with RawClient(server.port("mqtt")) as client:
        client.connect("c", username="guest", password=b"guest")
        client.subscribe(f"{topic}/#")
        client.publish(f"{topic}/first", b"1")
        assert [each.payload for each in client.expect_deliveries(1)] == [b"1"]
        connection = amqp.Connection(f"127.0.0.1:{port}", confirm_publish=True)
        connection.connect()
        channel = connection.channel()
        channel.exchange_declare(topic, "topic", passive=True)
        channel.basic_publish(amqp.Message("2"), topic, "line.temp")
        (delivery,) = client.expect_deliveries(1)
        assert isinstance(delivery, Publish)
        assert (delivery.topic, delivery.payload) == (f"{topic}/line/temp", b"2")
        shown = http_json(server, "GET", f"/api/exchanges/%2F/{topic}", headers=GUEST)
        assert (shown["name"], shown["type"]) == (topic, "topic")
        body = {"properties": {}, "routing_key": "line.speed", "payload": "3", "payload_encoding": "string"}
        answer = http_json(server, "POST", f"/api/exchanges/%2F/{topic}/publish", body, headers=GUEST)
        assert answer == {"routed": False}
        (delivery,) = client.expect_deliveries(1)
        assert (delivery.topic, delivery.payload) == (f"{topic}/line/speed", b"3")
        channel.exchange_delete(topic)
        assert answers(port, topic) == ("404", "404", "404")
        client.publish(f"{topic}/still", b"4")
        assert [each.payload for each in client.expect_deliveries(1)] == [b"4"]
    connection.close()


def test_dead_letters_go_to_a_topic(server: Deployment) -> None:
    topic = f"t{uuid4().hex[:8]}"
    with RawClient(server.port("mqtt")) as client:
        client.connect("c", username="guest", password=b"guest")
        client.publish(f"{topic}/first", b"1")
        client.subscribe(f"{topic}/#")
        connection = amqp.Connection(f"127.0.0.1:{server.port('amqp')}", confirm_publish=True)
        connection.connect()
        channel = connection.channel()
        queue = channel.queue_declare(
            exclusive=True, arguments={"x-dead-letter-exchange": topic, "x-dead-letter-routing-key": "dead"}
        ).queue
        channel.basic_publish(amqp.Message("bad"), "", queue)
        channel.basic_reject(channel.basic_get(queue).delivery_tag, requeue=False)
        (delivery,) = client.expect_deliveries(1)
        assert (delivery.topic, delivery.payload) == (f"{topic}/dead", b"bad")
    connection.close()


def test_in_another_virtual_host_a_topic_is_no_exchange(server: Deployment) -> None:
    """Names of MQTT and exchanges meet in `/` alone, so nothing that is published there would be read."""
    vhost, topic = f"v{uuid4().hex[:8]}", f"t{uuid4().hex[:8]}"
    http_json(server, "PUT", f"/api/v1/namespaces/{vhost}", {}, headers=GUEST)
    http_json(server, "PUT", f"/api/v1/namespaces/{vhost}/topics/{topic}", {}, headers=GUEST)
    connection = amqp.Connection(f"127.0.0.1:{server.port('amqp')}", virtual_host=vhost)
    connection.connect()
    with pytest.raises(amqp.NotFound):
        connection.channel().exchange_declare(topic, "topic", passive=True)
    channel = connection.channel()
    channel.basic_publish(amqp.Message("x"), topic, "k")
    with pytest.raises(amqp.NotFound):
        connection.drain_events(timeout=PATIENCE_SECONDS)
    connection.close()
