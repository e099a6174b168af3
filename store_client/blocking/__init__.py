"""The store for whoever has no event loop: jobs and scripts.  By brokers, a data directory that no server has open, or
the object store of cold messages.

`StoreLocation` says where the store is: a small value that goes from one process to another.  `open_reader` opens it
for reading by offset, `open_store` for everything that brokers do, `open_cold` for reading tables by their columns.
"""

from store_client.blocking.cold import ColdReader
from store_client.blocking.location import StoreLocation, open_cold, open_reader, open_store
from store_client.blocking.reader import BlockingReader
from store_client.blocking.store import BlockingStore

__all__ = ["BlockingReader", "BlockingStore", "ColdReader", "StoreLocation", "open_cold", "open_reader", "open_store"]
