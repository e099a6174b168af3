"""A small fleet with planted faults, and what the tables must say of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import orjson

START_MS = 1_790_000_000_000


@dataclass
class Fleet:
    """Devices that send a reading each second, in rounds.  What is planted is counted as it is made."""

    devices: int
    seed: int
    sequence: int = 0
    good: set[tuple[str, int]] = field(default_factory=set)
    dead: int = 0
    duplicates: int = 0
    late: set[tuple[str, int]] = field(default_factory=set)
    lost: set[tuple[str, int]] = field(default_factory=set)
    values: dict[tuple[str, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def rounds(self, count: int, *, bad: float = 0.02, twice: float = 0.02, lost: float = 0.02) -> list[bytes]:
        """The messages of so many seconds of all devices, each device's in its order."""
        found: list[bytes] = []
        for _ in range(count):
            for number in range(self.devices):
                found += self._one(f"d{number:03d}", bad, twice, lost)
            self.sequence += 1
        return found

    def _one(self, device: str, bad: float, twice: float, lost: float) -> list[bytes]:
        key = (device, self.sequence)
        chance = self._random.random()
        if chance < lost:
            self.lost.add(key)
            return []
        if chance < lost + bad:
            self.lost.add(key)  # nobody can read its number
            self.dead += 1
            return [b'{"device": "' + device.encode() + b'", "seq": ' + self._random.choice([b"", b"[", b'"x}'])]
        body = self.body(device, self.sequence)
        self.good.add(key)
        if chance < lost + bad + twice:
            self.duplicates += 1
            return [body, body]
        return [body]

    def body(self, device: str, sequence: int) -> bytes:
        value = self.values.setdefault((device, sequence), round(20 + self._random.random() * 5, 3))
        reading = {"device": device, "seq": sequence, "ts": START_MS + sequence * 1000, "temperature": value}
        return orjson.dumps(reading | {"position": {"lat": 1.5, "lon": 2.5}})

    def late_ones(self, count: int, older_than: int) -> list[bytes]:
        """Readings that were lost so many seconds ago or longer, and come after all."""
        readable = sorted(key for key in self.lost if key[1] < self.sequence - 1 - older_than)
        chosen = self._random.sample(readable, min(count, len(readable)))
        self.late |= set(chosen)
        return [self.body(device, sequence) for device, sequence in chosen]
