"""Floods: a rate limit for log lines that clients can cause; lines beyond it are counted.

A line that an outsider can cause at will names its kind: `seldom="..."`, one of a few words. A burst of each kind goes
out, then one line a second, with the number left out before it. The last number is told a little later where no line
follows. The standard library's lines are all limited, by logger and text.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import structlog

BURST: Final = 20
"""Lines of a kind at once."""
PER_SECOND: Final = 1.0
"""Lines of a kind per second, in the long run."""
REST_SECONDS: Final = 2.0
"""Longest time until the lines left out last are told."""
MAX_KINDS: Final = 512
"""Kinds that are remembered: the oldest is forgotten."""

Kind = tuple[str, str]


class _Allowance:
    """Lines that one kind may still have, and the number left out."""

    __slots__ = ("at", "left", "suppressed")

    def __init__(self, now: float) -> None:
        self.left, self.at = float(BURST), now
        self.suppressed = 0


class Floods:
    """The allowances of all kinds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kinds: OrderedDict[Kind, _Allowance] = OrderedDict()

    def allows(self, kind: Kind) -> int | None:
        """The number of lines left out before this one, or None if this one is left out, too."""
        now = self._now()
        allowance = self._kinds.get(kind)
        if allowance is None:
            if len(self._kinds) >= MAX_KINDS:
                self._kinds.popitem(last=False)
            allowance = self._kinds[kind] = _Allowance(now)
        allowance.left = min(allowance.left + (now - allowance.at) * PER_SECOND, BURST)
        allowance.at = now
        if allowance.left < 1.0:
            allowance.suppressed += 1
            return None
        allowance.left -= 1.0
        suppressed, allowance.suppressed = allowance.suppressed, 0
        return suppressed

    def rest(self, kind: Kind) -> int:
        """Take the number of lines of a kind that were left out and not told."""
        allowance = self._kinds.get(kind)
        if allowance is None:
            return 0
        suppressed, allowance.suppressed = allowance.suppressed, 0
        return suppressed


class FloodProcessor:
    """The limit for structlog, first of its processors."""

    def __init__(self, floods: Floods) -> None:
        self._floods = floods
        self._telling: set[Kind] = set()

    def __call__(self, _logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        seldom = event.pop("seldom", None)
        if seldom is None:
            return event
        kind = (str(event.get("event")), str(seldom))
        suppressed = self._floods.allows(kind)
        if suppressed is None:
            self._tell_later(kind, "error" if method == "exception" else method)
            raise structlog.DropEvent
        if suppressed:
            event["suppressed"] = suppressed
        return event

    def _tell_later(self, kind: Kind, method: str) -> None:
        if kind not in self._telling:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # the next line of the kind tells
                return
            self._telling.add(kind)
            loop.call_later(REST_SECONDS, self._tell, kind, method)

    def _tell(self, kind: Kind, method: str) -> None:
        self._telling.discard(kind)
        suppressed = self._floods.rest(kind)
        if suppressed:
            getattr(structlog.get_logger(__name__), method)(kind[0], kind=kind[1], suppressed=suppressed)


class FloodFilter(logging.Filter):
    """The limit for the standard library's handler; a record after some left out has their number."""

    def __init__(self, floods: Floods) -> None:
        super().__init__()
        self._floods = floods

    def filter(self, record: logging.LogRecord) -> bool:
        suppressed = self._floods.allows((record.name, str(record.msg)[:200]))
        if suppressed:
            record.suppressed = suppressed
        return suppressed is not None
