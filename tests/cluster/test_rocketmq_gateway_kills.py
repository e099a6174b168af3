"""Contract rows 8 and 10 at the RocketMQ door: gateways and consumers that are killed."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from pathlib import Path

import grpc
import pytest

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.http.pull import http_json
from tests.support.processes.deployment import ClusterProcesses
from tests.support.rocketmq.client import GrpcClient
from tests.support.rocketmq.load import RocketMqLoad
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

KILLS = 4
EVERY_SECONDS = 2.0
LEASE_MS = 4_000
GROUPS, PER_GROUP, CONSUMERS = 100, 10, 8


@pytest.mark.failure_also("A gateway dies")
@pytest.mark.soak
@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(600)
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
            wait_until(lambda: load.confirmed <= load.settled | load.doubtful, lambda: f"{len(load.doubtful)} open")
        finally:
            load.stop()
        tell(
            "RocketMQ gateways killed in turn",
            rounds=KILLS,
            messages=len(load.confirmed),
            lost=len(load.confirmed - set(load.taken)),
            phantom=len(set(load.taken) - load.sent),
            duplicated=sum(count > 1 for count in load.taken.values()),
            faults=KILLS,
        )
        assert not load.failures
        assert set(load.taken) <= load.sent
        assert len(load.confirmed) > 300
        assert load.confirmed <= set(load.taken)
        twice = {body for body, count in load.taken.items() if count > 1}
        assert twice <= load.doubtful, twice - load.doubtful


class OrderedConsumers:
    """Consumers of a FIFO group, every third of whom dies with what it holds."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses
        self.settled: dict[str, list[int]] = defaultdict(list)
        self._asked: dict[str, set[int]] = defaultdict(set)
        self.faults: list[str] = []
        self._holders: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def run(self) -> None:
        """Until all is settled, or something is wrong."""
        threads = [threading.Thread(target=self._consume, args=(number,)) for number in range(CONSUMERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * PATIENCE_SECONDS)

    def _consume(self, number: int) -> None:
        address = self._addresses[number % len(self._addresses)]
        turn = 0
        while sum(map(len, self.settled.values())) < GROUPS * PER_GROUP and not self.faults:
            turn += 1
            try:
                with GrpcClient(address, client_id=f"c{number}-{turn}") as client:
                    self._work(f"c{number}", client, crashes=turn % 3 == 2)
            except grpc.RpcError as error:
                self.faults.append(f"c{number}: {error}")

    def _work(self, name: str, client: GrpcClient, *, crashes: bool) -> None:
        taken_at = time.monotonic()
        found = client.receive("fifo", "ordered", 16, wait_ms=300, invisible_ms=LEASE_MS)
        with self._lock:
            if time.monotonic() - taken_at > LEASE_MS / 1000 / 2:
                return  # others may have it by now
            before: dict[str, set[int]] = defaultdict(set)
            for message in found:
                group, number = message.system_properties.message_group, int(message.body)
                if not set(range(number)) <= self._asked[group] | before[group]:
                    self.faults.append(f"{number} of {group} comes before its predecessors are acknowledged")
                before[group].add(number)
                other, since = self._holders.get(group, (name, taken_at))
                if other != name and taken_at - since < LEASE_MS / 1000 / 2:
                    self.faults.append(f"{group} is with {other} and {name}")
                if not crashes:
                    self._holders[group] = (name, taken_at)
        if crashes or not found:
            return
        with self._lock:  # from here on the next one may have it
            for message in found:
                self._holders.pop(message.system_properties.message_group, None)
                self._asked[message.system_properties.message_group].add(int(message.body))
        answer = client.ack("fifo", "ordered", *found)
        with self._lock:
            for message, entry in zip(found, answer.entries, strict=True):
                group = message.system_properties.message_group
                if entry.status.code == v2.OK:
                    self.settled[group].append(int(message.body))
                elif time.monotonic() - taken_at < LEASE_MS / 1000 / 2:
                    self.faults.append(f"{group}: {entry.status}")


@pytest.mark.soak
@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(600)
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
        consumers = OrderedConsumers(addresses)
        consumers.run()
        tell("message groups with consumers that crash", messages=GROUPS * PER_GROUP, faults=len(consumers.faults))
        assert not consumers.faults
        settled = {group: sorted(numbers) for group, numbers in consumers.settled.items()}
        assert settled == {f"g{group}": list(range(PER_GROUP)) for group in range(GROUPS)}
