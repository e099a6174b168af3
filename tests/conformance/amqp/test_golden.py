"""Every case against our server and against RabbitMQ: scope, code, text, class and method of the answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.amqp.all_cases import CASES
from tests.conformance.amqp.differences import ENTREPOT, REASONS
from tests.conformance.amqp.golden import GOLDEN
from tests.conformance.amqp.wire_client import Closed, Said, Wire
from tests.support.rocketmq.in_front import AT_ROCKETMQ
from tests.tiers.marks import interop_only

PARTS = [list(CASES)[first : first + 20] for first in range(0, len(CASES), 20)]
"""Cases that one test plays, one after the other."""


@pytest.mark.parametrize("server", ["serve", interop_only("rabbitmq"), AT_ROCKETMQ])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0])
def test_cases(part: list[str], server: str, amqp_port: Callable[[str], int]) -> None:
    stated = {name: GOLDEN[name] if server == "rabbitmq" else ENTREPOT.get(name, GOLDEN[name]) for name in part}
    port = amqp_port(server)
    assert {name: _played(name, port) for name in part} == stated


def _played(name: str, port: int) -> Said:
    with Wire(port) as wire:
        try:
            return CASES[name](wire)
        except Closed as closed:
            return closed.said


def test_every_case_has_a_golden_answer() -> None:
    assert list(GOLDEN) == list(CASES)


def test_differences_are_differences_of_cases() -> None:
    listed = [case for _, answers in REASONS for case in answers]
    assert len(listed) == len(ENTREPOT)
    assert [case for case in listed if ENTREPOT[case] == GOLDEN[case]] == []
