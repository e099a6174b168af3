"""Contract row 18 at the AMQP door: what a client does wrong costs itself, and others go on beside it."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest
from pamqp import body, commands, frame, header

from tests.conformance.amqp.wire_client import HEADER, Dropped, Wire, publishing
from tests.support.amqp.load import parameters
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled

MIB = 1 << 20
MEMORY_MARGIN = 40 * MIB


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    limits = {
        "amqp.max_message_bytes": str(MIB),
        "amqp.max_channels": "50",
        "amqp.max_unacknowledged": "1000",
        "amqp.max_queues": "100",
        "store.max_unconfirmed_bytes": str(4 * MIB),
    }
    with ServerProcess(tmp_path_factory.mktemp("abuse"), limits) as running:
        yield running
        assert "Traceback" not in running.log_text(), running.log_text()


@contextmanager
def undisturbed(server: ServerProcess) -> Iterator[None]:
    """A client publishes and gets all the while; the server's memory stays near to what it was."""
    before = server.resident_bytes()
    failures: list[BaseException] = []
    stop = threading.Event()
    rounds = 0

    def behave() -> None:
        nonlocal rounds
        try:
            connection = pika.BlockingConnection(parameters(server.port("amqp")))
            channel = connection.channel()
            channel.confirm_delivery()
            queue = channel.queue_declare("", exclusive=True).method.queue
            while not stop.is_set() or rounds < 5:
                channel.basic_publish("", queue, b"%d" % rounds)
                assert channel.basic_get(queue, auto_ack=True)[2] == b"%d" % rounds
                rounds += 1
            connection.close()
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
    grown = server.resident_bytes() - before
    assert grown < MEMORY_MARGIN, f"{grown / MIB:.1f} MiB more"


def end_of(wire: Wire) -> str:
    """How a connection ends: dropped, or closed with a code."""
    try:
        while True:
            _, found = wire.next()
            if isinstance(found, commands.Connection.Close):
                return str(found.reply_code)
    except Dropped:
        return "dropped"


HALF_OPEN = (b"", HEADER[:5], HEADER)
"""Nothing, half of a header, or a header and no login."""


def test_half_open_connections(tmp_path: Path) -> None:
    """They are closed when the time is over."""
    with ServerProcess(tmp_path, {"amqp.handshake_timeout_seconds": "0.3"}) as server, ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.port("amqp"))) for _ in HALF_OPEN]
        for wire, said in zip(wires, HALF_OPEN, strict=True):
            wire.raw(said)
        assert {end_of(wire) for wire in wires} == {"dropped"}


@pytest.mark.soak
def test_many_half_open_connections_beside_another(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, {"amqp.handshake_timeout_seconds": "10"}) as server,
        undisturbed(server),
        ExitStack() as stack,
    ):
        wires = [stack.enter_context(Wire(server.port("amqp"))) for _ in range(100)]
        for number, wire in enumerate(wires):
            wire.raw(HALF_OPEN[number % 3])
        assert {end_of(wire) for wire in wires} == {"dropped"}


def test_a_byte_at_a_time(server: ServerProcess) -> None:
    with undisturbed(server), Wire(server.port("amqp")) as wire:
        wire.opened()
        frames = b"".join(
            frame.marshal(each, 1)
            for each in (commands.Queue.Declare(queue="slow", exclusive=True), *publishing("", "slow", b"here"))
        )
        for byte in frames:
            wire.raw(bytes((byte,)))
        wire.until(lambda channel, found: isinstance(found, commands.Queue.DeclareOk))
        found = wire.ask(commands.Basic.Get(queue="slow", no_ack=True))
        assert isinstance(found, commands.Basic.GetOk)


def test_frames_that_are_too_large_are_refused_before_they_come(server: ServerProcess) -> None:
    with undisturbed(server):
        for _ in range(20):
            with Wire(server.port("amqp")) as wire:
                wire.opened()
                wire.raw(struct.pack(">BHI", 3, 1, 0x7FFF_FFFF) + b"x")
                assert end_of(wire) == "501"


def test_messages_that_are_too_large_are_refused_before_they_come(server: ServerProcess) -> None:
    with undisturbed(server), Wire(server.port("amqp")) as wire:
        wire.opened()
        said = wire.said(
            commands.Basic.Publish(exchange="", routing_key="q"),
            header.ContentHeader(0, 1 << 40, commands.Basic.Properties()),
        )
        assert said[:2] == ("channel", 406), said


def test_half_messages_on_all_channels(server: ServerProcess) -> None:
    """What has come of a message is bounded over all channels together."""
    with undisturbed(server), Wire(server.port("amqp")) as wire:
        wire.opened()
        for channel in range(2, 40):
            wire.open_channel(channel)
        part = body.ContentBody(b"x" * 100_000)
        for channel in range(1, 40):
            wire.send(
                commands.Basic.Publish(exchange="", routing_key="q"),
                header.ContentHeader(0, MIB, commands.Basic.Properties()),
                *([part] * 5),
                channel=channel,
            )
        wire.send(commands.Channel.Open(), channel=45)
        wire.until(lambda channel, found: channel == 45)


def test_channels_and_queues_have_limits(server: ServerProcess) -> None:
    with undisturbed(server), Wire(server.port("amqp")) as wire:
        wire.opened()
        for channel in range(2, 51):
            wire.open_channel(channel)
        wire.send(commands.Channel.Open(), channel=51)
        assert end_of(wire) == "530"
    with Wire(server.port("amqp")) as wire:
        wire.opened()
        for number in range(101):
            found = wire.ask(commands.Queue.Declare(queue=wire.name(f"many-{number}"), exclusive=True))
            if isinstance(found, commands.Channel.Close):
                break
        assert found.reply_code == 406 and "queue limit" in found.reply_text
    wait_until(lambda: may_declare(server), "its queues are gone, so that others may declare theirs")


def may_declare(server: ServerProcess) -> bool:
    with Wire(server.port("amqp")) as wire:
        wire.opened()
        return isinstance(wire.ask(commands.Queue.Declare(queue="again", exclusive=True)), commands.Queue.DeclareOk)


def test_a_consumer_that_reads_nothing(server: ServerProcess) -> None:
    """It is sent no more than its socket takes and it may hold; the rest stays in the queue for others."""
    connection = pika.BlockingConnection(parameters(server.port("amqp")))
    channel = connection.channel()
    channel.queue_declare("deaf", durable=True)
    channel.confirm_delivery()
    with undisturbed(server), Wire(server.port("amqp")) as wire:
        wire.opened()
        wire.send(commands.Basic.Consume(queue="deaf", no_ack=True))
        for _ in range(400):
            channel.basic_publish("", "deaf", b"x" * 100_000)
        assert channel.queue_declare("deaf", passive=True).method.message_count > 100
    channel.queue_delete("deaf")
    connection.close()


def test_a_client_that_publishes_without_waiting(server: ServerProcess) -> None:
    """It is not read while too much is unconfirmed."""
    with undisturbed(server), Wire(server.port("amqp")) as wire:
        wire.opened()
        wire.ask(commands.Queue.Declare(queue="loud", exclusive=False, durable=True))
        frames = publishing("", "loud", b"x" * 30_000)
        for _ in range(100):
            wire.send(*(frames * 15))
        found = wire.ask(commands.Queue.Delete(queue="loud"))
        assert isinstance(found, commands.Queue.DeleteOk) and found.message_count == 1500


@pytest.mark.scaled
def test_declaring_and_unbinding_in_circles(server: ServerProcess) -> None:
    with undisturbed(server), Wire(server.port("amqp")) as wire:
        wire.opened()
        for number in range(scaled(50, 1000)):
            name = wire.name("round")
            wire.ask(commands.Exchange.Declare(exchange=name, exchange_type="topic", auto_delete=True))
            wire.ask(commands.Queue.Declare(queue=name, exclusive=True))
            wire.ask(commands.Queue.Bind(queue=name, exchange=name, routing_key="#." * 50 + str(number)))
            wire.ask(commands.Queue.Delete(queue=name))


def test_keys_that_would_make_a_matcher_go_back(server: ServerProcess) -> None:
    with undisturbed(server), Wire(server.port("amqp")) as wire:
        wire.opened()
        name = wire.name("words")
        wire.ask(commands.Exchange.Declare(exchange=name, exchange_type="topic"))
        wire.ask(commands.Queue.Declare(queue=name, exclusive=True))
        for pattern in ("#.a.#.b.#.c.#.d.#.e.#.z", "*.#.*.#.*.#.*.#.q", ".".join(["#"] * 60) + ".x"):
            wire.ask(commands.Queue.Bind(queue=name, exchange=name, routing_key=pattern))
        key = ".".join("abcde" * 20)
        assert wire.said(*(publishing(name, key) * 200)) == ("ok",)
        wire.ask(commands.Exchange.Delete(exchange=name))
