"""Load of the tier's large table: devices that report every few seconds, as rows of uploads.

Rows are columns from the start, as millions of them are made; those of the first upload are compared with a broker's.
"""

from __future__ import annotations

import random
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entrepot.broker.tiered.columns import to_messages
from entrepot.broker.tiered.cutting import DAY_MS
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import StoredMessage
from entrepot.protocols.wire.arrow_columns import TIMESTAMP
from tests.support.tiered.rows import rows_of

TOPIC: Final = "plant"
DEVICES: Final = 500
QUEUES: Final = 8
PERIOD_MS: Final = 10_000
JITTER_MS, LATENCY_MS = 300, 200
"""Most milliseconds that a device is late, and that its message is under way."""
UPLOAD_MS: Final = 120_000
FIRST_DAY: Final = 20_000
SHIFT_MS: Final = 6 * 3_600_000
"""Start of the devices' shift in a day, in milliseconds."""
RECORD_BYTES: Final = 450


def name_of(device: int) -> str:
    """Return the sub-topic of a device."""
    return f"{TOPIC}/line{device % 10}/dev{device:03}"


def shift_of(day: int) -> int:
    """Return the start of a day's shift, epoch milliseconds. `day`: 0 is the first one."""
    return (FIRST_DAY + day) * DAY_MS + SHIFT_MS


class Devices:
    """Devices that report in turn, each in the queue of its sub-topic. `seed`: of their times and readings."""

    def __init__(self, seed: int) -> None:
        self._chance = np.random.default_rng(seed)
        self._phases = self._chance.integers(0, PERIOD_MS - JITTER_MS - LATENCY_MS, DEVICES)
        self._queues = np.arange(DEVICES) % QUEUES
        order = np.argsort(self._queues, kind="stable")
        self._templates = rows_of([_template(int(each)) for each in order]).combine_chunks()
        self._template_of = np.argsort(order)
        self.ends = dict.fromkeys(range(QUEUES), 0)
        self._count = 0

    def rows(self, start_ms: int) -> Any:
        """Return the rows of one upload, in order of queue and offset. `start_ms`: store time from which it is."""
        rounds = UPLOAD_MS // PERIOD_MS
        devices = np.repeat(np.arange(DEVICES), rounds)
        due = start_ms + self._phases[devices] + PERIOD_MS * np.tile(np.arange(rounds), DEVICES)
        born = due + self._chance.integers(0, JITTER_MS, len(due))
        stored = born + self._chance.integers(1, LATENCY_MS, len(due))
        numbers = self._count + np.argsort(np.argsort(stored, kind="stable"), kind="stable")
        self._count += len(due)
        order = np.lexsort((numbers, self._queues[devices]))
        devices, born, stored, numbers = devices[order], born[order], stored[order], numbers[order]
        columns = {
            "queue_offset": pa.array(self._offsets(self._queues[devices])),
            "store_time": pa.array(stored * 1000).cast(TIMESTAMP),
            "born_time": pa.array(born * 1000).cast(TIMESTAMP),
            "message_id": pa.array([_id(*each).hex() for each in zip(born.tolist(), numbers.tolist(), strict=True)]),
            "body": pa.array(self._bodies(devices, numbers)),
            "log_offset": pa.array(RECORD_BYTES * numbers),
        }
        rows = self._templates.take(pa.array(self._template_of[devices]))
        for name, column in columns.items():
            rows = rows.set_column(rows.column_names.index(name), name, column)
        return rows

    def _offsets(self, queues: NDArray[np.int64]) -> NDArray[np.int64]:
        parts = []
        for queue_id, count in enumerate(np.bincount(queues, minlength=QUEUES).tolist()):
            parts.append(np.arange(self.ends[queue_id], self.ends[queue_id] + count))
            self.ends[queue_id] += count
        return np.concatenate(parts)

    def _bodies(self, devices: NDArray[np.int64], numbers: NDArray[np.int64]) -> list[bytes]:
        """Return readings as JSON: some walk slowly with the device, some are noise."""
        chance, count = self._chance, len(devices)
        celsius = 20 + devices % 7 + chance.normal(0, 0.5, count)
        axes = chance.normal(0, 1, (3, count))
        columns = (devices, celsius, chance.integers(40, 60, count), numbers, 3 + chance.random(count), *axes)
        parts = zip(*(each.tolist() for each in columns), strict=True)
        return [
            f'{{"device":"dev-{device:03}","celsius":{celsius:.2f},"humidity":{humidity},"seq":{number},'
            f'"status":"ok","firmware":"2.4.1-stable","volts":{volts:.3f},'
            f'"vibration":[{x:.4f},{y:.4f},{z:.4f}]}}'.encode()
            for device, celsius, humidity, number, volts, x, y, z in parts
        ]


def check_rows(rows: Any) -> None:
    """Raise AssertionError unless rows are those that a broker's records of their messages make."""
    assert rows.equals(rows_of(to_messages(rows))), "the rows are not a broker's"


def asked(count: int, days: int, hours: int, seed: int) -> list[tuple[str, int]]:
    """Return sub-topics, and the starts of hours in which to look for them, epoch milliseconds."""
    chance = random.Random(seed)
    return [
        (name_of(chance.randrange(DEVICES)), shift_of(chance.randrange(days)) + 3_600_000 * chance.randrange(hours))
        for _ in range(count)
    ]


def _id(born_ms: int, number: int) -> bytes:
    return born_ms.to_bytes(6, "big") + b"gatewa" + number.to_bytes(4, "big")


def _template(device: int) -> StoredMessage:
    name = name_of(device)
    return StoredMessage(
        TOPIC, b"", name, device % QUEUES, tag="ok", message_id=bytes(16), born_time_ms=1,
        filter_hash=filter_hash(name, "ok"), properties=(("unit", "celsius"), ("site", "north")),
        system={"content_type": "application/json", "protocol": "mqtt"}, store_time_ms=1,
    )  # fmt: skip
