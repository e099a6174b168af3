"""The ports of a RocketMQ cluster, made of the parts that speak to it."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain import ports
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.pin import Pin
from entrepot.domain.tiering import TierStatus
from entrepot.domain.timing import TimedMessage, TimerCursor
from entrepot.domain.transaction import HalfMessage
from tests.support.rocketmq.sdk.absent import refuse
from tests.support.rocketmq.sdk.pending import Pending
from tests.support.rocketmq.sdk.reading import Reading
from tests.support.rocketmq.sdk.receiving import Receiving
from tests.support.rocketmq.sdk.sending import Sending
from tests.support.rocketmq.sdk.settling import Settling


class RocketMqMessages:
    """Implements `domain.ports.Messages`.  Beyond the port's rules for `append`: the topic must be known here
    (`Topology.topic`); further queues give UNSUPPORTED; the cluster's refusals enter the confirmation's list until it
    is settled."""

    def __init__(self, sending: Sending, reading: Reading) -> None:
        self._sending = sending
        self.append, self.when_relieved = sending.append, sending.when_relieved
        self.read, self.pull, self.tail = reading.read, reading.pull, reading.tail
        self.matching_offsets, self.offset_at, self.bounds = reading.matching_offsets, reading.offset_at, reading.bounds

    @property
    def backlogged(self) -> bool:
        return self._sending.backlogged


class RocketMqConsumption:
    """Implements `domain.ports.Consumption`."""

    def __init__(self, receiving: Receiving, settling: Settling, reading: Reading) -> None:
        self.pop, self.release_waiting = receiving.pop, receiving.release_waiting
        self.acknowledge, self.reject = settling.acknowledge, settling.reject
        self.change_invisible_duration = settling.change_invisible_duration
        self.reset_group = reading.reset_group

    async def resend_dead_letters(
        self, group: str, queue_offsets: Sequence[int], queue_id: int = 0
    ) -> list[EntrepotError | None]:
        refuse("resend dead letters", "read the dead-letter topic, and send them to their topic again")


class RocketMqTimers:
    """Implements `domain.ports.Timers`."""

    def __init__(self, pending: Pending) -> None:
        self.recall = pending.recall

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        refuse("give a timed message another time", "recall it, and send it again")

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        refuse("list timed messages")


class RocketMqTransactions:
    """Implements `domain.ports.Transactions`."""

    def __init__(self, sending: Sending, pending: Pending) -> None:
        self._sending, self._pending = sending, pending
        self.end_transactions = pending.end_transactions

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        return self._sending.append(messages, is_half=True, refusals=self._pending.refuse_unnamed(messages))

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        return self._pending.take_checks(topics, max_messages)

    async def half_messages(self, topic: str | None = None, *, after: int = -1, limit: int = 100) -> list[HalfMessage]:
        refuse("list half messages")


class RocketMqCondition:
    """Implements `domain.ports.Condition`.  A cluster that is away comes back; a side store may fail."""

    def __init__(self, side: ports.Store | None, sending: Sending, receiving: Receiving, pending: Pending) -> None:
        self._side = side
        self._sending, self._receiving, self._pending = sending, receiving, pending

    @property
    def failure(self) -> EntrepotError | None:
        return None if self._side is None else self._side.condition.failure

    @property
    def damage(self) -> list[str]:
        return [] if self._side is None else self._side.condition.damage

    async def measurements(self) -> dict[str, Histogram]:
        return {"append": self._sending.took, "pop": self._receiving.took}

    async def gauges(self) -> dict[str, float]:
        return {**self._pending.gauges(), "unconfirmed_messages": float(self._sending.waiting)}

    async def tiering(self) -> list[TierStatus]:
        return []

    async def pins(self) -> list[Pin]:
        return []
