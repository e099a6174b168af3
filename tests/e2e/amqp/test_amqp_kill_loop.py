"""Contract row 3 at the AMQP door: a server killed every 0.3 to 2 s under publishers and consumers."""

from __future__ import annotations

import time
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.load import Consumer, Load, Publisher, parameters
from tests.support.processes.server import ServerProcess
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.support.waiting import wait_until

ROUNDS = 10


@pytest.mark.soak  # in the default tier: every pair of doors through kills of one process
@pytest.mark.timeout(600)
def test_a_server_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    rng = seeded()
    with ServerProcess(tmp_path, {"store.checkpoint_interval_seconds": "1"}) as server:

        def connect() -> pika.BlockingConnection:
            return pika.BlockingConnection(parameters(server.port("amqp")))

        first = connect()
        for queue in ("load", "other"):
            first.channel().queue_declare(queue, durable=True)
        first.close()
        publishers = [Publisher("a", "load"), Publisher("b", "load"), Publisher("c", "other")]
        load = Load(connect, publishers, [Consumer("load"), Consumer("load"), Consumer("other")])
        try:
            for _ in range(ROUNDS):
                before = len(load.confirmed)
                wait_until(lambda before=before: len(load.confirmed) > before + 30, "it goes on")
                time.sleep(rng.uniform(0.3, 2.0))  # the moment of the crash is what is random here
                server.kill()
                server.restart()
            load.end_producing()
            wanted = load.confirmed
            wait_until(
                lambda: wanted <= load.taken.keys() or load.failures, lambda: f"{len(wanted - load.taken.keys())}"
            )
        finally:
            load.stop()
            tell_of(load)
        assert not load.failures, load.failures
    assert len(wanted) > 100
    assert load.taken.keys() <= load.sent, "what nobody sent"
    for consumer in load.consumers:
        assert [body for body in consumer.again if body not in load.unsure] == [], "acknowledged, and came again"
        assert [body for body in consumer.unmarked if body not in load.unsure] == [], "came again unmarked"


def tell_of(load: Load) -> None:
    confirmed, taken = load.confirmed, load.taken
    tell(
        "AMQP door through kills of one process",
        rounds=ROUNDS,
        messages=len(confirmed),
        lost=len(confirmed - taken.keys()),
        phantom=len(taken.keys() - load.sent),
        duplicated=sum(count > 1 for count in taken.values()),
        faults=ROUNDS,
    )
