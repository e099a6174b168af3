"""A consumer group as commands show it."""

from __future__ import annotations

from typing import Any

from entrepot.gateway.operations.row.operation import Table
from entrepot.gateway.operations.row.option_texts import retry_text
from entrepot.gateway.operations.row.paging import figure_text

_DEFINED = ("namespace", "maxAttempts", "invisibleSeconds", "start")
_PROGRESS = ("topic", "queueId", "committedOffset", "maxOffset", "inFlight", "lag")


def cells(group: dict[str, Any]) -> tuple[object, ...]:
    """Return the cells of a group in a list: of a page, or of all groups with their progress."""
    head = (group["name"], group["maxAttempts"], group["invisibleSeconds"], group["start"])
    if "isComplete" in group:
        topics = "?" if group["topics"] is None else " ".join(group["topics"])
        return *head, topics, figure_text(group, "inFlight"), figure_text(group, "lag")
    progress = group.get("progress") or []
    topics = " ".join(sorted({each["topic"] for each in progress}))
    return *head, topics, sum(each["inFlight"] for each in progress), sum(each["lag"] for each in progress)


def tables(group: dict[str, Any]) -> list[Table]:
    """Return a group's definition, and its progress."""
    wanted = group.get("filter")
    facts: list[tuple[str, object]] = [(key, group.get(key)) for key in _DEFINED]
    facts += [("retry", retry_text(group.get("retry") or {}))]
    facts += [(key, group.get(key)) for key in ("maxInFlight", "fifo")]
    facts += [("filter", f"{wanted['kind']}:{wanted['text']}" if wanted else None)]
    columns = ("topic", "queue", "committed", "max offset", "in flight", "lag")
    rows = ([each[name] for name in _PROGRESS] for each in group.get("progress") or [])
    return [(("group", group["name"]), facts), (columns, rows)]
