"""A replica of a broker as JSON: in REST, and in the output of commands."""

from __future__ import annotations

from typing import Any

from entrepot.domain.cluster import LogCondition, ReplicaView


def replica_shape(view: ReplicaView) -> dict[str, Any]:
    """Return the replica as `/api/v1/brokers` lists it."""
    return {
        "replica": view.replica,
        "address": view.address,
        "role": view.role,
        "isInSync": view.is_in_sync,
        "isObserver": view.is_observer,
        "epoch": view.epoch or None,
        "synced": view.synced,
        "behind": view.behind,
        "behindSeconds": view.behind_seconds,
        "problem": view.problem or None,
        "controlProblem": view.control_problem or None,
        "log": None if view.log is None else _log(view.log),
    }


def _log(condition: LogCondition) -> dict[str, Any]:
    return {
        "healed": condition.healed,
        "corrupted": condition.corrupted,
        "forked": condition.forked,
        "diverged": [{"from": start, "to": end} for start, end in condition.diverged],
        "lost": condition.lost,
        "copiesFrom": condition.copies_from or None,
    }
