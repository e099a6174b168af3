"""Patterns of resources in statements, compiled once.

`Topic:*` is everything of a type, `Topic:fact*` every name with that prefix, `Group:workers` one name.  A Topic's
pattern may be an MQTT filter; other types take only the filter `#`, which is every name outside other namespaces.
`${clientid}` and `${username}` stand for the principal's values, inside one level and literally.  A value that is empty
or has `+`, `#` or `/` matches nothing in an ALLOW, and any value in a DENY.  Regular expressions are in
`domain.access.name_expression`.  Time is linear.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from entrepot.domain.access import filters
from entrepot.domain.access.model import EVERYTHING, Principal, ResourceType
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.routing.topic_filter import is_valid_filter

MAX_PATTERN_BYTES: Final = 4096
CLIENT_ID: Final = "${clientid}"
USERNAME: Final = "${username}"


class Kind(Enum):
    """Ways of a pattern to match."""

    ANY = auto()
    PREFIX = auto()
    LITERAL = auto()
    FILTER = auto()


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pattern of one resource.  `levels` are those of a FILTER, or the whole text of a LITERAL or PREFIX."""

    resource_type: ResourceType
    kind: Kind
    levels: tuple[str, ...]
    has_placeholders: bool

    def grants(self, principal: Principal, name: str) -> bool:
        """True if the pattern contains all that the name stands for."""
        if self.kind is Kind.ANY:
            return True
        if name == EVERYTHING:
            return False
        levels = self._filled(principal, unusable=None)
        if levels is None:
            return False
        if self._is_of_levels:
            asked = name.split("/")
            return filters.prefix_covers(levels[0], asked) if self._is_prefix else filters.covers(levels, asked)
        if self._is_prefix:
            return name.startswith(levels[0])
        return name == levels[0]

    def meets(self, principal: Principal, name: str) -> bool:
        """True if the pattern overlaps what the name stands for."""
        if self.kind is Kind.ANY or name == EVERYTHING:
            return True
        levels = self._filled(principal, unusable="+")
        assert levels is not None
        if self._is_of_levels:
            asked = name.split("/")
            return filters.prefix_overlaps(levels[0], asked) if self._is_prefix else filters.overlap(levels, asked)
        if self._is_prefix:
            return name.startswith(levels[0])
        return levels[0] in ("+", name)

    def may_meet(self, principal: Principal, name: str) -> bool:
        """True if an ALLOW with this pattern may overlap the name.  With an unusable placeholder value it allows
        nothing."""
        return self._filled(principal, unusable=None) is not None and self.meets(principal, name)

    @property
    def _is_of_levels(self) -> bool:
        return self.resource_type is ResourceType.TOPIC or self.kind is Kind.FILTER

    @property
    def _is_prefix(self) -> bool:
        return self.kind is Kind.PREFIX

    def _filled(self, principal: Principal, unusable: str | None) -> tuple[str, ...] | None:
        """Return the levels with the principal's values; a level with an unusable value becomes `unusable`."""
        if not self.has_placeholders:
            return self.levels
        filled: list[str] = []
        for depth, level in enumerate(self.levels):
            value = _fill(level, principal)
            if value is not None and depth == 0 and value[:1] == "$" and level[:2] == "${":
                value = None  # no user name or client id leads into the server's own names
            if value is None:
                if unusable is None:
                    return None
                value = unusable
            filled.append(value)
        return tuple(filled)


def parse_pattern(text: str) -> Pattern:
    """Read `<Type>:<pattern>`.  Raises BAD_REQUEST with the reason."""
    type_text, colon, pattern = text.partition(":")
    types = {each.value.lower(): each for each in ResourceType}
    resource_type = types.get(type_text.lower())
    if not colon or resource_type is None:
        words = f"write one of {', '.join(ResourceType)}, a colon and a pattern"
        raise _refusal(text, f"{words}; Topic~ and Group~ begin a regular expression")
    if not pattern or len(pattern.encode("utf-8", "surrogatepass")) > MAX_PATTERN_BYTES or not pattern.isprintable():
        raise _refusal(text, f"a pattern is 1 to {MAX_PATTERN_BYTES} bytes of printable text")
    has_placeholders = "${" in pattern
    if has_placeholders:
        _check_placeholders(text, pattern)
    if pattern == "*":
        return Pattern(resource_type, Kind.ANY, (), False)
    if pattern.endswith("*"):
        if has_placeholders:
            raise _refusal(text, "a prefix has no placeholders: it would reach other names that begin so")
        if any(wildcard in pattern for wildcard in "+#"):
            raise _refusal(text, "a prefix has no + and no #")
        return Pattern(resource_type, Kind.PREFIX, (pattern[:-1],), False)
    if resource_type is not ResourceType.TOPIC and pattern != "#":
        return Pattern(resource_type, Kind.LITERAL, (pattern,), has_placeholders)
    if not is_valid_filter(pattern):
        raise _refusal(text, "it is not an MQTT topic filter")
    return Pattern(resource_type, Kind.FILTER, tuple(pattern.split("/")), has_placeholders)


def _fill(level: str, principal: Principal) -> str | None:
    """Return a level with its placeholders replaced, or None if a value is unusable.  Values are not expanded again."""
    if "${" not in level:
        return level
    parts: list[str] = []
    rest = level
    while True:
        before, mark, after = rest.partition("${")
        parts.append(before)
        if not mark:
            return "".join(parts)
        word, _, rest = after.partition("}")
        value = principal.client_id if word == "clientid" else principal.name
        if not value or any(character in value for character in "+#/\0"):
            return None
        parts.append(value)


def _check_placeholders(text: str, pattern: str) -> None:
    if "${" in pattern.replace(CLIENT_ID, "").replace(USERNAME, ""):
        raise _refusal(text, f"the placeholders are {CLIENT_ID} and {USERNAME}")


def _refusal(text: str, reason: str) -> EntrepotError:
    return EntrepotError(Code.BAD_REQUEST, f"{text[:120]!r} is not a resource: {reason}")
