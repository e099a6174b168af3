"""The options of `entrepot ingest`: what they are called, take and say.  It loads nothing of Spark."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

Table = Annotated[
    str, typer.Option("--table", metavar="DIR", help="Directory or URL of the table.", show_default=False)
]
Checkpoint = Annotated[
    str,
    typer.Option("--checkpoint", metavar="DIR", help="Checkpoint directory of Spark.", show_default="TABLE_checkpoint"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class IngestOptions:
    """The options as they were given, in the order of `--help`."""

    table: Table = ""
    topic: Annotated[str, typer.Option(metavar="NAME,...", help="Names of the topics.")] = ""
    topic_pattern: Annotated[str, typer.Option(metavar="REGEX", help="Regular expression of the topic names.")] = ""
    server: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="Addresses of brokers.")] = ""
    nameserver: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="Addresses of name servers.")] = ""
    rocketmq_nameserver: Annotated[
        str, typer.Option(metavar="HOST:PORT,...", help="Name servers of an Apache RocketMQ cluster.")
    ] = ""
    rocketmq_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="RocketMQ's namespace of topics without one.")
    ] = ""
    rocketmq_addresses: Annotated[
        str, typer.Option(metavar="TOLD=REACHED,...", help="Places to connect to instead of those that brokers tell.")
    ] = ""
    rocketmq_access_key: Annotated[
        str, typer.Option(metavar="KEY", help="Access key at RocketMQ; its secret is in --secret-file.")
    ] = ""
    rocketmq_tls: Annotated[bool, typer.Option("--rocketmq-tls", help="TLS to RocketMQ, also without --tls.")] = False
    data_dir: Annotated[str, typer.Option(metavar="DIR", help="Data directory that no server uses.")] = ""
    tier_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Object store of cold messages; without brokers the only source.",
            show_default="told by brokers",
        ),
    ] = ""
    tier_endpoint: Annotated[
        str, typer.Option(metavar="URL", help="Endpoint of the object store, unless it is the provider's.")
    ] = ""
    tier_region: Annotated[str, typer.Option(metavar="NAME", help="Region of the object store.")] = ""
    tier_allow_http: Annotated[
        bool, typer.Option("--tier-allow-http", help="Allow an object store endpoint without TLS.")
    ] = False
    cluster: Annotated[str, typer.Option(metavar="NAME", help="Cluster name, among those of the name servers.")] = ""
    zone: Annotated[str, typer.Option(metavar="ZONE", help="Zone of the replicas to read, if it has any.")] = ""
    tls: Annotated[str, typer.Option(metavar="CERT,KEY,CA", help="PEM files for the brokers' TLS.")] = ""
    secret_file: Annotated[
        str, typer.Option(metavar="FILE", help="File with the cluster's secret, or that of RocketMQ's access key.")
    ] = ""
    table_format: Annotated[str, typer.Option("--format", help="Table format: delta, parquet or iceberg.")] = "delta"
    trigger: Annotated[
        str, typer.Option(help="Trigger: availableNow, or the interval between batches, such as 10s.")
    ] = "availableNow"
    master: Annotated[str, typer.Option(help="Spark master: local[*,4], spark://…, k8s://…, sc://… .")] = "local[*,4]"
    checkpoint: Checkpoint = ""
    parse: Annotated[str, typer.Option(help="Format of message bodies: json, cbor or none.")] = "json"
    schema: Annotated[
        str, typer.Option(metavar="DDL|@FILE", help="Columns of message bodies.", show_default="found")
    ] = ""
    filter: Annotated[str, typer.Option(help="Filter of messages, evaluated by the store.")] = ""
    filter_type: Annotated[str, typer.Option(help="Kind of the filter: subTopic, sql92 or tag.")] = "subTopic"
    start: Annotated[
        str, typer.Option("--from", help="Position of the first start: earliest, latest or offsets (JSON).")
    ] = "earliest"
    max_messages: Annotated[int, typer.Option(min=1, help="Maximum number of messages in a batch.")] = 1_000_000
    data_loss: Annotated[
        bool, typer.Option("--fail-on-data-loss/--no-fail-on-data-loss", help="Stop if messages are gone.")
    ] = True
    properties: Annotated[bool, typer.Option("--properties", help="Keep message properties.")] = False
    device: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the sending device.", show_default="found")
    ] = ""
    sequence: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the device's sequence number.", show_default="found")
    ] = ""
    time: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the device's time.", show_default="found")] = ""
    metrics: Annotated[
        str, typer.Option(metavar="COLUMN,...", help="Columns of numbers to aggregate.", show_default="all")
    ] = ""
    watermark: Annotated[
        str, typer.Option(metavar="TIME", help="Age beyond which rows are late and go to a table of their own.")
    ] = ""
    dedupe: Annotated[bool, typer.Option("--dedupe", help="Keep one row for each device and sequence number.")] = False
    derive: Annotated[bool, typer.Option(help="Make the tables of minutes, devices and gaps.")] = True
    silence: Annotated[str, typer.Option(metavar="TIME", help="Silence of a device that counts as a gap.")] = "5m"
    optimise_every: Annotated[
        int, typer.Option(min=0, help="Number of batches between optimise and vacuum; 0: never.")
    ] = 50
    vacuum_hours: Annotated[
        int, typer.Option(min=0, help="Retention of unreferenced files, which readers may still need, in hours.")
    ] = 168
    group: Annotated[str, typer.Option(help="Consumer group that shows the lag; - for none.")] = ""
    metrics_address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Listening address of metrics for Prometheus.")
    ] = ""
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Write a table that another job has written, which then stops.")
    ] = False
    native: Annotated[
        bool, typer.Option("--native", help="Write Delta with Spark's own library; its jars must be installed.")
    ] = False
    conf: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Setting of Spark; may be repeated.")] = (
        None
    )
    catalog: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Setting of pyiceberg's catalog; may be repeated.")
    ] = None
    java: Annotated[str, typer.Option(metavar="PATH", help="Path of Java.", show_default="found")] = ""
    as_json: Json = False


def with_options(command: Callable[[typer.Context, IngestOptions], None]) -> Callable[..., None]:
    """Return the command as Typer takes it: with each option as a parameter."""

    @wraps(command)
    def called(ctx: typer.Context, **given: Any) -> None:
        command(ctx, IngestOptions(**given))

    types = get_type_hints(IngestOptions, include_extras=True)
    by_name = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *(
            inspect.Parameter(each.name, by_name, default=each.default, annotation=types[each.name])
            for each in fields(IngestOptions)
        ),
    ]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called
