"""Names of topics and groups: ours to RocketMQ's, and back.

RocketMQ writes a namespace before the name, with `%` between (`NamespaceUtil`): `team%orders`, `%DLQ%team%workers`.
So a plain name that would read as one of a namespace is refused: both would be one topic.

RocketMQ's names have no `~`, which ours have in groups of shares and subscriptions.  It is `||` there, and a name of
ours that has `||` is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import (
    DEAD_LETTER_PREFIX,
    DEFAULT_NAMESPACE,
    MAX_NAMESPACE_LENGTH,
    RETRY_PREFIX,
    qualified,
    split_name,
)

_SEPARATOR: Final = "%"
_TILDE, _ESCAPED = "~", "||"
_NAMESPACED: Final = re.compile(r"([a-zA-Z0-9_-]+)%(.+)")
_PREFIXES: Final = (DEAD_LETTER_PREFIX, RETRY_PREFIX)


@dataclass(frozen=True, slots=True)
class Names:
    """The cluster's namespace of our namespace `default`, or none; the others keep their names."""

    home: str = ""

    def resource(self, name: str) -> str:
        """Return RocketMQ's name of a topic or group.  Raises ILLEGAL_TOPIC for one that reads as another."""
        namespace, plain = split_name(name)
        prefix = next((each for each in _PREFIXES if plain.startswith(each)), "")
        rest = plain[len(prefix) :]
        if _ESCAPED in rest:
            text = f"{name!r} would be a name with {_TILDE!r} at a RocketMQ cluster"
            raise EntrepotError(Code.ILLEGAL_TOPIC, text)
        rest = rest.replace(_TILDE, _ESCAPED)
        within = self.home if namespace == DEFAULT_NAMESPACE else namespace
        if self.home and namespace == self.home and namespace != DEFAULT_NAMESPACE:
            text = f"{name!r}: the namespace {namespace!r} of the cluster is {DEFAULT_NAMESPACE!r} here"
            raise EntrepotError(Code.ILLEGAL_TOPIC, text)
        if not within:
            if _NAMESPACED.fullmatch(rest):
                raise EntrepotError(
                    Code.ILLEGAL_TOPIC, f"{name!r} would be a name of a namespace at a RocketMQ cluster"
                )
            return prefix + rest
        return f"{prefix}{within}{_SEPARATOR}{rest}"

    def is_ours(self, resource: str) -> bool:
        """True if our name of a topic or group leads back to it."""
        try:
            return self.resource(self.name(resource)) == resource
        except EntrepotError:
            return False

    def name(self, resource: str) -> str:
        """Return our name of a topic or group of the cluster."""
        resource = resource.replace(_ESCAPED, _TILDE)
        prefix = next((each for each in _PREFIXES if resource.startswith(each)), "")
        found = _NAMESPACED.fullmatch(resource[len(prefix) :])
        if found is None or len(found[1]) > MAX_NAMESPACE_LENGTH:
            return resource
        namespace = DEFAULT_NAMESPACE if found[1] == self.home else found[1]
        return qualified(namespace, prefix + found[2])


def origin_of(told: str, group: str) -> str:
    """Return the topic that a dead letter of a group was sent to.  `told`: its property RETRY_TOPIC, which names the
    retry topic where the message was one that had come again.  Both are RocketMQ's names."""
    of_group = f"{RETRY_PREFIX}{group}"
    rest = told.removeprefix(of_group)
    return rest[1:] if rest != told and rest[:1] in ("_", "+") else told
