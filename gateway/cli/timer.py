"""`entrepot timer`: scheduled messages of a running server."""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.output import JsonOption, print_listing, print_outcome
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path, given

app = typer.Typer(help="Scheduled messages.", no_args_is_help=True)

HandleArgument = Annotated[str, typer.Argument(metavar="HANDLE", help="Handle from the list.", show_default=False)]


def _path(handle: str) -> str:
    return f"/api/v1/timers/{segment(handle)}"


@app.command("list")
def list_timers(
    topic: Annotated[str | None, typer.Option(help="Topic of the messages; else all topics.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of messages.", min=1, max=1000)] = 32,
    cursor: Annotated[str | None, typer.Option(help="Cursor of an earlier list, to continue there.")] = None,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Messages that wait, the next one first."""
    query = given(topic=topic, limit=limit, cursor=cursor)
    answer = Client(server).request("GET", api_path(namespace, "timers"), query=query)
    print_listing(
        answer,
        ("deliver at", "topic", "keys", "size", "handle"),
        ((t["deliverAt"], t["topic"], " ".join(t["keys"]), t["size"], t["handle"]) for t in answer["value"]),
        as_json=as_json,
        continued_by="--cursor",
    )


@app.command()
def recall(
    handle: HandleArgument, yes: YesOption = False, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False
) -> None:
    """Recall a scheduled message: it is never delivered. Asks for confirmation."""
    confirm("Take the message back, so that it is never delivered?", yes)
    Client(server).delete(_path(handle))
    print_outcome({"handle": handle, "recalled": True}, "recalled", as_json=as_json)


@app.command()
def retime(
    handle: HandleArgument,
    deliver_at: Annotated[
        str,
        typer.Argument(metavar="TIME", help="New delivery time: RFC 3339 or epoch milliseconds.", show_default=False),
    ],
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Change a message's delivery time. It gets a new handle."""
    timer = Client(server).put(_path(handle), {"deliverAt": deliver_at})
    print_outcome(timer, f"{timer['deliverAt']}  {timer['handle']}", as_json=as_json)
