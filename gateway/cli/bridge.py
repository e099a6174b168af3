"""`entrepot bridge`: bridges of a running server to other MQTT brokers."""

from __future__ import annotations

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption
from entrepot.gateway.cli.output import JsonOption, print_listing

app = typer.Typer(help="Bridges to other MQTT brokers.", no_args_is_help=True)


@app.callback()
def _bridges() -> None:
    """Keep `list` a command of its own while it is the only one."""


@app.command("list")
def list_bridges(server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """List every bridge with its state and the server's message counts."""
    answer = Client(server).get("/api/v1/bridges")
    print_listing(
        answer,
        ("bridge", "remote", "state", "since", "received", "sent", "refused", "owner", "last error"),
        (
            (
                bridge["name"],
                bridge["url"],
                bridge["state"],
                bridge["since"],
                bridge["received"],
                bridge["sent"],
                bridge["refusedIn"] + bridge["refusedOut"],
                bridge["owner"],
                bridge["lastError"],
            )
            for bridge in answer["value"]
        ),
        as_json=as_json,
    )
