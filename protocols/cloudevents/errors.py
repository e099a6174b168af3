"""Faults of an event itself."""

from __future__ import annotations


class CloudEventError(ValueError):
    """The input is not a valid CloudEvent.  `attribute` names the attribute at fault, if it is one."""

    def __init__(self, message: str, attribute: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.attribute = attribute


class UnsupportedFormatError(CloudEventError):
    """A structured or batched event in an event format other than JSON (HTTP binding 1.4: only JSON is required)."""


class BatchTooLargeError(CloudEventError):
    """A batch with too many events."""
