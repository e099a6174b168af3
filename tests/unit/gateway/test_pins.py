"""Queues that keep the log are named: by all brokers together, and as alarms."""

from __future__ import annotations

from types import SimpleNamespace

from entrepot.domain.broker_of_queue import first_queue
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.pin import Pin
from entrepot.gateway.operations.overview.alarms import alarms_of
from entrepot.gateway.operations.overview.shapes import Severity
from entrepot.store_client.remote.condition import RemoteCondition
from tests.support.brokers.scripted_broker import ScriptedBroker
from tests.support.gateways.overviews import QUIET


class Broker(ScriptedBroker):
    """A broker with pins, or one that refuses."""

    def __init__(self, number: int, *pins: Pin) -> None:
        super().__init__(number)
        self._pins = list(pins)

    async def pins(self) -> list[Pin]:
        if not self._pins:
            raise EntrepotError(Code.UNAVAILABLE, "it is away")
        return self._pins


async def test_brokers_are_joined_and_those_away_left_out():
    first = Broker(0, Pin("a", 1, 50, "x"), Pin("b", 0, 10, "x"))
    second = Broker(2, Pin("a", 1, 30, "y"))
    condition = RemoteCondition(SimpleNamespace(ready=[first, second, Broker(3)]))  # type: ignore[arg-type]
    assert await condition.pins() == [
        Pin("a", 1, 50, "x"),
        Pin("a", first_queue(2) + 1, 30, "y"),
        Pin("b", 0, 10, "x"),
    ]


def test_those_that_keep_most_are_alarms():
    pins = [Pin(f"ns/t{number}", number, (9 - number) << 30, "too many") for number in range(5)]
    alarms = alarms_of(QUIET, (), pins)
    assert [alarm.subject for alarm in alarms] == [f"Old messages of t{number} keep the log" for number in range(3)]
    assert {alarm.severity for alarm in alarms} == {Severity.WARNING}
    assert alarms[1].text == "8.0 GiB of it are kept by queue 1: too many"
    assert alarms[1].link == "#/topics/t1?namespace=ns"
    assert alarms_of(QUIET, (), [Pin("%AMQP%q", 0, 1 << 29, "x")])[0].link == "#/topics/%25AMQP%25q"
    assert alarms_of(QUIET, ()) == []
