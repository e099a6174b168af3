"""Recall handles: there and back, and nothing else is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.recall_handle import RecallHandle
from tests.support.cases import cases

NAMES = st.text("abcXYZ019_-%|/", min_size=1, max_size=192)


@given(NAMES, st.binary(max_size=64), st.integers(0, 2**63 - 1))
def test_there_and_back(topic: str, message_id: bytes, deliver_at_ms: int):
    handle = RecallHandle(topic, message_id, deliver_at_ms)
    text = handle.encode()
    assert RecallHandle.decode(text) == handle
    assert text.replace("-", "").replace("_", "").isalnum()


GOOD = RecallHandle("orders", b"\xff" * 16, 1_800_000_000_000).encode()


BAD = ["", "A", "AAAA", GOOD[:-1], GOOD[:8], GOOD + "=", GOOD + "\n", " " + GOOD, "B" + GOOD[1:], "é" * 20, "A" * 5000]
BAD += ["AgAAAAAAAAAAAWE", "AQAAAAAAAAAAAP8", "AQAAAAAAAAAAAA", "AQAAAAAAAAAAAf8"]


@cases("text", BAD)
def test_what_is_none(text: str):
    with pytest.raises(EntrepotError) as refused:
        RecallHandle.decode(text)
    assert refused.value.code is Code.BAD_REQUEST


@given(st.text(max_size=200))
def test_any_text_is_a_handle_or_refused(text: str):
    try:
        handle = RecallHandle.decode(text)
    except EntrepotError:
        return
    assert handle.encode() == text
