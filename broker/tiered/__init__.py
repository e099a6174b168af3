"""Tiered storage: months of messages in an object store, as Delta tables that anybody can read."""
