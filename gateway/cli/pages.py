"""Options of commands that list topics or groups, and the line about brokers that did not answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from entrepot.gateway.cli.client import Client
from entrepot.gateway.cli.output import print_line, print_listing

DEFAULT_LIMIT: Final = 100
ContainsOption = Annotated[str | None, typer.Option("--contains", help="Text in the names, in any case.")]
PrefixOption = Annotated[str | None, typer.Option("--prefix", help="Beginning of the names.")]
KindOption = Annotated[str | None, typer.Option("--kind", metavar="KIND,...", help="Kinds, such as normal or queue.")]
SortOption = Annotated[
    str | None, typer.Option("--sort", metavar="COLUMN", help="Column to sort by; -COLUMN: descending.")
]
LimitOption = Annotated[int | None, typer.Option("--limit", help="Maximum number of rows.", min=1, max=1000)]
AfterOption = Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Cursor of the page before.")]


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
        missed = answer["answered"]["missing"]
    else:
        print_listing(answer["value"], columns, rows, as_json=as_json)
        missed = answer.get("missing", ())
    for missing in missed:
        print_line(f"{missing['name']} gave no answer: {missing['reason']}", err=True)


def figure(row: dict[str, Any], name: str) -> str:
    """A sum of a row: `?` while it is unknown, with a sign where it is a lower bound."""
    if row[name] is None:
        return "?"
    return row[name] if row["isComplete"] else f">={row[name]}"
