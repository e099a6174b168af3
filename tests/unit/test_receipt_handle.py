"""What a gateway can read of a receipt handle without the store's key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.consume.handle_mint import HandleMint
from domain.errors import Code, EntrepotError
from domain.receipt_handle import HandleRoute, read_route

NAMES = st.text(alphabet="abcXYZ019_-%|", min_size=1, max_size=120)


@given(topic=NAMES, group=NAMES, epoch=st.integers(0, 2**32 - 1), offset=st.integers(0, 2**64 - 1))
def test_the_route_is_read_as_it_was_minted(topic: str, group: str, epoch: int, offset: int):
    mint = HandleMint(b"k" * 32, b"12345678", "broker-a")
    [handle] = mint.context(topic, group, epoch, (0, 0)).mint(3, [(offset, 1)])
    assert read_route(handle) == HandleRoute("default", topic, group, "broker-a", b"12345678", epoch)


@pytest.mark.parametrize("text", ["", "x", "ü" * 40, "A" * 80, "!" * 80, "A" * 5000])
def test_what_is_no_handle_is_refused(text: str):
    with pytest.raises(EntrepotError) as refused:
        read_route(text)
    assert refused.value.code == Code.INVALID_RECEIPT_HANDLE


@given(st.text(max_size=200))
def test_no_text_does_more_than_be_refused(text: str):
    with pytest.raises(EntrepotError) as refused:
        read_route(text)
    assert refused.value.code == Code.INVALID_RECEIPT_HANDLE
