"""Intake: the counts are those of the places given and not left, whatever happens in between."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from entrepot.gateway.transport import intake as intake_module
from entrepot.gateway.transport.intake import BURST_SECONDS, Intake, IntakeLimits, Place


def test_a_full_listener_takes_one_when_one_leaves() -> None:
    intake = Intake("mqtt", IntakeLimits(connections=2), 0.0)
    places = [intake.enter(0.0), intake.enter(0.0)]
    assert None not in places
    assert intake.enter(0.0) is None
    assert intake.refused == 1
    places[0].leave()  # type: ignore[union-attr]
    places[0].leave()  # type: ignore[union-attr]
    assert intake.enter(0.0) is not None
    assert intake.enter(0.0) is None


def test_a_listener_takes_its_rate_and_what_was_saved_up() -> None:
    intake = Intake("mqtt", IntakeLimits(accepts_per_second=10), 0.0)
    burst = int(10 * BURST_SECONDS)
    assert sum(intake.enter(0.0) is not None for _ in range(100)) == burst
    assert sum(intake.enter(0.5) is not None for _ in range(100)) == 5
    assert sum(intake.enter(1000.0) is not None for _ in range(100)) == burst


def test_the_rate_of_one_address_is_not_that_of_another() -> None:
    intake = Intake("mqtt", IntakeLimits(accepts_per_second_per_address=0.5), 0.0)

    def claims(host: str, now: float) -> bool:
        place = intake.enter(now)
        assert place is not None
        return place.claim(host, now)

    assert [claims("10.0.0.1", 0.0) for _ in range(3)] == [True, False, False]
    assert claims("10.0.0.2", 0.0)
    assert [claims("10.0.0.1", now) for now in (1.0, 2.0, 2.1)] == [False, True, False]


def test_a_64_of_ipv6_is_one_address_and_mapped_ipv4_is_ipv4() -> None:
    intake = Intake("mqtt", IntakeLimits(half_open_per_address=1), 0.0)

    def claims(host: str) -> bool:
        place = intake.enter(0.0)
        assert place is not None
        return place.claim(host, 0.0)

    assert [claims(host) for host in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")] == [True, False, True]
    assert [claims(host) for host in ("10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0")] == [True, False, True]


def test_addresses_that_are_remembered_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(intake_module, "MAX_ADDRESSES", 3)
    intake = Intake("mqtt", IntakeLimits(accepts_per_second_per_address=0.5), 0.0)
    for host in range(10):
        assert intake.claim(f"10.0.0.{host}", 0.0)
    assert len(intake._buckets) == 3
    assert not intake.claim("10.0.0.9", 0.0), "seen last, so remembered"
    assert intake.claim("10.0.0.0", 0.0), "forgotten"


class Counting(RuleBasedStateMachine):
    """Against plain lists of what is there."""

    def __init__(self) -> None:
        super().__init__()
        self.intake = Intake("mqtt", IntakeLimits(connections=6, half_open_per_address=2), 0.0)
        self.places: list[Place] = []
        self.half_open: dict[Place, str] = {}

    @rule(host=st.sampled_from(["1.1.1.1", "2.2.2.2"]))
    def come(self, host: str) -> None:
        place = self.intake.enter(0.0)
        assert (place is not None) == (len(self.places) < 6)
        if place is None:
            return
        taken = place.claim(host, 0.0)
        assert taken == (list(self.half_open.values()).count(host) < 2)
        if taken:
            self.places.append(place)
            self.half_open[place] = host
        else:
            place.leave()

    @rule(at=st.integers(0, 5))
    def admit(self, at: int) -> None:
        if at < len(self.places):
            self.places[at].admitted()
            self.half_open.pop(self.places[at], None)

    @rule(at=st.integers(0, 5), times=st.integers(1, 2))
    def go(self, at: int, times: int) -> None:
        if at < len(self.places):
            place = self.places.pop(at)
            self.half_open.pop(place, None)
            for _ in range(times):
                place.leave()

    @invariant()
    def counts_are_right(self) -> None:
        assert self.intake.connections == len(self.places)
        assert sum(self.intake._half_open.values()) == len(self.half_open)


TestCounting = Counting.TestCase
