"""Streams: a consumer's start position, and its tickets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from entrepot.domain.message import StoredMessage
from entrepot.domain.position import Position, PositionKind
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.field_table import Timestamp
from entrepot.protocols.amqp.reply_codes import ReplyCode

START: Final = "x-stream-offset"
_SECONDS: Final = {"Y": 365 * 86_400, "M": 30 * 86_400, "D": 86_400, "h": 3600, "m": 60, "s": 1}
_INTERVAL: Final = re.compile(r"([1-9][0-9]{0,8})([YMDhms])")


class StreamTicket:
    """A delivered message of a stream: settling it only gives credit."""

    __slots__ = ("attempt", "is_open", "member", "message")

    member: Any
    is_again = is_late = False

    def __init__(self, message: StoredMessage) -> None:
        self.message = message
        self.attempt = 1
        self.is_open = False

    def acknowledge(self) -> None:
        """Do nothing: acknowledging removes nothing from a stream."""

    def release(self) -> None:
        """Do nothing: the stream still has the message."""


def stream_start(arguments: Mapping[str, object], now_ms: int) -> int | Position | None:
    """Return the position that the argument `x-stream-offset` names.  Forms: `first`, `last` (None), `next` (also the
    default), an offset, a timestamp, an age (`1h`).  Raises PRECONDITION_FAILED for anything else."""
    given = arguments.get(START, "next")
    if isinstance(given, Timestamp):
        return Position(PositionKind.TIME, int(given) * 1000)
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    if given == "first":
        return Position(PositionKind.EARLIEST)
    if given == "last":
        return None
    if given == "next":
        return Position(PositionKind.LATEST)
    if isinstance(given, str) and (found := _INTERVAL.fullmatch(given)):
        return Position(PositionKind.TIME, now_ms - int(found[1]) * _SECONDS[found[2]] * 1000)
    raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"invalid arg '{START}': {str(given)[:60]!r}", 60, 20)
