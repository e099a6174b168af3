"""Uploader: brings confirmed messages of tiered topics into their tables, topic by topic, in bounded memory.

It asks the broker for the states of its topics and for records, and reports the progress of each queue. A topic that
fails is tried again later, and the others go on.

ADR 52: cold messages are a table. Invariant: the tables record its work, and nothing is remembered here over a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

import pyarrow as pa
import structlog

from entrepot.broker.settings.tier import Payload
from entrepot.broker.tiered.delta_log import ConflictError
from entrepot.broker.tiered.fence import Fence, Writer
from entrepot.broker.tiered.iceberg.iceberg_table import REQUESTS, IcebergTable
from entrepot.broker.tiered.json_columns import JsonColumns, plain
from entrepot.broker.tiered.marks import TableMark, check_store
from entrepot.broker.tiered.objects import ObjectStore, TierError, problem_of
from entrepot.broker.tiered.record_rows import rows_of_run
from entrepot.broker.tiered.source import Begun, Caution, Progress, QueueState, Source, TopicState, Work
from entrepot.broker.tiered.table import TopicTable
from entrepot.broker.tiered.upload.housekeeping import HOUSEKEEPING_SECONDS, Housekeeping
from entrepot.domain.broker_of_queue import broker_of_queue, first_queue, local_queue
from entrepot.domain.clock import Clock
from entrepot.protocols.wire.records import RecordColumns, RecordRun, decode_run

RUN_BYTES: Final = 4 << 20
"""Bytes of records asked for at once."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Longest pause before a failed topic is tried again, in seconds; doubled each time."""
REQUESTS_AN_UPLOAD: Final = 12
"""Requests of an upload: six of its own; the others are of the broker that takes it over, and of housekeeping."""
LONGEST_AGE: Final = 3600.0
"""Longest time that messages wait, in seconds, whatever that costs."""
HEAL_SECONDS: Final = 600.0
"""Time for which a corrupted record, not earlier ones, waits for a replica's whole one, in seconds."""
SHARES: Final = {Caution.SMALLER: 16, Caution.PLAIN: 16, Caution.TINY: 256}
"""Part of a segment, one of so many, in which a topic is uploaded that ended the process before."""
log = structlog.get_logger(__name__)


class _Topic:
    """Knowledge of a topic between rounds. Times in seconds of the steady clock."""

    def __init__(self, table: TopicTable, fence: Fence, housekeeping: Housekeeping) -> None:
        self.table, self.fence, self.housekeeping = table, fence, housekeeping
        self.json = JsonColumns()
        self.is_open = False
        self.known: TableMark | None = None
        self.waiting_since: float | None = None
        self.pause = 0.0
        self.not_before = 0.0
        self.last_queue = -1
        self.seen_bytes: dict[int, int] = {}
        self.corrupted_since: dict[int, float] = {}
        """Time at which a record was first found corrupted, by its offset in the log."""
        self.told: Progress | None = None


class Uploader:
    """The uploader. `steady`: seconds of a clock that never jumps. `number`: of the broker, `writer`: its identity.
    `max_age`: seconds that messages wait. `requests_per_hour`: to the object store, about, by all topics; many small
    ones wait longer. `token`: mark of the writer's store in the object store, without which nothing is written.
    `clusters`: final segments have a device's rows beside each other. `iceberg`: tables have metadata of Iceberg, too.
    """

    def __init__(
        self,
        source: Source,
        objects: ObjectStore,
        clock: Clock,
        random: Random,
        steady: Callable[[], float],
        *,
        number: int,
        writer: Writer,
        segment_bytes: int,
        max_age: float,
        requests_per_hour: int,
        grace: float,
        payload: Payload = Payload.NONE,
        iceberg: bool = False,
        token: str = "",
        clusters: bool = True,
    ) -> None:
        self._source, self._objects = source, objects
        self._clock, self._random, self._steady = clock, random, steady
        self._base, self._writer = first_queue(number), writer
        self._segment_bytes, self._max_age, self._grace = segment_bytes, max_age, grace
        self._requests_per_hour = requests_per_hour
        self._payload, self._token = payload, token
        self._clusters, self._has_iceberg = clusters, iceberg
        self._requests_an_upload = REQUESTS_AN_UPLOAD + (REQUESTS if iceberg else 0)
        self._topics: dict[str, _Topic] = {}
        self._checked_at = -HOUSEKEEPING_SECONDS
        self._waiting = 0

    def round(self) -> bool:
        """Do everything due; True if there is more to do at once."""
        states = self._source.states()
        roots = {state.root for state in states}
        for root in self._topics.keys() - roots:
            del self._topics[root]
        self._waiting = sum(topic.waiting_since is not None for topic in self._topics.values())
        has_more = [self._look_at(state) for state in states]
        return any(has_more)

    def _look_at(self, state: TopicState) -> bool:
        topic = self._topics.get(state.root)
        if topic is None:
            fence = Fence(self._writer)
            table = TopicTable(self._objects, state.root, self._clock, self._random, fence)
            topic = self._topics[state.root] = _Topic(table, fence, self._housekeeping(table))
        topic.fence.epoch = state.epoch
        if topic.known != state.mark:  # somebody has accepted the table as it is
            topic.known, topic.not_before = state.mark, 0.0
        if self._steady() < topic.not_before:
            return False
        try:
            has_more = state.caution is not Caution.SET_ASIDE and self._bring_up(state, topic)
            if topic.is_open and state.keeps_house:
                self._keep_house(state, topic)
        except EOFError:  # the broker has ended
            raise
        except Exception as error:  # noqa: BLE001 whatever one topic has, the others go on
            topic.pause = min(2 * topic.pause or FIRST_PAUSE, LONGEST_PAUSE)
            topic.not_before = self._steady() + topic.pause
            topic.is_open = topic.is_open and isinstance(error, ConflictError)
            problem = problem_of(error)
            log.warning("a topic is not tiered", seldom=f"tier {state.root}", topic=state.name, problem=problem)
            self._tell(state, topic, problem)
            return False
        topic.pause = 0.0
        if topic.told is not None and topic.told.problem not in ("", topic.housekeeping.problem):
            self._tell(state, topic)  # it is over
        return has_more

    def _housekeeping(self, table: TopicTable) -> Housekeeping:
        iceberg, grace, clusters = self._iceberg(table.root), self._grace, self._clusters
        return Housekeeping(table, self._objects, self._clock, iceberg, grace=grace, clusters=clusters)

    def _iceberg(self, root: str) -> IcebergTable | None:
        if not self._has_iceberg:
            return None
        return IcebergTable(self._objects, root, self._clock, self._random, int(1000 * self._grace))

    def _bring_up(self, state: TopicState, topic: _Topic) -> bool:
        """Upload one segment where there is enough, or it has waited; True if there may be more."""
        if not topic.is_open:
            self._source.begins(Begun(state.name, state.root, Work.OPEN))
            self._check_store()
            topic.table.open(create=True, known=state.mark)
            self._check_history(state, topic)
            topic.is_open = True
            self._tell(state, topic)
        starts = {queue.queue_id: self._start(topic.table, queue) for queue in state.queues}
        waiting = 0
        for queue in state.queues:  # the broker's estimate is of the latest messages, and larger ones may wait
            message_bytes = max(queue.message_bytes, topic.seen_bytes.get(queue.queue_id, 0))
            waiting += max(0, queue.end - starts[queue.queue_id]) * message_bytes
        if not any(queue.end > starts[queue.queue_id] for queue in state.queues):
            topic.waiting_since = None
            if topic.told is not None and any(topic.told.ends.get(each, 0) < start for each, start in starts.items()):
                self._tell(state, topic)  # another uploader has uploaded the rest
            return False
        if topic.waiting_since is None:
            topic.waiting_since = self._steady()
        is_early = waiting < self._segment_bytes and self._steady() < topic.waiting_since + self._age(waiting)
        if is_early and not state.caution:
            return False
        topic.waiting_since = None
        return self._upload(state, topic, starts) and (waiting > self._segment_bytes or bool(state.caution))

    def _check_store(self) -> None:
        """Raise PRECONDITION_FAILED where the object store is not the one that the broker has used: it may be a folder
        without its disk."""
        if self._token:
            check_store(self._objects, self._writer.store, self._token)

    def _age(self, waiting: int) -> float:
        """Return the seconds that messages of a topic wait: the fewer bytes and the more waiting topics, the longer."""
        stretched = min(self._waiting * self._requests_an_upload * 3600 / self._requests_per_hour, LONGEST_AGE)
        return max(self._max_age, stretched * (1 - waiting / self._segment_bytes))

    def _check_history(self, state: TopicState, topic: _Topic) -> None:
        """Check that the log reaches the table's end. Otherwise its master does not know of its end yet, or has lost
        messages: meanwhile nothing is uploaded."""
        for queue in state.queues:
            done = topic.table.progress(self._base + queue.queue_id) or 0
            if done > queue.end:
                raise TierError(
                    f"the table {state.root} has queue {queue.queue_id} up to {done}, the log only to {queue.end}: has "
                    "an unclean election lost messages?"
                )

    def _start(self, table: TopicTable, queue: QueueState) -> int:
        """Return the offset to go on from. Messages that the broker lost before an upload are missing from then on."""
        return max(table.progress(self._base + queue.queue_id) or 0, queue.min_offset)

    def _upload(self, state: TopicState, topic: _Topic, starts: Mapping[int, int]) -> bool:
        """Upload one segment; False where everything waits for corrupted records to be healed."""
        self._source.begins(Begun(state.name, state.root, Work.UPLOAD, self._planned(state, starts)))
        found = self._runs(state, topic, starts)
        if not found:
            return False
        ends = {queue_id: runs[-1][0].next_offset for queue_id, runs in found.items()}
        self._source.begins(Begun(state.name, state.root, Work.UPLOAD, ends))
        rows = pa.concat_tables(
            rows_of_run(run, columns, self._base, queue_id)
            for queue_id, runs in sorted(found.items())
            for run, columns in runs
        )
        rows, schema = self._with_columns(state, topic, rows)
        self._check_store()
        expected = {self._base + queue_id: topic.table.progress(self._base + queue_id) for queue_id in ends}
        given_up = {self._base + queue.queue_id: queue.given_up for queue in state.queues if queue.given_up >= 0}
        world_ends = {self._base + queue_id: end for queue_id, end in ends.items()}
        topic.table.upload(rows, expected, world_ends, schema, given_up)
        topic.last_queue = list(found)[-1]
        topic.corrupted_since.clear()
        self._tell(state, topic)
        return True

    def _share(self, state: TopicState) -> int:
        """Return the bytes of the log that go into a segment now."""
        return 1 if state.caution is Caution.ALONE else self._segment_bytes // SHARES.get(state.caution, 1)

    def _planned(self, state: TopicState, starts: Mapping[int, int]) -> dict[int, int]:
        """Return about the ends of the next segment, whichever queues it takes."""
        share = self._share(state)
        most = {queue.queue_id: max(1, share // max(queue.message_bytes, 1)) for queue in state.queues}
        return {
            queue.queue_id: min(queue.end, starts[queue.queue_id] + most[queue.queue_id])
            for queue in state.queues
            if queue.end > starts[queue.queue_id]
        }

    def _runs(
        self, state: TopicState, topic: _Topic, starts: Mapping[int, int]
    ) -> dict[int, list[tuple[RecordRun, RecordColumns]]]:
        """Return the records of a segment, by queue."""
        found: dict[int, list[tuple[RecordRun, RecordColumns]]] = {}
        left = self._share(state)
        # Each time another queue is the first: one that always has a segment's worth does not keep the others waiting.
        for queue in sorted(state.queues, key=lambda each: (each.queue_id <= topic.last_queue, each.queue_id)):
            offset = starts[queue.queue_id]
            while offset < queue.end and left > 0:
                run, columns = self._run(state, topic, queue, offset, min(left, RUN_BYTES))
                if run.next_offset <= offset:
                    break
                found.setdefault(queue.queue_id, []).append((run, columns))
                left -= max(len(run.data), 1)
                topic.seen_bytes[queue.queue_id] = len(run.data) // (run.next_offset - offset)
                offset = run.next_offset
        return found

    def _with_columns(self, state: TopicState, topic: _Topic, rows: Any) -> tuple[Any, str]:
        """Return rows with the columns of their bodies, and the schema of the table."""
        schema = topic.table.schema
        if self._payload is not Payload.JSON:
            return rows, schema
        if state.caution >= Caution.PLAIN:
            return plain(rows), schema
        try:
            return topic.json.typed(rows, schema)
        except (pa.ArrowException, ValueError) as error:  # bodies are anybody's: they never stop a topic
            log.error("JSON bodies were uploaded without typed columns", topic=state.name, problem=str(error))
            return plain(rows), schema

    def _run(
        self, state: TopicState, topic: _Topic, queue: QueueState, offset: int, max_bytes: int
    ) -> tuple[RecordRun, RecordColumns]:
        """Return records from an offset on. They end before a corrupted one that a replica may have whole."""
        healed: set[int] = set()
        while True:
            run = decode_run(self._source.records(state.name, queue.queue_id, offset, queue.end, max_bytes))
            columns = RecordColumns(run)
            for at in columns.corrupted:
                place = int(run.entries["commit_log_offset"][at])
                answer = False if place in healed else self._source.heal(place)
                if answer:
                    healed.add(place)
                    break
                since = topic.corrupted_since.setdefault(place, self._steady())
                if answer is not None and self._steady() < since + HEAL_SECONDS:
                    end = int(run.entries["queue_offset"][at])
                    cut = replace(run, entries=run.entries[:at], starts=run.starts[:at], next_offset=end)
                    return cut, RecordColumns(cut)
                log.error("a corrupted message goes to the table as its place alone", topic=state.name, place=place)
            else:
                return run, columns

    def _keep_house(self, state: TopicState, topic: _Topic) -> None:
        now = self._steady()
        if not topic.housekeeping.begins(now):
            return
        self._source.begins(Begun(state.name, state.root, Work.HOUSEKEEPING))
        if now >= self._checked_at + HOUSEKEEPING_SECONDS:  # for all topics: they may be very many
            self._check_store()
            self._checked_at = now
        topic.housekeeping.run(state, now, lambda: self._tell(state, topic))

    def _tell(self, state: TopicState, topic: _Topic, problem: str = "") -> None:
        table = topic.table
        ends: dict[int, int] = {}
        segments = size = missing = 0
        if topic.is_open or not problem:
            ends = {
                local_queue(queue_id): table.bounds(queue_id).next_offset
                for queue_id in table.progressing()
                if broker_of_queue(queue_id) == broker_of_queue(self._base)
            }
            segments, size = len(table.snapshot.files), table.snapshot.files.bytes
            missing = table.missing()
        shown = problem or topic.housekeeping.problem
        told = Progress(state.name, state.root, ends, shown, segments, size, missing, is_stuck=bool(problem))
        if told != topic.told:
            topic.told = told
            self._source.told(told)
