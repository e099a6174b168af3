"""Logs that lack what was confirmed: who finds them, and what they may still do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrepot.broker.replication.effects import Cut, Halt, WelcomeSlave
from entrepot.broker.replication.replica import Replica
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.election import Election, ElectionError, caught_up
from entrepot.domain.replication.epochs import EpochStart
from entrepot.domain.replication.greeting import Welcome
from entrepot.domain.replication.lost_ends import MAX_KNOWN, KnownLogs
from entrepot.domain.replication.mastership import Appointment, FenceAnswer, Member, Promise, ReplicaState
from tests.replication.test_replica import ONE, THREE, TWO, appointment, greeting, master

QUORUM = Rule(RuleKind.QUORUM, 3, 2)
FIRST, SECOND = (1, 1), (2, 1)
OF_THREE = replace(appointment(), members=(ONE, TWO, THREE), known=(ONE, TWO, THREE))


def answer(member: Member, end: int, confirmed: int, last: tuple[int, int] = FIRST) -> FenceAnswer:
    return FenceAnswer(member, 1, last, end, confirmed, OF_THREE, "g", ())


def known_of(*answers: FenceAnswer, opened: tuple[int, int] = (0, 0)) -> KnownLogs:
    found = KnownLogs()
    for each in answers:
        found.note(each)
    found.opened = opened
    return found


def lacks_own(answer: FenceAnswer, known: list[FenceAnswer], latest: Appointment) -> str:
    return known_of(*known).lacks_own(answer, latest)


def lacks_confirmed(answer: FenceAnswer, known: list[FenceAnswer], latest: Appointment) -> str:
    return known_of(*known).lacks_confirmed(answer, (), latest)


def elected(*answers: FenceAnswer, known: tuple[FenceAnswer, ...] = (), latest: Appointment = OF_THREE) -> Appointment:
    return election(*answers, known=known, latest=latest).decide()


def election(
    *answers: FenceAnswer, known: tuple[FenceAnswer, ...] = (), latest: Appointment = OF_THREE, unclean: bool = False
) -> Election:
    made = Election(7, "t", latest=latest, is_unclean=unclean)
    made.known = known_of(*known)
    for each in answers:
        made.answered(each)
    return made


def test_a_log_lacks_what_was_confirmed_of_the_same_history() -> None:
    short, whole = answer(TWO, 10, 5), answer(ONE, 20, 11)
    assert "the log of replica 2 ends at 10, and 11 was confirmed" in lacks_confirmed(short, [whole], OF_THREE)
    assert not lacks_confirmed(short._replace(end=11), [whole], OF_THREE), "it has all of it"
    assert not lacks_confirmed(whole, [short, whole], OF_THREE)
    assert not lacks_own(short, [whole], OF_THREE), "that is another replica's word"
    assert lacks_own(short, [answer(TWO, 12, 11)], OF_THREE)
    assert not lacks_own(short, [answer(TWO._replace(incarnation="x"), 12, 11)], OF_THREE), "another directory"


def test_a_later_master_s_record_tells_that_the_rest_was_given_up() -> None:
    short, earlier = answer(TWO, 10, 5, SECOND), answer(ONE, 20, 11, FIRST)
    assert not lacks_confirmed(short, [earlier], OF_THREE)
    unclean = replace(OF_THREE, epoch=2, is_unclean=True)
    assert not lacks_confirmed(short._replace(last=FIRST), [earlier], unclean), "its record is not written yet"
    assert lacks_confirmed(short._replace(last=FIRST), [earlier], replace(unclean, epoch=1)), "known of that very epoch"


def test_a_log_without_the_record_of_a_master_that_opened_lacks_it() -> None:
    """However long it is: what it has there is of an earlier master."""
    long, opened = answer(TWO, 99, 5, FIRST), answer(ONE, 20, 11, SECOND)
    known = known_of(opened)
    assert not known.lacks_confirmed(long, (), OF_THREE), "perhaps that record was never confirmed"
    known.note(opened, is_open=True)
    assert "lacks what was confirmed in epoch 2, run 1: its disk was put back" in known.lacks_confirmed(
        long, (), OF_THREE
    )
    assert not known.lacks_confirmed(long._replace(last=SECOND), (), OF_THREE)
    known.note(answer(THREE, 9, 9, FIRST), is_open=True)
    assert known.opened == SECOND, "the last of them"
    unclean = replace(OF_THREE, epoch=3, is_unclean=True)
    assert not known.lacks_confirmed(long, (), unclean), "it was given up"
    known.give_up(2)
    assert known.opened == SECOND
    known.give_up(3)
    assert known.opened == (0, 0)
    made = election(long)
    made.known = known_of(opened=SECOND)
    with pytest.raises(ElectionError, match="lacks what was confirmed in epoch 2"):
        made.decide()


def test_what_an_open_master_does_not_have_as_confirmed_was_given_up() -> None:
    """By an unclean election that nobody here saw: the next clean one would bar everybody for ever."""
    known = known_of(answer(ONE, 2000, 1900, FIRST), answer(TWO, 1000, 900, FIRST))
    known.note(answer(TWO, 1100, 1050, (3, 1)), is_open=True)
    known.note(answer(ONE, 1100, 1050, (3, 1)))
    assert not known.lacks_own(answer(ONE, 1100, 1050, (3, 1)), OF_THREE)
    assert not known.lacks_confirmed(answer(THREE, 1100, 1050, (3, 1)), (), OF_THREE)
    assert known.lacks_confirmed(answer(THREE, 1040, 1000, (3, 1)), (), OF_THREE)


def test_the_last_word_of_a_directory_counts_unless_an_earlier_one_told_of_more() -> None:
    known = KnownLogs()
    known.note(answer(TWO, 12, 11))
    known.note(answer(TWO, 10, 5))
    assert known.answers == [answer(TWO, 12, 11)]
    known.note(answer(TWO, 16, 4, SECOND))
    assert known.answers == [answer(TWO, 16, 11, SECOND)], "a later start takes nothing back"
    known.give_up(2)
    assert known.answers == [answer(TWO, 16, 11, SECOND)], "told since that election"
    known.give_up(3)
    assert known.answers == []
    for number in range(2 * MAX_KNOWN):
        known.note(answer(TWO._replace(incarnation=str(number)), 1, 1))
        known.note(answer(THREE, 1, 1))
    assert len(known.answers) == MAX_KNOWN
    assert answer(THREE, 1, 1) in known.answers, "the ones not heard for longest go"


def test_a_member_of_the_set_without_what_was_confirmed_is_not_elected() -> None:
    made = elected(answer(TWO, 10, 5), answer(THREE, 20, 11))
    assert made.master == 3
    assert elected(answer(TWO, 20, 5), answer(THREE, 20, 11)).master in (2, 3)
    silent = (answer(ONE, 30, 21),)
    with pytest.raises(
        ElectionError, match=r"replica 2 ends at 10, and 21 was confirmed.*put back.*replica 3 ends at 20"
    ):
        elected(answer(TWO, 10, 5), answer(THREE, 20, 11), known=silent)
    assert elected(answer(TWO, 21, 5), answer(THREE, 20, 11), known=silent).master == 2
    assert election(answer(TWO, 10, 5), known=silent, unclean=True).decide().master == 2, "by hand, it may be lost"


def test_a_quorum_does_not_count_a_log_that_lacks_what_it_had() -> None:
    latest = replace(OF_THREE, rule=QUORUM)
    had = (answer(TWO, 15, 14),)
    assert elected(answer(TWO, 14, 5), answer(THREE, 12, 11), known=had, latest=latest).master == 2
    with pytest.raises(ElectionError, match=r"1 replicas answer, 2 are needed; the log of replica 2 ends at 10"):
        elected(answer(TWO, 10, 5), answer(THREE, 12, 11), known=had, latest=latest)
    with pytest.raises(ElectionError, match="the log of replica 3 ends at 12, and 20 was confirmed"):
        elected(answer(TWO, 10, 5), answer(THREE, 12, 11), known=(answer(ONE, 20, 20),), latest=latest)


@pytest.mark.failure(
    "A replica's disk is put back to a snapshot, under `async`",
    group="Directories, copies and backups",
    does="Nobody looks: it may be elected.",
    lost="what it lacks",
)
def test_async_promises_nothing() -> None:
    latest = replace(OF_THREE, rule=Rule(RuleKind.ASYNC, 3))
    assert elected(answer(TWO, 10, 5), known=(answer(ONE, 30, 21), answer(TWO, 30, 21)), latest=latest).master == 2


def test_a_master_knows_a_slave_that_lacks_what_it_acknowledged() -> None:
    """It is welcome, and copies; what it had is not taken for there."""
    found = master()
    found.greeted(greeting(0), 7)
    found.sending(2, 7, 1)
    found.acknowledged(2, 7, 1)
    assert not found.slaves[2].has_lost
    found.slave_gone(2, 7)
    *_, welcome = found.greeted(greeting(0, run=2, tokens=("a",)), 8)
    assert isinstance(welcome, WelcomeSlave)
    assert found.slaves[2].has_lost and found.slaves[2].acknowledged == 0
    *_, welcome = found.greeted(greeting(0, run=2, tokens=("a",)), 9)
    assert found.slaves[2].has_lost, "another stream is no answer"
    found.sending(2, 9, 1)
    found.acknowledged(2, 9, 1)
    assert not found.slaves[2].has_lost, "it has copied"
    *_, welcome = found.greeted(greeting(1, found.starts[-1:], run=2, tokens=("a",)), 10)  # type: ignore[arg-type]
    assert isinstance(welcome, WelcomeSlave)
    assert not found.slaves[2].has_lost and found.slaves[2].acknowledged == 1


def slave(confirmed: int) -> Replica:
    """A former master with 20 of its own bytes, as slave of replica 2."""
    start = EpochStart(1, 1, 0, 0, 1, False, bytes.fromhex(ONE.incarnation))
    made = Replica(ReplicaState("g", *ONE, promise=Promise(1)), (start,), 20, confirmed)
    made.start()
    made.appoint(appointment(2, 2))
    made.greeting()
    return made


@pytest.mark.failure(
    "A replica meets a master that lacks what it knows as confirmed",
    group="Directories, copies and backups",
    does="It stops and cuts nothing: it has what is missing. Elect it with `--unclean --to`.",
    lost="nothing yet",
    told="its log: a disk was put back",
)
def test_who_knows_more_as_confirmed_than_its_master_has_stops_and_cuts_nothing() -> None:
    found = slave(15)
    [halt] = found.welcomed(Welcome(2, 1, 10, 10, appointment=appointment(2, 2)))
    assert isinstance(halt, Halt)
    assert "nothing after 10, and 15 is confirmed here: a disk was put back" in halt.reason
    assert found.end == 20


@pytest.mark.failure_also("An operator elects with `--unclean` a replica that lacks confirmed messages")
def test_what_an_unclean_election_gives_up_is_kept_aside() -> None:
    found = slave(15)
    effects = found.welcomed(Welcome(2, 1, 10, 10, is_unclean=True, appointment=appointment(2, 2)))
    assert Cut(10, keeps=True, is_unclean=True) in effects
    others = slave(15)
    others.starts = [others.starts[0]._replace(incarnation=bytes.fromhex(THREE.incarnation))]
    effects = others.welcomed(Welcome(2, 1, 10, 10, is_unclean=True, appointment=appointment(2, 2)))
    assert Cut(10, keeps=True, is_unclean=True) in effects, "another master's, but confirmed"
    others = slave(5)
    others.starts = [others.starts[0]._replace(incarnation=bytes.fromhex(THREE.incarnation))]
    effects = others.welcomed(Welcome(2, 1, 10, 10, appointment=appointment(2, 2)))
    assert Cut(10, keeps=False, is_unclean=False) in effects, "that master keeps what was its own"


def test_a_report_of_the_master_may_be_older_than_those_of_its_slaves() -> None:
    """What slaves told as confirmed since then is no sign of a disk that was put back."""
    reports = (answer(ONE, 10, 8), answer(TWO, 15, 12), answer(THREE, 13, 11))
    even = caught_up(reports, master=1)
    assert {each.end for each in even} == {15}
    move = election(*even, known=reports)
    move.wanted = 3
    assert move.decide().master == 3
