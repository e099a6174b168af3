"""The settings of a broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from entrepot.broker.settings.backup import BackupSettings
from entrepot.broker.settings.tier import TierSettings
from entrepot.broker.store.index_file import IndexLayout
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.broker.store.watermarks import DiskWatermarks
from entrepot.domain.definitions.consumer_group import ConsumerGroup


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings of a broker, with defaults for a laptop. Sizes are in bytes, times as named.

    `max_in_flight_per_queue`: most unsettled messages of a queue per group. `hold_back_limit`: spread of a group's
    window beyond which the message that holds it back moves to the retry topic.
    """

    data_dir: Path
    name: str = "broker"
    layout: CommitLogLayout = field(default_factory=CommitLogLayout)
    index: IndexLayout = field(default_factory=IndexLayout)
    flush_async: bool = False
    linger_ms: float = 0.2
    max_unconfirmed_bytes: int = 64 << 20
    max_message_bytes: int = 128 << 20
    max_in_flight_per_queue: int = 65_536
    hold_back_limit: int = 32_768
    checkpoint_interval_bytes: int = 64 << 20
    checkpoint_interval_seconds: float = 30.0
    retention_seconds: int = 72 * 3600
    retention_interval_seconds: float = 10.0
    watermarks: DiskWatermarks = field(default_factory=DiskWatermarks)
    transaction_check_after_ms: int = 6_000
    transaction_check_interval_ms: int = 30_000
    transaction_max_checks: int = 15
    clock_is_right: date | None = None
    tier: TierSettings | None = None
    backup: BackupSettings = field(default_factory=BackupSettings)
    group_defaults: ConsumerGroup = field(default_factory=lambda: ConsumerGroup("defaults"))
