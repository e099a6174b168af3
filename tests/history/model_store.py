"""The sequential model of a store, small: each method is one moment, and a planted fault replaces one."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.history.operations import Hand, Item

QueueKey = tuple[str, int]
GroupKey = tuple[str, str]
Place = tuple[int, int]
"""Queue and offset."""


@dataclass(frozen=True, slots=True)
class ModelMessage:
    name: str
    digest: str
    message_group: str = ""


@dataclass(slots=True)
class Claim:
    """What a group knows of a message.  `stamp`: of its deliveries, those that do not count included."""

    attempt: int = 0
    stamp: int = 0
    until_ms: int = 0
    is_released: bool = True
    is_settled: bool = False


@dataclass(slots=True)
class ModelStore:
    """`chance`: what faults choose by; the store itself leaves nothing to it."""

    chance: Random
    queues: dict[QueueKey, list[ModelMessage]] = field(default_factory=dict)
    claims: dict[GroupKey, dict[Place, Claim]] = field(default_factory=dict)
    values: dict[str, tuple[str, int]] = field(default_factory=dict)
    version: int = 0

    def failover(self) -> None:
        """Another replica is master: it has all that was confirmed."""

    # -- messages ----------------------------------------------------------------------------------------------------

    def publish(self, topic: str, queue: int, messages: list[ModelMessage]) -> None:
        self.queues.setdefault((topic, queue), []).extend(messages)

    def refuse(self, topic: str, queue: int, messages: list[ModelMessage]) -> None:
        """They are not taken."""

    def item(self, topic: str, queue: int, offset: int) -> Item:
        message = self.queues[topic, queue][offset]
        return Item(offset, message.name, message.digest)

    def read(self, topic: str, queue: int, first: int, most: int) -> list[Item]:
        end = len(self.queues.get((topic, queue), []))
        return [self.item(topic, queue, offset) for offset in range(first, min(first + most, end))]

    def tail(self, topic: str, queue: int, first: int, most: int) -> list[Item]:
        return self.read(topic, queue, first, most)

    # -- groups ------------------------------------------------------------------------------------------------------

    def claim(self, key: GroupKey, place: Place) -> Claim:
        return self.claims.setdefault(key, {}).setdefault(place, Claim())

    def is_ready(self, claim: Claim, now_ms: int) -> bool:
        return not claim.is_settled and claim.until_ms <= now_ms

    def is_held(self, claim: Claim, now_ms: int) -> bool:
        return not claim.is_settled and not claim.is_released and claim.until_ms > now_ms

    def ready(self, key: GroupKey, queue: int, now_ms: int, *, is_fifo: bool) -> list[int]:
        """Offsets that may be handed out, ascending."""
        messages = self.queues.get((key[0], queue), [])
        claims = [self.claim(key, (queue, offset)) for offset in range(len(messages))]
        blocked: set[str] = set()
        if is_fifo:
            held = zip(messages, claims, strict=True)
            blocked = {message.message_group for message, claim in held if self.is_held(claim, now_ms)}
        found: list[int] = []
        for offset, (message, claim) in enumerate(zip(messages, claims, strict=True)):
            if is_fifo and message.message_group in blocked:
                continue
            if self.is_ready(claim, now_ms):
                found.append(offset)
            elif is_fifo and not claim.is_settled:
                blocked.add(message.message_group)
        return found

    def pop(
        self, topic: str, group: str, most: int, invisible_ms: int, now_ms: int, *, is_fifo: bool = False
    ) -> list[Hand]:
        found: list[Hand] = []
        for queue in sorted(number for name, number in self.queues if name == topic):
            for offset in self.ready((topic, group), queue, now_ms, is_fifo=is_fifo)[: most - len(found)]:
                claim = self.claim((topic, group), (queue, offset))
                self.deliver(claim, now_ms + invisible_ms)
                item, handle = self.item(topic, queue, offset), self.handle(queue, offset, claim)
                found.append(Hand(queue, item, claim.attempt, handle))
        return found

    def deliver(self, claim: Claim, until_ms: int) -> None:
        claim.attempt += 1
        claim.stamp += 1
        claim.until_ms, claim.is_released = until_ms, False

    def handle(self, queue: int, offset: int, claim: Claim) -> str:
        return f"{queue}-{offset}-{claim.stamp}"

    def current(self, topic: str, group: str, handle: str) -> Claim | None:
        """The claim that a handle may settle."""
        queue, offset, stamp = map(int, handle.split("-"))
        claim = self.claim((topic, group), (queue, offset))
        return claim if self.is_current(claim, stamp) else None

    def is_current(self, claim: Claim, stamp: int) -> bool:
        return claim.stamp == stamp and not claim.is_settled and not claim.is_released

    def acknowledge(self, topic: str, group: str, handle: str) -> bool:
        claim = self.current(topic, group, handle)
        if claim is None:
            return False
        self.settle(claim)
        return True

    def settle(self, claim: Claim) -> None:
        claim.is_settled = True

    def change(
        self, topic: str, group: str, handle: str, until_ms: int, *, is_release: bool, is_suspended: bool
    ) -> bool:
        claim = self.current(topic, group, handle)
        if claim is None:
            return False
        claim.until_ms, claim.is_released = until_ms, is_release
        claim.attempt -= is_suspended
        return True

    # -- key-values --------------------------------------------------------------------------------------------------

    def write(self, key: str, value: str, expected: int | None) -> int | None:
        """The new version, or None where the key has another one than is expected."""
        if expected is not None and self.get(key)[1] != expected:
            return None
        self.version += 1
        self.values[key] = (value, self.version)
        return self.version

    def get(self, key: str) -> tuple[str, int]:
        return self.values.get(key, ("", 0))
