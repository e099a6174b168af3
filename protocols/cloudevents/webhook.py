"""The HTTP WebHook specification (CloudEvents 1.0.2): abuse protection (4) and a receiver's answers (2.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Final

from entrepot.protocols.cloudevents.http import Headers

REQUEST_ORIGIN: Final = "webhook-request-origin"
REQUEST_RATE: Final = "webhook-request-rate"
REQUEST_CALLBACK: Final = "webhook-request-callback"
ALLOWED_ORIGIN: Final = "webhook-allowed-origin"
ALLOWED_RATE: Final = "webhook-allowed-rate"
ANY: Final = "*"
MAX_RETRY_AFTER_SECONDS: Final = 24 * 3600
"""Longest pause that a receiver's Retry-After is granted."""
_MAX_ORIGIN: Final = 255


def consent(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return our publish paths' answer to a sender that asks (4.2): its origin is allowed, at any rate."""
    answer: Headers = [(b"allow", b"POST, OPTIONS")]
    for name, value in headers:
        if name == REQUEST_ORIGIN.encode() and 0 < len(value) <= _MAX_ORIGIN:
            answer.append((ALLOWED_ORIGIN.encode(), value))
            answer.append((ALLOWED_RATE.encode(), ANY.encode()))
    return answer


@dataclass(frozen=True, slots=True)
class Consent:
    """A receiver's permission.  `rate_per_minute`: None for any rate."""

    rate_per_minute: int | None = None


def consent_of(headers: Mapping[str, str], origin: str) -> Consent | None:
    """Return the permission in the headers of a receiver's answer (4.2); None: refused, whatever the status.
    `headers`: a case-insensitive mapping."""
    allowed = headers.get(ALLOWED_ORIGIN, "").strip()
    if allowed != ANY and allowed.lower() != origin.lower():
        return None
    rate = rate_of(headers.get(ALLOWED_RATE))
    return None if rate == 0 else Consent(rate)


def rate_of(text: str | None) -> int | None:
    """Return requests per minute; None for any; 0 for an invalid rate (4.2.2: a positive whole number, or an
    asterisk)."""
    if text is None or text.strip() == ANY:
        return None
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


class Verdict(Enum):
    """Outcomes of an attempt to send an event."""

    DELIVERED = "delivered"
    RETRY = "retry"
    GONE = "gone"
    """410: the receiver is gone, and is sent nothing again (2.2)."""
    REFUSED = "refused"
    """The receiver will never take this event."""


_FINAL: Final = frozenset({400, 401, 403, 405, 406, 411, 413, 414, 415, 422, 431, 501, 505})
"""415: the receiver does not take this media type (2.2); the others blame the request itself."""


def verdict_of(status: int) -> Verdict:
    """Return the outcome of a status: 2xx is delivered (2.2, 202 included); 3xx is not followed, and may be retried."""
    if 200 <= status < 300:
        return Verdict.DELIVERED
    if status == 410:
        return Verdict.GONE
    return Verdict.REFUSED if status in _FINAL else Verdict.RETRY


def retry_after_seconds(text: str | None, now_epoch: float) -> float | None:
    """Return the seconds from now that Retry-After asks for (RFC 9110 10.2.3), in any of its forms, at most
    MAX_RETRY_AFTER_SECONDS; None without a valid one.  A date in the past asks for 0."""
    if not text:
        return None
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return float(min(int(text.lstrip("0")[:10] or "0"), MAX_RETRY_AFTER_SECONDS))
    try:
        date = parsedate_to_datetime(text)
        moment = (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()  # no zone: UTC (5.6.7)
    except (ValueError, OverflowError):
        return None
    return min(max(moment - now_epoch, 0.0), float(MAX_RETRY_AFTER_SECONDS))
