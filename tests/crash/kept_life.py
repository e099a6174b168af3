"""Messages that wait for their time or for the end of their transaction, and how a store with them goes on and crashes.

`Kept` is what there must be: it is told what was done, and a store that was recovered has all of that up to some
record, everything durable included.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from entrepot.broker.store.record import KEPT_KINDS
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.transaction import TransactionEnd
from tests.simulation.disk import Crash, SimulatedDisk
from tests.support.stores.derived_state import check_derived
from tests.support.stores.ledger import Ledger
from tests.support.stores.simulated_store import SimulatedStore, World
from tests.support.stores.stepped_ports import done

QUEUES = 2
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
CHECK_AFTER_MS, CHECK_INTERVAL_MS, MAX_CHECKS = 6_000, 30_000, 2
Place = tuple[str, int]
Key = tuple[str, str]


@dataclass(slots=True)
class Kept:
    """`timers`: (delivery time, message id), the next one first and those of one time in the order of the log.
    `halves`: message id, when its producer is asked, how often it was."""

    timers: list[tuple[int, bytes]] = field(default_factory=list)
    halves: dict[Key, tuple[bytes, int, int]] = field(default_factory=dict)
    queues: dict[Place, list[bytes]] = field(
        default_factory=lambda: {("t", 0): [], ("t", 1): [], ("u", 0): [], ("u", 1): []}
    )

    def apply(self, change: tuple[str, Any, Any]) -> None:
        what, a, b = change
        if what == "wait":  # for the first time, for another time, or after a commit
            self._end(a)
            self.timers.append((b, a))
            self.timers.sort(key=lambda timer: timer[0])
        elif what == "deliver":
            self._end(a)
            for place in b:
                self.queues[place].append(a)
        elif what == "drop":
            self._end(a)
        elif what in ("half", "check"):
            self.halves[a] = b

    def _end(self, message_id: bytes) -> None:
        self.timers = [timer for timer in self.timers if timer[1] != message_id]
        self.halves = {key: half for key, half in self.halves.items() if half[0] != message_id}


def kept_of(store: SimulatedStore) -> Kept:
    """What a store has."""

    def message_id(offset: int) -> bytes:
        message = store.engine.commit_log.message_at(offset, KEPT_KINDS)
        assert message is not None
        return message.message_id

    found = Kept([(time, message_id(offset)) for time, offset in store.engine.pending.timers.after((0, 0))])
    for key, half in store.engine.pending.halves.waiting.items():
        assert store.engine.pending.halves.at(half.commit_log_offset) is half
        found.halves[key] = (message_id(half.commit_log_offset), half.due_ms, half.checks)
    assert len(found.halves) == len(store.engine.pending.halves.offsets_before(store.engine.end))
    assert len(found.timers) == store.engine.pending.timers.count
    for place, messages in store.stored().items():
        found.queues[place] = [message.message_id for message in messages]
        for message in messages:
            time = message.time_ms(SystemProperty.DELIVER_AT_MS)
            assert time is None or time <= message.store_time_ms, "never before its time"
    return found


class KeptLife:
    """A world with its disks; every call does one thing and holds its answer to `Kept`."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.world = World()
        self.ledger = Ledger(Kept())
        self.messages: dict[bytes, Message] = {}
        self.planned: list[Any] = []
        self.ended: set[bytes] = set()
        self.store: SimulatedStore

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    def begin(self) -> None:
        self._open()
        self.store.put_topic("t", QUEUES)
        self.store.put_topic("u", QUEUES)
        self.answer()

    def _open(self) -> None:
        self.store = SimulatedStore(self.disk, self.world)
        core = self.store.ports.core
        core.settings = replace(core.settings, transaction_max_checks=MAX_CHECKS)

    def play(self, script: Callable[[KeptLife], None]) -> bool:
        """Says whether it came to its end."""
        try:
            script(self)
        except Crash:
            return False
        return True

    def crash(self, rng: Random) -> None:
        """Lose power, open again, and look."""
        while True:
            self.disk = self.disk.crash(rng)
            try:
                self._open()
            except Crash:
                continue
            break
        self.ledger.recover(kept_of(self.store), self.planned)
        self.planned = []
        check_derived(self.store)

    def restart(self) -> None:
        self.answer()
        self.store.close()
        before, self.disk = self.disk, self.disk.restart()
        self.disk.steps, self.disk.crash_at = before.steps, before.crash_at
        self._open()
        assert kept_of(self.store) == self.ledger.now
        check_derived(self.store)

    # -- durability ------------------------------------------------------------------------------------------------

    def begin_sync(self) -> None:
        self.ledger.ask()
        self.store.begin_sync()

    def answer(self) -> None:
        self.ledger.ask()
        self.store.answer()
        self.ledger.answer()

    def checkpoint_slice(self) -> None:
        self.answer()
        self.store.checkpoint_slice()

    # -- steps: what is planned is noted when the call has ended, and may be found if it never does -------------------

    def advance(self, ms: int) -> None:
        self.world.clock.advance(ms)

    def _do(self, call: Callable[[], Any], *changes: Any) -> Any:
        self.planned = list(changes)
        result = call()
        self.planned = []
        self.ledger.note(*changes)
        return result

    def _message(self, fields: dict[str, Any], **system: str | int) -> Message:
        [made] = self.world.new_messages("t", fields.pop("queue_id", 0), 1, fields.pop("size", 40), **fields)
        made = replace(made, system=system)
        self.messages[made.message_id] = made
        return made

    def _places(self, message_id: bytes) -> list[Place]:
        message = self.messages[message_id]
        return [(message.topic, message.queue_id), *message.further_queues]

    def append(self, delay_ms: int | None = None, **fields: Any) -> bytes:
        """A message, one that waits if there is a delay; its id."""
        time = {} if delay_ms is None else {SystemProperty.DELIVER_AT_MS: self.now_ms + delay_ms}
        made = self._message(fields, **time)
        is_for_later = delay_ms is not None and delay_ms > 0
        change = (
            ("wait", made.message_id, self.now_ms + (delay_ms or 0))
            if is_for_later
            else ("deliver", made.message_id, self._places(made.message_id))
        )
        assert self._do(lambda: self.store.append_all([made]), change) is None
        return made.message_id

    def due(self) -> list[Any]:
        """What a delivery of what is due must do now: what was not durable before waits on."""
        found = [id_ for time, id_ in self.ledger.now.timers if time <= self.now_ms and self._is_durable(id_)]
        return [("deliver", message_id, self._places(message_id)) for message_id in found]

    def _is_durable(self, message_id: bytes) -> bool:
        """Whether the last record of it is."""
        return all(change[1] != message_id for change in self.ledger.open)

    def deliver_due(self) -> None:
        self._do(self.store.ports.timers.deliver_due, *self.due())

    def _settle_timer(self, message_id: bytes, call: Callable[[int], Any], change: Any) -> bool:
        """Recall or retime; both deliver what is due first.  Says whether it was done."""
        due = self.due()
        after = deepcopy(self.ledger.now)
        for delivered in due:
            after.apply(delivered)
        times = [time for time, found in after.timers if found == message_id]
        if times and self._is_durable(message_id):
            self._do(lambda: done(call(times[0])), *due, change)
            return True
        time = times[0] if times else self.now_ms + HOUR
        code = self._do(lambda: refusal(lambda: done(call(time))), *due)
        assert code is Code.OFFSET_NOT_FOUND
        return False

    def recall(self, message_id: bytes) -> bool:
        return self._settle_timer(
            message_id,
            lambda time: self.store.ports.timers.recall("t", message_id, time),
            ("drop", message_id, None),
        )

    def retime(self, message_id: bytes, delay_ms: int) -> bool:
        new_ms = self.now_ms + delay_ms
        change = ("wait", message_id, new_ms) if delay_ms > 0 else ("deliver", message_id, self._places(message_id))
        return self._settle_timer(
            message_id, lambda time: self.store.ports.timers.retime("t", message_id, time, new_ms), change
        )

    # -- transactions ------------------------------------------------------------------------------------------------

    def prepare(self, name: str, delay_ms: int | None = None, **fields: Any) -> bytes | None:
        """A half message; its id, or None where one of that name is waiting."""
        system: dict[str, str | int] = {SystemProperty.TRANSACTION_ID: name}
        if delay_ms is not None:
            system[SystemProperty.DELIVER_AT_MS] = self.now_ms + delay_ms
        made = self._message(fields, **system)
        change = ("half", ("t", name), (made.message_id, self.now_ms + CHECK_AFTER_MS, 0))
        if ("t", name) in self.ledger.now.halves:
            refusals = self.store.ports.transactions.append_half([made]).refusals
            assert refusals is not None
            assert refusals[0] is not None
            assert refusals[0].code is Code.BAD_REQUEST
            return None
        assert self._do(lambda: self.store.ports.transactions.append_half([made]), change).refusals is None
        return made.message_id

    def expired(self) -> list[Any]:
        halves = self.ledger.now.halves.values()
        return [("drop", id_, None) for id_, due_ms, checks in halves if due_ms <= self.now_ms and checks >= MAX_CHECKS]

    def end(self, name: str, *, commit: bool) -> bool:
        """Says whether it was ended by this.  (Here nobody waits for durability inside of a call, so it is before.)"""
        self.answer()
        expired = self.expired()
        half = self.ledger.now.halves.get(("t", name))
        is_waiting = half is not None and ("drop", half[0], None) not in expired
        changes = list(expired)
        if is_waiting and half is not None:
            changes.append(self._end_of(half[0], commit))
        ends = [TransactionEnd("t", name, commit)]
        [outcome] = self._do(lambda: done(self.store.ports.transactions.end_transactions(ends)), *changes)
        if is_waiting:
            assert outcome is None
        else:
            assert outcome.code is Code.INVALID_TRANSACTION_ID
        return is_waiting

    def _end_of(self, message_id: bytes, commit: bool) -> Any:
        if not commit:
            return ("drop", message_id, None)
        time = self.messages[message_id].time_ms(SystemProperty.DELIVER_AT_MS)
        if time is not None and time > self.now_ms:
            return ("wait", message_id, time)
        return ("deliver", message_id, self._places(message_id))

    def take_checks(self, count: int = 100) -> list[bytes]:
        """Ask about what is due; the ids.  The order is of no matter, so they are noted as they are found."""
        self.answer()
        expired = self.expired()
        gone = {change[1] for change in expired}
        halves = self.ledger.now.halves.items()
        due = {key: half for key, half in halves if half[1] <= self.now_ms and half[0] not in gone}
        again_ms = self.now_ms + CHECK_INTERVAL_MS
        asked = [("check", key, (id_, again_ms, checks + 1)) for key, (id_, _, checks) in due.items()][:count]
        taken: list[StoredMessage] = self._do(
            lambda: done(self.store.ports.transactions.take_checks(["t"], count)), *expired, *asked
        )
        assert [message.message_id for message in taken] == [change[2][0] for change in asked]
        return [message.message_id for message in taken]

    # -- the end ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Wait for all there is; all that waited for its time is then there once, and in order."""
        self.advance(1000 * DAY)  # the clock may have gone back again and again
        self.answer()
        self.deliver_due()
        self.answer()
        assert kept_of(self.store) == self.ledger.now
        assert not self.ledger.now.timers
        for place, found in self.ledger.now.queues.items():
            assert len(set(found)) == len(found), f"twice in {place}"


def refusal(call: Callable[[], Any]) -> Code | None:
    try:
        call()
    except EntrepotError as refused:
        return refused.code
    return None


def crash_at_each_step(
    script: Callable[[KeptLife], None], seed: int, ending: Callable[[KeptLife], None] = KeptLife.finish
) -> None:
    """Every I/O step of a script (every other one, from seed 1 or 2 on), then on to the end."""
    life = KeptLife()
    life.begin()
    first = life.disk.steps
    assert life.play(script)
    ending(life)
    total = life.disk.steps
    for crash_at in range(first + seed, total + 1, 2):
        life = KeptLife()
        life.begin()
        life.disk.crash_at = crash_at
        if life.play(script):
            life.play(ending)
        try:
            life.crash(Random(f"{seed} {crash_at}"))
            ending(life)
        except BaseException as error:
            error.add_note(f"crash at step {crash_at} of {total}, seed {seed}")
            raise
