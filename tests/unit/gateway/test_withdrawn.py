"""Withdrawn calls: only they are left out, and they are told."""

from __future__ import annotations

from itertools import product

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.gateway.messaging.send import Refusals
from entrepot.gateway.messaging.withdrawn import WithdrawnPlaces, is_told, is_withdrawn, without_withdrawn


class Call:
    def __init__(self, *, is_withdrawn: bool) -> None:
        self.is_withdrawn = is_withdrawn
        self.told: list[Code] = []

    def __call__(self, failure: EntrepotError | None, refusals: Refusals) -> None:
        assert failure is not None and refusals is None
        self.told.append(failure.code)


def test_the_others_stay_in_order() -> None:
    for withdrawn in product([False, True], repeat=4):
        calls = [(size, Call(is_withdrawn=each)) for size, each in zip((2, 0, 1, 3), withdrawn, strict=True)]
        messages = [Message("t", bytes([place])) for place in range(6)]
        places = WithdrawnPlaces([*calls])
        of_place = [0, 0, 2, 3, 3, 3]
        assert [places(place) for place in range(6)] == [withdrawn[call] for call in of_place]
        left, left_calls, sources = without_withdrawn(messages, [*calls], ["a", "b", "c", "d"])
        assert [each.body[0] for each in left] == [place for place in range(6) if not withdrawn[of_place[place]]]
        assert left_calls == [call for call in calls if not call[1].is_withdrawn]
        assert sources == [name for name, each in zip("abcd", withdrawn, strict=True) if not each]
        assert [call.told for _, call in calls] == [[Code.UNAVAILABLE] if each else [] for each in withdrawn]


def test_who_cannot_say_is_not_withdrawn() -> None:
    def on_sent(failure: EntrepotError | None, refusals: Refusals) -> None:
        raise AssertionError

    assert not is_withdrawn(on_sent) and not is_told(on_sent)
