"""The settings of a job, as a value that goes to wherever Spark runs the batches."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import orjson

from entrepot.domain.tiering import TierAddress
from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.tables import TableFormat
from entrepot.spark_ingest.tables.staging import replace_file
from entrepot.store_client.blocking import RocketMqPlace, StoreLocation

FOLDER: Final = "entrepot"
"""Folder in a checkpoint for the job's own files, beside Spark's."""
DEFAULT_MAX_OFFSETS: Final = 1_000_000
"""Messages of a batch: after a long stop a job catches up in pieces that fit into memory."""
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d|seconds?|minutes?|hours?|days?)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str) -> float:
    """Parse `10s`, `5m`, `1 hour`. Raises ValueError."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"a duration is a number with ms, s, m, h or d, such as 10s, not {text!r}")
    unit = found[2] if found[2] in _SECONDS else found[2][0]
    return int(found[1]) * _SECONDS[unit]


@dataclass(frozen=True)
class DeviceColumns:
    """The columns of the device, its sequence number and its time; empty for none. Without `device` the sub-topic
    stands for it. `metrics` are the numbers to aggregate."""

    device: str = ""
    sequence: str = ""
    time: str = ""
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobSettings:
    """One job. Durations are in seconds; without `watermark_seconds` no row is late."""

    location: StoreLocation
    table: str
    subscribe: str = ""
    subscribe_pattern: str = ""
    format: TableFormat = TableFormat.DELTA
    checkpoint: str = ""
    parse: Parse = Parse.JSON
    schema: str = ""
    filter: str = ""
    filter_type: str = "subTopic"
    starting: str = "earliest"
    fails_on_data_loss: bool = True
    max_offsets: int = DEFAULT_MAX_OFFSETS
    """Most messages of a batch; 0: no limit."""
    min_partitions: int | None = None
    includes_properties: bool = False
    columns: DeviceColumns = field(default_factory=DeviceColumns)
    watermark_seconds: float | None = None
    deduplicates: bool = False
    is_deriving: bool = True
    silence_seconds: float = 300.0
    optimise_every: int = 50
    vacuum_hours: int = 168
    group: str = ""
    catalog: tuple[tuple[str, str], ...] = ()
    is_native: bool = False
    """True if Delta is written by Spark's own library, whose jars it has."""

    @property
    def checkpoint_path(self) -> Path:
        """The folder of Spark's offsets of the job."""
        return checkpoint_of(self.table, self.checkpoint)

    @property
    def folder(self) -> Path:
        """The folder of the job's own files in its checkpoint."""
        return self.checkpoint_path / FOLDER

    def sibling(self, name: str) -> str:
        """The path of a table that belongs to this one."""
        return f"{self.table.rstrip('/')}_{name}"

    def source_options(self) -> dict[str, str]:
        """The options for `format("entrepot")`."""
        where, mq = self.location, self.location.rocketmq
        options = {
            "servers": ",".join(where.brokers),
            "nameServers": ",".join(where.name_servers),
            "dataDir": where.data_dir,
            "cluster": where.cluster,
            "zone": where.zone,
            "tls.certificate": where.tls[0],
            "tls.key": where.tls[1],
            "tls.ca": where.tls[2],
            "secretFile": where.secret_file,
            "rocketmq.nameServers": ",".join(mq.name_servers) if mq else "",
            "rocketmq.namespace": mq.namespace if mq else "",
            "rocketmq.addresses": ",".join(f"{told}={reached}" for told, reached in mq.addresses) if mq else "",
            "rocketmq.accessKey": mq.access_key if mq else "",
            "rocketmq.tls": "true" if mq and mq.has_tls else "",
            "tier.url": where.tier.url if where.tier else "",
            "tier.endpoint": where.tier.endpoint if where.tier else "",
            "tier.region": where.tier.region if where.tier else "",
            "tier.allowHttp": "true" if where.tier and where.tier.allow_http else "",
            "subscribe": self.subscribe,
            "subscribePattern": self.subscribe_pattern,
            "startingOffsets": self.starting,
            "filter": self.filter,
            "filterType": self.filter_type if self.filter else "",
            "schema": self.schema if self.parse is not Parse.NONE else "",
            "maxOffsetsPerTrigger": str(self.max_offsets or ""),
            "minPartitions": str(self.min_partitions or ""),
            "group": self.group,
        }
        return {name: value for name, value in options.items() if value} | {
            "parse": str(self.parse),
            "failOnDataLoss": str(self.fails_on_data_loss).lower(),
            "includeProperties": str(self.includes_properties).lower(),
        }


def checkpoint_of(table: str, checkpoint: str = "") -> Path:
    """The checkpoint of a job: the given one, else beside its table."""
    return Path(checkpoint or f"{table.rstrip('/')}_checkpoint").absolute()


def save_settings(settings: JobSettings) -> None:
    """Keep the settings in the checkpoint, for `status` and `report`, and for the same columns at a later start."""
    settings.folder.mkdir(parents=True, exist_ok=True)
    given = orjson.dumps(asdict(settings), option=orjson.OPT_INDENT_2)
    replace_file(settings.folder / "job.json", given)


def load_settings(checkpoint: Path) -> JobSettings | None:
    """The settings of an earlier start, or None."""
    path = checkpoint / FOLDER / "job.json"
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    where = found.pop("location")
    columns = found.pop("columns")
    tier, mq = where.pop("tier", None), where.pop("rocketmq", None)
    values = {name: _tuples(value) for name, value in where.items()}
    location = StoreLocation(
        **values,
        tier=None if tier is None else TierAddress(**tier),
        rocketmq=None if mq is None else RocketMqPlace(**{name: _tuples(value) for name, value in mq.items()}),
    )
    names = DeviceColumns(**{name: _tuples(value) for name, value in columns.items()})
    kept = {name: _tuples(value) for name, value in found.items()}
    settings = JobSettings(location=location, columns=names, **kept)
    return replace(settings, format=TableFormat(settings.format), parse=Parse(settings.parse))


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
