"""Ingested: the tables that Spark jobs wrote a message to, as they told the store."""

from __future__ import annotations

from typing import Final

from entrepot.domain.journey.facts import Ingested
from entrepot.domain.journey.ingest_record import PREFIX, decode_record
from entrepot.domain.message import Place
from entrepot.domain.ports import Store

MAX_JOBS: Final = 200
"""Jobs whose records are read."""


async def ingested_at(store: Store, place: Place) -> list[Ingested]:
    """Return the batches of all jobs that had the message of a place, the oldest first."""
    found: list[Ingested] = []
    for kept in await store.key_values.scan(PREFIX, limit=MAX_JOBS):
        try:
            found += decode_record(kept.value).at(place)
        except ValueError:
            continue  # written by another version
    return sorted(found, key=lambda each: each.time_ms)
