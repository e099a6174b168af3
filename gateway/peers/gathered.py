"""Answers of several gateways, and pages merged from them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any


@dataclass(frozen=True, slots=True)
class Gathered:
    """The answers to one question by gateway name, and the reason of each missing one."""

    answers: Mapping[str, Any]
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return not self.missing

    def shape(self) -> dict[str, Any]:
        """The number of gateways asked and answered, and the missing ones, as JSON."""
        return {
            "asked": len(self.answers) + len(self.missing),
            "answered": len(self.answers),
            "missing": [{"name": name, "reason": reason} for name, reason in sorted(self.missing.items())],
        }


def merged(gathered: Gathered, key: str, limit: int) -> tuple[list[dict[str, Any]], str | None]:
    """Merge each gateway's page into one of at most `limit` rows; return it with the next cursor, or None at the end.

    Pages are `{"value": [...], "next": ...}`, in the order of the text `row[key]`, behind one cursor. Each row gets
    `gateway`. The end of a full page bounds the merge: that gateway may have more rows before the others' later ones.
    Rows with the cursor's key at several gateways (a client that moves) are all in the same page.
    """
    pages = [[{**row, "gateway": name} for row in answer["value"]] for name, answer in sorted(gathered.answers.items())]
    unfinished = [page[-1][key] for page in pages if page and _has_more(gathered, page)]
    bound = min(unfinished, default=None)
    rows = list(islice(heapq.merge(*pages, key=lambda row: str(row[key])), limit + len(pages)))
    page = [row for row in rows if bound is None or row[key] <= bound]
    if len(page) > limit:
        last = page[limit - 1][key]
        page = [row for row in page if row[key] <= last]
        return page, last
    is_more = len(page) < len(rows) or bound is not None
    return page, page[-1][key] if page and is_more else None


def _has_more(gathered: Gathered, page: list[dict[str, Any]]) -> bool:
    return gathered.answers[page[0]["gateway"]].get("next") is not None
