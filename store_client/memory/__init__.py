"""The reference store: dictionaries and lists, obviously correct, without persistence.  Property tests run it beside
the real one, and examples use it.  It confirms at once: memory is all its durability."""

from __future__ import annotations

from entrepot.store_client.memory.store import MemoryStore

__all__ = ["MemoryStore"]
