"""`entrepot group`: consumer groups of a running server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from entrepot.gateway.cli import dead_letters, group_detail
from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.output import JsonOption, print_json, print_listing, print_outcome, print_table
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
from entrepot.gateway.cli.values import (
    DEFAULT_NAMESPACE,
    NamespaceOption,
    api_path,
    filter_expression,
    given,
    retry_policy,
    with_limits,
)

app = typer.Typer(help="Consumer groups of a running server.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
MaxAttemptsOption = Annotated[
    int | None, typer.Option(help="Maximum number of deliveries of a message, which then becomes a dead letter.")
]
InvisibleOption = Annotated[int | None, typer.Option(help="Invisible duration of a received message, in seconds.")]
StartOption = Annotated[str | None, typer.Option(help="Start position: earliest, latest or an RFC 3339 time.")]
RetryOption = Annotated[
    str | None,
    typer.Option(
        metavar="POLICY",
        help="Delay of retries: immediate, exponential:1000:60000:2 (first and longest delay in ms, factor) or "
        "list:1000,5000.",
    ),
]
MaxInFlightOption = Annotated[
    str | None, typer.Option(metavar="N|none", help="Maximum number of unsettled messages of a topic.")
]
FifoOption = Annotated[
    bool | None, typer.Option("--fifo/--no-fifo", help="Deliver the messages of a message group in order.")
]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="KIND:TEXT|none",
        help="Filter of messages: 'TAG:a || b', 'SQL92:price > 3', 'SUB_TOPIC:t/+/x'.",
    ),
]


def _path(name: str, namespace: str) -> str:
    return api_path(namespace, "groups", segment(name))


@app.command("list")
def list_groups(
    contains: ContainsOption = None,
    prefix: PrefixOption = None,
    kind: KindOption = None,
    sort: SortOption = None,
    limit: LimitOption = None,
    after: AfterOption = None,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List every group with its lag; with an option, a page of groups."""
    query = given(contains=contains, prefix=prefix, kind=kind, sort=sort, limit=limit, after=after)
    answer = listing(Client(server), api_path(namespace, "groups"), query)
    columns = ("group", "max attempts", "invisible s", "start", "topics", "in flight", "lag")
    shown = (
        (
            g["name"],
            g["maxAttempts"],
            g["invisibleSeconds"],
            g["start"],
            *(_paged_figures(g) if query else _whole_figures(g)),
        )
        for g in answer["value"]
    )
    print_page(answer, columns, shown, as_json=as_json)


def _whole_figures(group: dict[str, Any]) -> tuple[object, ...]:
    topics = " ".join(sorted({p["topic"] for p in group.get("progress") or []}))
    return topics, _total(group, "inFlight"), _total(group, "lag")


def _paged_figures(group: dict[str, Any]) -> tuple[object, ...]:
    topics = "?" if group["topics"] is None else " ".join(group["topics"])
    return topics, figure(group, "inFlight"), figure(group, "lag")


@app.command()
def show(
    name: NameArgument,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Show one group and its progress in every queue it has read."""
    group = Client(server).get(_path(name, namespace))
    _print(group, as_json=as_json)


def _changing(outcome: str, *, must_exist: bool) -> Callable[..., None]:
    """A command that gives a group what it is told."""

    def change(
        name: NameArgument,
        max_attempts: MaxAttemptsOption = None,
        invisible_seconds: InvisibleOption = None,
        start: StartOption = None,
        retry: RetryOption = None,
        max_in_flight: MaxInFlightOption = None,
        fifo: FifoOption = None,
        filter_: FilterOption = None,
        namespace: NamespaceOption = DEFAULT_NAMESPACE,
        server: ServerOption = DEFAULT_SERVER,
        as_json: JsonOption = False,
    ) -> None:
        wanted = given(maxAttempts=max_attempts, invisibleSeconds=invisible_seconds, start=start, fifo=fifo)
        if retry is not None:
            wanted["retry"] = retry_policy(retry)
        if filter_ is not None:
            wanted["filter"] = filter_expression(filter_)
        with_limits(wanted, {"maxInFlight": ("--max-in-flight", max_in_flight)})
        client = Client(server)
        if must_exist:
            client.get(_path(name, namespace))  # a missing one is refused
        group = client.put(_path(name, namespace), wanted)
        print_outcome(group, f"group {name} {outcome}", as_json=as_json)

    return change


app.command(
    "create",
    help="Create a group, or change an existing one; omitted options keep their value or take the default.",
)(_changing("is there", must_exist=False))
app.command("update", help="Change an existing group; omitted options keep their value.")(
    _changing("is changed", must_exist=True)
)


@app.command()
def reset(
    name: NameArgument,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    to: Annotated[
        str, typer.Option(help="New position: earliest, latest, an offset or an RFC 3339 time.", show_default=False)
    ],
    queue: Annotated[int | None, typer.Option(help="Queue to reset; else all queues of the topic.")] = None,
    yes: YesOption = False,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Reset a group to another position: messages before it count as settled, later ones are delivered (again).

    The group's progress is lost, so it asks for confirmation.
    """
    confirm(f"Let the group {name} go on at {to} in {topic}, and forget its progress there?", yes)
    body = {"topic": topic, "to": to, **given(queueId=queue)}
    group = Client(server).request("POST", f"{_path(name, namespace)}:reset", body=body)
    _print(group, as_json=as_json)


@app.command()
def members(
    name: NameArgument,
    topic: Annotated[str, typer.Option(help="Topic of the queues.", show_default=False)],
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List consumers with whole queues of a topic, and those queues."""
    shown = Client(server).get(f"{_path(name, namespace)}/topics/{segment(topic)}/members")
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


@app.command()
def delete(
    name: NameArgument,
    yes: YesOption = False,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Delete a group with its progress. Asks for confirmation."""
    confirm(f"Delete the group {name} with its progress?", yes)
    Client(server).delete(_path(name, namespace))
    print_outcome({"group": name, "deleted": True}, f"group {name} deleted", as_json=as_json)


def _print(group: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(group)
        return
    retry, wanted = group.get("retry") or {}, group.get("filter")
    facts = [(key, group.get(key)) for key in ("namespace", "maxAttempts", "invisibleSeconds", "start")]
    facts += [("retry", _retry_text(retry)), ("maxInFlight", group.get("maxInFlight")), ("fifo", group.get("fifo"))]
    facts += [("filter", f"{wanted['kind']}:{wanted['text']}" if wanted else None)]
    print_table(("group", group["name"]), facts)
    print_table(
        ("topic", "queue", "committed", "max offset", "in flight", "lag"),
        (
            (p["topic"], p["queueId"], p["committedOffset"], p["maxOffset"], p["inFlight"], p["lag"])
            for p in group.get("progress") or []
        ),
    )


def _retry_text(retry: dict[str, Any]) -> str | None:
    """The text of a retry policy, as `--retry` takes it."""
    kind: str | None = retry.get("kind")
    if kind == "exponential":
        return f"{kind}:{retry['initialMs']}:{retry['maxMs']}:{retry['multiplier']:g}"
    if kind == "list":
        return f"{kind}:{','.join(map(str, retry['delaysMs']))}"
    return kind


def _total(group: dict[str, Any], key: str) -> int:
    return sum(p[key] for p in group.get("progress") or [])
