"""Options of commands that stand for more than a text or a number.  Each raises ValueError for what it cannot read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

NONE: Final = "none"
RETRY_FORMS: Final = (
    "{kind}",
    "{kind}:{initialMs}:{maxMs}",
    "{kind}:{initialMs}:{maxMs}:{multiplier}",
    "{kind}:{delaysMs}",
)
FILTER_FORMS: Final = (NONE, "{kind}:{text}")
PLACEMENT_FORMS: Final = ("{name}={value}",)
"""Texts that the readers below read, as `Flag.forms` has them."""


def number_or_none(text: str) -> int | None:
    """Return a number, or None for `none`."""
    try:
        return None if text == NONE else int(text)
    except ValueError:
        raise ValueError(f"{text}: must be a number or {NONE}") from None


def retry_policy(text: str) -> dict[str, Any]:
    """Read `immediate`, `exponential[:INITIAL_MS:MAX_MS[:MULTIPLIER]]` or `list:MS,MS,...`."""
    kind, _, rest = text.partition(":")
    parts = rest.split(":") if rest else []
    try:
        if kind == "immediate" and not parts:
            return {"kind": kind}
        if kind == "exponential" and len(parts) in (0, 2, 3):
            names = ("initialMs", "maxMs", "multiplier")
            numbers = [int(part) for part in parts[:2]] + [float(part) for part in parts[2:]]
            return {"kind": kind, **dict(zip(names, numbers, strict=False))}
        if kind == "list" and len(parts) == 1:
            return {"kind": kind, "delaysMs": [int(part) for part in parts[0].split(",")]}
    except ValueError:
        pass
    raise ValueError(
        f"{text}: write immediate, exponential, exponential:1000:60000:2 (first and longest wait in ms, factor)"
        " or list:1000,5000 (waits in ms)"
    )


def retry_text(retry: dict[str, Any]) -> str | None:
    """Return a retry policy as `retry_policy` reads it."""
    kind: str | None = retry.get("kind")
    if kind == "exponential":
        return f"{kind}:{retry['initialMs']}:{retry['maxMs']}:{retry['multiplier']:g}"
    return f"{kind}:{','.join(map(str, retry['delaysMs']))}" if kind == "list" else kind


def filter_expression(text: str) -> dict[str, str] | None:
    """Read `none`, or the kind and the expression: `TAG:a || b`."""
    if text == NONE:
        return None
    kind, colon, expression = text.partition(":")
    if not colon or kind.upper() not in ("TAG", "SQL92", "SUB_TOPIC"):
        raise ValueError(f"{text}: write TAG:..., SQL92:..., SUB_TOPIC:..., such as 'TAG:a || b', or {NONE}")
    return {"kind": kind.upper(), "text": expression}


def placement(texts: Sequence[str]) -> dict[str, int]:
    """Read BROKER=QUEUES, each broker once."""
    found: dict[str, int] = {}
    for text in texts:
        broker, equals, queues = text.rpartition("=")
        if not equals or not broker or not (queues.isascii() and queues.isdecimal()) or broker in found:
            raise ValueError(f"{text}: write it as BROKER=QUEUES, each broker once")
        found[broker] = int(queues)
    return found
