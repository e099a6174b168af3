"""A server whose topics are wholly cold: no file of its log has a message of them any more."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote
from uuid import uuid4

import pika  # type: ignore[import-untyped]

from entrepot.protocols.mqtt.packets import Publish, Subscription
from entrepot.store_client.embedded import tables_shown
from tests.e2e.http.steps import event
from tests.support.amqp.load import parameters
from tests.support.clock import ManualClock
from tests.support.http.pull import http_json
from tests.support.mqtt.client import RawClient
from tests.support.mqtt.session_client import SessionClient
from tests.support.processes.deployment import ClusterProcesses, Deploy, Deployment
from tests.support.waiting import wait_until

COUNT: Final = 20
"""Messages of the topic `line`: the second half was stored at `Cold.moment` or later."""
LATER: Final = list(range(COUNT // 2, COUNT))
ALL: Final = list(range(COUNT))
LETTERS: Final = 4
TIERED: Final = {"retentionSeconds": 1, "tierSeconds": 365 * 86_400}
_MIB: Final = 1 << 20
_FILLER: Final = bytes(256 << 10)


def settings_of(folder: Path) -> dict[str, str]:
    """Of a server with a tier in a folder, whose log is in small files that go soon."""
    return {
        "tier.url": folder.as_uri(),
        "tier.max_age_seconds": "0.2",
        "tier.requests_per_hour": "1000000",
        "store.retention_interval_seconds": "0.2",
        "store.segment_size_bytes": str(_MIB),
        "store.preallocate_bytes": str(_MIB),
        "store.reserve_bytes": str(_MIB // 16),
        "webhooks.allow_http": "true",
        "webhooks.allowed_networks": '["127.0.0.0/8"]',
    }


@dataclass(slots=True)
class Cold:
    """`folder`: the object store.  `moment`: a time in epoch seconds, see `COUNT`.  `held`: what the session `holder`
    was sent and did not acknowledge."""

    server: Deployment
    folder: Path
    moment: int = 0
    held: list[Publish] = field(default_factory=list)

    # -- what is there -----------------------------------------------------------------------------------------------

    def put_topic(self, name: str, **fields: object) -> None:
        http_json(self.server, "PUT", f"/api/v1/topics/{quote(name, safe='')}", fields)

    def put_group(self, name: str, **fields: object) -> None:
        http_json(self.server, "PUT", f"/api/v1/groups/{name}", fields)

    def publish_line(self) -> None:
        """Numbered events, in two halves with a whole second between them."""
        for half in (range(COUNT // 2), LATER):
            self.moment = int(time.time()) + 1
            if half is LATER:
                wait_until(lambda: time.time() >= self.moment, "the next second")
            self.publish("line", *half)

    def publish(self, topic: str, *numbers: int) -> None:
        """Events whose data are their numbers, below three names and in several queues."""
        events = [event(n, data=n, subject=f"s{n % 3}", partitionkey=str(n % 5)) for n in numbers]
        headers = {"content-type": "application/cloudevents-batch+json"}
        assert http_json(self.server, "POST", f"/topics/{topic}:publish", events, headers) == {}

    def declare_queue(self, name: str, *keys: str, kind: str = "quorum") -> None:
        """A queue of AMQP whose topic keeps history, and is tiered."""
        with pika.BlockingConnection(parameters(self.server.port("amqp"))) as connection:
            channel = connection.channel()
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
            for key in keys:
                channel.queue_bind(name, "amq.topic", key)
        self.put_topic(f"%AMQP%{name}", cleanup="DELETE", **TIERED)

    def leave_session(self, client_id: str, *filters: str, take: int = 0) -> list[Publish]:
        """A session that subscribes and goes away; returns what it was sent and does not acknowledge."""
        with SessionClient(self.server.port("mqtt"), client_id) as client:
            client.open()
            client.subscribe_to(*(Subscription(each, 1) for each in filters))
            if not take:
                return []
            self.publish("held", *range(take))
            return client.expect_deliveries(take)

    # -- until it is cold --------------------------------------------------------------------------------------------

    def logs(self) -> list[Path]:
        """The folders of the logs."""
        if isinstance(self.server, ClusterProcesses):
            return [broker.data_dir / "commitlog" for broker in self.server.brokers]
        return [self.server.data_dir / "commitlog"]

    def freeze(self) -> None:
        """Have every file of the log go that is there now, with all that was published: it is in the tables alone."""
        before = {log: max(_files(log)) for log in self.logs()}
        self.put_topic("filler", retentionSeconds=1)
        with RawClient(self.server.port("mqtt")) as client:
            client.connect(f"filler-{uuid4().hex}")
            for number in range(12 * len(before)):
                assert client.publish(f"filler/{number}", _FILLER).reason in (0, 0x10)
        wait_until(
            lambda: all(min(_files(log)) > end for log, end in before.items()),
            lambda: f"{[_files(log) for log in before]} go beyond {before}: {self.server.log_text()[-3000:]}",
        )

    @contextmanager
    def without(self, topic: str) -> Iterator[None]:
        """Have the object store lose the messages of a topic, and find them again."""
        found = [path for path in (self.folder / topic).rglob("*.parquet") if "_delta_log" not in path.parts]
        assert found
        for path in found:
            path.rename(path.with_suffix(".away"))
        yield
        for path in found:
            path.with_suffix(".away").rename(path)

    def rows(self) -> dict[str, int]:
        """Messages in the object store, by topic."""
        found: dict[str, int] = {}
        for table in tables_shown(self.folder.as_uri(), {}, ManualClock()):
            found[table.topic] = found.get(table.topic, 0) + table.rows
        return found


def _files(log: Path) -> list[int]:
    """Where the files of a log begin."""
    return sorted(int(path.name) for path in log.iterdir() if path.name.isdecimal())


def serving_cold(deploy: Deploy, directory: Path) -> Cold:
    """A server that is not started yet."""
    folder = directory / "cold"
    return Cold(deploy(directory, settings_of(folder)), folder)


def number_of(data: bytes | str) -> int:
    """The number of an event of `Cold.publish`."""
    found = json.loads(data)
    assert isinstance(found, int)
    return found
