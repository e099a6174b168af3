"""JudgedClock: a replica's clock, which its controllers compare with those of all members."""

from __future__ import annotations

import asyncio
from typing import Final

from entrepot.broker.remoting.link import Link
from entrepot.domain.clock import Clock, error_ms
from entrepot.domain.errors import EntrepotError
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.values import Codec

ASK_SECONDS: Final = 2.0
_VERDICT: Final[Codec[bool | None]] = Codec(bool | None)


class JudgedClock:
    """The clock of a group's replica.  A verdict holds for `valid_seconds`."""

    def __init__(self, clock: Clock, group: str, replica: int, valid_seconds: float) -> None:
        self.clock, self._group, self._replica = clock, group, replica
        self._valid_seconds = valid_seconds
        self._loop = asyncio.get_running_loop()
        self._verdict = False, 0.0

    def tell(self, link: Link) -> None:
        """Tell a controller the time."""
        told = wire.CLOCK.encode_arguments(self._group, self._replica, self.clock.now_ms(), error_ms(self.clock))
        link.send(wire.CLOCK, told, ASK_SECONDS, self._judged)

    def _judged(self, error: EntrepotError | None, payload: bytes) -> None:
        if error is None and (verdict := _VERDICT.decode(payload)) is not None:
            self._verdict = verdict, self._loop.time()

    def is_right(self) -> bool:
        """True while the controllers say that most clocks agree with this one's."""
        is_right, at = self._verdict
        return is_right and self._loop.time() - at <= self._valid_seconds
