"""Pages of the audit log: the entries that a filter takes, the newest first, after a cursor.

The order of entries of several gateways is that of the text `key`: time, gateway and number, each so that the newest
comes first.  An entry that comes later has a smaller key than those of a page, so cursors stay valid.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.timestamp import MAX_EPOCH_MS
from entrepot.gateway.security.audit import AuditEntry

MAX_NUMBER: Final = 2**63 - 1
_CURSOR: Final = re.compile(r"(\d{15})/([^/]{0,128})/(\d{19})")
_Place = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """The wanted entries: texts are parts of the entry's, in any case; times are epoch milliseconds, the end not
    included."""

    event: str = ""
    subject: str = ""
    resource: str = ""
    is_refusal: bool | None = None
    """True: only failed logins and denials; False: only what was done."""
    from_ms: int = 0
    until_ms: int = MAX_EPOCH_MS + 1
    is_look: bool | None = None
    """True: only looks at contents of messages; False: none of them."""

    def takes(self, entry: AuditEntry) -> bool:
        return (
            self.is_refusal in (None, entry.is_refusal)
            and self.is_look in (None, entry.is_look)
            and self.from_ms <= entry.at_ms < self.until_ms
            and _is_part(self.event, entry.event)
            and _is_part(self.subject, entry.subject)
            and _is_part(self.resource, entry.resource)
        )


@dataclass(frozen=True, slots=True)
class AuditPage:
    """One gateway's entries with their keys; `is_more`: there are others after them."""

    entries: list[tuple[str, AuditEntry]]
    is_more: bool


def audit_page(
    entries: Iterable[AuditEntry], gateway: str, wanted: AuditFilter, after: str | None, limit: int
) -> AuditPage:
    """The first `limit` entries after the cursor `after`, which is an entry's key.  Raises BAD_REQUEST for another."""
    behind = None if after is None else _place_of_key(after)

    def place(entry: AuditEntry) -> _Place:
        return MAX_EPOCH_MS - entry.at_ms, gateway, MAX_NUMBER - entry.number

    found = heapq.nsmallest(
        limit + 1,
        (entry for entry in entries if wanted.takes(entry) and (behind is None or place(entry) > behind)),
        key=place,
    )
    keyed = [("{:015d}/{}/{:019d}".format(*place(entry)), entry) for entry in found[:limit]]
    return AuditPage(keyed, len(found) > limit)


def check_cursor(cursor: str) -> None:
    """Raise BAD_REQUEST for a text that is not an entry's key."""
    _place_of_key(cursor)


def _place_of_key(key: str) -> _Place:
    found = _CURSOR.fullmatch(key)
    if found is None:
        raise EntrepotError(Code.BAD_REQUEST, f"cursor: {key[:80]!r} is not `next` of an earlier list")
    return int(found[1]), found[2], int(found[3])


def _is_part(wanted: str, text: str) -> bool:
    return not wanted or wanted.casefold() in text.casefold()
