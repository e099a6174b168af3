"""The machine of a replica, step by step; and the words it is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.replication.effects import (
    Acknowledge,
    AppendEpoch,
    BeginAt,
    Close,
    Confirm,
    Cut,
    Effect,
    Halt,
    Open,
    Persist,
    RefuseSlave,
    Sync,
    Unfollow,
    WelcomeSlave,
    Write,
)
from entrepot.broker.replication.files.runs import Run
from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.replica import Replica
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind, confirmed_offset, default_min_in_sync
from entrepot.domain.replication.election import Election, ElectionError, first_election
from entrepot.domain.replication.epochs import (
    BEGINNING,
    EpochStart,
    ForkedError,
    common_end,
    decode_starts,
    encode_starts,
    read_epoch,
)
from entrepot.domain.replication.greeting import Greeting, Welcome
from entrepot.domain.replication.mastership import (
    Appointment,
    FenceAnswer,
    Member,
    Promise,
    ReplicaState,
)
from tests.replication.test_planted_faults import ConfirmsBeforeEpoch

ONE, TWO, THREE = (Member(number, f"{number:032x}") for number in (1, 2, 3))
IN_SYNC = Rule(RuleKind.IN_SYNC, 2)
STARTS = st.builds(
    EpochStart,
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**63),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**16 - 1),
    st.booleans(),
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=16, max_size=16),
)


def replica(member: Member = ONE, end: int = 0, starts: tuple[EpochStart, ...] = (), confirmed: int = 0) -> Replica:
    return Replica(ReplicaState("g", member.replica, member.incarnation), starts, end, confirmed)


def appointment(epoch: int = 1, master: int = 1, rule: Rule = IN_SYNC, **fields: object) -> Appointment:
    return Appointment(epoch, 0, master, rule, (ONE, TWO), (ONE, TWO), **fields)  # type: ignore[arg-type]


def greeting(end: int, starts: tuple[EpochStart, ...] = (BEGINNING,), **fields: object) -> Greeting:
    return Greeting("g", TWO, 1, 1, end, 0, starts)._replace(**fields)  # type: ignore[arg-type]


def master(machine: Replica | None = None, end: int = 0) -> Replica:
    """One that has written its EPOCH record behind `end`."""
    made = replica(end=end) if machine is None else machine
    made.start()
    effects = made.appoint(appointment())
    assert isinstance(effects[-1], AppendEpoch)
    made.epoch_written(effects[-1].start._replace(start=made.end), made.end + 1)
    return made


def kinds(effects: list[Effect]) -> list[type]:
    return [type(effect) for effect in effects]


@given(st.lists(STARTS, max_size=5))
def test_starts_come_back(starts: list[EpochStart]) -> None:
    assert decode_starts(encode_starts(starts)) == starts
    assert [read_epoch(start.payload(), start.start) for start in starts] == starts


def test_logs_are_the_same_up_to_the_last_start_that_both_have() -> None:
    mine = [BEGINNING, EpochStart(1, 1, 10), EpochStart(3, 2, 30)]
    theirs = [BEGINNING, EpochStart(1, 1, 10), EpochStart(2, 5, 25)]
    assert common_end(mine, 50, theirs, 40) == 25
    assert common_end(mine, 50, mine[:2], 40) == 30
    assert common_end(mine, 50, mine, 40) == 40
    assert common_end(mine[1:], 50, [BEGINNING], 5) is None
    with pytest.raises(ForkedError):
        common_end(mine, 50, [BEGINNING, EpochStart(1, 1, 11)], 40)


def test_what_the_rules_confirm() -> None:
    ends = {2: 70, 3: 50}
    both = frozenset((2, 3))
    assert confirmed_offset(Rule(RuleKind.ASYNC, 3), 90, {}, both) == 90
    assert confirmed_offset(Rule(RuleKind.IN_SYNC, 3), 90, ends, both) == 50
    assert confirmed_offset(Rule(RuleKind.IN_SYNC, 3), 90, ends, frozenset()) == 90
    assert confirmed_offset(Rule(RuleKind.IN_SYNC, 3), 90, {2: 70}, both) == 0
    assert confirmed_offset(Rule(RuleKind.QUORUM, 3, 2), 90, ends, both) == 70
    assert confirmed_offset(Rule(RuleKind.QUORUM, 3, 2), 60, ends, both) == 60
    assert confirmed_offset(Rule(RuleKind.QUORUM, 3, 3), 90, ends, both) == 50
    assert confirmed_offset(Rule(RuleKind.QUORUM, 3, 3), 90, {2: 70}, both) == 0
    assert [default_min_in_sync(count) for count in (1, 2, 3, 5)] == [1, 1, 2, 2]
    for kind, replicas, required, least in ((RuleKind.QUORUM, 3, 4, 1), (RuleKind.IN_SYNC, 2, 1, 3)):
        with pytest.raises(ValueError):
            Rule(kind, replicas, required, least)


@pytest.mark.parametrize("machine", [Replica, ConfirmsBeforeEpoch], ids=["ours", "planted"])
def test_nothing_is_confirmed_before_the_epoch_record_is(machine: type[Replica]) -> None:
    """What of an earlier epoch is on enough disks may still be cut by whoever has a later EPOCH record."""
    found = master(machine(ReplicaState("g", *ONE), (), 20, 0))
    found.synced_to(21)
    *_, welcome = found.greeted(greeting(0), 7)
    assert isinstance(welcome, WelcomeSlave)
    found.sending(2, 7, 21)
    effects = found.acknowledged(2, 7, 20)
    assert bool(effects) == (machine is ConfirmsBeforeEpoch)
    if machine is Replica:
        assert kinds(found.acknowledged(2, 7, 21)) == [Confirm, Open]


def test_a_master_waits_for_its_own_disk_too() -> None:
    found = master()
    found.greeted(greeting(0), 7)
    found.sending(2, 7, 1)
    assert not found.acknowledged(2, 7, 1)
    assert kinds(found.synced_to(1)) == [Confirm, Open]


def test_an_acknowledgement_of_what_was_not_sent_ends_the_stream() -> None:
    found = master()
    found.greeted(greeting(0), 7)
    assert kinds(found.acknowledged(2, 7, 1)) == [RefuseSlave]
    assert not found.acknowledged(2, 7, 1)


def test_a_later_promise_ends_what_was() -> None:
    found = master()
    effects, answer = found.fence(2, "a")
    assert kinds(effects) == [Persist, Close]
    assert isinstance(answer, FenceAnswer)
    assert found.role is Role.NOBODY
    assert found.fence(2, "a")[0] == [], "asked again it says the same"
    assert found.fence(2, "b")[1] == Promise(2, "a")
    assert found.fence(1, "a")[1] == Promise(2, "a")
    assert not found.appoint(appointment(1)), "of an earlier epoch"


def test_a_slave_that_promised_follows_nobody() -> None:
    found = replica(TWO)
    found.start()
    found.appoint(appointment())
    assert found.role is Role.SLAVE
    effects, _ = found.fence(2, "a")
    assert kinds(effects) == [Persist, Unfollow]


def test_a_cut_below_what_is_confirmed_stops_loudly() -> None:
    found = replica(TWO, 50, (BEGINNING, EpochStart(1, 1, 10)), confirmed=40)
    found.start()
    found.appoint(appointment(2))
    effects = found.welcomed(Welcome(2, 1, 30, 30))
    assert kinds(effects) == [Halt]
    assert "40 is confirmed here" in found.halted


def test_an_unclean_start_may_cut_it() -> None:
    found = replica(TWO, 50, (BEGINNING, EpochStart(1, 1, 10)), confirmed=40)
    found.start()
    found.appoint(appointment(2))
    effects = found.welcomed(Welcome(2, 1, 30, 30, is_unclean=True))
    assert effects == [Cut(30, keeps=True, is_unclean=True), Acknowledge(30)]


def test_a_slave_acknowledges_what_is_synced_alone() -> None:
    found = replica(TWO)
    found.start()
    found.appoint(appointment())
    assert found.welcomed(Welcome(1, 1, 0, 0)) == [BeginAt(0), Acknowledge(0)]
    effects = found.came(Run(0, b"x" * 40, 0, 0))
    assert kinds(effects) == [Write, Sync]
    assert found.synced_to(40, found.generation)[0] == Acknowledge(40)


def test_strangers_do_not_count_for_a_quorum() -> None:
    told = replace(appointment(rule=Rule(RuleKind.QUORUM, 3, 2)), known=(ONE, TWO, THREE))
    wiped = Member(2, f"{9:032x}")
    with pytest.raises(ElectionError, match="1 replicas answer, 2 are needed"):
        elected(Election(2, "t"), answer(ONE, 5, told), answer(wiped, 0, told))


def test_an_answer_to_a_sync_of_before_a_cut_says_nothing() -> None:
    found = replica(TWO, 50, (BEGINNING, EpochStart(1, 1, 10)), confirmed=10)
    found.start()
    found.appoint(appointment(2))
    before = found.generation
    found.welcomed(Welcome(2, 1, 20, 20))
    assert found.synced_to(50, before) == []
    assert found.synced == 20


def test_a_full_disk_takes_back_what_was_not_written() -> None:
    """Whose bytes a log has last decides elections: an EPOCH record that found no room is not there."""
    found = replica(TWO, 10)
    found.start()
    found.appoint(appointment())
    found.welcomed(Welcome(1, 1, 10, 10))
    found.came(Run(10, b"x" * 40, 0, 0, (EpochStart(1, 1, 20),)))
    found.write_failed(10)
    assert (found.starts[-1], found.end, found.is_joined) == (BEGINNING, 10, False)
    found.welcomed(Welcome(1, 1, 10, 10))
    assert kinds(found.came(Run(10, b"x" * 40, 0, 0))) == [Write, Sync], "it syncs again once there is room"


def test_a_slave_far_behind_retention_copies_anew() -> None:
    found = master(Replica(ReplicaState("g", *ONE), (BEGINNING, EpochStart(0, 1, 50)), 100, 0, begin=80))
    *_, welcome = found.greeted(greeting(30, confirmed=30), 7)
    assert isinstance(welcome, WelcomeSlave)
    assert welcome.welcome.start == 80
    slave = replica(TWO, 30, confirmed=30)
    slave.start()
    slave.appoint(appointment())
    assert slave.welcomed(welcome.welcome)[1] == BeginAt(80)
    assert (slave.begin, slave.end, slave.starts) == (80, 80, list(welcome.welcome.starts))


def test_a_wiped_master_is_none() -> None:
    """Nobody later is no reason: the directory that was appointed is gone."""
    for rule in (Rule(RuleKind.ASYNC, 2), IN_SYNC):
        told = replace(appointment(rule=rule), members=(ONE,))
        found = Replica(ReplicaState("", 1, f"{9:032x}"), (), 0, 0)
        found.start()
        found.appoint(told)
        assert found.nobody_later() == []


def test_a_lone_member_asks_before_it_goes_on() -> None:
    """An unclean election may have made another one master meanwhile."""
    told = replace(appointment(), members=(ONE,))
    found = Replica(ReplicaState("g", *ONE, promise=Promise(1), appointment=told), (), 5, 0)
    assert kinds(found.start()) == [Persist]
    assert kinds(found.nobody_later())[-1] is AppendEpoch


def test_what_it_wrote_as_master_is_kept_when_it_is_cut() -> None:
    own = EpochStart(1, 1, 10, incarnation=bytes.fromhex(TWO.incarnation))
    found = replica(TWO, 50, (BEGINNING, own), confirmed=10)
    found.start()
    found.appoint(appointment(2))
    assert found.welcomed(Welcome(2, 1, 20, 20))[0] == Cut(20, keeps=True, is_unclean=False)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"group": "h"}, "of group h"),
        ({"member": ONE}, "two processes have its id"),
        ({"promised": 2}, "heard of epoch 2"),
        ({"starts": (BEGINNING, EpochStart(4, 1, 5)), "end": 9}, "heard of epoch 4"),
        ({"starts": (EpochStart(0, 9, 0),), "end": 9, "confirmed": 5}, "nothing in common"),
    ],
)
def test_slaves_that_are_not_taken(fields: dict[str, object], reason: str) -> None:
    [refusal] = master(end=10).greeted(greeting(0, **fields) if "end" not in fields else greeting(**fields), 7)  # type: ignore[arg-type]
    assert isinstance(refusal, RefuseSlave)
    assert reason in refusal.reason


def test_a_master_of_an_async_group_asks_before_it_goes_on() -> None:
    """Another one may have confirmed alone meanwhile."""
    rule = Rule(RuleKind.ASYNC, 2)
    found = Replica(ReplicaState("g", *ONE, promise=Promise(1), appointment=appointment(rule=rule)), (), 5, 0)
    assert kinds(found.start()) == [Persist]
    assert kinds(found.nobody_later())[-1] is AppendEpoch


def answer(member: Member, end: int, told: Appointment, last: tuple[int, int] = (1, 1)) -> FenceAnswer:
    return FenceAnswer(member, 1, last, end, 0, told)


def elected(election: Election, *answers: FenceAnswer | Promise) -> Appointment:
    for each in answers:
        election.answered(each)
    return election.decide()


def test_by_hand_all_must_answer_but_those_that_are_lost() -> None:
    told = appointment()
    with pytest.raises(ElectionError, match="replica 2 does not answer"):
        elected(Election(2, "t"), answer(ONE, 5, told))
    made = elected(Election(2, "t", lost=[2]), answer(ONE, 5, told))
    assert (made.master, made.members, made.known) == (1, (ONE,), (ONE, TWO))


def test_only_members_are_elected_in_sync() -> None:
    told = replace(appointment(rule=Rule(RuleKind.IN_SYNC, 3)), known=(ONE, TWO, THREE))
    made = elected(Election(2, "t", latest=told), answer(TWO, 5, told), answer(THREE, 9, told, (1, 0)))
    assert (made.master, made.members) == (2, (TWO,))
    with pytest.raises(ElectionError, match="may lack what was confirmed"):
        elected(Election(2, "t", latest=told, wanted=3), answer(TWO, 5, told), answer(THREE, 4, told))
    with pytest.raises(ElectionError, match="no replica in sync answers"):
        elected(Election(2, "t", latest=told), answer(THREE, 9, told))
    unclean = elected(Election(2, "t", latest=told, wanted=3, is_unclean=True), answer(THREE, 4, told))
    assert (unclean.master, unclean.is_unclean) == (3, True)


def test_a_quorum_elects_the_longest_of_enough() -> None:
    told = replace(appointment(rule=Rule(RuleKind.QUORUM, 3, 2)), known=(ONE, TWO, THREE))
    with pytest.raises(ElectionError, match="1 replicas answer, 2 are needed"):
        elected(Election(2, "t"), answer(ONE, 5, told))
    made = elected(Election(2, "t"), answer(ONE, 5, told), answer(TWO, 4, told, (1, 2)))
    assert made.master == 2, "by epoch and run before the end"
    made = elected(Election(2, "t", wanted=3), answer(ONE, 9, told), answer(TWO, 5, told), answer(THREE, 5, told))
    assert made.master == 3, "of two answers it has the longest log: what only the third has, nobody was told of"
    with pytest.raises(ElectionError, match="promised already"):
        elected(Election(2, "t"), answer(ONE, 5, told), Promise(2, "other"))


@pytest.mark.parametrize("known", ["", "b"])
def test_a_store_that_a_lost_first_master_began_alone_blocks_nobody(known: str) -> None:
    """Replica 2 was master in epoch 1, and lost before anybody had its store; its successor began another one."""
    told = replace(appointment(2), members=(ONE,), group=known)
    first = answer(ONE, 5, told, last=(2, 1))._replace(group="b")
    second = answer(TWO, 9, appointment(1), last=(1, 1))._replace(group="a")
    election = Election(3, "t", latest=told)
    made = elected(election, second, first)
    assert (made.master, made.group) == (1, "b")
    assert "another group: a; start it with an empty directory" in election.left_out[2]
    with pytest.raises(ElectionError, match="not of one group"):
        elected(Election(3, "t"), first, second)
    with pytest.raises(ElectionError, match="not of one group"):
        elected(first_election(3, "t", IN_SYNC, [first, second]), first, second)
