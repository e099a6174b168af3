"""Open files and their limit are told of every gateway, and few left are an alarm."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from entrepot.domain.descriptors import Descriptors
from entrepot.gateway.operations.overview.alarms import Alarm, alarms_of
from entrepot.gateway.operations.overview.shapes import OpenFiles, Severity
from tests.support.gateways.overviews import QUIET, gateway


def alarms(used: int) -> list[Alarm]:
    gateways = [gateway("gw-1"), gateway("gw-2", open_files=OpenFiles(used, 1000, 900))]
    return alarms_of(replace(QUIET, gateways=gateways), ())


def test_few_left_are_an_alarm():
    assert alarms(809) == []
    [alarm] = alarms(810)
    assert (alarm.severity, alarm.subject) == (Severity.WARNING, "Gateway gw-2 has many open files")
    assert alarm.text == "810 of 1,000 files are open, connections are refused from 900"
    assert alarms(899)[0].severity is Severity.WARNING
    assert (alarms(900)[0].severity, alarms(900)[0].subject) == (
        Severity.CRITICAL,
        "Gateway gw-2 refuses connections",
    )


@pytest.fixture
def opened() -> Iterator[list[int]]:
    """Descriptors to be closed."""
    numbers: list[int] = []
    yield numbers
    for number in numbers:
        os.close(number)


def test_those_in_use_are_counted(opened: list[int], monkeypatch: pytest.MonkeyPatch):
    own = Descriptors()
    monkeypatch.setattr(resource, "getrlimit", lambda of: (2000, 2000))
    before = own.figures()
    assert (before["limit"], before["refusedFrom"]) == (2000, 2000 - own.reserve)
    opened += [os.open(os.devnull, os.O_RDONLY) for _ in range(10)]
    assert own.figures()["used"] == own.used
    assert before["used"] <= opened[0], "they are taken from below"
    assert own.figures()["used"] >= before["used"] + 10
    monkeypatch.setattr(resource, "getrlimit", lambda of: (resource.RLIM_INFINITY,) * 2)
    assert own.figures() == {}
