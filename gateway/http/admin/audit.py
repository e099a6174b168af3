"""The audit log of all gateways: failed logins, denials, changes and looks at contents.  For super users only.

Each gateway process keeps its newest entries; a gateway that has ended took its entries along, but for its log.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from fastapi import Query, Response

from entrepot.domain.timestamp import MAX_EPOCH_MS, to_rfc3339
from entrepot.gateway.http.admin.common import MAX_CURSOR_LENGTH, MAX_NUMBER, PREFIX, epoch_ms_of
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import SUPER_USERS
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.peers.gathered import Gathered, merged
from entrepot.gateway.security.audit import MAX_TEXT, AuditEntry
from entrepot.gateway.security.audit_pages import AuditFilter, audit_page, check_cursor

VIEW: Final = "audit"
MAX_LIMIT: Final = 1000
_KINDS: Final = {"all": (None, None), "refusals": (True, None), "changes": (False, False), "looks": (None, True)}
"""By kind: whether its entries are refusals, and looks at contents."""


def audit_routes(context: HttpContext) -> Routes:
    """The route of the audit log."""
    routes = Routes(["users"], PREFIX)
    audit, peers = context.security.audit, context.peers
    peers.serve(VIEW, lambda asked: _own_page(context, asked))

    @routes.plain.get(
        "/audit",
        SUPER_USERS,
        summary="List failed logins, denials, changes and looks at contents of all gateways, the newest first",
    )
    async def list_audit(
        before: int | None = Query(
            None, ge=1, le=MAX_NUMBER, description="Entry number before which the list of this gateway alone begins"
        ),
        cursor: str | None = Query(
            None, max_length=MAX_CURSOR_LENGTH, description="Value of `next` in an earlier list, to continue there"
        ),
        kind: Literal["all", "refusals", "changes", "looks"] = Query("all", description="Kind of the entries"),
        event: str = Query("", max_length=MAX_TEXT, description="Part of the event"),
        subject: str = Query("", max_length=MAX_TEXT, description="Part of the name of who did it"),
        resource: str = Query("", max_length=MAX_TEXT, description="Part of the resource"),
        begin: str | None = Query(None, alias="from", max_length=64, description="First time of the entries"),
        until: str | None = Query(None, max_length=64, description="Time before which the entries are"),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        if cursor is not None:
            check_cursor(cursor)
        asked = {
            "cursor": cursor,
            "before": before,
            "limit": limit,
            "isRefusal": _KINDS[kind][0],
            "isLook": _KINDS[kind][1],
            "event": event,
            "subject": subject,
            "resource": resource,
            "from": 0 if begin is None else epoch_ms_of(begin, "from"),
            "until": MAX_EPOCH_MS + 1 if until is None else epoch_ms_of(until, "until"),
        }
        if before is None:
            gathered = await peers.gather(VIEW, asked)
        else:  # numbers are a gateway's own
            gathered = Gathered({peers.name: await _own_page(context, asked)})
        rows, following = merged(gathered, "key", limit)
        for row in rows:
            del row["key"]
        suppressed = sum(answer["suppressed"] for answer in gathered.answers.values())
        return json_answer({"value": rows, "next": following, "suppressed": suppressed, "answered": gathered.shape()})

    async def _own_page(context: HttpContext, asked: dict[str, Any]) -> dict[str, Any]:
        wanted = AuditFilter(
            asked["event"],
            asked["subject"],
            asked["resource"],
            asked["isRefusal"],
            asked["from"],
            asked["until"],
            asked["isLook"],
        )
        before = asked["before"]
        entries = [entry for entry in audit.entries() if before is None or entry.number < before]
        page = audit_page(entries, peers.own_id, wanted, asked["cursor"], asked["limit"])
        value = [{"key": key, **_shape(entry)} for key, entry in page.entries]
        return {
            "value": value,
            "next": value[-1]["key"] if page.is_more else None,
            "suppressed": audit.suppressed,
        }

    return routes


def _shape(entry: AuditEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "time": to_rfc3339(entry.at_ms),
        "event": entry.event,
        "subject": entry.subject,
        "source": entry.source,
        "protocol": entry.protocol,
        "action": entry.action,
        "resource": entry.resource,
        "detail": entry.detail,
        "isRefusal": entry.is_refusal,
        "isLook": entry.is_look,
    }
