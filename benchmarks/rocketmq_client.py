"""A client of RocketMQ's gRPC service for benchmarks: closed loops of many calls, and an open loop at a stated rate.

It is the same for every server: calls without an SDK, over several channels, with the headers that SDKs send.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import grpc.aio

from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.headers import Credentials, headers

CHANNELS: Final = 8
CALLERS: Final = 64
"""Calls under way at one time, over all channels."""
BODY: Final = b"x" * 200
RECEIVED: Final = 32
FILLED_AT_ONCE: Final = 100
SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"
TOPIC: Final = "bench"
GROUP: Final = "workers"
METADATA: Final = headers("bench@1", Credentials(), "", "5.1", 1_700_000_000_000, "r")

CpuSeconds = Callable[[], float]
"""CPU time that the servers have taken so far."""


class Client:
    """Calls over one of several channels, of one topic."""

    def __init__(self, port: int, topic: str = TOPIC) -> None:
        self._topic, self._group = v2.Resource(name=topic), v2.Resource(name=GROUP)
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
        self._telemetry = self.channels[0].stream_stream(
            SERVICE + "Telemetry", v2.TelemetryCommand.SerializeToString, v2.TelemetryCommand.FromString
        )(None, metadata=METADATA)
        self._count = 0

    async def introduce(self) -> None:
        """Describe the client: RocketMQ's proxy serves no receive of one that it does not know."""
        subscriptions = [v2.SubscriptionEntry(topic=self._topic)]
        settings = v2.Settings(
            client_type=v2.SIMPLE_CONSUMER,
            subscription=v2.Subscription(group=self._group, subscriptions=subscriptions),
            user_agent=v2.UA(language=v2.PYTHON, version="5.1"),
        )
        await self._telemetry.write(v2.TelemetryCommand(settings=settings))
        answer = await self._telemetry.read()
        assert isinstance(answer, v2.TelemetryCommand), "the server has ended the description of the client"

    async def send(self, number: int, count: int) -> int:
        """Send messages in one call; return their count."""
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
        """Receive messages and acknowledge them; return their count."""
        queue = v2.MessageQueue(topic=self._topic, id=-1)
        question = v2.ReceiveMessageRequest(group=self._group, message_queue=queue, batch_size=RECEIVED)
        question.filter_expression.expression = "*"
        question.invisible_duration.FromSeconds(60)
        question.long_polling_timeout.FromSeconds(1)
        entries = []
        async for answer in self._receive[number % CHANNELS](question, metadata=METADATA, timeout=60):
            if answer.HasField("status"):
                assert answer.status.code in (v2.OK, v2.MESSAGE_NOT_FOUND), answer.status
            elif answer.HasField("message"):
                system = answer.message.system_properties
                entries.append(v2.AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle))
        if not entries:
            return 0
        done = v2.AckMessageRequest(group=self._group, topic=self._topic, entries=entries)
        acknowledged = await self._unary[number % CHANNELS, "AckMessage"](done, metadata=METADATA)
        assert acknowledged.status.code == v2.OK, acknowledged.status
        return len(entries)

    async def close(self) -> None:
        self._telemetry.cancel()
        for channel in self.channels:
            await channel.close(None)


Work = Callable[[Client, int], Awaitable[int]]
"""One call, or a pair, of the caller with that number; the messages that it moved."""


def sends(count: int) -> Work:
    """Work that sends so many messages a call."""
    return lambda client, number: client.send(number, count)


def receives(client: Client, number: int) -> Awaitable[int]:
    """Work that receives messages and acknowledges them."""
    return client.receive(number)


@dataclass(frozen=True, slots=True)
class Moved:
    """Messages for each CPU-second of the servers, and for each second."""

    per_cpu: float
    rate: float


async def measured(
    port: int, cpu: CpuSeconds, work: Work, seconds: float, *, fill: bool = False, topic: str = TOPIC
) -> Moved:
    """Work for some seconds, with as many calls at a time as there are callers; with `fill` it sends some before."""
    client = Client(port, topic)
    try:
        await client.introduce()
        await work(client, 0)  # a new group of RocketMQ's begins at the end of the topic, so it has to be there first
        if fill:
            filling = sends(FILLED_AT_ONCE)
            await _all(client, filling, CHANNELS, time.monotonic() + seconds)
        before, began = cpu(), time.monotonic()
        done = await _all(client, work, CALLERS, began + seconds)
        return Moved(done / (cpu() - before), done / (time.monotonic() - began))
    finally:
        await client.close()


async def _all(client: Client, work: Work, callers: int, end: float) -> int:
    return sum(await asyncio.gather(*(_repeat(client, work, number, end) for number in range(callers))))


async def _repeat(client: Client, work: Work, number: int, end: float) -> int:
    done = 0
    while time.monotonic() < end:
        done += await work(client, number)
    return done


async def sent_in_all(port: int, count: int, at_once: int, topic: str = TOPIC) -> None:
    """Send so many messages, in calls of `at_once`."""
    client, left = Client(port, topic), count

    async def go_on(number: int) -> None:
        nonlocal left
        while left > 0:
            left -= at_once
            await client.send(number, at_once)

    try:
        await asyncio.gather(*(go_on(number) for number in range(CHANNELS)))
    finally:
        await client.close()


async def waits(port: int, rate: int, seconds: float, topic: str = TOPIC) -> list[float]:
    """Send one message a call at that rate; return the time from when each was due until its answer, in ms, sorted."""
    client, loop = Client(port, topic), asyncio.get_running_loop()
    found: list[float] = []

    async def one(number: int, due: float) -> None:
        await client.send(number, 1)
        found.append((time.monotonic() - due) * 1000)

    try:
        await client.send(0, 1)
        began, under_way = time.monotonic(), set[asyncio.Task[None]]()  # the loop's own time has whole milliseconds
        for number in range(int(rate * seconds)):
            due = began + number / rate
            if (left := due - time.monotonic()) > 0:
                await asyncio.sleep(left)
            task = loop.create_task(one(number, due))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.gather(*under_way)
    finally:
        await client.close()
    return sorted(found)
