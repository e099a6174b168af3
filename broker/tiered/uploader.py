"""Uploader: brings confirmed messages of tiered topics into their tables, topic by topic, in bounded memory.

It asks the broker for the states of its topics and for records, and reports the progress of each queue. The tables
record its work: nothing is remembered here over a crash. A topic that fails is tried again later, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
import structlog

from entrepot.broker.tiered.delta_log import ConflictError
from entrepot.broker.tiered.fence import Fence, Writer
from entrepot.broker.tiered.json_columns import JsonColumns
from entrepot.broker.tiered.marks import TableMark, check_store
from entrepot.broker.tiered.merging import merge
from entrepot.broker.tiered.objects import ObjectStore, TierError
from entrepot.broker.tiered.record_rows import rows_of_run
from entrepot.broker.tiered.settings import Payload
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.shard import broker_of_queue, first_queue, local_queue
from entrepot.protocols.remoting.records import RecordColumns, RecordRun, decode_run

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
HOUSEKEEPING_SECONDS: Final = 60.0
VACUUM_SECONDS: Final = 3600.0
log = structlog.get_logger(__name__)


class QueueState(msgspec.Struct, frozen=True, array_like=True):
    """A queue of the broker: its confirmed messages, and the approximate bytes of the log per message."""

    queue_id: int
    min_offset: int
    end: int
    message_bytes: int


class TopicState(msgspec.Struct, frozen=True, array_like=True):
    """A tiered topic. `root`: of its table. `retention_ms`: age at which segments leave the table. `epoch`: of the
    broker that asks for the upload (`fence.epoch_of`). `mark`: the table as its store knows it."""

    name: str
    root: str
    retention_ms: int
    queues: list[QueueState]
    epoch: int = 0
    mark: TableMark | None = None


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """State of a topic: the table's end by queue of the broker; `problem`: the reason why it does not go on, or empty.
    `segments`, `bytes`: of the table. `missing`: lost messages within it."""

    topic: str
    root: str
    ends: dict[int, int]
    problem: str = ""
    segments: int = 0
    bytes: int = 0
    missing: int = 0


class Source(Protocol):
    """The broker."""

    def states(self) -> list[TopicState]: ...

    def records(self, topic: str, queue_id: int, first: int, end: int, max_bytes: int) -> bytes:
        """Return a run of records (`protocols.remoting.records`). Raises EntrepotError."""

    def heal(self, commit_log_offset: int) -> bool | None:
        """Have a corrupted record fetched from another replica. True: it is whole now; None: there is no replica."""

    def told(self, progress: Progress) -> None: ...


class _Topic:
    """Knowledge of a topic between rounds. Times in seconds of the steady clock."""

    def __init__(self, table: TopicTable, fence: Fence) -> None:
        self.table, self.fence = table, fence
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
        self.kept_house_at = 0.0
        self.vacuumed_at = 0.0
        self.told: Progress | None = None


class Uploader:
    """The uploader. `steady`: seconds of a clock that never jumps. `number`: of the broker, `writer`: its identity.
    `max_age`: seconds that messages wait. `requests_per_hour`: to the object store, about, by all topics; many small
    ones wait longer. `token`: mark of the writer's store in the object store, without which nothing is written."""

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
        token: str = "",
    ) -> None:
        self._source, self._objects = source, objects
        self._clock, self._random, self._steady = clock, random, steady
        self._base, self._writer = first_queue(number), writer
        self._segment_bytes, self._max_age, self._grace = segment_bytes, max_age, grace
        self._requests_per_hour = requests_per_hour
        self._payload, self._token = payload, token
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
            topic = self._topics[state.root] = _Topic(table, fence)
        topic.fence.epoch = state.epoch
        if topic.known != state.mark:  # somebody has accepted the table as it is
            topic.known, topic.not_before = state.mark, 0.0
        if self._steady() < topic.not_before:
            return False
        try:
            has_more = self._bring_up(state, topic)
            self._keep_house(state, topic)
        except EOFError:  # the broker has ended
            raise
        except Exception as error:  # noqa: BLE001 whatever one topic has, the others go on
            topic.pause = min(2 * topic.pause or FIRST_PAUSE, LONGEST_PAUSE)
            topic.not_before = self._steady() + topic.pause
            topic.is_open = topic.is_open and isinstance(error, ConflictError)
            problem = error.message if isinstance(error, EntrepotError) else f"{type(error).__name__}: {error}"
            log.warning("a topic is not tiered", seldom=f"tier {state.root}", topic=state.name, problem=problem)
            self._tell(state, topic, problem)
            return False
        topic.pause = 0.0
        if topic.told is not None and topic.told.problem:
            self._tell(state, topic)  # it is over
        return has_more

    def _bring_up(self, state: TopicState, topic: _Topic) -> bool:
        """Upload one segment where there is enough, or it has waited; True if there may be more."""
        if not topic.is_open:
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
            return False
        if topic.waiting_since is None:
            topic.waiting_since = self._steady()
        if waiting < self._segment_bytes and self._steady() < topic.waiting_since + self._age(waiting):
            return False
        topic.waiting_since = None
        return self._upload(state, topic, starts) and waiting > self._segment_bytes

    def _check_store(self) -> None:
        """Raise PRECONDITION_FAILED where the object store is not the one that the broker has used: it may be a folder
        without its disk."""
        if self._token:
            check_store(self._objects, self._writer.store, self._token)

    def _age(self, waiting: int) -> float:
        """Return the seconds that messages of a topic wait: the fewer bytes and the more waiting topics, the longer."""
        stretched = min(self._waiting * REQUESTS_AN_UPLOAD * 3600 / self._requests_per_hour, LONGEST_AGE)
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
        found: dict[int, list[Any]] = {}
        expected: dict[int, int | None] = {}
        ends: dict[int, int] = {}
        left, last = self._segment_bytes, topic.last_queue
        # Each time another queue is the first: one that always has a segment's worth does not keep the others waiting.
        for queue in sorted(state.queues, key=lambda each: (each.queue_id <= topic.last_queue, each.queue_id)):
            offset = starts[queue.queue_id]
            while offset < queue.end and left > 0:
                run, columns = self._run(state, topic, queue, offset, min(left, RUN_BYTES))
                if run.next_offset <= offset:
                    break
                found.setdefault(queue.queue_id, []).append(rows_of_run(run, columns, self._base, queue.queue_id))
                left -= len(run.data)
                topic.seen_bytes[queue.queue_id] = len(run.data) // (run.next_offset - offset)
                offset = run.next_offset
            if offset > starts[queue.queue_id]:
                world = self._base + queue.queue_id
                expected[world], ends[world] = topic.table.progress(world), offset
                last = queue.queue_id
        if not ends:
            return False
        in_order = [rows for _, of_queue in sorted(found.items()) for rows in of_queue]
        rows, schema = pa.concat_tables(in_order), topic.table.schema
        if self._payload is Payload.JSON:
            try:
                rows, schema = topic.json.typed(rows, schema)
            except (pa.ArrowException, ValueError) as error:  # bodies are anybody's: they never stop a topic
                log.error("bodies went without their columns", topic=state.name, problem=str(error))
        self._check_store()
        topic.table.upload(rows, expected, ends, schema)
        topic.last_queue = last
        topic.corrupted_since.clear()
        self._tell(state, topic)
        return True

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
        if topic.kept_house_at and now < topic.kept_house_at + HOUSEKEEPING_SECONDS:
            return
        topic.kept_house_at = now
        if now >= self._checked_at + HOUSEKEEPING_SECONDS:  # for all topics: they may be very many
            self._check_store()
            self._checked_at = now
        if merge(topic.table, self._objects):
            self._tell(state, topic)
        if topic.table.expire(self._clock.now_ms() - state.retention_ms):
            self._tell(state, topic)
        if not topic.vacuumed_at or now >= topic.vacuumed_at + VACUUM_SECONDS:
            if topic.vacuumed_at:
                topic.table.check_current()
            topic.vacuumed_at = now
            topic.table.vacuum(int(1000 * self._grace))

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
            segments, size = len(table.snapshot.files), sum(file.size for file in table.snapshot.files.values())
            missing = table.missing()
        told = Progress(state.name, state.root, ends, problem, segments, size, missing)
        if told != topic.told:
            topic.told = told
            self._source.told(told)
