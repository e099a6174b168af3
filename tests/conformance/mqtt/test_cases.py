"""Every case against our server, and against mosquitto where both have what it needs.

Debian's mosquitto is the oracle: a case that it does not pass is listed in `differences.py` with the reason, and the
listed difference must be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.conformance.mqtt import differences, servers
from tests.conformance.mqtt.all_cases import BY_NAME, CASES
from tests.conformance.mqtt.player import play
from tests.conformance.mqtt.script import Case
from tests.conformance.mqtt.wire_client import ANSWER_SECONDS, Mismatch

SILENCE_SECONDS = 1.5
"""How long mosquitto is waited for where it is known to say nothing."""


OURS_ALONE = ("scram",)
"""Needs that mosquitto cannot meet: such cases are not put to it."""
CASES_OF_SERVERS = [
    pytest.param(case, name, id=f"{case.name}-{name}")
    for case in CASES
    for name in servers.NAMES
    if name != "mosquitto" or case.needs not in OURS_ALONE
]


@pytest.mark.parametrize(("case", "name"), CASES_OF_SERVERS)
def test_case(case: Case, name: str, server_for: Callable[[str, Case], servers.Server]) -> None:
    if name == "mosquitto" and servers.mosquitto_path() is None:
        pytest.skip("mosquitto is not installed (make peers)")
    server = server_for(name, case)
    assert server.has(case.needs), f"{name} has no {case.needs}"
    difference = differences.MOSQUITTO.get(case.name) if name == "mosquitto" else None
    if difference is None:
        play(case, server)
        return
    with pytest.raises(Mismatch) as found:
        play(case, server, SILENCE_SECONDS if "nothing came" in difference.observed else ANSWER_SECONDS)
    assert difference.observed in str(found.value)


def test_names_are_unique() -> None:
    assert [name for name, times in Counter(case.name for case in CASES).items() if times > 1] == []


def test_differences_are_of_cases() -> None:
    listed = [case for difference in differences.DIFFERENCES for case in difference.cases]
    assert [case for case in listed if case not in BY_NAME] == []
    assert len(listed) == len(differences.MOSQUITTO)
