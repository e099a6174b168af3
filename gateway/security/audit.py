"""The audit log: failed logins, denials, every administrative change and look at contents, in the log and in a list.

Invariants: no secret is in an entry (callers pass names, never credentials). The list is bounded and only appended to.
Failures and denials beyond a rate are only counted, and the count is told, so that outsiders cannot fill the log.
Administrative changes are always told. Refusals have a list of their own, so strangers' logins push no change out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import Final

import structlog

from entrepot.domain.access.model import Action
from entrepot.domain.clock import Clock

MAX_TEXT: Final = 256
"""Characters of a name in an entry: names come from outside."""

OUTCOME_UNKNOWN: Final = " (outcome unknown)"
"""End of the event of a change that could not be confirmed."""

_number_of = attrgetter("number")
_log = structlog.get_logger("audit")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One event; `at_ms` is epoch milliseconds, `number` grows by one."""

    number: int
    at_ms: int
    event: str
    subject: str
    source: str
    protocol: str
    action: str
    resource: str
    detail: str
    is_refusal: bool
    """True for a failed login or a denial, False for a change or a look."""
    is_look: bool = False
    """True where contents of messages were shown, and nothing changed."""


class AuditLog:
    """The entries of this process: the newest `entries` of refusals, and as many of what was done."""

    def __init__(self, clock: Clock, entries: int, per_second: int) -> None:
        self._clock = clock
        self._refusals: deque[AuditEntry] = deque(maxlen=entries)
        self._done: deque[AuditEntry] = deque(maxlen=entries)
        self._per_second = per_second
        self._second = 0
        self._told = 0
        self._number = 0
        self.suppressed = 0

    def refused(
        self, event: str, subject: str, source: str, protocol: str, detail: str, action: str = "", resource: str = ""
    ) -> None:
        """Record a failed login or a denial."""
        second = self._clock.now_ms() // 1000
        if second != self._second:
            self._second, self._told = second, 0
        if self._told >= self._per_second:
            self.suppressed += 1
            return
        self._told += 1
        self._append(event, subject, source, protocol, action, resource, detail, is_refusal=True)

    def changed(
        self,
        event: str,
        subject: str,
        source: str,
        resource: str,
        detail: str = "",
        protocol: str = "",
        action: str = "",
    ) -> None:
        """Record an administrative change by `subject`; `action` is the protocol's own name of it."""
        self._append(event, subject, source, protocol, action, resource, detail, is_refusal=False)

    def entries(self) -> list[AuditEntry]:
        """All kept entries, the oldest first."""
        return list(merge(self._refusals, self._done, key=_number_of))

    def seen(self, event: str, subject: str, source: str, resource: str, detail: str) -> None:
        """Record that `subject` was shown contents of messages."""
        self._append(event, subject, source, "http", Action.SUB, resource, detail, is_refusal=False, is_look=True)

    def newest(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        """The newest entries first, of those with a smaller number than `before`."""
        found: list[AuditEntry] = []
        for entry in self._newest_first():
            if before is None or entry.number < before:
                found.append(entry)
                if len(found) == limit:
                    break
        return found

    def _newest_first(self) -> Iterator[AuditEntry]:
        return merge(reversed(self._refusals), reversed(self._done), key=_number_of, reverse=True)

    def _append(
        self,
        event: str,
        subject: str,
        source: str,
        protocol: str,
        action: str,
        resource: str,
        detail: str,
        *,
        is_refusal: bool,
        is_look: bool = False,
    ) -> None:
        self._number += 1
        entry = AuditEntry(
            self._number,
            self._clock.now_ms(),
            event,
            subject[:MAX_TEXT],
            source[:MAX_TEXT],
            protocol,
            action,
            resource[:MAX_TEXT],
            detail[:MAX_TEXT],
            is_refusal,
            is_look,
        )
        (self._refusals if is_refusal else self._done).append(entry)
        _log.info(
            entry.event,
            subject=entry.subject,
            source=entry.source,
            protocol=protocol,
            action=action,
            resource=entry.resource,
            detail=entry.detail,
            suppressed=self.suppressed,
        )
