"""The job that the options of `entrepot ingest` describe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from entrepot.domain.written_text import written_text
from entrepot.spark_ingest.ingest_options import IngestOptions
from entrepot.spark_ingest.job.run import AVAILABLE_NOW
from entrepot.spark_ingest.job.settings import DeviceColumns, JobSettings, seconds_of
from entrepot.spark_ingest.source.options import Parse, listed, rocketmq_place, tier_address
from entrepot.spark_ingest.tables import TableFormat
from entrepot.store_client.blocking import StoreLocation


@dataclass(frozen=True)
class GivenJob:
    """A job, and the Spark that runs it.  `trigger` is in Spark's words, `conf` Spark's settings, `metrics` the address
    where they are served.  `takes_over`: it may write a table that another job has written."""

    settings: JobSettings
    trigger: str
    master: str
    java: str
    conf: dict[str, str]
    metrics: tuple[str, int] | None
    takes_over: bool


def job_of(options: IngestOptions) -> GivenJob:
    """Return the job.  Raises ValueError or OSError for options that say none."""
    trigger = options.trigger
    return GivenJob(
        settings=_settings(options),
        trigger=trigger if trigger == AVAILABLE_NOW else f"{seconds_of(trigger)} seconds",
        master=options.master,
        java=options.java,
        conf=dict(_pairs(options.conf)),
        metrics=_address(options.metrics_address) if options.metrics_address else None,
        takes_over=options.take_over,
    )


def _settings(given: IngestOptions) -> JobSettings:
    return JobSettings(
        location=_location(given),
        table=_table_path(given.table, given.checkpoint, native=given.native, derive=given.derive),
        subscribe=given.topic,
        subscribe_pattern=given.topic_pattern,
        format=TableFormat(given.table_format),
        checkpoint=given.checkpoint,
        parse=Parse(given.parse),
        schema=_schema(given.schema),
        filter=given.filter,
        filter_type=given.filter_type,
        starting=given.start,
        fails_on_data_loss=given.data_loss,
        max_offsets=given.max_messages,
        includes_properties=given.properties,
        columns=DeviceColumns(given.device, given.sequence, given.time, listed(given.metrics)),
        watermark_seconds=seconds_of(given.watermark) if given.watermark else None,
        deduplicates=given.dedupe,
        is_deriving=given.derive and given.parse != Parse.NONE,
        silence_seconds=seconds_of(given.silence),
        optimise_every=given.optimise_every,
        vacuum_hours=given.vacuum_hours,
        group=_group(given),
        catalog=tuple(_pairs(given.catalog)),
        is_native=given.native,
    )


def _location(given: IngestOptions) -> StoreLocation:
    return StoreLocation(
        listed(given.server),
        listed(given.nameserver),
        str(Path(given.data_dir).absolute()) if given.data_dir else "",
        given.cluster,
        _tls(given.tls),
        str(Path(given.secret_file).absolute()) if given.secret_file else "",
        zone=given.zone,
        tier=tier_address(given.tier_url, given.tier_endpoint, given.tier_region, allow_http=given.tier_allow_http),
        rocketmq=rocketmq_place(
            given.rocketmq_nameserver,
            given.rocketmq_namespace,
            given.rocketmq_addresses,
            given.rocketmq_access_key,
            has_tls=given.rocketmq_tls,
        ),
    )


def _schema(text: str) -> str:
    return written_text(Path(text[1:]).read_bytes()).strip() if text.startswith("@") else text


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal():
        raise ValueError(f"HOST:PORT is wanted, not {text!r}")
    return host or "127.0.0.1", int(port)


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


def _group(given: IngestOptions) -> str:
    """The group that follows the job.  In a RocketMQ cluster, which is others', only one that is named."""
    if given.group == "-" or not (given.server or given.nameserver or given.rocketmq_nameserver):
        return ""
    if given.group or given.rocketmq_nameserver:
        return given.group
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(given.table).name)
    return f"ingest-{kept}"


def _pairs(given: list[str] | None) -> Iterator[tuple[str, str]]:
    for each in given or []:
        name, is_pair, value = each.partition("=")
        if not is_pair:
            raise ValueError(f"NAME=VALUE is wanted, not {each!r}")
        yield name, value
