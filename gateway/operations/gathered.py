"""Lists of all gateways or brokers: how many were asked, and which did not answer."""

from __future__ import annotations

from entrepot.gateway.operations.shapes import Part, Shown, shown_as


class Missing(Part, frozen=True):
    name: str
    reason: str


class AnsweredShown(Shown, frozen=True):
    """How many were asked, how many answered in time, and the others with the reason"""

    asked: int
    answered: int
    missing: list[Missing]


shown_as(AnsweredShown(4, 3, [Missing("gw-4", "no answer within 1.5 s")]))
