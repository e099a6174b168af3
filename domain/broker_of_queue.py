"""Shards: numbers that tell the queues, log offsets and versions of several brokers apart.

Every broker has a number.  Its queue 3 is queue `number * 10,000 + 3` for clients, so broker 0 has the plain numbers:
the ids of a store in this process.  Offsets in the log and versions of key-values get the broker's number in the same
way.  The store's client alone makes these numbers; a broker knows only its own.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

QUEUES_PER_BROKER: Final = 10_000
MAX_BROKER_NUMBER: Final = 9_999
FIRST_HASHED_NUMBER: Final = 1_000
PLACES_PER_BROKER: Final = 1 << 44
"""Bytes of one broker's log (16 TiB): the numbers stay within 63 bits."""


def broker_number(name: str) -> int:
    """Return the default number of a broker: the digits at its name's end (`broker-2` is 2), else a hash of the name.
    Two names may give one number; name servers accept only the first of them."""
    digits = name[len(name.rstrip("0123456789")) :]
    if digits and len(digits.lstrip("0")) <= len(str(MAX_BROKER_NUMBER)):
        return int(digits)
    return FIRST_HASHED_NUMBER + crc32(name.encode()) % (MAX_BROKER_NUMBER + 1 - FIRST_HASHED_NUMBER)


def first_queue(number: int) -> int:
    """Return the global id of a broker's queue 0."""
    return number * QUEUES_PER_BROKER


def broker_of_queue(queue_id: int) -> int:
    """Return the number of the broker that has a queue."""
    return queue_id // QUEUES_PER_BROKER


def local_queue(queue_id: int) -> int:
    """Return the broker's own id of a queue."""
    return queue_id % QUEUES_PER_BROKER


def first_place(number: int) -> int:
    """Return the global offset of the start of a broker's log."""
    return number * PLACES_PER_BROKER


def broker_of_place(place: int) -> int:
    """Return the number of the broker of a global log offset, or of a key-value's version."""
    return place // PLACES_PER_BROKER


def local_place(place: int) -> int:
    """Return the broker's own log offset."""
    return place % PLACES_PER_BROKER
