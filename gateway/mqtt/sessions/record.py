"""The records of sessions in the key-values.

| key                                   | value                                                            |
|---------------------------------------|------------------------------------------------------------------|
| `session/<client>`                    | `SessionRecord`: owner, subscriptions, cursors, will             |
| `session-cursors/<client>/<number>`   | a part of its cursors, where there are many (`cursors.py`)       |
| `session-window/<client>`             | `WindowRecord`: messages in flight, and cursors moved since      |
| `session-due/<time>/<client>`         | empty: time for the sweeper to look at a disconnected session    |
| `session-will/<time>/<client>`        | a will that is being published; after that time it is overdue    |
| `session-held/<gateway>/<client>`     | empty: that gateway has the session's connection; with an empty  |
|                                       | `<client>`: it keeps these keys                                  |
| `session-taken/<gateway>/<client>`    | empty: told to the gateway that had the client before            |
| `session-kick/<gateway>/<client>`     | told to that gateway: `kick` the client, or `end` its session too |

`<client>` is the client id, escaped to the characters of a key. Values are msgpack arrays; a field is only ever added
at the end, with a default.

Nothing is written for messages that wait: a session is its cursors (one per message queue) and the bounded window.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

import msgspec

from entrepot.domain.escaped_names import Escaping

SESSION_PREFIX: Final = "session/"
CURSORS_PREFIX: Final = "session-cursors/"
WINDOW_PREFIX: Final = "session-window/"
DUE_PREFIX: Final = "session-due/"
WILL_PREFIX: Final = "session-will/"
HELD_PREFIX: Final = "session-held/"
TAKEN_PREFIX: Final = "session-taken/"
KICK_PREFIX: Final = "session-kick/"

MAX_NAME: Final = 600
"""Longest escaped client id in a key; a longer one is hashed."""
_NAMES: Final = Escaping(" !$&'()*+,-.:;<=>?@[]^_`{|}~")
_is_usual: Final = re.compile(r"[A-Za-z0-9_.:@-]{0,200}").fullmatch
"""Pattern of client ids that need no escaping, as nearly all."""
NEVER_EXPIRES: Final = 0xFFFF_FFFF
"""Session expiry interval of a session that does not end by itself (3.1.2.11.2)."""

Cursors = dict[str, dict[int, int]]
"""Offset of the first message not read, by topic and queue. A negative value is a time in epoch milliseconds, negated,
where the offset was not known."""
Made = dict[str, dict[int, int]]
"""Number of the topic that a cursor stands in, by name and broker (`Topology.made_at`); one not known is left out."""


class SubscriptionRecord(msgspec.Struct, array_like=True, frozen=True):
    """One subscription: its filter as the client wrote it, and its options."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int = 0


class WillRecord(msgspec.Struct, array_like=True, frozen=True):
    """The will as its later PUBLISH; `properties` are those of MQTT by identifier."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: dict[int, object]
    delay_seconds: int = 0


class SessionRecord(msgspec.Struct, array_like=True):
    """The part that changes with the connection and its subscriptions.

    `owner`: the gateway of the connection, or empty. `epoch` grows with every connection. `expires_at_ms` and
    `will_at_ms` are set while disconnected; 0 is none. `user`: the session's user. `made`: the topics that the cursors
    stand in. `parts`: where it is not 0, the cursors are in so many parts of their own.
    """

    client_id: str
    epoch: int
    owner: str
    version: int
    user: str
    expiry_seconds: int
    connected_at_ms: int
    disconnected_at_ms: int = 0
    expires_at_ms: int = 0
    will_at_ms: int = 0
    will: WillRecord | None = None
    subscriptions: list[SubscriptionRecord] = []
    cursors: Cursors = {}
    replays: dict[str, Cursors] = {}
    source: str = ""
    clean_start: bool = False
    made: Made = {}
    parts: int = 0

    @property
    def due_at_ms(self) -> int:
        """Time of the sweeper's next look; 0 for never."""
        return min((at for at in (self.expires_at_ms, self.will_at_ms) if at), default=0)


SENT, RELEASED = 0, 1
"""States of a message in flight: PUBLISH was sent; PUBREC came (of QoS 2)."""


class OutgoingRecord(msgspec.Struct, array_like=True, frozen=True):
    """A message in flight to the client: its place in the store, and its grant. `is_shared`: it is of a shared
    subscription, and no other client may have it."""

    packet_id: int
    topic: str
    queue_id: int
    queue_offset: int
    qos: int
    state: int = SENT
    retain: bool = False
    identifiers: tuple[int, ...] = ()
    is_shared: bool = False


class WindowRecord(msgspec.Struct, array_like=True):
    """The part that changes with the messages in flight.

    `outgoing` is in order of sending. `incoming`: packet identifiers of QoS 2 that wait for PUBREL, each with the id of
    its message. `moved`: cursors of queues read further since the session's record was written; `made`: their topics.
    """

    epoch: int
    next_id: int = 0
    outgoing: list[OutgoingRecord] = []
    incoming: dict[int, bytes] = {}
    moved: Cursors = {}
    moved_replays: dict[str, Cursors] = {}
    made: Made = {}


_encoder: Final = msgspec.msgpack.Encoder()
_session_decoder: Final = msgspec.msgpack.Decoder(SessionRecord)
_window_decoder: Final = msgspec.msgpack.Decoder(WindowRecord)


def encode_record(record: SessionRecord | WindowRecord) -> bytes:
    return _encoder.encode(record)


def decode_session(value: bytes) -> SessionRecord:
    """Decode a session. Raises msgspec.DecodeError."""
    return _session_decoder.decode(value)


def decode_window(value: bytes) -> WindowRecord:
    """Decode a window. Raises msgspec.DecodeError."""
    return _window_decoder.decode(value)


def client_name(client_id: str) -> str:
    """The client id as a part of keys: escaped, or hashed where that would be too long."""
    if _is_usual(client_id):
        return client_id
    name = _NAMES.name(client_id)
    return name if len(name) <= MAX_NAME else f"#{sha256(client_id.encode()).hexdigest()}"


def due_key(at_ms: int, name: str) -> str:
    """The key of a session's next look; keys are in order of time."""
    return f"{DUE_PREFIX}{at_ms:015d}/{name}"


def held_key(gateway: str, name: str) -> str:
    """The key of a session whose connection a gateway has."""
    return f"{HELD_PREFIX}{gateway}/{name}"


def time_in(key: str, prefix: str) -> int:
    """The time of a key in order of time; 0 for a key that tells none."""
    at = key.removeprefix(prefix).partition("/")[0]
    return int(at) if at.isdecimal() else 0


def merge_cursors(cursors: Cursors, moved: Cursors) -> Cursors:
    """The cursors, updated by those that moved since."""
    merged = {topic: dict(queues) for topic, queues in cursors.items()}
    for topic, queues in moved.items():
        merged.setdefault(topic, {}).update(queues)
    return merged
