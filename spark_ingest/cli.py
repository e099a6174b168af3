"""`entrepot ingest`: a topic into a table; the progress of a job; a report on it.

Spark is loaded only by the command that needs it: `--help` and the shell's completion do without. Exit codes: 0 done, 1
failed, 2 wrong usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from entrepot.domain.printable import printable, printable_json, printable_lines
from entrepot.domain.written_text import written_text

if TYPE_CHECKING:
    from entrepot.spark_ingest.job.settings import JobSettings

FAILED: Final = 1
USAGE: Final = 2

app = typer.Typer(help="Ingest topics into tables with Spark.", no_args_is_help=True, add_completion=False)
Table = Annotated[
    str, typer.Option("--table", metavar="DIR", help="Directory or URL of the table.", show_default=False)
]
Checkpoint = Annotated[
    str,
    typer.Option("--checkpoint", metavar="DIR", help="Checkpoint directory of Spark.", show_default="TABLE_checkpoint"),
]


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback(invoke_without_command=True)
def ingest(
    ctx: typer.Context,
    table: Table = "",
    topic: Annotated[str, typer.Option(metavar="NAME,...", help="Names of the topics.")] = "",
    topic_pattern: Annotated[str, typer.Option(metavar="REGEX", help="Regular expression of the topic names.")] = "",
    server: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="Addresses of brokers.")] = "",
    nameserver: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="Addresses of name servers.")] = "",
    data_dir: Annotated[str, typer.Option(metavar="DIR", help="Data directory that no server uses.")] = "",
    tier_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Object store of cold messages; without brokers the only source.",
            show_default="told by brokers",
        ),
    ] = "",
    tier_endpoint: Annotated[
        str, typer.Option(metavar="URL", help="Endpoint of the object store, unless it is the provider's.")
    ] = "",
    tier_region: Annotated[str, typer.Option(metavar="NAME", help="Region of the object store.")] = "",
    tier_allow_http: Annotated[
        bool, typer.Option("--tier-allow-http", help="Allow an object store endpoint without TLS.")
    ] = False,
    cluster: Annotated[str, typer.Option(metavar="NAME", help="Cluster name, among those of the name servers.")] = "",
    zone: Annotated[str, typer.Option(metavar="ZONE", help="Zone of the replicas to read, if it has any.")] = "",
    tls: Annotated[str, typer.Option(metavar="CERT,KEY,CA", help="PEM files for the brokers' TLS.")] = "",
    secret_file: Annotated[str, typer.Option(metavar="FILE", help="File with the cluster's secret.")] = "",
    table_format: Annotated[str, typer.Option("--format", help="Table format: delta, parquet or iceberg.")] = "delta",
    trigger: Annotated[
        str, typer.Option(help="Trigger: availableNow, or the interval between batches, such as 10s.")
    ] = "availableNow",
    master: Annotated[str, typer.Option(help="Spark master: local[*,4], spark://…, k8s://…, sc://… .")] = "local[*,4]",
    checkpoint: Checkpoint = "",
    parse: Annotated[str, typer.Option(help="Format of message bodies: json, cbor or none.")] = "json",
    schema: Annotated[
        str, typer.Option(metavar="DDL|@FILE", help="Columns of message bodies.", show_default="found")
    ] = "",
    filter: Annotated[str, typer.Option(help="Filter of messages, evaluated by the store.")] = "",
    filter_type: Annotated[str, typer.Option(help="Kind of the filter: subTopic, sql92 or tag.")] = "subTopic",
    start: Annotated[
        str, typer.Option("--from", help="Position of the first start: earliest, latest or offsets (JSON).")
    ] = "earliest",
    max_messages: Annotated[int, typer.Option(min=1, help="Maximum number of messages in a batch.")] = 1_000_000,
    data_loss: Annotated[
        bool, typer.Option("--fail-on-data-loss/--no-fail-on-data-loss", help="Stop if messages are gone.")
    ] = True,
    properties: Annotated[bool, typer.Option("--properties", help="Keep message properties.")] = False,
    device: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the sending device.", show_default="found")
    ] = "",
    sequence: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the device's sequence number.", show_default="found")
    ] = "",
    time: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the device's time.", show_default="found")
    ] = "",
    metrics: Annotated[
        str, typer.Option(metavar="COLUMN,...", help="Columns of numbers to aggregate.", show_default="all")
    ] = "",
    watermark: Annotated[
        str, typer.Option(metavar="TIME", help="Age beyond which rows are late and go to a table of their own.")
    ] = "",
    dedupe: Annotated[bool, typer.Option("--dedupe", help="Keep one row for each device and sequence number.")] = False,
    derive: Annotated[bool, typer.Option(help="Make the tables of minutes, devices and gaps.")] = True,
    silence: Annotated[str, typer.Option(metavar="TIME", help="Silence of a device that counts as a gap.")] = "5m",
    optimise_every: Annotated[
        int, typer.Option(min=0, help="Number of batches between optimise and vacuum; 0: never.")
    ] = 50,
    vacuum_hours: Annotated[
        int, typer.Option(min=0, help="Retention of unreferenced files, which readers may still need, in hours.")
    ] = 168,
    group: Annotated[str, typer.Option(help="Consumer group that shows the lag; - for none.")] = "",
    metrics_address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Listening address of metrics for Prometheus.")
    ] = "",
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Write a table that another job has written, which then stops.")
    ] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Write Delta with Spark's own library; its jars must be installed.")
    ] = False,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Setting of Spark; may be repeated.")
    ] = None,
    catalog: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Setting of pyiceberg's catalog; may be repeated.")
    ] = None,
    java: Annotated[str, typer.Option(metavar="PATH", help="Path of Java.", show_default="found")] = "",
    as_json: Json = False,
) -> None:
    """Ingest topics into a table, each message once: up to now, or as long as the command runs."""
    if ctx.invoked_subcommand is not None:
        return
    if not table or bool(topic) == bool(topic_pattern):
        _usage("give --table, and --topic or --topic-pattern")
    with _told():
        from entrepot.spark_ingest.job.settings import DeviceColumns, JobSettings, seconds_of
        from entrepot.spark_ingest.source.options import Parse, listed, tier_address
        from entrepot.spark_ingest.tables import TableFormat
        from entrepot.store_client.blocking import StoreLocation

        try:
            settings = JobSettings(
                location=StoreLocation(
                    listed(server),
                    listed(nameserver),
                    str(Path(data_dir).absolute()) if data_dir else "",
                    cluster,
                    _tls(tls),
                    str(Path(secret_file).absolute()) if secret_file else "",
                    zone=zone,
                    tier=tier_address(tier_url, tier_endpoint, tier_region, allow_http=tier_allow_http),
                ),
                table=_table_path(table, checkpoint, native=native, derive=derive),
                subscribe=topic,
                subscribe_pattern=topic_pattern,
                format=TableFormat(table_format),
                checkpoint=checkpoint,
                parse=Parse(parse),
                schema=written_text(Path(schema[1:]).read_bytes()).strip() if schema.startswith("@") else schema,
                filter=filter,
                filter_type=filter_type,
                starting=start,
                fails_on_data_loss=data_loss,
                max_offsets=max_messages,
                includes_properties=properties,
                columns=DeviceColumns(device, sequence, time, listed(metrics)),
                watermark_seconds=seconds_of(watermark) if watermark else None,
                deduplicates=dedupe,
                is_deriving=derive and parse != "none",
                silence_seconds=seconds_of(silence),
                optimise_every=optimise_every,
                vacuum_hours=vacuum_hours,
                group=_group(group, table, has_brokers=bool(server or nameserver)),
                catalog=tuple(_pairs(catalog)),
                is_native=native,
            )
            pause = trigger if trigger == "availableNow" else f"{seconds_of(trigger)} seconds"
        except (ValueError, OSError) as error:
            _usage(str(error))
        total = _run(settings, pause, master, java, dict(_pairs(conf)), metrics_address, takes_over=take_over)
        if as_json:
            _say_json({"table": settings.table, "messages": total})


def _run(
    settings: JobSettings,
    trigger: str,
    master: str,
    java: str,
    conf: dict[str, str],
    metrics_address: str,
    *,
    takes_over: bool,
) -> int:
    """Run the job; return the number of messages that this run has put into the table."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from entrepot.spark_ingest.job.reasons import JAVA_IS_GONE
    from entrepot.spark_ingest.job.run import start, watch
    from entrepot.spark_ingest.job.watching import JobMetrics, JobProgress, shown
    from entrepot.spark_ingest.session import open_session
    from entrepot.spark_ingest.stopping import Stopping

    console = Console(stderr=True, highlight=False)
    host, _, port = metrics_address.rpartition(":")
    figures = JobMetrics(host or "127.0.0.1", int(port)) if metrics_address else None
    total = 0

    def say(text: str) -> None:
        console.print(Text(printable(text)), soft_wrap=True)  # a line of a log is a line

    def show(progress: JobProgress) -> None:
        nonlocal total
        total += progress.rows
        if figures is not None:
            figures.update(progress)
        if console.is_terminal:
            live.update(shown(progress, total), refresh=True)
        else:
            lag = sum(progress.lags.values())
            say(f"batch {progress.batch}: {progress.rows} rows, {progress.rate:.0f} rows/s, {lag} waiting")

    stopping = Stopping()
    with stopping.listening(), Live(console=console, auto_refresh=False, transient=True) as live:
        if not console.is_terminal:
            say(f"starting Spark at {master}")
        live.update(Text(printable(f"starting Spark at {master}")), refresh=True)
        session = open_session(master, app_name=f"entrepot {settings.table}", java=java, settings=conf)
        stopping.has_spark = True
        try:
            running = start(session, settings, trigger, say, takes_over=takes_over, check=stopping.check)
            names = running.settings.columns
            say(
                f"device={names.device or 'the sub-topic'} sequence={names.sequence or '-'} "
                f"time={names.time or 'when it was published'} metrics={','.join(names.metrics) or '-'}"
            )
            watch(running, show, lambda: stopping.is_wanted)
        finally:
            if figures is not None:
                figures.close()
            with suppress(*JAVA_IS_GONE):
                session.stop()
    say(f"{total:,} messages are in {settings.table}")
    return total


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


def _table_path(table: str, checkpoint: str, *, native: bool, derive: bool) -> str:
    if "://" not in table:
        return str(Path(table).absolute())
    if not native or derive or not checkpoint:
        raise ValueError("a table at a URL takes --native, --no-derive and a --checkpoint that all processes see")
    return table


def _tls(text: str) -> tuple[str, str, str]:
    parts = [part.strip() for part in text.split(",")] if text else ["", "", ""]
    if len(parts) != 3:
        raise ValueError("--tls takes three paths, certificate, key and authority; leave those out that are not needed")
    return parts[0], parts[1], parts[2]


def _group(group: str, table: str, *, has_brokers: bool) -> str:
    if group == "-" or not has_brokers:
        return ""
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(table).name)
    return group or f"ingest-{kept}"


def _pairs(given: list[str] | None) -> Iterator[tuple[str, str]]:
    for each in given or []:
        name, is_pair, value = each.partition("=")
        if not is_pair:
            raise ValueError(f"NAME=VALUE is wanted, not {each!r}")
        yield name, value


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
