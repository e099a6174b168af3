"""Data directories with very much of one thing, written by the store in this process as a gateway would have done."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from benchmarks.store_parts import GROUP, QUEUES, TOPIC, append_all
from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import Message
from entrepot.domain.retained import retained_key
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.gateway.mqtt.sessions.record import (
    SESSION_PREFIX,
    SessionRecord,
    SubscriptionRecord,
    due_key,
    encode_record,
)
from entrepot.gateway.retained.record import encode_retained

AT_ONCE: Final = 500
MESSAGES_AT_ONCE: Final = 20_000
LARGE_BODY: Final = os.urandom(64 << 10)
EXPIRY_SECONDS: Final = 86_400


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[Broker]:
    """The store of a directory, without waits for the disk."""
    broker = await Broker.open(BrokerSettings(data, flush_async=True), SystemClock())
    try:
        yield broker
    finally:
        await broker.close()


def _pieces(count: int, size: int) -> Iterator[range]:
    for start in range(0, count, size):
        yield range(start, min(start + size, count))


async def sessions(data: Path, count: int) -> None:
    """Sessions that are away for a day, each with one subscription."""
    now = int(time.time() * 1000)
    due = now + EXPIRY_SECONDS * 1000
    async with opened(data) as broker:
        for piece in _pieces(count, AT_ONCE):
            changes = []
            for number in piece:
                client = f"away-{number:07}"
                record = SessionRecord(client, 1, "", 4, "", EXPIRY_SECONDS, now, now, due)
                record.subscriptions = [SubscriptionRecord(f"plant/{number % 1000}/state", 1)]
                record.cursors = {"plant": dict.fromkeys(range(4), 0)}
                changes.append(KeyValueChange(SESSION_PREFIX + client, encode_record(record)))
                changes.append(KeyValueChange(due_key(due, client), b""))
            await broker.key_values.write(changes)


async def retained(data: Path, count: int) -> None:
    """Retained messages of 100 bytes, a thousand below each of the names `plant/N`."""
    async with opened(data) as broker:
        for piece in _pieces(count, AT_ONCE):
            changes = []
            for number in piece:
                name = f"plant/{number // 1000}/dev/{number}"
                message = Message("plant", b"x" * 100, name, 0, 1, message_id=os.urandom(16), born_time_ms=1)
                changes.append(KeyValueChange(retained_key(name), encode_retained(message)))
            await broker.key_values.write(changes)


async def messages(data: Path, count: int, body: bytes) -> None:
    """Messages of one topic, and a group that has not begun to read them."""
    async with opened(data) as broker:
        await broker.topology.put_topic(Topic(TOPIC, queues=QUEUES))
        await broker.topology.put_group(ConsumerGroup(GROUP))
        at_once = max(min(MESSAGES_AT_ONCE, (32 << 20) // len(body)), 1)
        for piece in _pieces(count, at_once):
            await append_all(broker, [_message(number, body) for number in piece])


def _message(number: int, body: bytes) -> Message:
    name = f"{TOPIC}/{number % 10}"
    identifier = number.to_bytes(16, "big")
    now = int(time.time() * 1000)
    hashed = filter_hash(name, "")
    return Message(TOPIC, body, name, number % QUEUES, 1, message_id=identifier, born_time_ms=now, filter_hash=hashed)
