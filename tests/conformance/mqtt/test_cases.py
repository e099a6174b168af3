"""Every case against our server, and against mosquitto where both have what it needs.

Debian's mosquitto is the oracle: a case that it does not pass is listed in `differences.py` with the reason, and the
listed difference must be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.conformance.mqtt import differences, servers
from tests.conformance.mqtt.all_cases import BY_NAME, CASES
from tests.conformance.mqtt.cases import connecting, limits, malformed, publishing, retaining, sessions, subscribing
from tests.conformance.mqtt.player import play
from tests.conformance.mqtt.script import Case
from tests.conformance.mqtt.wire_client import ANSWER_SECONDS, Mismatch
from tests.support.cases import cases
from tests.tiers.marks import interop_only, soak_only

pytestmark = pytest.mark.xdist_group("mqtt-conformance")
"""One worker starts the servers."""
SILENCE_SECONDS = 1.5
"""How long mosquitto is waited for where it is known to say nothing."""
MODULES = (connecting, sessions, publishing, subscribing, retaining, limits, malformed)
TIMED = [case for case in CASES if case.waits and case not in connecting.CASES]
SCRAM = [case for case in CASES if case.needs == "scram"]
"""Mosquitto cannot: they are not put to it."""
KEEP_ALIVE = [case for case in connecting.CASES if case.waits]
"""Keep alive is counted by the event loop: no clock of ours makes it pass."""

both = pytest.mark.parametrize("name", ["entrepot", interop_only("mosquitto")])
PlayOn = Callable[[Case, str], None]


@pytest.fixture
def play_on(server_for: Callable[[str, Case], servers.Server]) -> PlayOn:
    """Plays a case on the server of a name, with the difference that is to be expected there."""

    def played(case: Case, name: str) -> None:
        server = server_for(name, case)
        assert server.has(case.needs), f"{name} has no {case.needs}"
        difference = differences.MOSQUITTO.get(case.name) if name == "mosquitto" else None
        if difference is None:
            play(case, server)
            return
        with pytest.raises(Mismatch) as found:
            play(case, server, SILENCE_SECONDS if "nothing came" in difference.observed else ANSWER_SECONDS)
        assert difference.observed in str(found.value)

    return played


def _at_once(module: ModuleType) -> list[Case]:
    return [case for case in module.CASES if not case.waits and case.needs != "scram"]


def _name(case: Case) -> str:
    return case.name


@both
@cases("case", _at_once(connecting), _name)
def test_connecting(case: Case, name: str, play_on: PlayOn) -> None:
    play_on(case, name)


@cases("case", SCRAM, _name)
def test_scram(case: Case, play_on: PlayOn) -> None:
    play_on(case, "entrepot")


@both
@cases("case", _at_once(sessions), _name)
def test_sessions(case: Case, name: str, play_on: PlayOn) -> None:
    play_on(case, name)


@both
@cases("case", _at_once(publishing), _name)
def test_publishing(case: Case, name: str, play_on: PlayOn) -> None:
    play_on(case, name)


@both
@cases("case", _at_once(subscribing), _name)
def test_subscribing(case: Case, name: str, play_on: PlayOn) -> None:
    play_on(case, name)


@both
@cases("case", _at_once(retaining), _name)
def test_retaining(case: Case, name: str, play_on: PlayOn) -> None:
    play_on(case, name)


@both
@cases("case", _at_once(limits), _name)
def test_limits(case: Case, name: str, play_on: PlayOn) -> None:
    play_on(case, name)


@both
@cases("case", _at_once(malformed), _name)
def test_malformed(case: Case, name: str, play_on: PlayOn) -> None:
    play_on(case, name)


@pytest.mark.parametrize("name", ["with a clock", soak_only("entrepot"), interop_only("mosquitto")])
@cases("case", TIMED, _name)
def test_what_takes_time(case: Case, name: str, play_on: PlayOn) -> None:
    play_on(case, name)


@pytest.mark.parametrize("name", [soak_only("entrepot"), interop_only("mosquitto")])
@cases("case", KEEP_ALIVE, _name)
def test_keep_alive(case: Case, name: str, play_on: PlayOn) -> None:
    """The rule itself is in `tests/unit/mqtt/test_connection.py`, with its time passed in."""
    play_on(case, name)


def test_every_case_is_played() -> None:
    played = [case for module in MODULES for case in _at_once(module)] + SCRAM + TIMED + KEEP_ALIVE
    assert Counter(case.name for case in played) == Counter(case.name for case in CASES)


def test_names_are_unique() -> None:
    assert [name for name, times in Counter(case.name for case in CASES).items() if times > 1] == []


def test_differences_are_of_cases() -> None:
    listed = [case for difference in differences.DIFFERENCES for case in difference.cases]
    assert [case for case in listed if case not in BY_NAME] == []
    assert len(listed) == len(differences.MOSQUITTO)
