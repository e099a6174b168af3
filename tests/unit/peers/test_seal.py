"""Seals: right once, for one gateway, view and body, and only for a while."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.gateway.peers.seal import LIFETIME_MS, Seals
from tests.support.clock import ManualClock

KEY = b"k" * 32


def seals_of(clock: ManualClock, key: bytes = KEY) -> Seals:
    return Seals(key, clock, random.Random(0).randbytes)


def test_a_seal_is_right_once() -> None:
    clock = ManualClock()
    asking, asked = seals_of(clock), seals_of(clock)
    seal = asking.make("gw-2", "clients", b"{}")
    assert asked.is_right(seal, "gw-2", "clients", b"{}")
    assert not asked.is_right(seal, "gw-2", "clients", b"{}")
    assert asked.is_right(asking.make("gw-2", "clients", b"{}"), "gw-2", "clients", b"{}")


@pytest.mark.parametrize(
    ("gateway", "view", "body"), [("gw-3", "clients", b"{}"), ("gw-2", "kick", b"{}"), ("gw-2", "clients", b"{1}")]
)
def test_it_holds_for_nothing_else(gateway: str, view: str, body: bytes) -> None:
    clock = ManualClock()
    seal = seals_of(clock).make("gw-2", "clients", b"{}")
    assert not seals_of(clock).is_right(seal, gateway, view, body)


def test_it_ends_and_is_of_one_cluster() -> None:
    clock = ManualClock()
    seal = seals_of(clock).make("gw-2", "clients", b"{}")
    assert not seals_of(clock, b"x" * 32).is_right(seal, "gw-2", "clients", b"{}")
    clock.advance(LIFETIME_MS)
    assert seals_of(clock).is_right(seal, "gw-2", "clients", b"{}")
    clock.advance(1)
    assert not seals_of(clock).is_right(seal, "gw-2", "clients", b"{}")


def test_a_replay_is_refused_for_as_long_as_the_seal_lives() -> None:
    clock = ManualClock()
    asking, asked = seals_of(clock), seals_of(clock)
    clock.advance(LIFETIME_MS)
    early = asking.make("gw-2", "clients", b"{}")
    clock.advance(-LIFETIME_MS)  # the asked gateway's clock is behind
    assert asked.is_right(early, "gw-2", "clients", b"{}")
    clock.advance(2 * LIFETIME_MS)
    assert not asked.is_right(early, "gw-2", "clients", b"{}")


@given(st.binary(max_size=200))
def test_nonsense_is_no_seal(seal: bytes) -> None:
    assert not seals_of(ManualClock()).is_right(seal, "gw-2", "clients", b"{}")
