"""The exchanges and bindings of one vhost, and the queues of a message.

The table changes in small steps and is asked for every message.  It knows which entities exist and what a removal takes
along; it does not know who declared them, nor where they are stored.  Invariants: both ends of every binding exist; a
change removes cached routes from all exchanges that they came through.

ADR 23: exchanges are key-values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges.binding import Binding, DestinationKind, check_binding
from entrepot.domain.exchanges.exchange import (
    DEFAULT_EXCHANGE,
    PREDECLARED,
    RANDOM_TYPES,
    Exchange,
    ExchangeType,
    exchange_text,
    not_found,
)
from entrepot.domain.exchanges.hash import HashTable
from entrepot.domain.exchanges.headers import HeadersTable
from entrepot.domain.exchanges.one_of import OneOfTable, Pick, by_chance, by_modulus, in_turn
from entrepot.domain.exchanges.remembered_routes import RememberedRoutes
from entrepot.domain.exchanges.table import DirectTable, ExchangeTable, FanoutTable, Fields, RoutedMessage
from entrepot.domain.exchanges.topic import TopicTable
from entrepot.domain.field_value import no_arguments

MAX_EXCHANGES: Final = 100_000
MAX_BINDINGS: Final = 1_000_000
"""Limits of one vhost."""
_NONE: Final[Mapping[Binding, None]] = {}


@dataclass(frozen=True, slots=True)
class UnknownExchange:
    """The answer for a message to a missing exchange."""

    name: str

    def refusal(self, vhost: str) -> EntrepotError:
        return not_found(self.name, vhost)


@dataclass(frozen=True, slots=True)
class Removal:
    """A removal with all that follows from it, in that order."""

    bindings: tuple[Binding, ...] = ()
    exchanges: tuple[str, ...] = ()
    queue: str | None = None


class _Entry:
    """An exchange with its bindings.  `consulted`: a cached route may have come through it.  `leading`: bindings that
    lead to it; `feeders`: the sources of these, with their counts."""

    __slots__ = ("alternate", "bindings", "consulted", "exchange", "feeders", "leading", "routes", "table")

    def __init__(self, exchange: Exchange, pick: Pick) -> None:
        self.exchange = exchange
        self.table = _table(exchange, pick)
        self.bindings: dict[Binding, None] = {}
        self.leading: dict[Binding, None] = {}
        self.feeders: dict[str, int] = {}
        self.alternate = exchange.alternate
        self.routes = RememberedRoutes()
        self.consulted = False


class Routing:
    """Exchanges, bindings and the names of queues of one vhost.  `pick`: for random exchanges; without it their
    bindings come in turn."""

    def __init__(self, vhost: str = "/", pick: Pick | None = None) -> None:
        self.vhost, self._pick = vhost, pick or in_turn()
        self._entries = {exchange.name: _Entry(exchange, self._pick) for exchange in PREDECLARED}
        self._queues: dict[str, dict[Binding, None]] = {}  # with the bindings that lead to each
        self._alternates_of: dict[str, dict[str, None]] = {}  # exchanges by their alternate
        self._bindings = 0
        self._random_exchanges = 0

    # -- routes of messages ------------------------------------------------------------------------------------------

    def route(
        self,
        exchange: str,
        routing_keys: Sequence[str],
        headers: Fields = no_arguments,
        properties: Fields = no_arguments,
    ) -> tuple[str, ...] | UnknownExchange:
        """Return the queues that get the message, each once.  `routing_keys`: its own first, then those of CC and BCC.
        `headers` is called only if an exchange on the way looks at headers, `properties` (correlation_id, message_id,
        timestamp) only if one hashes them."""
        entry = self._entries.get(exchange)
        if entry is None:
            return UnknownExchange(exchange)
        if len(routing_keys) == 1:
            key = routing_keys[0]
            found = entry.routes.recent.get(key)
            if found is not None:
                return found
            if exchange == DEFAULT_EXCHANGE:
                return (key,) if key in self._queues else ()
            found = entry.routes.find(key)
            if found is not None:
                return found
        elif exchange == DEFAULT_EXCHANGE:
            return tuple(dict.fromkeys(key for key in routing_keys if key in self._queues))
        queues, is_by_key = self._walk(entry, RoutedMessage(routing_keys, headers, properties))
        if is_by_key and len(routing_keys) == 1:
            entry.routes.keep(routing_keys[0], queues)
        return queues

    def _walk(self, first: _Entry, message: RoutedMessage) -> tuple[tuple[str, ...], bool]:
        """Return the queues, and True if the routing key alone decided.  Each exchange is asked once, so cycles end."""
        queues: dict[str, int] = {}
        seen = {first.exchange.name}
        waiting = [first]
        is_by_key = True
        while waiting:
            entry = waiting.pop()
            entry.consulted = True
            is_by_key = is_by_key and entry.table.is_by_key
            following: list[str] = []
            matched = False
            for destinations in entry.table.match(message):
                matched = True
                queues.update(destinations.queues)
                if destinations.exchanges:
                    following += destinations.exchanges
            if not matched and entry.alternate is not None:
                is_by_key = self._go_on_to_alternate(entry.alternate, message, queues, following) and is_by_key
            for name in following:
                if name not in seen:
                    seen.add(name)
                    waiting.append(self._entries[name])
        return tuple(queues), is_by_key

    def _go_on_to_alternate(
        self, name: str, message: RoutedMessage, queues: dict[str, int], following: list[str]
    ) -> bool:
        """Add the alternate to the exchanges to visit; a missing one is skipped.  Returns False for the default
        exchange: it answers at once, and its answer changes with any queue, so it is not cached."""
        if name == DEFAULT_EXCHANGE:
            queues.update((key, 1) for key in message.routing_keys if key in self._queues)
            return False
        if name in self._entries:
            following.append(name)
        return True

    # -- look-up -----------------------------------------------------------------------------------------------------

    def exchange(self, name: str) -> Exchange | None:
        entry = self._entries.get(name)
        return None if entry is None else entry.exchange

    @property
    def is_random(self) -> bool:
        """True if messages that are alike may go to different queues."""
        return self._random_exchanges > 0

    def exchanges(self) -> Iterator[Exchange]:
        return (entry.exchange for entry in self._entries.values())

    def has_binding(self, binding: Binding) -> bool:
        entry = self._entries.get(binding.source)
        return entry is not None and binding in entry.bindings

    @property
    def binding_count(self) -> int:
        return self._bindings

    def bindings_of_source(self, exchange: str) -> tuple[Binding, ...]:
        """Return the bindings of an exchange, oldest first, without those of every queue to the default exchange."""
        entry = self._entries.get(exchange)
        return () if entry is None else tuple(entry.bindings)

    def bindings_of_destination(self, kind: DestinationKind, name: str) -> tuple[Binding, ...]:
        """Return the bindings that lead to a queue or an exchange, oldest first."""
        return tuple(self._leading(kind, name))

    def _leading(self, kind: DestinationKind, name: str) -> Mapping[Binding, None]:
        if kind is DestinationKind.QUEUE:
            return self._queues.get(name, _NONE)
        entry = self._entries.get(name)
        return _NONE if entry is None else entry.leading

    def is_bound(self, exchange: str) -> bool:
        """True if the exchange is the source of bindings, and so in use."""
        entry = self._entries.get(exchange)
        return entry is not None and bool(entry.bindings)

    # -- additions ---------------------------------------------------------------------------------------------------

    def check_room(self, exchange: Exchange | None = None) -> None:
        """Raise PRECONDITION_FAILED if the vhost is full of exchanges, or else of bindings.  Checked before a
        declaration; definitions from the store are always accepted."""
        if exchange is not None and exchange.name not in self._entries and len(self._entries) >= MAX_EXCHANGES:
            of = exchange_text(exchange.name, self.vhost)
            raise EntrepotError(
                Code.PRECONDITION_FAILED, f"cannot declare {of}: exchange limit of {MAX_EXCHANGES} is reached"
            )
        if exchange is None and self._bindings >= MAX_BINDINGS:
            raise EntrepotError(
                Code.PRECONDITION_FAILED, f"vhost '{self.vhost}' has {MAX_BINDINGS} bindings, which is the limit"
            )

    def declare_queue(self, name: str) -> bool:
        """Add a queue; returns True if it is new."""
        if name in self._queues:
            return False
        self._queues[name] = {}
        return True

    def declare_exchange(self, exchange: Exchange) -> bool:
        """Add an exchange that passed `check_exchange`; returns True if it is new.  An existing one stays."""
        if exchange.name in self._entries:
            return False
        self._entries[exchange.name] = entry = _Entry(exchange, self._pick)
        self._random_exchanges += exchange.routing_type in RANDOM_TYPES
        self._note_alternate(entry, None, entry.alternate)
        self._forget_all(self._alternates_of.get(exchange.name, ()))
        return True

    def set_policy_alternate(self, exchange: str, alternate: str | None) -> None:
        """Set the alternate that a policy gives the exchange, or None.  The exchange's own argument wins."""
        entry = self._entries.get(exchange)
        if entry is None:
            return
        wanted = alternate if entry.exchange.alternate is None else entry.exchange.alternate
        if wanted != entry.alternate:
            self._note_alternate(entry, entry.alternate, wanted)
            entry.alternate = wanted
            self._forget_all((exchange,))

    def bind(self, binding: Binding) -> bool:
        """Add a binding; returns True if it is new.  Raises as `check_binding`, and TOPIC_NOT_FOUND if one of its ends
        is missing."""
        entry = self._entries.get(binding.source)
        if entry is None:
            raise not_found(binding.source, self.vhost)
        check_binding(binding, entry.exchange.routing_type)
        self._check_destination(binding)
        if binding in entry.bindings:
            return False
        entry.bindings[binding] = None
        entry.table.add(binding)
        if binding.destination_kind is DestinationKind.QUEUE:
            self._queues[binding.destination][binding] = None
        else:
            destination = self._entries[binding.destination]
            destination.leading[binding] = None
            destination.feeders[binding.source] = destination.feeders.get(binding.source, 0) + 1
        self._bindings += 1
        self._forget_all((binding.source,))
        return True

    def _check_destination(self, binding: Binding) -> None:
        if binding.destination_kind is DestinationKind.EXCHANGE:
            if binding.destination not in self._entries:
                raise not_found(binding.destination, self.vhost)
        elif binding.destination not in self._queues:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"no queue '{binding.destination}' in vhost '{self.vhost}'")

    # -- removals ----------------------------------------------------------------------------------------------------

    def removal_of_binding(self, binding: Binding) -> Removal:
        """Return the removal of a binding: its auto-delete source follows with its last binding, and so on.  Empty if
        the binding does not exist."""
        return self._removal([binding] if self.has_binding(binding) else [])

    def removal_of_queue(self, name: str) -> Removal:
        """Return the removal of a queue: the bindings that lead to it, and all that follows."""
        if name not in self._queues:
            return Removal()
        return self._removal(list(self._queues[name]), queue=name)

    def removal_of_exchange(self, name: str) -> Removal:
        """Return the removal of an exchange: its bindings and those that lead to it, and all that follows."""
        entry = self._entries.get(name)
        if entry is None:
            return Removal()
        lost = [*entry.bindings, *entry.leading]
        return self._removal(lost, exchange=name)

    def _removal(self, lost: list[Binding], *, exchange: str | None = None, queue: str | None = None) -> Removal:
        """Follow lost bindings to auto-delete exchanges that lose their last one."""
        bindings: dict[Binding, None] = {}
        exchanges: dict[str, None] = {} if exchange is None else {exchange: None}
        left: dict[str, int] = {}
        for binding in lost:  # it grows while it is walked
            if binding in bindings:
                continue
            bindings[binding] = None
            source = self._entries[binding.source]
            left[binding.source] = left.get(binding.source, len(source.bindings)) - 1
            if source.exchange.auto_delete and not left[binding.source]:
                exchanges[binding.source] = None
                lost += source.leading
        return Removal(tuple(bindings), tuple(exchanges), queue)

    def remove(self, removal: Removal) -> None:
        """Remove everything that a removal names, and the bindings of its exchanges; missing ones are skipped."""
        for binding in removal.bindings:
            self._unbind(binding)
        for name in removal.exchanges:
            self._remove_exchange(name)
        if removal.queue is not None and removal.queue in self._queues:
            for binding in tuple(self._queues[removal.queue]):
                self._unbind(binding)
            del self._queues[removal.queue]

    def _remove_exchange(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is None:
            return
        for binding in (*entry.bindings, *entry.leading):
            self._unbind(binding)
        self._forget_all((name,))
        self._note_alternate(entry, entry.alternate, None)
        self._random_exchanges -= entry.exchange.routing_type in RANDOM_TYPES
        del self._entries[name]

    def _unbind(self, binding: Binding) -> None:
        entry = self._entries.get(binding.source)
        if entry is None or binding not in entry.bindings:
            return
        self._forget_all((binding.source,))
        del entry.bindings[binding]
        entry.table.remove(binding)
        self._bindings -= 1
        if binding.destination_kind is DestinationKind.QUEUE:
            del self._queues[binding.destination][binding]
            return
        destination = self._entries[binding.destination]
        del destination.leading[binding]
        destination.feeders[binding.source] -= 1
        if not destination.feeders[binding.source]:
            del destination.feeders[binding.source]

    # -- cached routes -----------------------------------------------------------------------------------------------

    def _note_alternate(self, entry: _Entry, before: str | None, after: str | None) -> None:
        name = entry.exchange.name
        if before is not None:
            of = self._alternates_of[before]
            del of[name]
            if not of:
                del self._alternates_of[before]
        if after is not None:
            self._alternates_of.setdefault(after, {})[name] = None

    def _forget_all(self, names: Sequence[str] | Mapping[str, None]) -> None:
        """Forget the routes through these exchanges, and through those that lead to them.  An exchange not consulted
        since its last reset is in no cached route, nor is any above it by way of it: the walk ends there.  So a change
        costs no more than the routes before it."""
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            entry = self._entries.get(name)
            if entry is None or not entry.consulted:
                continue
            entry.consulted = False
            entry.routes.clear()
            waiting += entry.feeders
            waiting += self._alternates_of.get(name, ())


def _table(exchange: Exchange, pick: Pick) -> ExchangeTable:
    kind = exchange.routing_type
    if kind is ExchangeType.FANOUT:
        return FanoutTable()
    if kind is ExchangeType.TOPIC:
        return TopicTable()
    if kind is ExchangeType.HEADERS:
        return HeadersTable()
    if kind is ExchangeType.CONSISTENT_HASH:
        return HashTable(exchange.arguments)
    if kind is ExchangeType.MODULUS_HASH:
        return OneOfTable(by_modulus, is_by_key=True)
    if kind in RANDOM_TYPES:
        return OneOfTable(by_chance(pick), is_by_key=False)
    return DirectTable()
