"""NameExpression: a resource by a regular expression of names, `Topic~^(orders|app\\.[a-z]+)$`.

The expression is searched in the name of an exchange or queue as its clients write it: `app.in`, not `app%2Ein`.  It
covers a Topic with all its sub-topics.  In another namespace it is `Topic~$ns/plant/<expression>`.  RE2 runs it, in
time that grows with the name's length alone.

Invariants: an ALLOW covers a name only if the expression finds something in it, so it never covers a set of names that
reaches over several Topics, nor a name that is cut (`domain.entity_name`) or is not the name of an exchange or queue.
A DENY meets all of these sets, all cut names, and other names that have what it looks for.  Where an ALLOW's expression
lists names (`domain.access.listed_names`), it is compiled to their patterns and covers what they cover.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from entrepot.domain.access import filters
from entrepot.domain.access.listed_names import before_names, patterns_of, resources_of
from entrepot.domain.access.model import EVERYTHING, NAMESPACE_LEVEL, Effect, Principal, ResourceType
from entrepot.domain.access.pattern import MAX_PATTERN_BYTES, Pattern, parse_pattern
from entrepot.domain.entity_name import decoded_name
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE
from entrepot.domain.regular_expression import RegularExpression

SIGN: Final = "~"
REMEMBERED_EXPRESSIONS: Final = 1024
"""Compiled expressions that are kept, the least used forgotten: users often have the same."""
_RESOURCE: Final = re.compile(r"(Topic|Group)~(.*)", re.IGNORECASE | re.DOTALL)
_INSIDE: Final = re.compile(r"\$ns/([^/]+)/(.*)", re.DOTALL)
_CUT: Final = "|"


@dataclass(frozen=True, slots=True)
class NameExpression:
    """The expression of one resource.  `before`: the levels of the namespace.  `expression`: None matches no name."""

    resource_type: ResourceType
    before: tuple[str, ...]
    expression: RegularExpression | None

    def grants(self, principal: Principal, name: str) -> bool:
        """True if the expression finds something in the one name that all of the request is of."""
        level = self._level(name)
        entity = None if level is None else decoded_name(level)
        return entity is not None and self._finds(entity)

    def meets(self, principal: Principal, name: str) -> bool:
        """True if some of the names that the request stands for may be meant."""
        if self.expression is None:
            return False
        level = self._level(name)
        if level is None:
            return self._reaches(name)
        entity = decoded_name(level)
        if entity is None:
            return _CUT in level or self._finds(level)
        return self._finds(entity)

    def may_meet(self, principal: Principal, name: str) -> bool:
        """True if an ALLOW may cover some of the names that the request stands for."""
        return self.grants(principal, name) or (self._level(name) is None and self.meets(principal, name))

    def _finds(self, name: str) -> bool:
        return self.expression is not None and self.expression.matches(name)

    def _level(self, name: str) -> str | None:
        """Return the level that names the Topic or group, or None: it is of another namespace, or a wildcard."""
        levels = name.split("/")
        depth = len(self.before)
        if name == EVERYTHING or len(levels) <= depth or tuple(levels[:depth]) != self.before:
            return None
        level = levels[depth]
        is_one = self.resource_type is ResourceType.TOPIC or len(levels) == depth + 1
        return level if is_one and level not in ("+", "#") and not level.startswith("$") else None

    def _reaches(self, name: str) -> bool:
        """True if the request stands for names of several Topics or groups of the namespace."""
        return name == EVERYTHING or filters.overlap((*self.before, "+", "#"), name.split("/"))


def resource_of(kind: str, namespace: str, expression: str) -> str:
    """Return the resource of an expression.  Raises BAD_REQUEST for one that would be read as of another namespace."""
    if expression.startswith(f"{NAMESPACE_LEVEL}/"):
        raise EntrepotError(Code.BAD_REQUEST, f"{expression[:120]!r} matches no name: write ^$ for none")
    return f"{kind}{SIGN}{before_names(namespace)}{expression}"


def expression_in(resource: str, namespace: str) -> str | None:
    """Return the expression of a resource that `resource_of` made for the namespace, or None for any other resource."""
    found = _RESOURCE.fullmatch(resource)
    if found is None:
        return None
    named, expression = _parted(found[2])
    return expression if named == namespace else None


def compiled_resource(text: str, effect: Effect) -> tuple[Pattern | NameExpression, ...]:
    """Read a resource of a statement.  Raises BAD_REQUEST with the reason."""
    found = _RESOURCE.fullmatch(text)
    if found is None:
        return (parse_pattern(text),)
    namespace, expression = _parted(found[2])
    if len(text.encode("utf-8", "surrogatepass")) > MAX_PATTERN_BYTES or not text.isprintable():
        raise _refusal(text, f"an expression is up to {MAX_PATTERN_BYTES} bytes of printable text")
    if "${" in expression:
        raise _refusal(text, "an expression has no placeholders")
    kind = ResourceType(found[1].capitalize())
    listed = _listed(kind, namespace, expression) if effect is Effect.ALLOW else None
    if listed is not None:
        return tuple(map(parse_pattern, listed))
    before = () if namespace == DEFAULT_NAMESPACE else (NAMESPACE_LEVEL, namespace)
    return (NameExpression(kind, before, _compiled(expression) if expression else None),)


def finds(expression: str, name: str) -> bool:
    """True if the expression finds something in a name; an empty one never does.  Raises BAD_REQUEST."""
    return bool(expression) and _compiled(expression).matches(name)


@lru_cache(REMEMBERED_EXPRESSIONS)
def _compiled(expression: str) -> RegularExpression:
    return RegularExpression(expression)


def _listed(kind: ResourceType, namespace: str, expression: str) -> tuple[str, ...] | None:
    patterns = patterns_of(expression)
    return None if patterns is None else resources_of(kind, namespace, patterns)


def _parted(text: str) -> tuple[str, str]:
    """Return (namespace, expression)."""
    inside = _INSIDE.fullmatch(text)
    return (inside[1], inside[2]) if inside is not None else (DEFAULT_NAMESPACE, text)


def _refusal(text: str, reason: str) -> EntrepotError:
    return EntrepotError(Code.BAD_REQUEST, f"{text[:120]!r} is not a resource: {reason}")
