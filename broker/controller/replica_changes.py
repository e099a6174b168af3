"""Replica changes: an operator's choice of a group's replicas that count. Pure.

The controllers keep the choice, and the group's master carries it out (`broker.replication.set_keeping`).
"""

from __future__ import annotations

from collections.abc import Mapping

from entrepot.broker.controller.liveness import Heard
from entrepot.broker.controller.register import Group
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.replication.confirmation_rule import RuleKind
from entrepot.domain.replication.control import ReplicaChange


def changed(group: Group, replica: int, change: ReplicaChange, fresh: Mapping[int, Heard]) -> frozenset[int]:
    """Return the ids of the replicas that are to count after a change. `fresh`: those that report. Raises BAD_REQUEST,
    PRECONDITION_FAILED, with the reason."""
    is_member = any(member.replica == replica for member in group.appointment.known)
    if not group.appointment.known:
        raise EntrepotError(Code.PRECONDITION_FAILED, "the group has no master yet")
    if change is ReplicaChange.ADD:
        return _added(group, replica, fresh)
    if not is_member and replica not in group.counting:
        raise EntrepotError(Code.BAD_REQUEST, f"replica {replica} counts for nothing as it is")
    if replica == group.appointment.master:
        raise EntrepotError(
            Code.PRECONDITION_FAILED, f"replica {replica} is the master: elect another one first (cluster elect --to)"
        )
    if change is ReplicaChange.REMOVE and replica in fresh:
        raise EntrepotError(
            Code.PRECONDITION_FAILED,
            f"replica {replica} runs: stop it, or make it an observer (replica observer)",
        )
    counting = group.counting - {replica}
    rule = group.appointment.rule
    least = rule.required if rule.kind is RuleKind.QUORUM else rule.min_in_sync
    left = counting & {member.replica for member in group.appointment.known}
    if len(left) < least:
        raise EntrepotError(
            Code.PRECONDITION_FAILED, f"{len(left)} replicas would be left that count, and the rule needs {least}"
        )
    return counting


def _added(group: Group, replica: int, fresh: Mapping[int, Heard]) -> frozenset[int]:
    if replica not in fresh:
        raise EntrepotError(Code.PRECONDITION_FAILED, f"replica {replica} does not report: start it first")
    strangers = [number for number, each in fresh.items() if replica not in dict(each.shape.replicas)]
    if strangers:
        names = ", ".join(map(str, sorted(strangers)))
        raise EntrepotError(
            Code.PRECONDITION_FAILED,
            f"replica {names} does not know where replica {replica} is: name it in broker.observers there, and restart",
        )
    return group.counting | {replica}
