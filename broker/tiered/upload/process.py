"""The uploader's process. It ends when its broker does (end of file on the socket)."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from random import Random
from typing import Final

import structlog

from entrepot.broker.tiered.channel import BrokerChannel
from entrepot.broker.tiered.counted import CountedObjects
from entrepot.broker.tiered.opening_store import open_objects
from entrepot.broker.tiered.store_options import StoreOptions
from entrepot.broker.tiered.upload.uploader import Uploader
from entrepot.domain.errors import EntrepotError

ROUND_SECONDS: Final = 0.2
"""Pause between two looks for new messages, in seconds."""
log = structlog.get_logger(__name__)


class WallClock:
    """A `domain.clock.Clock` of the operating system."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def main(descriptor: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C at the terminal is for the broker
    channel = BrokerChannel(socket.socket(fileno=descriptor))
    setup = channel.setup()
    objects = CountedObjects(open_objects(setup.url, StoreOptions(**setup.options)))
    channel.failed = lambda: objects.failed
    uploader = Uploader(
        channel,
        objects,
        WallClock(),
        Random(setup.seed),
        time.monotonic,
        number=setup.number,
        writer=setup.writer,
        segment_bytes=setup.segment_bytes,
        max_age=setup.max_age_seconds,
        requests_per_hour=setup.requests_per_hour,
        grace=setup.vacuum_grace_seconds,
        payload=setup.payload,
        iceberg=setup.iceberg,
        token=setup.token,
        clusters=setup.cluster,
    )
    while True:
        try:
            has_more = uploader.round()
        except EntrepotError as refusal:  # the broker cannot answer now: it is asked again
            log.warning("a round of uploads failed; will retry", seldom="round", problem=refusal.message)
            has_more = False
        if not has_more:
            time.sleep(ROUND_SECONDS)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except EOFError:
        os._exit(0)  # without waiting for the libraries' threads
