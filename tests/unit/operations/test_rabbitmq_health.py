"""Health checks of RabbitMQ's API where something is wrong: nothing is called healthy that can confirm nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.operations.rabbitmq.health_checks import HealthChecks
from entrepot.gateway.settings import Settings
from tests.support.cases import cases

NODE = "entrepot@g"


class Control:
    """A cluster's control with one broker."""

    def __init__(self, problem: str = "", *, is_available: bool = True) -> None:
        self.confirm_problem, self.is_available = problem, is_available

    async def brokers(self) -> list[Any]:
        return [SimpleNamespace(name="b1", is_available=self.is_available, problem="no answer")]


def checks(
    failure: EntrepotError | None = None,
    control: Control | None = None,
    *,
    is_ready: bool = True,
    is_full: bool = False,
) -> HealthChecks:
    amqp: Any = SimpleNamespace(is_full=is_full)
    rabbitmq: Any = SimpleNamespace(amqp=amqp, vhosts=[SimpleNamespace(name="/")])
    store: Any = SimpleNamespace(condition=SimpleNamespace(failure=failure), operations=control)
    addresses = {"amqp": "127.0.0.1:5672", "http": "127.0.0.1:8080"}
    return HealthChecks(rabbitmq, store, Settings(), "g", addresses, lambda: is_ready, lambda: 0)


BROKEN = {
    "the disk is gone": lambda: checks(EntrepotError(Code.INTERNAL_ERROR, "the disk is gone")),
    "the server is starting or stopping": lambda: checks(is_ready=False),
    "no broker is available": lambda: checks(control=Control(is_available=False)),
    "too few disks": lambda: checks(control=Control("too few disks")),
    "the store is full": lambda: checks(is_full=True),
}


@cases("reason", BROKEN)
async def test_a_server_that_confirms_nothing_is_healthy_by_no_check(reason: str) -> None:
    found = BROKEN[reason]()
    alarm = {"node": NODE, "resource": "disk", "reason": reason}
    assert alarm in (await found.local_alarms()).more["alarms"]
    assert alarm in (await found.alarms()).more["alarms"]
    assert (await found.virtual_hosts()).more == {"virtual-hosts": ["/"]}
    assert reason in (await found.critical()).problem and reason in (await found.node()).problem


async def test_a_broker_that_is_away_is_an_alarm_of_the_cluster_alone() -> None:
    control = Control()
    found = checks(control=control)
    assert not (await found.alarms()).problem and not (await found.critical()).problem
    control.brokers = Control(is_available=False).brokers  # type: ignore[method-assign]
    assert (await found.alarms()).more["alarms"] == [{"node": "b1", "resource": "broker", "reason": "no answer"}]
    assert not (await found.local_alarms()).problem


async def test_a_server_that_drains_listens_for_http_alone() -> None:
    assert (await checks().port_listener("5672")).problem == ""  # type: ignore[arg-type]
    draining = checks(is_ready=False)
    assert (await draining.port_listener("5672")).more == {"missing": 5672, "ports": [8080]}  # type: ignore[arg-type]
    assert (await draining.protocol_listener("amqp")).more["protocols"] == ["http"]  # type: ignore[arg-type]


async def test_a_certificate_that_cannot_be_read_is_told() -> None:
    settings = Settings.model_validate({"http": {"tls_certificate": "/nowhere.pem"}})
    rabbitmq: Any = SimpleNamespace(amqp=None)
    found = HealthChecks(rabbitmq, None, settings, "g", {"http": "[::1]:8080"}, lambda: True, lambda: 0)  # type: ignore[arg-type]
    told = await found.certificate_expiration("1", "days")  # type: ignore[arg-type]
    [row] = told.more["expired"]
    assert (row["interface"], row["port"], row["protocol"]) == ("::1", 8080, "https")
    with pytest.raises(EntrepotError, match="Invalid"):
        await found.certificate_expiration("99999999", "days")  # type: ignore[arg-type]
