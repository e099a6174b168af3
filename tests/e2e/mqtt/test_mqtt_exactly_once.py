"""Contract row 14: QoS 2 is exactly once in both directions, wherever in the handshake the gateway is killed, and
whichever gateway the client comes back to."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocols.mqtt.packets import Pubcomp, Pubrec, Pubrel
from tests.support.deployment import ClusterProcesses
from tests.support.exactly_once import ExactlyOnceReceiver, ExactlyOnceSender
from tests.support.http_pull import kept
from tests.support.server import Process, ServerProcess
from tests.support.session_client import SessionClient, numbered, publish_from
from tests.support.waiting import wait_until

COUNT = 40
"""Handshakes that are all at the same step when the kill comes."""
LOOP_SECONDS = 15.0


class Doors:
    """One of several gateways after the other, or one server again and again."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.cluster: ServerProcess | ClusterProcesses = (
            ServerProcess(directory) if kind == "serve" else ClusterProcesses(directory, gateways=2, brokers=2)
        )
        self.gateways: list[Process] = []
        self.at = 0

    @property
    def port(self) -> int:
        """Where to connect now."""
        return self.gateways[self.at % len(self.gateways)].port("mqtt")

    def kill(self) -> None:
        """SIGKILL to the gateway that is used now; from here on another one is, or the same again."""
        killed = self.gateways[self.at % len(self.gateways)]
        killed.kill()
        self.at += 1
        if len(self.gateways) == 1:
            killed.start()
        else:
            killed.begin()  # ready by the time that it is its turn
            self.gateways[self.at % len(self.gateways)].wait_ready()


@pytest.fixture(params=["serve", "gateways"])
def doors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Doors]:
    made = Doors(tmp_path, request.param)
    with made.cluster as running:
        made.gateways = [running] if isinstance(running, ServerProcess) else list(running.gateways)
        yield made


def test_what_a_client_publishes(doors: Doors) -> None:
    """Killed after each of PUBLISH, PUBREC, PUBREL and PUBCOMP, and with PUBREC known to the server alone."""
    total = 0
    for step in ("publish", "pubrec", "pubrec unseen", "pubrel", "pubcomp"):
        sender = ExactlyOnceSender("in/n")
        with SessionClient(doors.port, "device") as client:
            client.open()
            client.say(*sender.begin(numbered(COUNT, total)))
            total += COUNT
            if step != "publish":
                answers = [client.expect(Pubrec) for _ in range(COUNT)]
                if step != "pubrec unseen":
                    releases = [release for each in answers if (release := sender.answered(each)) is not None]
                    if step != "pubrec":
                        client.say(*releases)
                    if step == "pubcomp":
                        for _ in range(COUNT):
                            sender.answered(client.expect(Pubcomp))
            doors.kill()
        with SessionClient(doors.port, "device") as client:
            assert client.open().session_present
            client.say(*sender.again())
            while sender.unfinished:
                answer = client.read_some()
                assert answer, f"closed after {step}"
                for packet in answer:
                    assert isinstance(packet, Pubrec | Pubcomp), packet
                    release = sender.answered(packet)
                    if release is not None:
                        client.say(release)
        assert sender.finished == COUNT
    assert kept(_any(doors), "in") == sorted(numbered(total))


def test_what_a_client_receives(doors: Doors) -> None:
    """Killed before it reads anything, and after each of PUBLISH, PUBREC, PUBREL and PUBCOMP."""
    receiver = ExactlyOnceReceiver()
    with SessionClient(doors.port, "reader") as client:
        client.open()
        client.subscribe("out/#", qos=2)
    total = 0
    for step in ("nothing", "publish", "pubrec", "pubrel", "pubcomp"):
        with SessionClient(doors.port, "reader") as client:
            assert client.open().session_present
            publish_from(doors.port, "out/n", numbered(COUNT, total), 2)
            total += COUNT
            if step != "nothing":
                found = client.expect_deliveries(COUNT)
                answers = [receiver.take(each) for each in found]
                if step != "publish":
                    client.say(*answers)
                if step in ("pubrel", "pubcomp"):
                    completes = [receiver.release(client.expect(Pubrel)) for _ in range(COUNT)]
                    if step == "pubcomp":
                        client.say(*completes)
            doors.kill()
        with SessionClient(doors.port, "reader") as client:
            assert client.open().session_present
            _finish(client, receiver, doors.port, total)
            total += 1
    assert receiver.received == numbered(total)


def _finish(client: SessionClient, receiver: ExactlyOnceReceiver, port: int, last: int) -> None:
    """All handshakes to their end, up to a last message that is published now."""
    publish_from(port, "out/n", numbered(1, last), 2)
    while receiver.received[-1:] != numbered(1, last) or receiver._open:
        assert client.read(), "closed"
        found, client.deliveries = client.deliveries, []
        for publish in found:
            client.say(receiver.take(publish))
        waiting, client._waiting = client._waiting, []
        for packet in waiting:
            assert isinstance(packet, Pubrel), packet
            client.say(receiver.release(packet))


def _any(doors: Doors) -> ServerProcess | ClusterProcesses:
    for gateway in doors.gateways:
        gateway.wait_ready()
    return doors.cluster


# -- a random loop ---------------------------------------------------------------------------------------------------


class Publisher(threading.Thread):
    """Publishes numbers in small runs until told to stop, then finishes what it began."""

    def __init__(self, doors: Doors, seed: int) -> None:
        super().__init__(daemon=True)
        self.doors, self.random = doors, random.Random(seed)
        self.sender = ExactlyOnceSender("loop/n")
        self.begun = 0
        self.connections = 0
        self.is_stopping = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.is_stopping or self.sender.unfinished:
                try:
                    with SessionClient(self.doors.port, "publisher") as client:
                        self._talk(client)
                except (OSError, AssertionError) as error:
                    if isinstance(error, AssertionError) and "closed" not in str(error):
                        raise
        except BaseException as error:
            self.failure = error

    def _talk(self, client: SessionClient) -> None:
        present = client.open().session_present
        assert present or not self.connections, "the session is lost"
        self.connections += 1
        client.say(*self.sender.again())
        while not self.is_stopping or self.sender.unfinished:
            if len(self.sender.unfinished) < 20 and not self.is_stopping:
                count = self.random.randint(1, 10)
                client.say(*self.sender.begin(numbered(count, self.begun)))
                self.begun += count
            packets = client.read_some()
            if not packets:
                return
            for packet in packets:
                assert isinstance(packet, Pubrec | Pubcomp), packet
                release = self.sender.answered(packet)
                if release is not None:
                    client.say(release)


class Reader(threading.Thread):
    """Takes what comes, until it has all."""

    def __init__(self, doors: Doors) -> None:
        super().__init__(daemon=True)
        self.doors, self.receiver = doors, ExactlyOnceReceiver()
        self.connections = 0
        self.wanted: int | None = None
        self.failure: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.wanted is not None and len(self.receiver.received) >= self.wanted

    def run(self) -> None:
        try:
            while not self.is_done:
                try:
                    with SessionClient(self.doors.port, "reader") as client:
                        self._listen(client)
                except (OSError, AssertionError) as error:
                    if isinstance(error, AssertionError) and "closed" not in str(error):
                        raise
        except BaseException as error:
            self.failure = error

    def _listen(self, client: SessionClient) -> None:
        present = client.open().session_present
        assert present or not self.connections, "the session is lost"
        if not present:
            client.subscribe("loop/#", qos=2)
        self.connections += 1
        while not self.is_done:
            if not client.deliveries and not client._waiting and not client.read(1.0):
                return
            found, client.deliveries = client.deliveries, []
            waiting, client._waiting = client._waiting, []
            for publish in found:
                client.say(self.receiver.take(publish))
            for packet in waiting:
                assert isinstance(packet, Pubrel), packet
                client.say(self.receiver.release(packet))


@pytest.mark.xdist_group("cluster")
def test_numbers_through_random_kills(doors: Doors) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    pauses = random.Random(seed)
    reader = Reader(doors)
    reader.start()
    wait_until(lambda: reader.connections, "the reader is subscribed")
    publisher = Publisher(doors, seed)
    publisher.start()
    end = time.monotonic() + LOOP_SECONDS
    kills = 0
    while time.monotonic() < end or kills < 3:
        due = time.monotonic() + pauses.uniform(0.5, 2.0)
        wait_until(lambda due=due: time.monotonic() >= due, "it is time")
        doors.kill()
        kills += 1
    publisher.is_stopping = True
    publisher.join(30)
    assert publisher.failure is None and not publisher.is_alive(), publisher.failure
    reader.wanted = publisher.begun
    reader.join(30)
    assert reader.failure is None, reader.failure
    print(f"{publisher.begun} messages, {kills} kills, {publisher.connections}, {reader.connections} connections")
    received = reader.receiver.received
    assert sorted(received) == sorted(numbered(publisher.begun)), _differences(received, publisher.begun)
    assert received == numbered(publisher.begun)
    assert kills >= 3 and publisher.begun > 100
    assert kept(_any(doors), "loop") == sorted(numbered(publisher.begun))


def _differences(received: list[bytes], count: int) -> str:
    twice = sorted({each for each in received if received.count(each) > 1})
    return f"twice: {twice}, never: {sorted(set(numbered(count)) - set(received))}"
