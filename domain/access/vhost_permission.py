"""VhostPermission: RabbitMQ's permissions of a user in one virtual host, translated to statements and back.

*Configure* is CREATE and DELETE of Topics, *write* PUB and UPDATE, *read* SUB of Topics and of Groups.  A permission is
read back as it was written.  Where it is what a list of names gives back, the statement names them
(`Topic:orders/#`); else it has the expression itself (`Topic~^ord`, `domain.access.name_expression`).  An empty
expression finds nothing, as on RabbitMQ.

The right to write to `amq.default` is one to publish to every queue by the default exchange: the resource
`Topic:$amq.default`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from entrepot.domain.access.listed_names import OF_ALL, expression_of, pattern_of_resource, patterns_of, resources_of
from entrepot.domain.access.model import Action, Effect, Statement, default_exchange_name
from entrepot.domain.access.name_expression import compiled_resource, expression_in, finds, resource_of
from entrepot.domain.errors import Code, EntrepotError

MAX_EXPRESSION_LENGTH: Final = 4096
NOTHING: Final = "^$"
DEFAULT_EXCHANGE: Final = "amq.default"
"""RabbitMQ's name of the default exchange in permissions."""
_CONFIGURE: Final = (Action.CREATE, Action.DELETE)
_WRITE: Final = (Action.PUB, Action.UPDATE)
_READ: Final = (Action.SUB,)


@dataclass(frozen=True, slots=True)
class VhostPermission:
    """The configure, write and read permissions of a user: regular expressions searched in names."""

    configure: str
    write: str
    read: str


def statements_of(permission: VhostPermission, namespace: str) -> list[Statement]:
    """Return the statements of a permission.  Raises BAD_REQUEST for an expression that RE2 does not take."""
    found: list[Statement] = []
    for actions, expression, kinds in (
        (_CONFIGURE, permission.configure, ("Topic",)),
        (_WRITE, permission.write, ("Topic",)),
        (_READ, permission.read, ("Topic", "Group")),
    ):
        if len(expression) > MAX_EXPRESSION_LENGTH:
            raise EntrepotError(Code.BAD_REQUEST, f"a permission has up to {MAX_EXPRESSION_LENGTH} characters")
        resources = [each for kind in kinds for each in _resources(kind, namespace, expression)]
        if actions == _WRITE and patterns_of(expression) != (OF_ALL,) and _finds_default_exchange(expression):
            resources.append(_to_default_exchange(namespace))
        found.append(Statement(Effect.ALLOW, actions, tuple(resources)))
    return found


def is_of_vhost(statement: Statement, namespace: str) -> bool:
    """True if `statements_of` may have made the statement for the namespace."""
    return (
        statement.effect is Effect.ALLOW
        and statement.actions in (_CONFIGURE, _WRITE, _READ)
        and not statement.sources
        and all(
            pattern_of_resource(resource, namespace) is not None
            or expression_in(resource, namespace) is not None
            or (statement.actions == _WRITE and resource == _to_default_exchange(namespace))
            for resource in statement.resources
        )
    )


def permission_of(statements: Iterable[Statement], namespace: str) -> VhostPermission | None:
    """Return the permission that statements like those of `statements_of` give in the namespace, or None."""
    said: dict[tuple[Action, ...], dict[str, None]] = {}
    for statement in statements:
        if is_of_vhost(statement, namespace):
            said.setdefault(statement.actions, {}).update(dict.fromkeys(statement.resources))
    if not said:
        return None
    return VhostPermission(*(_expression(said.get(actions, {}), namespace) for actions in (_CONFIGURE, _WRITE, _READ)))


def _resources(kind: str, namespace: str, expression: str) -> tuple[str, ...]:
    """Return the resources of an expression.  Raises BAD_REQUEST."""
    patterns = patterns_of(expression)
    if patterns is not None and expression_of(patterns) == expression:
        named = resources_of(kind, namespace, patterns)
        if named is not None:
            return named
    resource = resource_of(kind, namespace, expression)
    compiled_resource(resource, Effect.ALLOW)
    return (resource,)


def _expression(resources: Iterable[str], namespace: str) -> str:
    """Return the one expression of resources of one action."""
    patterns: dict[str, None] = {}
    expressions: dict[str, None] = {}
    for resource in resources:
        expression, pattern = expression_in(resource, namespace), pattern_of_resource(resource, namespace)
        if expression is not None:
            expressions[expression] = None
        elif pattern is not None:
            patterns[pattern] = None
    if patterns:
        expressions[expression_of(patterns)] = None
    if len(expressions) > 1:
        expressions.pop("", None)  # beside others it would find everything
    return "|".join(expressions) if expressions else NOTHING


def _finds_default_exchange(expression: str) -> bool:
    patterns = patterns_of(expression)
    if patterns is None:
        return finds(expression, DEFAULT_EXCHANGE)
    return any(
        DEFAULT_EXCHANGE.startswith(each[:-1]) if each.endswith("*") else each == DEFAULT_EXCHANGE for each in patterns
    )


def _to_default_exchange(namespace: str) -> str:
    return f"Topic:{default_exchange_name(namespace)}"
