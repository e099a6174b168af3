"""`entrepot group`: consumer groups of a running server."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from gateway.cli.output import JsonOption, print_json, print_table

app = typer.Typer(help="Consumer groups of a running server.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]


def _path(name: str) -> str:
    return f"/api/v1/groups/{segment(name)}"


@app.command("list")
def list_groups(server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Every group with how far behind it is."""
    groups = Client(server).get("/api/v1/groups")["value"]
    if as_json:
        print_json(groups)
        return
    print_table(
        ("group", "max attempts", "invisible s", "start", "topics", "in flight", "lag"),
        (
            (
                g["name"],
                g["maxAttempts"],
                g["invisibleSeconds"],
                g["start"],
                " ".join(sorted({p["topic"] for p in g.get("progress") or []})),
                _total(g, "inFlight"),
                _total(g, "lag"),
            )
            for g in groups
        ),
    )


@app.command()
def show(name: NameArgument, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """One group and its progress on every queue it has read."""
    group = Client(server).get(_path(name))
    if as_json:
        print_json(group)
        return
    print_table(
        ("group", group["name"]), ((key, group.get(key)) for key in ("maxAttempts", "invisibleSeconds", "start"))
    )
    print_table(
        ("topic", "queue", "committed", "max offset", "in flight", "lag"),
        (
            (p["topic"], p["queueId"], p["committedOffset"], p["maxOffset"], p["inFlight"], p["lag"])
            for p in group.get("progress") or []
        ),
    )


@app.command()
def create(
    name: NameArgument,
    max_attempts: Annotated[int | None, typer.Option(help="Deliveries of a message before it is given up.")] = None,
    invisible_seconds: Annotated[int | None, typer.Option(help="How long a message stays with its consumer.")] = None,
    start: Annotated[str | None, typer.Option(help="earliest, latest or an RFC 3339 time.")] = None,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Create a group, or change the one there is; what is not given stays as it is or takes its default."""
    wanted = {"maxAttempts": max_attempts, "invisibleSeconds": invisible_seconds, "start": start}
    group = Client(server).put(_path(name), {key: value for key, value in wanted.items() if value is not None})
    if as_json:
        print_json(group)
    else:
        typer.echo(f"group {name} is there")


@app.command()
def delete(
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Delete a group with its progress.  A terminal is asked first."""
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Delete the group {name} with its progress?", abort=True)
    Client(server).delete(_path(name))
    typer.echo(f"group {name} deleted")


def _total(group: dict[str, Any], key: str) -> int:
    return sum(p[key] for p in group.get("progress") or [])
