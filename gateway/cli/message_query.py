"""`entrepot message show` and `trace`: stored messages, their state, and their hops."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption
from entrepot.gateway.cli.noun_commands import path_of
from entrepot.gateway.cli.output import JsonOption, print_json, print_line, print_table, print_text
from entrepot.gateway.operations.nouns.messages import MESSAGES


def show(
    id_: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Show one message with all its properties and its state in every group."""
    client = Client(server)
    message = client.get(path_of(MESSAGES, "getMessage", id=id_))
    consumers = client.get(path_of(MESSAGES, "listMessageConsumers", id=id_))["value"]
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
    hops = Client(server).get(path_of(MESSAGES, "getMessageTrace", id=id_))["value"]
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
