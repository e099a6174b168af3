"""TopicPermission: RabbitMQ's rights of a user on routing keys at one topic exchange, beside those on the exchange.

A user without one for an exchange may use every routing key there.  Patterns are searched in the key; an empty one
matches nothing.  `{username}` and `{vhost}` stand for the names of the client.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from entrepot.domain.regular_expression import RegularExpression

_NOTHING = "^$"


@dataclass(frozen=True, slots=True)
class TopicPermission:
    """The patterns of routing keys that a user may write to an exchange, and read from it by a binding."""

    write: str
    read: str

    def may_write(self, key: str, user: str, vhost: str) -> bool:
        """Return True if the user may publish with a routing key.  Raises BAD_REQUEST for a pattern of other names."""
        return _matches(self.write, key, user, vhost)

    def may_read(self, key: str, user: str, vhost: str) -> bool:
        """Return True if the user may bind a queue with a routing key."""
        return _matches(self.read, key, user, vhost)

    def check(self) -> None:
        """Raise BAD_REQUEST for a pattern with a wrong syntax."""
        for pattern in (self.write, self.read):
            RegularExpression(pattern)


def _matches(pattern: str, key: str, user: str, vhost: str) -> bool:
    return _compiled(pattern or _NOTHING, user, vhost).matches(key)


@lru_cache(1024)
def _compiled(pattern: str, user: str, vhost: str) -> RegularExpression:
    return RegularExpression(pattern.replace("{username}", re.escape(user)).replace("{vhost}", re.escape(vhost)))
