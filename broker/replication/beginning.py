"""Beginning: the machine of a replica, made from its data directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from entrepot.broker.metadata.identity import epoch_kept
from entrepot.broker.replication.files.replica_files import ReplicaFiles, has_others
from entrepot.broker.replication.peers import GroupSettings
from entrepot.broker.replication.replica import Replica
from entrepot.broker.replication.slave_store import SlaveStore
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.damage import DamagedLogError
from entrepot.broker.store.store_files import FORMAT, StoreFiles, StoreIdentity
from entrepot.domain.errors import Code, EntrepotError, StoreFailedError
from entrepot.domain.replication.confirmation_rule import RuleKind
from entrepot.domain.replication.mastership import Promise, ReplicaState
from entrepot.domain.route import mastership_epoch
from entrepot.protocols.wire.operations import StoreSeed


def check_settings(settings: BrokerSettings, group: GroupSettings) -> None:
    """Raise StoreFailedError for settings that a broker with replicas cannot have."""
    if settings.flush_async:
        raise StoreFailedError('store.flush = "async" and replicas do not go together')
    if settings.tier is not None and group.rule.kind is RuleKind.ASYNC:
        raise StoreFailedError('tier.url and broker.rule = "async" do not go together: async may undo what is cold')


def make_machine(
    files: ReplicaFiles, store_files: StoreFiles, data_dir: Path, replica: int, open_store: Callable[[], SlaveStore]
) -> Replica:
    """Return the machine, with the store open if there is one.

    A log that is corrupted, or was cut from outside, is that of a replica that begins anew, where others have the rest.
    Raises StoreFailedError for the directory of another replica or group, CorruptedError.
    """
    identity = store_files.identity()
    state = files.load(replica, "" if identity is None else identity.store_id)
    if identity is None:
        if (data_dir / "commitlog").exists():
            raise StoreFailedError(f"{data_dir} has a log and no store.json: whose it is nobody knows")
        return Replica(state, (), 0, 0)
    state, store = _open_whole(files, state, open_store)
    engine = store.engine
    if not state.run:  # it was a broker without replicas, or has left its former group
        epochs = (start.epoch for start in engine.epochs.history())
        of_before = mastership_epoch(epoch_kept(data_dir))  # name servers know it by the time of its last start
        state = replace(state, promise=Promise(max(of_before, *epochs)))
    confirmed = 0 if store.is_copying else max(store.applied, files.confirmed.kept)  # of a copy nothing is its own yet
    store.confirm(confirmed)
    files.confirmed.note(confirmed)
    return Replica(state, engine.epochs.history(), engine.end, confirmed, engine.commit_log.min_offset)


def _open_whole(
    files: ReplicaFiles, state: ReplicaState, open_store: Callable[[], SlaveStore]
) -> tuple[ReplicaState, SlaveStore]:
    """Open the store; where its log has lost kept bytes, begin anew before them, as another replica. A hole in the
    middle shows once what is after it is gone, so it is tried as long as each place is before the last one."""
    last: int | None = None
    while True:
        try:
            return state, _whole(files, open_store())
        except DamagedLogError as damage:
            place = damage.commit_log_offset
            if not has_others(state) or (last is not None and place >= last):
                raise
            state, last = files.disown(state, damage.finding), place
            files.cut_damage(place)


def _whole(files: ReplicaFiles, store: SlaveStore) -> SlaveStore:
    """Return a store whose log has all that is kept as confirmed; close another one. Raises DamagedLogError."""
    try:
        files.check_end(store.engine.end)
    except DamagedLogError:
        store.close()
        raise
    return store


def begin_store(machine: Replica, files: ReplicaFiles, store_files: StoreFiles, seed: StoreSeed) -> None:
    """Begin the directory of a new replica like its group's. Raises PRECONDITION_FAILED."""
    state = machine.state
    if state.group not in ("", seed.store_id):
        raise EntrepotError(Code.PRECONDITION_FAILED, f"the master is of group {seed.store_id}, not {state.group}")
    identity = StoreIdentity(FORMAT, seed.store_id, seed.handle_key, seed.segment_size_bytes, began_at=seed.begin)
    store_files.put_identity(identity)
    machine.state = replace(state, group=seed.store_id)
    files.save(machine.state)
