"""Explanations of decisions: each statement with its part in one, and statements as text.

`explained` goes through the same statements as `evaluator.evaluate` and comes to the same decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from entrepot.domain.access.evaluator import CompiledStatement
from entrepot.domain.access.model import Action, Effect, Principal, Request, Statement


class Outcome(StrEnum):
    """The part of a statement in a decision."""

    DECIDES = "decides"
    HOLDS = "holds"
    """It holds for the request, but another statement goes before it."""
    OTHER_ACTION = "otherAction"
    OTHER_RESOURCE = "otherResource"
    OTHER_SOURCE = "otherSource"


class Reach(StrEnum):
    """Rights of a subject on all that a name stands for."""

    ALLOWED = "allowed"
    DENIED = "denied"
    """A statement denies it."""
    SOME = "some"
    """Only with a part of it, or only from some addresses."""
    NONE = "none"
    """No statement allows it."""


@dataclass(frozen=True, slots=True)
class Considered:
    """A statement of a policy, its place in it from 1 on, and its part in the decision."""

    subject: str
    index: int
    statement: Statement
    outcome: Outcome


def numbered(policies: Iterable[Sequence[CompiledStatement]]) -> list[tuple[int, CompiledStatement]]:
    """All statements in the order in which they are looked at, with their places in their policies."""
    return [(index, each) for policy in policies for index, each in enumerate(policy, 1)]


def explained(
    principal: Principal, request: Request, policies: Iterable[Sequence[CompiledStatement]]
) -> list[Considered]:
    """Every statement with its part in the decision."""
    found = [
        Considered(each.subject, index, each.statement, _outcome(each, principal, request))
        for index, each in numbered(policies)
    ]
    deciding = first_of([each for each in found if each.outcome is Outcome.HOLDS])
    return [replace(each, outcome=Outcome.DECIDES) if each is deciding else each for each in found]


def first_of(holding: Sequence[Considered]) -> Considered | None:
    """The one that decides of several that hold: the first DENY, else the first ALLOW."""
    return min(holding, key=lambda each: each.statement.effect is not Effect.DENY, default=None)


def reach(principal: Principal, request: Request, policies: Iterable[Sequence[CompiledStatement]]) -> Reach:
    """Rights of a principal, for an overview of many."""
    is_allowed = is_some = False
    for _, each in numbered(policies):
        if not _is_of_action(each, request.action):
            continue
        if each.holds(principal, request):
            if each.statement.effect is Effect.DENY:
                return Reach.DENIED
            is_allowed = True
        elif each.statement.effect is Effect.ALLOW:
            is_some = is_some or _may_meet(each, principal, request)
    if is_allowed:
        return Reach.ALLOWED
    return Reach.SOME if is_some else Reach.NONE


def statement_text(statement: Statement) -> str:
    """The statement in one line: `ALLOW PUB, SUB on Topic:a/#, Group:b from 10.0.0.0/8`."""
    sources = f" from {', '.join(statement.sources)}" if statement.sources else ""
    return f"{statement.effect} {', '.join(statement.actions)} on {', '.join(statement.resources)}{sources}"


def _outcome(compiled: CompiledStatement, principal: Principal, request: Request) -> Outcome:
    if compiled.holds(principal, request):
        return Outcome.HOLDS
    if not _is_of_action(compiled, request.action):
        return Outcome.OTHER_ACTION
    return Outcome.OTHER_RESOURCE if compiled.is_for_source(principal) else Outcome.OTHER_SOURCE


def _is_of_action(compiled: CompiledStatement, action: Action) -> bool:
    return action in compiled.statement.actions or Action.ALL in compiled.statement.actions


def _may_meet(compiled: CompiledStatement, principal: Principal, request: Request) -> bool:
    """True if the statement allows some of the name from some address."""
    return any(
        pattern.may_meet(principal, request.name)
        for pattern in compiled.patterns
        if pattern.resource_type is request.resource_type
    )
