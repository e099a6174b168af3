"""RFC 3339 timestamps to epoch milliseconds, and back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

MAX_EPOCH_MS: Final = 253_402_300_799_999
"""Last millisecond of the year 9999, the last one that can be written."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)


def to_epoch_ms(text: str) -> int | None:
    """Return the milliseconds of an RFC 3339 timestamp (negative before 1970), or None for an invalid one.  Fractions
    of a millisecond are cut off.  A leap second is the first moment of the next minute."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    fraction, sign, offset_hours, offset_minutes = found.groups()[6:]
    offset = timedelta(hours=int(offset_hours or 0), minutes=int(offset_minutes or 0))
    leap = second == 60
    try:
        zone = timezone(-offset if sign == "-" else offset)
        moment = datetime(year, month, day, hour, minute, second - leap, tzinfo=zone)
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1) + 1000 * leap + int(((fraction or "") + "000")[:3])


def to_rfc3339(epoch_ms: int) -> str | None:
    """Return the timestamp in UTC with milliseconds, or None for a time outside of the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=epoch_ms)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
