"""Topic names and filters with a meaning for the server: `$share/...`, `$delayed/...`, `$replay/...`, `$SYS/...`.

| form                           | meaning                                                                        |
|--------------------------------|--------------------------------------------------------------------------------|
| `$share/<name>/<filter>`       | a shared subscription (MQTT 5.0, 4.8.2)                                        |
| `$replay/<from>/<filter>`      | messages since `<from>`, then new ones: `earliest`, `-2h` (s, m, h, d or a     |
|                                | bare number of seconds), an RFC 3339 time, or an offset of each queue          |
| `$delayed/<seconds>/<topic>`   | a publish to `<topic>` after a delay                                           |
| `$SYS/broker/...`              | statistics of the server; a bridge publishes its state there, as with mosquitto |

Invariant: clients publish to no name whose first level is the server's, but for a delayed publish and a bridge's
state.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

from entrepot.domain.routing.topic_filter import is_valid_filter, is_valid_name
from entrepot.protocols.mqtt.reason_codes import ReasonCode

SHARE: Final = "$share/"
REPLAY: Final = "$replay/"
DELAYED: Final = "$delayed/"
SYS: Final = "$SYS"
SERVERS_LEVELS: Final = frozenset((SYS, "$share", "$replay", "$delayed", "$queue"))
"""First levels reserved for the server: clients do not publish to them."""
MAX_DELAY_SECONDS: Final = 40 * 24 * 3600
BRIDGE_STATES: Final = (b"0", b"1", b"")
"""Payloads of a bridge's state: away, connected, and none, which deletes the retained one."""
_BRIDGE_STATE: Final = re.compile(r"\$SYS/broker/connection/[^/]+/state")
"""The one name under `$SYS` that mosquitto lets clients publish to; its bridges do, and have a will there."""
_BACK: Final = re.compile(r"-(\d{1,9})([smhd]?)", re.ASCII)
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


class Share(NamedTuple):
    """The parts of a shared subscription."""

    name: str
    filter: str


class Replay(NamedTuple):
    """The parts of a replay.  `start`: an offset of each queue, or below 0 a time: epoch milliseconds, negated."""

    start: int
    filter: str


def parse_share(text: str) -> Share | None:
    """Return the parts of `$share/...`, or None for any other text (4.8.2-1, -2)."""
    name, separator, topic_filter = text.removeprefix(SHARE).partition("/")
    if not name or not separator or any(c in name for c in "+#") or not is_valid_filter(topic_filter):
        return None
    return Share(name, topic_filter)


def parse_replay(text: str, now_ms: int) -> Replay | None:
    """Return the parts of `$replay/...`, or None for any other text."""
    since, separator, topic_filter = text.removeprefix(REPLAY).partition("/")
    if not separator or not is_valid_filter(topic_filter) or topic_filter.startswith("$"):
        return None
    start = _start(since, now_ms)
    return None if start is None else Replay(start, topic_filter)


def _start(since: str, now_ms: int) -> int | None:
    if since == "earliest":
        return 0
    if since.isascii() and since.isdecimal() and len(since) < 16:
        return int(since)
    back = _BACK.fullmatch(since)
    if back is not None:
        return -max(now_ms - int(back[1]) * _UNITS[back[2]] * 1000, 1)
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return -max(int(moment.timestamp() * 1000), 1)


class Delayed(NamedTuple):
    """The parts of a delayed publish."""

    seconds: int
    topic: str


def parse_delayed(name: str) -> Delayed | None:
    """Return the parts of `$delayed/...`, or None for any other text."""
    seconds, separator, topic = name.removeprefix(DELAYED).partition("/")
    if not separator or not (seconds.isascii() and seconds.isdecimal()) or len(seconds) > 9:
        return None
    if int(seconds) > MAX_DELAY_SECONDS or not is_valid_name(topic) or topic.startswith("$"):
        return None
    return Delayed(int(seconds), topic)


def published_name(name: str) -> str:
    """The destination topic of a publish, which is checked for rights."""
    delayed = parse_delayed(name) if name.startswith(DELAYED) else None
    return name if delayed is None else delayed.topic


def unpublishable(name: str, payload: bytes) -> tuple[ReasonCode, str] | None:
    """The reason why clients may not publish a payload to a name that starts with `$`, or None."""
    if name.startswith(DELAYED):
        if parse_delayed(name) is None:
            return ReasonCode.TOPIC_NAME_INVALID, f"{name[:80]!r} is not $delayed/<seconds>/<topic>"
        return None
    if _BRIDGE_STATE.fullmatch(name):
        if payload not in BRIDGE_STATES:
            return ReasonCode.NOT_AUTHORIZED, f"the state of a bridge is 0 or 1, not {payload[:80]!r}"
        return None
    if name.partition("/")[0] in SERVERS_LEVELS:
        return ReasonCode.NOT_AUTHORIZED, f"{name[:80]!r} cannot be published to"
    return None
