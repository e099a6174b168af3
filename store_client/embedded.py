"""The store in this process: `broker.Broker` is the ports itself, so nothing stands between.

The engine is loaded when a function here is called, so that who imports this for its name alone never loads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.clock import Clock
from domain.ports import Store

if TYPE_CHECKING:
    from broker.settings import BrokerSettings


def embedded_settings(
    data_dir: Path,
    *,
    segment_size_bytes: int,
    preallocate_bytes: int,
    reserve_bytes: int,
    free_bytes: tuple[int, int, int],
    index_sizes: tuple[int, int],
    **others: Any,
) -> BrokerSettings:
    """The broker's settings out of plain values; `others` are fields of `BrokerSettings` by name.

    `free_bytes`: of the disk, below which it warns, refuses, and clears early.  `index_sizes`: slots and entries of an
    index file.
    """
    from broker.retention.watermarks import DiskWatermarks
    from broker.settings import BrokerSettings
    from broker.store.commit_log import CommitLogLayout
    from broker.store.index_file import IndexLayout

    return BrokerSettings(
        data_dir,
        layout=CommitLogLayout(segment_size_bytes, preallocate_bytes, reserve_bytes),
        watermarks=DiskWatermarks(*free_bytes),
        index=IndexLayout(*index_sizes),
        **others,
    )


async def open_embedded(settings: BrokerSettings, clock: Clock) -> Store:
    """Open the data directory; raises StoreFailedError or CorruptedError with the reason."""
    from broker.broker import Broker

    return await Broker.open(settings, clock)
