"""Contract row 3 at the MQTT door: a server killed again and again under QoS 1 and 2, sessions and a share.

Nothing confirmed is lost, nothing comes that nobody sent, and QoS 2 in both directions has no duplicate.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.mqtt.load import Consumer, Publisher, Threads, Wire
from tests.support.processes.server import ServerProcess
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.support.waiting import wait_until

ROUNDS = 10
MOST_ROUNDS = 3 * ROUNDS
LONGEST_LIFE_SECONDS = 2.0


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_server_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rng = seeded()
    settings = {"groups.invisible_seconds": "2", "store.checkpoint_interval_seconds": "1"}
    with ServerProcess(tmp_path, settings) as server:
        threads = Threads(lambda client_id: Wire(server.port("mqtt"), client_id))
        once, least, shared = (Consumer("once", "load/#", 2), Consumer("least", "load/#", 1), [])
        shared = [Consumer(f"member{number}", "$share/workers/load/#", 1) for number in range(2)]
        threads.consume(once, least, *shared)
        try:
            wait_until(lambda: all(each.is_ready for each in threads.consumers), "subscribed")
            threads.publish(
                Publisher("q1", 1, "load/a"), Publisher("q2a", 2, "load/b"), Publisher("q2b", 2, "load/c/d")
            )
            rounds = 0
            while rounds < ROUNDS or once.resumed < ROUNDS - 1:  # not every life is long enough to be found
                rounds += 1
                assert rounds <= MOST_ROUNDS, f"resumed {once.resumed}"
                time.sleep(rng.uniform(0.2, LONGEST_LIFE_SECONDS))  # the moment of the crash is what is random here
                server.kill()
                server.restart()
            threads.end_producing()
            wait_until(lambda: once.resumed >= ROUNDS or threads.failures, "the session goes on")
            wanted = threads.confirmed

            def missing() -> dict[str, int]:
                of_share = set().union(*(each.taken.keys() for each in shared))
                return {
                    "once": len(wanted - once.taken.keys()),
                    "least": len(wanted - least.taken.keys()),
                    "share": len(wanted - of_share),
                }

            wait_until(lambda: not any(missing().values()) or threads.failures, lambda: str(missing()))
        finally:
            threads.stop()
    exactly = {body for publisher in threads.publishers if publisher.qos == 2 for body in publisher.sent}
    doubled = {body: count for body, count in once.taken.items() if count > 1 and body in exactly}
    phantoms = {consumer.name: consumer.taken.keys() - threads.sent for consumer in threads.consumers}
    tell(
        "mqtt: kill loop of one server",
        rounds=rounds,
        messages=len(threads.sent),
        lost=max(missing().values()),
        phantom=sum(map(len, phantoms.values())),
        duplicated=len(doubled),
        faults=rounds,
    )
    assert not threads.failures, threads.failures
    print(f"sent {len(threads.sent)} confirmed {len(threads.confirmed)} resumed {once.resumed}")
    assert len(threads.confirmed) > 100
    assert once.resumed >= ROUNDS and all(each.resumed for each in threads.publishers)
    assert not any(phantoms.values()), f"phantoms: {phantoms}"
    assert doubled == {}, "QoS 2 from end to end came twice"
