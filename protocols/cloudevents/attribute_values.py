"""An event's attributes as filters see them: Boolean and Integer extensions as such, all others as strings."""

from __future__ import annotations

from domain.expression.cesql.value import Attributes, Value
from protocols.cloudevents.event import CloudEvent, ExtensionType


def attribute_values(event: CloudEvent) -> Attributes:
    """The attributes by name (CESQL 3.2).  For an event without typed extensions it is the event's own mapping."""
    if not event.typed_extensions:
        return event.attributes
    values: dict[str, Value] = dict(event.attributes)
    for name, kind in event.typed_extensions.items():
        text = event.attributes.get(name)
        if text is not None:
            values[name] = text == "true" if kind is ExtensionType.BOOLEAN else int(text)
    return values
