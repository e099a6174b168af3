"""`entrepot transaction`: half messages, which wait for their producer's commit."""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption
from entrepot.gateway.cli.output import JsonOption, print_listing
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path, given

app = typer.Typer(help="Half messages of transactions.", no_args_is_help=True)


@app.callback()
def _transactions() -> None:
    """Keep `list` a command of its own while it is the only one."""


@app.command("list")
def list_transactions(
    topic: Annotated[str | None, typer.Option(help="Topic of the messages; else all.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of messages.", min=1, max=1000)] = 32,
    cursor: Annotated[str | None, typer.Option(help="Cursor of an earlier answer, to continue there.")] = None,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List half messages that wait for their end, the oldest first."""
    query = {"limit": limit, **given(topic=topic, cursor=cursor)}
    answer = Client(server).request("GET", api_path(namespace, "transactions"), query=query)
    names = ("topic", "transactionId", "ageSeconds", "checks", "nextCheckAt", "producer", "size")
    rows = ([one[name] for name in names] for one in answer["value"])
    columns = ("topic", "transaction", "age s", "checks", "next check", "producer", "size")
    print_listing(answer, columns, rows, as_json=as_json, continued_by="--cursor")
