"""Settings of a store, its tier and its backups."""
