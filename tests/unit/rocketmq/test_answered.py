"""Settlements that were answered are answered alike when they are sent again: the newest of them."""

from __future__ import annotations

import pytest

from entrepot.gateway.rocketmq import answered
from entrepot.gateway.rocketmq.answered import ACKNOWLEDGED, DEAD_LETTERED, Answered


def test_the_same_settlement_is_known() -> None:
    found = Answered()
    found.note(ACKNOWLEDGED, "t", "g", "h")
    assert found.is_known(ACKNOWLEDGED, "t", "g", "h")
    for other in ((DEAD_LETTERED, "t", "g", "h"), (ACKNOWLEDGED, "u", "g", "h"), (ACKNOWLEDGED, "t", "h", "h")):
        assert not found.is_known(*other)
    assert not found.is_known(ACKNOWLEDGED, "t", "g", "i")


def test_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answered, "MAX_ANSWERED", 2)
    found = Answered()
    for handle in "abc":
        found.note(ACKNOWLEDGED, "t", "g", handle)
    assert [found.is_known(ACKNOWLEDGED, "t", "g", handle) for handle in "abc"] == [False, True, True]
