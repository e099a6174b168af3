"""`entrepot webhook`: subscriptions of a running server with how their delivery goes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.output import JsonOption, print_json, print_listing
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path, given

app = typer.Typer(help="Webhooks: subscriptions and their delivery.", no_args_is_help=True)


@app.command("list")
def list_webhooks(
    topic: Annotated[str | None, typer.Option(help="Topic of the subscriptions.")] = None,
    state: Annotated[str | None, typer.Option(help="State: active, unverified or suspended.")] = None,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Last id of an earlier list, to continue there.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of subscriptions.", min=1, max=200)] = 50,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List subscriptions to topics that you may consume, ordered by id."""
    query = given(source=topic, state=state, after=after, limit=limit)
    answer = Client(server).request("GET", api_path(namespace, "webhooks"), query=query)
    rows = (
        (one["id"], one["topic"], one["sink"], one["status"]["state"], _waiting(one), _circuit(one), _last(one))
        for one in answer["value"]
    )
    columns = ("id", "topic", "sink", "state", "waiting", "circuit", "last answer")
    print_listing(answer, columns, rows, as_json=as_json, continued_by="--after")


@app.command()
def show(
    subscription: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Show a subscription with its last answers at all gateways, always as JSON."""
    print_json(Client(server).get(api_path(namespace, "webhooks", segment(subscription))))


def _waiting(webhook: dict[str, Any]) -> str | None:
    """The events that wait; of a sink to which nothing may be sent with their limit."""
    waiting, limit = webhook["waiting"], webhook["waitingLimit"]
    return f"{waiting}, at most {limit}" if waiting is not None and limit is not None else waiting


def _circuit(webhook: dict[str, Any]) -> str:
    """The worst state of the sink's circuit at any gateway."""
    states = {each["circuit"]["state"] for each in webhook["deliveries"]}
    return next((state for state in ("open", "trying", "closed") if state in states), "unknown")


def _last(webhook: dict[str, Any]) -> str | None:
    """The newest answer at any gateway."""
    answers = [answer for each in webhook["deliveries"] for answer in each["answers"]]
    if not answers:
        return None
    newest = max(answers, key=lambda answer: str(answer["time"]))
    return f"{newest['status'] or newest['fault']} at {newest['time']}"
