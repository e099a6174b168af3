"""`entrepot cluster controller`: the controllers that elect the masters of brokers, changed through a gateway."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_outcome, print_table

PATH = "/api/v1/controllers"
CHANGE_SECONDS = 30.0
"""Longest wait for a change to begin: for a leading controller, and for the new one to find the others."""

app = typer.Typer(help="Controllers that elect the masters of replicated brokers.", no_args_is_help=True)

NewArgument = Annotated[str, typer.Argument(metavar="ID=HOST:PORT", show_default=False)]
OldArgument = Annotated[int, typer.Argument(metavar="ID", min=1, max=99, show_default=False)]


def print_controllers(controllers: list[dict[str, Any]]) -> None:
    """Print a table of them."""
    print_table(
        ("controller", "address", "state", "problem"),
        ((c["controller"], c["address"], c["state"], c["problem"] or "") for c in controllers),
    )


def _parsed(new: str) -> tuple[int, str]:
    from entrepot.gateway.settings.addresses import addresses_by_id

    try:
        [(number, address)] = addresses_by_id([new], "controller").items()
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error
    return number, address


@app.command()
def add(new: NewArgument, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Add a running controller. Its id must never have been used before."""
    _take_in(server, new, 0, as_json=as_json)


@app.command()
def replace(
    old: OldArgument,
    new: NewArgument,
    yes: YesOption = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Replace a controller by another running one. Asks for confirmation."""
    _parsed(new)
    confirm(f"Let controller {old} go for good?", yes)
    _take_in(server, new, old, as_json=as_json)


def _take_in(server: str, new: str, old: int, *, as_json: bool) -> None:
    number, address = _parsed(new)
    body = {"controller": number, "address": address, "replaces": old}
    found = Client(server, CHANGE_SECONDS).request("POST", PATH, body=body)
    place = f" in place of controller {old}" if old else ""
    print_outcome(found, f"controller {number} at {address} is taken in{place}", as_json=as_json)


@app.command()
def remove(
    old: OldArgument, yes: YesOption = False, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False
) -> None:
    """Remove a controller for good. Asks for confirmation."""
    confirm(f"Let controller {old} go for good?", yes)
    Client(server, CHANGE_SECONDS).request("DELETE", f"{PATH}/{old}")
    print_outcome({"controller": old, "hasLeft": True}, f"controller {old} has left", as_json=as_json)
