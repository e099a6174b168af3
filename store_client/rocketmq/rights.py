"""Rights of RocketMQ's ACL 2.0 as statements of ours, as far as both mean the same.

There the policy of the most specific resource decides, and a custom one goes before a default one; here a DENY always
goes before an ALLOW.  So a DENY that some narrower ALLOW had pierced denies that, too, and is told.  A policy with a
DENY that cannot be said here is not taken at all: what it allows would be more than before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from entrepot.domain.access.evaluator import compile_policy
from entrepot.domain.access.model import NAMESPACE_LEVEL, Action, Effect, Policy, ResourceType, Statement
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE, RETRY_PREFIX

_ANY: Final = "*"
_NAMESPACED: Final = re.compile(r"(%DLQ%)?([a-zA-Z0-9_-]+)%(.*)")
_DECISIONS: Final = {"allow": Effect.ALLOW, "deny": Effect.DENY}
_ACTIONS: Final = {each.value.lower(): each for each in Action}
_TYPES: Final = {each.value.lower(): each for each in ResourceType}


@dataclass(slots=True)
class Rights:
    """The statements of one subject, and in words what is not carried."""

    statements: list[Statement] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A policy's entry.  `kind`: Custom or Default."""

    kind: str
    resource: str
    actions: tuple[str, ...]
    sources: tuple[str, ...]
    decision: str


def rights_of(told: Mapping[str, Any], home: str) -> Rights:
    """Return the rights that an AclInfo gives its subject.  `home`: the cluster's namespace of our `default`."""
    found, entries = Rights(), list(_entries(told))
    for entry in entries:
        try:
            statement = _statement(entry, home)
            compile_policy(Policy("anybody", (statement,)))
        except EntrepotError as refusal:
            if _DECISIONS.get(entry.decision) is not Effect.ALLOW:
                reason = f"nothing of it is taken, since a denial is not: {entry.resource}: {refusal.message}"
                return Rights([], [reason])
            found.remarks.append(f"without {entry.resource}: {refusal.message}")
        else:
            found.statements.append(statement)
    found.remarks += _pierced(entries)
    return found


def _entries(told: Mapping[str, Any]) -> Iterator[_Entry]:
    for policy in _objects(told.get("policies")):
        for entry in _objects(policy.get("entries")):
            yield _Entry(
                str(policy.get("policyType") or "Custom").lower(),
                str(entry.get("resource") or ""),
                tuple(str(each).lower() for each in entry.get("actions") or ()),
                tuple(str(each) for each in entry.get("sourceIps") or ()),
                str(entry.get("decision") or "").lower(),
            )


def _statement(entry: _Entry, home: str) -> Statement:
    """Return an entry as a statement.  Raises BAD_REQUEST with the reason why it cannot be one."""
    effect = _DECISIONS.get(entry.decision)
    if effect is None:
        raise EntrepotError(Code.BAD_REQUEST, f"{entry.decision!r} is neither Allow nor Deny")
    unknown = [each for each in entry.actions if each not in _ACTIONS]
    if unknown:
        raise EntrepotError(Code.BAD_REQUEST, f"there is no action {unknown[0]!r} here")
    actions = tuple(_ACTIONS[each] for each in entry.actions)
    return Statement(effect, actions, tuple(_resources(entry.resource, home)), entry.sources)


def _resources(text: str, home: str) -> list[str]:
    """Return our patterns of a resource.  Raises BAD_REQUEST."""
    if text == _ANY:
        return [f"{each}:*" for each in ResourceType]
    type_text, _, name = text.partition(":")
    kind = _TYPES.get(type_text.lower())
    if kind is None or not name:
        raise EntrepotError(Code.BAD_REQUEST, "there is no resource of that type here")
    if name == _ANY:
        return [f"{kind}:*"]
    if kind not in (ResourceType.TOPIC, ResourceType.GROUP):
        raise EntrepotError(Code.BAD_REQUEST, f"give rights on the {kind.lower()} by its name here")
    if name.startswith(RETRY_PREFIX):
        raise EntrepotError(Code.BAD_REQUEST, "retries need no rights here")
    named = _access_name(name, home)
    return [f"{kind}:{named}/#" if kind is ResourceType.TOPIC and not named.endswith(_ANY) else f"{kind}:{named}"]


def _access_name(name: str, home: str) -> str:
    """Return the name in statements, or its beginning with a `*` at the end.  Raises BAD_REQUEST."""
    found = _NAMESPACED.fullmatch(name)
    if found is None:
        if home:
            raise EntrepotError(Code.BAD_REQUEST, f"it is outside of the namespace {home!r}, which is `default` here")
        return name
    prefix, namespace, rest = found[1] or "", found[2], found[3]
    if home and namespace == DEFAULT_NAMESPACE:
        raise EntrepotError(Code.BAD_REQUEST, f"the namespace {home!r} is `default` here, not this one")
    plain = f"{prefix}{rest}"
    return plain if namespace in (home, DEFAULT_NAMESPACE) else f"{NAMESPACE_LEVEL}/{namespace}/{plain}"


def _pierced(entries: list[_Entry]) -> Iterator[str]:
    """Yield the denials that deny more here than there."""
    for denied in entries:
        if denied.decision != "deny":
            continue
        for allowed in entries:
            is_common = {"all"} & {*denied.actions, *allowed.actions} or {*denied.actions} & {*allowed.actions}
            if allowed.decision == "allow" and is_common and _goes_before(allowed, denied):
                yield f"the denial of {denied.resource} goes before what {allowed.resource} allows"
                break


def _goes_before(allowed: _Entry, denied: _Entry) -> bool:
    """True if RocketMQ lets an ALLOW decide where it meets a DENY."""
    if allowed.resource == denied.resource:
        return (allowed.kind, denied.kind) == ("custom", "default")
    begin = denied.resource.removesuffix(_ANY)
    return denied.resource.endswith(_ANY) and allowed.resource.startswith(begin)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
