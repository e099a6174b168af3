"""LogOrder: the retained message of a name is the last one of the log, whichever gateways publish at once.

A message is kept before it is stored. So two gateways may keep theirs in another order than that of the log. Once a
message is stored, its gateway looks at what is kept: another one there means a race, and the log tells who won.
Invariant: what ends a look was equal to the log's last message, read after it was kept. So the gateway of the log's
last message always mends what came before; a conditional write never undoes a change that was not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.ports import Store
from entrepot.domain.retained import expiry_of, is_over, retained_key
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.key_values.watched_keys import WatchedKeys
from entrepot.gateway.retained.record import decode_retained, encode_retained

MAX_LOOKS: Final = 100
"""Looks at one name; each further one means that another gateway has just kept a message of it."""
PAGE: Final = 1000
"""Later messages of a queue that are looked for at once."""


class LogOrder:
    """The order of this gateway's retained messages. Each of them has begun before it is kept, and ends once."""

    def __init__(self, store: Store, clock: Clock, keys: WatchedKeys) -> None:
        self._store, self._clock, self._keys = store, clock, keys
        self._under_way: dict[str, int] = {}
        """Number of messages by name that have begun and not ended."""
        self._stored: dict[str, Message] = {}
        """A stored message of names with others under way: the last to end looks for it, too."""
        self._looking = 0

    @property
    def is_busy(self) -> bool:
        """True while a message has not ended, or a name is looked at."""
        return bool(self._under_way or self._looking)

    def begin(self, messages: Sequence[Message]) -> None:
        """Note messages that are about to be kept."""
        for message in messages:
            self._under_way[message.sub_topic] = self._under_way.get(message.sub_topic, 0) + 1

    async def end(self, messages: Sequence[Message], stored: Sequence[Message]) -> None:
        """Note that messages are stored, or (those not in `stored`) not; return when the last of the log is kept for
        their names, or others of these names are under way here. Raises what the store raises."""
        self._stored.update((message.sub_topic, message) for message in stored)
        due: list[Message] = []
        for message in messages:
            name = message.sub_topic
            self._under_way[name] -= 1
            if not self._under_way[name]:
                del self._under_way[name]
                if (last := self._stored.pop(name, None)) is not None:
                    due.append(last)
        await self.check(due)

    async def check(self, messages: Sequence[Message]) -> None:
        """Return when the last of the log is kept for the names of stored messages. Raises what the store raises."""
        if not messages:
            return
        self._looking += 1
        try:
            kept = await self._keys.look([retained_key(message.sub_topic) for message in messages])
            raced = [each for each, found in zip(messages, kept, strict=True) if not self._is_kept(each, found)]
            failures = [failure for message in raced if (failure := await self._followed(message)) is not None]
        finally:
            self._looking -= 1
        if failures:
            raise failures[0]

    async def _followed(self, message: Message) -> EntrepotError | None:
        """Follow the log for one name; return the failure, so that the other names are looked at."""
        try:
            await self._follow_log(message)
        except EntrepotError as failure:
            if failure.code is not Code.UNSUPPORTED:  # a store without a look-up of messages: the last write counts
                return failure
        return None

    def _is_kept(self, message: Message, found: KeyValue | None) -> bool:
        """True if a key-value is that of the message; for one that deletes or has expired, if there is none."""
        if found is None:
            return self._is_gone(message)
        try:
            return bool(message.body) and decode_retained(found).message_id == message.message_id
        except CorruptedError:  # nobody can read it: the log's replaces it
            return False

    def _is_gone(self, message: Message) -> bool:
        return not message.body or is_over(expiry_of(message), self._clock.now_ms())

    async def _follow_log(self, message: Message) -> None:
        """Keep the log's last message of a name, of which one is given."""
        last = await self._place_of(message)
        for _ in range(MAX_LOOKS):
            [found] = await self._keys.look([retained_key(message.sub_topic)])
            last = await self._last_since(last)
            if self._is_kept(last, found):
                return
            value = None if self._is_gone(last) else encode_retained(last)
            version = 0 if found is None else found.version
            await if_unchanged(self._keys.write([KeyValueChange(retained_key(message.sub_topic), value, version)]))
        raise EntrepotError(Code.UNAVAILABLE, f"others keep changing what {message.sub_topic[:80]!r} retains")

    async def _place_of(self, message: Message) -> StoredMessage:
        for found in await self._store.finder.messages_by_id(message.message_id):
            if (found.topic, found.sub_topic) == (message.topic, message.sub_topic):
                return found
        raise EntrepotError(Code.UNAVAILABLE, "a retained message cannot be looked up in its queue now")

    async def _last_since(self, message: StoredMessage) -> StoredMessage:
        """Return the last retained message of its name in its queue, from its own place on."""
        messages, topic, queue_id, name = self._store.messages, message.topic, message.queue_id, message.sub_topic
        last, at = message, message.queue_offset + 1
        while True:
            offsets, following = await messages.matching_offsets(topic, queue_id, name, at, PAGE)
            for offset in reversed(offsets):
                found = next(iter(await messages.read(topic, queue_id, offset, 1)), message)
                if found.queue_offset == offset and found.sub_topic == name and SystemProperty.RETAIN in found.system:
                    last = found
                    break
            if following <= at:
                return last
            at = following
