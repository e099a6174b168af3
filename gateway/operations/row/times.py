"""Times as operations take and show them."""

from __future__ import annotations

from typing import Final

from entrepot.domain.timestamp import MAX_EPOCH_MS, to_epoch_ms, to_rfc3339
from entrepot.gateway.operations.row.problem import bad_request

LAST_TIME: Final = "9999-12-31T23:59:59.999Z"


def epoch_ms_of(text: str, where: str) -> int:
    """Parse an RFC 3339 time or epoch milliseconds.  Raises BAD_REQUEST that names `where`."""
    if text.isascii() and text.isdecimal():
        epoch_ms = int(text) if len(text) <= len(str(MAX_EPOCH_MS)) else None
    else:
        epoch_ms = to_epoch_ms(_with_plus(text))
    if epoch_ms is None or epoch_ms > MAX_EPOCH_MS:
        raise bad_request(
            f"{where}: must be an RFC 3339 time such as 2026-01-31T12:00:00Z, or epoch milliseconds, not {text[:80]!r}"
        )
    return max(epoch_ms, 0)


def _with_plus(text: str) -> str:
    """Restore the `+` of an offset such as +01:00, which an unencoded query decodes as a space."""
    return text[:-6] + "+" + text[-5:] if text[-6:-5] == " " and text[-3:-2] == ":" else text


def time_shape(epoch_ms: int) -> str | None:
    """A time as JSON; None for no time."""
    return to_rfc3339(epoch_ms) if epoch_ms else None


def time_text(epoch_ms: int) -> str:
    """A time that is always there, as JSON; the last one that can be written stands for later ones."""
    return to_rfc3339(epoch_ms) or LAST_TIME
