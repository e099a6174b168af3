"""Contract rows 8 and 10 at the RocketMQ door: gateways and consumers that are killed."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from pathlib import Path

import grpc
import pytest

from protocols.rocketmq import v2_pb2 as v2
from tests.support.deployment import ClusterProcesses
from tests.support.http_pull import http_json
from tests.support.rocketmq_client import GrpcClient
from tests.support.rocketmq_load import RocketMqLoad
from tests.support.waiting import wait_until

KILLS = 4
EVERY_SECONDS = 2.0
LEASE_MS = 4_000
GROUPS, PER_GROUP, CONSUMERS = 100, 10, 8


@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(180)
def test_a_gateway_is_killed_every_two_seconds(tmp_path: Path) -> None:
    """Nothing confirmed is lost; what comes twice is only what was not acknowledged, or whose answer was lost."""
    with ClusterProcesses(tmp_path, gateways=2) as cluster:
        load = RocketMqLoad(cluster.gateways, "load", "workers")
        load.begin(producers=3, consumers=4)
        try:
            for number in range(KILLS):
                due = time.monotonic() + EVERY_SECONDS
                wait_until(lambda due=due: time.monotonic() >= due, "it is time")
                cluster.gateways[number % 2].kill()
                before = len(load.settled)
                wait_until(lambda before=before: len(load.settled) > before, "consumers go on at the other one")
                cluster.gateways[number % 2].start()
            load.end_producing()
            # an acknowledgement whose answer was lost was taken, or the message comes again
            wait_until(lambda: load.confirmed <= load.settled | load.doubtful, lambda: f"{len(load.doubtful)} open", 30)
        finally:
            load.stop()
        assert not load.failures
        assert set(load.taken) <= load.sent
        assert len(load.confirmed) > 300
        assert load.confirmed <= set(load.taken)
        twice = {body for body, count in load.taken.items() if count > 1}
        assert twice <= load.doubtful, twice - load.doubtful


@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(180)
def test_message_groups_with_consumers_that_crash(tmp_path: Path) -> None:
    """100 message groups, 8 consumers at two gateways: each group in order, and with one consumer at a time."""
    with ClusterProcesses(tmp_path, gateways=2) as cluster:
        http_json(cluster.gateways[0], "PUT", "/api/v1/groups/ordered", {"fifo": True})
        addresses = [gateway.address("grpc") for gateway in cluster.gateways]
        with GrpcClient(addresses[0]) as producer:
            for number in range(PER_GROUP):
                messages = [
                    producer.message("fifo", b"%d" % number, message_group=f"g{group}", message_type=v2.FIFO)
                    for group in range(GROUPS)
                ]
                assert producer.send(*messages).status.code == v2.OK
        settled: dict[str, list[int]] = defaultdict(list)
        holders: dict[str, tuple[str, float]] = {}
        faults: list[str] = []
        lock = threading.Lock()

        def consume(name: str, address: str) -> None:
            for turn in range(10_000):
                if sum(map(len, settled.values())) >= GROUPS * PER_GROUP or faults:
                    return
                try:
                    with GrpcClient(address, client_id=f"{name}-{turn}") as client:
                        work(name, client, crashes=turn % 3 == 2)
                except grpc.RpcError as error:
                    faults.append(f"{name}: {error}")

        def work(name: str, client: GrpcClient, *, crashes: bool) -> None:
            found = client.receive("fifo", "ordered", 16, wait_ms=300, invisible_ms=LEASE_MS)
            taken_at = time.monotonic()
            with lock:
                for message in found:
                    group = message.system_properties.message_group
                    other, since = holders.get(group, (name, taken_at))
                    if other != name and taken_at - since < LEASE_MS / 1000 / 2:
                        faults.append(f"{group} is with {other} and {name}")
                    if not crashes:
                        holders[group] = (name, taken_at)
            if crashes:
                return  # it dies with what it holds
            with lock:  # from here on the next one may have it
                for message in found:
                    holders.pop(message.system_properties.message_group, None)
            answer = client.ack("fifo", "ordered", *found) if found else None
            with lock:
                for place, message in enumerate(found):
                    group = message.system_properties.message_group
                    assert answer is not None
                    if answer.entries[place].status.code == v2.OK:
                        settled[group].append(int(message.body))
                    elif time.monotonic() - taken_at < LEASE_MS / 1000 / 2:
                        faults.append(f"{group}: {answer.entries[place].status}")

        threads = [
            threading.Thread(target=consume, args=(f"c{number}", addresses[number % 2])) for number in range(CONSUMERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not faults
        assert settled == {f"g{group}": list(range(PER_GROUP)) for group in range(GROUPS)}
