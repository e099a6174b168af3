"""A gateway dies: the queues that lived by it go, and its last consumers count no more."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.load import parameters
from tests.support.processes.deployment import ClusterProcesses, GatewayProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.timeout(300), pytest.mark.soak]

MOST_SECONDS = 25.0
"""Its lease of 8 seconds, that of the sweeper, which it may have been, and the looks of the others."""


def _connected(gateway: GatewayProcess) -> Any:
    return pika.BlockingConnection(parameters(gateway.port("amqp"))).channel()


def _is_gone(gateway: GatewayProcess, queue: str) -> bool:
    channel = _connected(gateway)
    try:
        channel.queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker as closed:
        return bool(closed.reply_code == 404)
    finally:
        channel.connection.close()
    return False


def test_queues_of_a_dead_gateway_go(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, gateways=2) as cluster:
        dying, left = cluster.gateways
        there, here = _connected(left), _connected(dying)
        there.queue_declare("durable", durable=True, auto_delete=True)
        there.queue_declare("events", auto_delete=True)  # as Celery's queues of events and remote control
        there.queue_declare("both", durable=True, auto_delete=True)
        there.queue_declare("never", durable=True, auto_delete=True)
        here.queue_declare("exclusive", exclusive=True)
        here.queue_declare("pidbox", auto_delete=True)
        for queue in ("durable", "events", "both", "exclusive", "pidbox"):
            here.basic_consume(queue, lambda *_: None)
        there.basic_consume("both", lambda *_: None)
        wait_until(lambda: there.queue_declare("events", passive=True).method.consumer_count == 1, "it is known there")
        dying.kill()
        began = time.monotonic()
        names = ("durable", "events", "exclusive", "pidbox")
        wait_until(lambda: all(_is_gone(left, name) for name in names), "they go", 3 * PATIENCE_SECONDS)
        took = time.monotonic() - began
        assert took < MOST_SECONDS, took
        assert not _is_gone(left, "both") and not _is_gone(left, "never")
