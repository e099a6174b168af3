"""Administrative changes by HTTP, in the audit log: one entry for each, written once its outcome is known.

Invariants: every operation of a writing method is audited unless it declares otherwise.  An entry has the operation,
the principal, the names in the path and the status: never a body, a query or a header.  A refused request changed
nothing and has no entry here; a denial has one by `gateway.security`.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from http import HTTPStatus
from typing import Any, Final

from entrepot.gateway.http.requests.access import PROTOCOL
from entrepot.gateway.http.requests.asgi import Scope, Send
from entrepot.gateway.http.requests.request_times import template_of
from entrepot.gateway.operations.row.change_names import CHANGED, CREATED, resource_of
from entrepot.gateway.operations.row.operation import Operation
from entrepot.gateway.security.audit import OUTCOME_UNKNOWN, AuditLog

_UNSURE: Final = frozenset({500, 503, 504})
"""Statuses after which part of a change may have been made."""


TOLD: Final = "told"
"""Of a request's state: what the handler says of its change, as (resource, detail) of each entry."""


class AuditedChanges:
    """The entries of all operations that change something, by method and template."""

    def __init__(self, audit: AuditLog, operations: Iterable[Operation]) -> None:
        self._audit = audit
        self._changes = {
            (each.method, template): each.change for each in operations if each.change for template in each.templates
        }

    def noting(self, scope: Scope, send: Send) -> Send:
        """A `send` that writes the entry before the client learns the outcome."""
        state: dict[str, Any] = scope.setdefault("state", {})

        async def noted(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._note(scope, state, message["status"])
            await send(message)

        return noted

    def _note(self, scope: Scope, state: dict[str, Any], status: int) -> None:
        template = template_of(scope)
        event, principal = self._changes.get((scope["method"], template)), state.get("principal")
        if event is None or principal is None or not (status < 300 or status in _UNSURE):
            return
        if status == HTTPStatus.CREATED and event.endswith(CHANGED):
            event = event.removesuffix(CHANGED) + CREATED
        names: dict[str, str] = scope.get("path_params", {})
        for resource, detail in state.get(TOLD, (("", ""),)):
            self._audit.changed(
                event + OUTCOME_UNKNOWN if status in _UNSURE else event,
                principal.name,
                principal.source,
                resource or resource_of(template, names),
                f"{detail}, status {status}" if detail else f"status {status}",
                PROTOCOL,
                f"{scope['method']} {template}",
            )
