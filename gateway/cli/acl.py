"""`entrepot acl`: policies of a running server, and their decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_line, print_listing, print_outcome, print_table
from entrepot.gateway.cli.user import all_pages

app = typer.Typer(help="Policies of a running server.", no_args_is_help=True)

SubjectArgument = Annotated[
    str, typer.Argument(metavar="SUBJECT", show_default=False, help="User name; * for everybody.")
]
_ACTIONS = ("PUB", "SUB", "CREATE", "UPDATE", "DELETE", "GET", "LIST")
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
    if as_json or not decision["considered"]:
        return
    rows = (
        (each["subject"], each["index"], each["statement"]["text"], each["outcome"]) for each in decision["considered"]
    )
    print_table(("subject", "number", "statement", "part"), rows)
    if decision["otherwise"] is not None:
        print_line(_otherwise(decision["otherwise"]))


@app.command()
def effective(
    subject: SubjectArgument,
    source: Annotated[str, typer.Option(help="Address of the client.")] = "",
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List all statements that decide about a subject, in order."""
    told = Client(server).request("GET", "/api/v1/acls:effective", query={"subject": subject, "source": source})
    if told["decision"] is not None:
        print_outcome(told, f"{told['decision']}: {told['reason']}", as_json=as_json)
        return
    rows = ((each["subject"], each["index"], each["text"]) for each in told["value"])
    print_listing(told, ("subject", "number", "statement"), rows, as_json=as_json)


@app.command()
def who(
    resource: Annotated[
        str, typer.Argument(metavar="RESOURCE", show_default=False, help="Resource, such as Topic:a/b.")
    ],
    find: Annotated[str, typer.Option(help="Part of the subject's name.")] = "",
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List what all users and subjects of policies may do with a resource."""
    found = all_pages(Client(server), "/api/v1/acls:who", resource=resource, find=find)
    rows = ((each["subject"], *(each["actions"][action] for action in _ACTIONS)) for each in found)
    print_listing(found, ("subject", *_ACTIONS), rows, as_json=as_json)


def _otherwise(found: dict[str, Any]) -> str:
    """The sentence about the decision without the deciding statement."""
    if found["statement"] is None:
        return "Without this statement, no statement would allow it."
    what = "allow" if found["decision"] == "ALLOW" else "deny"
    return f"Without this statement, statement {found['index']} of {found['subject']} would {what} it."


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
