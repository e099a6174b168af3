"""Seeded histories of a broker group: crashes at each step, lost and late messages, wiped disks, elections at once."""

from __future__ import annotations

from random import Random

import pytest

from domain.replication.rule import Rule, RuleKind
from tests.replication.simulated_group import Group, vary
from tests.support.seed import SEED
from tests.tiers.marks import scaled

RULES = {
    "2-2": Rule(RuleKind.IN_SYNC, 2),
    "3 in sync": Rule(RuleKind.IN_SYNC, 3, min_in_sync=2),
    "2-3": Rule(RuleKind.QUORUM, 3, 2),
    "3-5": Rule(RuleKind.QUORUM, 5, 3),
    "3-3": Rule(RuleKind.QUORUM, 3, 3),
}
HISTORIES = scaled(60, 4000)
STEPS = 600


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_what_is_confirmed_stays(rule: Rule) -> None:
    confirmed = opens = 0
    for number in range(HISTORIES):
        seed = SEED * 1_000_003 + number
        group = Group(seed, rule, crash_chance=(0.0, 0.02, 0.1)[number % 3])
        vary(group, Random(seed))
        try:
            for _ in range(STEPS):
                group.step()
            group.heal()
        except Exception as error:
            raise AssertionError(f"seed {seed} of {rule}: {error!r}") from error
        confirmed += len(group.truth)
        opens += group.opens
    assert confirmed > HISTORIES * 5, "something happens in these histories"
    assert opens > HISTORIES, "masters come and go"
