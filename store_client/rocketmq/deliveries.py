"""Deliveries of a cluster: each is the only one of its run, and its receipt handle is written when it is asked for.

Most deliveries are settled by the gateway that took them, which has the broker's receipt at hand and needs no text.
"""

from __future__ import annotations

from typing import Final

from entrepot.domain.delivery import Delivery, MessageRun, Receipt
from entrepot.domain.message import StoredMessage
from entrepot.protocols.rocketmq.cluster_handle import ClusterHandle
from entrepot.protocols.rocketmq.remoting.messages import UNIQUE_KEY
from entrepot.protocols.rocketmq.remoting.receipts import PopReceipt
from entrepot.protocols.rocketmq.remoting.records import Record

MAX_KEY_CHARACTERS: Final = 64
"""Longest unique key in a handle; RocketMQ's have 32, and brokers only repeat it."""


class ClusterRun(MessageRun):
    """The run of one delivery.  `topic` and `group` are those that were popped."""

    __slots__ = ("_key", "group", "receipt", "topic")

    def __init__(self, topic: str, group: str, receipt: PopReceipt, record: Record, attempt: int) -> None:
        super().__init__((), attempt)
        self.topic, self.group, self.receipt = topic, group, receipt
        self._key = record.properties.get(UNIQUE_KEY, "")[:MAX_KEY_CHARACTERS]

    @property
    def is_told(self) -> bool:
        """True once the receipt handle was asked for."""
        return bool(self._handles)

    def handle(self, index: int) -> str:
        if not self._handles:
            receipt = self.receipt
            told = receipt.broker, self._key, receipt.text, self.attempt, receipt.queue_id
            self._handles = (ClusterHandle(self.topic, self.group, *told).encode(),)
        return self._handles[index]


def delivery_of(message: StoredMessage, run: ClusterRun) -> Delivery:
    """Return the delivery of a message."""
    return Delivery(run, 0, message)


def untold_run(receipt: Receipt) -> ClusterRun | None:
    """Return the run of a delivery of a cluster whose handle nobody has asked for: nobody can have renewed it."""
    run = receipt.run if isinstance(receipt, Delivery) else None
    return run if isinstance(run, ClusterRun) and not run.is_told else None
