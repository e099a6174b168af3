"""Deliveries of stores for tests: each is the only one of its run, and has its receipt handle from the start."""

from __future__ import annotations

from entrepot.domain.delivery import Delivery, MessageRun
from entrepot.domain.message import StoredMessage


def single_delivery(message: StoredMessage, receipt_handle: str, attempt: int) -> Delivery:
    """Return a delivery known by its receipt handle."""
    return Delivery(MessageRun((receipt_handle,), attempt), 0, message)
