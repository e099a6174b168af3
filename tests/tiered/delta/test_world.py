"""Many writers over a failing store lose nothing and double nothing; a log that breaks a rule is found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from entrepot.broker.tiered.delta_actions import MAINTENANCE, Commit, OwnAction, Transaction
from entrepot.broker.tiered.delta_log import ConflictError, DeltaLog
from entrepot.broker.tiered.objects import ObjectStore
from entrepot.broker.tiered.snapshot import Snapshot
from tests.simulation.found_out import check_found_out
from tests.support.seed import SEED
from tests.tiered.delta.world import Broken, World
from tests.tiers.marks import scaled

WORLDS = scaled(3, 60)
MAX_WORLDS = scaled(20, 80)
"""Within so many each planted fault is found."""
STEPS = 400


class RebasingLog(DeltaLog):
    """Goes on to N+2 where no app id of its own has changed, as delta-rs does, and looks at nothing else."""

    def commit(
        self,
        snapshot: Snapshot,
        actions: Sequence[OwnAction],
        attempt_id: str,
        *,
        operation: str = "WRITE",
        expected: Mapping[str, int | None] | None = None,
    ) -> Snapshot:
        own = {action.app_id for action in actions if isinstance(action, Transaction)}
        while True:
            try:
                return super().commit(snapshot, actions, attempt_id, operation=operation, expected=expected)
            except ConflictError as conflict:
                now, then = conflict.snapshot.transactions, snapshot.transactions
                if conflict.snapshot is snapshot or any(now.get(app_id) != then.get(app_id) for app_id in own):
                    raise
                snapshot = conflict.snapshot

    def _check_actions(
        self, snapshot: Snapshot, actions: Sequence[OwnAction], expected: Mapping[str, int | None]
    ) -> None:
        pass


class WithoutMaintenance(RebasingLog):
    """T1: two maintainers do not see one another."""

    def commit(self, snapshot: Snapshot, actions: Sequence[OwnAction], attempt_id: str, **more: object) -> Snapshot:
        kept = [each for each in actions if not (isinstance(each, Transaction) and each.app_id == MAINTENANCE)]
        return super().commit(snapshot, kept, attempt_id, **more)  # type: ignore[arg-type]


class WithoutExpectations(DeltaLog):
    """T2: a fresh handle repeats a version of progress."""

    @staticmethod
    def _check_expected(snapshot: Snapshot, expected: Mapping[str, int | None]) -> None:
        pass


class NotedPuts:
    """A store of objects that knows whether the answer to its last put was lost."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self.was_lost = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def put_new(self, path: str, data: bytes) -> bool:
        self.was_lost = True
        is_new = self._objects.put_new(path, data)
        self.was_lost = False
        return is_new


class CommitsAgain(DeltaLog):
    """T3: an answer that is lost leads to a second commit."""

    def commit(self, snapshot: Snapshot, actions: Sequence[OwnAction], attempt_id: str, **more: object) -> Snapshot:
        try:
            return super().commit(snapshot, actions, attempt_id, **more)  # type: ignore[arg-type]
        except ConflictError as conflict:
            if conflict.snapshot is snapshot or not self._noted.was_lost:
                raise
            self._check_expected = lambda *_: None  # type: ignore[method-assign]
            self._check_actions = lambda *_: None  # type: ignore[method-assign]
            return super().commit(conflict.snapshot, actions, attempt_id, **more)  # type: ignore[arg-type]

    def __init__(self, objects: ObjectStore, *more: Any) -> None:
        self._noted = NotedPuts(objects)
        super().__init__(self._noted, *more)  # type: ignore[arg-type]

    def _met(self, snapshot: Snapshot, name: str, attempt_id: str, found: Commit) -> Snapshot:
        return super()._met(snapshot, name, f"not {attempt_id}" if self._noted.was_lost else attempt_id, found)


@pytest.mark.scaled
@pytest.mark.parametrize("log_type", [DeltaLog, RebasingLog])
def test_many_writers_over_a_failing_store_keep_each_row_once(log_type: type[DeltaLog]) -> None:
    """With the maintenance id even the log that rebases is safe, but for its words after a lost answer."""
    print(f"ENTREPOT_TEST_SEED={SEED}")
    merges = expiries = versions = faults = 0
    for number in range(WORLDS):
        world = World(f"{SEED}-{number}", log_type, refusals_are_certain=log_type is DeltaLog)
        world.run(STEPS)
        merges, expiries = merges + world.witness.merges, expiries + world.witness.expiries
        versions, faults = versions + world.witness.version, faults + world.faults
    print(f"{versions} versions, {merges} merges, {expiries} expiries, {faults} faults")
    assert min(versions // 10, merges, faults) > WORLDS
    assert expiries  # about one in each world


@pytest.mark.scaled
@pytest.mark.parametrize(
    ("log_type", "words"),
    [
        (WithoutMaintenance, "twice|are back"),
        (WithoutExpectations, "twice|went back|missing"),
        (CommitsAgain, "twice|went back|refused"),
    ],
)
def test_a_log_that_breaks_a_rule_is_found_out(log_type: type[DeltaLog], words: str) -> None:
    check_found_out(words, MAX_WORLDS, lambda seed: finding(seed, log_type), lambda seed: finding(seed, DeltaLog))


def finding(seed: str, log_type: type[DeltaLog]) -> str | None:
    """Why the world of this seed is broken; None where it is not."""
    try:
        certain = not issubclass(log_type, RebasingLog)
        World(seed, log_type, refusals_are_certain=certain).run(STEPS)
    except Broken as broken:
        return str(broken)
    return None
