"""This process's connections to stores: opened once and kept, since Spark's workers serve many tasks."""

from __future__ import annotations

import atexit
import logging

import structlog

from entrepot.domain.tiering import TierAddress
from entrepot.store_client.blocking import (
    BlockingReader,
    BlockingStore,
    ColdReader,
    StoreLocation,
    open_cold,
    open_reader,
    open_store,
)

_readers: dict[StoreLocation, BlockingReader] = {}
_cold_readers: dict[TierAddress, ColdReader] = {}


def reader_of(location: StoreLocation) -> BlockingReader:
    """The reader of a store."""
    reader = _readers.get(location)
    if reader is None:
        if not structlog.is_configured():  # a worker of Spark's: it logs faults only
            structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
        reader = _readers[location] = open_reader(location)
    return reader


def cold_reader_of(address: TierAddress) -> ColdReader:
    """The reader of an object store's tables. Raises UNSUPPORTED where packages are missing, BAD_REQUEST."""
    reader = _cold_readers.get(address)
    if reader is None:
        reader = _cold_readers[address] = open_cold(address)
    return reader


def store_of(location: StoreLocation) -> BlockingStore:
    """The brokers of a store. Raises BAD_REQUEST for a read-only one: a data directory, or a tier alone; UNSUPPORTED
    for RocketMQ."""
    if location.data_dir or location.has_tier_only or location.rocketmq:
        return open_store(location)
    found = reader_of(location)
    assert isinstance(found, BlockingStore)
    return found


@atexit.register
def close_readers() -> None:
    """Close all of them: a data directory is locked while it is read."""
    _cold_readers.clear()
    while _readers:
        _readers.popitem()[1].close()
