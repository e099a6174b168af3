"""A topic filled over the store's wire, and its log by digest: what every table of it must agree with."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.protocols.wire.records import RecordColumns
from entrepot.store_client.blocking import BlockingReader, BlockingStore, StoreLocation, open_store

Row = tuple[str, int, int, bytes]
"""Topic, queue id, queue offset, body."""


class TopicWriter:
    """Appends messages to queues in turn, durable when a call returns.  Raises EntrepotError where one is refused."""

    def __init__(self, address: str, store: BlockingStore | None = None) -> None:
        self.location = StoreLocation(brokers=(address,))
        self.store: BlockingStore = store or open_store(self.location)

    def close(self) -> None:
        self.store.close()

    def create(self, topic: str, queues: int = 4) -> None:
        self.store.put_topic(Topic(topic, queues=queues))

    def append(
        self, topic: str, bodies: Iterable[bytes], *, sub_topic: str = "", queue: int | None = None, **more: Any
    ) -> int:
        """Append bodies; how many.  `more`: fields of every message."""
        queues = self.store.queues(self.store.topic(topic))  # type: ignore[arg-type]
        messages: list[Message] = []
        count = 0
        for body in bodies:
            name = sub_topic or topic
            message = Message(
                topic, body, name, message_id=os.urandom(16), born_time_ms=time.time_ns() // 1_000_000, **more
            )
            message.filter_hash = filter_hash(name, message.tag)
            message.queue_id = queues[count % len(queues)] if queue is None else queue
            messages.append(message)
            count += 1
            if len(messages) == 1000:
                self._send(messages)
                messages = []
        self._send(messages)
        return count

    def _send(self, messages: list[Message]) -> None:
        if messages:
            refusals = [refusal for refusal in self.store.append(messages) if refusal is not None]
            if refusals:
                raise refusals[0]


def log_of(reader: BlockingReader, topics: Sequence[str]) -> list[Row]:
    """Every message of topics as the log has it."""
    found: list[Row] = []
    for topic in topics:
        for bounds in reader.bounds(topic):
            at = bounds.min_offset
            while at < bounds.max_offset:
                run = reader.records(topic, bounds.queue_id, at, bounds.max_offset, 1 << 20)
                columns = RecordColumns(run)
                starts, lengths = columns.spans("body")
                for offset, start, length in zip(columns.queue_offsets, starts, lengths, strict=True):
                    body = bytes(columns.data[int(start) : int(start) + int(length)])
                    found.append((topic, bounds.queue_id, int(offset), body))
                at = run.next_offset
    return found


def digest(rows: Iterable[Row]) -> tuple[int, str]:
    """How many rows, and a digest that does not depend on their order, and does on one that is there twice."""
    count = total = 0
    for topic, queue, offset, body in rows:
        one = hashlib.blake2b(f"{topic}/{queue}/{offset}/".encode() + body, digest_size=16).digest()
        total = (total + int.from_bytes(one)) % (1 << 128)
        count += 1
    return count, f"{total:032x}"


def rows_of(frame: Any) -> list[Row]:
    """A Spark table's rows in the form of the log's."""
    table = frame.select("topic", "queue_id", "queue_offset", "body").toArrow()
    columns = (table.column(name).to_pylist() for name in ("topic", "queue_id", "queue_offset", "body"))
    return list(zip(*columns, strict=True))


def readings(count: int, *, devices: int = 10, start: int = 0, step_ms: int = 1000) -> list[bytes]:
    """JSON of a small fleet: `count` readings, each device's numbered from `start` on."""
    return [
        orjson.dumps(
            {
                "device": f"d{at % devices}",
                "seq": start + at // devices,
                "ts": 1_790_000_000_000 + (start * devices + at) * step_ms // devices,
                "temperature": 20 + (at % 7) * 0.5,
                "position": {"lat": 1.0 + at, "lon": 2.0},
            }
        )
        for at in range(count)
    ]
