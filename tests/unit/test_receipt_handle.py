"""What a gateway can read of a receipt handle without the store's key."""

from __future__ import annotations

from random import Random
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.consume.handle_mint import HandleContext, HandleMint
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.receipt_handle import INDEX_TEXT_LENGTH, MAX_RUN, HandleRoute, index_text, read_route

NAMES = st.text(alphabet="abcXYZ019_-%|", min_size=1, max_size=120)


def handles_of(context: HandleContext, queue_id: int, first: int, count: int, stamp: int) -> list[str]:
    head = context.mint(queue_id, first, count, stamp)
    return [head + index_text(index) for index in range(count)]


@given(topic=NAMES, group=NAMES, epoch=st.integers(0, 2**32 - 1), offset=st.integers(0, 2**64 - 1))
def test_the_route_is_read_as_it_was_minted(topic: str, group: str, epoch: int, offset: int):
    mint = HandleMint(b"k" * 32, b"12345678", "broker-a")
    [handle] = handles_of(mint.context(topic, group, epoch, (0, 0)), 3, offset, 1, 1)
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


RUNS = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 70), st.integers(1, 3)), unique_by=lambda run: run[0], max_size=9
)


@given(RUNS, st.sampled_from([0, 7, 0x8000_0001]), st.randoms())
def test_what_is_minted_is_checked_in_any_order(runs: list[tuple[int, int, int]], queue_id: int, random: Random):
    context = context_of()
    expected = {
        handle: (queue_id, first + index, stamp)
        for first, count, stamp in runs
        for index, handle in enumerate(handles_of(context, queue_id, first, count, stamp))
    }
    assert len(expected) == sum(count for _, count, _ in runs)
    handles = list(expected)
    random.shuffle(handles)
    assert context.check(handles) == [expected[handle] for handle in handles]


@given(st.integers(1, 3), st.integers(0, 200), st.data())
def test_a_handle_that_is_changed_is_refused_or_of_the_same_answer(stamp: int, first: int, data: st.DataObject):
    context = context_of()
    count = data.draw(st.integers(1, 100))
    handles = handles_of(context, 3, first, count, stamp)
    handle = list(data.draw(st.sampled_from(handles)))
    at = data.draw(st.integers(0, len(handle) - 1))
    handle[at] = data.draw(st.sampled_from(sorted(set(ascii_letters + digits + "-_=+ü") - {handle[at]})))
    [found] = context.check(["".join(handle)])
    if not isinstance(found, EntrepotError):
        assert at >= len(handle) - INDEX_TEXT_LENGTH and "".join(handle) in handles
        assert found == (3, first + handles.index("".join(handle)), stamp)


def test_a_handle_that_is_filled_up_is_another_spelling():
    context = context_of()
    [handle] = handles_of(context, 3, 0, 1, 1)
    [found] = context.check([handle[:-1] + "="])
    assert isinstance(found, EntrepotError)


def test_a_handle_has_one_spelling():
    context = context_of()
    [handle] = next(found for stamp in range(1000) if "-" in (found := handles_of(context, 3, 0, 1, stamp))[0])
    [found] = context.check([handle.replace("-", "+")])
    assert isinstance(found, EntrepotError)


def test_the_longest_run_has_handles_to_its_end():
    context = context_of()
    handles = handles_of(context, 0, 5, MAX_RUN, 1)
    assert context.check([handles[0], handles[-1]]) == [(0, 5, 1), (0, 4 + MAX_RUN, 1)]
    [beyond] = context.check([handles[0][:-INDEX_TEXT_LENGTH] + index_text(MAX_RUN)])
    assert isinstance(beyond, EntrepotError)


def test_a_handle_of_another_topic_group_or_store_is_refused():
    [handle] = handles_of(context_of(), 0, 5, 1, 1)
    for other in (context_of(topic="u"), context_of(group="h"), context_of(key=b"l")):
        [refused] = other.check([handle])
        assert isinstance(refused, EntrepotError) and refused.code is Code.INVALID_RECEIPT_HANDLE


def test_each_run_is_checked_once(monkeypatch: pytest.MonkeyPatch):
    context = context_of()
    places = [(0, 0, 50), (1, 4, 1), (1, 9, 1)]
    handles = [handle for queue_id, first, count in places for handle in handles_of(context, queue_id, first, count, 1)]
    looked: list[str] = []
    checked = HandleContext._checked
    monkeypatch.setattr(HandleContext, "_checked", lambda self, head: looked.append(head) or checked(self, head))
    assert not any(isinstance(each, EntrepotError) for each in context.check(handles))
    assert len(looked) == 3
