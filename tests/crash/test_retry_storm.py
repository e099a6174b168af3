"""Poison messages that move through the retry topic while the store is killed: each is acknowledged or one dead letter,
its attempts never fall, and a dead letter names its first place and how often it was tried."""

from __future__ import annotations

from random import Random

import pytest

from entrepot.domain.message import SystemProperty
from tests.simulation.disk import Crash, SimulatedDisk
from tests.support.stores.burying import bury_exhausted
from tests.support.stores.derived_state import check_derived
from tests.support.stores.simulated_store import INVISIBLE_MS, SimulatedStore, World
from tests.support.stores.stepped_ports import done

QUEUES, MESSAGES, HOLD_BACK_LIMIT = 2, 24, 3
RETRY_TOPIC, DEAD_LETTERS = "%RETRY%g+t", "%DLQ%g"


class Storm:
    """Every third message is poison and is never acknowledged; every third of the others is rejected sometimes."""

    def __init__(self, max_attempts: int, size: int = 900) -> None:
        self.disk, self.world, self.max_attempts = SimulatedDisk(), World(), max_attempts
        self.rejected: set[bytes] = set()
        self.moved = 0
        self._open()
        self.store.put_topic("t", QUEUES)
        for queue_id in range(QUEUES):
            self.store.append("t", queue_id, MESSAGES // QUEUES, size)
        self.store.answer()
        self.places = {
            message.message_id: (topic, queue_id, message.queue_offset)
            for (topic, queue_id), messages in self.store.stored().items()
            for message in messages
        }

    def _open(self) -> None:
        self.store = SimulatedStore(
            self.disk, self.world, max_attempts=self.max_attempts, hold_back_limit=HOLD_BACK_LIMIT
        )

    def retries(self) -> int:
        """How far the retry topic goes."""
        queue = self.store.engine.dispatcher.queues.get((RETRY_TOPIC, 0))
        return queue.max_offset if queue else 0

    # -- what happens ------------------------------------------------------------------------------------------------

    def turn(self, rng: Random) -> None:
        """A pop, and what its consumers do with it; most do nothing, which is a failed attempt too."""
        before = self.retries()
        self.store.pop("t", count=rng.choice([1, 3, MESSAGES]))
        self.moved += self.retries() - before
        if rng.random() < 0.3:
            self.store.begin_checkpoint()
        self.store.answer()
        for held in self.store.take_held(len(self.world.held)):
            number = int(held.message_id[:16])
            choice = rng.random()
            if number % 3 and choice < 0.15:
                self.store.acknowledge([held])
            elif number % 9 == 1 and choice < 0.3:
                self.rejected.add(held.message_id)
                self.store.reject([held])
            elif choice < 0.7:
                self.store.change([held], rng.choice([0, 1, 500]), release=True)
        self.world.clock.advance(rng.choice([1, 600, INVISIBLE_MS]))
        if rng.random() < 0.3:
            bury_exhausted(self.store.consumption, self.store.now_ms)
        what = rng.random()
        if what < 0.3:
            self.store.begin_sync()
        elif what < 0.5:
            self.store.checkpoint_slice()
        elif what < 0.6:
            self.store.begin_checkpoint()
        else:
            self.store.answer()

    def crash(self, rng: Random) -> None:
        self.disk = self.disk.crash(rng)
        self.world.held.clear()
        self._open()
        check_derived(self.store)
        report = self.store.check()
        assert report.is_clean, report

    # -- what must hold ----------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """A pop may find nothing where it moved all it saw: it ends when every window is at its end."""
        for _ in range(40 * self.max_attempts):
            self.world.clock.advance(10 * INVISIBLE_MS)
            self.store.pop("t", count=1000)
            self.store.answer()
            self.world.held.clear()
            status = done(self.store.ports.topology.group_status("g"))
            if not any(progress.lag for progress in status.progress):
                return
        raise AssertionError("it never ends")

    def check_end(self) -> None:
        """Play to the end without consumers that acknowledge: what is left becomes dead letters."""
        self.world.held.clear()
        self._drain()
        report = self.store.check(drained_by=["g"])
        assert report.is_clean, report
        history = self.world.history
        letters = {m.message_id: m for m in self.store.stored().get((DEAD_LETTERS, 0), ())}
        acknowledged = {message_id for _, message_id in history.acknowledged}
        perhaps = {message_id for _, message_id in history.open_settling}
        assert letters.keys() | acknowledged | perhaps == self.places.keys()
        assert not letters.keys() & acknowledged
        seen: dict[bytes, int] = {}
        for delivery in history.deliveries:
            assert seen.get(delivery.message_id, 0) < delivery.attempt <= self.max_attempts
            seen[delivery.message_id] = delivery.attempt
        for message_id, letter in letters.items():
            system = letter.system
            place = (
                str(system[SystemProperty.DEAD_LETTER_TOPIC]),
                int(system[SystemProperty.DEAD_LETTER_QUEUE]),
                int(system[SystemProperty.DEAD_LETTER_QUEUE_OFFSET]),
            )
            assert place == self.places[message_id]
            attempts = int(system[SystemProperty.DEAD_LETTER_ATTEMPTS])
            if system[SystemProperty.DEAD_LETTER_REASON] == "rejected":
                assert message_id in self.rejected
                assert attempts == seen[message_id]
            else:
                assert attempts == self.max_attempts
            assert not [name for name in system if name.startswith("retry_")], "as it was first"


def random_life(max_attempts: int, seed: int) -> Storm:
    rng = Random(f"{max_attempts} {seed}")
    storm = Storm(max_attempts)
    try:
        for _ in range(rng.randint(1, 5)):
            storm.disk.crash_at = storm.disk.steps + rng.randint(1, 60)
            try:
                for _ in range(rng.randint(3, 12)):
                    storm.turn(rng)
            except Crash:
                pass
            storm.crash(rng)
        storm.check_end()
    except BaseException as error:
        error.add_note(f"at most {max_attempts} attempts, seed {seed}")
        raise
    return storm


@pytest.mark.parametrize("max_attempts", range(1, 21))
def test_a_storm_of_retries_through_many_crashes(max_attempts: int):
    storms = [random_life(max_attempts, seed) for seed in range(4)]
    assert max_attempts == 1 or sum(storm.moved for storm in storms), "some went through the retry topic"


@pytest.mark.parametrize("max_attempts", [1, 2, 3, 4])
def test_a_crash_at_each_step_of_moving(max_attempts: int):
    """Messages large enough for the moves to cross the log's segments."""

    def begun() -> Storm:
        storm = Storm(max_attempts, size=5000)
        storm.store.pop("t", count=2)
        storm.store.pop("t", count=MESSAGES)
        storm.store.answer()
        storm.store.acknowledge([held for held in storm.world.held if int(held.message_id[:16]) % 3])
        storm.world.held.clear()
        storm.store.answer()
        storm.world.clock.advance(INVISIBLE_MS)
        return storm

    def move(storm: Storm) -> None:
        for _ in range(3):
            storm.store.pop("t", count=MESSAGES)
            storm.world.clock.advance(INVISIBLE_MS)
            storm.store.checkpoint_slice()
        bury_exhausted(storm.store.consumption, storm.store.now_ms)
        storm.store.answer()

    whole = begun()
    first = whole.disk.steps
    move(whole)
    assert max_attempts == 1 or whole.retries()
    for crash_at in range(first + 1 + max_attempts % 3, whole.disk.steps + 1, 3):
        storm = begun()
        storm.disk.crash_at = crash_at
        try:
            with pytest.raises(Crash):
                move(storm)
            storm.crash(Random(crash_at))
            storm.check_end()
        except BaseException as error:
            error.add_note(f"crash at step {crash_at} of {whole.disk.steps}, at most {max_attempts} attempts")
            raise
