"""Sharing out messages among consumers of which some have narrow frames."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from entrepot.gateway.amqp.feeds import narrow_frames

LARGE = 100


@dataclass(eq=False)
class Consumer:
    """Takes `credit` messages of up to `most`."""

    credit: int
    most: int = LARGE
    priority: int = 0
    shared_room: None = None
    asked: list[int] = field(default_factory=list)

    @property
    def is_narrow(self) -> bool:
        return self.most < LARGE

    def can_take(self, ticket: Any) -> bool:
        assert self.is_narrow, "only the narrow ones are asked"
        return ticket[1] <= self.most


def shared_out(given: list[Any], consumers: list[Consumer]) -> Any:
    return narrow_frames.shared_out(given, consumers)


def tickets(*sizes: int) -> list[Any]:
    return list(enumerate(sizes))


def test_a_large_message_goes_to_the_consumer_that_can_take_it() -> None:
    narrow, wide = Consumer(10, most=10), Consumer(10)
    shared = shared_out(tickets(5, 50, 5, 50, 50), [narrow, wide])
    assert all(size <= 10 for _, size in shared.parts[narrow])
    assert [place for place, size in shared.parts[wide] if size == 50] == [1, 3, 4]
    assert (shared.back, shared.waiting, shared.untaken) == ([], [], [])


def test_what_nobody_here_can_take_is_untaken_and_the_others_go_on() -> None:
    narrow = Consumer(10, most=10)
    shared = shared_out(tickets(5, 50, 6), [narrow])
    assert shared.parts[narrow] == [(0, 5), (2, 6)]
    assert shared.untaken == [(1, 50)]


def test_who_can_take_it_and_has_no_room_gets_it_later() -> None:
    narrow, wide = Consumer(10, most=10), Consumer(1)
    shared = shared_out(tickets(50, 50, 5), [narrow, wide])
    assert shared.parts == {wide: [(0, 50)], narrow: [(2, 5)]}
    assert shared.waiting == [(1, 50)], "the narrow one has room, so it must not come back at once"


def test_without_any_room_all_go_back_to_their_place() -> None:
    narrow, wide = Consumer(1, most=10), Consumer(1)
    shared = shared_out(tickets(5, 50, 6, 50), [narrow, wide])
    assert shared.parts == {narrow: [(0, 5)], wide: [(1, 50)]}
    assert shared.back == [(2, 6), (3, 50)] and shared.waiting == []


def test_priority_comes_first_among_those_that_can_take_it() -> None:
    first, second = Consumer(10, most=10, priority=5), Consumer(10)
    shared = shared_out(tickets(5, 50, 5), [second, first])
    assert shared.parts == {first: [(0, 5), (2, 5)], second: [(1, 50)]}


def test_equals_get_them_in_turn() -> None:
    one, other, narrow = Consumer(10), Consumer(10), Consumer(0, most=10)
    shared = shared_out(tickets(1, 1, 1, 1), [one, other, narrow])
    assert shared.parts == {one: [(0, 1), (2, 1)], other: [(1, 1), (3, 1)]}


@given(
    st.lists(st.sampled_from((5, 50)), max_size=30),
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from((10, LARGE)), st.integers(0, 2)), min_size=1, max_size=5),
)
def test_each_is_somewhere_once_in_order_and_within_credit(sizes: list[int], made: list[tuple[int, int, int]]) -> None:
    consumers = [Consumer(*each) for each in made]
    shared = shared_out(tickets(*sizes), consumers)
    places = [
        *shared.back,
        *shared.waiting,
        *shared.untaken,
        *(each for part in shared.parts.values() for each in part),
    ]
    assert sorted(places) == tickets(*sizes)
    for consumer, part in shared.parts.items():
        assert part == sorted(part) and len(part) <= consumer.credit
        assert all(size <= consumer.most for _, size in part)
    assert bool(shared.untaken) == (50 in sizes and all(each.is_narrow for each in consumers))
