"""Appending over several brokers: a batch is cut by broker, and each part is confirmed by itself.

A message with further queues on other brokers goes to each of them as a message of its own, in its topic there; SENT_TO
names the original one.  It is stored once on each broker.  If one accepts it and another refuses it for good, it counts
as refused.

A part in doubt of a broker with replicas goes to the next master, which stores what it does not have.  An earlier
master cannot confirm it any more, and the next one has all that it did confirm.

A broker that is away refuses what is stored nowhere.  A message that is stored in part, or that an earlier try may have
stored, is in doubt then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

from entrepot.broker.remoting.link import ConnectionLostError
from entrepot.domain.acceptance import unfit
from entrepot.domain.broker_of_queue import broker_of_queue
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import AWAY, PASSING, Code, EntrepotError
from entrepot.domain.message import Message, MessageInDoubt
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.frames import RemotingError
from entrepot.protocols.wire.message_batch import encode_messages
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.riding import Ride, Riding

FRAME_BODY_BYTES: Final = 8 << 20
"""Size of bodies beyond which a part is cut further."""

_NEVER_LEFT: Final = frozenset((Code.REQUEST_TIMEOUT, Code.TOO_MANY_REQUESTS, Code.MESSAGE_BODY_TOO_LARGE))
MAY_BE_MISSING: Final = frozenset((wire.APPEND, wire.APPEND_MISSING))
"""Operations that the next master can complete if their answer was lost."""
_PASSING: Final = PASSING | {Code.INTERNAL_ERROR}
"""Refusals of a broker that may take the same message soon."""
OnSettled = Callable[[EntrepotError | None], None]


class PartedConfirmation(Confirmation):
    """The outcome of a batch whose parts went to several brokers.  A message may be in several parts."""

    __slots__ = ("_may_be_there", "_parted", "_parts", "_pending", "_size", "_waiting")
    has_parts = True

    def __init__(self, size: int) -> None:
        super().__init__(None)
        self._size = size
        self._parts: list[tuple[Sequence[int], EntrepotError | None]] = []
        self._pending: set[int] = set()
        self._waiting: list[tuple[set[int], list[int], OnSettled]] = []
        self._parted: set[int] = set()
        self._may_be_there: set[int] = set()

    @property
    def is_pending(self) -> bool:
        """True if a part is under way."""
        return bool(self._pending)

    def add_part(self, indexes: Sequence[int]) -> int:
        """Add a part of the batch, by the places of its messages, ascending."""
        self._parts.append((indexes, None))
        self._pending.add(len(self._parts) - 1)
        return len(self._parts) - 1

    def note_parted(self, index: int) -> None:
        """Note a message that goes to several brokers."""
        self._parted.add(index)

    def note_doubtful(self, index: int) -> None:
        """Note a message that an earlier try may have stored."""
        self._may_be_there.add(index)

    def refuse(self, index: int, refusal: EntrepotError) -> None:
        """Note the refusal of one message.  One for good counts, whatever other brokers say, and when."""
        if self.refusals is None:
            self.refusals = [None] * self._size
        assert isinstance(self.refusals, list)
        known = self.refusals[index]
        if known is None or known.code in _PASSING:
            self.refusals[index] = self._told(index, refusal)

    def answered(self, indexes: Sequence[int], refusals: Sequence[EntrepotError | None]) -> None:
        """Note a broker's answer for each message of a part."""
        for index, refusal in zip(indexes, refusals, strict=True):
            if refusal is not None:
                self.refuse(index, refusal)
            elif index in self._parted:
                self._note_taken(index)

    def _note_taken(self, index: int) -> None:
        self._may_be_there.add(index)
        if self.refusals is not None and (refusal := self.refusals[index]) is not None:
            self.refuse(index, refusal)

    def _told(self, index: int, refusal: EntrepotError) -> EntrepotError:
        """Return the refusal; a doubt where the message may be stored and a broker is only away."""
        is_told = refusal.code not in _PASSING or refusal.code is Code.OUTCOME_UNKNOWN
        if is_told or index not in self._may_be_there:
            return refusal
        return EntrepotError(Code.OUTCOME_UNKNOWN, f"it may be stored already: {refusal.message}")

    def settle_part(self, part: int, failure: EntrepotError | None = None) -> None:
        """Settle a part: it is confirmed, or its outcome is unknown."""
        self._parts[part] = (self._parts[part][0], failure)
        self._pending.discard(part)
        if not self._pending:
            self.settle(self._failure_of(range(len(self._parts))))
        for pending, _, _ in self._waiting:
            pending.discard(part)
        done = [waiting for waiting in self._waiting if not waiting[0]]
        self._waiting = [waiting for waiting in self._waiting if waiting[0]]
        for _, mine, callback in done:
            callback(self._failure_of(mine))

    def _failure_of(self, parts: Sequence[int]) -> EntrepotError | None:
        return next((self._parts[part][1] for part in parts if self._parts[part][1] is not None), None)

    def when_settled(self, callback: OnSettled, first: int = 0, last: int | None = None) -> None:
        last = self._size if last is None else last
        if len(self._parts) == 1 or (first == 0 and last == self._size):
            super().when_settled(callback)
            return
        mine = [at for at, (indexes, _) in enumerate(self._parts) if _meets(indexes, first, last)]
        pending = self._pending.intersection(mine)
        if pending:
            self._waiting.append((pending, mine, callback))
        else:
            callback(self._failure_of(mine))


def _meets(indexes: Sequence[int], first: int, last: int) -> bool:
    """True if one of the ascending indexes is among `first` to `last`."""
    if not indexes or indexes[-1] < first or indexes[0] >= last:
        return False
    return any(first <= index < last for index in indexes)


@dataclass(slots=True)
class _Part:
    client: BrokerClient
    messages: list[Message]
    indexes: list[int]
    sequence: int
    operation: wire.Operation = wire.APPEND
    size: int = 0
    rides_until: float = 0.0
    """End of its wait for the next master of its broker, in seconds of the event loop."""
    sent_to: int = 0
    """Order of the master that it was sent to last (`BrokerInfo.epoch`)."""
    doubt: EntrepotError | None = None
    """Reason why its outcome is unknown: only a master of a later order than `in_doubt_at` can tell it."""
    in_doubt_at: int = 0


def _encoded(part: _Part, confirmation: PartedConfirmation) -> bytes:
    """Encode the messages of a part; those that no record can hold are refused, and leave it."""
    try:
        return encode_messages(part.messages)
    except EntrepotError:
        indexes, messages = [], []
        for index, message in zip(part.indexes, part.messages, strict=True):
            if _fits(message):
                indexes.append(index)
                messages.append(message)
            else:
                confirmation.refuse(index, unfit(message))
        part.indexes, part.messages = indexes, messages
        return encode_messages(messages)


def _fits(message: Message) -> bool:
    try:
        encode_messages([message])
    except EntrepotError:
        return False
    return True


class Appending:
    """The sender of batches to the brokers that have their queues."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._unsettled: set[PartedConfirmation] = set()
        self._riding = Riding(cluster)
        self._sequence = count()

    def append(self, messages: Sequence[Message], operation: wire.Operation = wire.APPEND) -> Confirmation:
        confirmation = PartedConfirmation(len(messages))
        # All parts are known before one is sent: one that fails at once must not settle the others.
        cut = self._cut(messages, confirmation, operation)
        parts = [(confirmation.add_part(part.indexes), part) for part in cut]
        for number, part in parts:
            self._send(number, part, confirmation)
        if not confirmation.is_pending:
            return confirmation if confirmation.settled else confirmation.settled_now()
        self._unsettled.add(confirmation)
        confirmation.when_settled(lambda failure: self._unsettled.discard(confirmation))
        return confirmation

    async def settle(self) -> None:
        """Return when everything sent is settled; deadlines settle it at the latest."""
        while self._unsettled:
            with suppress(EntrepotError):
                await next(iter(self._unsettled)).wait()

    def _cut(
        self, messages: Sequence[Message], confirmation: PartedConfirmation, operation: wire.Operation
    ) -> list[_Part]:
        parts: list[_Part] = []
        current: dict[tuple[int, bool], _Part] = {}
        confirmed_here = self._cluster.confirmed_here

        def put(message: Message, index: int) -> None:
            number = broker_of_queue(message.queue_id)
            key = number, message.topic in confirmed_here
            part = current.get(key)
            if part is None or part.size > FRAME_BODY_BYTES:
                client = self._cluster.of_number(number)
                if client is None:
                    text = f"there is no queue {message.queue_id} of topic {message.topic!r}"
                    confirmation.refuse(index, EntrepotError(Code.TOPIC_NOT_FOUND, text))
                    return
                part = current[key] = _Part(client, [], [], next(self._sequence), operation)
                parts.append(part)
            if message.__class__ is MessageInDoubt and part.operation is wire.APPEND:
                part.operation = wire.APPEND_MISSING
            part.messages.append(message)
            part.indexes.append(index)
            part.size += len(message.body)

        for index, message in enumerate(messages):
            if message.__class__ is MessageInDoubt:
                confirmation.note_doubtful(index)
            if not message.further_queues:
                put(message, index)
                continue
            copies = _by_broker(message)
            if len(copies) > 1:
                confirmation.note_parted(index)
            for each in copies:
                put(each, index)
        return parts

    def _send(self, number: int, part: _Part, confirmation: PartedConfirmation) -> None:
        if part.rides_until:
            _leave_withdrawn(part, confirmation)
        try:
            part.client.check_ready()
            payload = _encoded(part, confirmation)
        except ConnectionLostError as refusal:
            self._ride(number, part, confirmation, refusal)
            return
        except EntrepotError as refusal:
            _refuse_all(confirmation, part, refusal)
            confirmation.settle_part(number)
            return
        if not part.messages:
            confirmation.settle_part(number)
            return
        part.sent_to = _order(part.client)
        if part.doubt is not None and part.sent_to <= part.in_doubt_at:  # the same master may still have to take it
            confirmation.settle_part(number, part.doubt)
            return
        sent_at = self._loop.time()
        part.client.send(part.operation, payload, partial(self._answered, part, confirmation, number, sent_at))

    def _ride(self, number: int, part: _Part, confirmation: PartedConfirmation, refusal: EntrepotError) -> None:
        """Let a part wait for the next master, if its broker has replicas; else refuse it."""

        def go() -> None:
            part.client = self._cluster.of_number(broker) or part.client
            self._send(number, part, confirmation)

        def give_up() -> None:
            self._tell_refused(number, part, confirmation, refusal)

        if part.operation in MAY_BE_MISSING:  # meanwhile its client may have sent it again, through another gateway
            part.operation = wire.APPEND_MISSING
        broker = part.client.number
        part.rides_until = part.rides_until or self._riding.deadline()
        if not self._riding.take(part.client, Ride(part.sequence, broker, part.size, part.rides_until, go, give_up)):
            give_up()

    def _tell_refused(self, number: int, part: _Part, confirmation: PartedConfirmation, refusal: EntrepotError) -> None:
        """Give up a part: its messages are refused, or in doubt for good."""
        if part.doubt is None:
            _refuse_all(confirmation, part, refusal)
        confirmation.settle_part(number, part.doubt)

    def _is_in_doubt(self, number: int, part: _Part, confirmation: PartedConfirmation, doubt: EntrepotError) -> None:
        """Let the next master decide a part in doubt."""
        if part.operation not in MAY_BE_MISSING:
            confirmation.settle_part(number, doubt)
            return
        part.operation, part.doubt, part.in_doubt_at = wire.APPEND_MISSING, doubt, part.sent_to
        current = self._cluster.of_number(part.client.number)
        if current is not None and current.is_ready and _order(current) > part.in_doubt_at:
            part.client = current
            self._send(number, part, confirmation)
        else:
            self._ride(number, part, confirmation, doubt)

    def _answered(
        self,
        part: _Part,
        confirmation: PartedConfirmation,
        number: int,
        sent_at: float,
        error: EntrepotError | None,
        payload: bytes,
    ) -> None:
        if error is None:
            self._taken(part, confirmation, number, sent_at, payload)
            return
        if error.code in AWAY:
            self._cluster.failed(part.client)
        if error.code is Code.UNAVAILABLE:
            self._ride(number, part, confirmation, error)  # it never left here, or met a store that had failed before
        elif error.code in _NEVER_LEFT:
            self._tell_refused(number, part, confirmation, error)  # known not to be taken
        elif error.code is Code.OUTCOME_UNKNOWN:
            self._is_in_doubt(number, part, confirmation, error)
        else:
            confirmation.settle_part(number, error)

    def _taken(
        self, part: _Part, confirmation: PartedConfirmation, number: int, sent_at: float, payload: bytes
    ) -> None:
        """Settle a part by the broker's answer for each message."""
        self._cluster.took(part.client, self._loop.time() - sent_at)
        try:
            refusals = _refusals_in(payload, len(part.indexes))
        except RemotingError as problem:
            confirmation.settle_part(number, EntrepotError(Code.OUTCOME_UNKNOWN, str(problem)))
            return
        first = refusals[0] if refusals else None
        if first is not None and all(each is not None and each.message == wire.LEAVES for each in refusals):
            self._ride(number, part, confirmation, first)  # a master that is about to leave
            return
        confirmation.answered(part.indexes, refusals)
        confirmation.settle_part(number)


def _order(client: BrokerClient) -> int:
    """Return the order of the master that a client is connected to."""
    return 0 if client.known is None else client.known.epoch


def _refusals_in(payload: bytes, size: int) -> Sequence[EntrepotError | None]:
    """Return the answer's refusals by message.  Raises RemotingError."""
    assert wire.APPEND.result is not None
    refusals: Sequence[EntrepotError | None] = wire.APPEND.result.decode(payload) or [None] * size
    if len(refusals) != size:
        raise RemotingError(f"an answer for {len(refusals)} messages, {size} were sent")
    return refusals


def _leave_withdrawn(part: _Part, confirmation: PartedConfirmation) -> None:
    """Let messages that were withdrawn while they waited leave a part; one in doubt stays so."""
    is_withdrawn = confirmation.is_withdrawn
    if is_withdrawn is None or not any(map(is_withdrawn, part.indexes)):
        return
    refusal = EntrepotError(Code.OUTCOME_UNKNOWN, "an earlier message of this sender failed")
    indexes, messages = [], []
    for index, message in zip(part.indexes, part.messages, strict=True):
        if is_withdrawn(index):
            confirmation.refuse(index, refusal)
        else:
            indexes.append(index)
            messages.append(message)
    part.indexes, part.messages = indexes, messages


def _refuse_all(confirmation: PartedConfirmation, part: _Part, refusal: EntrepotError) -> None:
    for index in part.indexes:
        confirmation.refuse(index, refusal)


def _by_broker(message: Message) -> list[Message]:
    """Return the message as each broker with queues for it gets it."""
    places: dict[int, list[tuple[str, int]]] = {}
    for place in ((message.topic, message.queue_id), *message.further_queues):
        places.setdefault(broker_of_queue(place[1]), []).append(place)
    return [message.placed(some) for some in places.values()]
