"""A RocketMQ client that keeps its Telemetry stream open, as SDKs do."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.rocketmq.client import GrpcClient, resource
from tests.support.waiting import PATIENCE_SECONDS

OPEN_SECONDS = 60 * PATIENCE_SECONDS
"""Longest life of a stream: that of a module's tests."""


class OpenTelemetry:
    """The stream of a client that has described itself."""

    def __init__(self, client: GrpcClient, said: v2.Settings) -> None:
        self._said, self._stays = said, threading.Event()
        self._told = client.telemetry(said=self._commands(), seconds=OPEN_SECONDS)
        assert next(self._told).status.code == v2.OK

    def _commands(self) -> Iterator[v2.TelemetryCommand]:
        yield v2.TelemetryCommand(settings=self._said)
        self._stays.wait(OPEN_SECONDS)

    def next(self) -> v2.TelemetryCommand:
        """Wait for the server's next command."""
        return next(self._told)

    def rest(self) -> list[v2.TelemetryCommand]:
        """The commands that came before the end of the stream, which the client has ended."""
        found: list[v2.TelemetryCommand] = []
        with contextlib.suppress(grpc.RpcError):
            found.extend(self._told)
        return found

    def end(self) -> None:
        self._stays.set()
        self._told.cancel()

    def is_ended_by_the_server(self) -> bool:
        """Wait for its end."""
        return list(self._told) == []


@contextmanager
def telemetry(client: GrpcClient, said: v2.Settings) -> Iterator[OpenTelemetry]:
    """An open stream for the length of a block."""
    stream = OpenTelemetry(client, said)
    try:
        yield stream
    finally:
        stream.end()


def push_consumer(group: str, *topics: str) -> v2.Settings:
    """The settings of a push consumer in Java."""
    entries = [
        v2.SubscriptionEntry(topic=resource(topic), expression=v2.FilterExpression(type=v2.TAG, expression="a || b"))
        for topic in topics
    ]
    return v2.Settings(
        client_type=v2.PUSH_CONSUMER,
        user_agent=v2.UA(language=v2.JAVA, version="5.0.8", hostname="host\u202e1"),
        subscription=v2.Subscription(group=resource(group), subscriptions=entries),
    )


def producer(*topics: str) -> v2.Settings:
    return v2.Settings(
        client_type=v2.PRODUCER,
        user_agent=v2.UA(language=v2.PYTHON, version="5.1"),
        publishing=v2.Publishing(topics=[resource(topic) for topic in topics]),
    )
