"""Parts of a tier that break a rule each, for the worlds to find them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from entrepot.broker.cold.reads import ColdPage
from entrepot.broker.tiered.cold import ColdTopic
from entrepot.broker.tiered.delta_actions import AddFile, OwnAction
from entrepot.broker.tiered.delta_log import ConflictError
from entrepot.broker.tiered.fence import Fence
from entrepot.broker.tiered.iceberg.iceberg_table import IcebergTable
from entrepot.broker.tiered.iceberg.metadata import Ground
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.packed_files import packed
from entrepot.broker.tiered.places import Place
from entrepot.broker.tiered.segment import Run, Segment
from entrepot.broker.tiered.snapshot import Snapshot
from entrepot.broker.tiered.source import Caution, Progress, TopicState
from entrepot.broker.tiered.table import TopicTable
from entrepot.broker.tiered.upload.uploader import Uploader, _Topic
from entrepot.domain.broker_of_queue import local_queue
from entrepot.domain.expression.filter import MessageFilter
from entrepot.domain.message import StoredMessage
from tests.tiered.uploads.model_broker import ModelBroker


class NoFence(Fence):
    """It says who writes, and refuses nobody."""

    def check(self, root: str, snapshot: Snapshot) -> None:
        pass


class TriesTheSame(ModelBroker):
    """Whatever ended an uploader is tried again as it was."""

    def states(self) -> list[TopicState]:
        return [msgspec.structs.replace(each, caution=Caution.NONE) for each in super().states()]


class KeepsFiles(IcebergTable):
    """What Delta's log has removed stays in Iceberg's metadata."""

    _ever: Mapping[str, bytes] = MappingProxyType({})

    def _write(self, version: int, ground: Ground | None, snapshot: Snapshot) -> bool:
        self._ever = {**self._ever, **{path: packed(snapshot.files[path]) for path in snapshot.files}}
        return super()._write(version, ground, replace(snapshot, files=snapshot.files.changed(self._ever)))


class FollowsBadly(Uploader):
    """Iceberg's metadata are written by `KeepsFiles`."""

    def _iceberg(self, root: str) -> IcebergTable:
        return KeepsFiles(self._objects, root, self._clock, self._random, int(1000 * self._grace))


class TellsFirst(Uploader):
    """Progress is told before the commit."""

    def _upload(self, state: TopicState, topic: _Topic, starts: Mapping[int, int]) -> bool:
        ends = {queue.queue_id: queue.end for queue in state.queues}
        self._source.told(Progress(state.name, state.root, ends))
        return super()._upload(state, topic, starts)


class ExpectsNothing(TopicTable):
    """Whatever another has committed meanwhile, the commit is made after it."""

    def _commit(self, actions: Sequence[OwnAction], operation: str, expected: Mapping[str, int | None]) -> None:
        try:
            super()._commit(actions, operation, expected)
        except ConflictError as conflict:
            if operation != "WRITE":
                raise
            found = {app_id: conflict.snapshot.transactions.get(app_id) for app_id in expected}
            super()._commit(actions, operation, found)


class TidiesUp(TopicTable):
    """After an error its files are deleted; the commit may be there, though."""

    def _commit(self, actions: Sequence[OwnAction], operation: str, expected: Mapping[str, int | None]) -> None:
        try:
            super()._commit(actions, operation, expected)
        except TierError:
            self._objects.delete([f"{self.root}/{each.path}" for each in actions if isinstance(each, AddFile)])
            raise


class LosesFirsts(TopicTable):
    """Where the day changes, the first message of the new one is lost."""

    def upload(
        self,
        rows: Any,
        starts: Mapping[int, int | None],
        ends: Mapping[int, int],
        schema: str | None = None,
        given_up: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        queues = rows.column("queue_id").to_numpy()
        days = rows.column("store_time").cast(pa.int64()).to_numpy() // 86_400_000_000
        is_kept = np.append(True, (np.diff(queues) != 0) | (np.diff(days) == 0))
        super().upload(rows.filter(pa.array(is_kept)), starts, ends, schema, given_up)


class CoversHoles(TopicTable):
    """A run covers the messages that were lost before its upload."""

    def _store(self, segment: Segment, day: str, *, is_new: bool = True) -> AddFile:
        runs: list[Run] = []
        for run in segment.runs:
            if runs and not runs[-1].rows and runs[-1].next_offset == run.first:
                run = msgspec.structs.replace(run, first=runs.pop().first)
            runs.append(run)
        return super()._store(replace(segment, runs=tuple(runs)), day, is_new=is_new)


class ExpiresAlone(TopicTable):
    """Of several segments the old ones go, wherever they lie."""

    def _following(self, gone: Mapping[str, Sequence[Run]]) -> list[str]:
        return []


class StaysBehind(TopicTable):
    """After a conflict it tries again with what it knew."""

    def _commit(self, actions: Sequence[OwnAction], operation: str, expected: Mapping[str, int | None]) -> None:
        before = self._snapshot
        try:
            super()._commit(actions, operation, expected)
        except ConflictError:
            self._snapshot = before
            raise


class TrustsWhatWasTold(ModelBroker):
    """After a start retention goes by what was told before, of whatever store."""

    def crash(self) -> None:
        pass


class LetsGo(ModelBroker):
    """The disk lets go as if there were no tier."""

    def kept_from(self, topic: object, queue_id: int) -> int:
        return 1 << 62


class ForgetsTables(ModelBroker):
    """It knows of its tables what the object store says of them."""

    def states(self) -> list[TopicState]:
        return [msgspec.structs.replace(state, mark=None) for state in super().states()]


class StepsOver(ColdTopic):
    """A run that is missing is no error."""

    def _read(
        self, place: Place, size: int, queue_id: int, offset: int, most: int, wanted: MessageFilter | None
    ) -> tuple[list[StoredMessage], int | None]:
        try:
            return super()._read(place, size, queue_id, offset, most, wanted)
        except TierError as error:
            if "which is gone" not in error.message:
                raise
            return [], None

    def _place(self, queue_id: int, offset: int) -> tuple[Place | None, int]:
        try:
            return super()._place(queue_id, offset)
        except TierError:
            places = self._table._places.all(queue_id + self._base)
            place = next((each for each in places if each.first > offset), None)
            return place, 0 if place is None else self._table.snapshot.files[place.path].size


class BeginsLate(ColdTopic):
    """A page begins one message late, now and then."""

    def read(self, queue_id: int, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        found = super().read(queue_id, first, most, wanted)
        return ColdPage(found.messages[1:], found.next_offset) if len(found.messages) > 6 else found


class ForgetsTheNumber(ColdTopic):
    """Queues have the world's numbers in what is read."""

    def read(self, queue_id: int, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        found = super().read(queue_id, first, most, wanted)
        for message in found.messages:
            message.queue_id = local_queue(message.queue_id) + self._base
        return found
