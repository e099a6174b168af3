"""A table that uploaders, mergers, expiry and vacuum write at once, over a store that fails as it likes.

Every actor is a generator that yields between its steps; another one's step may also run within any call to the store.
All choices are the seed's.  `Witness` reads each version once, and says what is not allowed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator

from entrepot.broker.tiered.checkpoints import commit_name
from entrepot.broker.tiered.delta_actions import AddFile, OwnAction, RemoveFile, Transaction, decode_commit
from entrepot.broker.tiered.delta_log import ConflictError, DeltaLog, next_maintenance
from entrepot.broker.tiered.objects import MissingObjectError, TierError
from entrepot.broker.tiered.snapshot import Snapshot
from entrepot.domain.clock import Clock
from tests.support.clock import ManualClock
from tests.support.tiered.failing_objects import FailingObjects, Fault
from tests.tiered.delta.tables import SCHEMA, add, remove

ROOT = "t"
QUEUES = ("queue/0", "queue/1")
DAY_ROWS = 6
"""Rows of one queue and day: no file has rows of two days."""
HOUR_MS = 3_600_000
GRACE_MS = 24 * HOUR_MS
MAX_NESTED = 3

Row = tuple[str, int]
Steps = Generator[None, None, None]
LogType = Callable[[FailingObjects, str, Clock, int], DeltaLog]


class Broken(AssertionError):
    """Something that a table of ours never does."""


class World:
    """See the module.  `log_type` makes the log that all actors use."""

    def __init__(self, seed: str, log_type: LogType = DeltaLog, *, refusals_are_certain: bool = True) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.objects = FailingObjects(self.clock)
        self.rows: dict[str, tuple[Row, ...]] = {}
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()
        self.refusals_are_certain = refusals_are_certain
        self.faults = 0
        self._log_type = log_type
        self._names = 0
        self._running: list[Actor] = []
        self.log().create(SCHEMA, {}, "creation")
        self.actors: list[Actor] = [
            *(Actor(self, f"uploader-{n}", Actor.upload) for n in range(2)),
            *(Actor(self, f"merger-{n}", Actor.merge) for n in range(2)),
            Actor(self, "expiry", Actor.expire),
            Actor(self, "vacuum", Actor.vacuum),
        ]
        self.witness = Witness(self)
        self.objects.plan = self._plan

    def log(self) -> DeltaLog:
        """A handle of its own."""
        return self._log_type(self.objects, ROOT, self.clock, 10)

    def run(self, steps: int) -> None:
        """Let actors take so many steps.  Raises Broken."""
        for number in range(steps):
            self._pass_time()
            awake = [actor for actor in self.actors if actor.asleep_until <= number]
            actor = self.random.choice(awake or self.actors)
            self._step(actor)
            if self.random.random() < 0.02:
                actor.asleep_until = number + self.random.randrange(200)
            self.witness.read_on()
        self.objects.settle()
        self.witness.read_on()
        self.witness.check_loads()

    def name(self, kind: str) -> str:
        """A name that nothing else has."""
        self._names += 1
        return f"{kind}-{self._names:05d}"

    def put_file(self, rows: tuple[Row, ...]) -> AddFile:
        """Store a file with these rows."""
        path = self.name("file")
        self.rows[path] = rows
        self.objects.put_new(f"{ROOT}/{path}", b"rows")
        return add(path, 4)

    def _pass_time(self) -> None:
        self.clock.advance(self.random.randrange(HOUR_MS))
        if self.random.random() < 0.2:
            self.objects.settle()
        if self.random.random() < 0.01:
            self.objects.settle()
            self.clock.advance(GRACE_MS)

    def _plan(self, call: str, path: str) -> Fault:
        if len(self._running) < MAX_NESTED and self.random.random() < 0.1:
            others = [actor for actor in self.actors if actor not in self._running]
            self._step(self.random.choice(others))
        if self.random.random() > 0.1:
            return Fault.NONE
        self.faults += 1
        return self.random.choice([Fault.BEFORE, Fault.AFTER, Fault.LATE, Fault.STALE])

    def _step(self, actor: Actor) -> None:
        self._running.append(actor)
        try:
            next(actor.steps)
        finally:
            self._running.pop()


class Actor:
    """A writer: begins anew with a fresh handle after most errors, as a process does that was killed."""

    def __init__(self, world: World, name: str, work: Callable[[Actor, Snapshot], Steps]) -> None:
        self.world = world
        self.name = name
        self.asleep_until = 0
        self.log = world.log()
        self.snapshot: Snapshot | None = None
        self.steps = self._work_on(work)

    def _work_on(self, work: Callable[[Actor, Snapshot], Steps]) -> Steps:
        while True:
            try:
                if self.snapshot is None or self.world.random.random() < 0.1:
                    self.log = self.world.log()
                    self.snapshot = self.log.load()
                elif self.world.random.random() < 0.7:
                    self.snapshot = self.log.refresh(self.snapshot)
                yield
                if self.snapshot is None:
                    raise Broken("the table is gone")
                yield from work(self, self.snapshot)
                self.log.checkpoint(self.snapshot)
            except ConflictError as conflict:
                self.snapshot = conflict.snapshot
            except TierError as error:
                if "corrupted" in error.message or "is missing, and" in error.message:
                    raise Broken(error.message) from error
                if self.world.random.random() < 0.5:
                    self.snapshot = None
            yield

    def upload(self, snapshot: Snapshot) -> Steps:
        """The next rows of a queue; now and then by a handle that is younger than the choice of rows."""
        world = self.world
        queue = world.random.choice(QUEUES)
        before = snapshot.transactions.get(queue)
        start = before or 0
        end = min(start + world.random.randint(1, 4), start - start % DAY_ROWS + DAY_ROWS)
        since = world.clock.now_ms()
        file = world.put_file(tuple((queue, offset) for offset in range(start, end)))
        actions: list[OwnAction] = [file, Transaction(queue, end)]
        yield
        if world.random.random() < 0.2:
            self.log = world.log()
            self.snapshot = self.log.load()
        yield from self._commit(actions, "WRITE", since, {queue: before})

    def merge(self, snapshot: Snapshot) -> Steps:
        """Files of one queue and day become one."""
        by_day: dict[Row, list[str]] = {}
        for path in sorted(snapshot.files):
            queue, offset = self.world.rows[path][0]
            by_day.setdefault((queue, offset // DAY_ROWS), []).append(path)
        several = [paths for paths in by_day.values() if len(paths) > 1]
        if not several:
            return
        old = self.world.random.choice(several)
        since = self.world.clock.now_ms()
        file = self.world.put_file(tuple(row for path in old for row in self.world.rows[path]))
        actions: list[OwnAction] = [file, *(remove(path, since) for path in old), next_maintenance(snapshot)]
        yield
        yield from self._commit(actions, "OPTIMIZE", since, {})

    def expire(self, snapshot: Snapshot) -> Steps:
        """Files go whose day is two days behind."""
        now = self.world.clock.now_ms()
        old = [
            path
            for path in sorted(snapshot.files)
            if (row := self.world.rows[path][0])[1] // DAY_ROWS < snapshot.transactions[row[0]] // DAY_ROWS - 2
        ]
        if old:
            actions: list[OwnAction] = [*(remove(path, now) for path in old), next_maintenance(snapshot)]
            yield
            yield from self._commit(actions, "DELETE", now, {})

    def vacuum(self, snapshot: Snapshot) -> Steps:
        """Delete what nobody needs; now and then the order comes late."""
        found = self.log.vacuum(snapshot, GRACE_MS, self.world.clock.now_ms())
        if self.world.random.random() < 0.5:
            yield
        self.log.delete(snapshot, found)

    def _commit(self, actions: list[OwnAction], operation: str, since: int, expected: dict[str, int | None]) -> Steps:
        """Try until the outcome is known, or until a file of the commit may be swept as an orphan."""
        world, attempt = self.world, self.world.name(self.name)
        while self.snapshot is not None and world.clock.now_ms() - since < GRACE_MS // 2:
            try:
                self.snapshot = self.log.commit(self.snapshot, actions, attempt, operation=operation, expected=expected)
                world.acknowledged.add(attempt)
                return
            except ConflictError:
                if world.refusals_are_certain:
                    world.refused.add(attempt)
                raise
            except TierError:
                yield


class Witness:
    """Reads each version once, from the commits alone, through a store that works."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._objects = world.objects.working()
        self._live: set[str] = set()
        self._expired: set[Row] = set()
        self._progress: dict[str, int] = {}
        self._attempts: set[str] = set()
        self.version = -1
        self.merges = self.expiries = 0

    def read_on(self) -> None:
        """Check the versions that have come.  Raises Broken."""
        while True:
            name = f"{ROOT}/_delta_log/{commit_name(self.version + 1)}"
            try:
                commit = decode_commit(self._objects.get(name), name)
            except MissingObjectError:
                break
            self.version += 1
            attempt = commit.info.attempt_id or ""
            if attempt in self._attempts:
                raise Broken(f"{attempt} was committed twice")
            self._attempts.add(attempt)
            for action in commit.actions:
                self._see(action, commit.info.operation)
            self._check_rows()
            self.merges += commit.info.operation == "OPTIMIZE"
            self.expiries += commit.info.operation == "DELETE"
        self._check_answers()

    def check_loads(self) -> None:
        """A load sees what the commits say."""
        loaded = DeltaLog(self._objects, ROOT, self._world.clock).load()
        if loaded is None or (loaded.version, set(loaded.files)) != (self.version, self._live):
            raise Broken(f"a load sees another table than version {self.version}")

    def _see(self, action: object, operation: str | None) -> None:
        match action:
            case AddFile():
                self._live.add(action.path)
            case RemoveFile():
                self._live.discard(action.path)
                if operation == "DELETE":
                    self._expired.update(self._world.rows[action.path])
            case Transaction() if action.app_id in QUEUES:
                if action.version <= self._progress.get(action.app_id, 0):
                    raise Broken(f"{action.app_id} went back to {action.version}")
                self._progress[action.app_id] = action.version

    def _check_rows(self) -> None:
        rows = Counter(row for path in self._live for row in self._world.rows[path])
        if doubled := [row for row, count in rows.items() if count > 1]:
            raise Broken(f"rows are there twice: {doubled}")
        if returned := self._expired & rows.keys():
            raise Broken(f"expired rows are back: {returned}")
        due = {(queue, offset) for queue, end in self._progress.items() for offset in range(end)}
        if due != self._expired | rows.keys():
            raise Broken(f"rows are missing, or too many: {due ^ (self._expired | rows.keys())}")

    def _check_answers(self) -> None:
        if lost := self._world.acknowledged - self._attempts:
            raise Broken(f"commits are lost: {lost}")
        if done := self._world.refused & self._attempts:
            raise Broken(f"commits were refused, and are there: {done}")
        there = set(self._objects.paths(f"{ROOT}/"))
        if gone := [path for path in self._live if f"{ROOT}/{path}" not in there]:
            raise Broken(f"files of the table are deleted: {gone}")
