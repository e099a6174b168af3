"""FIFO delivery while consumers and the store crash: the order of each message group holds, one consumer has it at a
time, and who lost an answer gets it again by its attempt id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import StorageFullError
from entrepot.domain.ports import PopRequest
from tests.simulation.disk import Crash, SimulatedDisk
from tests.support.stores.derived_state import check_derived
from tests.support.stores.simulated_store import SimulatedStore, World
from tests.support.stores.stepped_ports import done

QUEUES, GROUPS, CONSUMERS = 3, 100, 8
INVISIBLE_MS = 10_000


@dataclass(slots=True)
class Held:
    """A delivery that a consumer has in hand.  `is_free`: it let go of it, or asked to."""

    delivery: Delivery
    until_ms: int
    is_free: bool = False

    @property
    def message_id(self) -> bytes:
        return self.delivery.message.message_id

    @property
    def group(self) -> str:
        return self.delivery.message.message_group


@dataclass(slots=True)
class Consumer:
    """`lost`: an answer that never came: the attempt id, what had been given, how long it is kept, the log's end."""

    name: int
    names_attempts: bool
    tries: int = 0
    held: list[Held] = field(default_factory=list)
    unanswered: list[Held] = field(default_factory=list)
    asking: tuple[str, Sequence[Delivery], int, int] | None = None
    lost: tuple[str, Sequence[Delivery], int, int] | None = None


class FifoLife:
    """Message ids by message group, in the order of the log; how many of each are settled, and were so answered;
    how many of each were ever handed out; every delivery that somebody may have in hand."""

    def __init__(self, queues: int = QUEUES) -> None:
        self.disk, self.world = SimulatedDisk(), World()
        self.order: dict[str, list[bytes]] = defaultdict(list)
        self.settled: dict[str, int] = defaultdict(int)
        self.answered: dict[str, int] = defaultdict(int)
        self.seen: dict[str, int] = defaultdict(int)
        self.in_hand: list[Held] = []
        self.consumers = [Consumer(name, name % 2 == 0) for name in range(CONSUMERS)]
        self.given_again = 0
        self.store = SimulatedStore(self.disk, self.world)
        self.store.put_topic("t", queues)
        self.store.put_group(ConsumerGroup("g", fifo=True, max_attempts=10_000, invisible_seconds=10))
        self.store.answer()

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    def append(self, number: int) -> None:
        group = f"group {number}"
        self.store.append("t", number % QUEUES, message_group=group)
        self.order[group].append(next(reversed(self.world.history.sent)))

    # -- consumers -------------------------------------------------------------------------------------------------

    def pop(self, consumer: Consumer, count: int, invisible_ms: int = INVISIBLE_MS) -> Sequence[Delivery]:
        """What is handed out when it is durable; who lost an answer asks for that again."""
        lost, consumer.lost = consumer.lost, None
        consumer.tries += 1
        attempt_id = lost[0] if lost else f"{consumer.name} {consumer.tries}" if consumer.names_attempts else ""
        found = done(self.store.ports.consumption.pop(PopRequest("t", "g", count, 0, invisible_ms, None, attempt_id)))
        until_ms = self.now_ms + invisible_ms
        if lost and lost[2] > self.now_ms and self.store.engine.end >= lost[3] and lost[1]:
            assert _facts(found) == _facts(lost[1])
            self.given_again += 1
            until_ms = lost[2]
        self._check_run(found)
        given = [Held(delivery, until_ms) for delivery in found]
        self.in_hand += given
        asked = consumer.asking = (attempt_id, found, until_ms, self.store.engine.end)

        def hand_out() -> None:
            for held in given:
                group, place = held.group, self.order[held.group].index(held.message_id)
                assert place <= self.seen[group], "first deliveries follow the log"
                self.seen[group] = max(self.seen[group], place + 1)
            if consumer.asking is asked:
                consumer.asking = None
                consumer.held += given

        self.store._when_durable(hand_out)
        return found

    def _check_run(self, found: Sequence[Delivery]) -> None:
        by_group: dict[str, list[bytes]] = defaultdict(list)
        for delivery in found:
            by_group[delivery.message.message_group].append(delivery.message.message_id)
        for group, ids in by_group.items():
            first = self.settled[group]
            assert ids == self.order[group][first : first + len(ids)], f"{group}: from the first unsettled one on"
        busy = {held.group for held in self.in_hand if not held.is_free and held.until_ms > self.now_ms}
        assert not busy & by_group.keys(), "one consumer at a time"

    def acknowledge(self, consumer: Consumer, count: int) -> None:
        """The oldest it has, one after the other; a refusal ends its run of that message group."""
        for held in consumer.held[:count]:
            if held not in consumer.held:
                continue
            consumer.held.remove(held)
            [outcome] = done(self.store.ports.consumption.acknowledge("t", "g", [held.delivery.receipt_handle]))
            was_asked, held.is_free = held.is_free, True
            group = held.group
            if outcome is not None:
                if was_asked and self.order[group].index(held.message_id) < self.settled[group]:
                    continue  # it was settled, and the answer was lost
                assert was_asked or held.until_ms <= self.now_ms, "it had it in time"
                consumer.held = [other for other in consumer.held if other.group != group]
                continue
            assert self.order[group][self.settled[group]] == held.message_id, "settled in order"
            self.settled[group] += 1
            consumer.unanswered.append(held)
            self._when_settled(consumer, held, self.settled[group])

    def _when_settled(self, consumer: Consumer, held: Held, settled: int) -> None:
        def answer() -> None:
            consumer.unanswered = [other for other in consumer.unanswered if other is not held]
            self.answered[held.group] = max(self.answered[held.group], settled)

        self.store._when_durable(answer)

    def release(self, consumer: Consumer, delay_ms: int) -> None:
        """All it has, back to the others."""
        handles = [held.delivery.receipt_handle for held in consumer.held]
        consumption = self.store.ports.consumption
        done(consumption.change_invisible_duration("t", "g", handles, delay_ms, release=True))
        for held in consumer.held:
            held.is_free = True
        consumer.held.clear()

    def forget(self, consumer: Consumer) -> None:
        """It crashes: what it has counts as in its hand until the deadline."""
        consumer.held, consumer.unanswered, consumer.asking, consumer.lost = [], [], None, None

    # -- crashes ---------------------------------------------------------------------------------------------------

    def crash(self, rng: Random) -> None:
        self.disk = self.disk.crash(rng)
        self.store = SimulatedStore(self.disk, self.world)
        end = self.store.engine.end
        check_derived(self.store)
        report = self.store.check(deliveries=False)
        assert report.is_clean, report
        for consumer in self.consumers:
            consumer.lost = consumer.asking or consumer.lost
            if consumer.lost and (not consumer.lost[0] or consumer.lost[3] > end):
                consumer.lost = None
            consumer.asking = None
            consumer.held[:0], consumer.unanswered = consumer.unanswered, []  # these it asks for again
        handed_out = {id(held) for consumer in self.consumers for held in consumer.held}
        # nobody has what was given and never handed out; what was forgotten is in nobody's hand for sure, too
        self.in_hand = [held for held in self.in_hand if id(held) in handed_out]
        windows = self.store.opened.progress.windows.get(("g", "t"), {})
        self.order.clear()
        self.settled.clear()
        for (topic, queue_id), messages in self.store.stored().items():
            assert topic == "t"
            for message in messages:
                group = message.message_group
                if queue_id in windows and windows[queue_id].is_settled(message.queue_offset):
                    assert self.settled[group] == len(self.order[group]), "settled in order"
                    self.settled[group] += 1
                self.order[group].append(message.message_id)
        for group, count in self.answered.items():
            assert self.settled[group] >= count, "answered, and not settled any more"

    def drain(self) -> None:
        """Settle all there is."""
        [consumer, *others] = self.consumers
        for other in others:
            self.forget(other)
        for _ in range(500):
            self.world.clock.advance(10 * INVISIBLE_MS)
            self.forget(consumer)
            found = self.pop(consumer, 1000)
            self.store.answer()
            self.acknowledge(consumer, len(consumer.held))
            self.store.answer()
            if not found:
                break
        assert {group: len(ids) for group, ids in self.order.items()} == dict(self.settled)
        assert all(self.seen[group] == len(ids) for group, ids in self.order.items())


def _facts(deliveries: Sequence[Delivery]) -> list[tuple[bytes, int, str]]:
    """By queue, in the order of each."""
    ordered = sorted(deliveries, key=lambda delivery: delivery.message.queue_id)
    return [(delivery.message.message_id, delivery.attempt, delivery.receipt_handle) for delivery in ordered]


def random_step(life: FifoLife, rng: Random) -> None:
    consumer = rng.choice(life.consumers)
    what = rng.choices(
        ["append", "pop", "acknowledge", "release", "forget", "jump", "slice", "take", "sync", "answer"],
        [3, 8, 8, 1, 1, 2, 1, 1, 2, 3],
    )[0]
    if what == "append":
        for _ in range(rng.randint(1, 30)):
            life.append(rng.randrange(GROUPS))
    elif what == "pop":
        life.pop(consumer, rng.choice([1, 3, 10, 40]), rng.choice([1000, INVISIBLE_MS, 60_000]))
    elif what == "acknowledge":
        life.acknowledge(consumer, rng.choice([1, 3, 10, 40]))
    elif what == "release":
        life.release(consumer, rng.choice([0, 500, 20_000]))
    elif what == "forget":
        life.forget(consumer)
    elif what == "jump":
        life.world.clock.advance(rng.choice([1, 500, 1000, INVISIBLE_MS]))
    elif what == "slice":
        life.store.checkpoint_slice()
    elif what == "take":
        life.store.begin_checkpoint()
    elif what == "sync":
        life.store.begin_sync()
    elif what == "answer":
        life.store.answer()


def random_life(seed: int) -> FifoLife:
    rng = Random(seed)
    life = FifoLife()
    try:
        for _ in range(120):
            life.append(rng.randrange(GROUPS))
        for _ in range(rng.randint(2, 4)):
            life.disk.crash_at = life.disk.steps + rng.randint(1, 120)
            try:
                for _ in range(rng.randint(10, 80)):
                    random_step(life, rng)
            except Crash:
                pass
            life.crash(rng)
            for consumer in life.consumers:
                if consumer.lost:
                    life.pop(consumer, 1)
        life.drain()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return life


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_random_histories(first: int):
    assert sum(random_life(seed).given_again for seed in range(first, first + 8)), "answers were lost and given again"


@pytest.mark.parametrize("slices", [0, 1, 9])
def test_a_lost_answer_is_given_again_after_a_restart(slices: int):
    for seed in range(5):
        life = FifoLife()
        for number in range(12):
            life.append(number)
            life.append(number)
        life.store.answer()
        [consumer, other, *_] = life.consumers
        found = life.pop(consumer, 10)
        assert len(found) == 10
        life.store.engine.sync_now()  # it is durable, and its answer is not given
        for _ in range(slices):
            life.store.engine.begin_checkpoint()
            life.store.finish_checkpoint()
        life.crash(Random(seed))
        others = life.pop(other, 100)
        assert not {d.message.message_group for d in others} & {d.message.message_group for d in found}
        again = life.pop(consumer, 1)
        assert life.given_again == 1, "the same, whatever the count is now"
        assert _facts(again) == _facts(found)
        life.store.answer()
        life.acknowledge(consumer, 3)
        life.store.answer()
        consumer.asking = (f"{consumer.name} 1", found[3:], life.now_ms + INVISIBLE_MS, life.store.engine.end)
        life.crash(Random(seed))  # it is given what it did not settle
        for held in life.in_hand:
            held.is_free = True
        life.pop(consumer, 1)
        assert life.given_again == 2
        life.world.clock.advance(INVISIBLE_MS)
        life.drain()


def test_a_pop_without_room_for_its_record_gives_each_message_once_later(monkeypatch: pytest.MonkeyPatch):
    life = FifoLife()
    for number in range(4):
        life.append(number * QUEUES)
    life.store.answer()
    consumer = life.consumers[0]
    life.pop(consumer, 1)
    life.store.answer()
    with monkeypatch.context() as patch:

        def no_room(*_: object) -> int:
            raise StorageFullError

        patch.setattr(type(life.store.engine.commit_log), "has_space", lambda *_: False)
        patch.setattr(type(life.store.engine.commit_log), "make_space", no_room)
        with pytest.raises(StorageFullError):
            life.pop(consumer, 10)
    assert len(life.pop(consumer, 10)) == 3
    life.store.answer()
    life.drain()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_was_held_flows_when_the_group_is_no_fifo_group_any_more(is_restarted: bool):
    life = FifoLife()
    for number in (0, 0, 0, QUEUES):
        life.append(number)
    life.store.answer()
    first, second, *_ = life.consumers
    life.pop(first, 1)
    life.pop(second, 10)
    life.store.answer()
    group = life.store.registry.groups["g"]
    done(life.store.ports.topology.put_group(replace(group, fifo=False)))
    life.store.answer()
    if is_restarted:
        life.crash(Random(1))
    request = PopRequest("t", "g", 100, 0, INVISIBLE_MS)
    assert len(done(life.store.ports.consumption.pop(request))) == 2, "two of them are with consumers"
    life.world.clock.advance(INVISIBLE_MS)
    found = done(life.store.ports.consumption.pop(request))
    assert len(found) == 4
    handles = [delivery.receipt_handle for delivery in found]
    assert done(life.store.ports.consumption.acknowledge("t", "g", handles)) == [None] * 4
