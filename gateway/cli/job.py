"""`entrepot job`: Spark jobs by their last reports to a running server's store."""

from __future__ import annotations

from typing import Annotated

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.output import JsonOption, print_listing, print_outcome
from entrepot.gateway.cli.values import given

app = typer.Typer(help="Spark jobs that keep tables of topics, by their last reports.", no_args_is_help=True)

_PATH = "/api/v1/ingest-jobs"


@app.command("list")
def list_jobs(
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Last id of an earlier list, to continue there.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of jobs.", min=1, max=200)] = 50,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List jobs with their last batch and the lag of now."""
    answer = Client(server).request("GET", _PATH, query=given(after=after, limit=limit))
    rows = (
        (
            one["id"],
            one["table"],
            one["state"],
            one["batch"],
            one["version"],
            ", ".join(f"{topic['name']}: {'?' if topic['lag'] is None else topic['lag']}" for topic in one["topics"]),
            one["reportedAt"],
        )
        for one in answer["value"]
    )
    columns = ("id", "table", "state", "batch", "version", "lag", "reported")
    print_listing(answer, columns, rows, as_json=as_json, continued_by="--after")


@app.command()
def forget(
    job: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Forget the report of a job, which itself is not touched."""
    Client(server).delete(f"{_PATH}/{segment(job)}")
    print_outcome({"id": job, "forgotten": True}, f"job {job} forgotten", as_json=as_json)
