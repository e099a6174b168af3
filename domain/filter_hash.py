"""The 64-bit filter hash of a consume-queue entry: 48 bits of the sub-topic's hash, 16 of the tag's; 0 = none.  A hit
is always confirmed on the record, so a collision costs time and never correctness.  The hash is stored, hence fixed for
ever: BLAKE2b, first bytes, big-endian, with 0 (which means "none") mapped to 1."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

TAG_BITS = 16
TAG_MASK = (1 << TAG_BITS) - 1
REMEMBERED_NAMES = 16_384
"""Size of the cache of hashes: names recur."""


@lru_cache(maxsize=REMEMBERED_NAMES)
def sub_topic_hash(sub_topic: str) -> int:
    """Return the 48-bit hash of a full sub-topic name, shifted above the tag's bits; 0 for the empty name."""
    if not sub_topic:
        return 0
    digest = blake2b(sub_topic.encode(), digest_size=6).digest()
    return (int.from_bytes(digest, "big") or 1) << TAG_BITS


def tag_hash(tag: str) -> int:
    """Return the 16-bit hash of a tag; 0 for no tag."""
    if not tag:
        return 0
    return int.from_bytes(blake2b(tag.encode(), digest_size=2).digest(), "big") or 1


def filter_hash(sub_topic: str, tag: str = "") -> int:
    """Return the entry's whole filter hash."""
    return sub_topic_hash(sub_topic) | tag_hash(tag)
