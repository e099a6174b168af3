"""The store for code without an event loop: jobs and scripts.

It reads brokers, an Apache RocketMQ cluster, a data directory that no server has open, or the object store of cold
messages.  `StoreLocation` names the store: a small value that can be sent to another process.  `open_reader` opens it
for reading by offset, `open_store` for all operations of brokers, `open_cold` for reading tables by their columns.
"""

from entrepot.store_client.blocking.cold import ColdReader
from entrepot.store_client.blocking.location import (
    ROCKETMQ_IS_READ_ONLY,
    RocketMqPlace,
    StoreLocation,
    open_cold,
    open_reader,
    open_store,
)
from entrepot.store_client.blocking.reader import BlockingReader, MovesGroups
from entrepot.store_client.blocking.rocketmq import RocketMqReader
from entrepot.store_client.blocking.store import BlockingStore

__all__ = [
    "ROCKETMQ_IS_READ_ONLY",
    "BlockingReader",
    "BlockingStore",
    "ColdReader",
    "MovesGroups",
    "RocketMqPlace",
    "RocketMqReader",
    "StoreLocation",
    "open_cold",
    "open_reader",
    "open_store",
]
