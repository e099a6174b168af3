"""`entrepot acl`: policies of a running server, and their decisions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.noun_commands import add_commands, path_of
from entrepot.gateway.cli.output import JsonOption, print_line, print_listing, print_outcome, print_table
from entrepot.gateway.operations.nouns.access_tester import ACCESS_TESTER
from entrepot.gateway.operations.nouns.acls import ACLS

app = typer.Typer(help=ACLS.about, no_args_is_help=True)
add_commands(app, ACLS, "list", "show")
SubjectArgument = Annotated[str, typer.Argument(metavar="SUBJECT", show_default=False, help=ACLS.helps["subject"])]


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
    policy = Client(server).put(path_of(ACLS, "putAccessPolicy", subject=subject), {"statements": statements})
    print_outcome(policy, f"policy of {subject}: {len(statements)} statements", as_json=as_json)


add_commands(app, ACLS, "delete")


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
    decision = Client(server).request("GET", path_of(ACCESS_TESTER, "explainAccess"), query=query)
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
    told = Client(server).request(
        "GET", path_of(ACCESS_TESTER, "listEffectiveRights"), query={"subject": subject, "source": source}
    )
    if told["decision"] is not None:
        print_outcome(told, f"{told['decision']}: {told['reason']}", as_json=as_json)
        return
    rows = ((each["subject"], each["index"], each["text"]) for each in told["value"])
    print_listing(told, ("subject", "number", "statement"), rows, as_json=as_json)


add_commands(app, ACCESS_TESTER, "who")


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
