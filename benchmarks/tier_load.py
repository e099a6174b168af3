"""Load of the tier's benchmark: messages of devices, and a broker with many small topics."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from typing import Final

from entrepot.broker.tiered.source import Begun, Progress, QueueState, TopicState
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import StoredMessage
from tests.support.tiered.rows import record_of, run_of

RUN_BYTES: Final = 4 << 20
DEVICES: Final = 200
SEED: Final = 7
BORN_MS: Final = 1_760_000_000_000
PROPERTIES: Final = (("unit", "celsius"), ("site", "north"))


def telemetry(count: int) -> list[StoredMessage]:
    """Readings of devices, in turn, as JSON."""
    chance = random.Random(SEED)
    return [_reading(number, chance) for number in range(count)]


def _reading(number: int, chance: random.Random) -> StoredMessage:
    device = number % DEVICES
    reading = {
        "device": f"dev-{device:04}",
        "celsius": round(20 + 5 * chance.random(), 2),
        "humidity": chance.randrange(40, 60),
        "seq": number,
        "status": "ok" if chance.random() < 0.99 else "worn",
        "firmware": "2.4.1-stable",
        "volts": round(3 + chance.random(), 3),
    }
    name = f"bench/line{device % 10}/dev{device}"
    born = BORN_MS + number
    return StoredMessage(
        "bench",
        json.dumps(reading, separators=(",", ":")).encode(),
        sub_topic=name,
        queue_id=0,
        tag="worn" if reading["status"] == "worn" else "ok",
        message_id=born.to_bytes(6, "big") + b"gatewa" + number.to_bytes(4, "big"),
        born_time_ms=born,
        filter_hash=filter_hash(name, "worn" if reading["status"] == "worn" else "ok"),
        properties=PROPERTIES,
        system={"content_type": "application/json", "protocol": "mqtt"},
        queue_offset=number,
        commit_log_offset=320 * number,
        store_time_ms=born + 1,
    )


def counted(calls: Iterable[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(Counter(calls).items()))


class SmallTopics:
    """A broker with topics of which each gets the same message. Implements `broker.tiered.source.Source`."""

    def __init__(self, count: int) -> None:
        self._names = [f"small{number}" for number in range(count)]
        self._messages: list[StoredMessage] = []
        self._ends = dict.fromkeys(self._names, 0)
        self.behind = 0
        """Largest lag of a topic, in messages."""

    def publish(self, now_ms: int) -> None:
        """Publish one more message in each of them."""
        message = telemetry(1)[0]
        message.queue_offset, message.store_time_ms = len(self._messages), now_ms
        self._messages.append(message)
        self.behind = max(self.behind, len(self._messages) - min(self._ends.values()))

    def states(self) -> list[TopicState]:
        queues = [QueueState(0, 0, len(self._messages), 320)]
        return [TopicState(name, f"{name}/store-0", 10**12, queues) for name in self._names]

    def records(self, topic: str, queue_id: int, first: int, end: int, max_bytes: int) -> bytes:
        payload = run_of([(message, record_of(message)) for message in self._messages[first:end]])
        return payload[:4] + end.to_bytes(8, "big") + payload[12:]

    def heal(self, commit_log_offset: int) -> bool | None:
        return None

    def begins(self, begun: Begun) -> None:
        pass

    def told(self, progress: Progress) -> None:
        self._ends[progress.topic] = progress.ends.get(0, 0)
