"""RetainedMessages: the retained messages of topic names, as this gateway sees and changes them.

The messages are whole in the store's key-values; this gateway has only their names, sizes and expiries, from
WatchedKeys. Invariants: an expired message is not delivered; the sweep deletes a message only if it is still the
expired one.

ADR 20: retained messages are key-values.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.key_value import MAX_VALUE_BYTES, KeyValue, KeyValueChange, KeyValueEvent
from entrepot.domain.message import Message, SystemProperty, as_texts
from entrepot.domain.ports import Store
from entrepot.domain.retained import (
    RETAINED_PREFIX,
    RetainedLimits,
    RetainedMessage,
    expiry_of,
    is_over,
    name_in_key,
    retained_key,
)
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.key_values.watched_keys import WatchedKeys
from entrepot.gateway.messaging.answer import Answer
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.messaging.send import Refusals, Sender
from entrepot.gateway.retained.index import RetainedIndex
from entrepot.gateway.retained.log_order import LogOrder
from entrepot.gateway.retained.record import decode_retained, encode_retained, head_of
from entrepot.gateway.retained.writer import NameChange, RetainedWriter
from entrepot.gateway.work.periodic_work import PeriodicWork

PART: Final = "retained"
READ_NAMES: Final = 1000
READ_BYTES: Final = 4 << 20
"""Messages, and bytes of them, that are asked for at once."""
UNKNOWN_BYTES: Final = 64 << 10
"""Assumed size of a message whose name is not known here, in bytes."""
NEW_ID: Final = bytes(16)
"""As long as the id that a message without one gets before it is kept."""
SWEEP_SECONDS: Final = 30.0
MAX_SWEPT: Final = 10_000
"""Expired messages that one sweep deletes at most."""
SWEEP_BATCH: Final = 100
"""Deletions of one write, which fails as a whole if one of the messages was replaced meanwhile."""

OnKept = Callable[[EntrepotError | None], None]

log = structlog.get_logger(__name__)


class RetainedMessages:
    """The retained messages of one store. `start` before the first question, `close` at the end."""

    def __init__(self, store: Store, clock: Clock, limits: RetainedLimits) -> None:
        self._clock = clock
        self.limits = limits
        self._index = RetainedIndex()
        self._hashed: dict[str, str] = {}
        """Names by their keys, for keys without the name."""
        self._keys = WatchedKeys(
            store.key_values, RETAINED_PREFIX, self._take, lambda: map(retained_key, self._index.names())
        )
        self._writer = RetainedWriter(self._keys.write)
        self.order = LogOrder(store, clock, self._keys)
        self.sweeping = PeriodicWork("retained messages that expired", SWEEP_SECONDS, self.sweep)
        self._refusal: EntrepotError | None = None

    @property
    def count(self) -> int:
        """Retained messages, including expired ones that are not swept yet."""
        return self._index.count

    @property
    def size_bytes(self) -> int:
        """Bytes of these, with their names and properties."""
        return self._index.size_bytes

    @property
    def is_complete(self) -> bool:
        """True if all names are known: not before `start`, nor while the store is away."""
        return self._keys.is_complete

    async def start(self) -> None:
        """Learn the names, in the background while the key-values are away. Without any, nothing is retained."""
        try:
            await self._keys.start()
        except EntrepotError as error:
            if error.code is Code.UNSUPPORTED:
                self._refusal = EntrepotError(Code.UNSUPPORTED, f"nothing can be retained: {error.message}")
                return
            log.warning("retained messages are not all known yet", problem=error.message)
            self._keys.go_on()
        self.sweeping.start()

    async def close(self) -> None:
        """Write what is pending, and stop."""
        try:
            await self._writer.settle()
        finally:
            self._keys.close()
            await self.sweeping.close()

    # -- keeping -----------------------------------------------------------------------------------------------------

    def refusal(self, message: Message) -> EntrepotError | None:
        """The reason to refuse a message before it is published: MESSAGE_BODY_TOO_LARGE, TOO_MANY_REQUESTS (a limit is
        reached), UNSUPPORTED (by the store)."""
        if self._refusal is not None:
            return self._refusal
        if not message.body:
            return None
        limits, index, writer = self.limits, self._index, self._writer
        before = index.size_of(message.sub_topic)
        others = index.size_bytes + writer.waiting_bytes - (before or 0)
        size = _size_at_most(message)
        if size > limits.max_message_bytes or others + size > limits.max_bytes:
            size = len(encode_retained(replace(message, message_id=message.message_id or NEW_ID)))
        if size > limits.max_message_bytes:
            return EntrepotError(
                Code.MESSAGE_BODY_TOO_LARGE,
                f"a retained message has at most {limits.max_message_bytes} bytes with its properties, not {size}",
            )
        if before is None and index.count + writer.waiting_names >= limits.max_messages:
            return EntrepotError(Code.TOO_MANY_REQUESTS, f"{limits.max_messages} messages are retained already")
        if others + size > limits.max_bytes:
            return EntrepotError(Code.TOO_MANY_REQUESTS, f"there is no room in the {limits.max_bytes} bytes retained")
        return None

    def keep(self, messages: Sequence[Message], on_kept: OnKept) -> None:
        """Replace the retained message of each name (`sub_topic`), or delete it for an empty body.

        `on_kept` is called when all are durable, or with the failure; then some of them may be kept. Limits are checked
        before (`refusal`); values that no key-value can hold are refused here.
        """
        changes = [self._change(message) for message in messages]
        failure = self._refusal
        if any(change.value is not None and len(change.value) > MAX_VALUE_BYTES for change in changes):
            failure = EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, "the message is too large to be retained")
        if failure is not None:
            asyncio.get_running_loop().call_soon(on_kept, failure)
        else:
            self._writer.write(changes, on_kept)

    async def publish(self, messages: Sequence[Message], sender: Sender) -> Refusals:
        """Keep those that are to be retained, then send all; return the refusals. One over a limit is sent, not kept,
        and noted: its publisher, such as a will's, is not there to be told. Raises what the store raises."""
        wanted = []
        for message in messages:
            if SystemProperty.RETAIN not in message.system:
                continue
            if (over := self.refusal(message)) is None:
                wanted.append(message)
            else:
                reason = f"published, but not retained: {over.message}"
                sender.incidents.note(PART, Outcome.LEFT_OUT, reason, place=message.sub_topic)
        await self.keep_first(wanted, sender)
        return await self.published(messages, wanted, sender.send_and_wait(messages))

    async def keep_first(self, wanted: Sequence[Message], sender: Sender) -> None:
        """Keep messages that limits allowed (`refusal`), before they are live: no new subscriber misses them. They are
        kept whatever came meanwhile: their publishers have no other answer. Raises what the store raises."""
        for message in wanted:
            message.message_id = message.message_id or sender.new_message_id()
        if wanted:
            self.order.begin(wanted)
            kept: Answer[None] = Answer()
            self.keep(wanted, kept)
            try:
                await kept
            except BaseException:
                await self.order.end(wanted, ())
                raise

    async def published(
        self, messages: Sequence[Message], kept: Sequence[Message], sending: Awaitable[Refusals]
    ) -> Refusals:
        """Return the refusals of messages that are being sent, once the log's last ones are retained. `kept`: those
        that were kept first. Raises what the store raises."""
        stored: list[Message] = []
        try:
            refusals = await sending
            refused = {id(each) for each, refusal in zip(messages, refusals or (), strict=False) if refusal is not None}
            stored = [message for message in kept if id(message) not in refused]
            return refusals
        finally:
            await self.order.end(kept, stored)

    def _change(self, message: Message) -> NameChange:
        name = message.sub_topic
        if not message.body:
            return NameChange(name, retained_key(name), None, is_new=False)
        value = encode_retained(message)
        return NameChange(name, retained_key(name), value, is_new=name not in self._index)

    async def delete(self, names: Sequence[str]) -> int:
        """Delete retained messages; return the number that existed, as far as is known here. Raises what made the store
        fail."""
        count = sum(name in self._index for name in names)
        deleted: Answer[None] = Answer()
        self._writer.write([NameChange(name, retained_key(name), None, False) for name in names], deleted)
        await deleted
        return count

    # -- asking ------------------------------------------------------------------------------------------------------

    def pages(self, topic_filter: str, after: str | None = None) -> Iterator[list[str]]:
        """Yield names that match a filter and have not expired, in pages of bounded work; a page may be empty.

        The event loop may run between two pages: a name that is there all the time comes once. With `after`, names come
        in the order of their levels, those after it ("": all).
        """
        return self._index.pages(topic_filter, self._clock.now_ms(), after)

    async def read(self, names: Sequence[str]) -> list[RetainedMessage]:
        """Return the present messages of the names, in order, without missing and expired ones. The caller bounds the
        memory: by the names, or with `batches`."""
        return [message async for batch in self.batches(names) for message in batch]

    async def batches(self, names: Sequence[str]) -> AsyncIterator[list[RetainedMessage]]:
        """Yield the messages in parts of about READ_BYTES."""
        for part in self._parts(names):
            found = []
            for kept in await self._get(part):
                message = _decoded(kept)
                if message is not None and not is_over(expiry_of(message), self._clock.now_ms()):
                    found.append(message)
            yield found

    def _parts(self, names: Sequence[str]) -> Iterator[Sequence[str]]:
        begin = size = 0
        for at, name in enumerate(names):
            more = self._index.size_of(name) or UNKNOWN_BYTES
            if at > begin and (at - begin == READ_NAMES or size + more > READ_BYTES):
                yield names[begin:at]
                begin, size = at, 0
            size += more
        if begin < len(names):
            yield names[begin:]

    async def _get(self, names: Sequence[str]) -> list[KeyValue]:
        """Return the existing key-values; the index learns from them."""
        found = await self._keys.look([retained_key(name) for name in names])
        return [kept for kept in found if kept is not None]

    # -- the index ---------------------------------------------------------------------------------------------------

    def _take(self, events: Sequence[KeyValueEvent]) -> None:
        for event in events:
            hashed = self._hashed.get(event.key)
            name = hashed or (_name_of(event.key, event.value) if event.value is not None else name_in_key(event.key))
            if name is not None:
                self._apply(event.key, name, event.value)

    def _apply(self, key: str, name: str, value: bytes | None) -> None:
        expires_at_ms = None if value is None else _expiry(key, value)
        is_hashed = name_in_key(key) is None
        if value is None or expires_at_ms is None:
            self._index.remove(name)
            if is_hashed:
                self._hashed.pop(key, None)
            return
        self._index.put(name, len(value), expires_at_ms)
        if is_hashed:
            self._hashed[key] = name

    # -- the sweep ---------------------------------------------------------------------------------------------------

    async def sweep(self) -> int:
        """Delete expired messages, at most MAX_SWEPT; return their number. Raises what made the store fail."""
        names = self._index.due(self._clock.now_ms(), MAX_SWEPT)
        swept = 0
        for begin in range(0, len(names), SWEEP_BATCH):
            for part in self._parts(names[begin : begin + SWEEP_BATCH]):
                swept += await self._delete_expired(part)
        return swept

    async def _delete_expired(self, names: Sequence[str]) -> int:
        now_ms = self._clock.now_ms()
        gone: list[KeyValueChange] = []
        for kept in await self._get(names):
            expires_at_ms = _expiry(kept.key, kept.value)
            if expires_at_ms is not None and is_over(expires_at_ms, now_ms):
                gone.append(KeyValueChange(kept.key, None, kept.version))
        if not gone or await if_unchanged(self._keys.write(gone)) is None:
            return 0  # one was replaced, or another gateway was first: the next sweep looks again
        return len(gone)


def _size_at_most(message: Message) -> int:
    """An upper limit of a message's stored size, without encoding it."""
    size = 256 + len(message.body) + 4 * (2 * len(message.sub_topic) + len(message.topic))
    size += 4 * (len(message.tag) + len(message.message_group)) + sum(4 * len(key) + 5 for key in message.keys)
    pairs = (*message.properties, *as_texts(message.system).items())
    return size + sum(4 * (len(name) + len(value)) + 10 for name, value in pairs)


def _decoded(kept: KeyValue) -> RetainedMessage | None:
    try:
        return decode_retained(kept)
    except CorruptedError as error:
        log.warning("a retained message cannot be read", problem=error.message)
        return None


def _name_of(key: str, value: bytes) -> str | None:
    try:
        return name_in_key(key) or head_of(key, value).name
    except CorruptedError as error:
        log.warning("a retained message cannot be read", problem=error.message)
        return None


def _expiry(key: str, value: bytes) -> int | None:
    try:
        return head_of(key, value).expires_at_ms
    except CorruptedError as error:
        log.warning("a retained message cannot be read", problem=error.message)
        return None
