"""DeltaLog: the transaction log of one Delta table, read and written over an ObjectStore.

A commit is one object, version N+1, put where there is none: it exists or it does not. A writer that finds another's
version in its place gets ConflictError and decides anew. It never goes on to N+2 by itself, and no error deletes
anything. Versions are read by name and never by list, so that a list which is behind hides no commit. One danger
remains: a name may be missing because it was cleaned up. Two rules exclude it. Only commits below a checkpoint older
than LOG_RETENTION_MS are removed. A snapshot older than half of that is loaded anew before anything is built on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final
from uuid import NAMESPACE_URL, uuid5

import structlog

from entrepot.broker.tiered import checkpoints as points
from entrepot.broker.tiered.checkpoints import Hint, commit_name
from entrepot.broker.tiered.delta_actions import (
    ENGINE,
    MAINTENANCE,
    PARQUET,
    READER_VERSION,
    WRITER_VERSION,
    Action,
    AddFile,
    Commit,
    CommitInfo,
    Metadata,
    OwnAction,
    Protocol,
    RemoveFile,
    Transaction,
    check_plain,
    decode_commit,
    encode_commit,
)
from entrepot.broker.tiered.objects import MissingObjectError, ObjectStore, StoredObject, TierError, put_or_find
from entrepot.broker.tiered.snapshot import Replay, Snapshot, moved
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code

CHECKPOINT_COMMITS: Final = 100
LOG_RETENTION_MS: Final = 2 * 86_400_000
"""Age at which a commit below a checkpoint is removed."""
MAX_SNAPSHOT_AGE_MS: Final = LOG_RETENTION_MS // 2
"""Greatest age of a snapshot since it was known to be the newest; the other half is for clocks that differ, and for
slow requests."""
TOMBSTONE_RETENTION_MS: Final = 7 * 86_400_000
MAX_BATCH: Final = 1_000
"""Most commits held undecoded while a log is read, and most objects of one request to delete."""
MAX_VACUUM_PATHS: Final = 10_000
"""Most paths of each kind found in one vacuum; the next one finds the others."""
CONFIGURATION: Final = {"delta.enableExpiredLogCleanup": "false"}
"""Configuration of every table of ours: nobody else cleans up the log."""
log = structlog.get_logger(__name__)


class ConflictError(TierError):
    """Another's commit came first, or the table is not as expected. `snapshot`: its present state."""

    def __init__(self, message: str, snapshot: Snapshot) -> None:
        super().__init__(message, Code.PRECONDITION_FAILED)
        self.snapshot = snapshot


@dataclass(frozen=True, slots=True)
class Vacuum:
    """Objects that nobody needs any more, by their paths in the store: removed files, files in no version, and the log
    below a checkpoint."""

    tombstoned: tuple[str, ...]
    orphans: tuple[str, ...]
    log: tuple[str, ...]


class DeltaLog:
    """The log of one table. `root`: the table's path in the store, without "/" at its end.

    Not for several threads at once. All calls raise TierError for a failing store, a corrupted file of the log, and
    features that only another engine knows.
    """

    def __init__(
        self, objects: ObjectStore, root: str, clock: Clock, checkpoint_commits: int = CHECKPOINT_COMMITS
    ) -> None:
        self._objects = objects
        self._root = f"{root}/" if root else ""
        self._log = f"{self._root}_delta_log/"
        self._clock = clock
        self._checkpoint_commits = checkpoint_commits
        self._checkpointed = 0

    def create(self, schema: str, configuration: Mapping[str, str], attempt_id: str) -> Snapshot:
        """Make the table, with Spark's JSON schema, or load the existing one as it is."""
        now = self._clock.now_ms()
        metadata = Metadata(
            id=str(uuid5(NAMESPACE_URL, attempt_id)),
            schema_string=schema,
            configuration={**CONFIGURATION, **configuration},
            created_time=now,
            partition_columns=[],
            format=PARQUET,
        )
        actions: list[Action] = [Protocol(READER_VERSION, WRITER_VERSION), metadata]
        check_plain(self._where, actions)
        data = encode_commit(self._info("CREATE TABLE", attempt_id), actions)
        lost: TierError | None = None
        try:
            self._objects.put_new(self._log + commit_name(0), data)
        except TierError as error:
            lost = error
        found = self.load()
        if found is None:
            raise lost or TierError(f"{self._where} was made, and is not there")
        return found

    def load(self) -> Snapshot | None:
        """Return the newest version, by a checkpoint and the commits after it; None where there is no table."""
        now = self._clock.now_ms()
        names = [found.path[len(self._log) :] for found in self._objects.objects(self._log)]
        complete = points.complete_checkpoints(names)
        commits = (version for name in names if (version := points.version_of_commit(name)) is not None)
        newest = max([-1, *complete, *commits])
        hint = self._hint()
        if hint is not None:
            complete.setdefault(hint.version, points.names_of(hint))
            newest = max(newest, hint.version)
        for version in sorted(complete, reverse=True):
            with suppress(MissingObjectError):
                if replay := self._from_checkpoint(version, complete[version], now):
                    self._checkpointed = max(self._checkpointed, version)
                    break
        else:
            replay = Replay()
        self._replay_tail(replay)
        if replay.version < newest:
            raise TierError(
                f"{self._log}{commit_name(replay.version + 1)} is missing, and version {newest} is there",
                Code.MESSAGE_CORRUPTED,
            )
        return replay.snapshot(now, self._where) if replay.version >= 0 else None

    def refresh(self, snapshot: Snapshot) -> Snapshot:
        """Return the newest version, from an earlier snapshot."""
        now = self._clock.now_ms()
        if self._is_old(snapshot, now):
            return self._reloaded()
        while True:
            commits = list(islice(self._commits_after(snapshot.version), MAX_BATCH))
            snapshot = moved(snapshot, commits, now)
            if len(commits) < MAX_BATCH:
                return snapshot

    def written_ms(self, snapshot: Snapshot) -> int:
        """Return a version's commit time by its writer, in epoch milliseconds; 0 where it has none."""
        path = self._log + commit_name(snapshot.version)
        return self._decode(path, self._objects.get(path)).info.timestamp or 0

    def commit(
        self,
        snapshot: Snapshot,
        actions: Sequence[OwnAction],
        attempt_id: str,
        *,
        operation: str = "WRITE",
        expected: Mapping[str, int | None] | None = None,
    ) -> Snapshot:
        """Write the version after the snapshot's. `attempt_id` belongs to this commit alone, and to its repetitions.

        `expected`: the transactions as they must be in the snapshot (None: not there); every app id that the actions
        set is in it, except MAINTENANCE. Raises ConflictError where the table is not as expected, or another's commit
        came first; ValueError for actions that break a rule; TierError where the outcome is unknown. The same call may
        then be made again.
        """
        self._check_expected(snapshot, expected or {})
        self._check_actions(snapshot, actions, expected or {})
        now = self._clock.now_ms()
        name = self._log + commit_name(snapshot.version + 1)
        if self._is_old(snapshot, now):
            latest = self._reloaded()
            if latest.version != snapshot.version:
                return self._met_late(latest, name, attempt_id)
            snapshot = latest
        self.check_is_there(snapshot)
        info = self._info(operation, attempt_id)
        found = put_or_find(self._objects, name, encode_commit(info, actions))
        if found is None:
            return moved(snapshot, [Commit(info, actions)], now)
        return self._met(snapshot, name, attempt_id, self._decode(name, found))

    def check_is_there(self, snapshot: Snapshot) -> None:
        """Raise COLD_CORRUPTED where the store was put back to an earlier state. A commit over a hole would make the
        table unreadable."""
        try:
            self._objects.size(self._log + commit_name(snapshot.version))
        except MissingObjectError:
            raise TierError(
                f"the table {self._where} has gone back behind version {snapshot.version}: was the bucket restored, or "
                "cleaned by a rule? Messages on the disk go there again",
                Code.COLD_CORRUPTED,
            ) from None

    def _met(self, snapshot: Snapshot, name: str, attempt_id: str, found: Commit) -> Snapshot:
        """Return the table with the commit found in our place, if it is ours; else raise ConflictError."""
        met = moved(snapshot, [found], snapshot.newest_ms)  # it may have been there for long
        if found.is_of(attempt_id):
            return met
        raise ConflictError(f"{name} is another's commit", self.refresh(met))

    def _met_late(self, latest: Snapshot, name: str, attempt_id: str) -> Snapshot:
        """Return the latest version if an old snapshot's successor is this very commit; else raise ConflictError."""
        with suppress(MissingObjectError):  # it was cleaned up: the outcome stays unknown
            if self._decode(name, self._objects.get(name)).is_of(attempt_id):
                return latest
        raise ConflictError(f"{self._where} is at version {latest.version} already", latest)

    def checkpoint(self, snapshot: Snapshot) -> bool:
        """Write a checkpoint where one is due; True if it was written. A failure is logged, and changes nothing."""
        if snapshot.version < self._checkpointed + self._checkpoint_commits:
            return False
        try:
            hint = self._hint()
            self._checkpointed = max(self._checkpointed, hint.version if hint else 0)
            if snapshot.version < self._checkpointed + self._checkpoint_commits:
                return False
            made = points.encode_checkpoint(snapshot, self._clock.now_ms() - TOMBSTONE_RETENTION_MS)
            self._objects.put_new(self._log + points.checkpoint_name(snapshot.version), made.data)
            self._checkpointed = snapshot.version
            self._objects.replace(self._log + points.HINT_NAME, points.encode_hint(made.hint))
        except TierError as error:
            log.warning(
                "could not write a checkpoint", table=self._where, version=snapshot.version, error=error.message
            )
            return False
        return True

    def vacuum(self, snapshot: Snapshot, grace_ms: int, now_ms: int) -> Vacuum:
        """Find the objects to be deleted at `now_ms`; nothing is deleted yet. `grace_ms` exceeds any reader's hold on a
        version, and any writer's time from a file to its commit. Names that begin with "_" or "." are left alone."""
        snapshot = self.refresh(snapshot)
        before = now_ms - grace_ms
        tombstoned: list[str] = []
        orphans: list[str] = []
        for found in self._objects.objects(self._root):
            path = found.path[len(self._root) :]
            if path in snapshot.files or any(part[:1] in ("_", ".") for part in path.split("/")):
                continue
            removed_ms = snapshot.tombstones.get(path)
            if removed_ms is not None and removed_ms < before:
                tombstoned.append(path)
            elif removed_ms is None and found.modified_ms < before:
                orphans.append(path)
            if max(len(tombstoned), len(orphans)) >= MAX_VACUUM_PATHS:
                break
        latest = self.refresh(snapshot)  # a commit may have come since
        return Vacuum(self._dead(tombstoned, latest), self._dead(orphans, latest), self._old_log(now_ms))

    def delete(self, snapshot: Snapshot, vacuum: Vacuum) -> None:
        """Delete the objects of a vacuum, except files that are in the table again."""
        files = self.refresh(snapshot).files
        cut = len(self._root)
        paths = [path for path in (*vacuum.tombstoned, *vacuum.orphans) if path[cut:] not in files]
        paths += vacuum.log
        for start in range(0, len(paths), MAX_BATCH):
            self._objects.delete(paths[start : start + MAX_BATCH])

    def _dead(self, paths: list[str], snapshot: Snapshot) -> tuple[str, ...]:
        return tuple(self._root + path for path in paths if path not in snapshot.files)

    def _old_log(self, now_ms: int) -> tuple[str, ...]:
        """Return commits and checkpoints that readers need no more, oldest first. Version 0 stays for ever: it shows
        that the table exists."""
        before = now_ms - LOG_RETENTION_MS
        old: list[StoredObject] = [found for found in self._objects.objects(self._log) if found.modified_ms < before]
        names = [found.path[len(self._log) :] for found in old]
        floor = max(points.complete_checkpoints(names), default=0)
        hint = self._hint()
        if hint is not None:
            floor = min(floor, hint.version)
        commits = [name for name in names if 0 < (points.version_of_commit(name) or 0) < floor]
        others = [name for name in names if -1 < _checkpoint_or(name, floor) < floor]
        return tuple(self._log + name for name in islice((*commits, *others), MAX_VACUUM_PATHS))

    @property
    def _where(self) -> str:
        """The place of the table, for people."""
        return f"{self._objects.url.rstrip('/')}/{self._root.rstrip('/')}"

    def _info(self, operation: str, attempt_id: str) -> CommitInfo:
        return CommitInfo(self._clock.now_ms(), operation, ENGINE, attempt_id)

    def _is_old(self, snapshot: Snapshot, now_ms: int) -> bool:
        return now_ms - snapshot.newest_ms > MAX_SNAPSHOT_AGE_MS

    def _reloaded(self) -> Snapshot:
        found = self.load()
        if found is None:
            raise TierError(f"{self._where} is not there any more", Code.MESSAGE_CORRUPTED)
        return found

    def _decode(self, path: str, data: bytes) -> Commit:
        commit = decode_commit(data, path)
        check_plain(self._where, commit.actions)
        return commit

    def _commits_after(self, version: int) -> Iterator[Commit]:
        while True:
            version += 1
            path = self._log + commit_name(version)
            try:
                data = self._objects.get(path)
            except MissingObjectError:
                return
            yield self._decode(path, data)

    def _replay_tail(self, replay: Replay) -> None:
        for commit in self._commits_after(replay.version):
            replay.add(commit)

    def _hint(self) -> Hint | None:
        try:
            return points.decode_hint(self._objects.get(self._log + points.HINT_NAME))
        except MissingObjectError:
            return None

    def _from_checkpoint(self, version: int, names: Sequence[str], now_ms: int) -> Replay | None:
        """Return the start of a replay, or None for a corrupted checkpoint, which is logged. Raises MissingObjectError
        where a part is missing."""
        parts = {self._log + name: self._objects.get(self._log + name) for name in names}
        try:
            snapshot = points.decode_checkpoint(version, parts, now_ms, partial(check_plain, self._where))
        except TierError as error:
            if error.code is Code.UNSUPPORTED:
                raise
            log.warning("skipped an unreadable checkpoint", table=self._where, version=version, error=error.message)
            return None
        return Replay(snapshot)

    @staticmethod
    def _check_expected(snapshot: Snapshot, expected: Mapping[str, int | None]) -> None:
        for app_id, version in expected.items():
            if (found := snapshot.transactions.get(app_id)) != version:
                raise ConflictError(f"{app_id} is at {found}, not at {version}", snapshot)

    def _check_actions(
        self, snapshot: Snapshot, actions: Sequence[OwnAction], expected: Mapping[str, int | None]
    ) -> None:
        check_plain(self._where, actions)
        paths: set[str] = set()
        maintenance = None
        for action in actions:
            if isinstance(action, AddFile | RemoveFile):
                if action.path in paths:
                    raise ValueError(f"{action.path} is in the commit twice")
                paths.add(action.path)
                if (action.path in snapshot.files) is isinstance(action, AddFile):
                    raise ValueError(f"{action.path} is{'' if isinstance(action, AddFile) else ' not'} in the table")
            elif isinstance(action, Transaction):
                if action.app_id == MAINTENANCE:
                    maintenance = action.version
                elif action.app_id not in expected:
                    raise ValueError(f"the commit sets {action.app_id}, of which nothing is expected")
        self._check_maintenance(snapshot, actions, maintenance)

    @staticmethod
    def _check_maintenance(snapshot: Snapshot, actions: Sequence[OwnAction], version: int | None) -> None:
        """Check that removes raise the shared app id, so that no stale remover succeeds, whichever its engine."""
        following = snapshot.transactions.get(MAINTENANCE, 0) + 1
        if version is None and not any(isinstance(action, RemoveFile) for action in actions):
            return
        if version != following:
            raise ValueError(f"a commit with removes sets {MAINTENANCE} to {following}, not to {version}")


def next_maintenance(snapshot: Snapshot) -> Transaction:
    """Return the action of every commit with removes."""
    return Transaction(MAINTENANCE, snapshot.transactions.get(MAINTENANCE, 0) + 1)


def _checkpoint_or(name: str, other: int) -> int:
    version = points.version_of_checkpoint(name)
    return other if version is None else version
