"""Filters of CloudEvents by their context attributes: the dialects of the CloudEvents Subscriptions draft (3.2.4).

`exact`, `prefix` and `suffix` name attributes with what their values are, begin or end with; `all`, `any` and `not`
hold further filters; `sql` is a CESQL expression.  An attribute that an event does not have makes the first three
false.  Filters are values: immutable, equal if they say the same.  `event_filter_json.py` makes them of JSON.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final

from domain.expression.cesql.expression import CesqlExpression
from domain.expression.cesql.value import Attributes, to_string

AttributeTexts = tuple[tuple[str, str], ...]
"""Names of attributes, each once and in order, with texts."""


class EventFilter(ABC):
    """One filter of a dialect."""

    __slots__ = ()

    @abstractmethod
    def matches(self, attributes: Attributes) -> bool:
        """Whether an event with these attributes passes.  Never raises."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The filter as the Subscriptions API writes it."""


@dataclass(frozen=True, slots=True)
class ExactFilter(EventFilter):
    """All the attributes have these values; case counts.  Values of other types than String are compared as strings."""

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
    """All the attributes begin with these texts."""

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
    """All the attributes end with these texts."""

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
    """Every one of the filters."""

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
    """One of the filters at least."""

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
    """What another filter does not want."""

    filter: EventFilter

    def matches(self, attributes: Attributes) -> bool:
        return not self.filter.matches(attributes)

    def to_json(self) -> dict[str, Any]:
        return {"not": self.filter.to_json()}


@dataclass(frozen=True, slots=True)
class SqlFilter(EventFilter):
    """A CESQL expression that is true.  What is not Boolean, or has an error, does not match (CESQL 1.2)."""

    expression: CesqlExpression

    def matches(self, attributes: Attributes) -> bool:
        return self.expression.matches(attributes)

    def to_json(self) -> dict[str, Any]:
        return {"sql": self.expression.text}


@dataclass(frozen=True, slots=True)
class EventFilters:
    """The `filters` of a subscription: all must match, and no filter at all wants everything (Subscriptions 3.2.1)."""

    filters: tuple[EventFilter, ...] = ()

    def matches(self, attributes: Attributes) -> bool:
        """Whether an event with these attributes passes.  Never raises."""
        for each in self.filters:  # noqa: SIM110
            if not each.matches(attributes):
                return False
        return True

    def to_json(self) -> list[dict[str, Any]]:
        """The list as the Subscriptions API writes it."""
        return [each.to_json() for each in self.filters]


NO_FILTERS: Final = EventFilters()
