"""Deliveries: an event that is published, and the request that a receiver of webhooks is sent of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from tests.conformance.cloudevents.case import BINARY, EVENT, STRUCTURED

STRUCTURED_TYPE: Final = "application/cloudevents+json; charset=utf-8"


@dataclass(frozen=True)
class DeliveryCase:
    """`sent`: headers of the request; None for one that it has not.  `event`: the whole of a structured event."""

    name: str
    proves: tuple[str, ...]
    headers: dict[str, str]
    body: bytes
    mode: str = "binary"
    sent: dict[str, str | None] = field(default_factory=dict)
    data: bytes | None = None
    event: dict[str, Any] | None = None


def _json(**members: Any) -> bytes:
    return json.dumps({**EVENT, **members}).encode()


DELIVERIES: Final = (
    DeliveryCase(
        "sent: characters that are percent-encoded",
        ("HTTP 3.1.3.2-4", "HTTP 3.1.3.2-5", "HTTP 3.1.3.1-1"),
        STRUCTURED,
        _json(text='Euro € 😀 "%41"', plain="!#$&'()*+,-./:;<=>?@[]^_`{|}~"),
        sent={
            "ce-text": "Euro%20%E2%82%AC%20%F0%9F%98%80%20%22%2541%22",
            "ce-plain": "!#$&'()*+,-./:;<=>?@[]^_`{|}~",
        },
    ),
    DeliveryCase(
        "sent: Booleans and Integers in headers",
        ("HTTP 3.1.3.2-6", "CORE 2.1-2"),
        STRUCTURED,
        _json(flag=True, other=False, count=-5),
        sent={"ce-flag": "true", "ce-other": "false", "ce-count": "-5"},
    ),
    DeliveryCase(
        "sent: the type of JSON data that said nothing of it",
        ("CORE 3.1.2-5", "JSON 3.1.2-4", "JSON 3.1.2-2"),
        STRUCTURED,
        _json(data="I'm just a string"),
        sent={"content-type": "application/json", "ce-datacontenttype": None},
        data=b'"I\'m just a string"',
    ),
    DeliveryCase(
        "sent: bytes out of Base64",
        ("JSON 3.1.2-1", "HTTP 3.1.1-2", "HTTP 3.1.2-1"),
        STRUCTURED,
        _json(datacontenttype="image/png", data_base64="iVBORwA="),
        sent={"content-type": "image/png", "ce-datacontenttype": None, "ce-data_base64": None},
        data=b"\x89PNG\0",
    ),
    DeliveryCase(
        "sent: text in the charset that its type says",
        ("JSON 3.1.2-3",),
        STRUCTURED,
        _json(datacontenttype="text/plain; charset=iso-8859-1", data="é"),
        sent={"content-type": "text/plain; charset=iso-8859-1"},
        data=b"\xe9",
    ),
    DeliveryCase(
        "sent: every attribute in the body of structured mode",
        ("HTTP 3.2.1-1", "HTTP 3.2.3-1", "HTTP 1.4-1", "CORE 1-1", "CORE 1.1-1", "JSON 2-1", "JSON 3-2", "JSON 3-3"),
        {
            **BINARY,
            "ce-subject": "s%20t",
            "ce-time": "2026-01-01T00:00:00Z",
            "ce-unit": "K",
            "content-type": "text/csv",
        },
        b"a,b",
        "structured",
        sent={"content-type": STRUCTURED_TYPE},
        event={
            **EVENT,
            "subject": "s t",
            "time": "2026-01-01T00:00:00Z",
            "unit": "K",
            "datacontenttype": "text/csv",
            "data": "a,b",
        },
    ),
    DeliveryCase(
        "sent: types of extensions in structured mode",
        ("JSON 2.2-1",),
        STRUCTURED,
        _json(flag=True, count=5, text="5"),
        "structured",
        event={**EVENT, "flag": True, "count": 5, "text": "5"},
    ),
    DeliveryCase(
        "sent: JSON as a value",
        ("JSON 3.1.1-1",),
        {**BINARY, "content-type": "application/vnd.x+json"},
        b'{"a": "1"}',
        "structured",
        event={**EVENT, "datacontenttype": "application/vnd.x+json", "data": {"a": "1"}},
    ),
    DeliveryCase(
        "sent: bytes as Base64",
        ("JSON 3.1.1-3",),
        {**BINARY, "content-type": "application/octet-stream"},
        b"\x00\xff",
        "structured",
        event={**EVENT, "datacontenttype": "application/octet-stream", "data_base64": "AP8="},
    ),
    DeliveryCase(
        "sent: null as data",
        ("JSON 3.1.1-5",),
        STRUCTURED,
        _json(data=None),
        "structured",
        event={**EVENT, "data": None},
    ),
    DeliveryCase(
        "sent: an event without data",
        ("WEBHOOK 2.1-3",),
        BINARY,
        b"",
        sent={"content-type": None},
        data=b"",
    ),
    DeliveryCase(
        "sent: data without a type",
        ("WEBHOOK 2.1-1",),
        BINARY,
        b"what it is nobody has said",
        sent={"content-type": None, "ce-datacontenttype": None},
        data=b"what it is nobody has said",
    ),
    DeliveryCase(
        "sent: 64 KiB",
        ("CORE 4-1",),
        {**BINARY, "content-type": "application/octet-stream"},
        b"x" * 65_000,
        data=b"x" * 65_000,
    ),
    DeliveryCase(
        "sent: 64 KiB of one attribute",
        ("CORE 4-1",),
        STRUCTURED,
        _json(text="x" * 65_000),
        "structured",
        event={**EVENT, "text": "x" * 65_000},
    ),
    DeliveryCase(
        "sent: a trace, in its own header too",
        ("HTTP 3.1.3-1",),
        STRUCTURED,
        _json(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        sent={
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "ce-traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        },
    ),
)
