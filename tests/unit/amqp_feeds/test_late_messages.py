"""Which messages are late: behind any that was handed out of the same message queue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from entrepot.domain.delivery import DeliveryPlaces
from entrepot.gateway.amqp.feeds.late_messages import LateMessages
from entrepot.gateway.messaging.ticket import Ticket


class Run:
    """A run of the store's, which knows its places and makes no message."""

    def __init__(self, queue_id: int, first: int, attempt: int = 1) -> None:
        self.queue_id, self.first, self.attempt = queue_id, first, attempt

    def places(self, indexes: Any) -> DeliveryPlaces:
        return DeliveryPlaces(self.queue_id, b"", 0, 0, [self.first + index for index in indexes])

    def message(self, index: int, item: object) -> Any:
        raise AssertionError("a message is made for its offset alone")


def run(queue_id: int, *offsets: int, attempt: int = 1) -> list[Ticket]:
    made = Run(queue_id, offsets[0], attempt)
    consumer = SimpleNamespace(topic="t", group="g")
    return [Ticket(cast("Any", made), offset - offsets[0], b"", cast("Any", consumer), 0) for offset in offsets]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([run(0, 0, 1, 2), run(0, 3, 4)], [[0, 0, 0], [0, 0]]),
        ([run(0, 2, 3), run(0, 0, 1)], [[0, 0], [1, 1]]),
        ([run(0, 1), run(0, 0)], [[0], [1]]),
        ([run(0, 5), run(0, 5)], [[0], [1]]),  # itself, again
        ([run(0, 0, 1, 4), run(0, 2, 3), run(0, 5)], [[0, 0, 0], [1, 1], [0]]),
        ([run(0, 3), run(0, 1, 2, 3, 4)], [[0], [1, 1, 1, 0]]),
        ([run(0, 9), run(1, 0), run(1, 1)], [[0], [0], [0]]),
        ([run(0, 4) + run(0, 0, 1) + run(1, 0)], [[0, 1, 1, 0]]),
        ([run(0, 4), run(0, 0), run(0, 5)], [[0], [1], [0]]),
    ],
)
def test_messages_behind_newer_ones_are_late(turns: list[list[Ticket]], expected: list[list[int]]) -> None:
    late = LateMessages()
    for tickets in turns:
        late.mark(tickets)
    assert [[ticket.is_late for ticket in tickets] for tickets in turns] == expected


@pytest.mark.parametrize(("attempt", "is_late", "is_again"), [(1, False, False), (2, False, True), (1, True, True)])
def test_what_may_have_been_delivered_before(attempt: int, is_late: bool, is_again: bool) -> None:
    [ticket] = run(0, 0, attempt=attempt)
    ticket.is_late = is_late
    assert ticket.is_again == is_again


def test_nothing_is_late_of_nothing() -> None:
    LateMessages().mark([])
