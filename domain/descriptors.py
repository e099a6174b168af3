"""Descriptors: how many files and connections the process may open, and how many are kept from connections.

Connections come from outside, in any number; the store, its wire and webhooks cannot wait for them to leave. So new
connections are refused in their protocol's words some hundred descriptors before the limit, and closed at once behind
half of those. The system gives the lowest free number: whoever gets a number finds all lower ones taken at that moment.
"""

from __future__ import annotations

import os
import resource
from typing import Any, Final, Protocol

MAX_RESERVE: Final = 512
LEAST_RESERVE: Final = 64
"""Descriptors kept from connections: an eighth of the limit, between these."""
TOO_MANY: Final = "too many files and connections are open"
"""The reason of refusals, at every door."""
NO_NUMBER: Final = -1
"""Number of a connection whose descriptor is not known."""


class Transport(Protocol):
    """A connection of the event loop."""

    def get_extra_info(self, name: str) -> Any: ...


def descriptor_of(transport: Transport) -> int:
    """The number of a connection's descriptor; NO_NUMBER if the transport does not tell it."""
    connection = transport.get_extra_info("socket")
    return NO_NUMBER if connection is None else int(connection.fileno())


class Descriptors:
    """The descriptors of this process."""

    def __init__(self) -> None:
        self._own = NO_NUMBER

    @property
    def limit(self) -> int | None:
        """Most descriptors of the process (RLIMIT_NOFILE); None without a limit."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if soft == resource.RLIM_INFINITY else soft

    @property
    def reserve(self) -> int:
        """Descriptors that new connections do not get."""
        return min(max((self.limit or 0) // 8, LEAST_RESERVE), MAX_RESERVE)

    def is_scarce(self, number: int) -> bool:
        """True if a connection that got this descriptor is to be refused, in its protocol's words."""
        limit = self.limit
        return limit is not None and number >= limit - self.reserve

    def is_spent(self, number: int) -> bool:
        """True if a connection that got this descriptor is to be closed at once."""
        limit = self.limit
        return limit is not None and number >= limit - self.reserve // 2

    @property
    def are_scarce(self) -> bool:
        """True if the next connection is to be refused."""
        number = self.used
        return number is None or self.is_scarce(number)

    @property
    def used(self) -> int | None:
        """The descriptors in use, which is the lowest free number: they are taken from below. None if all are."""
        try:
            if self._own < 0:
                self._own = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            number = os.dup(self._own)
        except OSError:
            return None
        os.close(number)
        return number

    def figures(self) -> dict[str, int]:
        """Descriptors in use, the limit, and the number from which connections are refused; empty without a limit."""
        limit, used = self.limit, self.used
        if limit is None:
            return {}
        return {"used": limit if used is None else used, "limit": limit, "refusedFrom": limit - self.reserve}


_own: Final = Descriptors()


def descriptors() -> Descriptors:
    """Those of this process."""
    return _own
