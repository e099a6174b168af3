"""Shards: the numbers by which the queues, places and versions of several brokers are told apart.

Every broker has a number of its own.  What it calls queue 3 is queue `number * 10,000 + 3` to the world, so broker 0
alone has the plain numbers: the ids of a store in this process.  Places in the log and versions of key-values get the
broker's number in the same way.  The numbers are made in one place, the store's client; a broker knows only its own.
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
    """The number of a broker that is given none: what its name ends with (`broker-2` is 2), else a hash of the name.

    Two names may come to one number; name servers take only the first of them.
    """
    digits = name[len(name.rstrip("0123456789")) :]
    if digits and len(digits.lstrip("0")) <= len(str(MAX_BROKER_NUMBER)):
        return int(digits)
    return FIRST_HASHED_NUMBER + crc32(name.encode()) % (MAX_BROKER_NUMBER + 1 - FIRST_HASHED_NUMBER)


def first_queue(number: int) -> int:
    """The world's id of a broker's queue 0."""
    return number * QUEUES_PER_BROKER


def broker_of_queue(queue_id: int) -> int:
    """The number of the broker that has a queue."""
    return queue_id // QUEUES_PER_BROKER


def local_queue(queue_id: int) -> int:
    """What the broker that has a queue calls it."""
    return queue_id % QUEUES_PER_BROKER


def first_place(number: int) -> int:
    """The world's number of the beginning of a broker's log."""
    return number * PLACES_PER_BROKER


def broker_of_place(place: int) -> int:
    """The number of the broker that has a place in its log, or wrote a version of a key-value."""
    return place // PLACES_PER_BROKER


def local_place(place: int) -> int:
    """What that broker calls it."""
    return place % PLACES_PER_BROKER
