"""The cases."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.conformance.cloudevents.case import BATCH, BINARY, EVENT, NULL, STRUCTURED, Case


def _without(name: str) -> dict[str, str]:
    return {header: value for header, value in BINARY.items() if header != f"ce-{name}"}


def _json(**members: Any) -> bytes:
    return json.dumps({**EVENT, **members}).encode()


def _structured(name: str, proves: str, expected: dict[str, Any] | None = None, **members: Any) -> Case:
    return Case(name, tuple(proves.split(", ")), STRUCTURED, _json(**members), event=expected or members)


def _refused(name: str, proves: str, body: bytes, *words: str, headers: dict[str, str] = STRUCTURED) -> Case:
    return Case(name, tuple(proves.split(", ")), headers, body, 400, words=words)


def _header(name: str, proves: str, value: str, expected: str) -> Case:
    return Case(name, tuple(proves.split(", ")), {**BINARY, "ce-text": value}, event={"text": expected})


CASES: Final = (
    # names and values
    _refused("a name with a capital", "CORE 2-1", _json(Name="x"), "Name"),
    _refused("a name with a dash", "CORE 2-1", _json(**{"a-b": "x"}), "a-b"),
    _refused("an empty name", "CORE 2-1", _json(**{"": "x"})),
    Case("a header of the name data", ("CORE 2-2",), {**BINARY, "ce-data": "x"}, status=400, words=("data",)),
    _refused("a control character", "CORE 2.1-1", _json(text="a\u0007"), "U+0007"),
    _refused("a noncharacter", "CORE 2.1-1", _json(text="\ufffe"), "U+FFFE"),
    _refused("a surrogate", "CORE 2.1-1", b'{"specversion":"1.0","id":"1","source":"/","type":"t","a":"\\ud800"}'),
    Case(
        "a pair of surrogates",
        ("CORE 2.1-1",),
        STRUCTURED,
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","text":"\\ud83d\\ude00"}',
        event={"text": "\U0001f600"},
    ),
    _refused("an encoded line feed in a header", "CORE 2.1-1", b"", "U+000A", headers={**BINARY, "ce-text": "a%0Ab"}),
    _structured("a name of more than 20 characters", "CORE 2-4", anextensionwithalongname="x"),
    _structured("a Boolean and an Integer", "CORE 2.1-2, JSON 2.2-1, CORE 3.2-1", flag=True, count=-5),
    Case(
        "their strings in headers",
        ("CORE 2.1-2",),
        {**BINARY, "ce-flag": "true", "ce-count": "-5"},
        event={"flag": "true", "count": "-5"},
    ),
    # required and optional attributes
    *(Case(f"without {name}", ("CORE 3.1-1",), _without(name), status=400, words=(name,)) for name in EVENT),
    *(_refused(f"{name} is empty", "CORE 3.1-1", _json(**{name: ""}), name) for name in EVENT),
    *(_refused(f"{name} is null", "CORE 3.1-1, JSON 2.2-2", _json(**{name: None}), name) for name in EVENT),
    _refused("another version", "CORE 3.1.1-1", _json(specversion="0.3"), "0.3"),
    _structured("a source that is no URI-reference", "CORE 3.1-2", source="line 1 <west>"),
    *(
        _structured(f"source: {text}", "CORE 3.1-2", source=text)
        for text in ("https://github.com/cloudevents", "mailto:a@b.example", "urn:uuid:6e8bc430", "/a/b", "1-555-123")
    ),
    _structured("a media type with a parameter", "CORE 3.1.2-1", datacontenttype="text/plain; charset=utf-8", data="x"),
    _refused("no media type", "CORE 3.1.2-1", _json(datacontenttype="text"), "datacontenttype"),
    _structured("a URI", "CORE 3.1.2-2", dataschema="https://schemas.example/a?b#c"),
    _refused("a relative URI", "CORE 3.1.2-2", _json(dataschema="/a"), "dataschema"),
    _refused("an empty dataschema", "CORE 3.1.2-2", _json(dataschema=""), "dataschema"),
    _refused("an empty subject", "CORE 3.1.2-3", _json(subject=""), "subject"),
    _structured("times of RFC 3339", "CORE 3.1.2-4", time="2026-02-28T23:59:60.123456789-23:59"),
    *(
        _refused(f"no time: {text}", "CORE 3.1.2-4", _json(time=text), "time")
        for text in ("2026-02-30T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00", "1768000000", "2026-01-01 00:00:00Z")
    ),
    _structured("an unknown extension", "CORE 3.2-1", comexampleextension1="value", othervalue=5),
    _structured(
        "every optional attribute",
        "CORE 1.1-1",
        subject="s",
        time="2026-01-01T00:00:00Z",
        dataschema="https://schemas.example/a",
        datacontenttype="text/plain",
        data="x",
        unit="K",
    ),
    *(
        _structured(f"64 KiB of {name}", "CORE 4-1", None, **{name: "x" * 65_000})
        for name in ("id", "text", "partitionkey")
    ),
    _refused("an attribute above 64 KiB", "CORE 4-1", _json(text="x" * 65_536), "text", "65535"),
    _refused(
        "more attributes than our limit",
        "CORE 4-1",
        _json(**{f"a{number}": "" for number in range(130)}),
        "128",
    ),
    _refused("a name above our limit", "CORE 4-1", _json(**{"a" * 129: ""}), "128"),
    _refused("a subject of more levels than our limit", "CORE 4-1", _json(subject="/".join("a" * 200)), "200 levels"),
    _structured("a subject of as many levels as can be", "CORE 4-1", subject="/".join("a" * 199)),
    Case(
        "another header",
        ("CORE 3.2-2",),
        {**BINARY, "x-request-id": "1"},
        event={"xrequestid": None, "x-request-id": None},
    ),
    _structured("64 KiB", "CORE 4-1", {"data": "x" * 65_000}, data="x" * 65_000),
    # modes
    Case(
        "capitals in the Content-Type",
        ("HTTP 3-1",),
        {"content-type": "Application/CloudEvents+JSON; Charset=UTF-8"},
        _json(data=1),
        event={"data": 1},
    ),
    Case(
        "headers and a structured Content-Type",
        ("HTTP 3-1", "HTTP 3.2.3-1"),
        {**STRUCTURED, "ce-id": "other", "ce-type": "other"},
        _json(),
        event={"id": "1", "type": "t"},
    ),
    Case(
        "another type with json in it is binary",
        ("HTTP 3-1",),
        {**BINARY, "content-type": "application/cloudevent+json"},
        b"{}",
        event={"datacontenttype": "application/cloudevent+json", "data": {}},
    ),
    Case(
        "an unknown format", ("HTTP 3-2", "WEBHOOK 2.2-5"), {"content-type": "application/cloudevents+avro"}, b"x", 415
    ),
    Case(
        "an unknown format of batches", ("HTTP 3-2",), {"content-type": "application/cloudevents-batch+xml"}, b"x", 415
    ),
    Case(
        "the Protobuf format",
        ("HTTP 3.2.1-1",),
        {"content-type": "application/cloudevents+protobuf"},
        b'\n\x011\x12\x02/s\x1a\x031.0"\x01t:\x02hi',
        event={"id": "1", "source": "/s", "type": "t"},
    ),
    Case(
        "the Protobuf format: text in another charset",
        ("JSON 3.1.2-3",),
        {"content-type": "application/cloudevents+protobuf"},
        b'\n\x011\x12\x02/s\x1a\x031.0"\x01t*3\n\x0fdatacontenttype\x12 \x1a\x1etext/plain; charset=iso-8859-1'
        b":\x02\xc3\xa9",
        event={"data": None, "data_base64": "6Q=="},
    ),
    # binary mode
    Case(
        "Content-Type is datacontenttype",
        ("HTTP 3.1.1-1", "HTTP 1.3-1"),
        {**BINARY, "content-type": "text/csv"},
        b"a,b",
        event={"datacontenttype": "text/csv", "data": "a,b"},
    ),
    Case(
        "ce-datacontenttype",
        ("HTTP 3.1.1-2",),
        {**BINARY, "ce-datacontenttype": "text/csv"},
        status=400,
        words=("datacontenttype",),
    ),
    Case(
        "bytes stay bytes",
        ("HTTP 3.1.2-1", "JSON 3.1.1-3"),
        {**BINARY, "content-type": "application/octet-stream"},
        b"\x00\xff\r\n",
        event={"data_base64": "AP8NCg=="},
    ),
    Case(
        "names of headers in capitals",
        ("HTTP 3.1.3.1-1",),
        {name.upper(): value for name, value in BINARY.items()},
        event={"id": "1"},
    ),
    Case(
        "an attribute twice",
        ("HTTP 3.1.3.1-1", "CORE 2-3"),
        BINARY,
        status=400,
        words=("twice",),
        more_headers=(("ce-id", "2"),),
    ),
    Case(
        "two Content-Types",
        ("CORE 2-3",),
        {**BINARY, "content-type": "text/csv"},
        status=400,
        words=("twice",),
        more_headers=(("content-type", "text/plain"),),
    ),
    # header values
    _header("percent-encoding", "HTTP 3.1.3.2-1", "Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
    _header("a quoted string", "HTTP 3.1.3.2-1", '"a \\"b\\" %41"', 'a "b" A'),
    _header("one round only", "HTTP 3.1.3.2-1", "%2541", "%41"),
    _header("lower-case hex digits", "HTTP 3.1.3.2-2", "%e2%82%ac", "€"),
    _header("needless encoding", "HTTP 3.1.3.2-2", "%41%42", "AB"),
    Case("no UTF-8", ("HTTP 3.1.3.2-3",), {**BINARY, "ce-text": "%ff%fe"}, status=400, words=("text", "UTF-8")),
    Case("an overlong sequence", ("HTTP 3.1.3.2-3",), {**BINARY, "ce-text": "%c0%a0"}, status=400, words=("UTF-8",)),
    Case("a surrogate in UTF-8", ("HTTP 3.1.3.2-3",), {**BINARY, "ce-text": "%ed%a0%80"}, status=400, words=("UTF-8",)),
    # structured and batched mode
    _structured("a whole event", "HTTP 3.2.1-1, HTTP 1.3-1, HTTP 1.4-1, CORE 1-1", subject="s", data={"a": [1]}),
    Case(
        "several events",
        ("HTTP 3.3-1", "JSON 4-1"),
        BATCH,
        json.dumps([{**EVENT, "id": str(n)} for n in range(3)]).encode(),
        count=3,
    ),
    Case("no events", ("HTTP 3.3-1",), BATCH, b"[]", count=0),
    Case(
        "one of several is none",
        ("JSON 4-1",),
        BATCH,
        json.dumps([EVENT, {**EVENT, "id": ""}]).encode(),
        400,
        words=("event 1", "id"),
    ),
    Case(
        "two versions in one batch",
        ("CORE 1.1-2", "HTTP 3.3-3"),
        BATCH,
        json.dumps([EVENT, {**EVENT, "specversion": "0.3"}]).encode(),
        400,
        words=("event 1", "specversion"),
    ),
    _refused("an array that is said to be one event", "JSON 4-2", b"[" + _json() + b"]", "object"),
    Case("no array", ("JSON 4-1",), BATCH, _json(), 400, words=("array",)),
    # JSON
    _refused("extensions in an object of their own", "JSON 2-1", _json(extensions={"unit": "K"}), "extensions"),
    _structured("null", "JSON 2.2-2", {"subject": None, "unit": None}, subject=None, unit=None),
    _structured("the least and the greatest Integer", "JSON 2.2-3, CORE 2.1-3", low=-(2**31), high=2**31 - 1),
    _refused("an Integer that is too large", "JSON 2.2-3, CORE 2.1-3", _json(high=2**31), "high"),
    _refused("a number with a fraction", "JSON 2.2-1, CORE 2.1-4", _json(level=1.5), "level"),
    _refused("a number with a fraction of 0", "JSON 2.2-1", _json(level=5.0), "level"),
    _refused("an array for an attribute", "JSON 2.2-1, CORE 2.1-4", _json(level=[1]), "level"),
    _refused("an object for an attribute", "JSON 2.2-1, CORE 2.1-4", _json(level={}), "level"),
    _refused("a required attribute that is no string", "JSON 2.2-1", _json(id=1), "id"),
    _refused("data twice over", "JSON 3.1-1", _json(data=1, data_base64="AA=="), "data_base64"),
    _refused(
        "a member twice",
        "JSON 3-1, CORE 2-3",
        b'{"specversion":"1.0","id":"1","id":"1","source":"/","type":"t"}',
        "twice",
    ),
    Case(
        "JSON as it stands",
        ("JSON 3.1.1-1",),
        STRUCTURED,
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"b":1.0,"a":[12345678901234567890]}}',
        event={"data": {"b": 1.0, "a": [12345678901234567890]}},
    ),
    _structured(
        "a JSON string stays one", "JSON 3.1.1-1, JSON 3.1.2-2", datacontenttype="application/json", data='{"a": 1}'
    ),
    _structured("text", "JSON 3.1.1-2", datacontenttype="text/plain", data="a\nb"),
    _structured("no text for data of a text type", "JSON 3.1.2-3", {"data": "5"}, datacontenttype="text/plain", data=5),
    _structured(
        "text in another charset",
        "JSON 3.1.2-3, JSON 3.1.1-3",
        {"data": None, "data_base64": "6Q=="},
        datacontenttype="text/plain; charset=ISO-8859-1",
        data="\u00e9",
    ),
    _refused(
        "text that its charset has not",
        "JSON 3.1.2-3",
        _json(datacontenttype="text/plain; charset=iso-8859-1", data="\u20ac"),
        "charset",
    ),
    _refused(
        "text in a charset that nobody knows",
        "JSON 3.1.2-3",
        _json(datacontenttype="text/plain; charset=hex", data="\u20ac"),
        "charset",
    ),
    Case("null is data", ("JSON 3.1.1-5",), STRUCTURED, _json(data=None), event={"data": NULL, "data_base64": None}),
    Case(
        "broken JSON is bytes",
        ("JSON 3.1.1-3",),
        {**BINARY, "content-type": "application/json"},
        b"{",
        event={"data": None, "data_base64": "ew=="},
    ),
    _structured("bytes", "JSON 3.1.1-3", datacontenttype="image/png", data_base64="iVBORw=="),
    _refused("no Base64", "JSON 3.1.1-3", _json(data_base64="***"), "data_base64"),
    _structured("data without a type", "JSON 3.1.1-4", {"data": {"a": 1}, "datacontenttype": None}, data={"a": 1}),
    Case("what is taken is answered", ("WEBHOOK 2.2-5", "WEBHOOK 2.2-7"), BINARY, b""),
)
