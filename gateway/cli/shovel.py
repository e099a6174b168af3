"""`entrepot shovel`: messages of another broker's queues carried here."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote, urlsplit

import typer

from entrepot.domain.printable import printable
from entrepot.domain.url import fault_of_url
from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.errors import FAILED, USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_listing

if TYPE_CHECKING:
    from entrepot.gateway.shovel.plan import OnProgress, QueueProgress, ShovelPlan

app = typer.Typer(help="Move messages here from another broker.", no_args_is_help=True)

DEFAULT_TARGET = "amqp://guest:guest@127.0.0.1:5672/"
MAX_PREFETCH = 10_000
MAX_AT_A_TIME = 64


@app.callback()
def _shovels() -> None:
    """Keep `rabbitmq` a command of its own while it is the only one."""


@app.command()
def rabbitmq(
    source: Annotated[
        str,
        typer.Option(
            "--from", envvar="ENTREPOT_SHOVEL_FROM", metavar="URL", help="URL of the RabbitMQ server: amqp://..."
        ),
    ],
    target: Annotated[
        str,
        typer.Option("--to", envvar="ENTREPOT_SHOVEL_TO", metavar="URL", help="URL of this server's AMQP listener."),
    ] = DEFAULT_TARGET,
    queue: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Queue name; may be repeated.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Move every queue that exists on both servers.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Continue when the queues are empty.")] = False,
    prefetch: Annotated[
        int, typer.Option(min=1, max=MAX_PREFETCH, help="Maximum number of messages of a queue in transit.")
    ] = 500,
    at_a_time: Annotated[int, typer.Option(min=1, max=MAX_AT_A_TIME, help="Number of queues at the same time.")] = 4,
    origin: Annotated[
        bool, typer.Option("--origin", help="Write exchange and routing key into headers (x-original-...).")
    ] = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> int:
    """Drain queues of a live RabbitMQ into queues of the same names.

    A message is acknowledged there once it is durable here. Nothing is lost if this command or either broker is
    killed; start it again: messages in transit may then arrive twice.
    """
    from entrepot.gateway.shovel.plan import ShovelPlan

    if bool(queue) == every:
        raise CommandError("name queues with --queue, or take all with --all", USAGE)
    if _place(source) == _place(target):
        raise CommandError("--from and --to are the same broker", USAGE)
    plan = ShovelPlan(source, target, prefetch, follow, origin)
    queues = _all_queues(server, target) if every else list(dict.fromkeys(queue or ()))
    outcomes = _carry(plan, queues, at_a_time)
    if every:  # queues that the source lacks have nothing to carry
        outcomes = [each for each in outcomes if not (each.problem or "").endswith("at the source")]
    _tell(outcomes, as_json)
    return FAILED if any(each.problem for each in outcomes) else 0


def _all_queues(server: str, target: str) -> list[str]:
    found: list[dict[str, Any]] = Client(server).get(f"/api/queues/{segment(_vhost(target))}?columns=name,exclusive")
    return [row["name"] for row in found if not row["exclusive"]]


def _vhost(url: str) -> str:
    return unquote(urlsplit(url).path[1:]) or "/"


def _place(url: str) -> tuple[str, int, str]:
    """The identity of a broker. Raises CommandError for an invalid AMQP URL."""
    try:
        fault = fault_of_url(url, ("amqp", "amqps"))
        if fault is not None:
            raise ValueError(f"{fault}; it is to be amqp://user:password@host:port/vhost")
        parts = urlsplit(url)
        host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname or ""
        return host, parts.port or (5671 if parts.scheme == "amqps" else 5672), _vhost(url)
    except ValueError as error:
        raise CommandError(f"{url.rpartition('@')[2]!r} is not the address of a broker: {error}", USAGE) from None


def _carry(plan: ShovelPlan, queues: list[str], at_a_time: int) -> list[QueueProgress]:
    import uvloop
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    from entrepot.gateway.shovel.shovel import shovel

    for name in ("aio_pika", "aiormq"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # faults are told in our words
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bars:

        def moved(progress: QueueProgress) -> None:
            total = progress.carried + progress.waiting
            if progress.queue not in tasks:
                tasks[progress.queue] = bars.add_task(printable(progress.queue), total=total)
            bars.update(tasks[progress.queue], completed=progress.carried, total=total)

        on_progress: OnProgress = moved
        return uvloop.run(shovel(plan, queues, on_progress, at_a_time=at_a_time))


def _tell(outcomes: list[QueueProgress], as_json: bool) -> None:
    value = [
        {"queue": each.queue, "carried": each.carried, "changed": each.changed, "problem": each.problem}
        for each in outcomes
    ]
    rows = [
        (each.queue, each.carried, each.changed, "empty" if each.is_done else each.problem or "") for each in outcomes
    ]
    print_listing(value, ("queue", "carried", "properties changed", "state"), rows, as_json=as_json)
