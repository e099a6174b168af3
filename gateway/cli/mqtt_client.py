"""`entrepot client`: clients that are connected to the gateways of a running server, of MQTT and of all doors."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.noun_commands import add_commands, path_of
from entrepot.gateway.cli.output import JsonOption, print_listing, print_outcome, print_outcomes
from entrepot.gateway.cli.values import GatewayOption, given
from entrepot.gateway.operations.nouns.clients import CLIENTS
from entrepot.gateway.operations.nouns.connected_clients import CONNECTED_CLIENTS

app = typer.Typer(help=CLIENTS.about, no_args_is_help=True)

_SLOW_COLUMNS: tuple[str, ...] = ("id", "address", "behind", "queued", "inFlight", "dropped", "gateway")
_COLUMNS_OF_DOORS: tuple[str, ...] = (
    "id",
    "door",
    "user",
    "address",
    "connectedSince",
    "uses",
    "held",
    "detail",
    "gateway",
)
_COLUMNS: tuple[str, ...] = (
    "id",
    "user",
    "version",
    "address",
    "connectedSince",
    "subscriptions",
    "inFlight",
    "queued",
    "dropped",
    "refused",
    "gateway",
)


@app.command("list")
def list_clients(
    prefix: Annotated[str | None, typer.Option(help="Prefix of the client ids.")] = None,
    contains: Annotated[str | None, typer.Option(help="Part of the client ids.")] = None,
    user: Annotated[str | None, typer.Option(help="User name of the clients.")] = None,
    gateway: GatewayOption = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="CLIENT", help="Last client id, or cursor of doors, of an earlier list, to continue there."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of clients.", min=1, max=1000)] = 100,
    slow: Annotated[bool, typer.Option("--slow", help="List the slowest clients instead.")] = False,
    of_all: Annotated[bool, typer.Option("--all", help="List the clients of all doors instead.")] = False,
    door: Annotated[str | None, typer.Option(help="List the clients of one door instead, such as amqp.")] = None,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List MQTT clients connected to any gateway, ordered by id; with --all or --door those of other doors."""
    if of_all or door is not None:
        if slow or prefix is not None:
            raise CommandError("--slow and --prefix are of MQTT clients: they do not go with --all or --door", USAGE)
        wanted = given(door=door, contains=contains, user=user, gateway=gateway, after=after, limit=limit)
        _list_of_doors(Client(server), wanted, as_json=as_json)
        return
    columns = _SLOW_COLUMNS if slow else _COLUMNS
    path = path_of(CLIENTS, "listSlowSubscribers" if slow else "listClients")
    wanted = {} if slow else given(prefix=prefix, contains=contains, user=user, after=after)
    answer = Client(server).request("GET", path, query={**wanted, **given(gateway=gateway, limit=limit)})
    print_listing(
        answer,
        columns,
        ([one[column] for column in columns] for one in answer["value"]),
        as_json=as_json,
        continued_by="" if slow else "--after",
    )


def _list_of_doors(http: Client, wanted: dict[str, Any], *, as_json: bool) -> None:
    answer = http.request("GET", path_of(CONNECTED_CLIENTS, "listConnectedClients"), query=wanted)
    rows = ({**one, "uses": ", ".join(one["uses"])} for one in answer["value"])
    cells = ([one[column] for column in _COLUMNS_OF_DOORS] for one in rows)
    print_listing(answer, _COLUMNS_OF_DOORS, cells, as_json=as_json, continued_by="--after")


add_commands(app, CLIENTS, "show", "events")


@app.command()
def kick(
    clients: Annotated[list[str], typer.Argument(metavar="CLIENT...", show_default=False)],
    door: Annotated[str | None, typer.Option(help="Door of the clients, where it is not MQTT.")] = None,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Disconnect clients of any gateways. MQTT sessions are kept."""
    http = Client(server)
    if door is not None:
        body = {"clients": [{"door": door, "id": client} for client in clients]}
        path = path_of(CONNECTED_CLIENTS, "disconnectConnectedClients")
        print_outcomes(http.request("POST", path, body=body)["value"], "id", "disconnected", as_json=as_json)
        return
    if len(clients) == 1:
        client = clients[0]
        http.delete(path_of(CLIENTS, "disconnectClient", id=client))
        print_outcome({"client": client, "disconnected": True}, f"client {client} disconnected", as_json=as_json)
    else:
        outcomes = http.request("POST", path_of(CLIENTS, "disconnectClients"), body={"ids": clients})["value"]
        print_outcomes(outcomes, "id", "disconnected", as_json=as_json)


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
    """Trace the packets of a client or of one address at all gateways, or show a trace."""
    http, path = Client(server), f"/api/v1/traces/{segment(target)}"
    if stop:
        http.delete(path)
        print_outcome({"target": target, "until": None}, f"{target} is no longer traced", as_json=as_json)
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
