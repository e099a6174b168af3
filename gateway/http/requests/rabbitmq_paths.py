"""Paths of RabbitMQ's API: `/api/...`, but for our own `/api/v1`; a slash at their end counts for nothing.

RabbitMQ takes such a slash, and its clients send one: `/api/vhosts/`.
"""

from __future__ import annotations

from typing import Final

from entrepot.gateway.http.requests.asgi import Scope

_PREFIX: Final = b"/api/"
_OWN: Final = b"/api/v1"


def is_of_rabbitmq(scope: Scope) -> bool:
    """Return True for a path of RabbitMQ's API, whether or not something is there."""
    raw: bytes = scope.get("raw_path") or b""
    return raw.startswith(_PREFIX) and raw != _OWN and not raw.startswith(_OWN + b"/")


def drop_last_slash(scope: Scope) -> None:
    """Drop one slash from the end of a request's path, where the path is RabbitMQ's."""
    if is_of_rabbitmq(scope) and scope["raw_path"].endswith(b"/"):
        scope["raw_path"], scope["path"] = scope["raw_path"][:-1], scope["path"].removesuffix("/")
