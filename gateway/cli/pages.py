"""Lists of topics and groups by commands, and the line about brokers that did not answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from entrepot.gateway.cli.client import Client
from entrepot.gateway.cli.output import print_listing, print_missing

DEFAULT_LIMIT: Final = 100


def all_pages(client: Client, path: str, limit: int, **query: str | int) -> list[Any]:
    """All pages of a listing."""
    return [row for page in client.pages(path, **query, limit=limit) for row in page["value"]]


def listing(client: Client, path: str, query: dict[str, Any]) -> dict[str, Any]:
    """Get the page that a query asks for, or the whole list, piece by piece."""
    if query:
        wanted = {"limit": DEFAULT_LIMIT, **query}
        page: dict[str, Any] = client.request("GET", path, query=wanted)
        return page
    pages = list(client.pages(path))
    missing = pages[-1].get("answered", {}).get("missing", [])
    return {"value": [row for page in pages for row in page["value"]], "missing": missing}


def print_page(
    answer: dict[str, Any], columns: Iterable[str], rows: Iterable[Iterable[object]], *, as_json: bool
) -> None:
    """Print a page with its cursor, or a whole list, and name the brokers that did not answer."""
    if "answered" in answer:
        print_listing(answer, columns, rows, as_json=as_json, continued_by="--after")
        return
    print_listing(answer["value"], columns, rows, as_json=as_json)
    if "missing" in answer:
        print_missing(answer)
