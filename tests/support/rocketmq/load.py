"""Producers and consumers at RocketMQ doors that come and go: what was confirmed, what was taken."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import grpc

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.rocketmq.client import GrpcClient
from tests.support.waiting import PATIENCE_SECONDS

PAUSE_SECONDS = 0.1
CALL_SECONDS = 5.0
LEASE_MS = 5_000


class RocketMqLoad:
    """Each thread goes round the `processes` when its own does not answer.

    `doubtful` are those whose acknowledgement was not answered, or refused: they may come twice.
    `counts_connections`: for processes of their own.  grpc's thread that watches a channel fails as the channel closes.
    """

    def __init__(
        self,
        processes: Sequence[Any],
        topic: str,
        group: str,
        *,
        sub_topic: str = "",
        lease_ms: int = LEASE_MS,
        pause_seconds: float = 0.0,
        counts_connections: bool = False,
        series: str = "",
    ) -> None:
        self._processes, self._topic, self._group, self._sub_topic = processes, topic, group, sub_topic
        self._lease_ms = lease_ms
        self._pause_seconds = pause_seconds
        self._series = series
        self._counts_connections = counts_connections
        self.connections = 0
        self.refusals: list[str] = []
        self._counting = threading.Lock()
        self.sent: set[str] = set()
        self.confirmed: set[str] = set()
        self.taken: Counter[str] = Counter()
        self.doubtful: set[str] = set()
        self.settled: set[str] = set()
        self.failures: list[str] = []
        self.is_producing = self.is_consuming = True
        self._threads: list[threading.Thread] = []
        self._producers: list[threading.Thread] = []

    def begin(self, producers: int, consumers: int) -> None:
        for number in range(producers):
            self._producers.append(self._start(self._publish, f"rocketmq{number}{self._series}"))
        for number in range(consumers):
            self._start(self._consume, f"consumer{number}")

    def _start(self, work: Any, name: str) -> threading.Thread:
        thread = threading.Thread(target=self._run, args=(work, name), daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _run(self, work: Any, name: str) -> None:
        place = sum(name.encode())
        while self.is_producing if work == self._publish else self.is_consuming:
            place += 1
            try:
                with GrpcClient(
                    self._processes[place % len(self._processes)].address("grpc"), client_id=name
                ) as client:
                    if self._counts_connections:
                        client.channel.subscribe(self._noted)
                    work(client, name)
            except (grpc.RpcError, ConnectionError):
                time.sleep(PAUSE_SECONDS)
            except Exception as error:
                self.failures.append(f"{name}: {error!r}")
                return

    def _noted(self, state: grpc.ChannelConnectivity) -> None:
        """Count the connections of all channels."""
        with self._counting:
            self.connections += state is grpc.ChannelConnectivity.READY

    def _publish(self, client: GrpcClient, name: str) -> None:
        while self.is_producing:
            body = f"{name}-{len(self.sent)}-{time.monotonic_ns()}"
            self.sent.add(body)
            properties = {"entrepot_sub_topic": self._sub_topic} if self._sub_topic else {}
            message = client.message(self._topic, body.encode(), properties)
            answer = client.call("SendMessage", v2.SendMessageRequest(messages=[message]), CALL_SECONDS)
            if answer.status.code == v2.OK:
                self.confirmed.add(body)
                time.sleep(self._pause_seconds)
            else:
                self.refusals.append(f"{answer.status.code} {answer.status.message}")
                time.sleep(PAUSE_SECONDS)

    def _consume(self, client: GrpcClient, name: str) -> None:
        while self.is_consuming:
            asked_at = time.monotonic()
            status, messages = client.try_receive(
                self._topic, self._group, 16, wait_ms=500, invisible_ms=self._lease_ms
            )
            if time.monotonic() - asked_at > self._lease_ms / 1000 - 0.1:
                continue  # others may have them by now: as if the answer had been lost
            if status.code not in (v2.OK, v2.MESSAGE_NOT_FOUND):
                time.sleep(PAUSE_SECONDS)
                continue
            bodies = [message.body.decode() for message in messages]
            self.taken.update(bodies)
            if messages:
                self.doubtful.update(set(bodies) - self.settled)
                answer = client.ack(self._topic, self._group, *messages)
                # Without entries it failed as a whole.
                results = [entry.status for entry in answer.entries] or [answer.status] * len(bodies)
                for body, result in zip(bodies, results, strict=True):
                    if result.code == v2.OK:
                        self.settled.add(body)
                        if self.taken[body] == 1:
                            self.doubtful.discard(body)

    def end_producing(self) -> None:
        """No more new ones; waits until the last is answered."""
        self.is_producing = False
        for thread in self._producers:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "a message waits for its answer"

    def stop(self) -> None:
        self.is_producing = self.is_consuming = False
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
