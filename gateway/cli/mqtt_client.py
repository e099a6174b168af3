"""`entrepot client`: MQTT clients that are connected to a running server."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.output import JsonOption, print_json, print_listing, print_outcome
from entrepot.gateway.cli.values import given

app = typer.Typer(help="MQTT clients connected to a running server.", no_args_is_help=True)

_PATH = "/api/v1/clients"
IdArgument = Annotated[str, typer.Argument(metavar="CLIENT", show_default=False)]


@app.command("list")
def list_clients(
    prefix: Annotated[str | None, typer.Option(help="Prefix of the client ids.")] = None,
    user: Annotated[str | None, typer.Option(help="User name of the clients.")] = None,
    after: Annotated[
        str | None, typer.Option(metavar="CLIENT", help="Last client id of an earlier list, to continue there.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of clients.", min=1, max=1000)] = 100,
    slow: Annotated[bool, typer.Option("--slow", help="List the slowest clients instead.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List clients connected to this gateway, ordered by id."""
    if slow:
        answer = Client(server).request("GET", "/api/v1/slow-subscribers", query={"limit": limit})
        columns: tuple[str, ...] = ("id", "address", "behind", "queued", "inFlight", "dropped")
    else:
        answer = Client(server).request("GET", _PATH, query=given(prefix=prefix, user=user, after=after, limit=limit))
        columns = (
            "id",
            "user",
            "version",
            "address",
            "connectedSince",
            "subscriptions",
            "inFlight",
            "queued",
            "dropped",
        )
    print_listing(
        answer,
        columns,
        ([one[column] for column in columns] for one in answer["value"]),
        as_json=as_json,
        continued_by="--after",
    )


@app.command()
def show(client: IdArgument, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Show all details of a client and its subscriptions, always as JSON."""
    http = Client(server)
    shown = http.get(f"{_PATH}/{segment(client)}")
    found = http.request("GET", "/api/v1/subscriptions", query={"client": client, "limit": 1000})["value"]
    print_json({**shown, "subscribedTo": found})


@app.command()
def kick(client: IdArgument, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Disconnect a client of any gateway. Its session is kept."""
    Client(server).delete(f"{_PATH}/{segment(client)}")
    print_outcome({"client": client, "disconnected": True}, f"client {client} disconnected", as_json=as_json)


@app.command()
def trace(
    target: Annotated[str, typer.Argument(metavar="CLIENT|ADDRESS", show_default=False)],
    seconds: Annotated[int, typer.Option(min=1, max=3600, help="Duration of the trace, in seconds.")] = 60,
    payloads: Annotated[bool, typer.Option("--payloads", help="Include message bodies.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Show the trace without beginning one.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End and delete the trace.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Trace the packets of a client or of one address, or show a trace."""
    http, path = Client(server), f"/api/v1/traces/{segment(target)}"
    if stop:
        http.delete(path)
        print_outcome({"target": target, "until": None}, f"{target} is traced no more", as_json=as_json)
    elif not show:
        begun = http.put(path, {"seconds": seconds, "payloads": payloads})
        print_outcome(begun, f"{target} is traced until {begun['until']}; --show shows it", as_json=as_json)
    else:
        _print_trace(http.get(path), as_json=as_json)


def _print_trace(found: dict[str, Any], *, as_json: bool) -> None:
    known = ("time", "client", "address", "direction", "type")
    rows = (
        [
            *(packet[name] for name in ("time", "client", "direction", "type")),
            " ".join(f"{name}={value}" for name, value in packet.items() if name not in known),
        ]
        for packet in found["packets"]
    )
    print_listing(found, ("time", "client", "", "packet", "what"), rows, as_json=as_json)
