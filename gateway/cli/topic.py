"""`entrepot topic`: topics of a running server."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from gateway.cli.output import JsonOption, print_json, print_table

app = typer.Typer(help="Topics of a running server.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]


def _path(name: str) -> str:
    return f"/api/v1/topics/{segment(name)}"


@app.command("list")
def list_topics(server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Every topic with how much it holds."""
    topics = Client(server).get("/api/v1/topics")["value"]
    if as_json:
        print_json(topics)
        return
    print_table(
        ("topic", "queues", "type", "permission", "messages"),
        ((t["name"], t["queues"], t["type"], t["permission"], _held(t)) for t in topics),
    )


@app.command()
def show(name: NameArgument, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """One topic and the offsets of its queues."""
    topic = Client(server).get(_path(name))
    if as_json:
        print_json(topic)
        return
    keys = ("name", "queues", "type", "permission", "retentionSeconds", "retentionBytes")
    print_table(("topic", topic["name"]), ((key, topic.get(key)) for key in keys[1:]))
    print_table(
        ("queue", "min offset", "max offset"),
        ((o["queueId"], o["minOffset"], o["maxOffset"]) for o in topic.get("offsets") or []),
    )


@app.command()
def create(
    name: NameArgument,
    queues: Annotated[int | None, typer.Option(help="Message queues; may grow later, never shrink.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Kind of messages: NORMAL.")] = None,
    permission: Annotated[str | None, typer.Option(help="READ_WRITE, READ, WRITE or NONE.")] = None,
    retention_seconds: Annotated[int | None, typer.Option(help="How long messages are kept.")] = None,
    retention_bytes: Annotated[int | None, typer.Option(help="How much is kept.")] = None,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Create a topic, or change the one there is; what is not given stays as it is or takes its default."""
    wanted = {
        "queues": queues,
        "type": type_,
        "permission": permission,
        "retentionSeconds": retention_seconds,
        "retentionBytes": retention_bytes,
    }
    topic = Client(server).put(_path(name), {key: value for key, value in wanted.items() if value is not None})
    if as_json:
        print_json(topic)
    else:
        typer.echo(f"topic {name} is there")


@app.command()
def delete(
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Delete a topic with its messages.  A terminal is asked first."""
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Delete the topic {name} with all its messages?", abort=True)
    Client(server).delete(_path(name))
    typer.echo(f"topic {name} deleted")


def _held(topic: dict[str, Any]) -> int:
    return sum(o["maxOffset"] - o["minOffset"] for o in topic.get("offsets") or [])
