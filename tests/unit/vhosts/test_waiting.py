"""The share of time in which a queue could deliver at once: messages that waited for credit lower it."""

from __future__ import annotations

import pytest

from entrepot.gateway.amqp.feeds.waiting import HALF_LIFE_MS, Capacity
from tests.support.cases import cases


def after(spells: list[tuple[int, int, int | None]], now_ms: int) -> tuple[float, float]:
    """The share at a time: as it is, and if messages are ready.  A spell: credit is gone, and back; then a message that
    was stored at a time comes, or none has come."""
    capacity = Capacity(0)
    for gone_ms, back_ms, stored_ms in spells:
        capacity.is_gone(gone_ms)
        if back_ms:
            capacity.is_back(back_ms)
        if stored_ms is not None:
            capacity.has_waited_since(stored_ms)
    return capacity.share(now_ms, is_ready=False), capacity.share(now_ms, is_ready=True)


LIFE = HALF_LIFE_MS


SPELLS = {
    "consumers that always have credit": ([], 10 * LIFE, (1, 1)),
    "no time has passed": ([], 0, (1, 1)),
    "a message waited all the time": ([(0, LIFE, 0)], LIFE, (0.5, 0.5)),
    "a message came in the middle": ([(0, 2 * LIFE, LIFE)], 2 * LIFE, (0.625, 0.625)),
    "a message came later": ([(0, LIFE, LIFE)], LIFE, (1, 1)),
    "nothing has come so far": ([(0, LIFE, None)], 2 * LIFE, (1, 1)),
    "it counts less and less": ([(0, LIFE, 0)], 2 * LIFE, (0.75, 0.75)),
    "credit is gone: it matters if messages wait": ([(0, 0, None)], LIFE, (1, 0.5)),
    "again, after some time": ([(0, LIFE, 0), (2 * LIFE, 0, None)], 3 * LIFE, (0.875, 0.5)),
    "credit that was gone before it was used": ([(0, LIFE, None), (LIFE, 0, None)], 2 * LIFE, (1, 0.625)),
}


@cases("spells, now_ms, expected", SPELLS.values(), list(SPELLS))
def test_the_share(spells: list[tuple[int, int, int | None]], now_ms: int, expected: tuple[float, float]) -> None:
    assert after(spells, now_ms) == pytest.approx(expected)
