"""Kills of a server and of its uploader, before an S3 server that fails and is slow, but never lies: nothing that was
confirmed is lost, nothing is there twice, and each outage was told."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.cli.app import run
from entrepot.store_client.blocking import StoreLocation, open_store
from tests.support.http.pull import http_json
from tests.support.processes.server import ServerProcess, children_of
from tests.support.seed import seeded
from tests.support.spark.topic_log import TopicWriter, log_of
from tests.support.tiered.cold_doors import settings_of
from tests.support.tiered.faulty_proxy import Fault, FaultyProxy, faulty_proxy
from tests.support.tiered.s3_servers import KEYS, REGION, S3Server
from tests.support.waiting import wait_until

TOPIC, QUEUES = "factory", 3
TURNS = int(os.environ.get("ENTREPOT_TEST_TIER_KILL_TURNS", "14"))
"""Turns, each with messages and one kill or outage."""
BODY = 1_500
"""Least bytes of a body: files of the log fill soon, and go."""
LONG_SECONDS = 120.0


class Publisher:
    """Appends numbered bodies, and remembers those that were confirmed.  What was refused is not sent again: it may be
    there, once."""

    def __init__(self, server: ServerProcess, random: Random) -> None:
        self.confirmed: set[bytes] = set()
        self.sent = 0
        self._server, self._random = server, random
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Publisher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        writer: TopicWriter | None = None
        while not self._is_over.is_set():
            bodies = [b"%08d" % (self.sent + at) + self._random.randbytes(BODY) for at in range(20)]
            self.sent += len(bodies)
            try:
                writer = writer or TopicWriter(self._server.address("broker"))
                writer.append(TOPIC, bodies, sub_topic=f"{TOPIC}/line{self._random.randrange(5)}")
                self.confirmed.update(bodies)
            except EntrepotError:  # the server was killed
                if writer is not None:
                    writer.close()
                writer = None
            self._is_over.wait(0.05)
        if writer is not None:
            writer.close()


@pytest.mark.failure_also("The object store is away")
@pytest.mark.interop
@pytest.mark.timeout(900)
def test_nothing_is_lost_or_doubled_and_outages_are_told(tmp_path: Path, versitygw: S3Server, keys: None) -> None:
    random = seeded("kills before S3")
    url = versitygw.new_url()
    with faulty_proxy(versitygw.port, Random(random.random())) as (proxy, endpoint):
        settings = {
            **settings_of(tmp_path),
            "tier.url": url,
            "tier.endpoint": endpoint,
            "tier.region": REGION,
            "tier.allow_http": "true",
            "tier.iceberg": "true",
            "tier.request_seconds": "3",
            "broker.enabled": "true",
        }
        with ServerProcess(tmp_path, settings) as server:
            fields = {"queues": QUEUES, "retentionSeconds": 1, "tierSeconds": 10**9}
            http_json(server, "PUT", f"/api/v1/topics/{TOPIC}", fields)
            told = kills(server, proxy, random)
            check(server, versitygw, url, told)


def kills(server: ServerProcess, proxy: FaultyProxy, random: Random) -> Publisher:
    """Turns of messages, kills and outages; then all is calm."""
    done: Counter[str] = Counter()
    with Publisher(server, random) as publisher:
        for turn in range(TURNS):
            proxy.rate = random.choice([0.02, 0.1, 0.3])
            count = len(publisher.confirmed)
            wait_until(lambda n=count: len(publisher.confirmed) > n + 200, "messages are confirmed", LONG_SECONDS)  # type: ignore[misc]
            if turn % 3 == 2:  # after failures the next try waits, so that little is uploaded in short turns
                proxy.rate = 0.05
                count = segments(server)
                wait_until(lambda n=count: segments(server) > n, "a segment is uploaded", LONG_SECONDS)  # type: ignore[misc]
            act = [kill_server, kill_uploader, go_away, stop_uploader][turn % 4]
            act(server, proxy, random)
            done[act.__name__] += 1
    proxy.rate = 0.0
    faults = {str(fault): count for fault, count in proxy.faults.items()}
    print(f"{publisher.sent} messages, {len(publisher.confirmed)} confirmed; {dict(done)}")
    print(f"{proxy.requests} requests: {faults}")
    assert min(proxy.faults[fault] for fault in Fault) > 0
    return publisher


def kill_server(server: ServerProcess, proxy: FaultyProxy, random: Random) -> None:
    server.kill()
    server.restart()


def uploader_of(server: ServerProcess) -> int | None:
    for pid in children_of(server.pid):
        if b"entrepot.broker.tiered.upload.process" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    return None


def living_uploader(server: ServerProcess, proxy: FaultyProxy) -> int:
    proxy.rate = min(proxy.rate, 0.1)  # a start asks a dozen times, and has to hear all of the answers
    wait_until(lambda: uploader_of(server) is not None, "there is an uploader", LONG_SECONDS)
    pid = uploader_of(server)
    assert pid is not None
    return pid


def kill_uploader(server: ServerProcess, proxy: FaultyProxy, random: Random) -> None:
    os.kill(living_uploader(server, proxy), signal.SIGKILL)


def stop_uploader(server: ServerProcess, proxy: FaultyProxy, random: Random) -> None:
    """It stands still for a while, in the middle of whatever it does."""
    pid = living_uploader(server, proxy)
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + random.uniform(0, 2)
    wait_until(lambda: time.monotonic() > until, "it has stood still")
    os.kill(pid, signal.SIGCONT)


def go_away(server: ServerProcess, proxy: FaultyProxy, random: Random) -> None:
    """The store is away until that is told."""
    proxy.is_away = True
    try:
        wait_until(lambda: is_told(server), "the outage is told", LONG_SECONDS)
    finally:
        proxy.is_away = False


def is_told(server: ServerProcess) -> bool:
    [topic] = tiering(server)
    return bool(topic["problem"])


def tiering(server: ServerProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http_json(server, "GET", "/api/v1/tiering")["value"]
    return found


def segments(server: ServerProcess) -> int:
    return sum(each["segments"] for each in tiering(server))


def is_cold(server: ServerProcess) -> bool:
    return all(not each["problem"] and not each["lagMessages"] for each in tiering(server))


def check(server: ServerProcess, versity: S3Server, url: str, publisher: Publisher) -> None:
    """All is uploaded in the end; through the broker and in the table each message is once."""
    wait_until(lambda: is_cold(server), "all is uploaded", LONG_SECONDS)
    with closing(open_store(StoreLocation(brokers=(server.address("broker"),)))) as store:
        log = log_of(store, [TOPIC])
        ends = {bounds.queue_id: bounds.max_offset for bounds in store.bounds(TOPIC)}
    places = Counter((queue_id, offset) for _, queue_id, offset, _ in log)
    assert max(places.values()) == 1 and len(log) == sum(ends.values()), "each offset is there once"
    bodies = Counter(body for *_, body in log)
    assert max(bodies.values()) == 1, "nothing is there twice"
    assert not publisher.confirmed - bodies.keys(), "nothing that was confirmed is lost"
    first = min(int(path.name) for path in (server.data_dir / "commitlog").iterdir() if path.name.isdigit())
    assert first > 0, "the disk has let go of some of them"
    [topic] = tiering(server)
    asked = {"AWS_ENDPOINT_URL": versity.endpoint, "AWS_REGION": REGION, "AWS_ALLOW_HTTP": "true", **KEYS}
    table = DeltaTable(f"{url}/{topic['table']}", storage_options=asked)
    rows = table.to_pyarrow_table(columns=["queue_id", "queue_offset"])
    assert rows.num_rows == len(log) == rows.group_by(["queue_id", "queue_offset"]).aggregate([]).num_rows
    print(f"{len(log)} messages in {topic['segments']} segments, the log begins at {first}")
    options = ["--url", url, "--endpoint", versity.endpoint, "--region", REGION, "--allow-http", "--full"]
    assert run(["tier", "verify", *options]) == 0
