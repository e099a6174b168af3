"""`entrepot message list` and `body`: stored messages by place, viewed without consuming them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.output import JsonOption, print_json, print_line, print_table, save_bytes
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path, given, read
from entrepot.gateway.operations.row.option_texts import filter_expression

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
_BODY_COLUMN = 60
"""Characters of a body in a table."""


def list_messages(
    topic: TopicArgument,
    queue: Annotated[int | None, typer.Option(help="One queue; else the newest of all queues.", min=0)] = None,
    offset: Annotated[str | None, typer.Option(help="First offset; with --backward: the one after the last.")] = None,
    backward: Annotated[bool, typer.Option("--backward", help="List the queue from its end.")] = False,
    from_: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Stored at or after.")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Stored before.")] = None,
    key: Annotated[str | None, typer.Option(help="Key of the messages.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Id of the messages.")] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", metavar="KIND:EXPRESSION", help="Filter, such as 'TAG:a || b'.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Text in names, keys, tag and properties.")] = None,
    body_text: Annotated[str | None, typer.Option(help="Text in the bodies.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of messages.", min=1, max=200)] = 32,
    scan: Annotated[int, typer.Option(help="Maximum number of messages to look at.", min=1, max=10_000)] = 1000,
    cursor: Annotated[str | None, typer.Option(help="Cursor of an earlier answer for all queues.")] = None,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List messages of a topic or queue, with the beginnings of their bodies, without consuming them."""
    wanted = None if filter_ is None else read("--filter", filter_expression, filter_)
    query = given(
        queue=queue,
        offset=offset,
        direction=None if queue is None or backward else "forward",
        to=to,
        key=key,
        id=id_,
        text=text,
        bodyText=body_text,
        cursor=cursor,
        filter=None if wanted is None else wanted["text"],
        filterKind=None if wanted is None else wanted["kind"],
        **{"from": from_},
    )
    path = api_path(namespace, "topics", segment(topic), "messages")
    answer = Client(server).request("GET", path, query={**query, "limit": limit, "scan": scan})
    if as_json:
        print_json(answer)
        return
    _print_messages(answer, "--cursor" if queue is None else "--offset")


def _print_messages(answer: dict[str, Any], option: str) -> None:
    """Print a table.  `option`: the one that goes on after it."""
    columns = ("stored", "queue", "offset", "keys", "tag", "size", "body")
    print_table(
        columns,
        (
            (m["storeTime"], m["queueId"], m["offset"], " ".join(m["keys"] or []), m["tag"], m["size"], beginning(m))
            for m in answer["value"]
        ),
    )
    if answer["next"] is not None:
        print_line(f"{answer['lookedAt']} looked at; more: {option} {answer['next']}", err=True)


def save_body(
    topic: TopicArgument,
    queue: Annotated[int, typer.Argument(metavar="QUEUE", show_default=False, min=0)],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", show_default=False, min=0)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Output file instead of standard output.")
    ] = None,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Get the whole body of one message, without consuming it."""
    path = api_path(namespace, "topics", segment(topic), "messages", str(queue), str(offset), "body")
    parts = Client(server).stream(path)
    save_bytes(parts, output)


def beginning(message: dict[str, Any]) -> str:
    """The beginning of a viewed message's body as one line."""
    if message["body"] is None:
        return "(hidden)" if message["isHidden"] else ""
    text = base64.b64decode(message["body"]).decode("utf-8", "backslashreplace").replace("\n", " ")
    return text if len(text) <= _BODY_COLUMN and not message["isCut"] else f"{text[:_BODY_COLUMN]}..."
