"""Dead letters as RabbitMQ writes them: the header `x-death` and its neighbours.  `x-death` has one entry for each
queue and reason, the latest first: count, last time, and the message's exchange and keys."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.field_table import FieldTable, Long, Timestamp, encode_table
from entrepot.protocols.amqp.value_space import PROPERTIES

X_DEATH: Final = "x-death"
MAX_COUNT: Final = 1 << 62
"""Largest count that is taken over from a header: a publisher may have written it."""


class DeathReason(StrEnum):
    """Reasons for dead-lettering."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"


def dead_header(
    header: ContentHeader, *, queue: str, reason: DeathReason, exchange: str, keys: list[str], now_seconds: int
) -> ContentHeader:
    """Return the properties of a dead letter.  `exchange`, `keys`: its way into the queue it leaves.

    They fit a frame: the oldest entries of `x-death` give way first, then everything that is added here.
    """
    headers: FieldTable = dict(header.headers or {})
    deaths = deaths_of(headers)
    entry = next((each for each in deaths if each.get("queue") == queue and each.get("reason") == reason), None)
    if entry is not None:
        deaths.remove(entry)
        entry = {**entry, "count": Long(entry.get("count", 0) + 1), "time": Timestamp(now_seconds)}
    else:
        entry = {
            "count": Long(1),
            "reason": reason.value,
            "queue": queue,
            "time": Timestamp(now_seconds),
            "exchange": exchange,
            "routing-keys": list(keys),
        }
        if header.expiration is not None:
            entry["original-expiration"] = header.expiration
    headers[X_DEATH] = kept = [entry, *deaths]
    headers.setdefault("x-first-death-exchange", exchange)
    headers.setdefault("x-first-death-queue", queue)
    headers.setdefault("x-first-death-reason", reason.value)
    headers["x-last-death-exchange"] = exchange
    headers["x-last-death-queue"] = queue
    headers["x-last-death-reason"] = reason.value
    dead = header.replaced(headers=headers, expiration=None)
    excess = len(dead.data) - PROPERTIES.max_bytes
    if excess <= 0:
        return dead
    while len(kept) > 1 and excess > 0:
        excess -= len(encode_table(kept.pop())) + 1
    dead = header.replaced(headers=headers, expiration=None)
    return dead if len(dead.data) <= PROPERTIES.max_bytes else header.replaced(expiration=None)


def deaths_of(headers: FieldTable) -> list[dict[str, Any]]:
    """Return the entries of `x-death`, with counts that are longs; invalid ones are skipped."""
    found = headers.get(X_DEATH)
    if not isinstance(found, list):
        return []
    return [{**each, "count": _count_of(each)} for each in found if isinstance(each, dict)]


def _count_of(entry: FieldTable) -> Long:
    count = entry.get("count")
    return Long(min(max(count, 0), MAX_COUNT) if isinstance(count, int) else 0)


def goes_round(header: ContentHeader, queue: str) -> bool:
    """True if a dead letter would return to a queue where it died, without a rejection since.  Such a message would
    cycle for ever, and is dropped."""
    for each in deaths_of(header.headers or {}):
        if each.get("reason") == DeathReason.REJECTED:
            return False
        if each.get("queue") == queue:
            return True
    return False
