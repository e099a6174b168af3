"""Rooms: the messages that consumers can still take while some are handed out.

A channel's prefetch limit is one for all its consumers (basic.qos with `global`, as RabbitMQ reads 1.8.3.3).  So the
credit of two of them is not the sum of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


class SharedRoom(Protocol):
    """The room that some consumers have together."""

    @property
    def room(self) -> int: ...

    def __hash__(self) -> int: ...


class RoomyConsumer(Protocol):
    """A consumer as far as its room goes."""

    @property
    def credit(self) -> int:
        """Messages that it could be handed now, were it alone."""

    @property
    def shared_room(self) -> SharedRoom | None:
        """The room that it has with others, or None where it has its own alone."""

    def __hash__(self) -> int: ...


C = TypeVar("C", bound=RoomyConsumer)


class Rooms(Generic[C]):
    """The rooms of some consumers, as they are now, less what is taken here."""

    def __init__(self, consumers: Iterable[C]) -> None:
        self._own = {consumer: consumer.credit for consumer in consumers}
        shared = {each for consumer in self._own if (each := consumer.shared_room) is not None}
        self._shared = {each: each.room for each in shared}

    @property
    def total(self) -> int:
        """Messages that all of them can take."""
        alone = sum(own for consumer, own in self._own.items() if consumer.shared_room is None)
        together = dict.fromkeys(self._shared, 0)
        for consumer, own in self._own.items():
            if (shared := consumer.shared_room) is not None:
                together[shared] += own
        return alone + sum(min(most, self._shared[shared]) for shared, most in together.items())

    @property
    def are_apart(self) -> bool:
        """True if no two of the consumers have a room together."""
        return len(self._shared) == sum(consumer.shared_room is not None for consumer in self._own)

    def has(self, consumer: C) -> bool:
        """True if a consumer can take one more."""
        shared = consumer.shared_room
        return self._own[consumer] > 0 and (shared is None or self._shared[shared] > 0)

    def take(self, consumer: C) -> None:
        """Note one more message of a consumer."""
        self._own[consumer] -= 1
        if (shared := consumer.shared_room) is not None:
            self._shared[shared] -= 1
