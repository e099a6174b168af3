"""The HTTP binding: modes, headers, round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.gateway.http.requests.problem_types import problem_of
from entrepot.protocols.cloudevents import http
from entrepot.protocols.cloudevents.errors import BatchTooLargeError, CloudEventError, UnsupportedFormatError
from entrepot.protocols.cloudevents.event import (
    MAX_ATTRIBUTE_NAME_LENGTH,
    MAX_ATTRIBUTE_VALUE_BYTES,
    MAX_ATTRIBUTES,
    CloudEvent,
)
from entrepot.protocols.cloudevents.json_format import is_json
from tests.support.cases import cases
from tests.unit.cloudevents.strategies import events

REQUIRED = [(b"ce-specversion", b"1.0"), (b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t")]


def binary(*headers: tuple[bytes, bytes], body: bytes = b"") -> CloudEvent:
    return http.from_binary([*REQUIRED, *headers], body)


@cases(
    "content_type, mode",
    [
        (None, http.ContentMode.BINARY),
        ("", http.ContentMode.BINARY),
        (b"application/json", http.ContentMode.BINARY),
        ("application/cloudevents+json", http.ContentMode.STRUCTURED),
        (b"Application/CloudEvents+JSON; charset=UTF-8", http.ContentMode.STRUCTURED),
        ("application/cloudevents", http.ContentMode.STRUCTURED),
        ("application/cloudevents+avro", http.ContentMode.STRUCTURED),
        ("application/cloudevents-batch+json", http.ContentMode.BATCHED),
        (b" APPLICATION/CLOUDEVENTS-BATCH+JSON;charset=utf-8", http.ContentMode.BATCHED),
        ("text/plain; x=application/cloudevents", http.ContentMode.BINARY),
        (b"\xff\xfe", http.ContentMode.BINARY),
    ],
)
def test_content_type_alone_decides_the_mode(content_type: bytes | str | None, mode: http.ContentMode) -> None:
    assert http.content_mode(content_type) is mode


def test_binary_mode_takes_attributes_from_headers_and_data_from_the_body() -> None:
    event = http.from_binary(
        [
            (b"host", b"example"),
            (b"content-type", b"application/json; charset=utf-8"),
            (b"ce-specversion", b"1.0"),
            (b"ce-type", b"com.example.someevent"),
            (b"ce-time", b"2018-04-05T03:56:24Z"),
            (b"ce-id", b"1234-1234-1234"),
            (b"ce-source", b"/mycontext/subcontext"),
            (b"ce-comexampleextension1", b"value"),
        ],
        b'{"a": 1.0}',
    )
    assert event.attributes == {
        "datacontenttype": "application/json; charset=utf-8",
        "specversion": "1.0",
        "type": "com.example.someevent",
        "time": "2018-04-05T03:56:24Z",
        "id": "1234-1234-1234",
        "source": "/mycontext/subcontext",
        "comexampleextension1": "value",
    }
    assert event.data == b'{"a": 1.0}'


@cases(
    "header, value",
    [
        (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        (b"Euro%20%e2%82%ac%20%f0%9f%98%80", "Euro € 😀"),
        (b"%41%62", "Ab"),  # needless, and to be accepted
        (b"%2541", "%41"),  # one round only
        (b'"Euro %E2%82%AC"', "Euro €"),
        (b'"a \\"quoted\\" \\\\ thing"', 'a "quoted" \\ thing'),
        (b'""', ""),
        (b'"unfinished', '"unfinished'),
        (b'in"side', 'in"side'),
        (b"100%", "100%"),
        (b"%zz", "%zz"),
        (b"\xc3%A9 \xe2\x82\xac", "é €"),
        ("bare é".encode(), "bare é"),
    ],
)
def test_header_values_are_unquoted_and_decoded_once(header: bytes, value: str) -> None:
    assert binary((b"ce-ext", header)).attributes["ext"] == value


def test_header_values_are_encoded_as_the_specification_asks() -> None:
    event = CloudEvent({"specversion": "1.0", "id": 'Euro € 😀 "50%"~!', "source": "/s", "type": "t"})
    headers, body = http.to_binary(event)
    assert dict(headers)[b"ce-id"] == b"Euro%20%E2%82%AC%20%F0%9F%98%80%20%2250%25%22~!"
    assert body == b""


@given(events(typed=False))
def test_binary_mode_round_trip(event: CloudEvent) -> None:
    headers, body = http.to_binary(event)
    assert all(name == name.lower() for name, _ in headers)
    assert all(0x20 <= c <= 0x7E for _, value in headers for c in value)
    assert http.from_binary(headers, body) == event


@given(events())
def test_binary_mode_gives_typed_extensions_as_canonical_strings(event: CloudEvent) -> None:
    headers, body = http.to_binary(event)
    assert http.from_binary(headers, body).attributes == event.attributes


@given(events())
def test_structured_mode_round_trip(event: CloudEvent) -> None:
    headers, body = http.to_structured(event)
    [(name, content_type)] = headers
    assert name == b"content-type"
    assert http.content_mode(content_type) is http.ContentMode.STRUCTURED
    assert_same(http.from_structured(body, content_type), event)


@given(st.lists(events(), max_size=5))
def test_batched_mode_round_trip(batch: list[CloudEvent]) -> None:
    [(_, content_type)], body = http.to_batch(batch)
    assert http.content_mode(content_type) is http.ContentMode.BATCHED
    back = http.from_batch(body, content_type)
    assert len(back) == len(batch)
    for got, sent in zip(back, batch, strict=True):
        assert_same(got, sent)


def assert_same(got: CloudEvent, sent: CloudEvent) -> None:
    assert got.attributes == sent.attributes
    assert list(got.attributes) == list(sent.attributes)
    assert got.typed_extensions == sent.typed_extensions
    if got.data != sent.data:  # white space around a JSON value is not part of it
        assert sent.data is not None
        assert is_json(sent.data)
        assert got.data == sent.data.strip(b" \t\r\n")


@cases(
    "headers, fragment",
    [
        ([], "required attribute 'id' is missing"),
        (REQUIRED[1:], "required attribute 'specversion' is missing"),
        ([*REQUIRED[:3]], "required attribute 'type' is missing"),
        ([*REQUIRED[:3], (b"ce-type", b"")], "'type' is empty"),
        ([*REQUIRED[1:], (b"ce-specversion", b"0.3")], "'specversion' is '0.3'"),
        ([*REQUIRED, (b"ce-id", b"2")], "'id' is there twice"),
        ([*REQUIRED, (b"content-type", b"a/b"), (b"content-type", b"a/b")], "'datacontenttype' is there twice"),
        ([*REQUIRED, (b"ce-datacontenttype", b"a/b")], "'ce-datacontenttype' is not allowed"),
        ([*REQUIRED, (b"ce-data", b"x")], "'data' is not an attribute name"),
        ([*REQUIRED, (b"ce-my_ext", b"x")], "'my_ext' is not an attribute name"),
        ([*REQUIRED, (b"ce-", b"x")], "'' is not an attribute name"),
        ([*REQUIRED, (b"ce-\xe9", b"x")], "is not an attribute name"),
        ([*REQUIRED, (b"ce-ext", b"%C0%A0")], "'ext' is not valid UTF-8"),
        ([*REQUIRED, (b"ce-ext", b"%ED%A0%80")], "'ext' is not valid UTF-8"),
        ([*REQUIRED, (b"ce-ext", b"\xff")], "'ext' is not valid UTF-8"),
        ([*REQUIRED, (b"ce-ext", b"a%0Ab")], "'ext' has the character U+000A"),
        ([*REQUIRED, (b"ce-ext", b"%C2%85")], "'ext' has the character U+0085"),
        ([*REQUIRED, (b"ce-ext", b"%EF%BF%BF")], "'ext' has the character U+FFFF"),
        ([*REQUIRED, (b"ce-time", b"yesterday")], "'time' is 'yesterday', which is not an RFC 3339"),
        ([*REQUIRED, (b"ce-subject", b"")], "'subject' is empty"),
        ([*REQUIRED, (b"ce-dataschema", b"/relative")], "'dataschema' is '/relative', which is not an absolute URI"),
        ([*REQUIRED, (b"content-type", b"json")], "'datacontenttype' is 'json', which is not a media type"),
        ([*REQUIRED, (b"content-type", b"a/b; \xff")], "'datacontenttype' is not valid UTF-8"),
    ],
)
def test_bad_headers_are_refused_in_a_sentence(headers: list[tuple[bytes, bytes]], fragment: str) -> None:
    with pytest.raises(CloudEventError) as caught:
        http.from_binary(headers, b"")
    assert fragment in caught.value.message
    assert caught.value.attribute is not None
    assert problem_of(caught.value).status == 400


def test_limits_of_attributes() -> None:
    fits = [(b"ce-x%d" % i, b"v") for i in range(MAX_ATTRIBUTES - len(REQUIRED))]
    assert len(binary(*fits).attributes) == MAX_ATTRIBUTES
    with pytest.raises(CloudEventError, match=f"at most {MAX_ATTRIBUTES}"):
        binary(*fits, (b"ce-one", b"more"))

    assert binary((b"ce-ext", b"v" * MAX_ATTRIBUTE_VALUE_BYTES))
    with pytest.raises(CloudEventError, match=f"'ext' is longer than {MAX_ATTRIBUTE_VALUE_BYTES} bytes"):
        binary((b"ce-ext", b"v" * (MAX_ATTRIBUTE_VALUE_BYTES + 1)))
    with pytest.raises(CloudEventError, match="'ext' is longer"):
        binary((b"ce-ext", "€".encode() * (MAX_ATTRIBUTE_VALUE_BYTES // 3 + 1)))

    assert binary((b"ce-" + b"n" * MAX_ATTRIBUTE_NAME_LENGTH, b"v"))
    with pytest.raises(CloudEventError, match="is not an attribute name"):
        binary((b"ce-" + b"n" * (MAX_ATTRIBUTE_NAME_LENGTH + 1), b"v"))


@cases(
    "content_type",
    [
        "application/cloudevents",
        "application/cloudevents+avro",
        "application/cloudevents+json; charset=utf-16",
        "application/cloudevents-batch+json",
        b"application/cloudevents+\xff",
    ],
)
def test_another_event_format_is_told_apart(content_type: bytes | str) -> None:
    with pytest.raises(UnsupportedFormatError) as caught:
        http.from_structured(b"{}", content_type)
    assert problem_of(caught.value).status == 415


def test_another_batch_format_is_told_apart() -> None:
    with pytest.raises(UnsupportedFormatError, match="application/cloudevents-batch\\+json"):
        http.from_batch(b"[]", "application/cloudevents-batch+avro")


def test_limit_of_a_batch() -> None:
    event = binary()
    _, body = http.to_batch([event] * 3)
    assert http.from_batch(body, max_events=3) == [event] * 3
    with pytest.raises(BatchTooLargeError, match="3 events; at most 2") as caught:
        http.from_batch(body, max_events=2)
    assert problem_of(caught.value).status == 413


def test_an_empty_body_is_no_data() -> None:
    assert binary((b"content-type", b"text/plain")).data is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*(name for name, _ in REQUIRED), b"content-type", b"ce-time", b"ce-x"])
            | st.binary(max_size=8).map(lambda tail: b"ce-" + tail)
            | st.binary(max_size=8),
            st.just(b"1.0") | st.binary(max_size=30),
        ),
        max_size=10,
    ),
    st.binary(max_size=20),
)
def test_fuzzed_headers_raise_only_the_error_meant_for_it(headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    try:
        event = http.from_binary(headers, body)
    except CloudEventError:
        return
    again = http.from_binary(*http.to_binary(event))
    assert again == event


@given(st.binary(max_size=12), st.sampled_from([b"ce-id", b"ce-ext", b"ce-subject", b"ce-time", b"content-type"]))
def test_fuzzed_values_beside_valid_headers(value: bytes, name: bytes) -> None:
    headers = [header for header in REQUIRED if header[0] != name]
    try:
        event = http.from_binary([*headers, (name, value)], b"x")
    except CloudEventError:
        return
    assert http.from_binary(*http.to_binary(event)) == event
    assert_same(http.from_structured(http.to_structured(event)[1]), event)
