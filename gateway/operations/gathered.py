"""Lists of all gateways or brokers: how many were asked, and which did not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.gateway.operations.shapes import Part, Shown, shown_as

if TYPE_CHECKING:
    from entrepot.gateway.peers.gathered import Gathered


class Missing(Part, frozen=True):
    name: str
    reason: str


class AnsweredShown(Shown, frozen=True):
    """How many were asked, how many answered in time, and the others with the reason"""

    asked: int
    answered: int
    missing: list[Missing]


shown_as(AnsweredShown(4, 3, [Missing("gw-4", "no answer within 1.5 s")]))


def answered_of(gathered: Gathered) -> AnsweredShown:
    """Return how many were asked, and which did not answer."""
    return AnsweredShown(
        len(gathered.answers) + len(gathered.missing),
        len(gathered.answers),
        [Missing(name, reason) for name, reason in sorted(gathered.missing.items())],
    )
