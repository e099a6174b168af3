"""Release of messages that were popped for a consumer that has gone meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from entrepot.domain.delivery import Receipt
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import Store

_releasing: Final[set[asyncio.Task[list[EntrepotError | None]]]] = set()
"""Running tasks: one without a reference may vanish."""

log = structlog.get_logger(__name__)


def release(store: Store, topic: str, group: str, receipts: Sequence[Receipt]) -> None:
    """Release messages at once, in the background; the delivery does not count as an attempt."""
    if receipts:
        task = asyncio.get_running_loop().create_task(
            store.consumption.change_invisible_duration(topic, group, receipts, 0, release=True, suspend=True)
        )
        _releasing.add(task)
        task.add_done_callback(_given_back)


def _given_back(task: asyncio.Task[list[EntrepotError | None]]) -> None:
    _releasing.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.info("messages popped for a client that left stay invisible until their lease ends", problem=str(error))
