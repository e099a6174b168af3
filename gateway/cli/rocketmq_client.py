"""`entrepot rocketmq`: RocketMQ clients that are connected to the gateways of a running server."""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption
from entrepot.gateway.cli.output import JsonOption, print_listing, print_outcomes
from entrepot.gateway.cli.values import GatewayOption, given

app = typer.Typer(help="RocketMQ clients connected to the gateways.", no_args_is_help=True)

_PATH = "/api/v1/rocketmq/clients"


@app.command("list")
def list_clients(
    contains: Annotated[str | None, typer.Option(help="Part of the client ids.")] = None,
    group: Annotated[str | None, typer.Option(help="Consumer group of the clients.")] = None,
    topic: Annotated[str | None, typer.Option(help="Topic that the clients named.")] = None,
    kind: Annotated[str | None, typer.Option(help="Kind of the clients: producer, push-consumer and so on.")] = None,
    gateway: GatewayOption = None,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Cursor of an earlier list, to continue there.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of clients.", min=1, max=1000)] = 100,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List clients connected to any gateway, ordered by id."""
    query = given(contains=contains, group=group, topic=topic, kind=kind, gateway=gateway, after=after, limit=limit)
    answer = Client(server).request("GET", _PATH, query=query)
    print_listing(
        answer,
        ("id", "kind", "group", "topics", "language", "version", "address", "connectedSince", "inFlight", "gateway"),
        (
            (
                one["id"],
                one["kind"],
                one["group"],
                ", ".join(topic["name"] for topic in one["topics"]),
                *(
                    one[column]
                    for column in ("language", "version", "address", "connectedSince", "inFlight", "gateway")
                ),
            )
            for one in answer["value"]
        ),
        as_json=as_json,
        continued_by="--after",
    )


@app.command()
def disconnect(
    clients: Annotated[list[str], typer.Argument(metavar="CLIENT...", show_default=False)],
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """End clients' streams and release their held messages. Their SDKs connect again."""
    answer = Client(server).request("POST", f"{_PATH}:disconnect", body={"ids": clients})
    print_outcomes(answer["value"], "id", "disconnected", as_json=as_json)
