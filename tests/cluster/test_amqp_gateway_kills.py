"""Contract row 8 at the AMQP door: a gateway is killed, and what its consumers had not acknowledged, and only that,
comes again, marked as redelivered, at another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.load import Consumer, Load, Publisher, parameters
from tests.support.doors.load import door
from tests.support.processes.deployment import ClusterProcesses, GatewayProcess
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
KILLS = 3
LONG_SECONDS = 2 * PATIENCE_SECONDS
"""A gateway is taken for dead after a while only."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path, gateways=2) as running:
        yield running


def connect(gateway: GatewayProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(parameters(gateway.port("amqp")))


def get(channel: Any, queue: str) -> tuple[Any, bytes] | None:
    method, _, body = channel.basic_get(queue)
    return None if method is None else (method, body)


def test_a_declaration_is_seen_at_the_other_gateway_at_once(shared: ClusterProcesses) -> None:
    here, there = connect(shared.gateways[0]).channel(), connect(shared.gateways[1]).channel()
    here.exchange_declare("e", "direct")
    here.queue_declare("seen")
    here.queue_bind("seen", "e", "k")
    there.confirm_delivery()

    def is_routed() -> bool:
        try:
            there.basic_publish("e", "k", b"1", mandatory=True)
        except pika.exceptions.UnroutableError:
            return False
        return True

    wait_until(is_routed, "the binding is known")
    assert here.basic_get("seen", auto_ack=True)[2] == b"1"


@pytest.mark.soak
def test_what_was_not_acknowledged_comes_again_and_only_that(cluster: ClusterProcesses) -> None:
    away, here_process = cluster.gateways
    dying, channel = connect(away).channel(), connect(here_process).channel()
    dying.queue_declare("q", durable=True)
    dying.confirm_delivery()
    for number in range(10):
        dying.basic_publish("", "q", b"%d" % number)
    taken = [get(dying, "q") for _ in range(10)]
    for found in taken[:5]:
        assert found is not None
        dying.basic_ack(found[0].delivery_tag)
    dying.basic_publish("", "q", b"behind")
    with door(here_process) as http:  # acknowledgements are not answered: they are durable a moment later
        wait_until(lambda: http.get("/api/queues/%2F/q").json()["messages"] == 6, "five are settled")
    away.kill()
    found_again: dict[bytes, bool] = {}

    def is_back() -> bool:
        found = get(channel, "q")
        if found is not None:
            found_again[found[1]] = found[0].redelivered
        return len(found_again) >= 6

    wait_until(is_back, lambda: str(found_again), LONG_SECONDS)
    tell("unacknowledged AMQP messages of a gateway that died", messages=len(found_again), faults=1)
    assert found_again == {b"behind": False} | {b"%d" % number: True for number in range(5, 10)}
    assert get(channel, "q") is None


@pytest.mark.soak
def test_exclusive_queues_go_with_their_gateway(cluster: ClusterProcesses) -> None:
    away, here = cluster.gateways
    name = connect(away).channel().queue_declare("", exclusive=True).method.queue
    away.kill()

    def is_gone() -> bool:
        try:
            connect(here).channel().queue_declare(name, passive=True)
        except pika.exceptions.ChannelClosedByBroker as refusal:
            return bool(refusal.reply_code == 404)
        return False

    wait_until(is_gone, "the queue is gone", LONG_SECONDS)
    tell("an exclusive AMQP queue whose gateway died", faults=1)


@pytest.mark.soak
def test_consumers_are_counted_over_gateways(cluster: ClusterProcesses) -> None:
    here, there = (connect(gateway) for gateway in cluster.gateways)
    channel, other = here.channel(), there.channel()
    channel.queue_declare("counted", durable=True)  # a transient one goes with the gateway that it was declared at
    channel.basic_consume("counted", lambda *given: None)
    wait_until(
        lambda: other.queue_declare("counted", passive=True).method.consumer_count == 1, "the other gateway knows"
    )
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="in exclusive use"):
        other.basic_consume("counted", lambda *given: None, exclusive=True)
    cluster.gateways[0].kill()

    def is_gone() -> bool:
        return bool(there.channel().queue_declare("counted", passive=True).method.consumer_count == 0)

    wait_until(is_gone, "it is gone", LONG_SECONDS)
    tell("an AMQP consumer counted no more when its gateway died", faults=1)


@pytest.mark.soak
def test_one_active_consumer_over_gateways(cluster: ClusterProcesses) -> None:
    here, there = (connect(gateway) for gateway in cluster.gateways)
    channel, other = here.channel(), there.channel()
    channel.queue_declare("single", durable=True, arguments={"x-single-active-consumer": True})
    taken: list[tuple[str, bytes]] = []

    def consume(channel: Any, name: str) -> None:
        def take(channel: Any, method: Any, properties: object, body: bytes) -> None:
            taken.append((name, body))
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume("single", take)

    consume(channel, "first")
    wait_until(lambda: other.queue_declare("single", passive=True).method.consumer_count == 1, "it is known")
    consume(other, "second")
    publisher = connect(cluster.gateways[1]).channel()
    publisher.confirm_delivery()
    for number in range(20):
        publisher.basic_publish("", "single", b"%d" % number)

    def turn(connection: pika.BlockingConnection, count: int) -> bool:
        connection.process_data_events(0.05)
        return len(taken) >= count

    wait_until(lambda: turn(here, 20), lambda: str(taken))
    there.process_data_events(0.2)
    assert {name for name, _ in taken} == {"first"}
    cluster.gateways[0].kill()
    publisher.basic_publish("", "single", b"20")
    wait_until(lambda: turn(there, 21), lambda: str(taken[20:]), LONG_SECONDS)
    tell("a single active AMQP consumer whose gateway died", messages=21, faults=1)
    assert taken[20] == ("second", b"20")


def next_active(gateways: Sequence[GatewayProcess], end: Callable[[pika.BlockingConnection], None]) -> list[int]:
    """What the single active consumer at one gateway takes after that at another, which had 7 of 20, has ended."""
    here, there, publisher = connect(gateways[0]), connect(gateways[1]), connect(gateways[1]).channel()
    channel, other = here.channel(), there.channel()
    channel.queue_declare("next", durable=True, arguments={"x-single-active-consumer": True})
    channel.basic_qos(prefetch_count=7)
    held: list[int] = []
    taken: list[int] = []
    channel.basic_consume("next", lambda channel, method, properties, body: held.append(int(body)))
    wait_until(lambda: publisher.queue_declare("next", passive=True).method.consumer_count == 1, "it is known")
    other.basic_consume("next", lambda channel, method, properties, body: taken.append(int(body)))
    publisher.confirm_delivery()
    for number in range(20):
        publisher.basic_publish("", "next", b"%d" % number)

    def turn(connection: pika.BlockingConnection, numbers: list[int], count: int) -> bool:
        connection.process_data_events(0.05)
        return len(numbers) >= count

    wait_until(lambda: turn(here, held, 7), lambda: str(held))
    end(here)
    wait_until(lambda: turn(there, taken, 20), lambda: str(taken), LONG_SECONDS)
    there.close()
    return taken


def test_the_next_active_consumer_is_at_another_gateway(shared: ClusterProcesses) -> None:
    """What the one before held comes first."""
    assert next_active(shared.gateways, lambda connection: connection.close()) == list(range(20))


@pytest.mark.soak
def test_the_next_active_consumer_is_at_another_gateway_when_the_first_dies(cluster: ClusterProcesses) -> None:
    assert next_active(cluster.gateways, lambda connection: cluster.gateways[0].kill()) == list(range(20))
    tell("what a single active AMQP consumer held when its gateway died", messages=20, faults=1)


@pytest.mark.failure_also("A gateway dies")
@pytest.mark.soak
def test_gateways_killed_in_turn_lose_nothing(cluster: ClusterProcesses) -> None:
    turn = iter(range(1 << 30))

    def any_gateway() -> pika.BlockingConnection:
        return connect(cluster.gateways[next(turn) % 2])

    first = any_gateway()
    first.channel().queue_declare("load", durable=True)
    first.close()
    load = Load(any_gateway, [Publisher("a", "load"), Publisher("b", "load")], [Consumer("load"), Consumer("load")])
    try:
        for number in range(KILLS):
            before = len(load.confirmed)
            wait_until(lambda before=before: len(load.confirmed) > before + 50, "it goes on", LONG_SECONDS)
            cluster.gateways[number % 2].kill()
            cluster.gateways[number % 2].start()
        load.end_producing()
        wanted = load.confirmed
        wait_until(
            lambda: wanted <= load.taken.keys() or load.failures,
            lambda: f"{len(wanted - load.taken.keys())}",
            LONG_SECONDS,
        )
    finally:
        load.stop()
    tell(
        "AMQP gateways killed in turn",
        rounds=KILLS,
        messages=len(wanted),
        lost=len(wanted - load.taken.keys()),
        phantom=len(load.taken.keys() - load.sent),
        faults=KILLS,
    )
    assert not load.failures, load.failures
    assert load.taken.keys() <= load.sent
    for consumer in load.consumers:
        assert [body for body in consumer.again if body not in load.unsure] == []
