"""Turns: the queues of one channel look for messages in turn, where its prefetch limit leaves little room.

Pops of all of them would be in vain, and what the losers give back keeps them from the next turn.  So the first few
look at once, and the others a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from entrepot.gateway.amqp.connections.channel_room import ChannelRoom
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue

NEXT_SECONDS: Final = 0.002
"""Time for the first queues to take the room."""


class Turns:
    """The turns of one channel.  `queues` returns those that it consumes, `look` lets one look."""

    __slots__ = ("_later", "_loop", "_look", "_queues", "_room", "_turn")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        room: ChannelRoom,
        queues: Callable[[], Iterable[Queue]],
        look: Callable[[Queue], None],
    ) -> None:
        self._loop, self._room, self._queues, self._look = loop, room, queues, look
        self._turn = 0
        self._later: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Let the queues look for messages."""
        for queue in self._first():
            self._look(queue)

    def close(self) -> None:
        """Look no more, and leave the channel."""
        if self._later is not None:
            self._later.cancel()
        self._queues = tuple

    def _first(self) -> Sequence[Queue]:
        queues = list(dict.fromkeys(self._queues()))
        if len(queues) < 2:
            return queues
        self._turn = (self._turn + 1) % len(queues)
        if self._later is None:
            self._later = self._loop.call_later(NEXT_SECONDS, self._look_at_all)
        return [*queues[self._turn :], *queues[: self._turn]][: max(self._room.room, 1)]

    def _look_at_all(self) -> None:
        self._later = None
        for queue in dict.fromkeys(self._queues()):
            self._look(queue)
