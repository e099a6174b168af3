"""Rebinding: a stopped replica forgets its group of controllers, and obeys the next one that decides.

It is for controllers whose directories are gone for good. Their refusals of a directory as an old copy are
forgotten with them: where all replicas are put back to one moment, none of them is older than the others. The replica's
promise stays: an appointment of an earlier epoch counts no more than before.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from entrepot.broker.replication.files.replica_files import FILE, ReplicaFiles
from entrepot.broker.replication.known_controllers import FILE as CONTROLLERS_FILE
from entrepot.broker.store.store_files import DirectoryLock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.replication.mastership import ReplicaState


def bound_to(data_dir: Path) -> ReplicaState:
    """Return the state of a replica. Raises BAD_REQUEST without one, StoreFailedError if it cannot be read."""
    found = ReplicaFiles(data_dir).kept()
    if found is None:
        raise EntrepotError(Code.BAD_REQUEST, f"{data_dir} is not a data directory of a replica: it has no {FILE}")
    return found


def rebind(data_dir: Path) -> str:
    """Forget the controllers; return the id of their group, empty if unknown. Raises as `bound_to`; StoreFailedError
    while a process has the directory, OSError."""
    bound_to(data_dir)
    lock = DirectoryLock(str(data_dir))
    try:
        state = bound_to(data_dir)
        (data_dir / CONTROLLERS_FILE).unlink(missing_ok=True)
        if state.controllers or state.refused:
            ReplicaFiles(data_dir).save(replace(state, controllers="", refused=""))
        return state.controllers
    finally:
        lock.release()
