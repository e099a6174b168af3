"""Retained messages: the last message of a topic name that was to be kept for whoever subscribes later (MQTT 5.0
section 3.3.1.3), and the key of the key-value that it lives in.

A key says the name wherever it can: `retained/<topic name>`.  Names that are no key (longer, or not printable) get one
made of their hash, behind a `#`, which no topic name contains; what is kept there says the name itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from domain.key_value import MAX_KEY_BYTES, MAX_VALUE_BYTES
from domain.message import Message, StoredMessage, SystemProperty

RETAINED_PREFIX: Final = "retained/"
_HASHED: Final = RETAINED_PREFIX + "#"

MAX_RETAINED_BYTES: Final = MAX_VALUE_BYTES - 1024
"""The largest message that can be kept, with its properties: what a value takes, without what the message gets on its
way into the store (its id, its time)."""

NEVER: Final = 0
"""The expiry of a message that has none."""


@dataclass(frozen=True, slots=True)
class RetainedLimits:
    """Limits: messages that are kept, their bytes together, and those of one (with its name and its
    properties).  Publishes that are under way at one moment, or at several gateways, may exceed the first two by as
    many as they are."""

    max_messages: int = 1_000_000
    max_bytes: int = 1 << 30
    max_message_bytes: int = MAX_RETAINED_BYTES


@dataclass(slots=True)
class RetainedMessage(StoredMessage):
    """A message as it is kept for its name (`sub_topic`).  It lies in no queue: its offsets are 0.  `version` is that
    of its key-value."""

    version: int = 0


def retained_key(name: str) -> str:
    """The key of a topic name."""
    if name.isprintable() and len(name.encode()) <= MAX_KEY_BYTES - len(RETAINED_PREFIX):
        return RETAINED_PREFIX + name
    return _HASHED + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def name_in_key(key: str) -> str | None:
    """The topic name that a key says, or None for one made of a hash."""
    return None if key.startswith(_HASHED) else key.removeprefix(RETAINED_PREFIX)


def expiry_of(message: Message) -> int:
    """When the message expires, in epoch milliseconds, or NEVER."""
    expires_at_ms = message.time_ms(SystemProperty.EXPIRES_AT_MS)
    return NEVER if expires_at_ms is None else max(expires_at_ms, 1)


def is_over(expires_at_ms: int, now_ms: int) -> bool:
    """Whether an expiry has passed."""
    return expires_at_ms != NEVER and expires_at_ms <= now_ms
