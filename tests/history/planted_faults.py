"""Stores with one fault each.  What is said of a fault is what a client of such a store would suffer."""

from __future__ import annotations

from typing import Final

from tests.history.model_clients import QUEUES, TOPIC
from tests.history.model_store import Claim, GroupKey, ModelMessage, ModelStore
from tests.history.operations import Item


class LosesTheEnd(ModelStore):
    """The next master lacks what was confirmed last, and uses its offsets anew."""

    def failover(self) -> None:
        for messages in self.queues.values():
            del messages[-2:]


class Invents(ModelStore):
    """A message comes from nowhere."""

    def failover(self) -> None:
        self.publish(TOPIC, 0, [ModelMessage("nobody's", "nothing")])


class KeepsWhatItRefused(ModelStore):
    def refuse(self, topic: str, queue: int, messages: list[ModelMessage]) -> None:
        self.publish(topic, queue, messages)


class StoresTwice(ModelStore):
    """A producer's batch is taken again, as it was sent again on the way."""

    def publish(self, topic: str, queue: int, messages: list[ModelMessage]) -> None:
        again = messages if self.chance.random() < 0.1 else []
        super().publish(topic, queue, [*messages, *again])


class ChangesBytes(ModelStore):
    def failover(self) -> None:
        messages = self.queues[TOPIC, 0]
        if messages:
            messages[-1] = ModelMessage(messages[-1].name, "corrupted", messages[-1].message_group)


class AnswersOfAnotherQueue(ModelStore):
    def publish(self, topic: str, queue: int, messages: list[ModelMessage]) -> None:
        moved = (queue + 1) % QUEUES if self.chance.random() < 0.1 else queue
        super().publish(topic, moved, messages)


class ForgetsWhatWasRead(ModelStore):
    """What a reader saw before it was confirmed is gone: it was no replica's but the master's."""

    def read(self, topic: str, queue: int, first: int, most: int) -> list[Item]:
        found = super().read(topic, queue, first, most)
        if found and first + len(found) == len(self.queues[topic, queue]) and self.chance.random() < 0.1:
            self.queues[topic, queue].pop()
        return found


class LeavesOneOut(ModelStore):
    """A read jumps over a message."""

    def read(self, topic: str, queue: int, first: int, most: int) -> list[Item]:
        found = super().read(topic, queue, first, most)
        return found[:1] + found[2:] if most <= 100 and self.chance.random() < 0.1 else found


class ReadsShort(ModelStore):
    """A master answers as one that lags."""

    def read(self, topic: str, queue: int, first: int, most: int) -> list[Item]:
        found = super().read(topic, queue, first, most)
        return found[:-1] if most <= 100 and self.chance.random() < 0.2 else found


class OvertakesPublishes(ModelStore):
    """What is confirmed next lies before what was confirmed last, which nobody had seen yet."""

    def publish(self, topic: str, queue: int, messages: list[ModelMessage]) -> None:
        queued = self.queues[topic, queue]
        at = len(queued) - 1 if queued and self.chance.random() < 0.2 else len(queued)
        queued[at:at] = messages


class TurnsBatches(ModelStore):
    def publish(self, topic: str, queue: int, messages: list[ModelMessage]) -> None:
        super().publish(topic, queue, messages[::-1])


class TailsAgain(ModelStore):
    """A tail that goes on after a master was lost hands over what it had handed over."""

    def tail(self, topic: str, queue: int, first: int, most: int) -> list[Item]:
        return self.read(topic, queue, max(first - 1, 0), most)


class TailsFromTheEnd(ModelStore):
    """A tail that goes on leaves out what came meanwhile."""

    def tail(self, topic: str, queue: int, first: int, most: int) -> list[Item]:
        return self.read(topic, queue, first + 1, most)


class ForgetsAcknowledgements(ModelStore):
    """The next master does not know what was settled last."""

    def failover(self) -> None:
        for claims in self.claims.values():
            for claim in [claim for claim in claims.values() if claim.is_settled][-2:]:
                claim.is_settled = False


class ForgetsDeliveries(ModelStore):
    """The next master hands out at once what consumers have."""

    def failover(self) -> None:
        for claims in self.claims.values():
            for claim in claims.values():
                claim.until_ms = 0


class CountsAnew(ModelStore):
    """The next master has the messages, not the attempts."""

    def failover(self) -> None:
        for claims in self.claims.values():
            for claim in claims.values():
                claim.attempt = 0


class CountsTooFar(ModelStore):
    def deliver(self, claim: Claim, until_ms: int) -> None:
        super().deliver(claim, until_ms)
        claim.attempt += self.chance.random() < 0.05


class TakesStaleHandles(ModelStore):
    def is_current(self, claim: Claim, stamp: int) -> bool:
        return not claim.is_settled and not claim.is_released


class TakesReleasedHandles(ModelStore):
    def is_current(self, claim: Claim, stamp: int) -> bool:
        return claim.stamp == stamp and not claim.is_settled


class TakesSettledHandles(ModelStore):
    """An acknowledgement that comes again is confirmed again."""

    def is_current(self, claim: Claim, stamp: int) -> bool:
        return claim.stamp == stamp and not claim.is_released


class RefusesGoodHandles(ModelStore):
    """Handles of the master before are void."""

    def is_current(self, claim: Claim, stamp: int) -> bool:
        return self.chance.random() > 0.03 and super().is_current(claim, stamp)


class GivesOneHandle(ModelStore):
    """Deliveries of a message cannot be told from each other."""

    def handle(self, queue: int, offset: int, claim: Claim) -> str:
        return f"{queue}-{offset}-1"


class ConfirmsAndForgets(ModelStore):
    """An acknowledgement is answered, and has no effect."""

    def settle(self, claim: Claim) -> None:
        claim.is_settled = self.chance.random() > 0.05


class ForgetsRenewals(ModelStore):
    """A renewed message is another's when its first time is over."""

    def change(
        self, topic: str, group: str, handle: str, until_ms: int, *, is_release: bool, is_suspended: bool
    ) -> bool:
        claim = self.current(topic, group, handle)
        if claim is not None and not is_release:
            until_ms = claim.until_ms
        return super().change(topic, group, handle, until_ms, is_release=is_release, is_suspended=is_suspended)


class KeepsForItself(ModelStore):
    """A message is passed over, and comes to nobody."""

    def ready(self, key: GroupKey, queue: int, now_ms: int, *, is_fifo: bool) -> list[int]:
        found = super().ready(key, queue, now_ms, is_fifo=is_fifo)
        return [offset for offset in found if offset != 3]


class PassesOver(ModelStore):
    """What is new comes out of order."""

    def ready(self, key: GroupKey, queue: int, now_ms: int, *, is_fifo: bool) -> list[int]:
        found = super().ready(key, queue, now_ms, is_fifo=is_fifo)
        return found[1:] if len(found) > 1 and not is_fifo and self.chance.random() < 0.3 else found


class OvertakesInGroups(ModelStore):
    """A FIFO group gets what lies behind a message that is with a consumer."""

    def ready(self, key: GroupKey, queue: int, now_ms: int, *, is_fifo: bool) -> list[int]:
        return super().ready(key, queue, now_ms, is_fifo=False)


class SharesMessageGroups(ModelStore):
    """What was released of a message group goes to another consumer, while the first still has the rest of it."""

    def is_held(self, claim: Claim, now_ms: int) -> bool:
        return False


class LosesWrites(ModelStore):
    def failover(self) -> None:
        self.values.clear()


class ReadsOldValues(ModelStore):
    """A get is answered by a master of before."""

    def get(self, key: str) -> tuple[str, int]:
        value, version = super().get(key)
        return (value, version) if self.chance.random() > 0.1 else ("", 0)


class IgnoresConditions(ModelStore):
    def write(self, key: str, value: str, expected: int | None) -> int | None:
        return super().write(key, value, None)


class WritesTwice(ModelStore):
    """A write is taken again, as it was sent again on the way."""

    def write(self, key: str, value: str, expected: int | None) -> int | None:
        first = super().write(key, value, expected)
        if first is not None:
            super().write(key, value, None)
        return first


FAULTS: Final[dict[type[ModelStore], set[str]]] = {
    LosesTheEnd: {"lost", "changed", "short read", "stored twice"},
    Invents: {"phantom"},
    KeepsWhatItRefused: {"refused and there"},
    StoresTwice: {"stored twice"},
    ChangesBytes: {"phantom"},
    AnswersOfAnotherQueue: {"phantom"},
    ForgetsWhatWasRead: {"lost", "changed", "flicker", "short read"},
    LeavesOneOut: {"hole"},
    ReadsShort: {"short read"},
    OvertakesPublishes: {"order"},
    TurnsBatches: {"order"},
    TailsAgain: {"tail"},
    TailsFromTheEnd: {"tail"},
    ForgetsAcknowledgements: {"acknowledged and popped"},
    ForgetsDeliveries: {"handed out twice"},
    CountsAnew: {"attempts"},
    CountsTooFar: {"attempts"},
    TakesStaleHandles: {"stale handle"},
    TakesReleasedHandles: {"stale handle"},
    TakesSettledHandles: {"acknowledged twice"},
    RefusesGoodHandles: {"current handle refused"},
    GivesOneHandle: {"one handle twice"},
    ConfirmsAndForgets: {"acknowledged and popped"},
    ForgetsRenewals: {"handed out twice"},
    KeepsForItself: {"not handed out"},
    PassesOver: {"new in order"},
    OvertakesInGroups: {"fifo"},
    SharesMessageGroups: {"fifo"},
    LosesWrites: {"version"},
    ReadsOldValues: {"version"},
    IgnoresConditions: {"condition"},
    WritesTwice: {"value"},
}
"""The rules that speak of a fault; one of them must."""
