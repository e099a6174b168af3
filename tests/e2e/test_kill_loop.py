"""Contract row 3: a real server killed again and again under load of every door; nothing confirmed is lost.

Serve only: in a cluster it is brokers that are killed, one after the other (tests/cluster).
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.support.processes.server import ServerProcess
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

ROUNDS = 6


class Load:
    """Producers and consumers that note what was sent, confirmed, received and acknowledged."""

    def __init__(self, http_address: str, mqtt: str) -> None:
        self.http = f"http://{http_address}"
        self.mqtt_host, self.mqtt_port = mqtt.split(":")
        self.sent: set[str] = set()
        self.confirmed: set[str] = set()
        self.received: dict[str, int] = {}
        self.acknowledged: set[str] = set()
        self.returned_after_acknowledgement: set[str] = set()
        self.stop_producing = threading.Event()
        self.stop_consuming = threading.Event()
        self._lock = threading.Lock()
        self._ids: dict[int, str] = {}
        self._early: set[int] = set()

    @property
    def missing(self) -> set[str]:
        """Confirmed, and not received so far."""
        return self.confirmed - self.received.keys()

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        request = urllib.request.Request(self.http + path, body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.loads(answer.read() or b"{}")

    def publish_http(self) -> None:
        number = 0
        while not self.stop_producing.is_set():
            name = f"http-{number}"
            number += 1
            self.sent.add(name)
            headers = {
                "ce-specversion": "1.0",
                "ce-id": name,
                "ce-source": "/test",
                "ce-type": "t",
                "content-type": "application/json",
            }
            try:
                self.post("/topics/load:publish", json.dumps({"id": name}).encode(), headers)
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.02)  # the server is away: not a synchronisation, a pause between tries
                continue
            self.confirmed.add(name)

    def publish_mqtt(self) -> None:
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="loader")
        client.reconnect_delay_set(1, 1)
        client.max_queued_messages_set(200)
        client.on_publish = lambda c, u, mid, reason, properties: self._confirm_mqtt(mid)
        client.connect_async(self.mqtt_host, int(self.mqtt_port))
        client.loop_start()
        number = 0
        while not self.stop_producing.is_set():
            name = f"mqtt-{number}"
            self.sent.add(name)
            info = client.publish(f"load/device{number % 5}", json.dumps({"id": name}), qos=1)
            if info.rc in (paho.MQTT_ERR_SUCCESS, paho.MQTT_ERR_NO_CONN):
                number += 1
                with self._lock:  # not around publish: paho has locks of its own, which its callbacks hold
                    if info.mid in self._early:
                        self._early.discard(info.mid)
                        self.confirmed.add(name)
                    else:
                        self._ids[info.mid] = name
            time.sleep(0.002 if info.rc == paho.MQTT_ERR_SUCCESS else 0.02)
        wait_until(lambda: not self._ids, "what was sent is confirmed")  # it is sent again until it is
        client.disconnect()
        client.loop_stop()

    def _confirm_mqtt(self, mid: int) -> None:
        with self._lock:
            name = self._ids.pop(mid, None)
            if name is None:
                self._early.add(mid)  # confirmed before the publisher could note its name
            else:
                self.confirmed.add(name)

    def consume(self) -> None:
        path = "/topics/load/eventsubscriptions/workers"
        while not self.stop_consuming.is_set():
            try:
                answer = self.post(f"{path}:receive?maxEvents=50&maxWaitTime=1", b"", {})
                tokens = {}
                for item in answer["value"]:
                    name = item["event"]["data"]["id"]
                    with self._lock:
                        self.received[name] = self.received.get(name, 0) + 1
                        stored = item["event"]["id"]  # a producer that sent again made another message of one name
                        if stored in self.acknowledged:
                            self.returned_after_acknowledgement.add(stored)
                    tokens[item["brokerProperties"]["lockToken"]] = stored
                if tokens:
                    body = json.dumps({"lockTokens": list(tokens)}).encode()
                    outcome = self.post(f"{path}:acknowledge", body, {"content-type": "application/json"})
                    with self._lock:
                        self.acknowledged.update(tokens[token] for token in outcome["succeededLockTokens"])
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.02)  # the server is away


@pytest.mark.failure_also("The store's process is killed")
@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nothing_confirmed_is_lost_when_the_server_is_killed_again_and_again(tmp_path: Path) -> None:
    rng = seeded()
    settings = {"groups.invisible_seconds": "2", "store.checkpoint_interval_seconds": "1"}
    with ServerProcess(tmp_path, settings=settings) as server:
        load = Load(server.ports["http"], server.ports["mqtt"])
        load.post("/topics/load:publish", b'{"id": "first"}', {**_EVENT, "content-type": "application/json"})
        producers = [threading.Thread(target=work) for work in (load.publish_http, load.publish_mqtt)]
        consumers = [threading.Thread(target=load.consume) for _ in range(3)]
        for thread in (*producers, *consumers):
            thread.start()
        try:
            for _ in range(ROUNDS):
                time.sleep(rng.uniform(0.3, 1.5))  # the moment of the crash is what is random here
                server.kill()
                server.restart()
            load.stop_producing.set()
            ended(producers)  # what is confirmed from now on would be received by nobody
            wait_until(lambda: not load.missing, lambda: _report(load))
        finally:
            load.stop_producing.set()
            load.stop_consuming.set()
            ended((*producers, *consumers))
            tell(
                "one process killed under load",
                rounds=ROUNDS,
                messages=len(load.confirmed),
                lost=len(load.missing),
                phantom=len(load.received.keys() - load.sent - {"first"}),
                duplicated=len(load.returned_after_acknowledgement),
                faults=ROUNDS,
            )
    assert len(load.confirmed) > 100
    assert load.missing == set(), "lost"
    assert load.received.keys() - load.sent - {"first"} == set(), "phantom"
    assert load.returned_after_acknowledgement == set(), "came back after it was acknowledged"


_EVENT = {"ce-specversion": "1.0", "ce-id": "first", "ce-source": "/test", "ce-type": "t"}


def _report(load: Load) -> str:
    missing = sorted(load.missing)
    return f"confirmed {len(load.confirmed)}, received {len(load.received)}, missing {len(missing)}: {missing[:5]}"


def ended(threads: Iterable[threading.Thread]) -> None:
    """Wait until they have ended."""
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
