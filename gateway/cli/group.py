"""`entrepot group`: consumer groups of a running server."""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.gateway.cli import dead_letters, group_detail
from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption
from entrepot.gateway.cli.noun_commands import add_commands, path_of
from entrepot.gateway.cli.output import JsonOption, print_listing
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption
from entrepot.gateway.operations.nouns.groups import GROUPS
from entrepot.gateway.operations.nouns.members import MEMBERS

app = typer.Typer(help=GROUPS.about, no_args_is_help=True)
add_commands(app, GROUPS, "list", "show", "create", "update", "reset")


@app.command()
def members(
    name: dead_letters.GroupArgument,
    topic: Annotated[str, typer.Option(help="Topic of the queues.", show_default=False)],
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List consumers with whole queues of a topic, and those queues."""
    shown = Client(server).get(path_of(MEMBERS, "listMembers", namespace, name=name, topic=topic))
    print_listing(
        shown,
        ("member", "queues", "lease s", "expires"),
        (
            (one["member"], " ".join(map(str, one["queues"])), f"{one['leaseSeconds']:g}", one["expiresAt"])
            for one in shown["value"]
        ),
        title=f"generation {shown['generation']}, {shown['strategy'] or 'no members'}",
        as_json=as_json,
    )


app.command("dead-letters")(dead_letters.list_dead_letters)
app.command("resend")(dead_letters.resend)
app.command("delete-dead-letters")(dead_letters.delete_dead_letters)
app.command("export")(dead_letters.export)
app.command("lag")(group_detail.lag)
app.command("consumers")(group_detail.consumers)
add_commands(app, GROUPS, "delete")
