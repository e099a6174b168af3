"""Tables of single exchanges: the bindings that a message matches, by type of exchange.  A table returns
`Destinations`: one for each set of bindings that match together.  None of them is empty, so an empty answer means that
nothing matched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from entrepot.domain.exchanges.binding import Binding, DestinationKind

Fields = Callable[[], Mapping[str, object]]
"""Headers or properties of a message, decoded on demand."""


class RoutedMessage:
    """The parts of a message that routing reads.  Each is computed once, for all exchanges."""

    __slots__ = ("_headers", "_words", "headers_of", "properties_of", "routing_keys")

    def __init__(self, routing_keys: Sequence[str], headers_of: Fields, properties_of: Fields) -> None:
        self.routing_keys = routing_keys
        self.headers_of = headers_of
        self.properties_of = properties_of
        self._headers: Mapping[str, object] | None = None
        self._words: list[Sequence[str]] | None = None

    def headers(self) -> Mapping[str, object]:
        if self._headers is None:
            self._headers = self.headers_of()
        return self._headers

    def words(self) -> list[Sequence[str]]:
        """Return the words of each routing key.  An empty key has none; `.` has two, both empty."""
        if self._words is None:
            self._words = [key.split(".") if key else () for key in self.routing_keys]
        return self._words


class Destinations:
    """The destinations of a set of bindings, with the count of bindings to each."""

    __slots__ = ("exchanges", "queues")

    def __init__(self) -> None:
        self.queues: dict[str, int] = {}
        self.exchanges: dict[str, int] | None = None  # few bindings lead to exchanges

    def add(self, binding: Binding) -> None:
        counts = self._counts(binding)
        counts[binding.destination] = counts.get(binding.destination, 0) + 1

    def remove(self, binding: Binding) -> bool:
        """Remove a binding that was added; returns True if none is left."""
        counts = self._counts(binding)
        counts[binding.destination] -= 1
        if not counts[binding.destination]:
            del counts[binding.destination]
        return not self.queues and not self.exchanges

    def _counts(self, binding: Binding) -> dict[str, int]:
        if binding.destination_kind is DestinationKind.QUEUE:
            return self.queues
        if self.exchanges is None:
            self.exchanges = {}
        return self.exchanges


class ExchangeTable(Protocol):
    """The bindings of one exchange.  Each is added once, and removed only if it was added."""

    @property
    def is_by_key(self) -> bool:
        """True if the first routing key alone decides for a message with one key."""

    def add(self, binding: Binding) -> None: ...

    def remove(self, binding: Binding) -> None: ...

    def match(self, message: RoutedMessage) -> Iterable[Destinations]: ...


class DirectTable:
    """Bindings by routing key."""

    __slots__ = ("_by_key",)
    is_by_key = True

    def __init__(self) -> None:
        self._by_key: dict[str, Destinations] = {}

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.routing_key, Destinations()).add(binding)

    def remove(self, binding: Binding) -> None:
        if self._by_key[binding.routing_key].remove(binding):
            del self._by_key[binding.routing_key]

    def match(self, message: RoutedMessage) -> list[Destinations]:
        by_key = self._by_key
        return [by_key[key] for key in message.routing_keys if key in by_key]


class FanoutTable:
    """All bindings together."""

    __slots__ = ("_all",)
    is_by_key = True

    def __init__(self) -> None:
        self._all = Destinations()

    def add(self, binding: Binding) -> None:
        self._all.add(binding)

    def remove(self, binding: Binding) -> None:
        self._all.remove(binding)

    def match(self, message: RoutedMessage) -> tuple[Destinations, ...]:
        return (self._all,) if self._all.queues or self._all.exchanges else ()
