"""Ending a query when the process is asked to end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pyspark.sql.streaming.query import StreamingQuery


@contextmanager
def stopped_by_signals(query: StreamingQuery) -> Iterator[None]:
    """SIGTERM and SIGINT stop the query.  A batch under way is given up: the next start does it anew."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        query.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
