"""`entrepot session`: MQTT sessions that a running server keeps, of all its gateways."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from gateway.cli.output import JsonOption, print_json, print_table
from gateway.cli.values import given

app = typer.Typer(help="MQTT sessions, connected or away.", no_args_is_help=True)

_PATH = "/api/v1/sessions"


@app.command("list")
def list_sessions(
    prefix: Annotated[str | None, typer.Option(help="What client ids begin with.")] = None,
    after: Annotated[str | None, typer.Option(help="Go on where a list ended.")] = None,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=1000)] = 100,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Sessions of all gateways."""
    answer = Client(server).request("GET", _PATH, query=given(prefix=prefix, after=after, limit=limit))
    if as_json:
        print_json(answer)
        return
    columns = ("id", "user", "version", "connected", "gateway", "expiresAt", "subscriptionCount", "will")
    print_table(columns, ([one[column] for column in columns] for one in answer["value"]))
    if answer["next"] is not None:
        typer.echo(f"more: --after {answer['next']}", err=True)


@app.command()
def delete(
    client: Annotated[str, typer.Argument(metavar="CLIENT", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """End a session: what waits for the client is lost to it.  A terminal is asked first."""
    if not yes and sys.stdin.isatty():
        typer.confirm(f"End the session of {client}?", abort=True)
    Client(server).delete(f"{_PATH}/{segment(client)}")
    typer.echo(f"session {client} ended")
