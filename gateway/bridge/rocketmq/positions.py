"""Positions: how far each topic of a cluster has been carried in, in key-values.

A position is the next offset of each queue of a topic, with the time at which the cluster stored the message before it:
by that a queue is found again that begins anew.  It moves only once the store has confirmed what is before it,
and is kept a moment later: what was stored since comes twice after a kill.  Every write is a compare-and-set, so a
gateway that has lost its lease moves nothing back.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.gateway.bridge.errors import LeaseLostError
from entrepot.gateway.key_values.compare_and_set import if_unchanged

PREFIX: Final = "rocketmq-bridge/"
KEEP_SECONDS: Final = 0.1
"""Time after which a moved position is kept."""


class _Kept(msgspec.Struct, frozen=True):
    """The key-value: the next offset by queue id, and the time of the message before it (epoch milliseconds)."""

    queues: dict[int, tuple[int, int]]


class TopicPosition:
    """The position of one topic.  `queues`: next offset by queue id, and when the message before it was stored there
    (epoch milliseconds; 0: not known)."""

    def __init__(self, key_values: KeyValues, key: str, kept: bytes | None, version: int) -> None:
        self._key_values, self._key = key_values, key
        self._version: int | None = version
        self.queues = {} if kept is None else msgspec.json.decode(kept, type=_Kept).queues
        self._is_kept = True

    def move(self, queue_id: int, offset: int, stored_ms: int) -> None:
        """Note that everything before an offset is stored."""
        if self.queues.get(queue_id) != (offset, stored_ms):
            self.queues[queue_id], self._is_kept = (offset, stored_ms), False

    async def keep(self) -> None:
        """Write the position, if it has moved.  Raises LeaseLostError where another gateway wrote it, and the store's
        refusal: the next call tries again."""
        if self._is_kept:
            return
        if self._version is None:  # the outcome of the last write is unknown, and nobody else writes
            [found] = await self._key_values.get([self._key])
            self._version = ABSENT if found is None else found.version
        version, self._version = self._version, None
        value = msgspec.json.encode(_Kept(dict(self.queues)))
        self._is_kept = True
        try:
            self._version = await self._key_values.write([KeyValueChange(self._key, value, version)])
        except EntrepotError as refusal:
            self._is_kept = False
            if refusal.code is Code.PRECONDITION_FAILED:
                raise LeaseLostError("another gateway has moved the position of a topic") from None
            raise


class Positions:
    """The positions of one bridge, of all topics that come in."""

    def __init__(self, key_values: KeyValues, bridge: str) -> None:
        self._key_values, self._prefix = key_values, f"{PREFIX}{bridge}/"
        self._reading: dict[str, asyncio.Task[TopicPosition]] = {}

    async def of(self, topic: str) -> TopicPosition:
        """Return the position of a topic: one object, whoever asks.  Raises the store's refusal."""
        reading = self._reading.get(topic)
        if reading is None:
            reading = self._reading[topic] = asyncio.ensure_future(self._read(f"{self._prefix}at/{topic}"))
        try:
            return await asyncio.shield(reading)
        except EntrepotError:
            self._reading.pop(topic, None)
            raise

    async def _read(self, key: str) -> TopicPosition:
        [found] = await self._key_values.get([key])
        if found is None:
            return TopicPosition(self._key_values, key, None, ABSENT)
        return TopicPosition(self._key_values, key, found.value, found.version)

    async def begun_ms(self, now_ms: int) -> int:
        """Return when the bridge was first run, in epoch milliseconds: the same for every gateway."""
        key = f"{self._prefix}begun"
        [kept] = await self._key_values.get([key])
        if kept is None:
            await if_unchanged(self._key_values.write([KeyValueChange(key, str(now_ms).encode(), ABSENT)]))
            [kept] = await self._key_values.get([key])
        return now_ms if kept is None else int(kept.value)

    async def keep(self) -> None:
        """Keep all positions that have moved."""
        for reading in list(self._reading.values()):
            if reading.done() and not reading.cancelled() and reading.exception() is None:
                await reading.result().keep()
