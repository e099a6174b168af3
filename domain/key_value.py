"""Key-values of the store: small durable facts with versions, which make gateways stateless.  They hold sessions,
retained messages, exchanges, bindings, subscriptions, users and policies.  Keys are paths (`session/<client id>`); the
owners of a kind of fact share a prefix and watch it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from entrepot.domain.broker_of_queue import broker_of_place
from entrepot.domain.errors import Code, EntrepotError

MAX_KEY_BYTES: Final = 1024
MAX_VALUE_BYTES: Final = 1 << 20
MAX_CHANGES: Final = 10_000
MAX_WRITE_BYTES: Final = 8 << 20
MAX_SCAN: Final = 10_000
"""Limits: bytes of a key and of a value, changes of one write and bytes of their values, and keys of one scan."""

ABSENT: Final = 0
"""Version of a missing key."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A value with its version.  Versions grow with every write of the store, and never recur for a key."""

    key: str
    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class KeyValueChange:
    """A change of a key: write (`value`) or delete (None).  `expected_version` is a condition: None = any version,
    `ABSENT` = the key must be missing."""

    key: str
    value: bytes | None
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class KeyValueEvent:
    """An event for a watcher: the key, its new value (None: deleted), and the version of the write."""

    key: str
    value: bytes | None
    version: int


OnEvents = Callable[[list[KeyValueEvent]], None]


def check_changes(changes: Sequence[KeyValueChange]) -> None:
    """Raise BAD_REQUEST for a write beyond the limits, or one that names a key twice."""
    if len(changes) > MAX_CHANGES:
        raise EntrepotError(Code.BAD_REQUEST, f"{len(changes)} changes in one write, the limit is {MAX_CHANGES}")
    if sum(len(change.value or b"") for change in changes) > MAX_WRITE_BYTES:
        raise EntrepotError(Code.BAD_REQUEST, f"the values of one write have more than {MAX_WRITE_BYTES} bytes")
    seen: set[str] = set()
    for change in changes:
        size = len(change.key.encode("utf-8", "surrogatepass"))
        if not change.key or size > MAX_KEY_BYTES or not change.key.isprintable():
            raise EntrepotError(Code.BAD_REQUEST, f"a key is 1 to {MAX_KEY_BYTES} bytes of printable text")
        if change.value is not None and len(change.value) > MAX_VALUE_BYTES:
            raise EntrepotError(
                Code.BAD_REQUEST,
                f"the value of {change.key!r} has {len(change.value)} bytes, not up to {MAX_VALUE_BYTES}",
            )
        if change.key in seen:
            raise EntrepotError(Code.BAD_REQUEST, f"one write changes {change.key!r} twice")
        seen.add(change.key)


def is_older(version: int, other: int) -> bool:
    """True if a version is known to precede another; versions of two keepers cannot be compared."""
    return version < other and broker_of_place(version) == broker_of_place(other)


def is_news(version: int, known: int) -> bool:
    """True if a version is new to a view that knows the key at `known`.  A deletion found by a read has the version
    `ABSENT`, which is older than none."""
    return version != known and (version == ABSENT or not is_older(version, known))


def keys_in_order(irange: Callable[..., Iterator[str]], prefix: str, after: str) -> Iterator[str]:
    """The keys with a prefix after `after`, in order. `irange`: that of the sorted keys (sortedcontainers); the cost
    does not grow with the others."""
    keys = irange(max(after, prefix), inclusive=(after < prefix, True))
    return takewhile(lambda key: key.startswith(prefix), keys)


def conflict(key: str, expected: int, found: int) -> EntrepotError:
    """Return the refusal of a write whose expectation does not hold."""
    have = "is not there" if found == ABSENT else f"has version {found}"
    want = "to be absent" if expected == ABSENT else f"version {expected}"
    return EntrepotError(Code.PRECONDITION_FAILED, f"{key!r} {have}, the write expects {want}")
