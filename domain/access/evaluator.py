"""The evaluator: compiled statements that decide on requests.

Invariants: a request that no statement allows is denied.  A DENY that meets any part of a request denies it; an ALLOW
counts only if it contains the whole request.  A source is a condition of a statement, never a reason by itself.  With
an unknown source, an ALLOW with sources does not hold and a DENY with sources does.

ADR 19: identity and rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from entrepot.domain.access.model import Action, Decision, Effect, Policy, Principal, Request, ResourceType, Statement
from entrepot.domain.access.name_expression import NameExpression, compiled_resource
from entrepot.domain.access.pattern import Pattern
from entrepot.domain.errors import Code, EntrepotError

MAX_STATEMENTS: Final = 1000
MAX_RESOURCES: Final = 100
MAX_SOURCES: Final = 100
"""Limits: statements of a policy, and resources and networks of one statement."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_REMEMBERED_ADDRESSES: Final = 4096
_ACTIONS: Final = frozenset(Action) - {Action.ALL}


@dataclass(frozen=True, slots=True)
class CompiledStatement:
    """A statement ready to be evaluated."""

    statement: Statement
    subject: str
    patterns: tuple[Pattern | NameExpression, ...]
    networks: tuple[Network, ...]

    def holds(self, principal: Principal, request: Request) -> bool:
        """True if the statement applies to the request."""
        statement = self.statement
        if request.action not in statement.actions and Action.ALL not in statement.actions:
            return False
        if not self.is_for_source(principal):
            return False
        is_deny = statement.effect is Effect.DENY
        return any(
            pattern.meets(principal, request.name) if is_deny else _grants(pattern, principal, request)
            for pattern in self.patterns
            if pattern.resource_type is request.resource_type
        )

    def is_for_source(self, principal: Principal) -> bool:
        """True if it has no networks, or one with the principal's address; a DENY also if that is unknown."""
        if not self.networks:
            return True
        address = parse_address(principal.source)
        if address is None:
            return self.statement.effect is Effect.DENY
        return any(address in network for network in self.networks)

    def may_concern(self, principal: Principal, resource_type: ResourceType, name: str) -> bool:
        """True if it allows some of the names that `name` stands for, or denies all of them."""
        if not self.is_for_source(principal):
            return False
        is_deny = self.statement.effect is Effect.DENY
        return any(
            pattern.grants(principal, name) if is_deny else pattern.may_meet(principal, name)
            for pattern in self.patterns
            if pattern.resource_type is resource_type
        )


def compile_statements(subject: str, statements: Iterable[Statement]) -> tuple[CompiledStatement, ...]:
    """Compile statements.  Raises BAD_REQUEST for invalid ones, and beyond the limits."""
    compiled = tuple(_compiled(subject, statement) for statement in statements)
    if len(compiled) > MAX_STATEMENTS:
        raise EntrepotError(Code.BAD_REQUEST, f"a policy has at most {MAX_STATEMENTS} statements")
    return compiled


def compile_policy(policy: Policy) -> tuple[CompiledStatement, ...]:
    """Compile the statements of a policy.  Raises as `compile_statements`."""
    return compile_statements(policy.subject, policy.statements)


def evaluate(principal: Principal, request: Request, statements: Iterable[Sequence[CompiledStatement]]) -> Decision:
    """Return the decision of several policies together."""
    allowing: CompiledStatement | None = None
    for policy in statements:
        for compiled in policy:
            if allowing is not None and compiled.statement.effect is Effect.ALLOW:
                continue
            if compiled.holds(principal, request):
                if compiled.statement.effect is Effect.DENY:
                    return Decision(False, "a statement denies it", compiled.subject, compiled.statement)
                allowing = compiled
    if allowing is None:
        return Decision(False, "no statement allows it")
    return Decision(True, "a statement allows it", allowing.subject, allowing.statement)


def may_be_known(
    principal: Principal, resource_type: ResourceType, name: str, statements: Iterable[Sequence[CompiledStatement]]
) -> bool:
    """True if some action may be allowed on some part of the name.  Otherwise the principal is not told what exists."""
    allowed: set[Action] = set()
    denied: set[Action] = set()
    for policy in statements:
        for compiled in policy:
            if compiled.may_concern(principal, resource_type, name):
                actions = compiled.statement.actions
                found = allowed if compiled.statement.effect is Effect.ALLOW else denied
                found.update(_ACTIONS if Action.ALL in actions else actions)
    return bool(allowed - denied)


@lru_cache(maxsize=_REMEMBERED_ADDRESSES)
def parse_address(text: str) -> Address | None:
    """Return the address to compare, or None for an invalid one.  An IPv4 address mapped into IPv6 becomes IPv4."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


@lru_cache(maxsize=_REMEMBERED_ADDRESSES)
def is_loopback(text: str) -> bool:
    """True if the text is a loopback address."""
    address = parse_address(text)
    return address is not None and address.is_loopback


def _grants(pattern: Pattern | NameExpression, principal: Principal, request: Request) -> bool:
    return pattern.grants(principal, request.name) or (
        request.instead != "" and pattern.grants(principal, request.instead)
    )


def _compiled(subject: str, statement: Statement) -> CompiledStatement:
    if not statement.actions or not statement.resources:
        raise EntrepotError(Code.BAD_REQUEST, "a statement has at least one action and one resource")
    if len(statement.resources) > MAX_RESOURCES or len(statement.sources) > MAX_SOURCES:
        raise EntrepotError(
            Code.BAD_REQUEST, f"a statement has at most {MAX_RESOURCES} resources and {MAX_SOURCES} sources"
        )
    patterns = tuple(each for text in statement.resources for each in compiled_resource(text, statement.effect))
    return CompiledStatement(statement, subject, patterns, tuple(_network(text) for text in statement.sources))


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise EntrepotError(Code.BAD_REQUEST, f"{text[:80]!r} is not a network such as 10.0.0.0/8: {error}") from None
