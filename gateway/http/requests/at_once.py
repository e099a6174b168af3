"""Publishes without waiting: the interface between connection, timing and publish route."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from entrepot.gateway.http.requests.asgi import Headers
from entrepot.gateway.http.requests.problems import ProblemAnswer

Peer = dict[str, Any]
"""The `client` and the `state` of the scopes of a connection's requests."""
OnPublished = Callable[[ProblemAnswer | None], None]
"""Callback with a request's outcome, called once: None for the empty result."""


class PublishAtOnce(Protocol):
    """The interface of `publish.Publishing`."""

    def may_come(self, url: bytes, headers: Headers, peer: Peer) -> bool:
        """True if, judging by its head, a publish can be taken at once, so that its body may be awaited."""

    def at_once(self, url: bytes, headers: Headers, peer: Peer, body: bytes, on_published: OnPublished) -> bool:
        """Take a whole publish; True if it was taken."""
