"""`entrepot acl`: policies of a running server, and their decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_listing, print_outcome, print_table
from entrepot.gateway.cli.user import all_pages

app = typer.Typer(help="Policies of a running server.", no_args_is_help=True)

SubjectArgument = Annotated[
    str, typer.Argument(metavar="SUBJECT", show_default=False, help="User name; * for everybody.")
]
_COLUMNS = ("subject", "effect", "actions", "resources", "sources")


def _path(subject: str) -> str:
    return f"/api/v1/acls/{segment(subject)}"


@app.command("list")
def list_policies(server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """List every statement of every policy."""
    policies = all_pages(Client(server), "/api/v1/acls")
    print_listing(policies, _COLUMNS, _rows(policies), as_json=as_json)


@app.command()
def show(subject: SubjectArgument, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Show the policy of one subject."""
    policy = Client(server).get(_path(subject))
    print_listing(policy, _COLUMNS, _rows([policy]), as_json=as_json)


@app.command("set")
def set_policy(
    subject: SubjectArgument,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ACTIONS@RESOURCES[@NETWORKS]", help="Allowed actions, such as PUB,SUB@Topic:factory/#@10.0.0.0/8."
        ),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option(metavar="ACTIONS@RESOURCES[@NETWORKS]", help="Denied actions; they outrank --allow."),
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Replace the policy of a subject. Lists are separated by commas."""
    statements = [_statement("ALLOW", text) for text in allow or ()] + [_statement("DENY", text) for text in deny or ()]
    policy = Client(server).put(_path(subject), {"statements": statements})
    print_outcome(policy, f"policy of {subject}: {len(statements)} statements", as_json=as_json)


@app.command()
def delete(
    subject: SubjectArgument, yes: YesOption = False, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False
) -> None:
    """Delete the policy of a subject. Asks for confirmation."""
    confirm(f"Delete the policy of {subject}?", yes)
    Client(server).delete(_path(subject))
    print_outcome({"subject": subject, "deleted": True}, f"policy of {subject} deleted", as_json=as_json)


@app.command()
def explain(
    subject: SubjectArgument,
    action: Annotated[
        str, typer.Argument(metavar="ACTION", show_default=False, help="Action: PUB, SUB, GET and so on.")
    ],
    resource: Annotated[
        str, typer.Argument(metavar="RESOURCE", show_default=False, help="Resource, such as Topic:a/b.")
    ],
    source: Annotated[str, typer.Option(help="Address of the client.")] = "",
    client_id: Annotated[str, typer.Option(help="Client id.")] = "",
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Explain the decision on an action: the result and the statement behind it."""
    query: dict[str, str | int | float] = {"subject": subject, "action": action.upper(), "resource": resource}
    query |= {"source": source, "clientId": client_id}
    decision = Client(server).request("GET", "/api/v1/acls:explain", query=query)
    print_outcome(decision, f"{decision['decision']}: {decision['reason']}", as_json=as_json)
    if decision["statement"] is not None and not as_json:
        print_table(_COLUMNS, _rows([{"subject": decision["subject"], "statements": [decision["statement"]]}]))


def _statement(effect: str, text: str) -> dict[str, Any]:
    parts = text.split("@")
    if len(parts) not in (2, 3) or not all(parts):
        raise CommandError(f"{text}: write ACTIONS@RESOURCES or ACTIONS@RESOURCES@NETWORKS", USAGE)
    actions, resources, sources = parts[0], parts[1], parts[2] if len(parts) == 3 else ""
    return {
        "effect": effect,
        "actions": actions.upper().split(","),
        "resources": resources.split(","),
        "sources": sources.split(",") if sources else [],
    }


def _rows(policies: list[dict[str, Any]]) -> Iterator[Iterable[str]]:
    for policy in policies:
        for each in policy["statements"]:
            yield policy["subject"], each["effect"], *(" ".join(each[key]) for key in _COLUMNS[2:])
