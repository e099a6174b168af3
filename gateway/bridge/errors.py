"""Errors of bridges."""

from __future__ import annotations


class RemoteError(Exception):
    """The remote is away, refuses us, or ended the connection; a sentence without secrets."""


class LeaseLostError(Exception):
    """Another gateway runs the bridge now, or may soon: stop at once."""
