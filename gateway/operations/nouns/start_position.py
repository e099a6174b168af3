"""Positions as texts tell them: where reading of a topic begins, and where a group is reset to."""

from __future__ import annotations

from typing import Final

from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.domain.timestamp import MAX_EPOCH_MS, to_epoch_ms
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.shapes import MAX_NUMBER
from entrepot.gateway.operations.row.times import epoch_ms_of

_TO: Final = "to: must be earliest, latest, an offset, or an RFC 3339 time"
_ENDS: Final = {"earliest": EARLIEST_POSITION, "latest": LATEST_POSITION}


def position_of(text: str) -> Position:
    """Parse a position: `earliest`, `latest`, an offset, or a time.  Raises BAD_REQUEST."""
    if text in _ENDS:
        return _ENDS[text]
    offset = _offset(text)
    if offset is not None:
        return Position(PositionKind.OFFSET, min(offset, MAX_NUMBER))
    return Position(PositionKind.TIME, epoch_ms_of(text, "start"))


def position_to(to: int | str) -> Position:
    """Return the position that a group is reset to, likewise; a number is an offset, too.  Raises BAD_REQUEST."""
    text = str(to)
    if text in _ENDS:
        return _ENDS[text]
    offset = to if isinstance(to, int) else _offset(text)
    if offset is not None:
        if offset <= MAX_NUMBER:
            return Position(PositionKind.OFFSET, offset)
        raise bad_request(f"{_TO}, not {offset}")
    epoch_ms = to_epoch_ms(text)
    if epoch_ms is None or epoch_ms > MAX_EPOCH_MS:
        raise bad_request(f"{_TO}, not {text[:80]!r}")
    return Position(PositionKind.TIME, max(epoch_ms, 0))


def _offset(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_NUMBER)) else None
