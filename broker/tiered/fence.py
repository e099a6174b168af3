"""Fence: the writers that a table admits.

Each commit has the epoch of its store, and the run of its broker. A master that has a successor has a lower epoch. Two
brokers of one store (a copy of a data directory) have different runs: the earlier one is refused from the other's first
commit on. Taking a table over shuts out its former stores.

Other stores have other ids, so a table with the epoch of another store is another's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from entrepot.broker.tiered.delta_actions import OwnAction, Transaction
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.snapshot import Snapshot
from entrepot.domain.errors import Code

if TYPE_CHECKING:
    from entrepot.broker.store.engine import StorageEngine

EPOCH: Final = "epoch/"
RUN: Final = "run/"
"""Prefix of app ids, before the id of a store."""
SHUT_OUT: Final = 1 << 62
"""Epoch of a store whose table another one has taken over."""
EPOCH_BITS: Final = 32


class Writer(NamedTuple):
    """A broker that writes: the id of its store, which all replicas of a group share, and a number of this run."""

    store: str
    run: int


class FencedError(TierError):
    """Another one writes the table."""

    def __init__(self, text: str) -> None:
        super().__init__(text, Code.PRECONDITION_FAILED)


def epoch_of(engine: StorageEngine) -> int:
    """Return the present writer's epoch: the master's, and after it the recovery epoch, the only one without replicas.
    It never falls, whatever a broker becomes."""
    return (engine.epochs.history()[-1].epoch << EPOCH_BITS) + engine.recovery_epoch


class Fence:
    """The fence of one table. `epoch` returns the present epoch."""

    def __init__(self, writer: Writer, epoch: int = 0) -> None:
        self._writer, self.epoch = writer, epoch
        self._own, self._run = EPOCH + writer.store, RUN + writer.store
        self._found: int | None = None
        self._has_looked = False

    def check(self, root: str, snapshot: Snapshot) -> None:
        """Raise FencedError where another one writes."""
        found = snapshot.transactions
        run = found.get(self._run)
        if not self._has_looked:  # an earlier run of this broker may have written last
            self._has_looked, self._found = True, run
        epoch = found.get(self._own)
        if epoch is None:
            self._check_owner(root, snapshot)
        elif epoch >= SHUT_OUT:
            raise FencedError(
                f"the table {root} was taken over by {_named(snapshot)}: messages from now on stay on this broker's "
                "disk. Delete the topic here, or end this broker for good"
            )
        elif epoch > self.epoch:
            raise FencedError(
                f"the table {root} has commits of a later master (epoch {_words(epoch)}, this one has "
                f"{_words(self.epoch)}): this one has a successor, and no longer uploads"
            )
        elif epoch == self.epoch and run not in (self._found, self._writer.run):
            raise FencedError(
                f"the table {root} has commits of another broker with the store {self._writer.store}: is a data "
                "directory in use twice, or a copy of it? End one of them for good, and start the other one anew"
            )

    def _check_owner(self, root: str, snapshot: Snapshot) -> None:
        if owners := _owners(snapshot):
            raise FencedError(
                f"the table {root} is that of the store {owners[0]}, not of this one: give each cluster a tier.url "
                "of its own, or take the table over (entrepot tier restore)"
            )

    def is_own(self, snapshot: Snapshot) -> bool:
        """True if this store was the last one to take the table over, or made it."""
        return snapshot.transactions.get(self._own, SHUT_OUT) < SHUT_OUT

    def guarded(
        self,
        root: str,
        snapshot: Snapshot,
        actions: Sequence[OwnAction],
        expected: Mapping[str, int | None],
        now_ms: int,
    ) -> tuple[list[OwnAction], dict[str, int | None]]:
        """Return a commit with its writer's marks. Raises FencedError."""
        self.check(root, snapshot)
        own = (Transaction(self._own, self.epoch, now_ms), Transaction(self._run, self._writer.run, now_ms))
        return [*actions, *own], {**expected, **_as_found(snapshot, [self._own, self._run])}

    def taking_over(self, snapshot: Snapshot, now_ms: int) -> tuple[list[OwnAction], dict[str, int | None]]:
        """Return the commit that gives this store alone the table; it holds only for the table's present state."""
        others = [EPOCH + store for store in _owners(snapshot) if store != self._writer.store]
        actions: list[OwnAction] = [Transaction(app_id, SHUT_OUT, now_ms) for app_id in others]
        actions += [Transaction(self._own, self.epoch, now_ms), Transaction(self._run, self._writer.run, now_ms)]
        return actions, {**snapshot.transactions, **_as_found(snapshot, [self._own, self._run])}


def _owners(snapshot: Snapshot) -> list[str]:
    """Return the stores that may write a table: one, or none yet."""
    found = snapshot.transactions.items()
    return [name[len(EPOCH) :] for name, epoch in found if name.startswith(EPOCH) and epoch < SHUT_OUT]


def _words(epoch: int) -> str:
    return f"{epoch >> EPOCH_BITS}.{epoch & ((1 << EPOCH_BITS) - 1)}"


def _named(snapshot: Snapshot) -> str:
    return f"the store {', '.join(_owners(snapshot))}"


def _as_found(snapshot: Snapshot, app_ids: Sequence[str]) -> dict[str, int | None]:
    return {app_id: snapshot.transactions.get(app_id) for app_id in app_ids}
