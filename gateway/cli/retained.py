"""`entrepot retained`: messages that a running server retains."""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_bytes, print_listing, print_outcome
from entrepot.gateway.cli.values import given

app = typer.Typer(help="Retained messages of a running server.", no_args_is_help=True)

_PATH = "/api/v1/retained"


@app.command("list")
def list_retained(
    topic_filter: Annotated[str, typer.Option("--filter", metavar="FILTER", help="MQTT topic filter.")] = "#",
    after: Annotated[
        str | None, typer.Option(metavar="NAME", help="Last name of an earlier list, to continue there.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of messages.", min=1, max=1000)] = 100,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List retained messages, ordered by name."""
    answer = Client(server).request("GET", _PATH, query=given(filter=topic_filter, after=after, limit=limit))
    print_listing(
        answer,
        ("name", "size", "qos", "published", "expires"),
        ((one["name"], one["size"], one["qos"], one["bornTime"], one["expiresAt"]) for one in answer["value"]),
        as_json=as_json,
        continued_by="--after",
    )


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)], server: ServerOption = DEFAULT_SERVER
) -> None:
    """Print the body of a retained message as it was published."""
    print_bytes(Client(server).stream(f"{_PATH}/{segment(name)}"))


@app.command()
def delete(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None,
    topic_filter: Annotated[
        str | None, typer.Option("--filter", metavar="FILTER", help="MQTT topic filter of the messages to delete.")
    ] = None,
    yes: YesOption = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Delete one retained message, or all that match a filter. Asks for confirmation."""
    if (name is None) == (topic_filter is None):
        raise CommandError("say a NAME, or a --filter", USAGE)
    confirm(f"Delete {'what' if name else 'all that'} is retained for {name or topic_filter}?", yes)
    if name is not None:
        Client(server).delete(f"{_PATH}/{segment(name)}")
        deleted = 1
    else:
        deleted = Client(server).request("DELETE", _PATH, query=given(filter=topic_filter))["deleted"]
    print_outcome({"deleted": deleted}, f"{deleted} deleted", as_json=as_json)
