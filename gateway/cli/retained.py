"""`entrepot retained`: messages that a running server retains."""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.noun_commands import add_commands, path_of
from entrepot.gateway.cli.output import JsonOption, print_bytes, print_outcome
from entrepot.gateway.cli.values import given
from entrepot.gateway.operations.nouns.retained import RETAINED

app = typer.Typer(help=RETAINED.about, no_args_is_help=True)
add_commands(app, RETAINED, "list")


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)], server: ServerOption = DEFAULT_SERVER
) -> None:
    """Print the body of a retained message as it was published."""
    print_bytes(Client(server).stream(path_of(RETAINED, "getRetained", name=name)))


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
        Client(server).delete(path_of(RETAINED, "getRetained", name=name))
        deleted = 1
    else:
        deleted = Client(server).request("DELETE", path_of(RETAINED, "listRetained"), query=given(filter=topic_filter))[
            "deleted"
        ]
    print_outcome({"deleted": deleted}, f"{deleted} deleted", as_json=as_json)
