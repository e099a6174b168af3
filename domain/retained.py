"""Retained messages: the last message of a topic name, kept for later subscribers (MQTT 5.0 section 3.3.1.3).  Each
lives in a key-value.  The key is `retained/<topic name>` if possible.  Names that cannot be a key (longer, or not
printable) get one of their hash, after a `#`, which no topic name contains; the value has the name."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from entrepot.domain.key_value import MAX_KEY_BYTES, MAX_VALUE_BYTES
from entrepot.domain.message import Message, StoredMessage, SystemProperty

RETAINED_PREFIX: Final = "retained/"
_HASHED: Final = RETAINED_PREFIX + "#"

MAX_RETAINED_BYTES: Final = MAX_VALUE_BYTES - 1024
"""Largest retained message with its properties: the limit of a value, less the id and time that the store adds."""

NEVER: Final = 0
"""Expiry of a message without one."""


@dataclass(frozen=True, slots=True)
class RetainedLimits:
    """Limits: number of messages, their total bytes, and the bytes of one (with name and properties).  Concurrent
    publishes, also at several gateways, may exceed the first two by their own number."""

    max_messages: int = 1_000_000
    max_bytes: int = 1 << 30
    max_message_bytes: int = MAX_RETAINED_BYTES


@dataclass(slots=True)
class RetainedMessage(StoredMessage):
    """A message retained for its name (`sub_topic`).  It is in no queue: its offsets are 0.  `version`: that of its
    key-value."""

    version: int = 0


def retained_key(name: str) -> str:
    """Return the key of a topic name."""
    if name.isprintable() and len(name.encode()) <= MAX_KEY_BYTES - len(RETAINED_PREFIX):
        return RETAINED_PREFIX + name
    return _HASHED + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def name_in_key(key: str) -> str | None:
    """Return the topic name in a key, or None for a key made of a hash."""
    return None if key.startswith(_HASHED) else key.removeprefix(RETAINED_PREFIX)


def expiry_of(message: Message) -> int:
    """Return the message's expiry in epoch milliseconds, or NEVER."""
    expires_at_ms = message.time_ms(SystemProperty.EXPIRES_AT_MS)
    return NEVER if expires_at_ms is None else max(expires_at_ms, 1)


def is_over(expires_at_ms: int, now_ms: int) -> bool:
    """True if an expiry has passed."""
    return expires_at_ms != NEVER and expires_at_ms <= now_ms
