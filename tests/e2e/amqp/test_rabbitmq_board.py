"""RabbitMQ's board for Grafana, by its queries: Prometheus scrapes a server that is used, and each panel has rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pika  # type: ignore[import-untyped]
import pytest

from tests.e2e.amqp import rabbitmq_board as board
from tests.e2e.amqp.test_amqp_prometheus_names import text
from tests.support.amqp.management import BOTH, Managed, running
from tests.support.processes.prometheus import Prometheus
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.interop


@pytest.fixture(params=BOTH)
def managed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Managed]:
    """A server of the test's own: RabbitMQ's sums shrink for some seconds after channels have gone."""
    (tmp_path / "server").mkdir()
    with running(request.param, tmp_path / "server") as server:
        yield server


@pytest.fixture
def prometheus(managed: Managed, tmp_path: Path) -> Iterator[Prometheus]:
    host, _, path = managed.metrics.removeprefix("http://").partition("/")
    job = {
        "job_name": "rabbitmq",
        "metrics_path": f"/{path}",
        "static_configs": [{"targets": [host]}],
        **({"basic_auth": {"username": "guest", "password": "guest"}} if managed.is_ours else {}),
    }
    with Prometheus(tmp_path, [job]) as scraping:
        yield scraping


class Use:
    """Clients that do everything that the board shows; each call once."""

    def __init__(self, managed: Managed, connection: pika.BlockingConnection) -> None:
        self._managed = managed
        self._names = [f"b{uuid4().hex[:10]}" for _ in range(3)]
        self._channel = connection.channel()
        self._connection = connection
        self._channel.confirm_delivery()
        self._channel.basic_qos(prefetch_count=1)
        self._manual, self._auto, self._polled = self._names
        for name in self._names:
            self._channel.queue_declare(name, durable=True)
        self._channel.basic_consume(self._manual, self._take)
        self._channel.basic_consume(self._auto, lambda *_: None, auto_ack=True)
        self._held: list[int] = []
        self._is_odd = False

    def _take(self, channel: object, method: pika.spec.Basic.Deliver, *_: object) -> None:
        self._held.append(method.delivery_tag)

    def __call__(self) -> None:
        channel = self._channel
        for name in (self._manual, self._manual, self._auto, self._polled, self._polled):
            channel.basic_publish("", name, b"x" * 100)
        channel.basic_get(self._polled, auto_ack=True)
        channel.basic_ack(channel.basic_get(self._polled)[0].delivery_tag)
        channel.basic_get(self._polled)
        channel.basic_publish("", "nowhere", b"dropped")
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "nowhere", b"returned", mandatory=True)
        self._connection.process_data_events(0)
        for tag in self._held:
            self._is_odd = not self._is_odd
            channel.basic_nack(tag) if self._is_odd else channel.basic_ack(tag)
        self._held.clear()
        with self._managed.amqp() as another:
            further = another.channel()
            name = further.queue_declare("", exclusive=True).method.queue
            further.queue_delete(name)
            further.close()

    def end(self) -> None:
        for name in self._names:
            self._channel.queue_delete(name)


def test_each_panel_of_the_board_has_rows(managed: Managed, prometheus: Prometheus) -> None:
    [identity] = [line for line in text(managed).splitlines() if line.startswith("rabbitmq_identity_info{")]
    cluster = identity.split('rabbitmq_cluster="')[1].split('"')[0]
    labels = "" if managed.is_ours else ', rabbitmq_endpoint="aggregated"'  # RabbitMQ 3.10 has not got it yet

    def ask(query: str) -> list[float]:
        return prometheus.ask(query.replace("CLUSTER", cluster).replace(labels or "\0", ""))

    with managed.amqp() as connection:
        use, left = Use(managed, connection), dict(board.FILLED)
        if not managed.is_ours:
            del left["Publishers"]  # RabbitMQ 3.10 takes one off for each channel that ends without a publish

        def is_filled() -> bool:
            use()
            for panel, query in list(left.items()):
                if (found := ask(query)) and max(found) > 0:
                    del left[panel]
            return not left

        wait_until(is_filled, lambda: f"{sorted(left)}: {prometheus.targets()}", PATIENCE_SECONDS)
        assert all(ask(query) for query in board.UNCONFIRMED.values())
        if managed.is_ours:
            assert {panel: ask(query) for panel, query in board.EMPTY.items()} == {panel: [] for panel in board.EMPTY}
        use.end()
