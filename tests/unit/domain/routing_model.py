"""Exchanges and bindings as lists, and matching as one reads it in a description: the model that the table is held
against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.exchanges.exchange import PREDECLARED, Exchange


def topic_matches(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """By trying everything that a `#` may stand for."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(topic_matches(pattern[1:], words[taken:]) for taken in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and topic_matches(pattern[1:], words[1:])


def split(key: str) -> list[str]:
    return key.split(".") if key else []


def same(wanted: object, found: object) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    return wanted == found


def headers_match(arguments: Mapping[str, object], headers: Mapping[str, object]) -> bool:
    match = arguments.get("x-match", "all")
    wanted = [
        (name, value)
        for name, value in arguments.items()
        if name != "x-match" and (str(match).endswith("-with-x") or not name.startswith("x-"))
    ]
    hits = [name in headers and (value is None or same(value, headers[name])) for name, value in wanted]
    return any(hits) if str(match).startswith("any") else all(hits)


class RoutingModel:
    """No consistent hashes: what they choose has no description but themselves."""

    def __init__(self) -> None:
        self.exchanges: dict[str, Exchange] = {exchange.name: exchange for exchange in PREDECLARED}
        self.queues: list[str] = []
        self.bindings: list[Binding] = []
        self.policy_alternates: dict[str, str | None] = {}

    def matches(self, binding: Binding, keys: Sequence[str], headers: Mapping[str, object]) -> bool:
        kind = self.exchanges[binding.source].routing_type
        if kind == "fanout":
            return True
        if kind == "topic":
            return any(topic_matches(split(binding.routing_key), split(key)) for key in keys)
        if kind == "headers":
            return headers_match(binding.arguments, headers)
        return binding.routing_key in keys

    def route(self, exchange: str, keys: Sequence[str], headers: Mapping[str, object]) -> set[str]:
        found: set[str] = set()
        seen: set[str] = set()
        waiting = [exchange]
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self.exchanges:
                continue
            seen.add(name)
            if name == "":
                found |= {key for key in keys if key in self.queues}
                continue
            matched = [each for each in self.bindings if each.source == name and self.matches(each, keys, headers)]
            found |= {each.destination for each in matched if each.destination_kind is DestinationKind.QUEUE}
            waiting += [each.destination for each in matched if each.destination_kind is DestinationKind.EXCHANGE]
            if not matched and (alternate := self.alternate(name)) is not None:
                waiting.append(alternate)
        return found

    def alternate(self, name: str) -> str | None:
        own = self.exchanges[name].alternate
        return self.policy_alternates.get(name) if own is None else own

    # -- removals, one by one ----------------------------------------------------------------------------------------

    def unbind(self, binding: Binding) -> None:
        if binding not in self.bindings:
            return
        self.bindings.remove(binding)
        source = self.exchanges.get(binding.source)
        if source is not None and source.auto_delete and all(each.source != source.name for each in self.bindings):
            self.delete_exchange(source.name)

    def delete_queue(self, name: str) -> None:
        self.queues.remove(name)
        for binding in [each for each in self.bindings if self.leads_to(each, DestinationKind.QUEUE, name)]:
            self.unbind(binding)

    def delete_exchange(self, name: str) -> None:
        del self.exchanges[name]
        self.policy_alternates.pop(name, None)
        self.bindings = [each for each in self.bindings if each.source != name]
        for binding in [each for each in self.bindings if self.leads_to(each, DestinationKind.EXCHANGE, name)]:
            self.unbind(binding)

    @staticmethod
    def leads_to(binding: Binding, kind: DestinationKind, name: str) -> bool:
        return binding.destination_kind is kind and binding.destination == name
