"""Filters of CloudEvents by their context attributes: the dialects of the CloudEvents Subscriptions draft (3.2.4).

`exact`, `prefix` and `suffix` give attributes with their values, beginnings or ends; `all`, `any` and `not` hold
further filters; `sql` is a CESQL expression.  A missing attribute makes the first three false.  Filters are values:
immutable, compared by content.  `event_filter_json.py` makes them from JSON.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final

from entrepot.domain.expression.cesql.expression import CesqlExpression
from entrepot.domain.expression.cesql.value import Attributes, to_string

AttributeTexts = tuple[tuple[str, str], ...]
"""Names of attributes, each once and in order, with texts."""


class EventFilter(ABC):
    """One filter of a dialect."""

    __slots__ = ()

    @abstractmethod
    def matches(self, attributes: Attributes) -> bool:
        """True if an event with these attributes passes.  Never raises."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the filter as JSON of the Subscriptions API."""


@dataclass(frozen=True, slots=True)
class ExactFilter(EventFilter):
    """Attributes and their values; case counts.  Values of types other than String are compared as strings."""

    attributes: AttributeTexts

    def matches(self, attributes: Attributes) -> bool:
        for name, wanted in self.attributes:
            value = attributes.get(name)
            if value is None or (value if type(value) is str else to_string(value)) != wanted:
                return False
        return True

    def to_json(self) -> dict[str, Any]:
        return {"exact": dict(self.attributes)}


@dataclass(frozen=True, slots=True)
class PrefixFilter(EventFilter):
    """Attributes and their beginnings."""

    attributes: AttributeTexts

    def matches(self, attributes: Attributes) -> bool:
        for name, wanted in self.attributes:
            value = attributes.get(name)
            if value is None or not (value if type(value) is str else to_string(value)).startswith(wanted):
                return False
        return True

    def to_json(self) -> dict[str, Any]:
        return {"prefix": dict(self.attributes)}


@dataclass(frozen=True, slots=True)
class SuffixFilter(EventFilter):
    """Attributes and their ends."""

    attributes: AttributeTexts

    def matches(self, attributes: Attributes) -> bool:
        for name, wanted in self.attributes:
            value = attributes.get(name)
            if value is None or not (value if type(value) is str else to_string(value)).endswith(wanted):
                return False
        return True

    def to_json(self) -> dict[str, Any]:
        return {"suffix": dict(self.attributes)}


@dataclass(frozen=True, slots=True)
class AllFilter(EventFilter):
    """The conjunction of filters."""

    filters: tuple[EventFilter, ...]

    def matches(self, attributes: Attributes) -> bool:
        for each in self.filters:  # noqa: SIM110 - `all` with a generator takes longer
            if not each.matches(attributes):
                return False
        return True

    def to_json(self) -> dict[str, Any]:
        return {"all": [each.to_json() for each in self.filters]}


@dataclass(frozen=True, slots=True)
class AnyFilter(EventFilter):
    """The disjunction of filters."""

    filters: tuple[EventFilter, ...]

    def matches(self, attributes: Attributes) -> bool:
        for each in self.filters:  # noqa: SIM110
            if each.matches(attributes):
                return True
        return False

    def to_json(self) -> dict[str, Any]:
        return {"any": [each.to_json() for each in self.filters]}


@dataclass(frozen=True, slots=True)
class NotFilter(EventFilter):
    """The negation of a filter."""

    filter: EventFilter

    def matches(self, attributes: Attributes) -> bool:
        return not self.filter.matches(attributes)

    def to_json(self) -> dict[str, Any]:
        return {"not": self.filter.to_json()}


@dataclass(frozen=True, slots=True)
class SqlFilter(EventFilter):
    """A CESQL expression that must be true.  A non-Boolean value or an error does not match (CESQL 1.2)."""

    expression: CesqlExpression

    def matches(self, attributes: Attributes) -> bool:
        return self.expression.matches(attributes)

    def to_json(self) -> dict[str, Any]:
        return {"sql": self.expression.text}


@dataclass(frozen=True, slots=True)
class EventFilters:
    """The `filters` of a subscription: all must match, and an empty list matches everything (Subscriptions 3.2.1)."""

    filters: tuple[EventFilter, ...] = ()

    def matches(self, attributes: Attributes) -> bool:
        """True if an event with these attributes passes.  Never raises."""
        for each in self.filters:  # noqa: SIM110
            if not each.matches(attributes):
                return False
        return True

    def to_json(self) -> list[dict[str, Any]]:
        """Return the list as JSON of the Subscriptions API."""
        return [each.to_json() for each in self.filters]


NO_FILTERS: Final = EventFilters()
