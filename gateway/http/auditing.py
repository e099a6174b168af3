"""Entries of routes in the audit log."""

from __future__ import annotations

from fastapi import Request

from entrepot.gateway.http.context import HttpContext


def audited(context: HttpContext, request: Request, event: str, subject: str, detail: str = "") -> None:
    """Write an operator's change to the audit log."""
    by = request.state.principal
    context.security.audit.changed(event, by.name, by.source, subject, detail)
