"""SetApart: deliveries that a transaction has settled, until it ends.

As in RabbitMQ, their tags are unknown from then on, also to basic.recover. Their room in a prefetch limit is free at
the commit only. After a rollback they are unsettled again, in the order of their tags.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from entrepot.gateway.amqp.connections.templates import Held
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.protocols.amqp.connection_events import Settlement
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.reply_codes import ReplyCode

Apart: TypeAlias = Iterator[list[Held]] | None
"""Deliveries of one settlement after the other; None for those that the channel holds."""


class SetApart:
    """The deliveries of one channel's transaction; `count`: their number."""

    __slots__ = ("_settled", "count")

    def __init__(self) -> None:
        self._settled: list[tuple[Settlement, dict[int, Held]]] = []
        self.count = 0

    def add(self, settlement: Settlement, taken: dict[int, Held]) -> None:
        """Set the deliveries of a settlement apart, by their tags."""
        self._settled.append((settlement, taken))
        self.count += len(taken)

    def queues(self) -> set[Queue]:
        """The queues of the deliveries."""
        return {held.member.queue for _, taken in self._settled for held in taken.values()}

    def end(self) -> tuple[list[Settlement], list[list[Held]]]:
        """Return the settlements and the deliveries of each, which are to be settled now."""
        settled, self._settled, self.count = self._settled, [], 0
        return [settlement for settlement, _ in settled], [list(taken.values()) for _, taken in settled]

    def give_back(self, held: dict[int, Held]) -> None:
        """Put all that were set apart among the unsettled deliveries again, in the order of their tags."""
        settled, self._settled, self.count = self._settled, [], 0
        if not settled:
            return
        for _, taken in settled:
            held |= taken
        ordered = sorted(held.items())
        held.clear()
        held.update(ordered)


def tags_up_to(held: dict[int, Held], method: int, tag: int, next_tag: int) -> list[int]:
    """Return the unsettled tags up to one, all of them for 0.  Raises PRECONDITION_FAILED for an unknown tag."""
    if tag and tag not in held and (tag >= next_tag or not held or tag < next(iter(held))):
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}", 60, method)
    return [each for each in held if not tag or each <= tag]
