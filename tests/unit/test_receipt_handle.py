"""What a gateway can read of a receipt handle without the store's key."""

from __future__ import annotations

from random import Random
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.consume.handle_mint import HandleContext, HandleMint
from domain.errors import Code, EntrepotError
from domain.receipt_handle import INDEX_TEXT_LENGTH, MAX_RUN, HandleRoute, read_route

NAMES = st.text(alphabet="abcXYZ019_-%|", min_size=1, max_size=120)


@given(topic=NAMES, group=NAMES, epoch=st.integers(0, 2**32 - 1), offset=st.integers(0, 2**64 - 1))
def test_the_route_is_read_as_it_was_minted(topic: str, group: str, epoch: int, offset: int):
    mint = HandleMint(b"k" * 32, b"12345678", "broker-a")
    [handle] = mint.context(topic, group, epoch, (0, 0)).mint(3, [offset], [1])
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


def context_of(topic: str = "t", group: str = "g", key: bytes = b"k") -> HandleContext:
    return HandleMint(key * 32, b"12345678", "broker-a").context(topic, group, 0, (0, 0))


PLACES = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 3)), unique_by=lambda place: place[0], max_size=300)


@given(PLACES, st.sampled_from([0, 7, 0x8000_0001]), st.randoms())
def test_what_is_minted_is_checked_in_any_order(places: list[tuple[int, int]], queue_id: int, random: Random):
    context = context_of()
    handles = context.mint(queue_id, [offset for offset, _ in places], [stamp for _, stamp in places])
    assert len(set(handles)) == len(places)
    expected = {handle: (queue_id, *place) for handle, place in zip(handles, places, strict=True)}
    random.shuffle(handles)
    assert context.check(handles) == [expected[handle] for handle in handles]


@given(st.integers(1, 3), st.integers(0, 200), st.data())
def test_a_handle_that_is_changed_is_refused_or_of_the_same_answer(stamp: int, first: int, data: st.DataObject):
    context = context_of()
    count = data.draw(st.integers(1, 100))
    handles = context.mint(3, list(range(first, first + count)), [stamp] * count)
    handle = list(data.draw(st.sampled_from(handles)))
    at = data.draw(st.integers(0, len(handle) - 1))
    handle[at] = data.draw(st.sampled_from(sorted(set(ascii_letters + digits + "-_=+ü") - {handle[at]})))
    [found] = context.check(["".join(handle)])
    if not isinstance(found, EntrepotError):
        assert at >= len(handle) - INDEX_TEXT_LENGTH and "".join(handle) in handles
        assert found == (3, first + handles.index("".join(handle)), stamp)


def test_more_than_a_run_can_count_are_several_runs():
    context, count = context_of(), MAX_RUN + 2
    handles = context.mint(0, list(range(count)), [1] * count)
    assert context.check([handles[0], handles[MAX_RUN - 1], handles[-1]]) == [
        (0, 0, 1),
        (0, MAX_RUN - 1, 1),
        (0, count - 1, 1),
    ]


def test_a_handle_of_another_topic_group_or_store_is_refused():
    [handle] = context_of().mint(0, [5], [1])
    for other in (context_of(topic="u"), context_of(group="h"), context_of(key=b"l")):
        [refused] = other.check([handle])
        assert isinstance(refused, EntrepotError) and refused.code is Code.INVALID_RECEIPT_HANDLE


def test_a_handle_of_the_old_form_is_refused_with_a_word_that_says_so():
    old = "AQA" + context_of().mint(0, [5], [1])[0][3:-16]
    [checked] = context_of().check([old])
    with pytest.raises(EntrepotError) as refused:
        read_route(old)
    for refusal in (checked, refused.value):
        assert isinstance(refusal, EntrepotError) and refusal.code is Code.INVALID_RECEIPT_HANDLE
        assert "earlier version" in refusal.message


def test_each_run_is_checked_once(monkeypatch: pytest.MonkeyPatch):
    context = context_of()
    handles = context.mint(0, list(range(50)), [1] * 50) + context.mint(1, [4, 9], [1, 1])
    looked: list[str] = []
    checked = HandleContext._checked
    monkeypatch.setattr(HandleContext, "_checked", lambda self, head: looked.append(head) or checked(self, head))
    assert not any(isinstance(each, EntrepotError) for each in context.check(handles))
    assert len(looked) == 3
