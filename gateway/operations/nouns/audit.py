"""The audit log of all gateways: failed logins, denials, changes and looks at contents.  For super users only.

Each gateway process keeps its newest entries; a gateway that has ended took its entries along, but for its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from entrepot.domain.timestamp import MAX_EPOCH_MS, to_rfc3339
from entrepot.gateway.operations.row.gathered import AnsweredShown, answered, readable
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.shapes import MAX_CURSOR_LENGTH, MAX_NUMBER, Part, Query, Shown, Time, shown_as
from entrepot.gateway.operations.row.times import epoch_ms_of
from entrepot.gateway.peers.gathered import Gathered, merged
from entrepot.gateway.security.audit import MAX_TEXT, AuditEntry
from entrepot.gateway.security.audit_pages import AuditFilter, audit_page, check_cursor

if TYPE_CHECKING:
    from entrepot.gateway.peers.peers import Peers
    from entrepot.gateway.security.audit import AuditLog

VIEW: Final = "audit"
MAX_LIMIT: Final = 1000
_KINDS: Final = {"all": (None, None), "refusals": (True, None), "changes": (False, False), "looks": (None, True)}
"""By kind: whether its entries are refusals, and looks at contents."""
_NumberBefore = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
_Cursor = Annotated[str, Meta(max_length=MAX_CURSOR_LENGTH)]
_TimeAsked = Annotated[str, Meta(max_length=64)]


class AuditEntryShown(Shown, frozen=True):
    """A failed login, a denial, a change, or a look at contents; `number` is its gateway's own"""

    number: int
    time: Time
    event: str
    subject: str
    source: str
    protocol: str
    action: str
    resource: str
    detail: str
    is_refusal: bool
    is_look: bool
    gateway: str


shown_as(
    AuditEntryShown(
        12,
        "2026-12-01T08:00:00.000Z",
        "denied",
        "bob",
        "192.0.2.7",
        "http",
        "PUB",
        "Topic:factory",
        "",
        True,
        False,
        "gw-1",
    )
)


class AuditPageShown(Part, frozen=True):
    value: list[AuditEntryShown]
    next: str | None
    suppressed: int
    answered: AnsweredShown


class AuditAsked(Query, frozen=True):
    before: Annotated[
        _NumberBefore | None, Meta(description="Entry number before which the list of this gateway alone begins")
    ] = None
    cursor: Annotated[_Cursor | None, Meta(description="Value of `next` in an earlier list, to continue there")] = None
    kind: Annotated[Literal["all", "refusals", "changes", "looks"], Meta(description="Kind of the entries")] = "all"
    event: Annotated[str, Meta(max_length=MAX_TEXT, description="Part of the event")] = ""
    subject: Annotated[str, Meta(max_length=MAX_TEXT, description="Part of the name of who did it")] = ""
    resource: Annotated[str, Meta(max_length=MAX_TEXT, description="Part of the resource")] = ""
    begin: Annotated[_TimeAsked | None, Meta(description="First time of the entries")] = msgspec.field(
        default=None, name="from"
    )
    until: Annotated[_TimeAsked | None, Meta(description="Time before which the entries are")] = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100


AUDIT: Final = Noun("users", "/audit", "audit")


class Audit:
    """The operation of the audit log, and this gateway's answer to the others."""

    def __init__(self, audit: AuditLog, peers: Peers) -> None:
        self._audit, self._peers = audit, peers
        peers.serve(VIEW, self._own_page)

    @AUDIT.get(
        "",
        "listAuditEntries",
        "List failed logins, denials, changes and looks at contents of all gateways, the newest first",
        SUPER_USERS,
        shows={"next": "253402214400000/9f8e7d6c5b4a3f2e/9223372036854775795", "suppressed": 0},
    )
    async def listed(self, query: AuditAsked) -> AuditPageShown:
        if query.cursor is not None:
            check_cursor(query.cursor)
        asked = {
            "cursor": query.cursor,
            "before": query.before,
            "limit": query.limit,
            "isRefusal": _KINDS[query.kind][0],
            "isLook": _KINDS[query.kind][1],
            "event": query.event,
            "subject": query.subject,
            "resource": query.resource,
            "from": 0 if query.begin is None else epoch_ms_of(query.begin, "from"),
            "until": MAX_EPOCH_MS + 1 if query.until is None else epoch_ms_of(query.until, "until"),
        }
        if query.before is None:
            gathered = await self._peers.gather(VIEW, asked)
        else:  # numbers are a gateway's own
            gathered = Gathered({self._peers.name: await self._own_page(asked)})
        gathered = readable(gathered, AuditEntryShown)
        rows, following = merged(gathered, "key", query.limit)
        suppressed = sum(answer["suppressed"] for answer in gathered.answers.values())
        entries = msgspec.convert(rows, list[AuditEntryShown])
        return AuditPageShown(entries, following, suppressed, answered(gathered))

    async def _own_page(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return this gateway's entries: what other gateways ask for, and get as JSON."""
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
        entries = [entry for entry in self._audit.entries() if before is None or entry.number < before]
        page = audit_page(entries, self._peers.members.own_id, wanted, asked["cursor"], asked["limit"])
        value = [{"key": key, **_told(entry)} for key, entry in page.entries]
        return {
            "value": value,
            "next": value[-1]["key"] if page.is_more else None,
            "suppressed": self._audit.suppressed,
        }


def _told(entry: AuditEntry) -> dict[str, Any]:
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
