"""`entrepot message try` and `watch`: test messages of any protocol, and a live sample of a topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.message_view import beginning
from entrepot.gateway.cli.output import JsonOption, print_line, print_outcome
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path, given

DOORS = ("http", "mqtt", "amqp", "rocketmq")


def try_message(
    door: Annotated[str, typer.Argument(metavar="DOOR", help="http, mqtt, amqp or rocketmq.", show_default=False)],
    data: Annotated[str, typer.Option(help="Message data, as text.")] = "",
    topic: Annotated[str | None, typer.Option(help="Topic, of http and rocketmq.")] = None,
    name: Annotated[str | None, typer.Option(help="Topic name, of mqtt.")] = None,
    exchange: Annotated[str | None, typer.Option(help="Exchange, of amqp; else the default one.")] = None,
    routing_key: Annotated[str | None, typer.Option(help="Routing key, of amqp.")] = None,
    vhost: Annotated[str | None, typer.Option(help="Virtual host, of amqp.")] = None,
    event: Annotated[str | None, typer.Option(help="CloudEvent in JSON, of http.")] = None,
    tag: Annotated[str | None, typer.Option(help="Tag, of rocketmq.")] = None,
    key: Annotated[list[str] | None, typer.Option(help="Key, of rocketmq; may be repeated.")] = None,
    qos: Annotated[int | None, typer.Option(help="Quality of service, of mqtt.", min=0, max=2)] = None,
    retain: Annotated[bool, typer.Option("--retain", help="Retain it, of mqtt.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Publish a test message by the rules of a protocol; return when it is durable."""
    if door not in DOORS:
        raise CommandError(f"{door}: is none of {', '.join(DOORS)}", USAGE)
    fields = given(
        topic=topic,
        name=name,
        exchange=exchange,
        routingKey=routing_key,
        vhost=vhost,
        event=None if event is None else _event(event),
        tag=tag,
        keys=key or None,
        qos=qos,
        retain=retain or None,
    )
    payload = {} if door == "http" else {"payload": data}
    answer = Client(server).request("POST", "/api/v1/messages:try", body={"door": door, **fields, **payload})
    where = [f"{p['topic']} queue {p['queueId']} offset {p['offset']}" for p in answer["places"]]
    told = ", ".join(where) or ("waiting" if answer["routed"] else "not routed to any queue")
    print_outcome(answer, f"published {answer['id'] or 'nothing'}: {told}", as_json=as_json)


def watch(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    rate: Annotated[int, typer.Option(help="Maximum number of messages in a second.", min=1, max=50)] = 10,
    text: Annotated[str | None, typer.Option(help="Only messages with this text.")] = None,
    count: Annotated[int, typer.Option(help="End after this many messages; 0: go on.", min=0)] = 0,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Watch new messages of a topic without consuming them, until Ctrl-C; with --json, one object a line."""
    query = {"rate": rate, **given(text=text)}
    path = api_path(namespace, "topics", f"{segment(topic)}:watch")
    shown = 0
    for event, value in _events(Client(server).stream(path, query)):
        if event == "leftOut":
            print_line(f"{value['count']} left out", err=True)
        elif event == "message":
            keys = " ".join(value["keys"] or [])
            line = f"{value['storeTime']}  {value['queueId']}:{value['offset']}  {keys}  {beginning(value)}"
            print_line(json.dumps(value) if as_json else line)
            shown += 1
            if shown == count:
                return


def _event(text: str) -> Any:
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise CommandError(f"--event: is not JSON: {error}", USAGE) from None


def _events(pieces: Iterable[bytes]) -> Iterator[tuple[str, Any]]:
    """The server-sent events of an answer."""
    kept = b""
    for piece in pieces:
        *blocks, kept = (kept + piece).split(b"\n\n")
        for block in blocks:
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line)
            if b"data" in fields:
                yield fields[b"event"].decode(), json.loads(fields[b"data"])
