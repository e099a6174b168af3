"""Ending of a query by a signal to the process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from entrepot.spark_ingest.job.run import Running


@contextmanager
def stopped_by_signals(running: Running) -> Iterator[None]:
    """Stop the query on SIGTERM and SIGINT. A batch under way is given up: the next start repeats it."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        running.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
