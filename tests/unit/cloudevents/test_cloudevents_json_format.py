"""The JSON event format and the JSON batch format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.cloudevents import http
from entrepot.protocols.cloudevents.errors import CloudEventError
from entrepot.protocols.cloudevents.event import MAX_INTEGER, MIN_INTEGER, CloudEvent, ExtensionType
from entrepot.protocols.cloudevents.json_format import (
    MAX_BATCH_EVENTS,
    decode_batch,
    decode_event,
    encode_batch,
    encode_event,
    is_json,
)
from tests.support.cases import cases
from tests.unit.cloudevents.strategies import json_texts, json_values

REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
HEAD = b'{"specversion":"1.0","id":"1","source":"/s","type":"t"'


def decode(**members: Any) -> CloudEvent:
    return decode_event(json.dumps({**REQUIRED, **members}).encode())


@cases(
    "data",
    [
        b'{"n":12345678901234567890123456789012345678901234567890,"f":1.10,"e":1E+2,"z":-0.0}',
        b'{"b":1,"a":2,"b":3}',
        b'{ "spaced" : [ 1 ,2 ] }',
        b'"a string stays a string"',
        b'"{\\"not\\":\\"parsed\\"}"',
        b'"\\u00e9\\/"',
        '"é"'.encode(),
        b"1e999",
        b"null",
        b"false",
        b"0",
        b"[[[[]]]]",
    ],
)
@cases("content_type", [None, "application/json", "application/vnd.x+json"])
def test_json_data_is_kept_as_it_stands(data: bytes, content_type: str | None) -> None:
    label = b"" if content_type is None else b',"datacontenttype":"%s"' % content_type.encode()
    for body in (HEAD + label + b',"data":' + data + b"}", b'{ "data" :\n' + data + b"\t," + HEAD[1:] + label + b"}"):
        event = decode_event(body)
        assert event.data == data
        assert event.implied_json is (content_type is None)
        assert b'"data":' + data in encode_event(event)
        assert decode_event(encode_event(event)) == event


def test_json_without_a_content_type_is_labelled_in_binary_mode() -> None:
    event = decode(data={"a": 1})
    assert event.datacontenttype is None
    headers, body = http.to_binary(event)
    assert (b"content-type", b"application/json") in headers
    assert body == b'{"a": 1}'
    assert b"content-type" not in dict(http.to_binary(decode())[0])


def test_data_of_other_types() -> None:
    assert decode(datacontenttype="text/plain", data="é\n").data == "é\n".encode()
    assert decode(datacontenttype="application/xml", data="<a/>").data == b"<a/>"
    assert decode(datacontenttype="text/plain", data={"a": [1]}).data == b'{"a": [1]}'
    assert decode(datacontenttype="text/plain", data=None).data is None
    assert decode(datacontenttype="text/plain", data="").data == b""
    assert decode(data_base64="AP8=").data == b"\x00\xff"
    assert decode(data_base64="").data == b""
    assert decode(datacontenttype="application/json", data_base64="e30=").data == b"{}"
    assert decode(data_base64=None, data=1).data == b"1"
    assert decode(data_base64="AP8=", data=None).data == b"\x00\xff"
    assert decode().data is None


@cases(
    "content_type, data, member",
    [
        ("application/json", b'{"a" : 1}', '"data":{"a" : 1}'),
        ("application/json", b"not json", '"data_base64":"bm90IGpzb24="'),
        ("application/json", b'"\xff"', '"data_base64":"Iv8i"'),
        ("application/json", b"", '"data_base64":""'),
        (None, b"[1]", '"data":[1]'),
        (None, b"\x00", '"data_base64":"AA=="'),
        ("text/plain", "é".encode(), '"data":"é"'),
        ("text/plain", b"\xff", '"data_base64":"/w=="'),
        ("text/plain; charset=UTF-8", b"x", '"data":"x"'),
        ("text/plain; charset=iso-8859-1", b"x", '"data_base64":"eA=="'),
        ("image/png", b"x", '"data_base64":"eA=="'),
    ],
)
def test_data_is_written_in_the_form_that_is_faithful(content_type: str | None, data: bytes, member: str) -> None:
    attributes = REQUIRED if content_type is None else {**REQUIRED, "datacontenttype": content_type}
    encoded = encode_event(CloudEvent(dict(attributes), data))
    assert member in encoded.decode()
    assert decode_event(encoded).data == data


def test_null_attributes_are_absent() -> None:
    assert decode(subject=None, time=None, ext=None, dataschema=None) == decode()
    with pytest.raises(CloudEventError, match="'id' is missing"):
        decode(id=None)


def test_typed_extensions_keep_their_types() -> None:
    event = decode(flag=True, off=False, count=-5, most=MAX_INTEGER, least=MIN_INTEGER, text="5")
    assert event.attributes | REQUIRED == event.attributes
    assert {n: event.attributes[n] for n in ("flag", "off", "count", "text")} == {
        "flag": "true",
        "off": "false",
        "count": "-5",
        "text": "5",
    }
    assert event.typed_extensions["count"] is ExtensionType.INTEGER
    members = json.loads(encode_event(event))
    assert (members["flag"], members["off"], members["count"], members["text"]) == (True, False, -5, "5")
    assert members["flag"] is True


@cases(
    "body, fragment",
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"1", "not a JSON object"),
        (b"{", "not a JSON object"),
        (HEAD + b"}x", "not a JSON object"),
        (b"\xef\xbb\xbf" + HEAD + b"}", "not a JSON object"),
        (HEAD + b',"x":"\\ud800"}', "not a JSON object"),
        (HEAD + b',"x":"a\nb"}', "not a JSON object"),
        (HEAD + b',"data":' + b"[" * 100_000 + b"}", "not a JSON object"),
        (HEAD + b',"data":"\xff"}', "not UTF-8"),
        (HEAD + b',"data":NaN}', "not a JSON object"),
        (b"{}", "'id' is missing"),
        (HEAD + b',"data":1,"data_base64":"AA=="}', "both 'data' and 'data_base64'"),
        (HEAD + b',"data_base64":"AA="}', "not Base64"),
        (HEAD + b',"data_base64":"A A=="}', "not Base64"),
        (HEAD + b',"data_base64":"\xc3\xa9"}', "not Base64"),
        (HEAD + b',"data_base64":5}', "'data_base64' must be a JSON string"),
        (HEAD + b',"data_base64":[]}', "'data_base64' must be a JSON string"),
        (HEAD + b',"time":5}', "'time' must be a JSON string"),
        (HEAD + b',"subject":true}', "'subject' must be a JSON string"),
        (HEAD + b',"ext":1.0}', "'ext' must be a JSON string, boolean or integer"),
        (HEAD + b',"ext":1e3}', "'ext' must be a JSON string, boolean or integer"),
        (HEAD + b',"ext":1e999}', "'ext' is not valid"),
        (HEAD + b',"ext":{}}', "'ext' must be a JSON string, boolean or integer"),
        (HEAD + b',"ext":[1]}', "'ext' must be a JSON string, boolean or integer"),
        (HEAD + b',"ext":2147483648}', "'ext' is not within"),
        (HEAD + b',"ext":-2147483649}', "'ext' is not within"),
        (HEAD + b',"ext":' + b"9" * 5000 + b"}", "'ext' is not"),
        (HEAD + b',"Ext":"x"}', "'Ext' is not an attribute name"),
        (HEAD + b',"my-ext":1}', "'my-ext' is not an attribute name"),
        (HEAD + b',"":"x"}', "'' is not an attribute name"),
        (HEAD + b',"ext":"\\u0000"}', "'ext' has the character U+0000"),
        (HEAD + b',"ext":"\xef\xb7\x90"}', "'ext' has the character U+FDD0"),
        (HEAD + b',"id":"2"}', "member twice"),
        (HEAD + b',"id":"1"}', "member twice"),
        (HEAD + b',"data":1,"data":1}', "member twice"),
        (HEAD + b', "ext" : "x" , "ext" : "x" }', "member twice"),
        (HEAD + b',"e":"a","\\u0065":"abcdefg"}', "member twice"),
        (HEAD + b',"e":null,"e":"a"}', "member twice"),
    ],
)
def test_bad_events_are_refused_in_a_sentence(body: bytes, fragment: str) -> None:
    with pytest.raises(CloudEventError) as caught:
        decode_event(body)
    assert fragment in caught.value.message


def test_specversion_must_be_a_string() -> None:
    with pytest.raises(CloudEventError, match="'specversion' must be a JSON string"):
        decode(specversion=1.0)


@given(json_values, st.lists(st.sampled_from(["id", "e", "data", "subject"]), max_size=3), st.booleans())
def test_duplicates_are_found_however_the_text_is_spaced(value: Any, again: list[str], spaced: bool) -> None:
    members = [*REQUIRED.items(), ("data", value), *((name, "again" * 3) for name in again)]
    gap = " \n" if spaced else ""
    text = f"{gap},{gap}".join(f"{json.dumps(name)}{gap}:{gap}{json.dumps(each)}" for name, each in members)
    body = f"{gap}{{{gap}{text}{gap}}}{gap}".encode()
    names = [name for name, _ in members]
    if len(set(names)) == len(names):
        assert decode_event(body).data == json.dumps(value).encode()
    else:
        with pytest.raises(CloudEventError, match="twice"):
            decode_event(body)


def test_a_batch_names_the_event_at_fault() -> None:
    good = json.dumps(REQUIRED)
    assert decode_batch(b"[]") == []
    assert decode_batch(f" [ {good} , {good} ] ".encode()) == [decode(), decode()]
    with pytest.raises(CloudEventError, match="event 1 of the batch") as caught:
        decode_batch(f'[{good},{{"specversion":"1.0"}}]'.encode())
    assert caught.value.attribute == "id"
    for body in (b"{}", b"[1]", b"[[]]", b"[{}]", b"[null]", good.encode(), b"[" + good.encode() + b"]]", b"[,]"):
        with pytest.raises(CloudEventError, match="not a JSON array of events"):
            decode_batch(body)
    with pytest.raises(CloudEventError, match="not UTF-8"):
        decode_batch(b'["\xff"]')


def test_the_largest_batch() -> None:
    events = [decode()] * MAX_BATCH_EVENTS
    assert decode_batch(encode_batch(events)) == events
    with pytest.raises(CloudEventError, match=f"at most {MAX_BATCH_EVENTS}"):
        decode_batch(encode_batch([*events, decode()]))


def test_is_json() -> None:
    for data in (b"1", b' {"a":[null]} ', '"é"'.encode(), b"null"):
        assert is_json(data)
    for data in (b"", b" ", b"{", b"nul", b"'a'", b"1 2", b'"\xff"', b"\xef\xbb\xbf1", b"[" * 100_000, b"NaN"):
        assert not is_json(data)


@given(json_texts)
def test_what_json_writes_is_json(text: bytes) -> None:
    assert is_json(text)
    event = CloudEvent({**REQUIRED, "datacontenttype": "application/json"}, text)
    assert decode_event(encode_event(event)) == event


@given(st.binary(max_size=60))
def test_fuzzed_bytes(body: bytes) -> None:
    for text in (body, HEAD + b"," + body + b"}", HEAD + b',"data":' + body + b"}", b"[" + body + b"]"):
        for decoder in (decode_event, decode_batch):
            try:
                decoder(text)
            except CloudEventError:
                continue


@given(st.dictionaries(st.sampled_from([*REQUIRED, "time", "data", "data_base64", "ext"]) | st.text(), json_values))
def test_fuzzed_members(members: dict[str, Any]) -> None:
    body = json.dumps({**REQUIRED, **members}).encode()
    try:
        event = decode_event(body)
    except CloudEventError:
        return
    assert decode_event(encode_event(event)) == event
