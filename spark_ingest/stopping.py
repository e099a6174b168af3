"""Ending a query when the process is asked to end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from spark_ingest.job.run import Running


@contextmanager
def stopped_by_signals(running: Running) -> Iterator[None]:
    """SIGTERM and SIGINT stop the query.  A batch under way is given up: the next start does it anew."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        running.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
