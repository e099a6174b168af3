"""Subscriptions of the CloudEvents Subscriptions API: what is delivered where, kept as key-values."""
