"""`entrepot tier`: the tables of cold messages in an object store.

`show` and `verify` read them without a broker, and write nothing. `restore`, `attach`, `accept` and `status` ask a
running server. Exit codes: 0 healthy, 1 problems found, refused, or the store is away, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.errors import FAILED, OK, USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_json, print_line, print_listing, print_outcome, print_table
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path, given

if TYPE_CHECKING:
    from entrepot.store_client.embedded import TableShown, Verdict

TABLE_SECONDS: Final = 150.0
"""Longest wait for a server to look at a table, which may be large, and far away."""

app = typer.Typer(help="Cold messages in an object store.", no_args_is_help=True)

UrlOption = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="ENTREPOT__TIER__URL",
        metavar="URL",
        help="URL of the object store: file:///folder, s3://bucket/prefix, gs:// or az://.",
        show_default=False,
    ),
]
EndpointOption = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        envvar="ENTREPOT__TIER__ENDPOINT",
        metavar="URL",
        help="Endpoint of the store, unless it is the provider's.",
    ),
]
RegionOption = Annotated[
    str | None, typer.Option("--region", envvar="ENTREPOT__TIER__REGION", metavar="NAME", help="Region of the store.")
]
AllowHttpOption = Annotated[
    bool, typer.Option("--allow-http", envvar="ENTREPOT__TIER__ALLOW_HTTP", help="Allow an endpoint without TLS.")
]
TableOption = Annotated[
    str | None,
    typer.Option("--table", metavar="PATH", help="Table of the topic, where there are several; see `tier show`."),
]
BrokerOption = Annotated[
    str, typer.Option("--on", metavar="BROKER", help="Broker for the topic, where there are several.")
]


@app.command()
def show(
    url: UrlOption,
    endpoint: EndpointOption = None,
    region: RegionOption = None,
    allow_http: AllowHttpOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the tables: topics, queues with their offsets, segments, bytes, and storing times (UTC)."""
    from entrepot.gateway.clock import SystemClock
    from entrepot.store_client.embedded import tables_shown

    with _refusals():
        tables = list(tables_shown(_checked(url), _options(endpoint, region, allow_http), SystemClock()))
    if as_json:
        print_json([_shape(table) for table in tables])
        return
    print_table(
        ("topic", "table", "queues", "messages", "segments", "bytes", "oldest", "newest"),
        ((*_row(table), _time(table.oldest_ms), _time(table.newest_ms)) for table in tables),
    )
    print_table(
        ("table", "queue", "first offset", "next offset", "messages", "segments"),
        ((t.root, q.queue_id, q.first, q.next_offset, q.rows, q.segments) for t in tables for q in t.queues),
    )


def _row(table: TableShown) -> tuple[object, ...]:
    return table.topic, table.root, len(table.queues), table.rows, table.segments, table.bytes


@app.command()
def verify(
    url: UrlOption,
    full: Annotated[bool, typer.Option("--full", help="Read all messages and compare their digests, too.")] = False,
    endpoint: EndpointOption = None,
    region: RegionOption = None,
    allow_http: AllowHttpOption = False,
    as_json: JsonOption = False,
) -> int:
    """Verify that each table has every message once, and all of its segments.

    Problems are listed with table, queue and offsets; the exit code is then 1.
    """
    from entrepot.gateway.clock import SystemClock
    from entrepot.store_client.embedded import tables_verified

    options = _options(endpoint, region, allow_http)
    verdicts: list[Verdict] = []
    with _refusals():
        for verdict in tables_verified(_checked(url), options, SystemClock(), is_full=full):
            verdicts.append(verdict)
            if not as_json:
                _tell(verdict, is_full=full)
    if as_json:
        print_json([_verdict_shape(verdict) for verdict in verdicts])
    elif not verdicts:
        print_line("there is no table")
    return FAILED if any(verdict.problems for verdict in verdicts) else OK


@app.command()
def status(server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Show a running server's progress with each topic in the object store."""
    found = Client(server).get("/api/v1/tiering")["value"]
    print_listing(
        found,
        ("topic", "namespace", "table", "on the disk alone", "segments", "bytes", "missing", "problem"),
        (
            (
                t["topic"],
                t["namespace"],
                t["table"],
                t["lagMessages"],
                t["segments"],
                t["bytes"],
                t["missingMessages"],
                t["problem"] or "",
            )
            for t in found
        ),
        as_json=as_json,
    )


@app.command()
def accept(
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", show_default=False)] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Accept another object store, with all tables as they are.")
    ] = False,
    yes: YesOption = False,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Accept a topic's table as the object store has it now, after `tier status` told of another state.

    Without it nothing is uploaded, deleted or read, so that a folder that is not mounted costs nothing. Messages that
    only the former table had are lost.
    """
    if bool(topic) == everything:
        raise CommandError("name a topic, or --all for the object store with all tables", USAGE)
    what = f"topic {topic}" if topic else "all tables"
    confirm(f"Accept the object store as it is for {what}? Messages that only the former one had are lost.", yes=yes)
    path = api_path(namespace, "tiering:accept")
    found = Client(server, TABLE_SECONDS).request("POST", path, body=given(topic=topic or None, all=everything or None))
    print_outcome(found, f"{what}: the object store is accepted as it is", as_json=as_json)


@app.command()
def restore(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    tier_seconds: Annotated[
        int | None,
        typer.Option(metavar="N", help="Retention in the object store, in seconds; a table does not contain it."),
    ] = None,
    table: TableOption = None,
    on: BrokerOption = "",
    force: Annotated[
        bool, typer.Option("--force", help="Restore a table written just now; its writer is refused from now on.")
    ] = False,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Restore a topic from the table of a broker that is lost with its disks.

    Nothing is copied: the topic continues after the table's last message. Tables do not contain progress of consumer
    groups, sessions, retained and scheduled messages; these are not restored.
    """
    body = given(tierSeconds=tier_seconds, table=table, broker=on or None, force=force or None)
    path = api_path(namespace, "topics", segment(topic)) + ":restore"
    found = Client(server, TABLE_SECONDS).request("POST", path, body=body)
    _tell_topic(found, "is restored from", as_json=as_json)
    if not as_json:
        print_line("progress of groups, sessions, retained and waiting messages are not in a table: they are lost")


@app.command()
def attach(
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="URL of the other cluster's object store.", show_default=False)
    ],
    table: TableOption = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="TOPIC", help="Topic name here; else the table's.")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="URL", help="Endpoint of the store, unless it is the provider's."),
    ] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="NAME", help="Region of the store.")] = None,
    allow_http: Annotated[bool, typer.Option("--allow-http", help="Allow an endpoint without TLS.")] = False,
    on: BrokerOption = "",
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Attach another cluster's table as a readable topic, up to its present end; attach again to move that end.

    The broker reads it with the credentials in its own environment. Nothing is written there, and deleting the topic
    deletes nothing there.
    """
    body = given(
        url=_checked(url),
        table=table,
        name=name,
        endpoint=endpoint,
        region=region,
        allowHttp=allow_http or None,
        broker=on or None,
    )
    found = Client(server, TABLE_SECONDS).request("POST", api_path(namespace, "tiering:attach"), body=body)
    _tell_topic(found, "is read from", as_json=as_json)


def _tell_topic(topic: dict[str, Any], what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(topic)
        return
    print_line(f"topic {topic['name']} {what} {topic['table']}")
    print_table(
        ("queue", "min offset", "max offset"),
        ((o["queueId"], o["minOffset"], o["maxOffset"]) for o in topic["offsets"]),
    )


def _tell(verdict: Verdict, *, is_full: bool) -> None:
    for problem in verdict.problems:
        print_line(f"PROBLEM {problem}")
    for note in verdict.notes:
        print_line(f"note    {verdict.table}: {note}")
    if not verdict.problems and verdict.shown is not None:
        depth = f"{verdict.rows_read} messages read" if is_full else f"{verdict.shown.rows} messages"
        print_line(f"ok      {verdict.table}: {depth}, {verdict.shown.segments} segments")


def _shape(table: TableShown) -> dict[str, Any]:
    """A table in JSON; times are RFC 3339."""
    return {
        "topic": table.topic,
        "table": table.root,
        "version": table.version,
        "segments": table.segments,
        "bytes": table.bytes,
        "messages": table.rows,
        "oldest": _time(table.oldest_ms),
        "newest": _time(table.newest_ms),
        "foreignCommits": table.foreign_commits,
        "queues": [
            {
                "queueId": queue.queue_id,
                "firstOffset": queue.first,
                "nextOffset": queue.next_offset,
                "messages": queue.rows,
                "segments": queue.segments,
            }
            for queue in table.queues
        ],
    }


def _verdict_shape(verdict: Verdict) -> dict[str, Any]:
    names = {"queue_id": "queueId", "first": "firstOffset", "end": "nextOffset"}
    problems = [
        {names.get(name, name): value for name, value in asdict(problem).items()} for problem in verdict.problems
    ]
    return {
        "table": verdict.table,
        "messagesRead": verdict.rows_read,
        "problems": problems,
        "notes": verdict.notes,
        "found": None if verdict.shown is None else _shape(verdict.shown),
    }


def _time(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _checked(url: str) -> str:
    from entrepot.gateway.settings.tier import fault_of_store

    if (fault := fault_of_store(url)) is not None:
        raise CommandError(f"--url: {fault}", USAGE)
    return url


def _options(endpoint: str | None, region: str | None, allow_http: bool) -> dict[str, Any]:
    return {"endpoint": endpoint or None, "region": region or None, "allow_http": allow_http}


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except EntrepotError as refusal:
        raise CommandError(refusal.message, USAGE if refusal.code is Code.BAD_REQUEST else FAILED) from None
