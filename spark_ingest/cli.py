"""`entrepot ingest`: a topic into a table; the progress of a job; a report on it.

`ingest_options.py` has the options, `job_of_options.py` the job that they describe, `running.py` runs it.

Spark is loaded only by the command that needs it: `--help` and the shell's completion do without. Exit codes: 0 done, 1
failed, 2 wrong usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from entrepot.domain.printable import printable_json, printable_lines
from entrepot.spark_ingest.ingest_options import Checkpoint, IngestOptions, Json, Table, with_options

FAILED: Final = 1
USAGE: Final = 2

app = typer.Typer(help="Ingest topics into tables with Spark.", no_args_is_help=True, add_completion=False)


@app.callback(invoke_without_command=True)
@with_options
def ingest(ctx: typer.Context, options: IngestOptions) -> None:
    """Ingest topics into a table, each message once: up to now, or as long as the command runs."""
    if ctx.invoked_subcommand is not None:
        return
    if not options.table or bool(options.topic) == bool(options.topic_pattern):
        _usage("give --table, and --topic or --topic-pattern")
    with _told():
        from entrepot.spark_ingest.job_of_options import job_of
        from entrepot.spark_ingest.running import run_job

        try:
            job = job_of(options)
        except (ValueError, OSError) as error:
            _usage(str(error))
        total = run_job(job)
        if options.as_json:
            _say_json({"table": job.settings.table, "messages": total})


@app.command()
def status(table: Table = "", checkpoint: Checkpoint = "", as_json: Json = False) -> None:
    """Show a job's progress: last batch, lag of each queue, and dead, late and duplicate rows."""
    with _told():
        from entrepot.spark_ingest.job.status import job_status

        found = job_status(_checkpoint_of(table, checkpoint))
        if as_json:
            typer.echo(found.as_json())
        else:
            from rich.console import Console

            Console(highlight=False).print(found.shown())


@app.command()
def report(
    table: Table = "",
    checkpoint: Checkpoint = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file.", show_default="TABLE_report.html")
    ] = None,
    devices: Annotated[int, typer.Option(min=1, help="Number of devices with a plot.")] = 6,
    as_json: Json = False,
) -> None:
    """Write an HTML page with plots: throughput, lag, devices' series, gaps, anomalies. It needs no server."""
    with _told():
        from entrepot.spark_ingest.report.page import write_report

        where = _checkpoint_of(table, checkpoint)
        page = str(write_report(where, output, devices))
        if as_json:
            _say_json({"page": page})
        else:
            _say(page)


@app.command()
def script(as_json: Json = False) -> None:
    """Print the path of the file for spark-submit: `spark-submit "$(entrepot ingest script)" --topic … --table …`."""
    path = str(Path(__file__).with_name("submit.py"))
    if as_json:
        _say_json({"path": path})
    else:
        _say(path)


def _checkpoint_of(table: str, checkpoint: str) -> Path:
    if not table and not checkpoint:
        _usage("give --table or --checkpoint")
    from entrepot.spark_ingest.job.settings import checkpoint_of

    return checkpoint_of(table, checkpoint)


def _say_json(value: object) -> None:
    typer.echo(printable_json(json.dumps(value, indent=2, ensure_ascii=False)))


def _say(text: str, *, err: bool = False) -> None:
    typer.echo(printable_lines(text), err=err)


def _usage(text: str) -> typer.Exit:
    _say(f"error: {text}", err=True)
    raise typer.Exit(USAGE)


@contextmanager
def _told() -> Iterator[None]:
    """Print failures that a user can act on as one line."""
    try:
        from entrepot.domain.errors import EntrepotError
        from entrepot.spark_ingest.source.versions import SparkVersionError, installed_version

        installed_version()
        from entrepot.spark_ingest.failures import FAILURES, SPARK_FAILURES
        from entrepot.spark_ingest.job.reasons import reason_of
    except SparkVersionError as error:
        _say(f"error: {error}", err=True)
        raise typer.Exit(FAILED) from error
    except ImportError as error:
        _say(f"error: {error}: Spark is not installed: pip install entrepot[spark]", err=True)
        raise typer.Exit(FAILED) from error
    try:
        yield
    except EntrepotError as error:
        _say(f"error: {error.message}", err=True)
        raise typer.Exit(FAILED) from error
    except FAILURES as error:
        _say(f"error: {error}", err=True)
        raise typer.Exit(FAILED) from error
    except SPARK_FAILURES as error:
        _say(f"error: Spark: {reason_of(error)}", err=True)
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt:
        sys.exit(130)
