"""Everywhere: what RabbitMQ's routes ask of all gateways.  Its API has no cursors: lists are whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from entrepot.gateway.peers.gathered import Gathered, merged

if TYPE_CHECKING:
    from entrepot.gateway.operations.row.asked import Asked
    from entrepot.gateway.peers.peers import Peers

ROWS_AT_ONCE: Final = 2000
"""Rows of one gateway in one answer, where all rows are needed."""
MISSING_HEADER: Final = "entrepot-gateways-missing"
"""Header with the gateways that did not answer, where the body's form has no room for them."""


async def all_rows(peers: Peers, view: str, arguments: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Gathered]:
    """All rows of all gateways, in the order of `key`, without it; and the last answers.  Each gateway is asked
    ROWS_AT_ONCE rows at a time."""
    rows: list[dict[str, Any]] = []
    after: str | None = ""
    missing: dict[str, str] = {}
    while after is not None:
        found = await peers.gather(view, {**arguments, "after": after, "limit": ROWS_AT_ONCE})
        missing.update(found.missing)
        page, after = merged(found, "key", ROWS_AT_ONCE)
        rows += page
    for row in rows:
        del row["key"]
    return rows, Gathered({name: each for name, each in found.answers.items() if name not in missing}, missing)


def name_missing(asked: Asked, gathered: Gathered) -> None:
    """Name the gateways that did not answer in a header."""
    if gathered.missing:
        names = ", ".join(sorted(gathered.missing))
        asked.answer_headers[MISSING_HEADER] = names.encode("ascii", "backslashreplace").decode()
