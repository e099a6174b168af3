"""Settings of the tier, for opening a store; nothing of an object store is imported here."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from typing import Any

from entrepot.domain.errors import StoreFailedError
from entrepot.domain.tiering import TierAddress


def check_installed() -> None:
    """Raise StoreFailedError where the packages of the tier are missing."""
    if any(find_spec(name) is None for name in ("pyarrow", "obstore")):
        raise StoreFailedError("tier.url is set: pip install 'entrepot[tiered]'")


class ReadPolicy(StrEnum):
    """The reads that go to the object store. RocketMQ's `tieredStorageLevel`."""

    DISABLED = "disabled"  # never: messages gone from the disk cannot be read
    NOT_IN_DISK = "not_in_disk"
    FORCE = "force"  # reads of offsets go there if it has them; pops, tails and queries as before


class Missing(StrEnum):
    """Answers to reads where messages are missing, which left the disk before they were uploaded."""

    SKIP = "skip"  # the next ones, and a warning in the log
    REFUSE = "refuse"  # COLD_CORRUPTED


class Payload(StrEnum):
    """A table's columns for bodies, beside the bodies."""

    NONE = "none"
    JSON = "json"  # typed columns of the fields of JSON objects


@dataclass(frozen=True, slots=True)
class TierSettings:
    """Settings of the tier. `url`: of the object store. `options`: how it is asked, by the names of `StoreOptions`.

    `number`: of the broker, which tells its queues from those of others. A segment has `segment_bytes` of the log, or
    the messages that waited for `max_age_seconds`, longer where many topics share `requests_per_hour`.
    `vacuum_grace_seconds`: time for which objects stay that no version needs. `max_kept_bytes`: of the log, for a topic
    that is stuck; beyond it retention goes on, and messages are lost. 0: no limit. `attach_endpoints`: those of
    attached tables, besides the tier's own, that get this broker's credentials. `attach_urls`: below which
    tables may be attached, besides the tier's own. `cluster`: merged segments have the messages of a sub-topic beside
    each other. `iceberg`: tables have metadata of Iceberg, too.
    """

    url: str
    number: int = 0
    segment_bytes: int = 32 << 20
    max_age_seconds: float = 30.0
    requests_per_hour: int = 20_000
    vacuum_grace_seconds: float = 24 * 3600.0
    cache_bytes: int = 128 << 20
    max_kept_bytes: int = 0
    attach_endpoints: tuple[str, ...] = ()
    attach_urls: tuple[str, ...] = ()
    read: ReadPolicy = ReadPolicy.NOT_IN_DISK
    options: dict[str, Any] = field(default_factory=dict)
    payload: Payload = Payload.NONE
    iceberg: bool = False
    missing: Missing = Missing.SKIP
    cluster: bool = True

    @property
    def address(self) -> TierAddress:
        """Address of the object store, for readers of the tables."""
        endpoint, region = self.options.get("endpoint") or "", self.options.get("region") or ""
        return TierAddress(self.url, endpoint, region, bool(self.options.get("allow_http")))
