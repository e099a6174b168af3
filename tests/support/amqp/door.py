"""The AMQP door of one gateway without sockets: real conversations over a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from entrepot.domain.names import dead_letter_topic
from entrepot.gateway.amqp.connections.conversation import AmqpConversation
from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import Settings
from entrepot.gateway.transport.source import Source
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.delivery import content_frames
from entrepot.protocols.amqp.frames import BODY, FRAME_OVERHEAD, HEADER
from entrepot.protocols.amqp.method_codec import AmqpMethod
from entrepot.protocols.amqp.methods_basic import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
)
from entrepot.protocols.amqp.methods_connection import ChannelOpen, ChannelOpenOk, ConnectionTuneOk
from entrepot.protocols.amqp.methods_topology import QueueDeclare, QueueDeclareOk
from tests.support.amqp.machine import HELLO, OPEN, START_OK, Heard, heard, said
from tests.support.clock import ManualClock
from tests.support.gateways.members import member_named
from tests.support.stores.model_store import MemoryStore
from tests.support.waiting import PATIENCE_SECONDS, until


async def quiet() -> None:
    """Whatever is due has happened."""
    for _ in range(100):
        await asyncio.sleep(0)


def whole_frames(data: bytes) -> int:
    """The end of the last whole frame; a large message comes in slices that end anywhere."""
    end = 0
    if data.startswith(b"AMQP"):
        return len(data)
    while len(data) - end >= FRAME_OVERHEAD:
        after = end + FRAME_OVERHEAD + int.from_bytes(data[end + 3 : end + 7], "big")
        if after > len(data):
            break
        end = after
    return end


M = TypeVar("M", bound=AmqpMethod)
CONTENT = (BasicDeliver, BasicGetOk, BasicReturn)


@dataclass(frozen=True)
class Given:
    """A message that the client got.  `channel`: its number."""

    channel: int
    method: BasicDeliver | BasicGetOk | BasicReturn
    body: bytes

    @property
    def tag(self) -> int:
        assert not isinstance(self.method, BasicReturn)
        return self.method.delivery_tag

    @property
    def redelivered(self) -> bool:
        assert not isinstance(self.method, BasicReturn)
        return self.method.redelivered


class AmqpClient:
    """One connection, and the driver of its conversation.  `is_congested`: whether it reads nothing."""

    def __init__(self, door: AmqpDoor) -> None:
        self._door = door
        self.source = Source("127.0.0.1", 1, False, None, "amqp")
        self.peer, self.local = "127.0.0.1:1", "127.0.0.1:5672"
        self.is_congested = self.is_closed = False
        self.pauses: set[object] = set()
        self.write_limit, self.unwritten = 1 << 20, 0
        self.methods: list[tuple[int, AmqpMethod]] = []
        self.given: list[Given] = []
        self._open: tuple[int, BasicDeliver | BasicGetOk | BasicReturn, int, bytes] | None = None
        self._rest = b""
        self.conversation: AmqpConversation = door.frontend.converse()
        self.conversation.connected(self)  # type: ignore[arg-type]

    # -- the driver's side ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        self._rest += self.conversation.data_to_send()
        end = whole_frames(self._rest)
        data, self._rest = self._rest[:end], self._rest[end:]
        for channel, what in heard(data):
            self._take(channel, what)

    def _take(self, channel: int, what: Heard) -> None:
        if isinstance(what, CONTENT):
            self._open = channel, what, -1, b""
        elif isinstance(what, AmqpMethod):
            self.methods.append((channel, what))
        elif isinstance(what, tuple):
            assert self._open is not None
            number, method, size, body = self._open
            assert number == channel
            if what[0] == HEADER:
                size = int.from_bytes(what[1][4:12], "big")
            elif what[0] == BODY:
                body += what[1]
            self._open = (number, method, size, body)
            if len(body) == size:
                self.given.append(Given(channel, method, body))

    @property
    def is_paused(self) -> bool:
        return bool(self.pauses)

    def pause_reading(self, reason: object) -> None:
        self.pauses.add(reason)

    def resume_reading(self, reason: object) -> None:
        self.pauses.discard(reason)

    def admitted(self) -> None: ...

    def deadline_moved(self) -> None: ...

    def finish(self) -> None:
        self.close()

    def close(self) -> None:
        self.flush()
        self.lose()

    def lose(self) -> None:
        """The connection is gone."""
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.conversation.lost)

    def reads(self) -> None:
        """The client reads again: its socket has room."""
        self.is_congested = False
        self.conversation.writable()
        self.flush()

    # -- the client's side ---------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """One read."""
        self.conversation.received(data, asyncio.get_running_loop().time())
        self.flush()

    def say(self, channel: int, *methods: AmqpMethod) -> None:
        self.send(said(channel, *methods))

    def has(self, kind: type[AmqpMethod], channel: int) -> bool:
        return any(isinstance(each, kind) and number == channel for number, each in self.methods)

    async def expect(self, kind: type[M], channel: int = 1) -> M:
        """The next method of that kind on the channel; what comes before it stays."""
        await until(lambda: self.has(kind, channel), lambda: f"{kind.__name__} comes: {self.methods}")
        place = next(i for i, (number, each) in enumerate(self.methods) if isinstance(each, kind) and number == channel)
        return self.methods.pop(place)[1]  # type: ignore[return-value]

    async def open(self, *channels: int, frame_max: int = 0) -> AmqpClient:
        """Log in, and open channels.  `frame_max`: 0 for the server's."""
        self.send(HELLO + START_OK + said(0, ConnectionTuneOk(0, frame_max, 60)) + OPEN)
        await until(lambda: self.conversation.machine.is_open, "it is open")
        for number in channels or (1,):
            self.say(number, ChannelOpen())
            await self.expect(ChannelOpenOk, number)
        return self

    async def declare(self, queue: str, channel: int = 1, **arguments: Any) -> None:
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self.say(channel, QueueDeclare(queue=queue, durable=True, arguments=named))
        await self.expect(QueueDeclareOk, channel)

    async def consume(self, queue: str, channel: int = 1, *, prefetch: int = 0, tag: str = "c", **how: Any) -> None:
        self.say(channel, BasicQos(0, prefetch), BasicConsume(queue, tag, **how))
        await self.expect(BasicConsumeOk, channel)

    async def confirm(self, channel: int = 1) -> None:
        self.say(channel, ConfirmSelect())
        await self.expect(ConfirmSelectOk, channel)

    def publish(
        self,
        key: str,
        *bodies: bytes,
        exchange: str = "",
        channel: int = 1,
        mandatory: bool = False,
        header: ContentHeader | None = None,
    ) -> None:
        """All of them in one read."""
        method, header_data = said(channel, BasicPublish(exchange, key, mandatory)), (header or ContentHeader()).data
        most = 4096 if len(header_data) < 4000 else 131_072
        self.send(b"".join(method + content_frames(channel, header_data, body, most) for body in bodies))

    async def fill(self, queue: str, *bodies: bytes, **how: Any) -> None:
        """Publish to a queue; return when they are in it."""
        before = self._door.sender.sent
        self.publish(queue, *bodies, **how)
        await until(lambda: self._door.sender.sent >= before + len(bodies), "they are in the queue")

    async def get(self, queue: str, channel: int = 1, *, no_ack: bool = False) -> Given | None:
        count = len(self.given)
        self.say(channel, BasicGet(queue, no_ack))
        await until(lambda: len(self.given) > count or self.has(BasicGetEmpty, channel), "an answer")
        if len(self.given) > count:
            return self.given[-1]
        await self.expect(BasicGetEmpty, channel)
        return None

    def bodies(self, channel: int = 1) -> list[bytes]:
        return [each.body for each in self.given if each.channel == channel]

    async def takes(self, count: int, channel: int = 1) -> list[bytes]:
        """The bodies, once so many have come."""
        await until(lambda: len(self.bodies(channel)) >= count, lambda: f"{count} messages: {self.bodies(channel)}")
        return self.bodies(channel)

    def outcomes(self, channel: int = 1) -> tuple[set[int], set[int]]:
        """Publish numbers that were confirmed, and those that were refused."""
        found: tuple[set[int], set[int]] = (set(), set())
        for number, each in self.methods:
            if number != channel or not isinstance(each, BasicAck | BasicNack):
                continue
            place = found[isinstance(each, BasicNack)]
            known = found[0] | found[1]
            low = 1 if each.multiple else each.delivery_tag
            place.update(tag for tag in range(low, each.delivery_tag + 1) if tag not in known)
        return found


class AmqpDoor:
    """Its parts as the gateway puts them together.  `beside`: another gateway, whose store and clock it shares.

    `amqp`: settings.
    """

    def __init__(
        self,
        beside: AmqpDoor | None = None,
        *,
        name: str = "g",
        is_alone: bool = True,
        amqp: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        settings = Settings().model_copy(update={"amqp": Settings().amqp.model_copy(update=amqp)})
        self.clock: ManualClock = ManualClock() if beside is None else beside.clock
        self.store: MemoryStore = MemoryStore(self.clock) if beside is None else beside.store
        topology = Topology(self.store, settings.topics)
        self.sender = Sender(self.store, topology, self.clock)
        self.security = Security(self.store.key_values, settings.security, self.clock)
        self.member = member_named(self.store, self.clock, name, is_alone=is_alone)
        self.hosts = VirtualHosts(
            self.store,
            self.sender,
            Routes(self.store, topology, []),
            Definitions(self.store),
            settings.amqp,
            self.clock,
            self.member,
        )
        self.frontend = AmqpFrontend(self.hosts, self.sender, self.security, settings.amqp, self.clock, "1")
        self.incidents = self.sender.incidents

    async def __aenter__(self) -> AmqpDoor:
        await self.security.start(1.0)
        await self.frontend.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.frontend.shut_down()
        self.store.consumption.release_waiting()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.frontend.close()
        self.security.close()

    def client(self) -> AmqpClient:
        return AmqpClient(self)

    def queue(self, name: str) -> Queue:
        vhost = self.hosts.definitions.vhost("/")
        assert vhost is not None
        found = vhost.queue(name)
        assert found is not None
        return found

    async def held(self, queue: str) -> tuple[int, int]:
        """Ready and unacknowledged messages."""
        return await self.hosts.counting.counts(self.queue(queue))

    async def parked(self, queue: str) -> list[bytes]:
        """Bodies of what was set aside of a queue."""
        topic = dead_letter_topic(self.queue(queue).group)
        if self.store.topology.topic(topic) is None:
            return []
        return [
            message.body
            for bounds in await self.store.messages.bounds(topic)
            for message in await self.store.messages.read(topic, bounds.queue_id, bounds.min_offset, 1000)
        ]
