"""The published clients for Python and Node against a real server: everything they do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.e2e.rocketmq.conftest import PATIENT, put_group
from tests.support.processes.deployment import ClusterProcesses
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient
from tests.support.rocketmq.peers.peer import Received, RefusedError, RocketMqPeer
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import interop_only


def test_a_message_arrives_as_it_was_sent(peer: RocketMqPeer, topic: str, group: str) -> None:
    producer = peer.producer(topic)
    sent = peer.send(producer, topic, b"\x00body\xff", tag="red", keys=["k-1"], properties={"unit": "celsius"})
    consumer = peer.simple(group, topic)
    [found] = peer.take(consumer, 1)
    assert (found.body, found.topic, found.tag, found.keys) == (b"\x00body\xff", topic, "red", ["k-1"])
    assert (found.properties, found.id, found.attempt) == ({"unit": "celsius"}, sent["id"], 1)
    assert not found.corrupted
    peer.shutdown(consumer)
    peer.shutdown(producer)


def test_tags_and_sql_filter(peer: RocketMqPeer, topic: str, group: str) -> None:
    producer = peer.producer(topic)
    for number, tag in enumerate(("red", "blue", "green", "red")):
        peer.send(producer, topic, tag.encode(), tag=tag, properties={"n": str(number)})
    by_tag = peer.simple(f"{group}-tag", topic, ("tag", "red || green"))
    assert sorted(each.body for each in peer.take(by_tag, 3)) == [b"green", b"red", b"red"]
    by_sql = peer.simple(f"{group}-sql", topic, ("sql", "n > 0 AND TAGS = 'red'"))
    assert [each.properties["n"] for each in peer.take(by_sql, 1)] == ["3"]
    for client in (by_tag, by_sql, producer):
        peer.shutdown(client)


def test_a_message_group_is_in_order(peer: RocketMqPeer, server: ServerProcess, topic: str, group: str) -> None:
    put_group(server, group, fifo=True)
    producer = peer.producer(topic)
    for number in range(20):
        peer.send(producer, topic, b"%d" % number, group=f"g{number % 2}")
    consumer = peer.push(group, topic)
    wait_until(lambda: len(peer.done[consumer]) >= 20, lambda: str(peer.pushed[consumer]))
    for number in range(2):
        mine = [int(each.body) for each in peer.pushed[consumer] if each.group == f"g{number}"]
        assert mine == list(range(number, 20, 2))
    peer.shutdown(consumer)
    peer.shutdown(producer)


@pytest.mark.interop
def test_a_failed_message_of_a_group_holds_back_only_its_group(
    peer: RocketMqPeer, server: ServerProcess, topic: str, group: str
) -> None:
    put_group(server, group, fifo=True)
    producer = peer.producer(topic)
    for body in (b"a1", b"b1", b"a2", b"b2", b"a3", b"b3"):
        peer.send(producer, topic, body, group=body[:1].decode())
    consumer = peer.simple(group, topic)
    held = {}
    for _ in range(20):
        for each in peer.receive(consumer, 1, 8):
            if each.body == b"a1":
                held[each.body] = each
            else:
                peer.ack(consumer, each)
                held.setdefault(each.body, each)
        if {b"a1", b"b1", b"b2", b"b3"} <= held.keys():
            break
    assert {b"a1", b"b1", b"b2", b"b3"} <= held.keys()  # the other group flowed while a1 was held
    assert not held.keys() & {b"a2", b"a3"} or held[b"a1"].attempt > 1
    rest: list[tuple[bytes, int]] = []
    while len(rest) < 3:
        for each in peer.receive(consumer, 1, 30):
            rest.append((each.body, each.attempt))
            peer.ack(consumer, each)
    assert [body for body, _ in rest] == [b"a1", b"a2", b"a3"]
    assert rest[0][1] > 1
    peer.shutdown(consumer)
    peer.shutdown(producer)


@pytest.mark.interop
def test_delay_and_recall(peer: RocketMqPeer, topic: str, group: str) -> None:
    producer, consumer = peer.producer(topic), peer.simple(group, topic, wait=3)
    due = int(time.time()) + 8
    peer.send(producer, topic, b"later", deliver_at=due)
    recalled = peer.send(producer, topic, b"never", deliver_at=due)
    assert recalled["recall"]
    assert peer.ask("recall", client=producer, topic=topic, handle=recalled["recall"]) == recalled["id"]
    [found] = peer.take(consumer, 1)
    assert found.body == b"later"
    assert time.time() >= due
    assert peer.receive(consumer) == []
    with pytest.raises(RefusedError):
        peer.ask("recall", client=producer, topic=topic, handle=recalled["recall"])
    peer.shutdown(consumer)
    peer.shutdown(producer)


def test_transactions(peer: RocketMqPeer, topic: str, group: str) -> None:
    producer = peer.producer(topic, resolution="unknown")
    peer.send(producer, topic, b"committed", end="commit")
    peer.send(producer, topic, b"rolled back", end="rollback")
    consumer = peer.simple(group, topic, wait=2)
    assert [each.body for each in peer.take(consumer, 1)] == [b"committed"]
    assert peer.receive(consumer) == []
    peer.shutdown(consumer)
    peer.shutdown(producer)


@pytest.mark.parametrize("resolution", ["commit", interop_only("rollback", name="rollback")])
def test_a_silent_producer_is_asked(peer: RocketMqPeer, topic: str, group: str, resolution: str) -> None:
    producer = peer.producer(topic, resolution=resolution)
    sent = peer.send(producer, topic, b"open", end="open")
    wait_until(lambda: sent["id"] in peer.checked, "asked")
    consumer = peer.simple(group, topic, wait=2)
    if resolution == "commit":
        assert [each.body for each in peer.take(consumer, 1)] == [b"open"]
    else:
        assert peer.receive(consumer) == []
    peer.shutdown(consumer)
    peer.shutdown(producer)


def the_next(peer: RocketMqPeer, consumer: int, invisible: int) -> Received:
    """The one message that comes next, however many receives that takes."""
    [found] = wait_until(lambda: peer.receive(consumer, 1, invisible), "a message")
    return found


@pytest.mark.interop
def test_what_is_not_acknowledged_comes_again(peer: RocketMqPeer, topic: str, group: str) -> None:
    producer, consumer = peer.producer(topic), peer.simple(group, topic)
    peer.send(producer, topic, b"again")
    first = the_next(peer, consumer, 2)
    second = the_next(peer, consumer, 30)
    assert (second.body, second.attempt, second.id) == (b"again", 2, first.id)
    with pytest.raises(RefusedError):  # the first attempt is over
        peer.ack(consumer, first)
    peer.change(consumer, second, 1)
    third = the_next(peer, consumer, 30)
    assert third.attempt == 3
    peer.change(consumer, third, 20)
    peer.ack(consumer, third)
    assert peer.receive(consumer, 1, 30) == []
    peer.shutdown(consumer)
    peer.shutdown(producer)


@pytest.mark.interop
def test_a_push_consumer_tries_again(peer: RocketMqPeer, topic: str, group: str) -> None:
    producer = peer.producer(topic)
    consumer = peer.push(group, topic, failures=1)
    sent = peer.send(producer, topic, b"work")
    wait_until(lambda: peer.done[consumer] == [sent["id"]], lambda: str(peer.pushed[consumer]))
    assert [each.attempt for each in peer.pushed[consumer]] == [1, 2]
    peer.shutdown(consumer)
    peer.shutdown(producer)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", ["python", "node"])
def test_a_push_consumer_keeps_what_it_works_on(tmp_path: Path, language: str, topic: str, group: str) -> None:
    """For longer than two leases of 6 s: nobody else gets it."""
    with ServerProcess(tmp_path, PATIENT) as server, RocketMqPeer(server.address("grpc"), language) as peer:
        producer = peer.producer(topic)
        consumer = peer.push(group, topic, busy=13)
        sent = peer.send(producer, topic, b"long")
        wait_until(
            lambda: peer.done[consumer] == [sent["id"]], lambda: str(peer.pushed[consumer]), 2 * PATIENCE_SECONDS
        )
        assert [each.attempt for each in peer.pushed[consumer]] == [1]
        other = peer.simple(group, topic, wait=3)
        assert peer.receive(other) == []
        tell(f"a push consumer of the {language} client keeps what it works on", messages=1)


@pytest.mark.interop
def test_after_the_last_attempt_it_is_a_dead_letter(
    peer: RocketMqPeer, server: ServerProcess, topic: str, group: str
) -> None:
    put_group(server, group, maxAttempts=2)
    producer = peer.producer(topic)
    consumer = peer.push(group, topic, failures=10)
    sent = peer.send(producer, topic, b"poison")
    wait_until(lambda: len(peer.pushed[consumer]) == 2, "tried twice")
    dead = peer.simple(f"{group}-dead", f"%DLQ%{group}", wait=10)
    [found] = peer.take(dead, 1)
    assert (found.body, found.id) == (b"poison", sent["id"])
    for client in (dead, consumer, producer):
        peer.shutdown(client)


def test_lite_topics_are_pushed(peer: RocketMqPeer, topic: str, group: str) -> None:
    producer = peer.producer(topic)
    consumer = peer.lite_push(group, topic, ["a", "b"])
    for name in ("a", "b", "c"):
        peer.send(producer, topic, name.encode(), lite=name)
    wait_until(lambda: len(peer.done[consumer]) == 2, lambda: str(peer.pushed))
    assert sorted((each.lite, each.body) for each in peer.pushed[consumer]) == [("a", b"a"), ("b", b"b")]
    peer.ask("unsubscribe_lite", client=consumer, lite_topic="a")
    peer.send(producer, topic, b"a again", lite="a")
    peer.send(producer, topic, b"b again", lite="b")
    wait_until(lambda: len(peer.done[consumer]) == 3, lambda: str(peer.pushed))
    assert peer.pushed[consumer][-1].body == b"b again"
    peer.shutdown(consumer)
    peer.shutdown(producer)


@pytest.mark.soak
def test_workers_share_the_port(tmp_path: Path) -> None:
    """Several gateway processes on one port: clients do not see which one they have."""
    with ClusterProcesses(tmp_path, {"cluster.workers": "2"}) as cluster:
        with RocketMqPeer(cluster.gateways[0].address("grpc")) as peer:
            producer, consumer = peer.producer("t"), peer.push("workers", "t")
            for number in range(20):
                peer.send(producer, "t", b"%d" % number)
            wait_until(lambda: len(peer.done[consumer]) == 20, lambda: str(peer.pushed))
        found = 0
        for _ in range(10):  # each is a connection of its own, to whichever worker
            with GrpcClient(cluster.gateways[0].address("grpc")) as client:
                assert client.send(client.message("u")).status.code == v2.OK
                found += len(client.receive("u", "others"))
        assert cluster.stop() == 0  # workers outlive a parent that is killed
        assert found == 10
        tell("workers share the RocketMQ port", messages=found)
