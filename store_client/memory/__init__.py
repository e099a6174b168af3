"""The reference store: dictionaries and lists, obviously right, nothing kept.

Property tests run it beside the real one, and examples use it.  It confirms at once: to be in memory is all the
durability it has.
"""

from __future__ import annotations

from store_client.memory.store import MemoryStore

__all__ = ["MemoryStore"]
