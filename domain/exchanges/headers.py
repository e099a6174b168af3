"""Headers exchanges: bindings by the headers, and their values, that a message must have.  A binding is only examined
if the message has one of its headers.  "Any" bindings are indexed under each of their headers, "all" bindings under
one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from entrepot.domain.exchanges.binding import MATCH, Binding, HeadersMatch, headers_match
from entrepot.domain.exchanges.table import Destinations, RoutedMessage
from entrepot.domain.field_value import comparable

EXTENSION_PREFIX: Final = "x-"
PRESENT: Final = object()
"""Any value: the binding's own is void, and the header only has to exist."""
_WITH_EXTENSIONS: Final = (HeadersMatch.ALL_WITH_X, HeadersMatch.ANY_WITH_X)
_ANY: Final = (HeadersMatch.ANY, HeadersMatch.ANY_WITH_X)
_Criterion = tuple[str, Hashable]


class _Matcher:
    """The criteria of one binding."""

    __slots__ = ("criteria", "destinations", "is_any")

    def __init__(self, binding: Binding) -> None:
        match = headers_match(binding.arguments)
        self.is_any = match in _ANY
        self.criteria: tuple[_Criterion, ...] = tuple(
            (name, PRESENT if value is None else comparable(value))
            for name, value in binding.arguments.items()
            if name != MATCH and (match in _WITH_EXTENSIONS or not name.startswith(EXTENSION_PREFIX))
        )
        self.destinations = Destinations()
        self.destinations.add(binding)

    @property
    def index_keys(self) -> tuple[_Criterion, ...]:
        """The criteria that index it.  A criterion with a value is preferred to the mere presence of a header."""
        if self.is_any:
            return self.criteria
        with_value = [criterion for criterion in self.criteria if criterion[1] is not PRESENT]
        return tuple((with_value or list(self.criteria))[:1])

    def matches(self, headers: Mapping[str, Hashable]) -> bool:
        """True if the headers, as comparables, meet all criteria."""
        for name, wanted in self.criteria:
            if name not in headers or (wanted is not PRESENT and headers[name] != wanted):
                return False
        return True


class HeadersTable:
    """Bindings by their arguments.  Without criteria an "all" binding matches every message, an "any" binding none."""

    __slots__ = ("_always", "_index", "_matchers")
    is_by_key = False

    def __init__(self) -> None:
        self._matchers: dict[Binding, _Matcher] = {}
        self._index: dict[_Criterion, dict[_Matcher, None]] = {}
        self._always: dict[_Matcher, None] = {}

    def add(self, binding: Binding) -> None:
        matcher = self._matchers[binding] = _Matcher(binding)
        if not matcher.criteria and not matcher.is_any:
            self._always[matcher] = None
        for key in matcher.index_keys:
            self._index.setdefault(key, {})[matcher] = None

    def remove(self, binding: Binding) -> None:
        matcher = self._matchers.pop(binding)
        self._always.pop(matcher, None)
        for key in matcher.index_keys:
            found = self._index[key]
            found.pop(matcher, None)
            if not found:
                del self._index[key]

    def match(self, message: RoutedMessage) -> list[Destinations]:
        if not self._matchers:
            return []
        headers = {name: comparable(value) for name, value in message.headers().items()}
        candidates = dict(self._always)
        for name, value in headers.items():
            for key in ((name, value), (name, PRESENT)):
                if (found := self._index.get(key)) is not None:
                    candidates.update(found)
        return [each.destinations for each in candidates if each.is_any or each.matches(headers)]
