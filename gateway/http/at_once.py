"""Publishes that are taken at once: what the connection, its timing and the publish route have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from entrepot.gateway.http.asgi import Headers
from entrepot.gateway.http.problems import ProblemAnswer

Client = tuple[str, int] | None
"""A peer's address and port, where it has them."""
OnPublished = Callable[[ProblemAnswer | None], None]
"""Told once what became of a request: None for the empty result."""


class PublishAtOnce(Protocol):
    """`publish.Publishing`."""

    def may_come(self, url: bytes, headers: Headers, client: Client) -> bool:
        """True where the body of a publish may be waited for: as far as its head says it is taken at once."""

    def at_once(self, url: bytes, headers: Headers, client: Client, body: bytes, on_published: OnPublished) -> bool:
        """Take a whole publish; says whether it was taken."""
