"""Witness: sees each version of each table once, through a store that works, and says what is not allowed."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence

import pyarrow.parquet as pq

from entrepot.broker.tiered.checkpoints import commit_name
from entrepot.broker.tiered.columns import to_messages
from entrepot.broker.tiered.delta_actions import AddFile, Commit, RemoveFile, Transaction, decode_commit
from entrepot.broker.tiered.digest import MASK, digest_of
from entrepot.broker.tiered.iceberg.manifests import Status, decode_list, decode_manifest
from entrepot.broker.tiered.iceberg.metadata import decode_metadata
from entrepot.broker.tiered.iceberg.versions import Versions
from entrepot.broker.tiered.objects import MissingObjectError
from entrepot.broker.tiered.segment import CLUSTERED_TAG, Run, counted, runs_of
from entrepot.broker.tiered.source import Progress
from entrepot.domain.broker_of_queue import first_queue
from entrepot.domain.clock import Clock
from entrepot.domain.message import StoredMessage
from tests.support.tiered.failing_objects import FailingObjects
from tests.support.tiered.rows import rows_of
from tests.tiered.uploads.model_broker import ModelBroker, ModelTopic

STORE = "a1b2"
EPOCH = f"epoch/{STORE}"
NUMBER = 3
"""Of the broker, so that the world's queue ids are not its own."""
FIRST_QUEUE = first_queue(NUMBER)


class Broken(BaseException):
    """Something that a tier never does. No uploader takes it for a fault of its topic."""


def as_in_the_world(message: StoredMessage) -> StoredMessage:
    """A message of the broker as its row has it."""
    values = {name: getattr(message, name) for name in StoredMessage.__dataclass_fields__}
    return StoredMessage(**{**values, "queue_id": message.queue_id + FIRST_QUEUE})


def places_of(run: Run) -> set[tuple[int, int]]:
    return {(run.queue_id, offset) for offset in range(run.first, run.next_offset)}


class TableWitness:
    """One table.  `progress`, `digests`: by queue of the broker."""

    def __init__(self, topic: ModelTopic, objects: FailingObjects, clock: Clock) -> None:
        self.topic, self.objects, self.clock = topic, objects, clock
        self.version = -1
        self.live: dict[str, tuple[Run, ...]] = {}
        self.progress: dict[int, int] = {}
        self.digests: Counter[int] = Counter()
        self.expired: set[tuple[int, int]] = set()
        self.segments = self.expiries = self.backward = self.clustered = 0
        self.epoch = -1

    def read_on(self) -> None:
        """Check the versions that have come since.  Raises Broken."""
        while True:
            name = f"{self.topic.root}/_delta_log/{commit_name(self.version + 1)}"
            try:
                commit = decode_commit(self.objects.get(name), name)
            except MissingObjectError:
                return
            self.version += 1
            self._check_writer(commit)
            for action in commit.actions:
                match action:
                    case AddFile():
                        self._add(action)
                    case RemoveFile():
                        self._remove(action)
                    case Transaction() if action.app_id.startswith("next/"):
                        self._move(int(action.app_id[5:]) - FIRST_QUEUE, action.version)
            self._check_offsets()

    def _check_writer(self, commit: Commit) -> None:
        """Each commit but the first says its epoch, and a master that has a successor commits nothing any more."""
        epochs = [each.version for each in commit.actions if isinstance(each, Transaction) and each.app_id == EPOCH]
        if len(epochs) != (self.version > 0):
            raise Broken(f"version {self.version} of {self.topic.root} says {len(epochs)} epochs")
        for epoch in epochs:
            if epoch < self.epoch:
                raise Broken(f"the epoch of {self.topic.root} fell from {self.epoch} to {epoch}")
            self.epoch = epoch

    def check_files(self) -> None:
        """All files of the table are in the store."""
        there = set(self.objects.paths(f"{self.topic.root}/2"))  # its days
        if gone := [path for path in self.live if f"{self.topic.root}/{path}" not in there]:
            raise Broken(f"files of the table {self.topic.root} are deleted: {gone}")

    def check_digests(self) -> None:
        """Those of all runs that ever were add up to that of the messages."""
        for queue_id, end in self.progress.items():
            messages = [
                message
                for message in self.topic.queues[queue_id][self.topic.nowhere[queue_id] : end]
                if (queue_id, message.queue_offset) not in self.topic.lost
            ]
            if self.digests[queue_id] & MASK != digest_of(rows_of(list(map(as_in_the_world, messages)))):
                raise Broken(f"digests of queue {queue_id} of {self.topic.root} do not add up")

    def check_iceberg(self) -> None:
        """Its newest version has the files of the table, with their rows."""
        versions = Versions(self.objects, self.topic.root)
        version, data = versions.newest(0)
        table_id = json.loads(data)["table-uuid"]
        ground = decode_metadata(version, data, table_id, versions.location)
        assert ground is not None and ground.current is not None
        found: dict[str, int] = {}
        for manifest in decode_list(versions.get(ground.current["manifest-list"])):
            for entry in decode_manifest(versions.get(manifest.manifest_path)):
                if entry.status != Status.DELETED:
                    path = entry.data_file.file_path.removeprefix(f"{versions.table}/")
                    if path in found:
                        raise Broken(f"Iceberg has {path} of {self.topic.root} twice")
                    found[path] = entry.data_file.record_count
        due = {path: sum(run.rows for run in runs) for path, runs in self.live.items()}
        if found != due:
            raise Broken(f"Iceberg has other files of {self.topic.root}: {found.items() ^ due.items()}")

    def _add(self, file: AddFile) -> None:
        runs = runs_of(file.tags)
        self.live[file.path] = runs
        self.segments += 1
        try:
            data = self.objects.get(f"{self.topic.root}/{file.path}")
        except MissingObjectError:
            raise Broken(f"{file.path} is in the table {self.topic.root}, and deleted") from None
        rows = to_messages(pq.read_table(io.BytesIO(data)))
        in_order = sorted(rows, key=lambda row: (row.queue_id, row.queue_offset))
        if rows != in_order and CLUSTERED_TAG not in (file.tags or {}):
            raise Broken(f"{file.path} is not in order, and does not say so")
        self.clustered += rows != in_order
        rows = in_order
        if len({row.store_time_ms // 86_400_000 for row in rows}) != 1:
            raise Broken(f"{file.path} goes over midnight")
        for run in runs:
            queue_id = run.queue_id - FIRST_QUEUE
            due = self._messages(queue_id, run.first, run.next_offset)
            if not run.rows:
                self._check_hole(run)
                continue
            if run.rows != run.next_offset - run.first:
                raise Broken(f"a run of {file.path} says nothing of a hole in it")
            found = [row for row in rows if (row.queue_id, row.queue_offset) in places_of(run)]
            if found != due:
                raise Broken(f"{file.path} has other messages of queue {queue_id} than {run.first}-{run.next_offset}")
            times = [message.store_time_ms for message in due]
            if run.rows != len(due) or not run.times[0] <= min(times) <= max(times) <= run.times[1]:
                raise Broken(f"a run of {file.path} says other things than its messages")
            self.digests[queue_id] += run.digest
        for queue in {run.queue_id for run in runs}:
            of_queue = [row for row in rows if row.queue_id == queue]
            if counted(run for run in runs if run.queue_id == queue) != (len(of_queue), digest_of(rows_of(of_queue))):
                raise Broken(f"runs of {file.path} say other things than its messages")
        if sum(run.rows for run in runs) != len(rows):
            raise Broken(f"{file.path} has rows of no run")

    def _check_hole(self, run: Run) -> None:
        """A hole is of messages that are lost, and of all of them."""
        places = {(run.queue_id - FIRST_QUEUE, offset) for offset in range(run.first, run.next_offset)}
        if not places <= self.topic.lost:
            raise Broken(f"a hole of {self.topic.root} has messages that are there: {places - self.topic.lost}")

    def _messages(self, queue_id: int, first: int, end: int) -> list[StoredMessage]:
        first = max(first, self.topic.nowhere[queue_id])
        return [as_in_the_world(message) for message in self.topic.queues[queue_id][first:end]]

    def _remove(self, file: RemoveFile) -> None:
        if not file.data_change:  # its messages are in a merged one, which was looked at like any other
            for run in self.live.pop(file.path):
                self.digests[run.queue_id - FIRST_QUEUE] -= run.digest
            return
        self.expiries += 1
        oldest = self.clock.now_ms() - self.topic.retention_ms
        for run in self.live.pop(file.path):
            if run.times[1] >= oldest:
                raise Broken(f"{file.path} was removed before its time")
            queue_id = run.queue_id - FIRST_QUEUE
            self.expired |= {(queue_id, offset) for offset in range(run.first, run.next_offset)}

    def _move(self, queue_id: int, end: int) -> None:
        if end <= self.progress.get(queue_id, 0):
            raise Broken(f"progress of queue {queue_id} of {self.topic.root} went back to {end}")
        self.progress[queue_id] = end

    def _check_offsets(self) -> None:
        found = Counter(
            (run.queue_id - FIRST_QUEUE, offset)
            for runs in self.live.values()
            for run in runs
            for offset in range(run.first, run.next_offset)
        )
        if doubled := [place for place, count in found.items() if count > 1]:
            raise Broken(f"offsets are in the table {self.topic.root} twice: {doubled}")
        if back := self.expired & found.keys():
            raise Broken(f"expired messages are back: {back}")
        due = {
            (queue_id, offset)
            for queue_id, end in self.progress.items()
            for offset in range(self.topic.nowhere[queue_id], end)
        }
        if due != self.expired | found.keys():
            raise Broken(f"offsets are missing, or too many: {due ^ (self.expired | found.keys())}")
        for queue_id in self.progress:
            left = [offset for number, offset in found if number == queue_id]
            gone = [offset for number, offset in self.expired if number == queue_id]
            if left and gone and min(left) < max(gone):
                raise Broken(f"queue {queue_id} of {self.topic.root} has a gap: {min(left)} is there, {max(gone)} not")


class Witness:
    """All tables of a store, and the disks of all brokers."""

    def __init__(self, objects: FailingObjects, clock: Clock) -> None:
        self._objects, self._clock = objects.working(), clock
        self.tables: dict[str, TableWitness] = {}

    def of(self, topic: ModelTopic) -> TableWitness:
        table = self.tables.get(topic.root)
        if table is None:
            table = self.tables[topic.root] = TableWitness(topic, self._objects, self._clock)
        return table

    def look(self, topics: Sequence[ModelTopic], brokers: Sequence[ModelBroker]) -> None:
        """Raises Broken."""
        for topic in topics:
            table = self.of(topic)
            table.read_on()
            table.check_files()
            for broker in brokers:
                for queue_id in range(len(topic.queues)):
                    least = broker.min_offset(topic, queue_id)
                    first = max(table.progress.get(queue_id, 0), topic.nowhere[queue_id])
                    if any((queue_id, offset) not in topic.lost for offset in range(first, least)):
                        raise Broken(f"messages before {least} of queue {queue_id} of {topic.root} are nowhere")

    def check_told(self, topic: ModelTopic, before: Progress | None, told: Progress) -> None:
        """Nothing is told that the table does not have, and progress never goes back."""
        table = self.of(topic)
        table.read_on()
        for queue_id, end in told.ends.items():
            if end > table.progress.get(queue_id, 0):
                raise Broken(f"{end} was told of queue {queue_id} of {topic.root}, which the table does not have")
        for queue_id, end in () if before is None else before.ends.items():
            if told.ends and told.ends.get(queue_id, 0) < end:
                raise Broken(f"progress of queue {queue_id} of {topic.root} was told to be {end}, and now less")
