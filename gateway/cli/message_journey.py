"""`entrepot message journey`: every hop of a message that is known, and what is not known."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption
from entrepot.gateway.cli.output import JsonOption, print_json, print_line, print_table
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path, given

_TIME = "RFC 3339, or epoch milliseconds."


class Name(StrEnum):
    """Kind of name that an id is."""

    MESSAGE_ID = "messageId"
    KEY = "key"
    EVENT = "event"
    CORRELATION = "correlationData"
    AMQP_ID = "amqpMessageId"


def journey(
    id_: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    by: Annotated[
        Name, typer.Option(help="Kind of the id; the last two read the newest messages of a topic.")
    ] = Name.MESSAGE_ID,
    topic: Annotated[str | None, typer.Option(help="Topic of the message.", show_default=False)] = None,
    source: Annotated[str | None, typer.Option(help="CloudEvents source, with --by event.", show_default=False)] = None,
    from_: Annotated[str | None, typer.Option("--from", metavar="TIME", help=f"Stored at or after: {_TIME}")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="TIME", help=f"Stored before: {_TIME}")] = None,
    at: Annotated[
        str | None, typer.Option(help="One of several messages with the id, by its place.", show_default=False)
    ] = None,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Show the journey of one message: every hop that is known, in order of time."""
    wanted = {"id": id_, "by": by.value, **given(topic=topic, source=source, to=to, at=at), **given(**{"from": from_})}
    found = Client(server).request("GET", api_path(namespace, "journeys"), query=wanted)
    if as_json:
        print_json(found)
        return
    print_table(
        ("time", "hop", "receiver", "attempt", "place", "detail"),
        (_row(hop, found["lanes"]) for hop in found["hops"]),
    )
    for line in _remarks(found):
        print_line(line, err=True)


def _row(hop: dict[str, Any], lanes: list[dict[str, Any]]) -> list[object]:
    name = next((lane["name"] for lane in lanes if lane["id"] == hop["lane"]), hop["lane"])
    when = hop["time"] or ("time not kept" if hop["isKnown"] else "not known")
    place = hop["place"]
    where = "" if place is None else f"{place['topic']} {place['queueId']}:{place['offset']}"
    return [when, hop["kind"], name, hop["attempt"], where, _detail(hop)]


def _detail(hop: dict[str, Any]) -> str:
    way = [f"{word} {hop[word]}" for word in ("door", "gateway", "client", "broker", "epoch") if hop[word]]
    said = [hop["outcome"], None if hop["detail"] == hop["outcome"] else hop["detail"]]
    return "; ".join([*(text for text in said if text), *way])


def _said(unsaid: dict[str, Any]) -> str:
    return f"{unsaid['kind']} {unsaid['name']!r}" if unsaid["name"] else str(unsaid["kind"])


def _remarks(found: dict[str, Any]) -> list[str]:
    remarks = [f"{found['known']} hops known, {found['unknown']} not known"]
    if found["hidden"]["hops"]:
        remarks.append(f"{found['hidden']['hops']} hops hidden: {found['hidden']['reason']}")
    if others := found["candidates"][:]:
        places = ", ".join(each["at"] for each in others)
        remarks.append(f"{len(others)} messages have this name; show another with --at: {places}")
    if found["cutCopies"]:
        remarks.append(f"{found['cutCopies']} more copies were not asked about")
    remarks += [f"{each['protocol']} consumers: {_said(each)} is {each['fate']}" for each in found["unsaid"]]
    if (searched := found["searched"]) is not None and not searched["isComplete"]:
        remarks.append(f"only the newest {searched['messages']} messages were looked at, down to {searched['until']}")
    return remarks + [f"{each['name']} gave no answer: {each['reason']}" for each in found["missing"]]
