"""What the WebHook specification says of answers and consent; and that nothing a peer says makes it fail."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.http.streaming import frames
from entrepot.gateway.operations.nouns.subscription_definition import record_of
from entrepot.gateway.operations.nouns.subscription_shapes import SubscriptionBody
from entrepot.gateway.operations.nouns.topic_stream import cursor_of, parse_cursor
from entrepot.protocols.cloudevents import webhook
from entrepot.protocols.cloudevents.errors import CloudEventError
from entrepot.protocols.cloudevents.webhook import Consent, Verdict
from tests.support.cases import cases

ORIGIN = "events.example"


@cases(
    "headers, consent",
    [
        ({}, None),
        ({"webhook-allowed-origin": "*"}, Consent(None)),
        ({"webhook-allowed-origin": "Events.Example", "webhook-allowed-rate": "120"}, Consent(120)),
        ({"webhook-allowed-origin": ORIGIN, "webhook-allowed-rate": "*"}, Consent(None)),
        ({"webhook-allowed-origin": ORIGIN, "webhook-allowed-rate": "0"}, None),
        ({"webhook-allowed-origin": ORIGIN, "webhook-allowed-rate": "-5"}, None),
        ({"webhook-allowed-origin": ORIGIN, "webhook-allowed-rate": "1e3"}, None),
        ({"webhook-allowed-origin": "example"}, None),
    ],
)
def test_consent(headers: dict[str, str], consent: Consent | None) -> None:
    assert webhook.consent_of(headers, ORIGIN) == consent


@cases(
    "status, verdict",
    [
        *((status, Verdict.DELIVERED) for status in (200, 201, 202, 204)),
        *((status, Verdict.RETRY) for status in (301, 302, 307, 404, 408, 409, 425, 429, 500, 502, 503, 504)),
        *((status, Verdict.REFUSED) for status in (400, 401, 403, 413, 415, 422)),
        (410, Verdict.GONE),
    ],
)
def test_verdicts(status: int, verdict: Verdict) -> None:
    assert webhook.verdict_of(status) is verdict


@cases(
    "text, seconds",
    [
        ("120", 120.0),
        ("0", 0.0),
        (" 5 ", 5.0),
        ("000000000007", 7.0),
        ("86400", 86_400.0),
        ("86401", 86_400.0),
        ("9" * 30, 86_400.0),
        ("9" * 10_000, 86_400.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thursday, 01-Jan-70 00:01:40 GMT", 90.0),
        ("Thu Jan  1 00:01:40 1970", 90.0),
        ("Thu, 01 Jan 1970 01:01:40 +0100", 90.0),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Wed, 01 Jan 1902 00:00:00 GMT", 0.0),
        ("Fri, 02 Jan 1970 00:00:09 GMT", 86_399.0),
        ("Fri, 02 Jan 1970 00:00:11 GMT", 86_400.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 2024 00:00:00 +99999999999", None),
        ("Thu, 32 Jan 1970 00:01:40 GMT", None),
        ("Thu, 01 Jan 1970 25:00:00 GMT", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("-1", None),
        ("1.5", None),
        ("1e3", None),
        ("\u0661\u0662", None),
        ("120, 240", None),
    ],
)
def test_retry_after(text: str | None, seconds: float | None) -> None:
    """At ten seconds of 1970: RFC 9110's three forms of a date, the past, nonsense, and the limit of a day."""
    assert webhook.retry_after_seconds(text, 10.0) == seconds


@given(st.text(max_size=60))
def test_no_header_makes_it_fail(text: str) -> None:
    wait = webhook.retry_after_seconds(text, 1e9)
    assert wait is None or 0 <= wait <= webhook.MAX_RETRY_AFTER_SECONDS
    rate = webhook.rate_of(text)
    assert rate is None or rate >= 0
    webhook.consent_of({"webhook-allowed-origin": text, "webhook-allowed-rate": text}, ORIGIN)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
_TYPES = st.sampled_from([*sorted(frames.CONTROL_TYPES), "other"])


@given(st.binary(max_size=200) | _JSON.map(lambda value: json.dumps(value).encode()))
def test_no_frame_makes_it_fail(text: bytes) -> None:
    with pytest.raises(CloudEventError):
        frames.decode_control(text)


@given(_TYPES, _JSON)
def test_no_control_makes_it_fail(kind: str, data: object) -> None:
    said = {"specversion": "1.0", "id": "1", "source": "/", "type": kind, "data": data}
    try:
        control = frames.decode_control(json.dumps(said).encode())
    except CloudEventError:
        return
    assert control.type in frames.CONTROL_TYPES


@given(st.text(max_size=60))
def test_no_cursor_makes_it_fail(text: str) -> None:
    try:
        places = parse_cursor(text)
    except EntrepotError:
        return
    assert parse_cursor(cursor_of(places)) == places


@given(st.dictionaries(st.integers(0, 2000), st.integers(0, 10**18 - 1), min_size=1, max_size=50))
def test_cursors_come_back(places: dict[int, int]) -> None:
    assert parse_cursor(cursor_of(places)) == places


_MEMBERS = st.sampled_from(["source", "types", "config", "filters", "sink", "sinkcredential", "protocolsettings", "id"])


@given(st.dictionaries(_MEMBERS, _JSON, max_size=4))
def test_no_subscription_makes_it_fail(members: dict[str, object]) -> None:
    given_ = {"source": "t", "sink": "https://receiver.example/", "protocol": "HTTP", **members}
    try:
        body = msgspec.json.decode(json.dumps(given_), type=SubscriptionBody)
        record_of(body, "default", "made", 0, "off")
    except (ValueError, EntrepotError):
        return
