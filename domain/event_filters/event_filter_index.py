"""An index of event filters: it finds the subscriptions for an event at a cost that follows the matches.

Each subscription is filed under one condition that its filters require (`necessary_condition.py`).  It is a hash by the
values of attributes, a prefix tree of beginnings or of ends, or an attribute that must be present.  Among the usable
conditions the one with the fewest filters is chosen.  An event looks up its own attributes, and evaluates only the
filters found.  Filters without such a condition, such as a lone `not`, are evaluated for every event; equal ones once.

ADR 26: filters share one index. Invariant: it finds exactly the subscriptions whose filters match.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

from entrepot.domain.event_filters.event_filter import AttributeTexts, EventFilters
from entrepot.domain.event_filters.necessary_condition import (
    WEIGHTS,
    Clause,
    Condition,
    EndsWith,
    Equals,
    Present,
    StartsWith,
    necessity_of,
)
from entrepot.domain.event_filters.prefix_tree import PrefixTree
from entrepot.domain.expression.cesql.value import Attributes, to_string

MAX_SIGNATURES: Final = 64
"""Most sets of attributes that are looked up together: every event looks up each of them once."""

K = TypeVar("K", bound=Hashable)


class _Entry(Generic[K]):
    """All subscriptions of equal filters.  `certain`: its conditions imply its filters."""

    __slots__ = ("certain", "conditions", "filters", "keys")

    def __init__(self, filters: EventFilters) -> None:
        self.filters = filters
        self.keys: dict[K, None] = {}
        self.conditions: Clause | None = None
        self.certain = False


Bucket = dict[_Entry[K], None]


class _AttributeTable(Generic[K]):
    """The filters indexed by one attribute's value."""

    __slots__ = ("equal", "prefixes", "present", "suffixes")

    def __init__(self) -> None:
        self.equal: dict[str, Bucket[K]] = {}
        self.prefixes: PrefixTree[Bucket[K]] = PrefixTree()
        self.suffixes: PrefixTree[Bucket[K]] = PrefixTree()  # of reversed texts
        self.present: dict[str, Bucket[K]] = {}  # one, of the empty text

    def __bool__(self) -> bool:
        return bool(self.equal or self.prefixes or self.suffixes or self.present)

    def found(self, text: str, entries: list[_Entry[K]]) -> None:
        """Add the entries that match this value."""
        bucket = self.equal.get(text)
        if bucket is not None:
            entries.extend(bucket)
        if self.prefixes:
            for each in self.prefixes.found(text):
                entries.extend(each)
        if self.suffixes:
            for each in self.suffixes.found(text[::-1]):
                entries.extend(each)
        if self.present:
            entries.extend(self.present[""])

    def place(self, condition: Condition) -> tuple[dict[str, Bucket[K]] | PrefixTree[Bucket[K]], str]:
        """Return the buckets for conditions of this kind, and the text that this one's has among them."""
        match condition:
            case Equals(attributes=((_, text),)):
                return self.equal, text
            case StartsWith(text=text):
                return self.prefixes, text
            case EndsWith(text=text):
                return self.suffixes, text[::-1]
            case Present():
                return self.present, ""
        raise TypeError(f"{condition!r} is not a condition of one attribute")


class FilterIndex(Generic[K]):
    """Subscriptions by the caller's keys, with their filters.  Belongs to one task; nothing in it waits."""

    def __init__(self) -> None:
        self._subscriptions: dict[K, _Entry[K]] = {}
        self._entries: dict[EventFilters, _Entry[K]] = {}
        self._tables: dict[str, _AttributeTable[K]] = {}
        self._signatures: dict[tuple[str, ...], dict[tuple[str, ...], Bucket[K]]] = {}
        self._always: Bucket[K] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __contains__(self, key: K) -> bool:
        return key in self._subscriptions

    def add(self, key: K, filters: EventFilters) -> None:
        """Add a subscription; one with this key is replaced."""
        self.remove(key)
        entry = self._entries.get(filters)
        if entry is None:
            entry = self._entries[filters] = _Entry(filters)
            self._put(entry)
        entry.keys[key] = None
        self._subscriptions[key] = entry

    def remove(self, key: K) -> bool:
        """Remove a subscription; returns True if it existed."""
        entry = self._subscriptions.pop(key, None)
        if entry is None:
            return False
        del entry.keys[key]
        if not entry.keys:
            del self._entries[entry.filters]
            self._take_out(entry)
        return True

    def match(self, attributes: Attributes) -> list[K]:
        """Return the subscriptions that match an event with these attributes, each once, in no order."""
        entries = self._candidates(attributes)
        keys: list[K] = []
        for entry in entries if len(entries) < 2 else dict.fromkeys(entries):
            if entry.certain or entry.filters.matches(attributes):
                keys.extend(entry.keys)
        return keys

    def _candidates(self, attributes: Attributes) -> list[_Entry[K]]:
        entries = list(self._always)
        texts: Mapping[str, str] | None = None
        for name, value in attributes.items():
            table = self._tables.get(name)
            if table is not None:
                table.found(value if type(value) is str else to_string(value), entries)
        if self._signatures:
            texts = {name: to_string(value) for name, value in attributes.items()}
            get = texts.get
            for names, buckets in self._signatures.items():
                bucket = buckets.get(tuple(map(get, names)))  # type: ignore[arg-type]
                if bucket is not None:
                    entries.extend(bucket)
        return entries

    # --- places

    def _put(self, entry: _Entry[K]) -> None:
        """Choose the clause of an entry, and file the entry under each of its conditions."""
        necessity = necessity_of(entry.filters.filters)
        entry.certain = necessity.sufficient and len(necessity.clauses) <= 1
        if not necessity.clauses:
            self._always[entry] = None
            return
        placed = min((self._placed(clause) for clause in necessity.clauses), key=self._cost)
        entry.certain = entry.certain and (placed,) == necessity.clauses
        entry.conditions = placed
        for condition in placed:
            self._bucket(condition)[entry] = None

    def _placed(self, clause: Clause) -> Clause:
        """Return the clause with conditions that there is room for."""
        return tuple(
            Equals((min(condition.attributes, key=self._equal_count),))
            if isinstance(condition, Equals) and not self._has_room(condition.attributes)
            else condition
            for condition in clause
        )

    def _has_room(self, attributes: AttributeTexts) -> bool:
        if len(attributes) == 1 or len(self._signatures) < MAX_SIGNATURES:
            return True
        return tuple(name for name, _ in attributes) in self._signatures

    def _equal_count(self, attribute: tuple[str, str]) -> int:
        return self._count(Equals((attribute,)))

    def _cost(self, clause: Clause) -> int:
        return sum(WEIGHTS[type(condition)] * (1 + self._count(condition)) for condition in clause)

    def _count(self, condition: Condition) -> int:
        """Return the number of filters already under a condition."""
        if signature := _signature_of(condition):
            names, texts = signature
            return len(self._signatures.get(names, {}).get(texts, ()))
        table = self._tables.get(_name_of(condition))
        if table is None:
            return 0
        buckets, text = table.place(condition)
        return len(buckets.get(text) or ())

    def _bucket(self, condition: Condition) -> Bucket[K]:
        if signature := _signature_of(condition):
            names, texts = signature
            return self._signatures.setdefault(names, {}).setdefault(texts, {})
        buckets, text = self._tables.setdefault(_name_of(condition), _AttributeTable()).place(condition)
        return buckets.setdefault(text, {})

    def _take_out(self, entry: _Entry[K]) -> None:
        if entry.conditions is None:
            del self._always[entry]
            return
        for condition in entry.conditions:
            bucket = self._bucket(condition)
            del bucket[entry]
            if not bucket:
                self._forget(condition)

    def _forget(self, condition: Condition) -> None:
        """Remove an empty bucket, and its table if that is empty now."""
        if signature := _signature_of(condition):
            names, texts = signature
            del self._signatures[names][texts]
            if not self._signatures[names]:
                del self._signatures[names]
            return
        name = _name_of(condition)
        buckets, text = self._tables[name].place(condition)
        buckets.pop(text, None)
        if not self._tables[name]:
            del self._tables[name]


def _signature_of(condition: Condition) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return names and texts of a condition of several attributes."""
    if not isinstance(condition, Equals) or len(condition.attributes) == 1:
        return None
    names, texts = zip(*condition.attributes, strict=True)
    return names, texts


def _name_of(condition: Condition) -> str:
    return condition.attributes[0][0] if isinstance(condition, Equals) else condition.name
