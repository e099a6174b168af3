"""The reference store: dictionaries and lists, obviously correct, without persistence.  Property tests run it beside
the real one.  It confirms at once: memory is all its durability."""

from __future__ import annotations

from tests.support.stores.model_store.store import MemoryStore

__all__ = ["MemoryStore"]
