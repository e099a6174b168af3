"""Answer: what came of one request to a sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Answer:
    """A sink's answer, with header names in lower case; `status` 0 means no answer, for the reason in `fault`."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    fault: str = ""
    is_forbidden: bool = False
    """True if the sink's address is not allowed: another try would change nothing."""
    is_sinks: bool = True
    """True if the sink caused it; False if the sink was not asked for want of a token."""
