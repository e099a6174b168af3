"""Directories that were rolled back, or that two processes have: they count nowhere once a later start was heard of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrepot.broker.replication.effects import (
    Acknowledge,
    Announce,
    AppendEpoch,
    Close,
    Persist,
    RefuseSlave,
    WelcomeSlave,
)
from entrepot.broker.replication.replica import Replica
from entrepot.domain.replication.election import Election, ElectionError
from entrepot.domain.replication.mastership import MAX_TOKENS, ReplicaState, RunHistory
from tests.replication.test_replica import ONE, TWO, answer, appointment, elected, greeting, kinds, master, replica


def test_a_start_is_known_to_all_before_anything_of_it_counts() -> None:
    found = master()
    assert found.state.appointment.heard == (found.state.history,)
    persist, announce, welcome = found.greeted(greeting(0, run=3, tokens=("a", "b", "c")), 7)
    assert isinstance(persist, Persist)
    assert isinstance(announce, Announce)
    assert isinstance(welcome, WelcomeSlave)
    assert announce.appointment == persist.state.appointment == welcome.welcome.appointment
    assert RunHistory(TWO, 3, ("a", "b", "c")) in announce.appointment.heard
    assert kinds(found.greeted(greeting(0, run=3, tokens=("a", "b", "c")), 8)) == [WelcomeSlave], "the same run again"
    assert kinds(found.greeted(greeting(0, run=4, tokens=("b", "c", "d")), 9))[-1] is WelcomeSlave, "a later one"


COPIES = [
    (2, ("a", "b"), "comes with run 2, run 3 was heard"),
    (3, ("a", "b", "x"), "has another run 3 than was heard"),
    (5, ("b", "x", "y", "z"), "has another run 3 than was heard"),
]
"""Replica 2 was heard in run 3, with tokens a, b, c."""


@pytest.mark.parametrize(("run", "tokens", "reason"), COPIES)
def test_an_old_copy_of_a_slave_counts_nowhere(run: int, tokens: tuple[str, ...], reason: str) -> None:
    found = master()
    found.greeted(greeting(0, run=3, tokens=("a", "b", "c")), 7)
    [refusal] = found.greeted(greeting(0, run=run, tokens=tokens), 8)
    assert isinstance(refusal, RefuseSlave)
    assert reason in refusal.reason
    assert "start it with an empty one" in refusal.reason
    assert found.slaves[2].stream == 7, "the one that was heard first goes on"
    told = found.state.appointment
    answers = [answer(ONE, 5, told), answer(TWO, 9, told)._replace(run=run, tokens=tokens)]
    made = elected(Election(2, "t", latest=told), *answers)
    assert (made.master, made.members) == (1, (ONE,))
    with pytest.raises(ElectionError, match=reason):
        elected(Election(2, "t", latest=told, wanted=2), *answers)
    with pytest.raises(ElectionError, match=rf"{reason}.*or say that it is lost"):
        elected(Election(2, "t"), *answers)
    with pytest.raises(ElectionError, match=reason):
        elected(Election(2, "t", latest=told), answers[1])


@pytest.mark.parametrize(("run", "tokens", "reason"), COPIES)
def test_an_old_copy_of_a_master_leads_no_more(run: int, tokens: tuple[str, ...], reason: str) -> None:
    """Its slaves, and whoever has a later appointment, tell it of the start that it lacks."""
    heard = (RunHistory(ONE, 3, ("a", "b", "c")),)

    def copy() -> Replica:
        state = ReplicaState("g", *ONE, run=run - 1, appointment=appointment(), tokens=tokens[:-1])
        found = Replica(state, (), 0, 0)
        *_, append = found.start(tokens[-1])
        assert isinstance(append, AppendEpoch)
        found.epoch_written(append.start, 1)
        return found

    found = copy()
    assert kinds(found.greeted(greeting(0, heard=heard), 7)) == [RefuseSlave, Close]
    assert reason in found.halted
    assert found.nobody_later() == []
    found = copy()
    effects = found.appoint(replace(found.state.appointment, version=9, heard=heard))
    assert kinds(effects) == ([Close, Persist] if run < 3 else [Close]), "of two live ones both stop"
    slave = replica(TWO)
    slave.start()
    slave.appoint(replace(appointment(), heard=heard))
    known = slave.state.appointment
    assert slave.appoint(replace(copy().state.appointment, version=9)) == []
    assert slave.state.appointment == known


def test_a_slave_that_acknowledges_has_heard_of_its_master_s_start() -> None:
    found, slave = master(), replica(TWO)
    slave.start()
    slave.appoint(appointment())
    *_, welcome = found.greeted(slave.greeting(), 7)
    assert isinstance(welcome, WelcomeSlave)
    persist, *rest = slave.welcomed(welcome.welcome)
    assert isinstance(persist, Persist)
    assert found.state.history in persist.state.appointment.heard
    assert Acknowledge(0) in rest


def test_what_was_heard_is_kept_over_elections() -> None:
    """Of what two know of a replica's starts the later one counts, and the last tokens alone are kept."""
    old, new = RunHistory(TWO, 3, ("c",)), RunHistory(TWO, 4, ("c", "d"))
    told = replace(appointment(), heard=(old,))
    made = elected(Election(2, "t", latest=told), answer(TWO, 5, told)._replace(run=4, tokens=("c", "d")))
    assert made.heard == (new,)
    found = replica(ONE)
    found.appoint(replace(appointment(), heard=(new,)))
    found.appoint(replace(appointment(3, 2), heard=(old,)))
    assert new in found.state.appointment.heard
    state = ReplicaState("g", *TWO)
    for number in range(MAX_TOKENS + 3):
        state = state.begun(f"{number}")
    assert (len(state.tokens), state.history.token(state.run - MAX_TOKENS)) == (MAX_TOKENS, None)
    assert state.history.token(MAX_TOKENS) == f"{MAX_TOKENS - 1}"


def test_an_old_copy_that_has_learnt_it_leads_no_more_after_a_restart() -> None:
    """A lone member is asked by nobody: its own appointment has the start that it lacks."""
    told = replace(appointment(), members=(ONE,), heard=(RunHistory(ONE, 3, ("a", "b", "c")),))
    for rule in (told, replace(told, members=(ONE, TWO))):
        found = Replica(ReplicaState("g", *ONE, run=3, tokens=("a", "b", "x"), appointment=rule), (), 5, 0)
        assert kinds(found.start("y")) == [Persist]
        assert found.nobody_later() == []
        assert "is a copy" in found.halted or rule is told
