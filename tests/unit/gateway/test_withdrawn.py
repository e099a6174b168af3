"""Withdrawn calls: only they are left out, and they are told."""

from __future__ import annotations

from itertools import product

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.gateway.messaging.send_call import Call, Refusals, joined, without_withdrawn
from entrepot.gateway.messaging.withdrawn import WithdrawnPlaces


class Sent:
    def __init__(self, *, is_withdrawn: bool) -> None:
        self.is_withdrawn = is_withdrawn
        self.told: list[Code] = []

    def __call__(self, failure: EntrepotError | None, refusals: Refusals) -> None:
        assert failure is not None and refusals is None
        self.told.append(failure.code)


def test_the_others_stay_in_order() -> None:
    for withdrawn in product([False, True], repeat=4):
        messages = [Message("t", bytes([place])) for place in range(6)]
        parts: tuple[list[Message], ...] = (messages[:2], [], messages[2:3], messages[3:])
        sent = [Sent(is_withdrawn=each) for each in withdrawn]
        calls = [Call(part, each) for part, each in zip(parts, sent, strict=True)]
        places = WithdrawnPlaces([*calls])
        of_place = [0, 0, 2, 3, 3, 3]
        assert [places(place) for place in range(6)] == [withdrawn[call] for call in of_place]
        left = without_withdrawn([*calls])
        assert left == [call for call, each in zip(calls, withdrawn, strict=True) if not each]
        assert [each.body[0] for each in joined(left)] == [
            place for place in range(6) if not withdrawn[of_place[place]]
        ]
        assert [each.told for each in sent] == [[Code.UNAVAILABLE] if each else [] for each in withdrawn]


def test_one_that_is_withdrawn_by_what_an_earlier_one_is_told_is_left_out() -> None:
    second = Sent(is_withdrawn=False)

    def first(failure: EntrepotError | None, refusals: Refusals) -> None:
        second.is_withdrawn = True

    first.is_withdrawn = True  # type: ignore[attr-defined]
    assert without_withdrawn([Call([], first), Call([], second)]) == []
    assert second.told == [Code.UNAVAILABLE]


def test_who_cannot_say_is_not_withdrawn() -> None:
    def on_sent(failure: EntrepotError | None, refusals: Refusals) -> None:
        raise AssertionError

    assert not Call([], on_sent).is_withdrawn
