"""`entrepot group lag` and `consumers`: a group in detail."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.output import JsonOption
from entrepot.gateway.cli.pages import print_page
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]


def lag(
    group: GroupArgument,
    lagging: Annotated[bool, typer.Option("--lagging", help="Only queues with a lag.")] = False,
    limit: Annotated[int, typer.Option(help="Maximum number of queues.", min=1, max=256)] = 64,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Cursor of the page before.")] = None,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List the queues that a group reads, with its lag in messages and seconds."""
    query: dict[str, str | int | float] = {"limit": limit, "lagging": "true" if lagging else "false"}
    if after is not None:
        query["after"] = after
    answer = Client(server).request("GET", api_path(namespace, "groups", segment(group), "lag"), query=query)
    columns = ("topic", "queue", "committed", "end", "in flight", "lag", "lag s")
    print_page(answer, columns, (_row(queue) for queue in answer["value"]), as_json=as_json)


def consumers(
    group: GroupArgument,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List the consumers of a group, of every protocol and gateway."""
    answer = Client(server).get(api_path(namespace, "groups", segment(group), "consumers"))
    columns = ("door", "gateway", "client", "user", "address", "topics", "queues", "held", "detail")
    rows = (
        (
            one["door"],
            one["gateway"],
            one["client"],
            one["user"],
            one["address"],
            " ".join(one["topics"]),
            None if one["queues"] is None else " ".join(map(str, one["queues"])),
            one["held"],
            one["detail"],
        )
        for one in answer["value"]
    )
    print_page(answer, columns, rows, as_json=as_json)


def _row(queue: dict[str, Any]) -> tuple[object, ...]:
    seconds = "?" if queue["lagSeconds"] is None else queue["lagSeconds"]
    numbers = (queue[name] for name in ("committedOffset", "maxOffset", "inFlight", "lag"))
    return (queue["topic"], queue["queueId"], *numbers, seconds)
