"""Filters of the Subscriptions API: dialects in JSON, and an index that asks many of them at once."""
