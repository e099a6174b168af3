"""Floods: frames that cost a server more than their sender, counted by the second.

A frame without data (PING, SETTINGS, PRIORITY, an empty DATA, a small WINDOW_UPDATE, an unknown one) makes work and
brings nothing.  A stream that is opened and reset at once begins a call.  Whoever sends too many is told to be calm.
"""

from __future__ import annotations

from typing import Final

from entrepot.protocols.http2.frames import ConnectionFault, ErrorCode

CONTROLS_PER_SECOND: Final = 1000
"""Frames without data of one connection in a second, beyond those that its calls earn."""
CONTROLS_PER_CALL: Final = 6
"""Frames without data that a call earns: clients measure the way with PINGs, and open windows after answers."""
SETTINGS_COST: Final = 10
"""Cost of a SETTINGS frame in frames: it may change every stream's window."""
RESETS_PER_SECOND: Final = 1000
"""Streams of one connection that end by a reset in a second.  A client that ends takes all its waiting calls back."""


class FloodCounts:
    """The counts of one connection.  Times are seconds of one monotonic clock."""

    __slots__ = ("_controls", "_resets", "_since")

    def __init__(self, now: float) -> None:
        self._since, self._controls, self._resets = now, 0, 0

    def control(self, now: float, cost: int = 1) -> None:
        """Count a frame without data.  Raises ConnectionFault for too many."""
        self._turn(now)
        self._controls += cost
        if self._controls > CONTROLS_PER_SECOND:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames without data")

    def reset(self, now: float) -> None:
        """Count a stream that ends by a reset, of either side.  Raises ConnectionFault for too many."""
        self._turn(now)
        self._resets += 1
        if self._resets > RESETS_PER_SECOND:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many streams are reset")

    def answered(self) -> None:
        """Count a call that was answered."""
        self._controls -= CONTROLS_PER_CALL

    def _turn(self, now: float) -> None:
        if now - self._since >= 1:
            self._since, self._controls, self._resets = now, 0, 0
