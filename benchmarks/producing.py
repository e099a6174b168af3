"""Producers that publish one message after the other, and keep the times of their confirms."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import httpx2
import pika  # type: ignore[import-untyped]

from benchmarks.broker_group import BrokerGroup
from benchmarks.processes import BenchmarkError

AGAIN_SECONDS: Final = 0.005
"""Pause of a producer after a message that failed."""
GOES_ON_SECONDS: Final = 60.0
BODY: Final = b"x" * 200


@dataclass(slots=True)
class Confirms(ABC):
    """The times of confirms, and the failures."""

    confirms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    is_producing: bool = True

    def longest_gap(self, begun: float, ended: float) -> float:
        """The longest time between two confirms, of which one is between these times."""
        pairs = zip(self.confirms, self.confirms[1:], strict=False)
        return max((late - early for early, late in pairs if late >= begun and early <= ended), default=0.0)

    def wait_for(self, count: int) -> None:
        """Return after `count` more confirms."""
        wanted, deadline = len(self.confirms) + count, time.monotonic() + GOES_ON_SECONDS
        while len(self.confirms) < wanted:
            if time.monotonic() > deadline:
                raise BenchmarkError(f"no confirms for {GOES_ON_SECONDS:g} s: {self.failures[-1:]}")
            time.sleep(AGAIN_SECONDS)

    @abstractmethod
    def publish(self) -> None:
        """Publish until told to end; a failed message is not sent again."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Publish during a block."""
        thread = threading.Thread(target=self.publish)
        thread.start()
        try:
            yield
        finally:
            self.is_producing = False
            thread.join()


@dataclass(slots=True)
class Producer(Confirms):
    """A producer over HTTP, at the gateway of a group."""

    group: BrokerGroup = field(kw_only=True)
    topic: str = field(kw_only=True)

    def publish(self) -> None:
        headers = {"Ce-Specversion": "1.0", "Ce-Source": "/bench", "Ce-Type": "bench", "Content-Type": "text/plain"}
        with httpx2.Client(base_url=str(self.group.client.base_url), timeout=30) as client:
            number = 0
            while self.is_producing:
                number += 1
                headers["Ce-Id"] = str(number)
                try:
                    answer = client.post(f"/topics/{self.topic}:publish", content=BODY, headers=headers)
                except httpx2.HTTPError as error:
                    self.failures.append(repr(error))
                    continue
                if answer.status_code == 200:
                    self.confirms.append(time.monotonic())
                else:
                    problem = answer.json()
                    self.failures.append(f"{answer.status_code} {problem['code']}: {problem['detail']}")
                    time.sleep(AGAIN_SECONDS)


@dataclass(slots=True)
class QueueProducer(Confirms):
    """A producer over AMQP into a quorum queue, at a gateway or a node."""

    port: int = field(kw_only=True)
    queue: str = field(kw_only=True)

    def publish(self) -> None:
        properties = pika.BasicProperties(delivery_mode=2)
        parameters = pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0)
        while self.is_producing:
            try:
                with pika.BlockingConnection(parameters) as connection:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    while self.is_producing:
                        self._publish_one(channel, properties)
            except (pika.exceptions.AMQPError, OSError) as error:
                self.failures.append(repr(error))
                time.sleep(AGAIN_SECONDS)

    def _publish_one(self, channel: pika.channel.Channel, properties: pika.BasicProperties) -> None:
        try:
            channel.basic_publish("", self.queue, BODY, properties, mandatory=True)
        except (pika.exceptions.NackError, pika.exceptions.UnroutableError) as error:
            self.failures.append(repr(error))
            time.sleep(AGAIN_SECONDS)
        else:
            self.confirms.append(time.monotonic())
