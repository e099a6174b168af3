"""The opening of a store: engine, tables, recovery."""
