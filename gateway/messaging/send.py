"""Send: from every listener into the store, one batch per tick of the event loop.

All messages that arrive during one tick, from any number of connections, become one append in the order of arrival, so
each connection's order holds. Each call of `send` gets its outcome through one callback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Final, Protocol

import structlog

from entrepot.domain.callbacks import call_each
from entrepot.domain.clock import Clock
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import BY_SUB_TOPIC, Message, ordering_key
from entrepot.domain.ports import Store
from entrepot.domain.routing.queue_selector import RoundRobin, priority_queues, queue_for_key
from entrepot.domain.topic import Topic, TopicType
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.messaging.answer import Answer
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.new_topics import NewTopics
from entrepot.gateway.messaging.provenance import Provenance
from entrepot.gateway.messaging.send_call import Call, Source, joined, without_withdrawn
from entrepot.gateway.messaging.send_call import OnSent as OnSent
from entrepot.gateway.messaging.send_call import Refusals as Refusals
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.messaging.traffic import Traffic
from entrepot.gateway.messaging.withdrawn import WithdrawnPlaces

log = structlog.get_logger(__name__)

MAX_WAITING_MESSAGES: Final = 100_000
"""Messages that may wait for the end of the tick before producers are asked to pause."""


def minted_at_ms(message_id: bytes) -> int:
    """Return the epoch milliseconds at which a Sender, at any gateway, made an id."""
    return int.from_bytes(message_id[:6], "big")


class Bindings(Protocol):
    """Queues that are bound to published messages."""

    is_needed: bool
    """True if there are any bindings."""

    def add_queues(self, messages: Sequence[Message], now_ms: int) -> None:
        """Add to the messages' further queues."""


class Admission(Protocol):
    """A check of messages before they are taken."""

    def examine(self, messages: Sequence[Message], on_sent: OnSent) -> tuple[Sequence[Message], OnSent]:
        """Return the messages to take, and their callback; refusals go to the given `on_sent`."""


class Sender:
    """The one way into the store: chooses the queue of messages without one, mints ids, and batches."""

    def __init__(self, store: Store, topology: Topology, clock: Clock, identity: Identity | None = None) -> None:
        self._store = store
        self._topology = topology
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._calls: list[Call] = []
        """Calls of this tick."""
        self._waiting = 0
        """Its messages."""
        self._new_topics = NewTopics(topology, self._go_on)
        self._is_scheduled = False
        self._relieved: list[tuple[Callable[[], None], Source]] = []
        self._round_robin = RoundRobin()
        self._identity = identity or Identity()
        self._count = count()
        self.traffic = Traffic()
        self.provenance = Provenance(store, self._identity)
        self.incidents = Incidents(clock)
        self.bindings: Bindings | None = None
        """Bindings that add further queues; None for no bindings."""
        self.admission: Admission | None = None
        """Check of the messages; None for no check."""
        self._under_way = 0
        self._idle: asyncio.Future[None] | None = None
        self.sent = 0
        self.refused = 0

    def send(self, messages: Sequence[Message], on_sent: OnSent, source: Source = None) -> None:
        """Take messages; `on_sent` is called when they are durable, refused, or the store failed.  Until then the
        sequence stays as it is.  Messages of one `source` are stored in the order of its calls, also where one waits
        for a new topic; without one the call has no order with others."""
        if self.admission is not None:
            messages, on_sent = self.admission.examine(messages, on_sent)
        self._calls.append(Call(messages, on_sent, source))
        self._waiting += len(messages)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def new_message_id(self) -> bytes:
        """Return an id for a message that must be known before it is sent."""
        number = next(self._count) & 0xFFFFFFFF
        return self._clock.now_ms().to_bytes(6, "big") + self._identity.origin + number.to_bytes(4, "big")

    async def send_and_wait(self, messages: Sequence[Message]) -> Refusals:
        """Send and return the refusals. Raises what made all of them fail."""
        sent: Answer[Refusals] = Answer()
        self.send(messages, sent)
        return await sent

    async def send_half_and_wait(self, messages: Sequence[Message]) -> Refusals:
        """Store half messages, which wait for the end of their transaction. Raises what made all of them fail."""
        for name in sorted(
            {message.topic for message in messages if self._store.topology.topic(message.topic) is None}
        ):
            await self._topology.ensure(name)
        self.place(messages)
        refusals = await self._store.transactions.append_half(messages).wait()
        self.count(messages, refusals)
        return refusals

    def place(self, messages: Sequence[Message]) -> None:
        """Set the queues of each message: its own, and those bound to its name."""
        self._bind(messages)
        self._stamp(messages)

    async def settle(self) -> None:
        """Return when everything sent before is settled. Raises what made the store fail."""
        await self.send_and_wait([])
        while self._under_way:
            self._idle = self._idle or self._loop.create_future()
            await self._idle
            await self.send_and_wait([])  # what waited for a new topic is behind it

    @property
    def backlogged(self) -> bool:
        """True if producers should pause."""
        return self._waiting > MAX_WAITING_MESSAGES or self._store.messages.backlogged

    def is_full(self, source: Source) -> bool:
        """True if this source should pause: all should, or much of its own waits for new topics."""
        return self.backlogged or self._new_topics.is_full(source)

    def when_relieved(self, callback: Callable[[], None], source: Source = None) -> None:
        """Call back once when `is_full` has ended for this source."""
        if self._store.messages.backlogged:
            self._store.messages.when_relieved(callback)
        else:
            self._relieved.append((callback, source))

    def _flush(self) -> None:
        self._is_scheduled = False
        calls, self._calls, self._waiting = self._calls, [], 0
        calls = without_withdrawn(calls)
        messages = joined(calls)
        try:
            self._bind(messages)
        except Exception:  # noqa: BLE001 - a fault of our own: each call by itself, it costs the one that has it
            calls = [call for call in calls if self._is_bound(call)]
            messages = joined(calls)
        topic = self._store.topology.topic
        missing = {name for name in {message.topic for message in messages} if topic(name) is None}
        if missing or not self._new_topics.is_idle:
            self._admit(calls, missing)
        elif calls:
            self._append(messages, calls)
        self._relieve()

    def _bind(self, messages: Sequence[Message]) -> None:
        if self.bindings is not None and self.bindings.is_needed:
            self.bindings.add_queues(messages, self._clock.now_ms())

    def _is_bound(self, call: Call) -> bool:
        """Bind the messages of one call; False if they cannot be, which it is told."""
        try:
            self._bind(call.messages)
        except Exception:
            log.exception("messages could not be bound to queues")
            call.tell(EntrepotError(Code.INTERNAL_ERROR, "the messages could not be bound to queues"))
            return False
        return True

    def _admit(self, calls: list[Call], missing: set[str]) -> None:
        """Append what need not wait for a new topic."""
        held_before = self._new_topics.calls
        ready = self._new_topics.admit(calls, missing)
        self.note_under_way(self._new_topics.calls - held_before)
        if ready:
            self._append(joined(ready), ready)

    def _go_on(self, released: list[Call]) -> None:
        """Append what waited for a new topic."""
        ready = without_withdrawn(released)
        if ready:
            self._append(joined(ready), ready)
        self.note_under_way(-len(released))
        self._relieve()

    def _relieve(self) -> None:
        if not self._relieved:
            return
        if self._store.messages.backlogged:
            self._store.messages.when_relieved(self._relieve)
            return
        waiting, self._relieved = self._relieved, []
        self._relieved = [each for each in waiting if self._new_topics.is_full(each[1])]
        relieved = [callback for callback, source in waiting if not self._new_topics.is_full(source)]
        for fault in call_each(relieved):
            log.error("a callback of relief failed", exc_info=fault)

    def _append(self, messages: list[Message], calls: list[Call]) -> None:
        try:
            self._append_now(messages, calls)
        except EntrepotError as failure:
            _tell_all(calls, failure)
        except Exception:  # a fault of our own: every caller must get an answer
            log.exception("an append failed")
            _tell_all(calls, EntrepotError(Code.INTERNAL_ERROR, "the messages could not be stored"))

    def _append_now(self, messages: list[Message], calls: list[Call]) -> None:
        self._stamp(messages)
        _Sending(self, messages, calls, self._store.messages.append(messages)).await_settled()

    def _stamp(self, messages: Sequence[Message]) -> None:
        """Give each an id, a time, a queue and a hash, where it has none."""
        now_ms, number, topic_of = self._clock.now_ms(), self._count, self._store.topology.topic
        stamp = now_ms.to_bytes(6, "big") + self._identity.origin
        for message in messages:
            if not message.message_id:
                message.message_id = stamp + (next(number) & 0xFFFFFFFF).to_bytes(4, "big")
            if not message.born_time_ms:
                message.born_time_ms = now_ms
            if message.queue_id < 0 and (topic := topic_of(message.topic)) is not None:
                message.queue_id = self._queue(message, topic)
            if not message.filter_hash and (message.sub_topic or message.tag):
                message.filter_hash = filter_hash(message.sub_topic, message.tag)

    def note_under_way(self, change: int) -> None:
        """Count calls whose parts are answered one by one, so that `settle` can wait for them."""
        self._under_way += change
        if not self._under_way and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    def append_again(self, messages: Sequence[Message]) -> Confirmation:
        """Append messages that no broker took, as they are."""
        return self._store.messages.append(messages)

    def count(self, messages: Sequence[Message], refusals: Refusals) -> None:
        """Count settled messages."""
        self.sent += len(messages)
        self.traffic.count_in(messages, refusals)
        if refusals is not None:
            self.refused += sum(refusal is not None for refusal in refusals)

    def move(self, message: Message) -> bool:
        """Give a message that no broker took another queue; False if it is bound to its queue."""
        topic = self._store.topology.topic(message.topic)
        if topic is None or message.further_queues or ordering_key(message) or topic.type is TopicType.PRIORITY:
            return False
        message.queue_id = self._round_robin.queue(self._store.topology.queues(topic).preferred)
        return True

    def _queue(self, message: Message, topic: Topic) -> int:
        """Choose a queue by message group, else by sub-topic where the message says so, else in turn. A PRIORITY topic
        goes by priority alone."""
        queues = self._store.topology.queues(topic)
        if topic.type is TopicType.PRIORITY:
            return self._round_robin.queue(priority_queues(message, queues))
        key = message.sub_topic if message.queue_id == BY_SUB_TOPIC else ordering_key(message)
        return queue_for_key(key, queues.writable) if key else self._round_robin.queue(queues.preferred)


def _tell_all(calls: Sequence[Call], failure: EntrepotError) -> None:
    for call in calls:
        call.tell(failure)


class _Sending:
    """One batch on its way, which tells each call its part as soon as that is known. Messages that no broker took,
    because theirs has just gone, are sent once more to another, if they are free to go."""

    __slots__ = ("_calls", "_confirmation", "_messages", "_sender")

    def __init__(
        self, sender: Sender, messages: Sequence[Message], calls: list[Call], confirmation: Confirmation
    ) -> None:
        self._sender, self._messages = sender, messages
        self._calls, self._confirmation = calls, confirmation

    def await_settled(self) -> None:
        if not self._confirmation.has_parts:
            self._confirmation.when_settled(self._settled)
            return
        at = 0
        self._confirmation.is_withdrawn = WithdrawnPlaces(self._calls)
        self._sender.note_under_way(len(self._calls))
        for call in self._calls:
            size = len(call.messages)
            self._confirmation.when_settled(partial(self._part_settled, at, call), at, at + size)
            at += size

    def _settled(self, failure: EntrepotError | None) -> None:
        refusals = self._confirmation.refusals
        if failure is None:
            self._sender.count(self._messages, refusals)
        if refusals is None:
            for call in self._calls:
                call.tell(failure)
            return
        at = 0
        for call in self._calls:
            mine = refusals[at : at + len(call.messages)]
            at += len(call.messages)
            call.tell(failure, mine if any(mine) else None)

    def _part_settled(self, at: int, call: Call, failure: EntrepotError | None) -> None:
        refusals = self._confirmation.refusals
        mine = None if refusals is None else list(refusals[at : at + len(call.messages)])
        if failure is None and mine and not call.is_withdrawn and self._send_again(call, mine):
            return
        self._done(call, mine, failure)

    def _done(self, call: Call, refusals: list[EntrepotError | None] | None, failure: EntrepotError | None) -> None:
        if refusals is not None and not any(refusals):
            refusals = None
        if failure is None:
            self._sender.count(call.messages, refusals)
        self._sender.note_under_way(-1)
        call.tell(failure, refusals)

    def _send_again(self, call: Call, refusals: list[EntrepotError | None]) -> bool:
        """Send once more the messages that no broker took; True if there are some."""
        places = [
            place
            for place, refusal in enumerate(refusals)
            if refusal is not None and refusal.code == Code.UNAVAILABLE and self._sender.move(call.messages[place])
        ]
        if not places:
            return False
        again = self._sender.append_again([call.messages[place] for place in places])

        def settled(failure: EntrepotError | None) -> None:
            for number, place in enumerate(places):
                refusals[place] = None if again.refusals is None else again.refusals[number]
            self._done(call, refusals, failure)

        again.when_settled(settled)
        return True


def first_refusal(refusals: Refusals) -> EntrepotError | None:
    """The first message's refusal that is one."""
    return next((refusal for refusal in refusals or () if refusal is not None), None)
