"""Messages as the caller of a route is shown them."""

from __future__ import annotations

from fastapi import Request

from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.operations.seen import Contents


def contents_of(context: HttpContext) -> Contents:
    """The contents that this gateway shows."""
    return Contents(context.security, context.settings.http.masked_fields)


def note_seen(context: HttpContext, request: Request, topic: str, detail: str) -> None:
    """Write a look at bodies of a topic's messages to the audit log, once for a request."""
    contents_of(context).note(request.state.principal, topic, detail)
