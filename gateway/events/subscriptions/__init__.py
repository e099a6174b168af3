"""Subscriptions of the CloudEvents Subscriptions API, kept as key-values."""
