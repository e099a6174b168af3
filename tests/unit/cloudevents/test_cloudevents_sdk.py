"""The `cloudevents` SDK as an independent producer and consumer of what we read and write."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from cloudevents.core.bindings import http as sdk_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as SdkEvent
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.message import StoredMessage
from entrepot.protocols.cloudevents import http
from entrepot.protocols.cloudevents.event import MAX_INTEGER, MIN_INTEGER, CloudEvent
from entrepot.protocols.cloudevents.mapping import to_event, to_message
from tests.support.cases import cases
from tests.unit.cloudevents.strategies import json_values, names, non_empty

FORMAT = JSONFormat()
json_objects = st.dictionaries(non_empty, json_values, max_size=4)
printable = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=30)


@st.composite
def sdk_events(draw: st.DrawFn, typed: bool = False) -> SdkEvent:
    """What an SDK's user can make: data is a dict, text or bytes."""
    attributes: dict[str, Any] = {
        "id": draw(non_empty),
        "source": draw(non_empty),
        "type": draw(non_empty),
        "specversion": "1.0",
        "time": draw(st.datetimes(timezones=st.just(UTC))),
    }
    if draw(st.booleans()):
        attributes["subject"] = draw(non_empty)
    values = non_empty | st.booleans() | st.integers(MIN_INTEGER, MAX_INTEGER) if typed else non_empty
    attributes.update(draw(st.dictionaries(names, values, max_size=3)))
    content_type, contents = draw(
        st.sampled_from(
            [("application/json", json_objects), (None, json_objects), ("text/plain", printable), ("image/png", None)]
        )
    )
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    data: Any = draw(st.binary(min_size=1) if contents is None else contents)
    return SdkEvent(attributes, data)


def assert_agree(ours: CloudEvent, theirs: SdkEvent) -> None:
    expected = dict(theirs.get_attributes())
    attributes = dict(ours.attributes)
    assert datetime.fromisoformat(attributes.pop("time")) == expected.pop("time")
    text = {name: str(v).lower() if isinstance(v, bool) else str(v) for name, v in expected.items()}
    if theirs.get_datacontenttype() is None:
        attributes.pop("datacontenttype", None)
    assert attributes == text
    assert ours.data is not None
    data = theirs.get_data()
    if isinstance(data, bytes):
        assert ours.data == data
    elif isinstance(data, str):
        assert ours.data.decode() == data
    else:
        assert json.loads(ours.data) == data


def through_a_store(event: CloudEvent) -> CloudEvent:
    message = to_message(event, "factory")
    return to_event(StoredMessage(**{name: getattr(message, name) for name in message.__dataclass_fields__}))


def asgi(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def sdk_message(headers: http.Headers, body: bytes) -> sdk_http.HTTPMessage:
    return sdk_http.HTTPMessage({name.decode(): value.decode() for name, value in headers}, body)


@given(sdk_events())
def test_their_binary_mode(event: SdkEvent) -> None:
    message = sdk_http.to_binary(event, FORMAT)
    ours = http.from_binary(asgi(message.headers), message.body)
    assert_agree(ours, event)
    assert_agree(through_a_store(ours), event)


@given(sdk_events(typed=True))
def test_their_structured_mode(event: SdkEvent) -> None:
    message = sdk_http.to_structured(event, FORMAT)
    content_type = message.headers["content-type"]
    assert http.content_mode(content_type) is http.ContentMode.STRUCTURED
    ours = http.from_structured(message.body, content_type)
    assert_agree(ours, event)
    assert_agree(through_a_store(ours), event)


@given(sdk_events())
def test_our_binary_mode(event: SdkEvent) -> None:
    ours = through_a_store(http.from_structured(sdk_http.to_structured(event, FORMAT).body))
    theirs = sdk_http.from_binary(sdk_message(*http.to_binary(ours)), FORMAT, SdkEvent)
    assert theirs.get_datacontenttype() == (event.get_datacontenttype() or "application/json")
    assert theirs.get_id() == event.get_id()
    assert theirs.get_subject() == event.get_subject()
    assert theirs.get_time() == event.get_time()
    if not isinstance(event.get_data(), bytes):
        assert theirs.get_data() == event.get_data()


@given(sdk_events(typed=True))
def test_our_structured_mode(event: SdkEvent) -> None:
    ours = through_a_store(http.from_structured(sdk_http.to_structured(event, FORMAT).body))
    theirs = sdk_http.from_structured(sdk_message(*http.to_structured(ours)), FORMAT, SdkEvent)
    assert theirs.get_attributes() == event.get_attributes()
    assert theirs.get_data() == event.get_data()


@cases("size", [0, 1, 3])
def test_our_batch_is_an_array_of_events_they_read(size: int) -> None:
    sent = [SdkEvent({"id": str(i), "source": "/s", "type": "t"}, {"n": i}) for i in range(size)]
    ours = [http.from_structured(sdk_http.to_structured(event, FORMAT).body) for event in sent]
    _, body = http.to_batch(ours)
    theirs = [FORMAT.read(SdkEvent, json.dumps(each)) for each in json.loads(body)]
    assert [event.get_attributes() for event in theirs] == [event.get_attributes() for event in sent]
    assert [event.get_data() for event in theirs] == [event.get_data() for event in sent]
