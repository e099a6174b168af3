"""Iceberg's metadata of a table: over the same files, made of Delta's log, for readers of Iceberg (ADR 71)."""
