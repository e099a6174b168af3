"""Start position: where reading of a topic begins, as texts tell it."""

from __future__ import annotations

from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.gateway.operations.row.shapes import MAX_NUMBER
from entrepot.gateway.operations.row.times import epoch_ms_of


def position_of(text: str) -> Position:
    """Parse a position: `earliest`, `latest`, an offset, or a time.  Raises BAD_REQUEST."""
    if text == "earliest":
        return EARLIEST_POSITION
    if text == "latest":
        return LATEST_POSITION
    if text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_NUMBER)):
        return Position(PositionKind.OFFSET, min(int(text), MAX_NUMBER))
    return Position(PositionKind.TIME, epoch_ms_of(text, "start"))
