"""Other people's clients: sessions, shared subscriptions, and the names that mean something to the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from tests.e2e.mqtt.client_table import Client, asked_of_all
from tests.support.mqtt.peers.peer import Outgoing, Peer, Wanted
from tests.support.waiting import wait_until

Connect = Callable[..., Peer]


def bodies(peer: Peer, count: int) -> list[bytes]:
    return [each.payload for each in peer.wait(count)]


@asked_of_all("sessions")
def test_a_session_keeps_what_comes_meanwhile(connect: Connect, client: Client, topic: str) -> None:
    how = {"clean": False, "expiry_seconds": 60}
    first = connect(client, f"s-{topic}", **how)
    assert not first.session_present
    first.subscribe(Wanted(f"{topic}/#", 2))
    first.leave()
    publisher = connect(client)
    sent = [Outgoing(f"{topic}/a", b"%d" % number, 1 + number % 2) for number in range(6)]
    publisher.publish(*sent)
    again = connect(client, f"s-{topic}", **how)
    if client.name.startswith("mosquitto"):
        again.subscribe(Wanted(f"{topic}/#", 2))  # there is no mosquitto_sub without
    elif client.name != "amqtt":  # does not say it
        assert again.session_present
    found = again.wait(6)
    for qos in (1, 2):  # some clients hand over QoS 2 with PUBREL, thus behind QoS 1 that came later
        assert [each.payload for each in found if each.qos == qos] == [each.payload for each in sent if each.qos == qos]
    publisher.publish(Outgoing(f"{topic}/a", b"live"))
    assert bodies(again, 7)[6:] == [b"live"]


@asked_of_all("clean start")
def test_a_clean_start_ends_the_session(connect: Connect, client: Client, topic: str) -> None:
    how = {"clean": False, "expiry_seconds": 60}
    first = connect(client, f"s-{topic}", **how)
    first.subscribe(Wanted(f"{topic}/a"))
    first.leave()
    publisher = connect(client)
    publisher.publish(Outgoing(f"{topic}/a", b"lost"))
    clean = connect(client, f"s-{topic}", clean=True)
    assert not clean.session_present
    clean.subscribe(Wanted(f"{topic}/b"))
    publisher.publish(Outgoing(f"{topic}/a", b"lost too"), Outgoing(f"{topic}/b", b"live"))
    assert bodies(clean, 1) == [b"live"]


@asked_of_all("shared subscriptions")
def test_members_of_a_share_share_the_messages(connect: Connect, client: Client, topic: str) -> None:
    members = [connect(client) for _ in range(3)]
    for member in members:
        member.subscribe(Wanted(f"$share/workers/{topic}/#"))
    count = 12 if client.name.startswith("mosquitto") else 60
    publisher = connect(client)
    publisher.publish(*[Outgoing(f"{topic}/{number % 5}", b"%d" % number) for number in range(count)])

    def found() -> list[int]:
        return sorted(int(each.payload) for member in members for each in member.received)

    wait_until(lambda: len(found()) >= count, lambda: f"{count} messages, not {found()}")
    assert found() == list(range(count))
    if count > 12:
        assert sum(bool(member.received) for member in members) > 1


@asked_of_all("replay")
def test_replay(connect: Connect, client: Client, topic: str) -> None:
    publisher = connect(client)
    publisher.publish(*[Outgoing(f"{topic}/a", b"%d" % number) for number in range(3)])
    past = [b"0", b"1", b"2"]
    wanted = {"earliest": past, "-2h": past, "1": past[1:]}
    wanted[datetime.fromtimestamp(time.time() - 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")] = past
    wanted[datetime.fromtimestamp(time.time() + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")] = []
    readers = {since: connect(client) for since in wanted}
    for since, reader in readers.items():
        assert reader.subscribe(Wanted(f"$replay/{since}/{topic}/+")) == [1]
    for since in wanted:
        if wanted[since]:
            readers[since].wait(len(wanted[since]))
    publisher.publish(Outgoing(f"{topic}/a", b"live"))
    for since, reader in readers.items():
        if wanted[since]:
            assert bodies(reader, len(wanted[since]) + 1) == [*wanted[since], b"live"], since
        assert not any(each.payload in past for each in reader.received) or wanted[since], since


@asked_of_all("delayed")
def test_delayed(connect: Connect, client: Client, topic: str) -> None:
    subscriber, publisher = connect(client), connect(client)
    subscriber.subscribe(Wanted(f"{topic}/#"))
    sent_at = time.monotonic()
    publisher.publish(Outgoing(f"$delayed/1/{topic}/x", b"later"), Outgoing(f"{topic}/x", b"now"))
    is_in_time = time.monotonic() - sent_at < 0.9
    found = subscriber.wait(2)
    assert time.monotonic() - sent_at > 0.9
    assert {each.topic for each in found} == {f"{topic}/x"}
    assert sorted(each.payload for each in found) == [b"later", b"now"]
    if is_in_time:
        assert found[0].payload == b"now"


@asked_of_all("many subscriptions")
def test_many_subscriptions(connect: Connect, client: Client, topic: str) -> None:
    subscriber, publisher = connect(client), connect(client)
    count = 200
    filters = [f"{topic}/{number}/+" if number % 2 else f"{topic}/{number}/x" for number in range(count)]
    assert subscriber.subscribe(*[Wanted(each) for each in filters]) == [1] * count
    numbers = (0, 1, 99, 100, 198, 199)
    publisher.publish(*[Outgoing(f"{topic}/{number}/x", b"%d" % number) for number in numbers])
    publisher.publish(Outgoing(f"{topic}/200/x", b"nobody's"), Outgoing(f"{topic}/7/x", b"end"))
    found = subscriber.wait(len(numbers) + 1)
    assert sorted(each.payload for each in found) == sorted([*(b"%d" % number for number in numbers), b"end"])
