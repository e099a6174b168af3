"""Incidents: counted all, kept the last, logged at a bounded rate."""

from __future__ import annotations

import io

from entrepot.gateway.log import configure_logging
from entrepot.gateway.log_floods import BURST
from entrepot.gateway.messaging.incidents import MAX_KEPT, MAX_TEXT, Incidents, Outcome, place_of
from tests.support.clock import ManualClock


def test_all_are_counted_and_the_last_are_kept() -> None:
    clock = ManualClock()
    incidents = Incidents(clock)
    for number in range(MAX_KEPT + 5):
        incidents.note("mqtt", Outcome.SHORTENED, "x" * 1000, place=place_of("t", 0, number), count=2)
    incidents.note("amqp", Outcome.REFUSED, "too long", client="c")
    assert incidents.counts == {("mqtt", Outcome.SHORTENED): 2 * (MAX_KEPT + 5), ("amqp", Outcome.REFUSED): 1}
    assert len(incidents.last) == MAX_KEPT
    assert len(incidents.last[0].reason) == MAX_TEXT
    assert incidents.last[0].place == "t/0@6"
    assert (incidents.last[-1].part, incidents.last[-1].client, incidents.last[-1].at_ms) == (
        "amqp",
        "c",
        clock.now_ms(),
    )


def test_the_log_gets_a_burst_and_not_all() -> None:
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    incidents = Incidents(ManualClock())
    for _ in range(BURST * 5):
        incidents.note("mqtt", Outcome.SET_ASIDE, "cannot be said", place="t/0@1")
    lines = [line for line in stream.getvalue().splitlines() if "cannot be said" in line]
    assert len(lines) == BURST
    assert '"place":"t/0@1"' in lines[0]
