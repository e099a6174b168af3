"""Connections are lost and taken over at any moment of QoS 2: nothing is there twice, and nothing is lost.

Reader and publisher go to and fro between gateways.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from entrepot.protocols.mqtt.packets import Connack, Pubcomp, Publish, Pubrec, Pubrel, Subscription
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.seed import seeded
from tests.support.waiting import until
from tests.tiers.marks import scaled


class Publisher:
    """Publishes numbers one after the other; keeps its side of the handshake over its connections."""

    def __init__(self, arrive: Callable[[], DoorClient], count: int) -> None:
        self.arrive, self.left = arrive, list(range(count))
        self.flight: dict[int, tuple[bytes, bool]] = {}
        """Body and whether PUBREC came, by packet identifier."""
        self.next_id = 0
        self.client: DoorClient | None = None

    def come(self) -> None:
        self.client = self.arrive()
        self.client.say_connect("publisher")
        self.is_in = False

    def act(self, some: int) -> None:
        client = self.client
        if client is None or client.is_closed:
            return self.come()
        packets, client.packets = client.packets, []
        for packet in packets:
            if isinstance(packet, Connack):
                self.is_in = True
                for packet_id, (body, is_received) in self.flight.items():
                    client.say(Pubrel(packet_id) if is_received else Publish("t/x", body, 2, packet_id, False, True))
            elif isinstance(packet, Pubrec) and packet.packet_id in self.flight:
                self.flight[packet.packet_id] = self.flight[packet.packet_id][0], True
                client.say(Pubrel(packet.packet_id))
            elif isinstance(packet, Pubcomp):
                self.flight.pop(packet.packet_id, None)
        for _ in range(some if self.is_in else 0):
            if self.left and len(self.flight) < 20:
                self.next_id = self.next_id % 30 + 1
                while self.next_id in self.flight:
                    self.next_id = self.next_id % 30 + 1
                self.flight[self.next_id] = str(self.left.pop(0)).encode(), False
                client.say(Publish("t/x", self.flight[self.next_id][0], 2, self.next_id))
        return None

    @property
    def is_done(self) -> bool:
        return not self.left and not self.flight


class Reader:
    """Takes messages of QoS 2; keeps the identifiers that it has received over its connections."""

    def __init__(self, arrive: Callable[[], DoorClient]) -> None:
        self.arrive = arrive
        self.got: list[bytes] = []
        self.received: set[int] = set()
        self.client: DoorClient | None = None

    def come(self) -> None:
        self.client = self.arrive()
        self.client.say_connect("reader")

    def act(self, answers: bool) -> None:
        client = self.client
        if client is None or client.is_closed:
            return self.come()
        packets, client.packets = client.packets, []
        for packet in packets:
            if isinstance(packet, Publish):
                if packet.packet_id not in self.received:
                    self.received.add(packet.packet_id)
                    self.got.append(packet.payload)
                if answers:
                    client.say(Pubrec(packet.packet_id))
            elif isinstance(packet, Pubrel):
                self.received.discard(packet.packet_id)
                if answers:
                    client.say(Pubcomp(packet.packet_id))
        return None


@pytest.mark.parametrize("gateways", [1, 2])
@pytest.mark.parametrize("storm", range(scaled(2, 20)))
@pytest.mark.scaled
async def test_exactly_once(storm: int, gateways: int) -> None:
    chance = seeded(f"storm {storm}")
    async with AsyncExitStack() as stack:
        door = await stack.enter_async_context(MqttDoor(is_alone=gateways == 1))
        doors = [door]
        if gateways == 2:
            doors.append(await stack.enter_async_context(MqttDoor(door, is_alone=False)))
        store = door.store

        def arrive() -> DoorClient:
            return chance.choice(doors).client()

        reader, publisher = Reader(arrive), Publisher(arrive, 150)
        first = door.client()
        await first.connect("reader")
        await first.subscribe(Subscription("t/#", 2))
        first.lose()
        for _ in range(400):
            for each in (reader, publisher):
                dice = chance.random()
                if each.client is not None and not each.client.is_closed and dice < 0.04:
                    each.client.lose()
                elif dice < 0.06:
                    each.come()  # while the other connection is there
            if chance.random() < 0.15:
                store.gate.clear()
            elif chance.random() < 0.5:
                store.gate.set()
            reader.act(chance.random() < 0.8)
            publisher.act(chance.randrange(4))
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
        store.gate.set()

        def is_done() -> bool:
            reader.act(True)
            publisher.act(4)
            return publisher.is_done and len(reader.got) >= 150

        for each in (reader, publisher):
            each.come()
        await until(is_done, lambda: f"{len(publisher.left)} left, {publisher.flight}, {len(reader.got)} got")
        stored = [
            message.body
            for queue in await store.messages.bounds("t")
            for message in await store.messages.read("t", queue.queue_id, 0, 1000)
        ]
        assert sorted(stored, key=int) == [str(number).encode() for number in range(150)]
        assert sorted(reader.got, key=int) == sorted(stored, key=int)
