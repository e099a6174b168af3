"""Messages are uploaded once, are read once, and leave no disk before; who breaks a rule is found out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.found_out import check_found_out
from tests.support.seed import SEED
from tests.tiered.uploads import planted
from tests.tiered.uploads.sites import Parts
from tests.tiered.uploads.witness import Broken
from tests.tiered.uploads.world import World
from tests.tiers.marks import scaled, soak_only

WORLDS = scaled(2, 150)
STEPS = scaled(100, 200)
SOUND_STEPS = scaled(60, 200)
"""Of worlds in which nothing is found, so that each is gone through to its end."""
LEAST = scaled(0, 1)
"""Least failovers and absences; one of two worlds may have none."""
MAX_WORLDS = 60
"""Within so many each planted fault is found."""


@pytest.mark.scaled
def test_each_offset_is_there_once_whatever_fails() -> None:
    print(f"ENTREPOT_TEST_SEED={SEED}")
    failovers = published = faults = reads = read = requests = deaths = segments = clustered = expiries = lost = (
        away
    ) = 0
    for number in range(WORLDS):
        with pytest.MonkeyPatch.context() as patch:
            world = World(f"{SEED}-{number}", Parts(often="" if number else "_be_away"), patch)
            world.run(SOUND_STEPS)
        tables = world.witness.tables.values()
        failovers, away = failovers + world.failovers, away + world.absences
        published, faults = published + world.master.published, faults + world.faults
        reads, read, requests = reads + world.reads, read + world.read_messages, requests + world.requests
        deaths, lost = deaths + sum(site.deaths for site in world.sites), lost + world.lost
        segments += sum(table.segments for table in tables)
        clustered += sum(table.clustered for table in tables)
        expiries += sum(table.expiries for table in tables)
    print(f"{WORLDS} worlds: {published} messages, {segments} segments ({clustered} clustered), {expiries} expired,")
    print(f"{lost} lost on purpose, {reads} reads of {read} messages, {requests} requests, {faults} faults,")
    print(f"{deaths} deaths")
    print(f"{failovers} failovers while an uploader was in a call to the store")
    assert min(published // 10, segments, reads, lost) > WORLDS
    print(f"the store was away or older {away} times")
    assert min(failovers, away) >= LEAST


@pytest.mark.scaled
@pytest.mark.parametrize(
    ("parts", "words"),
    [
        soak_only(Parts(fence=planted.NoFence), "the epoch of|does not have"),
        (Parts(uploader=planted.TellsFirst), "does not have"),
        (Parts(uploader=planted.FollowsBadly), "Iceberg has"),
        (Parts(table=planted.ExpectsNothing), "twice|went back|missing|does not have|do not add up"),
        soak_only(Parts(table=planted.TidiesUp, fault_rate=0.3), "deleted"),
        (Parts(table=planted.LosesFirsts), "other messages|says other|does not have|messages that are there"),
        soak_only(Parts(table=planted.ExpiresAlone), "has a gap|has lost messages"),
        soak_only(Parts(table=planted.StaysBehind, often="_round"), "not all is uploaded"),
        (Parts(broker=planted.TrustsWhatWasTold, often="_other_store"), "are nowhere|and now less"),
        (Parts(broker=planted.LetsGo), "are nowhere"),
        (Parts(broker=planted.ForgetsTables, often="_be_away"), "are nowhere|does not have|went back|and now less"),
        soak_only(Parts(broker=planted.TriesTheSame), "not all is uploaded"),
        (Parts(table=planted.CoversHoles, often="_turn_off"), "nothing of a hole"),
        (Parts(cold=planted.StepsOver), "stepped over"),
        (Parts(cold=planted.BeginsLate), "gave"),
        (Parts(cold=planted.ForgetsTheNumber), "gave"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_part_that_breaks_a_rule_is_found_out(parts: Parts, words: str) -> None:
    follows = parts.uploader is planted.FollowsBadly
    parts = replace(parts, crowds=parts.broker is planted.TriesTheSame, follows=follows)
    sound = Parts(fault_rate=parts.fault_rate, often=parts.often, crowds=parts.crowds, follows=follows)
    check_found_out(words, MAX_WORLDS, lambda seed: finding(seed, parts), lambda seed: finding(seed, sound))


def finding(seed: str, parts: Parts) -> str | None:
    """Why the world of this seed is broken; None where it is not."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            World(seed, parts, patch).run(STEPS)
        except Broken as broken:
            return str(broken)
    return None
