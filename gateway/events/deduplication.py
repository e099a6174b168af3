"""Deduplication: an event whose source and id came before within the topic's window is answered as if it were stored.

The store is asked for earlier events, where the id is a key. So any gateway finds them, even if the first one has died.
An event that is under way at this gateway is awaited: a second try is answered when the first is durable, and stored
where the first failed. Two gateways that get one event at the same moment may both store it. Scheduled and diverted
events are not messages of the topic: only the gateway that took them remembers them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from entrepot.domain.clock import Clock
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.ports import Store
from entrepot.domain.query import MessageQuery
from entrepot.gateway.messaging.send import Refusals

MAX_REMEMBERED: Final = 100_000
"""Limit of the events remembered by this gateway, over all topics; older ones are looked up in the store."""
PAGE: Final = 32
MAX_PAGES: Final = 8
"""Pages of messages with one id to look through: sources that share ids make many."""

Identity = tuple[str, str, str]
"""(topic, source, id)"""
Send = Callable[[Sequence[Message]], Awaitable[Refusals]]


class Deduplication:
    """A filter of repeated events, by the source and id in each message (`ce_source`, `ce_id`)."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._stored: dict[Identity, int] = {}
        self._on_the_way: dict[Identity, asyncio.Future[bool]] = {}
        self.dropped = 0

    async def send(self, messages: Sequence[Message], window_ms: int, send: Send) -> Refusals:
        """Send the events that did not come before; refusals are in the places of `messages`."""
        identities = [identity_of(message) for message in messages]
        known = await self._known_of(identities, window_ms)
        kept: list[int] = []
        first_of: dict[Identity, int] = {}
        claimed: dict[Identity, asyncio.Future[bool]] = {}
        loop = asyncio.get_running_loop()
        for place, identity in enumerate(identities):
            if identity in known or identity in claimed:
                self.dropped += 1
            else:
                claimed[identity] = self._on_the_way[identity] = loop.create_future()
                first_of[identity] = place
                kept.append(place)
        try:
            refusals = await send([messages[place] for place in kept]) if kept else None
        except BaseException:
            self._settle(claimed, stored=())
            raise
        refused = {kept[number] for number, refusal in enumerate(refusals or ()) if refusal is not None}
        self._settle(claimed, stored=[identities[place] for place in kept if place not in refused])
        if refusals is None:
            return None
        of_kept = dict(zip(kept, refusals, strict=True))
        places = (first_of.get(identity) for identity in identities)  # equal events in one batch have one outcome
        return [None if place is None else of_kept[place] for place in places]

    def _settle(self, claimed: dict[Identity, asyncio.Future[bool]], stored: Sequence[Identity]) -> None:
        now_ms, done = self._clock.now_ms(), set(stored)
        for identity, future in claimed.items():
            self._on_the_way.pop(identity, None)
            future.set_result(identity in done)
        for identity in stored:
            self._stored.pop(identity, None)
            while len(self._stored) >= MAX_REMEMBERED:
                del self._stored[next(iter(self._stored))]
            self._stored[identity] = now_ms

    async def _known_of(self, identities: Sequence[Identity], window_ms: int) -> set[Identity]:
        """Return the identities that are stored and durable; on return, none of the others is under way. Nothing is
        claimed during a wait, so two batches never wait for each other."""
        known: set[Identity] = set()
        looked_up: set[Identity] = set()
        while True:
            since_ms = self._clock.now_ms() - window_ms
            for identity in identities:
                pending = self._on_the_way.get(identity)
                if pending is not None and await asyncio.shield(pending):
                    known.add(identity)
                if identity in known or identity in looked_up:
                    continue
                looked_up.add(identity)
                at_ms = self._stored.get(identity)
                if (at_ms is not None and at_ms >= since_ms) or await self._was_stored(identity, since_ms):
                    known.add(identity)
            late = [each for each in identities if each not in known and self._is_late(each, since_ms)]
            if not late:
                return known
            looked_up.difference_update(late)

    def _is_late(self, identity: Identity, since_ms: int) -> bool:
        """True if it was claimed or stored during the look-ups of others."""
        return identity in self._on_the_way or self._stored.get(identity, -1) >= since_ms

    async def _was_stored(self, identity: Identity, since_ms: int) -> bool:
        topic, source, event_id = identity
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._store.finder.query(MessageQuery(topic, event_id, since_ms, limit=PAGE, cursor=cursor))
            if any(_source_of(message) == source for message in page.messages):
                return True
            if page.next is None:
                return False
            cursor = page.next
        return False


def identity_of(message: Message) -> Identity:
    return message.topic, _source_of(message), message.keys[0]


def _source_of(message: Message | StoredMessage) -> str:
    return next((str(value) for name, value in message.properties if name == "ce_source"), "")
