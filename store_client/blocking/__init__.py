"""The store for code without an event loop: jobs and scripts.

It reads brokers, a data directory that no server has open, or the object store of cold messages.  `StoreLocation` names
the store: a small value that can be sent to another process.  `open_reader` opens it for reading by offset,
`open_store` for all operations of brokers, `open_cold` for reading tables by their columns.
"""

from entrepot.store_client.blocking.cold import ColdReader
from entrepot.store_client.blocking.location import StoreLocation, open_cold, open_reader, open_store
from entrepot.store_client.blocking.reader import BlockingReader
from entrepot.store_client.blocking.store import BlockingStore

__all__ = ["BlockingReader", "BlockingStore", "ColdReader", "StoreLocation", "open_cold", "open_reader", "open_store"]
