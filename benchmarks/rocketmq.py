"""The RocketMQ listener beside an empty grpc.aio servicer: sends, and receives with their acknowledgements.

Figures are per CPU-second of the server, for one message and batches, over several channels. Both servers take turns in
one run. The empty one reads the same requests, answers with as many bytes, and does nothing else: what gRPC's library
costs alone.
Every OK of ours to a send, and to an acknowledgement, comes after fdatasync.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import grpc.aio
from rich.console import Console

from benchmarks.processes import Server, cpu_seconds, entrepot, free_port, running
from benchmarks.report import Goal, Report
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.headers import Credentials, headers

ROUNDS: Final = 3
CHANNELS: Final = 8
CALLERS: Final = 64
"""Calls under way at one time, over all channels."""
BODY: Final = b"x" * 200
RECEIVED: Final = 32
GOAL: Final = Goal(0.7)
SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"
TOPIC: Final = "bench"
GROUP: Final = v2.Resource(name="workers")
METADATA: Final = headers("bench@1", Credentials(), "", "5.1", 1_700_000_000_000, "r")

Work = Callable[["Client", int], Any]


class Client:
    """Calls over one of several channels."""

    def __init__(self, port: int, topic: str) -> None:
        self._topic = v2.Resource(name=topic)
        options = (("grpc.use_local_subchannel_pool", 1),)
        self.channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) for _ in range(CHANNELS)]
        self._unary = {
            (number, name): channel.unary_unary(SERVICE + name, question.SerializeToString, answer.FromString)
            for number, channel in enumerate(self.channels)
            for name, question, answer in (
                ("SendMessage", v2.SendMessageRequest, v2.SendMessageResponse),
                ("AckMessage", v2.AckMessageRequest, v2.AckMessageResponse),
            )
        }
        self._receive = [
            channel.unary_stream(
                SERVICE + "ReceiveMessage",
                v2.ReceiveMessageRequest.SerializeToString,
                v2.ReceiveMessageResponse.FromString,
            )
            for channel in self.channels
        ]
        self._count = 0

    async def send(self, number: int, count: int) -> int:
        wires = []
        for _ in range(count):
            self._count += 1
            wire = v2.Message(topic=self._topic, body=BODY)
            system = wire.system_properties
            system.message_id, system.message_type, system.body_encoding = (
                f"01{self._count:032X}",
                v2.NORMAL,
                v2.IDENTITY,
            )
            system.born_timestamp.seconds = 1_700_000_000
            wires.append(wire)
        question = v2.SendMessageRequest(messages=wires)
        answer = await self._unary[number % CHANNELS, "SendMessage"](question, metadata=METADATA)
        assert answer.status.code == v2.OK, answer.status
        return count

    async def receive(self, number: int) -> int:
        queue = v2.MessageQueue(topic=self._topic, id=-1)
        question = v2.ReceiveMessageRequest(group=GROUP, message_queue=queue, batch_size=RECEIVED)
        question.invisible_duration.FromSeconds(60)
        question.long_polling_timeout.FromSeconds(1)
        entries = []
        async for answer in self._receive[number % CHANNELS](question, metadata=METADATA):
            if answer.HasField("message"):
                handle = answer.message.system_properties.receipt_handle
                entries.append(v2.AckMessageEntry(receipt_handle=handle))
        if not entries:
            return 0
        done = v2.AckMessageRequest(group=GROUP, topic=self._topic, entries=entries)
        acknowledged = await self._unary[number % CHANNELS, "AckMessage"](done, metadata=METADATA)
        assert acknowledged.status.code == v2.OK, acknowledged.status
        return len(entries)

    async def close(self) -> None:
        for channel in self.channels:
            await channel.close(None)


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it in some two minutes; quick: one short round of each."""
    rounds, seconds = (1, 1.0) if quick else (ROUNDS, 4.0)
    report = Report(
        "rocketmq", "RocketMQ: durable before each answer, beside an empty grpc.aio servicer", "empty servicer"
    )
    cases: list[tuple[str, Any, bool]] = [
        ("send, one message a call", lambda client, number: client.send(number, 1), False),
        ("send, 10 messages a call", lambda client, number: client.send(number, 10), False),
        ("send, 32 messages a call", lambda client, number: client.send(number, 32), False),
        ("receive 32 and acknowledge them", lambda client, number: client.receive(number), True),
    ]
    peers: list[Callable[[], AbstractContextManager[Server]]] = [
        lambda: entrepot("--set", "grpc.max_receive_messages=32"),
        bare_grpc,
    ]
    for name, work, needs_messages in cases:
        console.print(name, style="dim")
        found: list[list[tuple[float, float]]] = [[], []]
        for _ in range(rounds):
            for peer, kept in zip(peers, found, strict=True):
                with peer() as server:
                    kept.append(
                        asyncio.run(measured(server, work, seconds, fill=needs_messages and peer is not bare_grpc))
                    )
        per_cpu = [statistics.median(each[0] for each in kept) for kept in found]
        rates = [statistics.median(each[1] for each in kept) for kept in found]
        report.add(name, "msg/CPU-s", per_cpu[0], per_cpu[1], goal=GOAL, judged="ratio")
        report.add(name, "msg/s", rates[0], rates[1])
    report.notes.append(
        f"{CHANNELS} channels, {CALLERS} calls at a time, 200 B; medians of {rounds}, rounds alternating; "
        "the client shares the cores"
    )
    return report


async def measured(server: Server, work: Any, seconds: float, *, fill: bool, topic: str = TOPIC) -> tuple[float, float]:
    """Messages per CPU-second of the server, and per second; with `fill` it sends some before that."""
    client = Client(server.ports["grpc"], topic)
    if fill:
        await asyncio.gather(
            *(_repeat(client, lambda c, n: c.send(n, 100), n, time.monotonic() + seconds) for n in range(8))
        )
    await work(client, 0)
    before, began = cpu_seconds(server.pid), time.monotonic()
    done = sum(await asyncio.gather(*(_repeat(client, work, number, began + seconds) for number in range(CALLERS))))
    took, cpu = time.monotonic() - began, cpu_seconds(server.pid) - before
    await client.close()
    return done / cpu, done / took


async def _repeat(client: Client, work: Any, number: int, end: float) -> int:
    done = 0
    while time.monotonic() < end:
        done += await work(client, number)
    return done


@contextmanager
def bare_grpc() -> Iterator[Server]:
    """The empty servicer."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.bare_grpc", str(port)]
    with running("empty servicer", command, {"grpc": port}) as server:
        yield server
