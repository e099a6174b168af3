"""Event filters in a query: `filters`, as in the Subscriptions API, and `cesql`."""

from __future__ import annotations

from typing import Annotated, Final

import orjson
from msgspec import Meta

from entrepot.domain.event_filters.event_filter import NO_FILTERS, EventFilters
from entrepot.domain.event_filters.event_filter_json import parse_event_filters, parse_sql_filter
from entrepot.gateway.operations.row.problem import bad_request

MAX_FILTERS_LENGTH: Final = 16_384
MAX_CESQL_LENGTH: Final = 4_096
FILTERS_DESCRIPTION: Final = "Filters in JSON as in a subscription; other events are skipped"
FILTERS_EXAMPLE: Final = '[{"prefix": {"subject": "line1/"}}]'
CESQL_DESCRIPTION: Final = "Further filter: a CESQL expression that must be true"
CESQL_EXAMPLE: Final = "type = 'reading' AND level > 2"
FiltersAsked = Annotated[
    Annotated[str, Meta(max_length=MAX_FILTERS_LENGTH)] | None,
    Meta(description=FILTERS_DESCRIPTION, extra_json_schema={"examples": [FILTERS_EXAMPLE]}),
]
CesqlAsked = Annotated[
    Annotated[str, Meta(max_length=MAX_CESQL_LENGTH)] | None,
    Meta(description=CESQL_DESCRIPTION, extra_json_schema={"examples": [CESQL_EXAMPLE]}),
]


def filters_in(filters: str | None, cesql: str | None) -> EventFilters:
    """Parse a query's filters.  Raises BAD_REQUEST, EventFilterError."""
    found = NO_FILTERS
    if filters is not None:
        try:
            document = orjson.loads(filters)
        except orjson.JSONDecodeError as error:
            raise bad_request(f"filters: is not JSON: {error}") from None
        found = parse_event_filters(document)
    if cesql is not None:
        found = EventFilters((*found.filters, parse_sql_filter(cesql, "cesql")))
    return found
