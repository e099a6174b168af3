"""Contract row 3 at the AMQP door: a server killed every 0.3 to 2 s under publishers and consumers."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.amqp_load import Consumer, Load, Publisher, parameters
from tests.support.server import ServerProcess
from tests.support.waiting import wait_until

ROUNDS = 4
SEED = int(os.environ.get("ENTREPOT_TEST_SEED", random.SystemRandom().randrange(1 << 32)))


@pytest.mark.timeout(180)
def test_a_server_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    print(f"SEED={SEED}")
    rng = random.Random(SEED)
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
                wait_until(lambda before=before: len(load.confirmed) > before + 30, "it goes on", 60)
                time.sleep(rng.uniform(0.3, 2.0))  # the moment of the crash is what is random here
                server.kill()
                server.restart()
            load.end_producing()
            wanted = load.confirmed
            wait_until(
                lambda: wanted <= load.taken.keys() or load.failures, lambda: f"{len(wanted - load.taken.keys())}", 60
            )
        finally:
            load.stop()
        assert not load.failures, load.failures
    print(f"sent {len(load.sent)} confirmed {len(wanted)}")
    assert len(wanted) > 100
    assert load.taken.keys() <= load.sent, "what nobody sent"
    for consumer in load.consumers:
        assert [body for body in consumer.again if body not in load.unsure] == [], "acknowledged, and came again"
        assert [body for body in consumer.unmarked if body not in load.unsure] == [], "came again unmarked"
