"""`entrepot cluster replica`: changes of a broker's replica set through a gateway."""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.output import JsonOption, print_outcome

CHANGE_SECONDS = 30.0
"""Longest wait for the controllers to take a change."""

app = typer.Typer(help="Replicas of a broker whose masters are elected by controllers.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="BROKER", show_default=False)]
ReplicaArgument = Annotated[int, typer.Argument(metavar="REPLICA", min=1, max=99, show_default=False)]


def _path(name: str, replica: int) -> str:
    return f"/api/v1/brokers/{segment(name)}/replicas/{replica}"


@app.command()
def add(
    name: NameArgument, replica: ReplicaArgument, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False
) -> None:
    """Make an observer a counting replica once it has the whole log."""
    found = Client(server, CHANGE_SECONDS).put(_path(name, replica), {"isObserver": False})
    print_outcome(found, f"replica {replica} of {name} counts as soon as it has the log", as_json=as_json)


@app.command()
def observer(
    name: NameArgument, replica: ReplicaArgument, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False
) -> None:
    """Make a replica an observer, which copies the log but does not count."""
    found = Client(server, CHANGE_SECONDS).put(_path(name, replica), {"isObserver": True})
    print_outcome(found, f"replica {replica} of {name} is to be an observer", as_json=as_json)


@app.command()
def remove(
    name: NameArgument,
    replica: ReplicaArgument,
    yes: YesOption = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Remove a stopped replica from the counting ones. Asks for confirmation."""
    confirm(f"Let replica {replica} of {name} no longer count?", yes)
    Client(server, CHANGE_SECONDS).request("DELETE", _path(name, replica))
    outcome = {"broker": name, "replica": replica, "isToLeave": True}
    print_outcome(outcome, f"replica {replica} of {name} will no longer count", as_json=as_json)
