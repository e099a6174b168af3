"""ListenerLimits: how much a listener takes, from whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Limits of a listener. `strangers`: connections that have not greeted; each may hold a greeting. `window_bytes`:
    of unanswered requests; `write_bytes`: waiting to be written before reading stops.

    `greeting_seconds` begin with the connection, `silence_seconds` with the last byte. `sweep_seconds`: interval of
    these checks, and the time for a goodbye to be read.
    """

    connections: int = 10_000
    strangers: int = 1_000
    window_bytes: int = 64 << 20
    write_bytes: int = 8 << 20
    greeting_seconds: float = 10.0
    silence_seconds: float = 30.0
    sweep_seconds: float = 1.0


DEFAULT_LIMITS: Final = ListenerLimits()
