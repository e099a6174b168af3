"""`entrepot namespace`: namespaces of a running server."""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.output import JsonOption, print_listing, print_outcome

app = typer.Typer(help="Namespaces of a running server.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAMESPACE", show_default=False)]


def _path(name: str) -> str:
    return f"/api/v1/namespaces/{segment(name)}"


@app.command("list")
def list_namespaces(server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """List every namespace with its number of topics and groups."""
    namespaces = Client(server).get("/api/v1/namespaces")["value"]
    print_listing(
        namespaces,
        ("namespace", "topics", "groups"),
        ((n["name"], n["topics"], n["groups"]) for n in namespaces),
        as_json=as_json,
    )


@app.command()
def create(name: NameArgument, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Create a namespace unless it exists."""
    namespace = Client(server).put(_path(name), {})
    print_outcome(namespace, f"namespace {name} is there", as_json=as_json)


@app.command()
def delete(
    name: NameArgument, yes: YesOption = False, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False
) -> None:
    """Delete an empty namespace. Asks for confirmation."""
    confirm(f"Delete the namespace {name}?", yes)
    Client(server).delete(_path(name))
    print_outcome({"namespace": name, "deleted": True}, f"namespace {name} deleted", as_json=as_json)
