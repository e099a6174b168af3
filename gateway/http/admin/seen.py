"""Messages as a caller is shown them: the masks that hold for it, and the audit of its looks at bodies."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Request

from entrepot.domain.access.model import ResourceType, access_name
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.masking import Masking, Shown, unmasked


def shown_to(context: HttpContext, request: Request) -> Callable[[StoredMessage], Shown]:
    """The view of the caller: everything for super users, and where no rule masks anything."""
    rules = context.settings.http.masked_fields
    principal, security = request.state.principal, context.security
    if not rules or (security.is_super(principal) and security.lost(principal) is None):
        return unmasked
    return Masking(rules).shown


def note_seen(context: HttpContext, request: Request, topic: str, detail: str) -> None:
    """Write a look at bodies of a topic's messages to the audit log, once for a request."""
    by = request.state.principal
    resource = f"{ResourceType.TOPIC}:{access_name(topic)}"
    context.security.audit.seen("contents seen", by.name, by.source, resource, detail)


def body_shown(context: HttpContext, request: Request, message: StoredMessage) -> bytes:
    """The whole body as the caller is shown it.  Raises FORBIDDEN where it is hidden."""
    body = shown_to(context, request)(message).body
    if body is None:
        raise EntrepotError(Code.FORBIDDEN, "the bodies of this topic are shown to super users only")
    return body
