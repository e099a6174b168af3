"""Rows of the state database that have changed since the last checkpoint."""
