"""The ports of a RocketMQ cluster, made of the parts that speak to it."""

from __future__ import annotations

from entrepot.domain.errors import EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.domain.pin import Pin
from entrepot.domain.ports.facts import Facts
from entrepot.domain.tiering import TierStatus
from entrepot.store_client.rocketmq.dead_letters import DeadLetters
from entrepot.store_client.rocketmq.reading import Reading
from entrepot.store_client.rocketmq.receiving import Receiving
from entrepot.store_client.rocketmq.sending import Sending
from entrepot.store_client.rocketmq.settling import Settling
from entrepot.store_client.rocketmq.timers import RocketMqTimers
from entrepot.store_client.rocketmq.topology import RocketMqTopology
from entrepot.store_client.rocketmq.transactions import RocketMqTransactions


class RocketMqMessages:
    """Implements `domain.ports.Messages`.  Beyond the port's rules for `append`: further queues give UNSUPPORTED; the
    cluster's refusals enter the confirmation's list until it is settled."""

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

    def __init__(
        self, receiving: Receiving, settling: Settling, topology: RocketMqTopology, dead_letters: DeadLetters
    ) -> None:
        self.pop, self.release_waiting = receiving.pop, receiving.release_waiting
        self.acknowledge, self.reject = settling.acknowledge, settling.reject
        self.change_invisible_duration = settling.change_invisible_duration
        self.reset_group = topology.reset_group
        self.resend_dead_letters = dead_letters.resend


class RocketMqCondition:
    """Implements `domain.ports.Condition`.  A cluster that is away comes back; the keeper of its facts may
    fail."""

    def __init__(
        self,
        facts: Facts | None,
        sending: Sending,
        receiving: Receiving,
        timers: RocketMqTimers,
        transactions: RocketMqTransactions,
    ) -> None:
        self._facts = facts
        self._sending, self._receiving = sending, receiving
        self._timers, self._transactions = timers, transactions

    @property
    def failure(self) -> EntrepotError | None:
        return None if self._facts is None else self._facts.failure

    @property
    def damage(self) -> list[str]:
        return [] if self._facts is None else self._facts.damage

    async def measurements(self) -> dict[str, Histogram]:
        return {"append": self._sending.took, "pop": self._receiving.took}

    async def gauges(self) -> dict[str, float]:
        return {
            "timing_messages": float(self._timers.waiting),
            "half_messages": float(self._transactions.waiting),
            "unconfirmed_messages": float(self._sending.waiting),
            **({} if self._facts is None else self._facts.gauges()),
        }

    async def tiering(self) -> list[TierStatus]:
        return []

    async def pins(self) -> list[Pin]:
        return []
