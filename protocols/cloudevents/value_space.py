"""The value space of CloudEvents: rows of `domain.value_space` (CloudEvents 1.0.2, 2.1 and 3.1).

They hold for messages of other protocols; an event's own attributes were checked where it came in.
"""

from __future__ import annotations

from typing import Final

from entrepot.domain.value_space import Count, Rule, Space, Text
from entrepot.protocols.cloudevents.event import (
    MAX_ATTRIBUTE_NAME_LENGTH,
    MAX_ATTRIBUTE_VALUE_BYTES,
    MAX_ATTRIBUTES,
    is_attribute_name,
)

_EVENT: Final = "cloudevents"

ATTRIBUTE_NAME: Final = Text(
    _EVENT,
    "name of an attribute",
    MAX_ATTRIBUTE_NAME_LENGTH,
    Rule.LEFT_OUT,
    is_valid=is_attribute_name,
    also="a-z and 0-9, after lower-casing; not `data`, and not a name of this server's own attributes",
)
ATTRIBUTE_VALUE: Final = Text(
    _EVENT,
    "value of an attribute",
    MAX_ATTRIBUTE_VALUE_BYTES,
    Rule.LEFT_OUT,
    also="no control characters and no noncharacters; `time`, `dataschema` and `datacontenttype` in their own form",
)
SUBJECT: Final = Text(
    _EVENT,
    "subject",
    MAX_ATTRIBUTE_VALUE_BYTES,
    Rule.REPLACED,
    also="control characters and noncharacters are percent-encoded; left out if it is longer then",
)
ATTRIBUTES: Final = Count(_EVENT, "attributes", MAX_ATTRIBUTES)

SPACES: Final[tuple[Space, ...]] = (ATTRIBUTE_NAME, ATTRIBUTE_VALUE, SUBJECT, ATTRIBUTES)
