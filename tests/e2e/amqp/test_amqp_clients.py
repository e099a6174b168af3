"""Every script, with every client, on our server and on RabbitMQ: the same script shows the same.  One client plays
them in front of RocketMQ, too.

RabbitMQ is the oracle: the observable that a script states is what RabbitMQ shows.  What a server shows instead is
listed in `differences.py` with the reason, and the listed difference must be there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.e2e.amqp import differences
from tests.e2e.amqp.client_table import BEHIND_THE_DOOR, CANNOT, CASES, CLIENTS, LATE_AT_ROCKETMQ, Client
from tests.support.amqp import servers as amqp_servers
from tests.support.amqp.peers.stage import Case, Stage
from tests.support.rocketmq.cluster import on_rocketmq
from tests.support.rocketmq.in_front import ROCKETMQ


def _table() -> list[object]:
    rows: list[object] = []
    for server, client in itertools.product((*amqp_servers.NAMES, ROCKETMQ), CLIENTS.values()):
        if server in ("separate", ROCKETMQ) and not client.is_ours:
            continue
        for case in CASES:
            if server == ROCKETMQ and case.feature in LATE_AT_ROCKETMQ:
                continue
            if (client.name, case.feature) not in CANNOT:
                name = f"{server}-{client.name}-{case.feature}"
                rows.append(pytest.param(server, client, case, id=name, marks=_marks(server, client, case)))
    return rows


def _marks(server: str, client: Client, case: Case) -> list[pytest.MarkDecorator]:
    if server == ROCKETMQ:
        return on_rocketmq
    if server == "rabbitmq" or not client.is_ours:
        skip = pytest.mark.skip(reason=f"{client.name} is not installed (make peers)")
        return [pytest.mark.interop, *([] if client.is_there else [skip])]
    if server == "separate":
        return [_ONE_CLUSTER, *([] if case.feature in BEHIND_THE_DOOR else [pytest.mark.soak])]
    return []


_ONE_CLUSTER = pytest.mark.xdist_group("amqp-separate")
"""One worker starts several processes, for all of these tests."""


@pytest.mark.parametrize(("server", "client", "case"), _table())
def test_script(server: str, client: Client, case: Case, amqp_port: Callable[[str], int]) -> None:
    stage = Stage(amqp_port(server), client.connect)
    try:
        found = case.play(stage)
    finally:
        stage.end()
    assert found == differences.observable(server, client.name, case.feature, case.observable)


def test_what_clients_cannot_is_of_the_table() -> None:
    features = {case.feature for case in CASES}
    assert [key for key in CANNOT if key[0] not in CLIENTS or key[1] not in features] == []
    assert set(BEHIND_THE_DOOR) | set(LATE_AT_ROCKETMQ) <= features


def test_differences_are_of_the_table() -> None:
    features = {case.feature for case in CASES}
    assert {feature for each in differences.DIFFERENCES for feature in each.features} <= features
    assert {client for each in differences.DIFFERENCES for client in each.clients} <= set(CLIENTS)
