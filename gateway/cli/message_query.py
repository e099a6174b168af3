"""`entrepot message query`, `show` and `trace`: stored messages, their state, and their hops."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.output import JsonOption, print_json, print_line, print_listing, print_table, print_text
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path, given

_TIME = "RFC 3339, or epoch milliseconds."


def query(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    key: Annotated[str | None, typer.Option(help="Key of the message; an event's id is one.")] = None,
    from_: Annotated[str | None, typer.Option("--from", metavar="TIME", help=f"Stored at or after: {_TIME}")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="TIME", help=f"Stored before: {_TIME}")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of messages.", min=1, max=1000)] = 32,
    cursor: Annotated[str | None, typer.Option(help="Cursor of an earlier answer, to continue there.")] = None,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List messages of a topic, the newest first."""
    wanted = {"topic": topic, "limit": limit, **given(key=key, to=to, cursor=cursor), **given(**{"from": from_})}
    answer = Client(server).request("GET", api_path(namespace, "messages"), query=wanted)
    print_listing(
        answer,
        ("stored", "queue", "offset", "keys", "tag", "sub-topic", "size", "id"),
        (
            (
                m["storeTime"],
                m["queueId"],
                m["queueOffset"],
                " ".join(m["keys"]),
                m["tag"],
                m["subTopic"],
                m["size"],
                m["id"],
            )
            for m in answer["value"]
        ),
        as_json=as_json,
        continued_by="--cursor",
    )


def show(
    id_: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Show one message with all its properties and its state in every group."""
    client = Client(server)
    path = f"/api/v1/messages/{segment(id_)}"
    message = client.get(path)
    consumers = client.get(f"{path}/consumers")["value"]
    if as_json:
        print_json({**message, "consumers": consumers})
        return
    print_table(("message", message["id"]), _facts(message))
    if message["properties"] or message["systemProperties"]:
        listed = [("user", p) for p in message["properties"]] + [("system", p) for p in message["systemProperties"]]
        print_table(("property", "name", "value"), ((kind, p["name"], _value(p)) for kind, p in listed))
    print_table(("group", "state", "attempts"), ((c["group"], c["state"], c["attempts"]) for c in consumers))
    print_text(message["text"] if message["text"] is not None else repr(base64.b64decode(message["body"]))[1:])
    if message["others"]:
        print_line(f"{message['others']} more with this id", err=True)


def trace(
    id_: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Trace one message hop by hop: all of it if its topic is traced, else its failed attempts."""
    hops = Client(server).get(f"/api/v1/messages/{segment(id_)}/trace")["value"]
    if as_json:
        print_json(hops)
        return
    columns = ("time", "kind", "topic", "queueId", "queueOffset", "group", "attempt", "detail")
    print_table(
        ("time", "hop", "topic", "queue", "offset", "group", "attempt", "detail"),
        ([hop[column] for column in columns] for hop in hops),
    )
    if not hops:
        print_line("it is not traced: see entrepot topic update --trace", err=True)


def _facts(message: dict[str, Any]) -> list[tuple[str, object]]:
    keys = ("topic", "namespace", "subTopic", "tag", "messageGroup", "bornTime", "storeTime", "size", "commitLogOffset")
    facts: list[tuple[str, object]] = [(key, message.get(key)) for key in keys]
    facts.append(("keys", " ".join(message["keys"])))
    places = [f"{p['topic']} queue {p['queueId']} offset {p['queueOffset']}" for p in message["places"]]
    return [*facts, ("places", ", ".join(places))]


def _value(shown: dict[str, str]) -> str:
    return shown["value"] if "value" in shown else repr(base64.b64decode(shown["base64"]))[1:]
