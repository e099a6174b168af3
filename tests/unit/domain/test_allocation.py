"""Which member has which queues."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.allocation import AllocationStrategy, allocate
from tests.support.cases import cases
from tests.support.waiting import PATIENCE_SECONDS

queue_ids = st.sets(st.integers(0, 99_999), max_size=80).map(sorted)
member_ids = st.sets(st.text(min_size=1, max_size=20), max_size=12).map(sorted)
some_members = st.sets(st.text(min_size=1, max_size=20), min_size=1, max_size=12).map(sorted)
strategies = st.sampled_from(AllocationStrategy)
EVEN = (AllocationStrategy.AVERAGED, AllocationStrategy.CIRCULAR)


def owners(shares: dict[str, list[int]]) -> dict[int, str]:
    return {queue_id: member for member, queues in shares.items() for queue_id in queues}


@given(strategies, queue_ids, some_members)
def test_every_queue_has_one_owner(strategy, queues, members):
    shares = allocate(strategy, queues, members)
    assert list(shares) == members, "every member has an answer, be it nothing"
    assert sorted(queue for share in shares.values() for queue in share) == queues
    assert all(share == sorted(share) for share in shares.values())


@given(strategies, queue_ids)
def test_without_members_nobody_has_anything(strategy, queues):
    assert allocate(strategy, queues, []) == {}


@given(st.sampled_from(EVEN), queue_ids, some_members)
def test_shares_are_even(strategy, queues, members):
    sizes = [len(share) for share in allocate(strategy, queues, members).values()]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True), "the first have the more"


@given(queue_ids, some_members)
def test_averaged_is_that_of_rocketmq(queues, members):
    """Against the arithmetic of `AllocateMessageQueueAveragely`, word for word."""
    shares = allocate(AllocationStrategy.AVERAGED, queues, members)
    for index, member in enumerate(members):
        mod = len(queues) % len(members)
        if len(queues) <= len(members):
            average = 1
        else:
            average = len(queues) // len(members) + (1 if mod > 0 and index < mod else 0)
        start = index * average if mod > 0 and index < mod else index * average + mod
        assert shares[member] == [queues[start + i] for i in range(max(min(average, len(queues) - start), 0))]


@given(queue_ids, some_members)
def test_circular_is_that_of_rocketmq(queues, members):
    """`AllocateMessageQueueAveragelyByCircle`."""
    shares = allocate(AllocationStrategy.CIRCULAR, queues, members)
    for index, member in enumerate(members):
        assert shares[member] == [queues[i] for i in range(len(queues)) if i % len(members) == index]


@given(queue_ids, some_members, st.text(min_size=1, max_size=20))
def test_consistent_hash_moves_only_the_queues_of_who_comes_or_goes(queues, members, other):
    without = sorted({*members} - {other})
    joined = sorted({*members, other})
    before = owners(allocate(AllocationStrategy.CONSISTENT_HASH, queues, without))
    after = owners(allocate(AllocationStrategy.CONSISTENT_HASH, queues, joined))
    for queue_id in queues:
        assert after[queue_id] in (before.get(queue_id, other), other), "it stays, or goes to the one that joined"
    # Read backwards it says of a member that leaves: what was not its own stays where it is.


@given(queue_ids, some_members, st.integers(0, 99_999))
def test_consistent_hash_keeps_queues_in_place_when_the_topic_grows(queues, members, more):
    before = owners(allocate(AllocationStrategy.CONSISTENT_HASH, queues, members))
    after = owners(allocate(AllocationStrategy.CONSISTENT_HASH, sorted({*queues, more}), members))
    assert {queue_id: after[queue_id] for queue_id in queues} == before


def test_consistent_hash_is_roughly_even():
    members = [f"consumer-{number}" for number in range(8)]
    shares = allocate(AllocationStrategy.CONSISTENT_HASH, range(4096), members)
    assert all(256 < len(share) < 1024 for share in shares.values()), "512 each, within a factor of two"


@cases("seed", ["0", "1"])
def test_another_process_comes_to_the_same(seed):
    members = ["a", "b", "c", "\u00fc"]
    script = (
        "import json, sys; from entrepot.domain.allocation import AllocationStrategy as S, allocate;"
        "print(json.dumps({s: allocate(s, range(64), json.loads(sys.argv[1])) for s in S}))"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, json.dumps(members)],
        cwd=Path(__file__).parents[3],
        env={"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    ).stdout
    assert json.loads(told) == {strategy: allocate(strategy, range(64), members) for strategy in AllocationStrategy}


def test_allocations_counted_by_hand():
    assert allocate(AllocationStrategy.AVERAGED, [0, 1, 2, 10_000, 10_001], ["a", "b"]) == {
        "a": [0, 1, 2],
        "b": [10_000, 10_001],
    }
    assert allocate(AllocationStrategy.CIRCULAR, [0, 1, 2, 10_000, 10_001], ["a", "b"]) == {
        "a": [0, 2, 10_001],
        "b": [1, 10_000],
    }
    assert allocate(AllocationStrategy.AVERAGED, [7], ["a", "b"]) == {"a": [7], "b": []}
    places = owners(allocate(AllocationStrategy.CONSISTENT_HASH, range(8), ["a", "b", "c"]))
    assert "".join(places[queue_id] for queue_id in range(8)) == "aabbabca", (
        "kept as it is: gateways of two versions agree"
    )
