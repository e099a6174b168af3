"""GroupCommit: the one loop that makes data durable, and then confirms.  Nothing else confirms.

A confirmation means: the record is on this disk, and on as many replicas as the rule asks.  One number says how far
that is, and it only grows; a confirmation waits for its offset.

A sync for each message was too slow.  A future for each message cost more than the message.  A thread that syncs got
its turn too late beside a busy loop, so a small process does it, and is asked over a socket (ADR 2).

A round of the loop:

1. Whatever came in this tick lies in the log's pending bytes, in the order in which it came.
2. Claims and settlements that wait are decided now (`decision_step.py`): a message and its delivery share one sync
   (ADR 43).
3. One write, or several with turns of the loop between where messages are large; then the disk process is asked for
   `fdatasync`, and the same bytes go to the replicas.
4. The answer moves the watermark: queues tell their followers, then those who wait are told, in the order of their
   appends.
5. All that came meanwhile is the next round.  A lone producer never waits for others; a loop without time to spare
   gathers up to 2 ms, or 64 answers (`pace.py`, ADR 30).

Three doors lead in: `submit` waits for what is appended, `decide` is decided in the next round, and the disk process
answers `_on_synced`.

Its further parts stay where their state is (ADR 83): the log with its watermarks (`store/confirmed_log.py`), the disk
process (`store/sync_channel.py`, `sync_process.py`), and the record of a round (`consume/journal.py`).

Invariants: the order of confirmations is that of the appends.  Nothing is told before its record is durable.  A round
under way is never cancelled.  An error of a write or a sync is final: nobody knows what the disk has.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

import structlog

from entrepot.broker.commit.decision_step import Decision, DecisionStep
from entrepot.broker.commit.measurements import Measurements
from entrepot.broker.commit.pace import CommitPace
from entrepot.broker.store.commit_log import AHEAD_BYTES
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.domain.callbacks import call_each
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import StoreFailedError

ENOUGH_ANSWERS: Final = 64
"""Answers enough for one sync: its cost is small for each."""
PATIENT_PASSES: Final = 4
"""Passes of the event loop without anything new before a sync starts that could have gathered longer."""
TIMER_SECONDS: Final = 0.001
"""Shortest time that an event-loop timer resolves, in seconds: shorter waits are passes of the loop."""

ROUND_SECONDS: Final = 0.002
"""Longest wait for the replicas' answer to the last run before the next is written, in seconds: later messages join
it."""

LATE_SECONDS: Final = 0.005
"""Longest time that a decision nobody waits for is left for another's sync, in seconds."""
PASSES_TO_ASK_AGAIN: Final = 3
"""Passes of the event loop in which consumers ask for more after deliveries: their claims join the next sync."""

log = structlog.get_logger(__name__)


class GroupCommit:
    """A driver of the engine's syncs on the running event loop. Its pace trades latency under load for fewer syncs."""

    def __init__(
        self,
        engine: StorageEngine,
        step: DecisionStep,
        *,
        pace: CommitPace,
        max_unconfirmed_bytes: int,
        on_grown: Callable[[list[ConsumeQueue]], None],
        on_failure: Callable[[StoreFailedError], None],
        measured: Measurements,
    ) -> None:
        self._engine = engine
        self._step = step
        self._pace = pace
        self._max_unconfirmed = max_unconfirmed_bytes
        self._on_grown = on_grown
        self._on_failure = on_failure
        self._measured = measured
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[int, Confirmation, int, float]] = deque()
        self._waiting_here: deque[tuple[int, Confirmation, int, float]] = deque()
        self._relieved: list[Callable[[], None]] = []
        self._is_ticking = False
        self._is_closed = self._has_failed = self._is_held = False
        self._is_asked = False  # for a sync, by a decision
        self._late: asyncio.TimerHandle | None = None
        self._is_late = False  # decisions that may wait have waited long enough
        self._gathered = 0  # answers since the last sync started
        self._passes = 0  # of the loop, since the last answer
        self._sync_asked_at = 0.0
        self._gathering: asyncio.TimerHandle | None = None
        self._loop.add_reader(engine.log_channel.fileno(), self._on_synced)

    def submit(
        self, confirmation: Confirmation, answers: int = 1, taken_at: float = 0.0, *, here: bool = False
    ) -> Confirmation:
        """Settle the confirmation once everything appended so far is confirmed, or with the failure of a failed store.

        `taken_at`: when a batch of messages was taken (`perf_counter`), to measure the time to its confirm. `here`: the
        disk of this replica alone confirms it.
        """
        if self._engine.failure is not None:
            confirmation.settle(self._engine.failure)
            return confirmation
        if self._engine.end <= self._engine.confirmed_offset:  # nothing new: all of it is durable, earlier ones too
            confirmation.settle()
            return confirmation
        waiting = self._waiting_here if here else self._waiting
        waiting.append((self._engine.end, confirmation, answers, taken_at))
        self._ask(answers)
        return confirmation

    def decide(self, decision: Decision, *, may_wait: bool = False) -> None:
        """Decide right before the next write. `may_wait`: nobody waits for it, so it may join another's sync."""
        if self._engine.failure is not None:
            decision.confirmation.settle(self._engine.failure)
            return
        self._step.add(decision, may_wait=may_wait)
        if not may_wait:
            self._is_asked = True
            self._ask(1)
        elif self._late is None:
            self._late = self._loop.call_later(LATE_SECONDS, self._be_late)

    def _be_late(self) -> None:
        self._late = None
        if self._step.has_waiting:
            self._is_asked = self._is_late = True
            self._ask(0)

    def _ask(self, answers: int) -> None:
        """Ask for a sync at the end of this tick."""
        self._gathered += answers
        self._passes = 0
        if not self._is_ticking:
            self._is_ticking = True
            self._loop.call_soon(self._tick)

    async def wait(self) -> None:
        """Return once everything appended so far is durable. Raises StoreFailedError."""
        await self.submit(Confirmation()).wait()

    @property
    def backlogged(self) -> bool:
        return self._engine.end - self._engine.confirmed_offset > self._max_unconfirmed

    def confirmed_more(self) -> None:
        """Confirm for waiters after the replicas got more of the log."""
        if self._engine.failure is None and not self._is_closed:
            try:
                self._settle(self._engine.advance())
            except StoreFailedError as failure:
                self._fail(failure)
            if self._gathering is not None and not self._is_round_under_way:
                self._begin()

    def give_up(self, failure: StoreFailedError) -> None:
        """Confirm nothing any more: the outcome of waiting confirmations is unknown."""
        self._give_up(self._engine.fail(failure))

    def when_relieved(self, callback: Callable[[], None]) -> None:
        self._relieved.append(callback)

    def sync_now(self, at_rest: Callable[[], object] | None = None) -> None:
        """Make everything taken durable, waiting for it, and confirm it. `at_rest` is called between: everything is
        durable, and nobody who might go on at once has been told."""
        try:
            self._is_late = True
            self._decide()
            grown = self._engine.sync_now()
            if at_rest is not None:
                at_rest()
            self._settle(grown)
        except StoreFailedError as failure:
            self._fail(failure)

    def close(self) -> None:
        """Make everything taken durable, waiting for it, and confirm it."""
        self._loop.remove_reader(self._engine.log_channel.fileno())
        self.sync_now()
        self._is_closed = True
        waiting = [*self._waiting, *self._waiting_here]
        self._waiting.clear()
        self._waiting_here.clear()
        if self._engine.failure is None:  # replicas that it waits for are away
            for _, confirmation, _, _ in waiting:
                confirmation.settle(StoreFailedError("the store is closed").in_doubt())
        if self._late is not None:
            self._late.cancel()

    def _tick(self) -> None:
        self._is_ticking = False
        if self._is_closed:
            return
        if self._engine.syncing_to is not None and not self._engine.flush_async:
            return  # the answer to the running sync begins the next one
        self._begin_or_gather()

    def _begin_or_gather(self) -> None:
        """Start the sync, or wait for more while the pace allows; on a busy loop only as long as more comes."""
        if self._gathered < ENOUGH_ANSWERS and self._is_round_under_way:
            self._is_ticking = True
            self._gathering = self._loop.call_later(ROUND_SECONDS, self._begin)
            return
        left = self._pace.seconds_left() if self._gathered < ENOUGH_ANSWERS else 0.0
        if left >= TIMER_SECONDS and not self._pace.is_busy:
            self._is_ticking = True
            self._loop.call_later(left, self._begin_or_gather)
        elif left > 0 and self._passes < PATIENT_PASSES:
            self._is_ticking = True
            self._passes += 1
            self._loop.call_soon(self._begin_or_gather)
        else:
            self._begin()

    @property
    def _is_round_under_way(self) -> bool:
        """True while all waiters wait for replicas, which have not answered to the last write."""
        engine = self._engine
        return engine.confirm_limit < engine.commit_log.written_offset and not self._waiting_here

    def hold(self) -> None:
        """Write nothing more: mastership is about to move. A write under way ends."""
        self._is_held = True

    def go_on(self) -> None:
        """Resume writing."""
        self._is_held = False
        self._ask(0)

    @property
    def is_at_rest(self) -> bool:
        """True while it is held and everything written is synced."""
        return self._is_held and self._engine.syncing_to is None

    @property
    def is_idle(self) -> bool:
        """True while nobody waits and everything appended is confirmed."""
        return not (self._waiting or self._waiting_here) and self._engine.end == self._engine.confirmed_offset

    def _begin(self) -> None:
        self._is_ticking = False
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._is_closed or self._is_held:
            return
        try:
            pending = self._engine.end - self._engine.commit_log.written_offset
            if pending > 2 * AHEAD_BYTES and self._engine.write_ahead():  # others have a turn between
                self._is_ticking = True
                self._loop.call_soon(self._begin)
                return
            self._decide()
            if self._engine.begin_sync():
                self._pace.start()
                self._gathered = 0
                self._sync_asked_at = perf_counter()
            if self._engine.flush_async:
                self._settle(self._engine.advance())
            elif self._engine.syncing_to is None:
                self._settle([])  # nothing had to be written
        except StoreFailedError as failure:
            self._fail(failure)

    def _decide(self) -> None:
        """Decide the gathered decisions; they are told with the present write."""
        is_last, self._is_asked, self._is_late = self._is_late, False, False
        told = self._step.run(is_last=is_last)
        end = self._engine.end
        self._waiting += [(end, confirmation, 1, 0.0) for confirmation in told]

    def _on_synced(self) -> None:
        took = perf_counter() - self._sync_asked_at
        try:
            grown = self._engine.finish_sync()
        except StoreFailedError as failure:
            self._fail(failure)
            return
        self._measured.sync.observe(took)
        has_told = self._settle(grown)
        if self._is_ticking or self._is_closed:
            return
        if has_told and not self._pace.is_busy:
            self._is_ticking = True
            self._pass_on(PASSES_TO_ASK_AGAIN)
        elif self._has_more:
            self._tick()

    @property
    def _has_more(self) -> bool:
        """True while another sync is wanted."""
        return self._is_asked or self._engine.end > self._engine.commit_log.durable_offset

    def _pass_on(self, passes: int) -> None:
        """Let some passes of the event loop go by before the next sync begins."""
        if passes:
            self._loop.call_soon(self._pass_on, passes - 1)
        else:
            self._is_ticking = False
            if self._has_more:
                self._tick()

    def _settle(self, grown: list[ConsumeQueue]) -> bool:
        """Tell waiters; True if decisions were among them."""
        confirmed = self._engine.confirmed_offset
        self._pace.last_confirmed, has_told = self._tell(self._waiting, confirmed)
        if self._waiting_here:
            self._tell(self._waiting_here, self._engine.commit_log.durable_offset)
        if grown:
            self._on_grown(grown)
        if self._relieved and self._engine.end - confirmed <= self._max_unconfirmed // 2:
            relieved, self._relieved = self._relieved, []
            for fault in call_each(relieved):
                log.error("a callback of relief failed", exc_info=fault)
        return has_told

    def _tell(self, waiting: deque[tuple[int, Confirmation, int, float]], offset: int) -> tuple[int, bool]:
        """Tell waiters for places before an offset; return the number of answers, and True if decisions were there."""
        confirmed_answers, has_told = 0, False
        now, observe = perf_counter(), self._measured.append.observe
        while waiting and waiting[0][0] <= offset:
            _, confirmation, answers, taken_at = waiting.popleft()
            confirmed_answers += answers
            if taken_at:
                observe(now - taken_at, answers)
            else:
                has_told = True
            try:
                confirmation.settle()
            except Exception:  # one waiter fails: the others are told nevertheless
                log.exception("a confirmation callback raised")
        return confirmed_answers, has_told

    def _fail(self, failure: StoreFailedError) -> None:
        if not self._has_failed:
            log.critical("the store has stopped", error=failure.message)
            self._give_up(failure)

    def _give_up(self, failure: StoreFailedError) -> None:
        self._has_failed = True
        self._loop.remove_reader(self._engine.log_channel.fileno())
        waiting = [*self._waiting, *self._waiting_here]
        self._waiting.clear()
        self._waiting_here.clear()
        in_doubt = failure.in_doubt()
        settlings = [confirmation.settle for confirmation in (*(waits[1] for waits in waiting), *self._step.fail())]
        for fault in call_each(settlings, in_doubt):
            log.error("a confirmation callback raised", exc_info=fault)
        self._on_failure(failure)
        relieved, self._relieved = self._relieved, []
        for fault in call_each(relieved):  # the next append tells waiters that there will be no room
            log.error("a callback of relief failed", exc_info=fault)
