"""Messages as the caller of a route is shown them."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request

from entrepot.domain.message import StoredMessage
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.operations.masking import Shown
from entrepot.gateway.operations.seen import Contents


def contents_of(context: HttpContext) -> Contents:
    """The contents that this gateway shows."""
    return Contents(context.security, context.settings.http.masked_fields)


def shown_to(context: HttpContext, request: Request) -> Callable[[StoredMessage], Shown]:
    """The view of the caller: everything for super users, and where no rule masks anything."""
    return contents_of(context).shown_to(request.state.principal)


def note_seen(context: HttpContext, request: Request, topic: str, detail: str) -> None:
    """Write a look at bodies of a topic's messages to the audit log, once for a request."""
    contents_of(context).note(request.state.principal, topic, detail)
