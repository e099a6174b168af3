"""`entrepot topic`: topics of a running server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_json, print_outcome, print_table
from entrepot.gateway.cli.pages import (
    AfterOption,
    ContainsOption,
    KindOption,
    LimitOption,
    PrefixOption,
    SortOption,
    figure,
    listing,
    print_page,
)
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path, given, with_limits

app = typer.Typer(help="Topics of a running server.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)]
_Limit = str | None
QueuesOption = Annotated[
    int | None, typer.Option(help="Number of message queues; it shrinks only once the last ones are drained.")
]
WriteQueuesOption = Annotated[
    _Limit, typer.Option(metavar="N|none", help="Number of queues for new messages; none: all.")
]
TypeOption = Annotated[str | None, typer.Option("--type", help="Message type: NORMAL or PRIORITY.")]
PermissionOption = Annotated[str | None, typer.Option(help="Permission: READ_WRITE, READ, WRITE or NONE.")]
CleanupOption = Annotated[
    str | None,
    typer.Option(
        help="Cleanup policy: DELETE (by age and size), CONSUMED (settled by every group) or COMPACT (last per key)."
    ),
]
RetentionSecondsOption = Annotated[_Limit, typer.Option(metavar="N|none", help="Retention by age, in seconds.")]
RetentionBytesOption = Annotated[_Limit, typer.Option(metavar="N|none", help="Retention by size, in bytes.")]
TierSecondsOption = Annotated[
    _Limit,
    typer.Option(metavar="N|none", help="Retention in the broker's object store, in seconds; none: not stored there."),
]
MaxMessageBytesOption = Annotated[_Limit, typer.Option(metavar="N|none", help="Maximum body size, in bytes.")]
MaxBacklogOption = Annotated[
    _Limit,
    typer.Option(
        metavar="N|none", help="Maximum lag of the slowest group, in messages; beyond it new ones are refused."
    ),
]
TraceOption = Annotated[
    float | None, typer.Option(metavar="SHARE", help="Share of traced messages, 0 (none) to 1 (all).", min=0, max=1)
]
ConfirmOption = Annotated[
    str | None,
    typer.Option("--confirm", help="Confirm level: RULE (the broker's rule) or ASYNC (the master's disk alone)."),
]
PlacementOption = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        metavar="BROKER=QUEUES",
        help="Placement on this broker alone, with this number of queues; may be repeated.",
    ),
]
_SHOWN = (
    "namespace",
    "queues",
    "writeQueues",
    "type",
    "permission",
    "cleanup",
    "retentionSeconds",
    "retentionBytes",
    "tierSeconds",
    "maxMessageBytes",
    "maxBacklog",
    "confirm",
    "trace",
    "placement",
)


def _path(name: str, namespace: str) -> str:
    return api_path(namespace, "topics", segment(name))


@app.command("list")
def list_topics(
    contains: ContainsOption = None,
    prefix: PrefixOption = None,
    kind: KindOption = None,
    type_: TypeOption = None,
    sort: SortOption = None,
    limit: LimitOption = None,
    after: AfterOption = None,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List every topic with its number of messages; with an option, a page of topics."""
    query = given(contains=contains, prefix=prefix, kind=kind, type=type_, sort=sort, limit=limit, after=after)
    answer = listing(Client(server), api_path(namespace, "topics"), query)
    shown = (
        (t["name"], t["queues"], t["type"], t["permission"], figure(t, "messages") if query else _held(t))
        for t in answer["value"]
    )
    print_page(answer, ("topic", "queues", "type", "permission", "messages"), shown, as_json=as_json)


@app.command()
def show(
    name: NameArgument,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Show one topic and the offsets of its queues."""
    topic = Client(server).get(_path(name, namespace))
    if as_json:
        print_json(topic)
        return
    print_table(("topic", topic["name"]), ((key, topic.get(key)) for key in _SHOWN))
    print_table(
        ("queue", "min offset", "max offset"),
        ((o["queueId"], o["minOffset"], o["maxOffset"]) for o in topic.get("offsets") or []),
    )


def _changing(outcome: str, *, must_exist: bool) -> Callable[..., None]:
    """A command that gives a topic what it is told."""

    def change(
        name: NameArgument,
        queues: QueuesOption = None,
        write_queues: WriteQueuesOption = None,
        type_: TypeOption = None,
        permission: PermissionOption = None,
        cleanup: CleanupOption = None,
        retention_seconds: RetentionSecondsOption = None,
        retention_bytes: RetentionBytesOption = None,
        tier_seconds: TierSecondsOption = None,
        max_message_bytes: MaxMessageBytesOption = None,
        max_backlog: MaxBacklogOption = None,
        confirm_by: ConfirmOption = None,
        trace: TraceOption = None,
        on: PlacementOption = None,
        namespace: NamespaceOption = DEFAULT_NAMESPACE,
        server: ServerOption = DEFAULT_SERVER,
        as_json: JsonOption = False,
    ) -> None:
        fields = given(
            queues=queues,
            type=type_,
            permission=permission,
            cleanup=cleanup,
            confirm=confirm_by,
            trace=trace,
            placement=_placement(on),
        )
        limits = {
            "writeQueues": ("--write-queues", write_queues),
            "retentionSeconds": ("--retention-seconds", retention_seconds),
            "retentionBytes": ("--retention-bytes", retention_bytes),
            "tierSeconds": ("--tier-seconds", tier_seconds),
            "maxMessageBytes": ("--max-message-bytes", max_message_bytes),
            "maxBacklog": ("--max-backlog", max_backlog),
        }
        wanted, client = with_limits(fields, limits), Client(server)
        if must_exist:
            client.get(_path(name, namespace))  # a missing one is refused
        topic = client.put(_path(name, namespace), wanted)
        print_outcome(topic, f"topic {name} {outcome}", as_json=as_json)

    return change


app.command(
    "create",
    help="Create a topic, or change an existing one; omitted options keep their value or take the default.",
)(_changing("is there", must_exist=False))
app.command("update", help="Change an existing topic; omitted options keep their value.")(
    _changing("is changed", must_exist=True)
)


def _placement(on: list[str] | None) -> dict[str, int] | None:
    """Queues by broker, from the values of --on."""
    if on is None:
        return None
    found: dict[str, int] = {}
    for text in on:
        broker, equals, queues = text.rpartition("=")
        if not equals or not broker or not (queues.isascii() and queues.isdecimal()) or broker in found:
            raise CommandError(f"--on {text}: write it as BROKER=QUEUES, each broker once", USAGE)
        found[broker] = int(queues)
    return found


@app.command()
def delete(
    name: NameArgument,
    yes: YesOption = False,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Delete a topic with its messages. Asks for confirmation."""
    confirm(f"Delete the topic {name} with all its messages?", yes)
    Client(server).delete(_path(name, namespace))
    print_outcome({"topic": name, "deleted": True}, f"topic {name} deleted", as_json=as_json)


def _held(topic: dict[str, Any]) -> int:
    return sum(o["maxOffset"] - o["minOffset"] for o in topic.get("offsets") or [])
