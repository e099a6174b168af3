"""Other people's clients: messages, their properties, retained ones and wills."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence

import pytest

from tests.e2e.mqtt.client_table import CLIENTS, HAS_MOSQUITTO, HAS_MQTT_JS, Client, asked_of_all
from tests.support.mqtt.peers.mqttjs_peer import MqttJsPeer
from tests.support.mqtt.peers.peer import Arrival, Incoming, Outgoing, Peer, Wanted
from tests.support.processes.deployment import Deployment
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

Connect = Callable[..., Peer]


def bodies(found: Sequence[Incoming]) -> list[bytes]:
    return [message.payload for message in found]


@asked_of_all("quality of service")
def test_quality_of_service_both_ways(connect: Connect, client: Client, topic: str) -> None:
    subscriber, publisher = connect(client), connect(client)
    assert subscriber.subscribe(*[Wanted(f"{topic}/{qos}", qos) for qos in (0, 1, 2)]) == [0, 1, 2]
    sent = [Outgoing(f"{topic}/{level}", b"%d" % qos, qos) for level in (0, 1, 2) for qos in (0, 1, 2)]
    publisher.publish(*sent)
    found = subscriber.wait(9)
    assert sorted((each.topic, each.payload, each.qos) for each in found) == sorted(
        (each.topic, each.payload, min(each.qos, int(each.topic[-1]))) for each in sent
    )
    assert not any(each.retain for each in found)


@asked_of_all("exactly once")
@pytest.mark.parametrize("qos", [1, 2])
def test_messages_come_once_in_order(connect: Connect, client: Client, topic: str, qos: int) -> None:
    subscriber, publisher = connect(client), connect(client)
    subscriber.subscribe(Wanted(f"{topic}/#", qos))
    count = 10 if client.name.startswith("mosquitto") else 100  # a process for each message
    publisher.publish(*[Outgoing(f"{topic}/a", b"%d" % number, qos) for number in range(count)])
    found = subscriber.wait(count)
    assert bodies(found) == [b"%d" % number for number in range(count)]
    assert {each.qos for each in found} == {qos}


@asked_of_all("unsubscribe")
def test_unsubscribe(connect: Connect, client: Client, topic: str) -> None:
    peer = connect(client)
    peer.subscribe(Wanted(f"{topic}/a"), Wanted(f"{topic}/b"))
    peer.unsubscribe(f"{topic}/a")
    peer.publish(Outgoing(f"{topic}/a", b"a"), Outgoing(f"{topic}/b", b"b"))
    assert bodies(peer.wait(1)) == [b"b"]


@asked_of_all("retained")
def test_retained_messages(connect: Connect, client: Client, topic: str) -> None:
    publisher, live = connect(client), connect(client)
    live.subscribe(Wanted(f"{topic}/#"))
    publisher.publish(Outgoing(f"{topic}/a", b"1", retain=True), Outgoing(f"{topic}/b", b"2", retain=True))
    assert {(each.topic, each.retain) for each in live.wait(2)} == {(f"{topic}/a", False), (f"{topic}/b", False)}
    late = connect(client)
    late.subscribe(Wanted(f"{topic}/+"))
    assert {(each.payload, each.retain) for each in late.wait(2)} == {(b"1", True), (b"2", True)}
    publisher.publish(Outgoing(f"{topic}/a", b"", retain=True))
    live.wait(3)
    later = connect(client)
    later.subscribe(Wanted(f"{topic}/#"))
    publisher.publish(Outgoing(f"{topic}/c", b"end"))
    assert [(each.payload, each.retain) for each in later.wait(2)] == [(b"2", True), (b"end", False)]


@asked_of_all("retain handling")
def test_retain_handling_and_retain_as_published(connect: Connect, client: Client, topic: str) -> None:
    publisher, peer = connect(client), connect(client)
    publisher.publish(Outgoing(f"{topic}/kept", b"kept", retain=True))
    peer.subscribe(Wanted(f"{topic}/#", retain_handling=2, retain_as_published=True))
    publisher.publish(Outgoing(f"{topic}/live", b"live", retain=True))
    assert [(each.payload, each.retain) for each in peer.wait(1)] == [(b"live", True)]
    peer.subscribe(Wanted(f"{topic}/#", retain_handling=1, retain_as_published=True))  # is not new
    publisher.publish(Outgoing(f"{topic}/x", b"end"))
    assert bodies(peer.wait(2)) == [b"live", b"end"]
    peer.subscribe(Wanted(f"{topic}/kept", retain_handling=1))  # is new
    assert [(each.payload, each.retain) for each in peer.wait(3)[2:]] == [(b"kept", True)]


@asked_of_all("will")
def test_will(connect: Connect, client: Client, topic: str) -> None:
    watcher = connect(client)
    watcher.subscribe(Wanted(f"{topic}/will/#"))
    for name in ("polite", "lost"):
        if name == "polite" and client.name == "mosquitto-5":
            continue  # its goodbye asks for the will
        peer = connect(client, will=Outgoing(f"{topic}/will/{name}", name.encode()))
        peer.subscribe(Wanted(f"{topic}/none"))  # mosquitto_sub is there only then
        if name == "polite":
            peer.leave()
        else:
            peer.cut()
    assert [(each.topic, each.payload) for each in watcher.wait(1)] == [(f"{topic}/will/lost", b"lost")]


@asked_of_all("will delay")
def test_will_delay(connect: Connect, client: Client, topic: str) -> None:
    """One that comes back in time has no will; the other's comes when the delay is over."""
    assert any(_only_the_lost_has_a_will(connect, client, topic, attempt) for attempt in range(5)), "never in time"


def _only_the_lost_has_a_will(connect: Connect, client: Client, topic: str, attempt: int) -> bool:
    """False where the one that was to come back in time did not."""
    watcher = connect(client)
    watcher.subscribe(Wanted(f"{topic}/will{attempt}/#"))
    names = (f"back{attempt}-{topic}", f"lost{attempt}-{topic}")
    how = {"clean": False, "expiry_seconds": 60}
    back, lost = (
        connect(client, name, will=Outgoing(f"{topic}/will{attempt}/{name}", b"w"), will_delay_seconds=1, **how)
        for name in names
    )
    for peer in (back, lost):
        peer.subscribe(Wanted(f"{topic}/none"))
    back_cut_at = time.monotonic()
    back.cut()
    again = connect(client, names[0], **how)
    again.subscribe(Wanted(f"{topic}/none"))
    if time.monotonic() - back_cut_at >= 0.9:
        return False
    lost_cut_at = time.monotonic()
    lost.cut()
    found = watcher.wait(1)
    assert time.monotonic() - lost_cut_at > 0.8
    assert [each.topic for each in found] == [f"{topic}/will{attempt}/{names[1]}"]
    return True


@asked_of_all("no local")
def test_no_local(connect: Connect, client: Client, topic: str) -> None:
    peer, other = connect(client), connect(client)
    peer.subscribe(Wanted(f"{topic}/#", no_local=True))
    peer.publish(Outgoing(f"{topic}/x", b"own"))
    other.publish(Outgoing(f"{topic}/x", b"other"))
    assert bodies(peer.wait(1)) == [b"other"]


@asked_of_all("subscription identifier")
def test_subscription_identifier(connect: Connect, client: Client, topic: str) -> None:
    peer, publisher = connect(client), connect(client)
    peer.subscribe(Wanted(f"{topic}/#", identifier=200_000_000))
    publisher.publish(Outgoing(f"{topic}/x", b"x"))
    assert peer.wait(1)[0].identifiers == (200_000_000,)


@asked_of_all("properties")
def test_properties(connect: Connect, client: Client, topic: str) -> None:
    peer, publisher = connect(client), connect(client)
    peer.subscribe(Wanted(f"{topic}/#"))
    sent = Outgoing(
        f"{topic}/x",
        b"{}",
        content_type="application/json",
        response_topic="answers/here",
        correlation=b"number-7",
        user=(("b", "1"), ("b", "2"), ("c", "3")),
        expiry_seconds=100,
    )
    publisher.publish(sent)
    (found,) = peer.wait(1)
    assert (found.content_type, found.response_topic) == (sent.content_type, sent.response_topic)
    assert (found.correlation, found.user) == (sent.correlation, sent.user)
    assert 85 <= found.expiry_seconds <= 100


@asked_of_all("request and response")
def test_request_and_response(connect: Connect, client: Client, topic: str) -> None:
    asking, answering = connect(client), connect(client)
    asking.subscribe(Wanted(f"{topic}/answers/me"))
    answering.subscribe(Wanted(f"{topic}/questions"))
    asking.publish(Outgoing(f"{topic}/questions", b"6*7", response_topic=f"{topic}/answers/me", correlation=b"c1"))
    (question,) = answering.wait(1)
    answering.publish(Outgoing(question.response_topic, b"42", correlation=question.correlation))
    assert [(each.payload, each.correlation) for each in asking.wait(1)] == [(b"42", b"c1")]


@pytest.mark.interop
@pytest.mark.skipif(not HAS_MOSQUITTO, reason="mosquitto-clients are not installed (make peers)")
@pytest.mark.parametrize("deployment", ["serve", "separate"])
def test_mosquitto_rr(connect: Connect, servers: Callable[[str], Deployment], deployment: str, topic: str) -> None:
    port = servers(deployment).port("mqtt")
    answering = connect(CLIENTS["paho-5"])
    answering.subscribe(Wanted(f"{topic}/questions"))
    command = ["mosquitto_rr", "-h", "127.0.0.1", "-p", str(port), "-q", "1", "-t", f"{topic}/questions"]
    command += ["-e", f"{topic}/answers", "-m", "6*7", "-W", "15", "-D", "publish", "correlation-data", "c1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        (question,) = answering.wait(1)
        assert (question.payload, question.correlation) == (b"6*7", b"c1")
        answering.publish(Outgoing(question.response_topic, b"42", correlation=question.correlation))
        out, errors = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert (process.returncode, out.strip()) == (0, b"42"), errors


@asked_of_all("message expiry")
def test_the_expiry_that_remains_is_sent_on(connect: Connect, client: Client, topic: str) -> None:
    publisher = connect(client)
    publisher.publish(
        Outgoing(f"{topic}/short", b"short", retain=True, expiry_seconds=1),
        Outgoing(f"{topic}/long", b"long", retain=True, expiry_seconds=100),
    )
    due = time.monotonic() + 1.1
    wait_until(lambda: time.monotonic() > due, "the second is over")
    late = connect(client)
    late.subscribe(Wanted(f"{topic}/#"))
    publisher.publish(Outgoing(f"{topic}/end", b"end"))
    found = late.wait(2)
    assert bodies(found) == [b"long", b"end"]
    assert 90 <= found[0].expiry_seconds <= 99


@asked_of_all("topic alias to the server")
def test_topic_alias_to_the_server(connect: Connect, client: Client, topic: str) -> None:
    subscriber, publisher = connect(client), connect(client)
    subscriber.subscribe(Wanted(f"{topic}/#"))
    publisher.publish(Outgoing(f"{topic}/a", b"1", alias=3))
    publisher.publish(Outgoing("", b"2", alias=3))
    publisher.publish(Outgoing(f"{topic}/b", b"3", alias=3))
    publisher.publish(Outgoing("", b"4", alias=3))
    assert [(each.topic[-1], each.payload) for each in subscriber.wait(4)] == [
        ("a", b"1"),
        ("a", b"2"),
        ("b", b"3"),
        ("b", b"4"),
    ]


@asked_of_all("topic alias from the server")
def test_topic_alias_from_the_server(connect: Connect, client: Client, topic: str) -> None:
    subscriber, publisher = connect(client, topic_alias_maximum=2), connect(client)
    subscriber.subscribe(Wanted(f"{topic}/#"))
    sent = [Outgoing(f"{topic}/{number % 3}", b"%d" % number) for number in range(12)]
    publisher.publish(*sent)
    assert sorted((each.topic, each.payload) for each in subscriber.wait(12)) == sorted(
        (each.topic, each.payload) for each in sent
    )


@asked_of_all("flow control")
def test_flow_control(connect: Connect, client: Client, topic: str) -> None:
    """A client that takes one message at a time gets all of them."""
    subscriber, publisher = connect(client, receive_maximum=1), connect(client)
    subscriber.subscribe(Wanted(f"{topic}/#", 2))
    count = 5 if client.name.startswith("mosquitto") else 30
    publisher.publish(*[Outgoing(f"{topic}/a", b"%d" % number, 1 + number % 2) for number in range(count)])
    assert bodies(subscriber.wait(count)) == [b"%d" % number for number in range(count)]


@asked_of_all("large payload")
def test_large_payload(connect: Connect, client: Client, topic: str) -> None:
    subscriber, publisher = connect(client), connect(client)
    subscriber.subscribe(Wanted(topic))
    payload = bytes(range(1, 256)) * 8192
    publisher.publish(Outgoing(topic, payload))
    assert bodies(subscriber.wait(1)) == [payload]


@asked_of_all("names")
def test_names_in_utf_8(connect: Connect, client: Client, topic: str) -> None:
    subscriber, publisher = connect(client), connect(client)
    subscriber.subscribe(Wanted(f"{topic}/température/+/#"))
    name = f"{topic}/température/日本/🚀 {{}}"
    publisher.publish(Outgoing(name, "straße".encode()))
    assert [(each.topic, each.payload) for each in subscriber.wait(1)] == [(name, "straße".encode())]


@pytest.mark.interop
@pytest.mark.parametrize("scheme", ["mqtt", "ws"])
def test_scram_with_mqtt_js(topic: str, tmp_path_factory: pytest.TempPathFactory, scheme: str) -> None:
    """Enhanced authentication with the one client here that can; the others show a password."""
    if not HAS_MQTT_JS:
        pytest.skip("MQTT.js is not installed (make peers)")
    settings = {
        "security.initial_admin": "root",
        "security.initial_admin_password": "secret",
        "security.argon2_memory_bytes": "65536",
    }
    with ServerProcess(tmp_path_factory.mktemp("scram"), settings) as server:
        port = server.port("mqtt" if scheme == "mqtt" else "http")
        peer = MqttJsPeer(port, Arrival("right"), 5, scheme, ("root", "secret"))
        peer.subscribe(Wanted(f"{topic}/#"))
        peer.publish(Outgoing(f"{topic}/x", b"in"))
        assert bodies(peer.wait(1)) == [b"in"]
        peer.leave()
        with pytest.raises(AssertionError):
            MqttJsPeer(port, Arrival("wrong"), 5, scheme, ("root", "guess"))
