"""Verifying across replicas: their logs compared block by block, as far as all of them have confirmed them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from entrepot.broker.inspect.log_files import LogFiles
from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.broker.replication.log_source import BLOCK_BYTES, checksums
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire import operations as wire

STEP_BYTES: Final = 8 << 20
CONNECT_SECONDS: Final = 5.0
ASK_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Difference:
    """A block of the log that is not the same everywhere. `places`: the replicas in the minority."""

    start: int
    end: int
    places: tuple[str, ...]


@dataclass(slots=True)
class Comparison:
    """A result. `start`, `end`: of the compared part. `places`: addresses of replicas, and the data directory."""

    start: int
    end: int
    places: tuple[str, ...]
    differences: list[Difference] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        found = [{"from": d.start, "to": d.end, "places": list(d.places)} for d in self.differences]
        return {"from": self.start, "to": self.end, "places": list(self.places), "differences": found}


Ask = Callable[[int, int], Any]
"""A source of checksums of the blocks between two offsets."""


async def compare(
    addresses: Sequence[str], settings: LinkSettings, data_dir: str = "", store_id: str = "", end: int = 0
) -> Comparison:
    """Compare the logs of running replicas with that of a directory that nobody has open: `store_id` and `end` are its
    store's, and its log's.

    Raises UNAVAILABLE where a replica does not answer, BAD_REQUEST where they are not of one group.
    """
    links = [Link(address, settings) for address in addresses]
    try:
        for link in links:
            link.start()
        for link in links:
            if not await link.wait_tried(CONNECT_SECONDS):
                raise EntrepotError(Code.UNAVAILABLE, f"{link.address} does not answer: {link.problem}")
        return await _compare(links, data_dir, store_id, end)
    finally:
        await asyncio.gather(*(link.close() for link in links))


async def _compare(links: list[Link], data_dir: str, store_id: str, own_end: int) -> Comparison:
    told: list[wire.ReplicaStatus] = [await link.ask(wire.REPLICA_STATUS, seconds=ASK_SECONDS) for link in links]
    groups = {each.group for each in told} | ({store_id} if data_dir else set())
    if len(groups) > 1:
        raise EntrepotError(Code.BAD_REQUEST, f"they are not of one group: {', '.join(sorted(groups))}")
    size = max(each.segment_size for each in told)
    begins, ends = [each.begin for each in told], [each.confirmed for each in told]
    sources: dict[str, Ask] = {link.address: _asked(link) for link in links}
    if data_dir:
        files = LogFiles(data_dir)
        begins.append(files.start)
        ends.append(own_end)
        sources[data_dir] = _read(files)
    found = Comparison(max(begins), max(min(ends), max(begins)), tuple(sources))
    at = found.start
    while at < found.end:
        end = min(at - at % STEP_BYTES + STEP_BYTES, at - at % size + size, found.end)
        sums = await asyncio.gather(*(ask(at, end) for ask in sources.values()))
        found.differences += _differences(at, end, tuple(sources), sums)
        at = end
    return found


def _differences(start: int, end: int, places: tuple[str, ...], sums: Sequence[list[int]]) -> list[Difference]:
    found: list[Difference] = []
    for number in range(max(map(len, sums), default=0)):
        block = start - start % BLOCK_BYTES + number * BLOCK_BYTES
        values = [each[number] if number < len(each) else None for each in sums]
        if len(set(values)) > 1:
            usual = max(values, key=values.count)
            odd = tuple(place for place, value in zip(places, values, strict=True) if value != usual)
            found.append(Difference(max(block, start), min(block + BLOCK_BYTES, end), odd))
    return found


def _asked(link: Link) -> Ask:
    return lambda start, end: link.ask(wire.LOG_CHECKSUMS, start, end, seconds=ASK_SECONDS)


def _read(files: LogFiles) -> Ask:
    async def read(start: int, end: int) -> list[int]:
        for segment in files.segments:
            if segment.start <= start < segment.end:
                return await asyncio.to_thread(checksums, segment.path, segment.start, start, end)
        return []

    return read
