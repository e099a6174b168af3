"""A replica of a broker as it is shown: in REST, and in the output of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from entrepot.gateway.operations.row.shapes import Part, shown_as

if TYPE_CHECKING:
    from entrepot.domain.ports.cluster import LogCondition, ReplicaView


class CutPart(Part, frozen=True):
    """Bytes of the log that were cut, and are kept."""

    begin: int = msgspec.field(name="from")
    to: int


class LogShape(Part, frozen=True):
    healed: int
    corrupted: int
    forked: int
    diverged: list[CutPart]
    lost: int
    copies_from: int | None


class ReplicaShape(Part, frozen=True):
    replica: int
    address: str
    role: str
    is_in_sync: bool
    is_observer: bool
    epoch: int | None
    synced: int | None
    behind: int | None
    behind_seconds: float | None
    problem: str | None
    control_problem: str | None
    log: LogShape | None


REPLICA: Final = ReplicaShape(
    1,
    "192.0.2.11:9101",
    "master",
    True,
    False,
    3,
    4096,
    0,
    0.0,
    "it does not answer",
    "its controllers do not answer",
    LogShape(1, 0, 0, [CutPart(0, 95)], 0, 2),
)
"""Its example."""
shown_as(REPLICA)


def replica_of(view: ReplicaView) -> ReplicaShape:
    """Return a replica as `/api/v1/brokers` lists it."""
    return ReplicaShape(
        view.replica,
        view.address,
        view.role,
        view.is_in_sync,
        view.is_observer,
        view.epoch or None,
        view.synced,
        view.behind,
        view.behind_seconds,
        view.problem or None,
        view.control_problem or None,
        None if view.log is None else _log(view.log),
    )


def _log(condition: LogCondition) -> LogShape:
    return LogShape(
        condition.healed,
        condition.corrupted,
        condition.forked,
        [CutPart(start, end) for start, end in condition.diverged],
        condition.lost,
        condition.copies_from or None,
    )
