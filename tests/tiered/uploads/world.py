"""Brokers, their uploaders and readers over one store that fails as it likes.

There are two sites, each with a broker, an uploader and readers; one is the master.  Within any call to the store
another one's step may run, or the uploader that asks may die.  All choices are the seed's.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from entrepot.broker.tiered.checkpoints import commit_name
from entrepot.broker.tiered.fence import Fence
from entrepot.broker.tiered.marks import TableMark, agree
from entrepot.broker.tiered.table import TopicTable
from entrepot.broker.tiered.upload.housekeeping import HOUSEKEEPING_SECONDS
from entrepot.broker.tiered.upload.uploader import LONGEST_PAUSE
from entrepot.domain.clock import Clock
from entrepot.domain.expression.filter import FilterExpression, FilterKind, MessageFilter, compile_filter
from tests.support.clock import ManualClock
from tests.support.tiered.failing_objects import FailingObjects, Fault
from tests.tiered.uploads.model_broker import RECORD_BYTES, Died, Master, ModelTopic
from tests.tiered.uploads.sites import GRACE_MS, HOUR_MS, TOKEN, Parts, Site, damaged
from tests.tiered.uploads.witness import STORE, Broken, Witness

SETTLED_AFTER_MS = GRACE_MS // 2
"""What comes late comes within this."""
MAX_NESTED = 2
CHECKPOINT_COMMITS = 7
ROUNDS_TO_RECOVER = 12
"""Rounds that fail no more, beyond those that the waiting segments need."""
SMALL_SEGMENTS = {"FINAL_BYTES": 30_000, "MOST_BYTES": 90_000, "BAND_ROWS": 32, "GROUP_ROWS": 4, "LEAST_SEGMENTS": 4}
"""Limits of merging, by which some of a world's segments are final."""
FILTERS: tuple[MessageFilter | None, ...] = (
    None,
    compile_filter(FilterExpression(FilterKind.TAG, "odd")),
    compile_filter(FilterExpression(FilterKind.TAG, "odd || seldom")),
    compile_filter(FilterExpression(FilterKind.SUB_TOPIC, "+/line3")),
)


class World:
    """See the module.  Inside `with pytest.MonkeyPatch.context()`, which puts `parts` in their places."""

    def __init__(self, seed: str, parts: Parts, patch: pytest.MonkeyPatch) -> None:
        self.random = random.Random(seed)
        self.parts = parts
        self.clock = ManualClock()
        self.steady = 1000.0
        self.skew_ms = 0
        self.faults = self.reads = self.read_messages = self.requests = self.lost = 0
        self.may_fail = False
        fault_rate = self.random.choice([0.0, 0.03, 0.1])
        self.fault_rate = fault_rate if parts.fault_rate is None else parts.fault_rate
        self.death_rate = self.random.choice([0.0, 0.01])
        self.crowded_rate = self.random.choice([0.0, 0.0, 0.03]) if parts.crowds else 0.0
        self.segment_bytes = self.random.choice([4, 15, 60]) * RECORD_BYTES
        self.two_at_the_end = self.random.random() < 0.3
        self.by_root: dict[str, ModelTopic] = {}
        self.marks: dict[str, TableMark] = {}
        self.absences = 0
        self._older: dict[str, tuple[bytes, int]] = {}
        self.master = Master(self.random)
        self._running: list[str] = []
        self._settled_at = self.clock.now_ms()
        self._new_store()
        for name in ("a", "b", "stuck"):
            self._make(name)
        self.stuck = self.random.choice(["", "stuck"])
        self.sites = [Site(self, "first"), Site(self, "second")]
        self.leader = self.sites[0]
        self.epoch = self.failovers = 0
        patch.setattr("entrepot.broker.tiered.upload.uploader.TopicTable", self._table)
        patch.setattr("entrepot.broker.tiered.upload.uploader.Fence", parts.fence)
        patch.setattr("entrepot.broker.tiered.upload.uploader.HEAL_SECONDS", math.inf)
        for name, value in SMALL_SEGMENTS.items():
            patch.setattr(f"entrepot.broker.tiered.merging.{name}", value)

    def _table(
        self, objects: FailingObjects, root: str, clock: Clock, choices: random.Random, fence: Fence
    ) -> TopicTable:
        table = self.parts.table(objects, root, clock, choices, fence)
        log_type = type(table._log)
        table._log = log_type(objects, root, clock, CHECKPOINT_COMMITS)
        return table

    def _new_store(self) -> None:
        self.objects = FailingObjects(self.clock, self._plan)
        agree(self.objects.working(), STORE, "", TOKEN)
        self._older = dict(self.objects._found)
        self.marks.clear()
        self.witness = Witness(self.objects, self.clock)

    def _make(self, name: str) -> None:
        retention_ms = self.random.choice([30 * HOUR_MS, 10**6 * HOUR_MS])
        topic = self.master.make(name, self.random.randint(1, 3), retention_ms)
        self.by_root[topic.root] = topic

    # -- steps -------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Let it live for so many steps, then let it recover.  Raises Broken."""
        self.may_fail = True
        for _ in range(steps):
            self._step()
            self._look()
        self._recover()

    def _look(self) -> None:
        self.witness.look(list(self.by_root.values()), [site.broker for site in self.sites])

    def _step(self) -> None:
        self._pass_time()
        choices: list[tuple[int, Callable[[], None]]] = [
            (30, self._publish),
            (30, self._round),
            (12, self._clean),
            (40, self._read),
            (2, self._crash),
            (2, self._fail_over),
            (1, self._remake),
            (1, self._harm),
            (2, self._heal),
            (1, self._other_store),
            (2, self._keep_a_copy),
            (2, self._be_away),
            (1, self._turn_off),
        ]
        weights = [10 * weight if act.__name__ == self.parts.often else weight for weight, act in choices]
        [act] = self.random.choices([act for _, act in choices], weights)
        act()

    def _pass_time(self) -> None:
        ms = self.random.choice([10, 1000, 40_000, HOUR_MS // 2, 2 * HOUR_MS])
        self.clock.advance(ms)
        self.steady += ms / 1000
        if self.random.random() < 0.1 or self.clock.now_ms() > self._settled_at + SETTLED_AFTER_MS:
            self.objects.settle()
            self._settled_at = self.clock.now_ms()

    def _publish(self) -> None:
        topic = self.random.choice(sorted(self.master.topics.values(), key=lambda each: each.name))
        for _ in range(self.random.randint(1, 8)):
            queue_id = self.random.randrange(len(topic.queues))
            self.master.publish(topic, queue_id, self.clock.now_ms() + self.skew_ms)
            if self.random.random() < self.crowded_rate:
                topic.crowded.add((queue_id, len(topic.queues[queue_id]) - 1))

    def _round(self) -> None:
        site = self.random.choice(self.sites)
        self._as(f"uploader {site.name}", site.round)

    def _as(self, name: str, act: Callable[[], object]) -> None:
        """Do something, unless it is being done."""
        if name in self._running:
            return
        self._running.append(name)
        try:
            act()
        finally:
            self._running.pop()

    def _clean(self) -> None:
        broker = self.random.choice(self.sites).broker
        for topic in broker.topics():
            for queue_id in range(len(topic.queues)):
                cut = self.random.randint(broker.min_offset(topic, queue_id), broker.end(topic, queue_id))
                broker.clean(topic, queue_id, cut)

    def _read(self) -> None:
        site = self.random.choice(self.sites)
        self._as(f"reader {site.name}", lambda: self._read_at(site))

    def _read_at(self, site: Site) -> None:
        topic = self.random.choice(sorted(self.by_root.values(), key=lambda each: each.root))
        is_fresh = self.random.random() < 0.7 and site.refresh(topic)
        if topic.root not in site.cold:
            return
        queue_id = self.random.randrange(len(topic.queues))
        first = self.random.randint(0, len(topic.queues[queue_id]))
        if is_fresh and self.random.random() < 0.3:
            site.read_all(topic, queue_id, first)
        else:
            site.read(topic, queue_id, first, self.random.randint(1, 30), self.random.choice(FILTERS))

    def _crash(self) -> None:
        site = self.random.choice(self.sites)
        if f"uploader {site.name}" not in self._running:
            site.broker.crash()
            if site is self.leader:  # each start has a recovery epoch of its own
                self.epoch += 1
                site.broker.epoch = self.epoch
            site.start()

    def _fail_over(self) -> None:
        """The other one is the master; the old one lives on and hears of nothing, or is a replica."""
        old, self.leader = self.leader, next(site for site in self.sites if site is not self.leader)
        self.leader.broker.follow()
        self.epoch += 1
        self.leader.broker.epoch = self.epoch
        self.failovers += any(name.startswith("uploader") for name in self._running)
        if self.random.random() < 0.7:
            old.broker.depose()
        self.skew_ms = self.random.randrange(-8 * HOUR_MS, 8 * HOUR_MS)

    def _remake(self) -> None:
        self._make(self.random.choice(["a", "b"]))

    def _harm(self) -> None:
        topic = self.random.choice(sorted(self.master.topics.values(), key=lambda each: each.name))
        queue_id = self.random.randrange(len(topic.queues))
        if topic.queues[queue_id]:
            topic.corrupted.add((queue_id, self.random.randrange(len(topic.queues[queue_id]))))

    def _heal(self) -> None:
        for topic in self.by_root.values():
            topic.corrupted.clear()

    def _other_store(self) -> None:
        """Both brokers are started with another store, which is empty; what only the old one has is nowhere now."""
        if self.random.random() < 0.5:
            return
        for site in self.sites:
            site.broker.follow()
            site.broker.crash()
        for topic in self.by_root.values():
            for queue_id in range(len(topic.queues)):
                least = max(site.broker.min_offset(topic, queue_id) for site in self.sites)
                topic.nowhere[queue_id] = least
                for site in self.sites:
                    site.broker.mins[topic.root][queue_id] = least
        self.requests += self.objects.calls
        self._new_store()
        for site in self.sites:
            site.start()

    def _turn_off(self) -> None:
        """The tier of a topic is off for a while, and retention goes on: what was not uploaded is lost."""
        if any(site.broker.is_deposed for site in self.sites):
            return  # a disk that hears of nothing keeps all
        topic = self.random.choice(self.leader.broker.topics())
        for queue_id in range(len(topic.queues)):
            done = self.witness.of(topic).progress.get(queue_id, 0)
            least = max(site.broker.min_offset(topic, queue_id) for site in self.sites)
            cut = self.random.randint(least, len(topic.queues[queue_id]))
            topic.lost |= {(queue_id, offset) for offset in range(max(done, topic.nowhere[queue_id]), cut)}
            if not done:
                topic.nowhere[queue_id] = max(topic.nowhere[queue_id], cut)
            for site in self.sites:
                site.broker.mins[topic.root][queue_id] = max(cut, site.broker.min_offset(topic, queue_id))

    def _keep_a_copy(self) -> None:
        """Somebody copies the bucket."""
        self._older = dict(self.objects._found)

    def _be_away(self) -> None:
        """For a while the store looks empty, or as it was at the last copy; then it is back as it was.

        Each table has gone on since the copy: one that has not is no older, and may go on in the copy.
        """
        if self._running:
            return
        self.objects.settle()
        there, self.may_fail = self.objects._found, False
        self.objects._found = dict(self._older) if self._is_older() and self.random.random() < 0.7 else {}
        self.absences += 1
        for _ in range(self.random.randint(5, 25)):
            ms = self.random.choice([1000, 40_000])
            self.clock.advance(ms)
            self.steady += ms / 1000
            self.random.choice([self._publish, self._round, self._round, self._clean, self._crash, self._fail_over])()
        self.objects._found, self.may_fail = there, True
        self.objects.settle()

    def _is_older(self) -> bool:
        known = [self.marks.get(topic.root) for topic in self.master.topics.values()]
        commits = [
            f"{topic.root}/_delta_log/{commit_name(mark.version)}"
            for topic, mark in zip(self.master.topics.values(), known, strict=True)
            if mark is not None
        ]
        return len(commits) == len(known) and not any(commit in self._older for commit in commits)

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    def _plan(self, call: str, path: str) -> Fault:
        if self.stuck and path.startswith(f"{self.stuck}/") and call == "put_new":
            self.faults += 1
            return Fault.BEFORE
        if not self.may_fail:
            return Fault.NONE
        if len(self._running) < MAX_NESTED and self.random.random() < 0.05:
            often = [self._publish, self._round, self._clean, self._read]
            self.random.choice([*often, *often, self._fail_over])()
        if self._running and self._running[-1].startswith("uploader") and self.random.random() < self.death_rate:
            raise Died
        if self.random.random() >= self.fault_rate:
            return Fault.NONE
        self.faults += 1
        return self.random.choice([Fault.BEFORE, Fault.AFTER, Fault.LATE, Fault.STALE])

    # -- the end -----------------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Nothing fails any more, but for the topic that is stuck; then that one, too."""
        self.objects.settle()
        self.may_fail = False
        self._heal()
        for site in self.sites:
            site.broker.follow()
        self._catch_up([topic for topic in self.leader.broker.topics() if topic.name != self.stuck])
        self.stuck = ""
        self._catch_up(self.leader.broker.topics())
        self.steady += HOUSEKEEPING_SECONDS + 1
        self.leader.round()
        for topic in self.by_root.values():
            self.witness.of(topic).check_digests()
        for topic in self.leader.broker.topics() if self.parts.follows else ():
            self.witness.of(topic).check_iceberg()
        for site in self.sites:
            for topic in self.leader.broker.topics():
                if not site.refresh(topic):
                    raise Broken(f"{topic.root} cannot be loaded")
                for queue_id in range(len(topic.queues)):
                    site.read_all(topic, queue_id, 0)
        for topic in self.leader.broker.topics():
            damaged(self, topic)
        self.requests += self.objects.calls

    def _catch_up(self, topics: list[ModelTopic]) -> None:
        """All of some topics is uploaded in a bounded number of rounds."""
        waiting = max((sum(map(len, topic.queues)) for topic in topics), default=0)
        rounds = ROUNDS_TO_RECOVER + waiting  # after a death, one by one
        rounds += ROUNDS_TO_RECOVER * sum(len(topic.crowded) for topic in topics)  # each of them brings a few deaths
        for _ in range(rounds):
            self.steady += LONGEST_PAUSE + 1
            self.clock.advance(1000 * int(LONGEST_PAUSE + 1))
            for site in self.sites if self.two_at_the_end else [self.leader]:
                site.round()
            self._look()
            if all(self._is_up(topic) for topic in topics):
                return
        problems = [told.problem for told in self.leader.broker.progress.values() if told.problem]
        raise Broken(f"not all is uploaded in {rounds} rounds: {problems}")

    def _is_up(self, topic: ModelTopic) -> bool:
        progress = self.witness.of(topic).progress
        told = self.leader.broker.progress.get(topic.root)
        ends = {number: self._end(topic, number) for number in range(len(topic.queues))}
        if told is None or told.problem:
            return False
        if any(progress.get(number, 0) < end for number, end in ends.items()):
            return False
        broker = self.leader.broker  # which does not look for what another has uploaded, once it has nothing itself
        known = {number: max(told.ends.get(number, 0), broker.min_offset(topic, number)) for number in ends}
        return all(known[number] >= end for number, end in ends.items())

    def _end(self, topic: ModelTopic, queue_id: int) -> int:
        """The end of what is to be uploaded of a queue."""
        there = range(topic.nowhere[queue_id], len(topic.queues[queue_id]))
        return max((at + 1 for at in there if (queue_id, at) not in topic.lost), default=0)
