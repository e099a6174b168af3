"""Contract row 17 against a whole server: what one connection says, whatever it is, ends at most that connection.

A conversation that makes sense is cut, mutated and repeated.  The server answers with protocol errors, closes, or goes
on; a second client notices nothing; the memory of the process stays where it was.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.cases import cases
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deploy, Deployment
from tests.support.waiting import wait_until
from tests.wire.mqtt.strategies import any_packet

MIB = 1 << 20
MEMORY_MARGIN = 40 * MIB
MAX_PACKET = 64 * 1024
NAMES = ("fuzz/a", "fuzz/b/c", "$delayed/0/fuzz/a", "$SYS/x", "", "fuzz/+", "fuzz/\x7f")
FILTERS = ("fuzz/#", "fuzz/+", "$share/g/fuzz/#", "$replay/earliest/fuzz/#", "$replay/-1h/fuzz/a", "$share/g", "bad#")

packet_ids = st.integers(1, 4)
"""Few, so that answers meet what they answer, and publishes meet each other."""
qualities = st.integers(0, 2)


@st.composite
def publishes(draw: st.DrawFn) -> Publish:
    qos = draw(qualities)
    packet_id = draw(packet_ids) if qos else 0
    return Publish(draw(st.sampled_from(NAMES)), draw(st.binary(max_size=50)), qos, packet_id, draw(st.booleans()))


@st.composite
def subscribes(draw: st.DrawFn) -> Subscribe:
    wanted = [
        Subscription(text, draw(qualities), draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 2)))
        for text in draw(st.lists(st.sampled_from(FILTERS), min_size=1, max_size=3))
    ]
    return Subscribe(draw(packet_ids), wanted)


sensible: st.SearchStrategy[Packet] = st.one_of(
    publishes(),
    subscribes(),
    st.builds(Unsubscribe, packet_ids, st.lists(st.sampled_from(FILTERS), min_size=1, max_size=2)),
    *(st.builds(kind, packet_ids) for kind in (Puback, Pubrec, Pubrel, Pubcomp)),
    st.just(Pingreq()),
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[int, list[bytes]]:
    """The version, and the pieces in which a client sends: mostly right to begin with, then less and less."""
    version = draw(st.sampled_from((3, 4, 5)))
    expiry = {PropertyId.SESSION_EXPIRY_INTERVAL: draw(st.integers(0, 3))} if version == 5 else {}
    will = draw(st.none() | st.just(Will("fuzz/will", b"w", 1)))
    client_id = draw(st.sampled_from(("fuzz-1", "fuzz-2")))  # two, so that sessions are continued and taken over
    connect = Connect(client_id, version, draw(st.booleans()), 60, will, properties=expiry)
    pieces = [encode(connect, version)]
    packets = draw(st.lists(sensible | any_packet(version), max_size=8))
    for packet in packets:
        with contextlib.suppress(ValueError, TypeError):  # the encoder does not write everything
            pieces.append(encode(packet, version))
    if draw(st.booleans()):
        at = draw(st.integers(1, len(pieces)))
        pieces[at:] = [draw(mutations(b"".join(pieces[at:]) or b"\xc0\x00"))]
    return version, pieces


@st.composite
def mutations(draw: st.DrawFn, wire: bytes) -> bytes:
    """A few bytes of it changed, taken away, put in, or repeated."""
    made = bytearray(wire)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(made) - 1, 0)))
        kind = draw(st.sampled_from(("flip", "cut", "insert", "repeat")))
        if kind == "flip" and made:
            made[at] ^= draw(st.integers(1, 255))
        elif kind == "cut":
            del made[at : at + draw(st.integers(1, 8))]
        elif kind == "insert":
            made[at:at] = draw(st.binary(min_size=1, max_size=8))
        else:
            made[at:at] = made[at : at + 16]
    return bytes(made)


@pytest.fixture(scope="module")
def fuzzed(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    limits = {
        "mqtt.connect_timeout_seconds": "60",
        "mqtt.max_packet_size_bytes": str(MAX_PACKET),
        "mqtt.max_subscriptions_per_client": "100",
        "topics.max_auto_created": "20",
    }
    with deploy(tmp_path_factory.mktemp("fuzz"), limits) as running:
        yield running
        assert running.stop() == 0
        assert "Traceback" not in running.log_text(), running.log_text()


@contextmanager
def unnoticed(server: Deployment) -> Iterator[None]:
    """A client publishes to itself all the while on one connection, QoS 1, one message after the other."""
    failures: list[BaseException] = []
    stop = threading.Event()
    rounds = 0

    def behave() -> None:
        nonlocal rounds
        try:
            with RawClient(server.port("mqtt")) as client:
                client.connect("well-behaved")
                client.subscribe("good/#")
                while not stop.is_set() or rounds < 5:
                    body = str(rounds).encode()
                    assert client.publish("good/x", body).reason == ReasonCode.SUCCESS
                    assert [delivery.payload for delivery in client.expect_deliveries(1)] == [body]
                    rounds += 1
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=behave)
    thread.start()
    try:
        wait_until(lambda: rounds or failures, "the well-behaved client goes")
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


def say(port: int, version: int, pieces: list[bytes]) -> list[Packet]:
    """Send the pieces and take what comes until the server closes, or nobody has anything more to say."""
    with RawClient(port, version, acknowledges=False) as client:
        for piece in pieces:
            try:
                client.send(piece)
            except ConnectionError:
                break
        with contextlib.suppress(OSError):
            client.socket.shutdown(1)
        return client.read_to_end()


@pytest.mark.scaled
def test_whatever_one_connection_says_is_its_own_affair(fuzzed: Deployment) -> None:
    port = fuzzed.port("mqtt")

    @settings(suppress_health_check=list(HealthCheck))
    @given(conversations())
    def talk(conversation: tuple[int, list[bytes]]) -> None:
        version, pieces = conversation
        answers = say(port, version, pieces)
        # right goodbye: first CONNACK, the last packet alone may be DISCONNECT, and only version 5 has one
        for place, answer in enumerate(answers):
            assert isinstance(answer, Connack) == (place == 0), answers
            if isinstance(answer, Disconnect):
                assert version == 5 and place == len(answers) - 1, answers
                assert answer.reason >= 0x80, answers

    with unnoticed(fuzzed):
        talk()
        before = [process.resident_bytes() for process in fuzzed.all]
        talk()
    for process, resident in zip(fuzzed.all, before, strict=True):
        grown = process.resident_bytes() - resident
        assert grown < MEMORY_MARGIN, f"{process.name}: {grown / MIB:.1f} MiB more"


@cases(
    "wire, reason",
    [
        (b"\xc1\x00", ReasonCode.MALFORMED_PACKET),  # flags of PINGREQ
        (b"\x36\x05\x00\x01a\x00\x01", ReasonCode.MALFORMED_PACKET),  # QoS 3
        (b"\x30\xff\xff\xff\xff\x01", ReasonCode.MALFORMED_PACKET),  # a length of five bytes
        (b"\x30\xff\xff\xff\x7f", ReasonCode.PACKET_TOO_LARGE),
        (b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00", ReasonCode.PROTOCOL_ERROR),  # a second CONNECT
        (b"\xf0\x00", ReasonCode.PROTOCOL_ERROR),  # AUTH without a method
    ],
    ids=["flags", "qos-3", "length", "too-large", "second-connect", "auth"],
)
def test_the_right_goodbye(fuzzed: Deployment, wire: bytes, reason: ReasonCode) -> None:
    with unnoticed(fuzzed), RawClient(fuzzed.port("mqtt")) as client:
        client.connect(f"bye-{uuid.uuid4().hex[:8]}")
        client.send(wire)
        (goodbye,) = client.read_to_end()
        assert isinstance(goodbye, Disconnect)
        assert goodbye.reason == reason
