"""Load by AMQP on a server that dies again and again: publishers with confirms, consumers that acknowledge (pika)."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pika  # type: ignore[import-untyped]
from pika.exceptions import AMQPError  # type: ignore[import-untyped]

from tests.support.waiting import PATIENCE_SECONDS

AWAY_SECONDS = 0.02
logging.getLogger("pika").setLevel(logging.CRITICAL)  # it tells each refused connection at length
BROKEN = (AMQPError, OSError, AssertionError)
WINDOW = 20
MOST_AHEAD = 1000
"""Messages by which publishers are ahead of the consumers at most: at the end these are to have all of them soon."""
MARKS = "marks"
"""A queue that nobody reads."""

Connect = Callable[[], "pika.BlockingConnection"]


def parameters(port: int, host: str = "127.0.0.1") -> pika.ConnectionParameters:
    return pika.ConnectionParameters(
        host,
        port,
        connection_attempts=1,
        socket_timeout=PATIENCE_SECONDS,
        stack_timeout=PATIENCE_SECONDS,
        blocked_connection_timeout=PATIENCE_SECONDS,
        heartbeat=0,
    )


@contextmanager
def closing_softly(connection: pika.BlockingConnection) -> Iterator[pika.BlockingConnection]:
    """A connection that is closed at the end, if it is still open: else the server holds what its consumers had."""
    try:
        yield connection
    finally:
        with suppress(*BROKEN):
            connection.close()


class Publisher:
    """Publishes `<name>-<number>` one after the other; what was not confirmed is published again.  To a queue, or to an
    exchange with a routing key."""

    def __init__(self, name: str, routing_key: str, exchange: str = "", *, pause_seconds: float = 0.0) -> None:
        self.name, self.routing_key, self.exchange = name, routing_key, exchange
        self._pause_seconds = pause_seconds
        self.sent: set[str] = set()
        self.confirmed: set[str] = set()
        self.unsure: set[str] = set()
        """Published more than once, as it was not known what had become of them."""

    def run(self, connect: Connect, goes_on: Callable[[], bool], is_ahead: Callable[[], bool]) -> None:
        number, body = 0, ""
        while goes_on() or body:
            try:
                with closing_softly(connect()) as connection:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    while goes_on() or body:
                        if not body:
                            while is_ahead() and goes_on():
                                time.sleep(AWAY_SECONDS)
                            body, number = f"{self.name}-{number}", number + 1
                        if body in self.sent:
                            self.unsure.add(body)
                        self.sent.add(body)
                        persistent = pika.BasicProperties(delivery_mode=2)
                        channel.basic_publish(self.exchange, self.routing_key, body.encode(), persistent)
                        self.confirmed.add(body)
                        body = ""
                        time.sleep(self._pause_seconds)
            except BROKEN:
                time.sleep(AWAY_SECONDS)


class Consumer:
    """Consumes and acknowledges.  `again`: bodies that came after this consumer had acknowledged them, and the server
    lived long enough to keep that; `unmarked`: those that came again and were not redelivered."""

    def __init__(self, queue: str, *, is_quick: bool = False) -> None:
        self.queue = queue
        self.is_quick = is_quick
        """Whether it does not wait to know what is settled."""
        self.taken: Counter[str] = Counter()
        self.settled: set[str] = set()
        self.again: list[str] = []
        self.unmarked: list[str] = []

    def run(self, connect: Connect, goes_on: Callable[[], bool]) -> None:
        while goes_on():
            try:
                with closing_softly(connect()) as connection:
                    self._consume(connection, goes_on)
            except BROKEN:
                time.sleep(AWAY_SECONDS)

    def _consume(self, connection: pika.BlockingConnection, goes_on: Callable[[], bool]) -> None:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=WINDOW)
        acknowledged: list[str] = []
        if not self.is_quick:
            marking = connection.channel()
            marking.queue_declare(MARKS, durable=True)
            marking.confirm_delivery()
        for method, _, data in channel.consume(self.queue, inactivity_timeout=0.1):
            if method is not None:
                self._take(method, data.decode())
                channel.basic_ack(method.delivery_tag)
                acknowledged.append(data.decode())
            if len(acknowledged) >= WINDOW and not self.is_quick:
                time.sleep(0.12)  # by contract what was acknowledged is durable by then,
                for _ in range(2):  # or, if the disk is slow, with the second message that is confirmed behind it
                    marking.basic_publish("", MARKS, b"mark", pika.BasicProperties(delivery_mode=2))
                self.settled.update(acknowledged)
                acknowledged.clear()
            if not goes_on():
                return

    def _take(self, method: Any, body: str) -> None:
        if body in self.settled:
            self.again.append(body)
        if self.taken[body] and not method.redelivered:
            self.unmarked.append(body)
        self.taken[body] += 1


class Load:
    """Publishers and consumers at work; `failures` are what ended one of them."""

    def __init__(self, connect: Connect, publishers: list[Publisher], consumers: list[Consumer]) -> None:
        self.publishers, self.consumers = publishers, consumers
        self.failures: list[BaseException] = []
        self._connect = connect
        self._is_producing = self._is_consuming = True
        self._threads = [
            *(
                self._thread(lambda each=each: each.run(connect, lambda: self._is_producing, self._is_ahead))
                for each in publishers
            ),
            *(self._thread(lambda each=each: each.run(connect, lambda: self._is_consuming)) for each in consumers),
        ]

    def _is_ahead(self) -> bool:
        taken = sum(len(each.taken) for each in self.consumers)
        return sum(len(each.confirmed) for each in self.publishers) - taken >= MOST_AHEAD

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as failure:
                self.failures.append(failure)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def end_producing(self) -> None:
        """No more new ones; waits until what was sent is confirmed."""
        self._is_producing = False
        for thread in self._threads[: len(self.publishers)]:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "a publisher still waits for its confirm"

    def stop(self) -> None:
        self._is_producing = self._is_consuming = False
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    @property
    def confirmed(self) -> set[str]:
        return set().union(*(each.confirmed.copy() for each in self.publishers))

    @property
    def sent(self) -> set[str]:
        return set().union(*(each.sent.copy() for each in self.publishers))

    @property
    def unsure(self) -> set[str]:
        return set().union(*(each.unsure for each in self.publishers))

    @property
    def taken(self) -> Counter[str]:
        return sum((Counter(dict(each.taken)) for each in self.consumers), Counter())
