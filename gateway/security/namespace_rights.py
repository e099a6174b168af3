"""Rights in a namespace: whether a principal has any, on a Topic or a group of it, by whatever action.

A refusal by this tells only what the principal knows: that it has no rights there.  So denials count where they take
all of the Topics away, and not for groups.
"""

from __future__ import annotations

from entrepot.domain.access.model import (
    NAMESPACE_LEVEL,
    Decision,
    Effect,
    Principal,
    ResourceType,
)
from entrepot.domain.names import DEFAULT_NAMESPACE
from entrepot.gateway.security.security import Security


def has_rights_in(security: Security, principal: Principal, namespace: str) -> bool:
    """Return True if some statement may allow something in the namespace; always for who may do everything."""
    found = security.statements_for(principal)
    if isinstance(found, Decision):
        return found.is_allowed
    before = "" if namespace == DEFAULT_NAMESPACE else f"{NAMESPACE_LEVEL}/{namespace}/"
    if security.may_know(principal, ResourceType.TOPIC, f"{before}#"):
        return True
    return any(
        compiled.statement.effect is Effect.ALLOW and compiled.is_for_source(principal) and _is_of_a_group(each, before)
        for policy in found
        for compiled in policy
        for each in compiled.statement.resources
    )


def _is_of_a_group(resource: str, before: str) -> bool:
    """True if a resource may be of groups whose names begin so; empty: of those outside of other namespaces."""
    kind = ResourceType.GROUP.value.lower()
    if resource[: len(kind)].lower() != kind:
        return False
    name = resource[len(kind) + 1 :]
    if name == "*":
        return True
    if not before:
        return not name.startswith(f"{NAMESPACE_LEVEL}/")
    return name.startswith(before) or (name.endswith("*") and before.startswith(name[:-1]))
