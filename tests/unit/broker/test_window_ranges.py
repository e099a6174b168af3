"""Windows take neighbours as ranges; what they do is what they would do with the same offsets one by one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.consume.window import ConsumeWindow
from entrepot.broker.consume.window_state import PENDING

FIRST, COUNT = st.integers(0, 50), st.integers(1, 30)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["deliver", "deliver", "settle", "settle", "renew", "release", "uncount", "skip"]), FIRST, COUNT
    ),
    max_size=20,
)


def play(window: ConsumeWindow, step: tuple[str, int, int], one_by_one: bool) -> None:
    what, first, count = step
    first += window.base
    offsets = range(first, first + count)
    if what in ("renew", "release", "uncount"):  # of what was delivered
        offsets = range(first, min(first + count, window.frontier))
    if what == "skip":
        window.skip(first)
    elif what == "deliver" and not one_by_one:
        window.deliver(offsets, 1_000)
    elif what == "settle" and not one_by_one:
        window.settle(offsets)
    else:
        for offset in offsets:
            each: Sequence[int] = [offset]
            if what == "deliver":
                window.deliver(each, 1_000)
            elif what == "settle":
                window.settle(each)
            elif what == "uncount":
                window.uncount(each)
            else:
                window.change(each, 500, release=what == "release")


def played(steps: list[tuple[str, int, int]], *, one_by_one: bool) -> ConsumeWindow:
    window = ConsumeWindow(7, since=3)
    for step in steps:
        play(window, step, one_by_one)
    return window


def facts(window: ConsumeWindow) -> tuple[object, ...]:
    return window.row(0), window.unsettled, window.frontier, window.base


@given(STEPS)
def test_ranges_change_what_offsets_do(steps: list[tuple[str, int, int]]):
    assert facts(played(steps, one_by_one=False)) == facts(played(steps, one_by_one=True))


@given(STEPS, FIRST, COUNT, st.sets(st.integers(0, 90), min_size=1, max_size=20), st.booleans())
def test_neighbours_are_current_where_each_is(
    steps: list[tuple[str, int, int]], first: int, count: int, scattered: set[int], is_range: bool
):
    window = played(steps, one_by_one=False)
    chosen = range(first, first + count) if is_range else sorted(scattered)
    offsets = [7 + offset for offset in chosen]
    for stamp in {window.stamp(offset) for offset in offsets} | {window.stamp_of(1), 1 << 16 | 1}:
        assert window.are_current(offsets, stamp) == all(window.is_current(offset, stamp) for offset in offsets)


@given(STEPS, COUNT, st.integers(1, 9))
def test_delivered_runs_say_of_each_message_what_it_is(steps: list[tuple[str, int, int]], count: int, most: int):
    window = played(steps, one_by_one=False)
    offsets = window.claim(2_000, count, window.frontier + 5, 1000, window.frontier)
    if not offsets:
        return
    window.deliver(offsets, 9_000)
    told: dict[int, tuple[int, int]] = {}
    for first, length, stamp, attempt in window.delivered_runs(offsets, most):
        assert 0 < length <= most
        told |= dict.fromkeys(range(first, first + length), (stamp, attempt))
    assert told == {offset: (window.stamp(offset), window.attempt(offset)) for offset in offsets}
    assert window.are_current(
        [offset for offset in offsets if window.stamp(offset) == told[offset][0]][:1], told[offsets[0]][0]
    )


@given(STEPS, COUNT)
def test_a_claim_of_new_messages_alone_is_a_range(steps: list[tuple[str, int, int]], count: int):
    window = played(steps, one_by_one=False)
    window._due.clear()
    window._reminders.clear()
    offsets = window.claim(0, count, window.frontier + 7, 1000, window.frontier)
    assert isinstance(offsets, range) and offsets.start == window.frontier and len(offsets) <= min(count, 7)
    if offsets:
        window.deliver(offsets, 9_000)
        assert all(window._status[offset - window._origin] == PENDING for offset in offsets)
