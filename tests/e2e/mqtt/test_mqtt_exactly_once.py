"""Contract row 14: QoS 2 is exactly once in both directions, wherever in the handshake the gateway is killed, and
whichever gateway the client comes back to."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from entrepot.protocols.mqtt.packets import Pubcomp, Pubrec, Pubrel
from tests.support.http.pull import kept
from tests.support.mqtt.exactly_once import ExactlyOnceReceiver, ExactlyOnceSender
from tests.support.mqtt.session_client import SessionClient, numbered, publish_from
from tests.support.processes.deployment import ClusterProcesses
from tests.support.processes.server import Process, ServerProcess
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import soak_only

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


@pytest.fixture(params=["serve", soak_only("gateways")])
def doors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Doors]:
    made = Doors(tmp_path, request.param)
    with made.cluster as running:
        made.gateways = [running] if isinstance(running, ServerProcess) else list(running.gateways)
        yield made


def test_what_clients_publish(doors: Doors) -> None:
    """Killed with a client after PUBLISH, PUBREC, PUBREL and PUBCOMP each, and where PUBREC is the server's alone."""
    senders = {step: ExactlyOnceSender("in/n") for step in ("publish", "pubrec", "pubrec unseen", "pubrel", "pubcomp")}
    with ExitStack() as stack:
        for number, (step, sender) in enumerate(senders.items()):
            client = stack.enter_context(SessionClient(doors.port, step))
            client.open()
            client.say(*sender.begin(numbered(COUNT, number * COUNT)))
            if step == "publish":
                continue
            answers = [client.expect(Pubrec) for _ in range(COUNT)]
            if step != "pubrec unseen":
                releases = [release for each in answers if (release := sender.answered(each)) is not None]
                if step != "pubrec":
                    client.say(*releases)
                if step == "pubcomp":
                    for _ in range(COUNT):
                        sender.answered(client.expect(Pubcomp))
        doors.kill()
    for step, sender in senders.items():
        with SessionClient(doors.port, step) as client:
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
        assert sender.finished == COUNT, step
    assert kept(_any(doors), "in") == sorted(numbered(len(senders) * COUNT))


def test_what_clients_receive(doors: Doors) -> None:
    """Killed with a client each that has read nothing, or is after PUBLISH, PUBREC, PUBREL and PUBCOMP."""
    receivers = {step: ExactlyOnceReceiver() for step in ("nothing", "publish", "pubrec", "pubrel", "pubcomp")}
    with ExitStack() as stack:
        clients = {step: stack.enter_context(SessionClient(doors.port, step)) for step in receivers}
        for client in clients.values():
            client.open()
            client.subscribe("out/#", qos=2)
        publish_from(doors.port, "out/n", numbered(COUNT), 2)
        for step, receiver in receivers.items():
            if step == "nothing":
                continue
            client = clients[step]
            answers = [receiver.take(each) for each in client.expect_deliveries(COUNT)]
            if step != "publish":
                client.say(*answers)
            if step in ("pubrel", "pubcomp"):
                completes = [receiver.release(client.expect(Pubrel)) for _ in range(COUNT)]
                if step == "pubcomp":
                    client.say(*completes)
        doors.kill()
    publish_from(doors.port, "out/n", numbered(1, COUNT), 2)
    for step, receiver in receivers.items():
        with SessionClient(doors.port, step) as client:
            assert client.open().session_present
            _finish(client, receiver)
        assert receiver.received == numbered(COUNT + 1), step


def _finish(client: SessionClient, receiver: ExactlyOnceReceiver) -> None:
    """All handshakes to their end, up to the last message."""
    while True:  # the first may have come with CONNACK
        found, client.deliveries = client.deliveries, []
        for publish in found:
            client.say(receiver.take(publish))
        waiting, client._waiting = client._waiting, []
        for packet in waiting:
            assert isinstance(packet, Pubrel), packet
            client.say(receiver.release(packet))
        if receiver.received[-1:] == numbered(1, COUNT) and not receiver._open:
            return
        assert client.read(), "closed"


def _any(doors: Doors) -> ServerProcess | ClusterProcesses:
    for gateway in doors.gateways:
        gateway.wait_ready()
    return doors.cluster


# -- a random loop ---------------------------------------------------------------------------------------------------


class Publisher(threading.Thread):
    """Publishes numbers in small runs until told to stop, then finishes what it began."""

    def __init__(self, doors: Doors) -> None:
        super().__init__(daemon=True)
        self.doors, self.random = doors, seeded("publisher")
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


@pytest.mark.soak
@pytest.mark.xdist_group("cluster")
def test_numbers_through_random_kills(doors: Doors) -> None:
    pauses = seeded()
    reader = Reader(doors)
    reader.start()
    wait_until(lambda: reader.connections, "the reader is subscribed")
    publisher = Publisher(doors)
    publisher.start()
    end = time.monotonic() + LOOP_SECONDS
    kills = 0
    while time.monotonic() < end or kills < 3:
        due = time.monotonic() + pauses.uniform(0.5, 2.0)
        wait_until(lambda due=due: time.monotonic() >= due, "it is time")
        doors.kill()
        kills += 1
    publisher.is_stopping = True
    publisher.join(PATIENCE_SECONDS)
    assert publisher.failure is None and not publisher.is_alive(), publisher.failure
    reader.wanted = publisher.begun
    reader.join(PATIENCE_SECONDS)
    assert reader.failure is None, reader.failure
    print(f"{publisher.begun} messages, {kills} kills, {publisher.connections}, {reader.connections} connections")
    received = reader.receiver.received
    counts = Counter(received)
    tell(
        "mqtt: numbers of QoS 2 through random kills",
        rounds=kills,
        messages=publisher.begun,
        lost=len(set(numbered(publisher.begun)) - counts.keys()),
        phantom=len(counts.keys() - set(numbered(publisher.begun))),
        duplicated=sum(count - 1 for count in counts.values()),
        faults=kills,
    )
    assert sorted(received) == sorted(numbered(publisher.begun)), _differences(received, publisher.begun)
    assert received == numbered(publisher.begun)
    assert kills >= 3 and publisher.begun > 100
    assert kept(_any(doors), "loop") == sorted(numbered(publisher.begun))


def _differences(received: list[bytes], count: int) -> str:
    twice = sorted({each for each in received if received.count(each) > 1})
    return f"twice: {twice}, never: {sorted(set(numbered(count)) - set(received))}"
