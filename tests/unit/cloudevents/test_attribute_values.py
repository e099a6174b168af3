"""An event's attributes as its filters see them."""

from __future__ import annotations

from domain.expression.event_filter_json import parse_sql_filter
from protocols.cloudevents.attribute_values import attribute_values
from protocols.cloudevents.event import CloudEvent, ExtensionType

ATTRIBUTES = {
    "specversion": "1.0",
    "id": "1",
    "source": "/s",
    "type": "t",
    "count": "10",
    "urgent": "true",
    "flag": "false",
}


def test_types_are_those_of_the_event():
    typed = {"count": ExtensionType.INTEGER, "urgent": ExtensionType.BOOLEAN, "flag": ExtensionType.BOOLEAN}
    values = attribute_values(CloudEvent(dict(ATTRIBUTES), typed_extensions=typed))
    assert values == {**ATTRIBUTES, "count": 10, "urgent": True, "flag": False}
    assert values["urgent"] is True
    assert parse_sql_filter("urgent").matches(values)
    assert not parse_sql_filter("flag").matches(values)
    assert parse_sql_filter("count > 9 AND NOT flag").matches(values)


def test_an_event_of_strings_is_taken_as_it_is():
    event = CloudEvent(dict(ATTRIBUTES))
    assert attribute_values(event) is event.attributes
    assert not parse_sql_filter("urgent").matches(attribute_values(event))
    assert parse_sql_filter("urgent AND TRUE").matches(attribute_values(event))


def test_a_type_of_what_is_not_there_does_nothing():
    values = attribute_values(CloudEvent({"id": "1"}, typed_extensions={"count": ExtensionType.INTEGER}))
    assert values == {"id": "1"}
