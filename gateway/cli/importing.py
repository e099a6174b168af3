"""`entrepot import`: definitions of another broker for a running server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from entrepot.domain.written_text import written_text
from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.errors import FAILED, OK, USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_json, print_table
from entrepot.gateway.cli.rocketmq_import import rocketmq

app = typer.Typer(help="Import the definitions of another broker.", no_args_is_help=True)

ROWS_PER_REQUEST = 500
WAIT_SECONDS = 300.0
_FIRST = ("vhosts", "permissions", "parameters", "policies", "exchanges", "queues", "bindings")
"""Kinds in order of their dependencies."""
_LAST = ("users",)
"""Kinds at the end: the first user closes the server to clients without credentials."""


@app.command()
def rabbitmq(
    definitions: Annotated[
        Path, typer.Option(metavar="FILE", help="Definitions file: rabbitmqctl export_definitions FILE.")
    ],
    vhost: Annotated[str | None, typer.Option(metavar="NAME", help="Virtual host for all definitions.")] = None,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> int:
    """Import virtual hosts, users, permissions, exchanges, queues, bindings and policies.

    Omitted definitions are listed with the reason; the exit code is then 1. Users keep their passwords, by RabbitMQ's
    hashes, and their tags. The import may be repeated.
    """
    given = _read(definitions)
    path = "/api/definitions" if vhost is None else f"/api/definitions/{segment(vhost)}"
    client, done, left_out = Client(server), dict[str, int](), list[dict[str, Any]]()
    for part in _parts(given):
        report = client.request("POST", path, query={"report": "true"}, body=part, wait_seconds=WAIT_SECONDS)
        for kind, count in report["done"].items():
            done[kind] = done.get(kind, 0) + count
        left_out += report["left_out"]
    if as_json:
        print_json({"done": done, "left_out": left_out})
    else:
        _tell(done, left_out)
    return FAILED if left_out else OK


app.command()(rocketmq)


def _read(path: Path) -> dict[str, Any]:
    try:
        given = json.loads(written_text(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot read the definitions in {path}: {error}", USAGE) from error
    if not isinstance(given, dict):
        raise CommandError(f"{path} has no definitions: they are a JSON object", USAGE)
    return given


def _parts(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the definitions in parts with a limited number of rows."""
    yield {kind: rows for kind, rows in given.items() if kind not in (*_FIRST, *_LAST)}
    for kind in (*_FIRST, *_LAST):
        rows = given.get(kind, [])
        if not isinstance(rows, list):
            raise CommandError(f"the definitions cannot be used: {kind} is not an array", USAGE)
        for start in range(0, len(rows), ROWS_PER_REQUEST):
            yield {kind: rows[start : start + ROWS_PER_REQUEST]}


def _tell(done: dict[str, int], left_out: list[dict[str, Any]]) -> None:
    kinds = dict.fromkeys((*done, *(row["kind"] for row in left_out)))
    counts = {kind: sum(row["kind"] == kind for row in left_out) for kind in kinds}
    print_table(("definitions", "done", "remarks"), [(kind, done.get(kind, 0), counts[kind]) for kind in kinds])
    if left_out:
        columns = ("kind", "vhost", "name", "reason")
        rows = ([row[column] for column in columns] for row in left_out)
        print_table(columns, rows, title="Left out, or in part")
