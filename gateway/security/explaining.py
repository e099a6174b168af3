"""Explaining: who may what, and by which statement, without asking anybody to authenticate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from entrepot.domain.access.explanation import Considered, Outcome, Reach, explained, first_of, numbered, reach
from entrepot.domain.access.model import Action, Decision, Principal, Request, ResourceType, Statement

if TYPE_CHECKING:
    from entrepot.gateway.security.security import Security

ASKED_ACTIONS: Final = tuple(action for action in Action if action is not Action.ALL)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision, and each statement's part in it; no statements where none matters (a super user)."""

    decision: Decision
    considered: list[Considered] = field(default_factory=list)

    @property
    def deciding(self) -> Considered | None:
        """The statement that decided."""
        return next((each for each in self.considered if each.outcome is Outcome.DECIDES), None)

    @property
    def next_deciding(self) -> Considered | None:
        """The statement that would decide without the deciding one; None: nothing would allow it."""
        return first_of([each for each in self.considered if each.outcome is Outcome.HOLDS])


@dataclass(frozen=True, slots=True)
class Rights:
    """A subject's effective statements, with the place of each in its policy, in the order they are looked at;
    `decided`: the one decision about everything where no statement matters."""

    decided: Decision | None
    statements: list[tuple[str, int, Statement]]


def explain(security: Security, principal: Principal, request: Request) -> Explanation:
    """The present decision on a request, with every statement's part in it."""
    found = security.statements_for(principal)
    if isinstance(found, Decision):
        return Explanation(found)
    decision = security.why(principal, request.action, request.resource_type, request.name)
    return Explanation(decision, explained(principal, request, found))


def rights_of(security: Security, principal: Principal) -> Rights:
    """The effective statements of a principal."""
    found = security.statements_for(principal)
    if isinstance(found, Decision):
        return Rights(found, [])
    return Rights(None, [(each.subject, index, each.statement) for index, each in numbered(found)])


def reach_of(
    security: Security, principal: Principal, resource_type: ResourceType, name: str
) -> Mapping[Action, Reach]:
    """Decisions for a principal and a resource, by action."""
    found = security.statements_for(principal)
    if isinstance(found, Decision):
        everything = Reach.ALLOWED if found.is_allowed else Reach.DENIED
        return dict.fromkeys(ASKED_ACTIONS, everything)
    return {action: reach(principal, Request(action, resource_type, name), found) for action in ASKED_ACTIONS}
