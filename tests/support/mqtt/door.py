"""The MQTT door of one gateway without sockets: real conversations over a store in memory whose writes can be held."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.gateway.mqtt.connections.conversation import MqttConversation
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from entrepot.gateway.mqtt.frontend import MqttFrontend
from entrepot.gateway.mqtt.shares.shares import Shares
from entrepot.gateway.settings import Settings
from entrepot.gateway.transport.source import Source
from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connack, Connect, Packet, Publish, Suback, Subscribe, Subscription
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.clock import ManualClock
from tests.support.gateways.parts import parts_of
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.waiting import PATIENCE_SECONDS, until

P = TypeVar("P")


class HeldStore(MemoryStore):
    """Writes of key-values wait while `gate` is not set, and their reads while `reading` is not."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.own = self.key_values
        self.key_values = replaced(self.own, write=self.write, get=self.get)
        self.gate, self.reading = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.reading.set()
        self.waiting = self.read = 0
        self.failure: Exception | None = None

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        return await self.own.write(changes)

    async def get(self, keys: Sequence[str]) -> Sequence[KeyValue | None]:
        """`read`: how often it was asked.  `failure`: what it raises, if anything."""
        self.read += 1
        await self.reading.wait()
        if self.failure is not None:
            raise self.failure
        return await self.own.get(keys)


class DoorClient:
    """One connection, and the driver of its conversation.  `is_congested`: whether it reads nothing."""

    def __init__(self, world: MqttDoor, version: int = 5) -> None:
        self._world, self._version = world, version
        self._decoder = Decoder(1 << 28, version)
        self.source = Source("127.0.0.1", 1, False, None, "mqtt")
        self.peer = "127.0.0.1:1"
        self.is_congested = self.is_choked = self.is_closed = False
        self.pauses: set[object] = set()
        self.write_limit, self.unwritten = 1 << 20, 0
        self.packets: list[Packet] = []
        self.conversation: MqttConversation = world.mqtt.converse()
        self.conversation.connected(self)  # type: ignore[arg-type]

    # -- the driver's side ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        self.packets += self._decoder.feed(self.conversation.data_to_send())

    @property
    def is_paused(self) -> bool:
        return bool(self.pauses)

    def pause_reading(self, reason: object) -> None:
        self.pauses.add(reason)

    def resume_reading(self, reason: object) -> None:
        self.pauses.discard(reason)

    def admitted(self) -> None: ...

    def delivered(self) -> None: ...

    def deadline_moved(self) -> None: ...

    def close(self) -> None:
        self.flush()
        self.lose()

    def lose(self) -> None:
        """The connection is gone."""
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.conversation.lost)

    # -- the client's side ---------------------------------------------------------------------------------------

    def say(self, *packets: Packet) -> None:
        """All of them in one read."""
        self.send(b"".join(encode(each, self._version) for each in packets))

    def send(self, data: bytes) -> None:
        """Bytes in one read."""
        self.conversation.received(data, asyncio.get_running_loop().time())
        self.flush()

    def deliveries(self) -> list[Publish]:
        return [each for each in self.packets if isinstance(each, Publish)]

    async def expect(self, kind: type[P]) -> P:
        """The next packet of that kind; what comes before it stays."""
        await until(lambda: any(isinstance(each, kind) for each in self.packets), f"{kind.__name__} comes")
        packet = next(each for each in self.packets if isinstance(each, kind))
        self.packets.remove(packet)  # type: ignore[arg-type]
        return packet

    def say_connect(self, client_id: str, *, expiry: int = 600, clean: bool = False) -> None:
        properties = {PropertyId.SESSION_EXPIRY_INTERVAL: expiry} if self._version == 5 else {}
        self.say(Connect(client_id, self._version, clean, properties=properties))

    async def connect(self, client_id: str, *, expiry: int = 600, clean: bool = False) -> Connack:
        self.say_connect(client_id, expiry=expiry, clean=clean)
        answer = await self.expect(Connack)
        assert answer.reason == 0, answer
        return answer

    async def subscribe(self, *subscriptions: Subscription) -> Suback:
        self.say(Subscribe(1, list(subscriptions)))
        return await self.expect(Suback)


class MqttDoor:
    """Its parts as the gateway puts them together.  `beside`: another gateway, whose store and clock it shares."""

    def __init__(
        self, beside: MqttDoor | None = None, *, is_alone: bool = True, settings: Settings | None = None
    ) -> None:
        settings = settings or Settings()
        self.clock: ManualClock = ManualClock() if beside is None else beside.clock
        self.store: HeldStore = HeldStore(self.clock) if beside is None else beside.store
        parts = parts_of(self.store, settings, self.clock, is_alone=is_alone)
        self.member = parts.member
        self.sender, self.security, self.retained = parts.sender, parts.security, parts.retained
        self.hub = DeliveryHub(self.store, self.clock, self.sender.incidents)
        self.shares = Shares(
            self.store,
            self.clock,
            settings.groups.new_group,
            lambda: self.hub.any_level_topics,
            self.sender.traffic,
            self.sender.incidents,
        )
        self.mqtt: MqttFrontend = MqttFrontend(parts, self.hub, self.shares)

    async def __aenter__(self) -> MqttDoor:
        await self.security.start(1.0)
        await self.retained.start()
        await self.member.start()
        await self.mqtt.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.mqtt.shut_down()
        self.store.consumption.release_waiting()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.mqtt.settle()
            await self.shares.close()
            await self.mqtt.close()
            await self.member.leave()
            await self.retained.close()
        self.security.close()

    def client(self, version: int = 5) -> DoorClient:
        return DoorClient(self, version)
