"""Messages in flight to one client, as operators see them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import islice
from typing import Final

from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.outbox import NOT_IN_A_QUEUE
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.connections.told_words import Stage
from entrepot.gateway.mqtt.sessions.record import OutgoingRecord

MAX_LISTED: Final = 50
"""Described messages of one client."""
READ_SECONDS: Final = 0.7
"""Longest wait for the store's answers, in seconds; without them, names and times are not known."""


@dataclass(slots=True)
class InFlight:
    """One message.  Without a queue its place is not known: its session ends with the connection."""

    packet_id: int
    qos: int
    stage: Stage
    topic: str = ""
    queue_id: int | None = None
    queue_offset: int = 0
    name: str = ""
    is_retained: bool = False
    stored_ms: int = 0


async def in_flight_of(client: MqttClient, services: MqttServices) -> list[InFlight]:
    """The first MAX_LISTED messages in flight, in order of sending."""
    window = client.machine.window
    listed: list[InFlight] = []
    for packet_id, held in islice(window.held.items(), MAX_LISTED):
        is_released = packet_id in window.released
        qos = 2 if is_released or packet_id in window.unreceived else 1
        listed.append(InFlight(packet_id, qos, Stage.RELEASED if is_released else Stage.PUBLISHED))
        _place(listed[-1], held)
    unnamed = [each for each in listed if each.queue_id is not None and not each.name]
    try:
        async with asyncio.timeout(READ_SECONDS):
            await asyncio.gather(*(_read(each, services) for each in unnamed))
    except TimeoutError:
        pass
    return listed


def _place(shown: InFlight, held: object) -> None:
    if isinstance(held, Ticket):
        shown.topic = held.consumer.topic
        _describe(shown, held.message)
    elif isinstance(held, OutgoingRecord):
        shown.topic = held.topic
        if held.queue_id == NOT_IN_A_QUEUE:
            shown.name, shown.is_retained = held.topic, True
        else:
            shown.queue_id, shown.queue_offset = held.queue_id, held.queue_offset


def _describe(shown: InFlight, message: StoredMessage) -> None:
    shown.queue_id, shown.queue_offset = message.queue_id, message.queue_offset
    shown.name, shown.stored_ms = message.sub_topic, message.store_time_ms


async def _read(shown: InFlight, services: MqttServices) -> None:
    assert shown.queue_id is not None
    try:
        found = await services.store.messages.read(shown.topic, shown.queue_id, shown.queue_offset, 1)
    except EntrepotError:
        return  # it is gone, or its broker is away: its place is shown all the same
    if found:
        _describe(shown, found[0])
