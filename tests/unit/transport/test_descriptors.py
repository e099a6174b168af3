"""The share of connections in the process's descriptors."""

from __future__ import annotations

import os
import resource

import pytest

from entrepot.domain.descriptors import LEAST_RESERVE, MAX_RESERVE, NO_NUMBER, TOO_MANY, Descriptors
from entrepot.gateway.transport import intake as module
from entrepot.gateway.transport.intake import Intake, IntakeLimits


def limited(monkeypatch: pytest.MonkeyPatch, limit: int) -> Descriptors:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    return Descriptors()


@pytest.mark.parametrize(
    ("limit", "reserve"),
    [(400, LEAST_RESERVE), (1024, 128), (4096, MAX_RESERVE), (65_536, MAX_RESERVE), (1_048_576, MAX_RESERVE)],
)
def test_some_are_kept_from_connections(monkeypatch: pytest.MonkeyPatch, limit: int, reserve: int):
    found = limited(monkeypatch, limit)
    assert (found.limit, found.reserve) == (limit, reserve)
    scarce, spent = limit - reserve, limit - reserve // 2
    assert [found.is_scarce(number) for number in (NO_NUMBER, 3, scarce - 1, scarce, spent)] == [
        False, False, False, True, True,
    ]  # fmt: skip
    assert [found.is_spent(number) for number in (NO_NUMBER, scarce, spent - 1, spent, limit)] == [
        False, False, False, True, True,
    ]  # fmt: skip


def test_without_a_limit_none_is_refused(monkeypatch: pytest.MonkeyPatch):
    found = limited(monkeypatch, resource.RLIM_INFINITY)
    assert found.limit is None
    assert not (found.is_scarce(1 << 30) or found.is_spent(1 << 30) or found.are_scarce)


def test_the_next_number_is_what_counts(monkeypatch: pytest.MonkeyPatch):
    found = limited(monkeypatch, 1 << 20)
    assert not found.are_scarce
    before = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (LEAST_RESERVE, LEAST_RESERVE))
    assert found.are_scarce
    assert set(os.listdir("/proc/self/fd")) <= before, "the question keeps no descriptor"


def test_an_intake_closes_what_takes_the_last_ones(monkeypatch: pytest.MonkeyPatch):
    found = limited(monkeypatch, 1024)
    monkeypatch.setattr(module, "descriptors", lambda: found)
    intake = Intake("mqtt", IntakeLimits(), 0.0)
    told: list[str] = []
    monkeypatch.setattr(intake, "refuse", lambda reason, host: told.append(reason))
    assert intake.enter(0.0, 1024 - 65) is not None
    assert intake.enter(0.0, 1024 - 64) is None
    assert intake.enter(0.0) is not None, "a descriptor that is not known"
    assert (told, intake.connections) == ([TOO_MANY], 2)
