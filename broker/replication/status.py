"""Status: a replica's report on itself."""

from __future__ import annotations

from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.leading import Leading
from entrepot.broker.replication.replica import Replica
from entrepot.broker.store.commit_log import CommitLog
from entrepot.domain.ports.cluster import LogCondition
from entrepot.protocols.wire.operations import ReplicaStatus


def status_of(
    machine: Replica, leading: Leading | None, log: CommitLog | None, following: str, condition: LogCondition
) -> ReplicaStatus:
    """Return the report. `leading`: of a master. `log`: of the open store. `following`: its last try to follow."""
    return ReplicaStatus(
        machine.state.member,
        machine.state.group,
        machine.role.value,
        machine.epoch,
        machine.state.run,
        machine.end if leading is None else leading.engine.end,
        machine.synced,
        machine.confirmed,
        leading is not None and leading.is_open,
        machine.state.promise,
        machine.state.appointment,
        machine.starts[-1].name,
        {} if leading is None else leading.slaves(),
        ("" if leading is None else leading.problem) or problem_of(machine, following),
        condition,
        0 if log is None else log.min_offset,
        0 if log is None else log.layout.segment_size_bytes,
        machine.state.tokens,
    )


def problem_of(machine: Replica, following: str) -> str:
    """Return why a replica is neither an open master nor a slave that follows one; empty where it is. `following`: the
    result of its last try to follow."""
    if machine.halted or machine.is_open or machine.is_joined:
        return machine.halted
    if machine.role is Role.SLAVE:
        return following or "it has not joined its master yet"
    is_master = machine.role is Role.MASTER
    return "it waits for the disks that its rule asks for" if is_master else "it waits for a master to be elected"
