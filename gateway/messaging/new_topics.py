"""NewTopics: publishes to names whose topic is being made.

A waiting call holds up no other: only calls with such a name are held, and later calls of the same source, so that its
order holds.  Names that came meanwhile are made in few writes.  A call goes on when each of its names was made or
refused; the append then refuses those that are not there.

Invariant: the bytes of a held call are counted once, and given back when it goes on, whatever became of its names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.messaging.send_call import Call, Source
from entrepot.gateway.messaging.topology import Topology

MAX_SOURCE_MESSAGES: Final = 10_000
MAX_SOURCE_BYTES: Final = 1 << 20
"""Messages, and bytes of their bodies, that one source may have waiting before it is asked to pause."""
MAX_MESSAGES: Final = 100_000
MAX_BYTES: Final = 16 << 20
"""Messages, and bytes of their bodies, that may wait here; further ones that would wait are refused."""
MAX_AT_ONCE: Final = 20
"""Topics of one write: a store in this process makes them in a millisecond, and others have a turn between two."""


log = structlog.get_logger(__name__)


class NewTopics:
    """Held calls.  `go_on` gets those that wait no longer, in order."""

    def __init__(self, topology: Topology, go_on: Callable[[list[Call]], None]) -> None:
        self._topology, self._go_on = topology, go_on
        self._held: list[Call] = []
        self._sources: dict[Source, list[int]] = {}
        """Held messages and bytes of each source."""
        self._wanted: dict[str, None] = {}
        self._making: frozenset[str] = frozenset()
        self._task: asyncio.Task[None] | None = None
        self.messages = self.bytes = 0
        """Messages that are held, and the bytes of their bodies."""

    @property
    def calls(self) -> int:
        """Calls that are held."""
        return len(self._held)

    @property
    def is_idle(self) -> bool:
        """True if no call is held."""
        return not self._held

    def is_full(self, source: Source) -> bool:
        """True if a source has so much waiting that it should pause."""
        held = self._sources.get(source)
        return held is not None and (held[0] > MAX_SOURCE_MESSAGES or held[1] > MAX_SOURCE_BYTES)

    def admit(self, calls: Iterable[Call], missing: set[str]) -> list[Call]:
        """Hold calls that must wait; return the others.  `missing`: names without a topic."""
        ready = []
        for call in calls:
            names = {message.topic for message in call.messages}
            call.needed = frozenset(
                name for name in names if name in self._making or (name in missing and self._want(name))
            )
            if not call.needed and (call.source is None or call.source not in self._sources):
                ready.append(call)
            else:
                self._hold(call)
        if self._wanted and self._task is None:
            self._task = background().start("new topics", self._make())
        return ready

    def _want(self, name: str) -> bool:
        """Have a topic made; False if it may not be, which the append will say."""
        if name in self._wanted:
            return True
        if self._topology.refusal(name, len(self._wanted) + len(self._making)) is not None:
            return False
        self._wanted[name] = None
        return True

    def _hold(self, call: Call) -> None:
        call.size = sum(len(message.body) for message in call.messages)
        if self.messages + len(call.messages) > MAX_MESSAGES or self.bytes + call.size > MAX_BYTES:
            text = "too many messages wait for new topics: send later"
            call.tell(EntrepotError(Code.TOO_MANY_REQUESTS, text))
            return
        self._held.append(call)
        self._count(call, 1)

    def _count(self, call: Call, sign: int) -> None:
        self.messages += sign * len(call.messages)
        self.bytes += sign * call.size
        if call.source is None:
            return
        held = self._sources.setdefault(call.source, [0, 0, 0])
        held[0] += sign * len(call.messages)
        held[1] += sign * call.size
        held[2] += sign
        if not held[2]:
            del self._sources[call.source]

    async def _make(self) -> None:
        """Make the wanted topics, and those that are wanted meanwhile."""
        try:
            while self._wanted:
                self._making = frozenset(islice(self._wanted, MAX_AT_ONCE))
                for name in self._making:
                    del self._wanted[name]
                try:
                    await self._topology.ensure_all(sorted(self._making))
                except EntrepotError as error:  # the append refuses the messages with the reason of each
                    log.info("new topics could not be made", topics=len(self._making), problem=error.message)
                except Exception as fault:  # noqa: BLE001 - other names are wanted meanwhile
                    background().failed("new topics", fault)
                finally:
                    made, self._making = self._making, frozenset()
                    self._release(made)
        finally:
            self._task = None

    def _release(self, made: frozenset[str]) -> None:
        """Let calls go on that need none but these names, unless an earlier one of their source waits still."""
        held, ready, blocked = [], [], set()
        for call in self._held:
            call.needed -= made
            if call.needed or (call.source is not None and call.source in blocked):
                held.append(call)
                blocked.add(call.source)
            else:
                ready.append(call)
        self._held = held
        for call in ready:
            self._count(call, -1)
        self._go_on(ready)
