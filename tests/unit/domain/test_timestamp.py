"""RFC 3339 timestamps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.timestamp import MAX_EPOCH_MS, to_epoch_ms, to_rfc3339
from tests.support.cases import cases


@cases(
    "text, epoch_ms",
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00.1z", 100),
        ("1970-01-01T00:00:00.0019999999Z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.500Z", -500),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("2026-06-30T12:00:00-07:30", 1_782_847_800_000),
        ("9999-12-31T23:59:59.999Z", MAX_EPOCH_MS),
    ],
)
def test_what_is_a_timestamp(text: str, epoch_ms: int):
    assert to_epoch_ms(text) == epoch_ms


@cases(
    "text",
    [
        "",
        "soon",
        "1782847800000",
        "2026-06-30",
        "2026-06-30T12:00:00",
        "2026-06-30 12:00:00Z",
        "2026-06-31T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-06-30T24:00:00Z",
        "2026-06-30T12:00:61Z",
        "2026-06-30T12:00:00.Z",
        "2026-06-30T12:00:00+24:00",
        "2026-06-30T12:00:00Z\n",
        "0000-01-01T00:00:00Z",
        "٢٠٢٦-06-30T12:00:00Z",
    ],
)
def test_what_is_none(text: str):
    assert to_epoch_ms(text) is None


@given(st.integers(-62_135_596_800_000, MAX_EPOCH_MS))
def test_there_and_back(epoch_ms: int):
    text = to_rfc3339(epoch_ms)
    assert text is not None
    assert to_epoch_ms(text) == epoch_ms


def test_outside_of_the_calendar():
    assert to_rfc3339(MAX_EPOCH_MS + 1) is None
    assert to_rfc3339(2**63) is None
