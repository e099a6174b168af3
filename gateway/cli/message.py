"""`entrepot message`: publish, receive and acknowledge, by the CloudEvents paths of the HTTP API; and look-ups."""

from __future__ import annotations

import base64
import json
import string
import sys
import uuid
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from entrepot.domain.written_text import without_mark
from entrepot.gateway.cli import message_journey, message_query, message_try, message_view
from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.noun_commands import add_commands
from entrepot.gateway.cli.output import JsonOption, print_json, print_line, print_outcome
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, below
from entrepot.gateway.operations.nouns.messages import MESSAGES

app = typer.Typer(help="Publish, receive and find messages.", no_args_is_help=True)

NOT_FOUND: Final = 404

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]

_PLAIN_IN_A_HEADER: Final = "".join(c for c in string.punctuation if c not in '"%')
"""Characters that stand as they are in a CloudEvents header, besides letters and digits (HTTP binding 3.1.3.2)."""


@app.command()
def publish(
    topic: TopicArgument,
    data: Annotated[str, typer.Option(help="Message data; @FILE reads a file, - standard input.", show_default=False)],
    type_: Annotated[str, typer.Option("--type", help="CloudEvents type.")] = "dev.entrepot.message",
    subject: Annotated[str | None, typer.Option(help="CloudEvents subject.")] = None,
    source: Annotated[str, typer.Option(help="CloudEvents source.")] = "urn:entrepot:cli",
    id_: Annotated[str | None, typer.Option("--id", help="CloudEvents id; else a new one.")] = None,
    content_type: Annotated[
        str | None, typer.Option(help="Content type of the data; else JSON or text, by its form.")
    ] = None,
    deliver_at: Annotated[str | None, typer.Option(metavar="TIME", help="Delivery time, as RFC 3339.")] = None,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Publish one message as a CloudEvent; return when it is durable."""
    content = _content(data)
    if content_type is None:
        content_type, content = _guessed(content)
    event_id = id_ or str(uuid.uuid4())
    attributes = {"specversion": "1.0", "id": event_id, "source": source, "type": type_, "subject": subject}
    attributes["deliverytime"] = deliver_at
    headers = {f"ce-{name}": _header(value) for name, value in attributes.items() if value is not None}
    headers["content-type"] = content_type
    Client(server).request(
        "POST", f"{below(namespace)}/topics/{segment(topic)}:publish", content=content, headers=headers
    )
    print_outcome({"id": event_id, "topic": topic}, f"published {event_id} to {topic}", as_json=as_json)


@app.command()
def receive(
    topic: TopicArgument,
    group: GroupArgument,
    max_events: Annotated[int, typer.Option("--max", help="Maximum number of messages.", min=1, max=100)] = 1,
    wait_seconds: Annotated[
        int, typer.Option("--wait", help="Longest wait for the first message, in seconds.", min=0, max=120)
    ] = 0,
    ack: Annotated[bool, typer.Option("--ack", help="Acknowledge the messages once they are printed.")] = False,
    create: Annotated[
        bool, typer.Option("--create", help="Create the topic and the group if they do not exist.")
    ] = False,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Receive messages for a group: they stay with this consumer until acknowledged or expired."""
    client, subscription = Client(server), _subscription(namespace, topic, group)
    query: dict[str, str | int | float] = {"maxEvents": max_events, "maxWaitTime": wait_seconds}
    if not create:
        query["create"] = "false"
    try:
        answer = client.request("POST", f"{subscription}:receive", query=query, wait_seconds=wait_seconds)
    except CommandError as refusal:
        if create or refusal.status != NOT_FOUND:
            raise
        raise CommandError(f"{refusal.message}; --create makes what is missing") from None
    received = answer["value"]
    if as_json:
        print_json(received)
    else:
        for message in received:
            _print(message, with_token=not ack)
        if not received:
            print_line("no message", err=True)
    if ack and received:
        sys.stdout.flush()
        _acknowledge(client, subscription, [message["brokerProperties"]["lockToken"] for message in received])


@app.command()
def acknowledge(
    topic: TopicArgument,
    group: GroupArgument,
    tokens: Annotated[
        list[str], typer.Argument(metavar="TOKEN...", help="Lock tokens of received messages.", show_default=False)
    ],
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Acknowledge received messages for their group."""
    answer = _acknowledge(Client(server), _subscription(namespace, topic, group), tokens)
    print_outcome(answer, f"acknowledged {len(answer.get('succeededLockTokens') or [])}", as_json=as_json)


add_commands(app, MESSAGES, "query")
app.command("show")(message_query.show)
app.command("trace")(message_query.trace)
app.command("journey")(message_journey.journey)
app.command("list")(message_view.list_messages)
app.command("body")(message_view.save_body)
app.command("try")(message_try.try_message)
app.command("watch")(message_try.watch)


def _subscription(namespace: str, topic: str, group: str) -> str:
    return f"{below(namespace)}/topics/{segment(topic)}/eventsubscriptions/{segment(group)}"


def _acknowledge(client: Client, subscription: str, tokens: list[str]) -> dict[str, Any]:
    answer: dict[str, Any] = client.request("POST", f"{subscription}:acknowledge", body={"lockTokens": tokens})
    if failed := answer.get("failedLockTokens"):
        error = failed[0].get("error") or {}
        reason = error.get("message") or error.get("code") or "no reason given"
        raise CommandError(f"{len(failed)} of {len(tokens)} could not be acknowledged: {reason}")
    return answer


def _content(data: str) -> bytes:
    try:
        if data == "-":
            return sys.stdin.buffer.read()
        if data.startswith("@"):
            return Path(data[1:]).read_bytes()
    except OSError as error:
        raise CommandError(f"--data {data}: {error.strerror}", USAGE) from error
    return data.encode(errors="surrogateescape")


def _guessed(content: bytes) -> tuple[str, bytes]:
    """The content type and the content, which has no byte order mark if it is JSON: none may stand there."""
    try:
        content.decode()
    except ValueError:
        return "application/octet-stream", content
    try:
        json.loads(without_mark(content).decode())
    except ValueError:
        return "text/plain; charset=utf-8", content
    return "application/json", without_mark(content)


def _header(value: str) -> str:
    return quote(value, safe=_PLAIN_IN_A_HEADER)


def _print(message: dict[str, Any], *, with_token: bool) -> None:
    broker, event = message["brokerProperties"], message["event"]
    heading = [event.get("id"), event.get("type"), event.get("subject"), f"attempt {broker['deliveryCount']}"]
    print_line("  ".join(str(part) for part in heading if part))
    print_line(f"  {_data(event)}")
    if with_token:
        print_line(f"  lock token {broker['lockToken']}")


def _data(event: dict[str, Any]) -> str:
    if "data_base64" in event:
        return repr(base64.b64decode(event["data_base64"]))[1:]
    data = event.get("data", "")
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
