"""The register by any sequence of commands: late, doubled, and of controllers that know less."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.controller.commands import (
    Adopt,
    BeginElection,
    ChangeSet,
    Command,
    Decide,
    HearController,
    NameController,
    Reshape,
    WantReplicas,
    decode_command,
    encode_command,
)
from entrepot.broker.controller.register import Group, Register
from entrepot.broker.controller.starts import DirectoryStart
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.control import GroupShape
from entrepot.domain.replication.mastership import Appointment, Member, Promise

RULE = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
MEMBERS = tuple(Member(replica, "i") for replica in (1, 2, 3))
SHAPE = GroupShape("g", ((1, "a:1"), (2, "a:2"), (3, "a:3")), RULE)

NUMBERS = st.integers(0, 4)
ORDERS = st.tuples(NUMBERS, NUMBERS)
TOKENS = st.sampled_from(["s", "t"])
SETS = st.lists(st.sampled_from(MEMBERS), unique=True, max_size=3).map(tuple)
APPOINTMENTS = st.builds(
    lambda epoch, version, master, members: Appointment(epoch, version, master, RULE, members, MEMBERS),
    *(NUMBERS, NUMBERS, st.integers(1, 3), SETS),
)
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(lambda made: Adopt(SHAPE, made, (0, 0), "it came", 1), APPOINTMENTS),
    st.builds(BeginElection, st.just("g"), NUMBERS, TOKENS, ORDERS, st.just("why"), st.just(2)),
    st.builds(Decide, st.just("g"), TOKENS, APPOINTMENTS, st.just("why"), st.just(3)),
    st.builds(ChangeSet, st.just("g"), APPOINTMENTS, ORDERS),
    st.builds(lambda port: Reshape(replace(SHAPE, replicas=((1, f"a:{port}"),))), NUMBERS),
    st.builds(WantReplicas, st.just("g"), st.just((1, 2))),
    st.builds(NameController, st.integers(1, 3), st.sampled_from(["", "c:1", "c:2"])),
    st.builds(HearController, st.integers(1, 3), st.builds(DirectoryStart, st.sampled_from(["i", "j"]), NUMBERS)),
)


def begun(epoch: int = 1, version: int = 1) -> Register:
    """A register with a group."""
    found = Register()
    appointment = Appointment(epoch, version, 1, RULE, MEMBERS, MEMBERS)
    assert found.apply(Adopt(SHAPE, appointment, (0, 0), "it came", 1)) == ""
    return found


def orders(register: Register) -> tuple[tuple[int, int], int]:
    group = register.groups.get("g")
    return ((0, 0), 0) if group is None else (group.appointment.order, max(group.electing.epoch, 0))


@given(st.lists(COMMANDS, max_size=30))
def test_any_commands_keep_the_invariants(commands: list[Command]) -> None:
    one, other = Register(), Register()
    decided: dict[int, tuple[str, int]] = {}
    for command in commands:
        before, snapshot = one.groups.get("g"), one.snapshot()
        reason = one.apply(command)
        assert other.apply(decode_command(encode_command(command))) == reason, "all controllers take it alike"
        assert other.snapshot() == one.snapshot()
        after = one.groups.get("g")
        if reason:
            assert one.snapshot() == snapshot, "what is refused changes nothing"
        if before is None or after is None:
            continue
        assert after.appointment.order >= before.appointment.order or isinstance(command, Adopt)
        check_step(before, after, command, reason)
        if isinstance(command, Decide) and not reason:
            made = command.appointment
            assert made.epoch not in decided, "one appointment for each election"
            decided[made.epoch] = (command.token, made.master)
    again = Register()
    again.restore(one.snapshot())
    assert (again.groups, again.addresses) == (one.groups, one.addresses)
    assert again.snapshot() == one.snapshot()


def check_step(before: Group, after: Group, command: Command, reason: str) -> None:
    """What one command may do to a group."""
    if isinstance(command, ChangeSet) and not reason:
        assert not before.is_electing, "an earlier master changes its set no more"
        assert command.base == before.appointment.order, "in place of that one alone"
        assert after.appointment.epoch == before.appointment.epoch
        assert after.appointment.master == before.appointment.master
    elif isinstance(command, BeginElection) and not reason:
        assert after.is_electing
        assert after.electing.epoch > max(before.electing.epoch, before.appointment.epoch)
        assert after.appointment == before.appointment
    elif isinstance(command, Decide) and not reason:
        assert before.electing == Promise(command.appointment.epoch, command.token)
        assert not after.is_electing
    elif not isinstance(command, Adopt):
        assert after.appointment == before.appointment


def test_a_change_of_the_set_takes_the_place_of_one_alone() -> None:
    """Two masters' proposals, or one proposal twice: one of them counts."""
    register = begun()
    made = replace(register.groups["g"].appointment, version=2, members=MEMBERS[:2])
    assert register.apply(ChangeSet("g", made, (1, 1))) == ""
    assert register.apply(ChangeSet("g", made, (1, 1))) == "the set of group g was changed meanwhile"
    late = replace(made, version=3, members=MEMBERS[1:])
    assert register.apply(ChangeSet("g", late, (1, 1))) == "the set of group g was changed meanwhile"
    assert register.groups["g"].appointment == made


def test_an_election_ends_the_earlier_mastership() -> None:
    register = begun()
    made = replace(register.groups["g"].appointment, version=2, members=MEMBERS[:1])
    assert register.apply(BeginElection("g", 2, "t", (1, 1), "why", 2)) == ""
    assert register.apply(ChangeSet("g", made, (1, 1))) == "an election of group g has begun"
    assert "was given already" in register.apply(BeginElection("g", 2, "s", (1, 1), "why", 2))
    next_one = Appointment(2, 0, 2, RULE, MEMBERS[1:], MEMBERS)
    assert "another election" in register.apply(Decide("g", "s", next_one, "why", 3))
    assert register.apply(BeginElection("g", 3, "s", (1, 1), "again", 2)) == ""
    assert "another election" in register.apply(Decide("g", "t", next_one, "why", 3)), "a later one has begun"
    assert register.apply(Decide("g", "s", replace(next_one, epoch=3), "why", 3)) == ""
    assert "another election" in register.apply(Decide("g", "s", replace(next_one, epoch=3), "why", 3))


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (Appointment(1, 2, 2, RULE, MEMBERS), "replica 2 is not the master of group g that was decided"),
        (Appointment(2, 2, 1, RULE, MEMBERS), "replica 1 is not the master of group g that was decided"),
        (Appointment(1, 1, 1, RULE, MEMBERS), "replica 1 is not the master of group g that was decided"),
    ],
    ids=["another master", "another epoch", "no later version"],
)
def test_only_the_master_that_was_decided_changes_its_set(made: Appointment, reason: str) -> None:
    assert begun().apply(ChangeSet("g", made, (1, 1))) == reason


def test_an_old_copy_of_a_controller_s_directory_is_known() -> None:
    register = Register()
    heard = DirectoryStart("i", 2, ("a", "b"))
    assert register.apply(HearController(1, heard)) == ""
    assert register.apply(HearController(1, heard)) == "", "the same start"
    for start, words in (
        (DirectoryStart("i", 1, ("a",)), "its directory is an old copy"),
        (DirectoryStart("i", 2, ("a", "x")), "is a copy"),
        (DirectoryStart("i", 3, ("a", "x", "c")), "is a copy"),
        (DirectoryStart("j", 9), "it may have forgotten votes"),
    ):
        assert words in register.apply(HearController(1, start))
        assert words in register.old_copy(1, start)
    assert register.old_copy(1, heard.next("c")) == register.old_copy(2, DirectoryStart("j", 1)) == ""


def test_a_group_that_is_not_there_is_not_changed() -> None:
    register = Register()
    made = Appointment(1, 1, 1, RULE, MEMBERS)
    for command in (
        BeginElection("g", 1, "t", (0, 0), "", 0),
        Decide("g", "t", made, "", 0),
        ChangeSet("g", made, (0, 0)),
        Reshape(SHAPE),
        WantReplicas("g", (1,)),
    ):
        assert register.apply(command) != ""
    assert register.groups == {}


def test_groups_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.controller.register.MAX_GROUPS", 1)
    register = begun()
    assert register.apply(Adopt(replace(SHAPE, name="h"), Appointment(), (0, 0), "", 0)) == "there are 1 groups"


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", encode_command(NameController(1, "c:1"))[:-1]])
def test_a_command_that_is_none_is_not_read(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_command(data)
