"""The HTTP WebHook specification (CloudEvents 1.0.2): abuse protection (4), what a receiver answers (2.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Final

from protocols.cloudevents.http import Headers

REQUEST_ORIGIN: Final = "webhook-request-origin"
REQUEST_RATE: Final = "webhook-request-rate"
REQUEST_CALLBACK: Final = "webhook-request-callback"
ALLOWED_ORIGIN: Final = "webhook-allowed-origin"
ALLOWED_RATE: Final = "webhook-allowed-rate"
ANY: Final = "*"
MAX_RETRY_AFTER_SECONDS: Final = 24 * 3600
"""A receiver that asks to be left alone for longer is left alone for so long."""
_MAX_ORIGIN: Final = 255


def consent(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """What our own publish paths answer to a sender that asks (4.2): its origin, at any rate."""
    answer: Headers = [(b"allow", b"POST, OPTIONS")]
    for name, value in headers:
        if name == REQUEST_ORIGIN.encode() and 0 < len(value) <= _MAX_ORIGIN:
            answer.append((ALLOWED_ORIGIN.encode(), value))
            answer.append((ALLOWED_RATE.encode(), ANY.encode()))
    return answer


@dataclass(frozen=True, slots=True)
class Consent:
    """A receiver's permission.  `rate_per_minute` None is any rate."""

    rate_per_minute: int | None = None


def consent_of(headers: Mapping[str, str], origin: str) -> Consent | None:
    """What the headers of a receiver's answer permit (4.2); None: nothing, whatever the status says.

    `headers`: without regard to case.
    """
    allowed = headers.get(ALLOWED_ORIGIN, "").strip()
    if allowed != ANY and allowed.lower() != origin.lower():
        return None
    rate = rate_of(headers.get(ALLOWED_RATE))
    return None if rate == 0 else Consent(rate)


def rate_of(text: str | None) -> int | None:
    """Requests each minute; None for any; 0 for what is no rate (4.2.2: a positive whole number, or an asterisk)."""
    if text is None or text.strip() == ANY:
        return None
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


class Verdict(Enum):
    """What is to become of an event after a try."""

    DELIVERED = "delivered"
    RETRY = "retry"
    GONE = "gone"
    """410: the receiver is not there any more, and is sent nothing again (2.2)."""
    REFUSED = "refused"
    """The receiver will not take this event however often it is sent."""


_FINAL: Final = frozenset({400, 401, 403, 405, 406, 411, 413, 414, 415, 422, 431, 501, 505})
"""415: the receiver does not take this media type (2.2); the others say that the request itself is at fault."""


def verdict_of(status: int) -> Verdict:
    """What a status means: 2xx is delivered (2.2, 202 included), 3xx is not followed and is a failure that may pass."""
    if 200 <= status < 300:
        return Verdict.DELIVERED
    if status == 410:
        return Verdict.GONE
    return Verdict.REFUSED if status in _FINAL else Verdict.RETRY


def retry_after_seconds(text: str | None, now_epoch: float) -> float | None:
    """What Retry-After asks for (RFC 9110 10.2.3): seconds from now; None where it says nothing that is understood."""
    if not text:
        return None
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return float(min(int(text[:10]), MAX_RETRY_AFTER_SECONDS))
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
    return min(max(moment - now_epoch, 0.0), float(MAX_RETRY_AFTER_SECONDS))
