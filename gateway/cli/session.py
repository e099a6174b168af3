"""`entrepot session`: MQTT sessions of all gateways of a running server."""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.output import JsonOption, print_listing, print_outcome
from entrepot.gateway.cli.values import given

app = typer.Typer(help="MQTT sessions, connected or not.", no_args_is_help=True)

_PATH = "/api/v1/sessions"


@app.command("list")
def list_sessions(
    prefix: Annotated[str | None, typer.Option(help="Prefix of the client ids.")] = None,
    connected: Annotated[
        bool | None, typer.Option("--connected/--away", help="List only sessions with a connection, or without.")
    ] = None,
    after: Annotated[str | None, typer.Option(help="Last client id of an earlier list, to continue there.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of sessions.", min=1, max=1000)] = 100,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List sessions of all gateways."""
    query = given(prefix=prefix, after=after, limit=limit)
    if connected is not None:
        query["connected"] = str(connected).lower()
    answer = Client(server).request("GET", _PATH, query=query)
    columns = ("id", "user", "version", "connected", "gateway", "expiresAt", "subscriptionCount", "will")
    print_listing(
        answer,
        columns,
        ([one[column] for column in columns] for one in answer["value"]),
        as_json=as_json,
        continued_by="--after",
    )


@app.command()
def delete(
    client: Annotated[str, typer.Argument(metavar="CLIENT", show_default=False)],
    yes: YesOption = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Delete a session: the client loses its waiting messages. Asks for confirmation."""
    confirm(f"End the session of {client}?", yes)
    Client(server).delete(f"{_PATH}/{segment(client)}")
    print_outcome({"session": client, "deleted": True}, f"session {client} ended", as_json=as_json)
