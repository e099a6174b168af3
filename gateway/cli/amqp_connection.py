"""`entrepot amqp`: AMQP connections to the gateways of a running server."""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.output import JsonOption, print_json, print_listing, print_outcomes
from entrepot.gateway.cli.values import GatewayOption, given

app = typer.Typer(help="AMQP connections to the gateways.", no_args_is_help=True)

_PATH = "/api/v1/amqp/connections"


@app.command("list")
def list_connections(
    contains: Annotated[str | None, typer.Option(help="Part of the names.")] = None,
    vhost: Annotated[str | None, typer.Option(help="Virtual host of the connections.")] = None,
    user: Annotated[str | None, typer.Option(help="User name of the connections.")] = None,
    gateway: GatewayOption = None,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Cursor of an earlier list, to continue there.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of connections.", min=1, max=1000)] = 100,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List connections to any gateway, ordered by name."""
    query = given(contains=contains, vhost=vhost, user=user, gateway=gateway, after=after, limit=limit)
    answer = Client(server).request("GET", _PATH, query=query)
    columns = ("name", "user", "vhost", "channels", "ssl", "gateway")
    rows = ([one[column] for column in columns] for one in answer["value"])
    print_listing(answer, columns, rows, as_json=as_json, continued_by="--after")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="CONNECTION", show_default=False)],
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Show a connection with its channels and consumers, always as JSON."""
    print_json(Client(server).get(f"{_PATH}/{segment(name)}"))


@app.command()
def close(
    names: Annotated[list[str], typer.Argument(metavar="CONNECTION...", show_default=False)],
    reason: Annotated[str | None, typer.Option(help="Reason that the clients are told.")] = None,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Close connections of any gateways."""
    answer = Client(server).request("POST", f"{_PATH}:close", body={"names": names, **given(reason=reason)})
    print_outcomes(answer["value"], "name", "closed", as_json=as_json)
