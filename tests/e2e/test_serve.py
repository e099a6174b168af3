"""The server as a process, or as several: ports, ready file, restart, draining, both doors over one log."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.support.processes.deployment import Deploy, Deployment
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

DRAIN_SECONDS = int(4 * PATIENCE_SECONDS)
"""What a stop may take: so long that one that waits for it in vain does not end in time on any machine."""
DRAINS_LONG = {"server.drain_seconds": str(DRAIN_SECONDS)}
EVENT_HEADERS = {"ce-specversion": "1.0", "ce-source": "/test", "ce-type": "t", "content-type": "application/json"}


def call(server: Deployment, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    """One request; (status, decoded answer)."""
    connection = http.client.HTTPConnection(server.ports["http"], timeout=PATIENCE_SECONDS)
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request(method, path, data, {"content-type": "application/json", **(headers or {})})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content) if content else None


def publish(server: Deployment, topic: str, event_id: str, body: Any, subject: str | None = None) -> int:
    headers = {**EVENT_HEADERS, "ce-id": event_id, **({"ce-subject": subject} if subject else {})}
    return call(server, "POST", f"/topics/{topic}:publish", body, headers)[0]


def receive(server: Deployment, topic: str, group: str, count: int = 10, wait: int = 0) -> list[dict[str, Any]]:
    path = f"/topics/{topic}/eventsubscriptions/{group}:receive?maxEvents={count}&maxWaitTime={wait}"
    status, answer = call(server, "POST", path)
    assert status == 200, answer
    return answer["value"]


def tokens_of(items: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {"lockTokens": [item["brokerProperties"]["lockToken"] for item in items]}


def test_a_publish_of_either_door_reaches_the_subscribers_of_the_other(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(tmp_path) as server:
        host, _, port = server.ports["mqtt"].rpartition(":")
        got: list[tuple[str, bytes]] = []
        subscribed, arrived = threading.Event(), threading.Event()

        def on_message(client: paho.Client, userdata: Any, message: paho.MQTTMessage) -> None:
            got.append((message.topic, bytes(message.payload)))
            if len(got) == 2:
                arrived.set()

        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.on_message = on_message
        client.on_subscribe = lambda *rest: subscribed.set()
        client.connect(host, int(port))
        client.loop_start()
        client.subscribe("factory/#", qos=1)
        assert subscribed.wait(PATIENCE_SECONDS)
        assert publish(server, "factory", "e1", {"temp": 21}, "line1/temp") == 200
        info = client.publish("factory/line2/temp", b'{"temp":22}', qos=1)
        info.wait_for_publish(PATIENCE_SECONDS)
        assert arrived.wait(PATIENCE_SECONDS)
        client.disconnect()
        client.loop_stop()
        assert sorted(got) == [("factory/line1/temp", b'{"temp": 21}'), ("factory/line2/temp", b'{"temp":22}')]
        events = {item["event"]["subject"]: item["event"] for item in receive(server, "factory", "g")}
        assert events["line1/temp"]["id"] == "e1"
        assert events["line2/temp"]["data"] == {"temp": 22}
        assert events["line2/temp"]["source"] == "/default/factory"


def test_deliveries_and_acknowledgements_survive_a_kill(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(tmp_path) as server:
        for number in range(20):
            assert publish(server, "jobs", str(number), {"n": number}) == 200
        first = receive(server, "jobs", "workers", 10)
        assert len(first) == 10
        settled, kept = tokens_of(first[:5]), tokens_of(first[5:])
        path = "/topics/jobs/eventsubscriptions/workers:acknowledge"
        assert len(call(server, "POST", path, settled)[1]["succeededLockTokens"]) == 5
        server.kill()
        server.restart()
        rest = receive(server, "jobs", "workers", 100)
        assert {item["brokerProperties"]["deliveryCount"] for item in rest} == {1}
        ids = [{item["event"]["id"] for item in part} for part in (first, rest)]
        assert ids[0] | ids[1] == {str(n) for n in range(20)}
        assert not ids[0] & ids[1]
        outcome = call(server, "POST", path, kept)[1]
        assert len(outcome["succeededLockTokens"]) == 5, "handles from before the kill settle what was in flight"
        again = call(server, "POST", path, settled)[1]
        assert len(again["failedLockTokens"]) == 5
        status, group = call(server, "GET", "/api/v1/groups/workers")
        assert status == 200
        assert sum(queue["lag"] for queue in group["progress"]) == 10


def test_rejected_events_are_read_from_the_dead_letter_topic(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(tmp_path) as server:
        publish(server, "orders", "bad", {"n": 1})
        items = receive(server, "orders", "workers")
        call(server, "POST", "/topics/orders/eventsubscriptions/workers:reject", tokens_of(items))
        dead = receive(server, "%25DLQ%25workers", "ops")
        assert [item["event"]["id"] for item in dead] == ["bad"]
        assert receive(server, "orders", "workers") == []


def test_sigterm_answers_long_polls_empty_and_exits_with_0(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(tmp_path, DRAINS_LONG) as server:
        call(server, "PUT", "/api/v1/topics/quiet", {})
        answers: list[Any] = []
        path = "/topics/quiet/eventsubscriptions/g:receive?maxWaitTime=60"
        waiting = threading.Thread(target=lambda: answers.append(call(server, "POST", path)))
        waiting.start()
        wait_until(lambda: call(server, "GET", "/api/v1/groups/g")[0] == 200, "it waits for events")
        started = time.monotonic()
        assert server.stop() == 0
        waiting.join(PATIENCE_SECONDS)
        assert answers == [(200, {"value": []})]
        assert time.monotonic() - started < DRAIN_SECONDS
        assert not server.ready_file.exists()


def test_a_second_process_is_kept_out_of_the_data_directory_by_name(tmp_path: Path) -> None:
    """Serve only: it is about the data directory of `serve`; that of a broker is tried in tests/cluster."""
    with ServerProcess(tmp_path) as server:
        second = ServerProcess(tmp_path / "second")
        second.directory.mkdir()
        second.data_dir = server.data_dir
        with pytest.raises(AssertionError, match=f"in use by process {server.pid}"):
            second.start()


@pytest.mark.failure(
    "The process that syncs the store's files is killed",
    group="A broker without replicas",
    does="The server confirms nothing more and ends with 1. It starts again as usual.",
    lost="nothing confirmed",
    told="log: the sync process",
)
def test_the_store_stops_when_its_sync_process_dies(tmp_path: Path) -> None:
    """Contract row 6: without the flusher nothing can be confirmed, so the server says so and ends.

    Serve only: a gateway lives on without a broker.
    """
    with ServerProcess(tmp_path) as server:
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        assert len(children) == 1
        subprocess.run(["kill", f"-{signal.SIGKILL.value}", children[0]], check=True)
        assert server.wait() == 1
        assert "the sync process" in server.log_text()
        server.restart()
        assert publish(server, "t", "1", {}) == 200


@pytest.mark.interop
def test_curl_publishes_in_binary_mode(deploy: Deploy, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed: make peers installs it")
    with deploy(tmp_path) as server:
        url = f"http://{server.ports['http']}/topics/t:publish"
        headers = [
            part for name in ("ce-specversion: 1.0", "ce-id: 1", "ce-type: t", "ce-source: /c") for part in ("-H", name)
        ]
        done = subprocess.run(
            [curl, "-sSf", "-d", "{}", "-H", "content-type: application/json", *headers, url], check=False
        )
        assert done.returncode == 0
        assert len(receive(server, "t", "g")) == 1


def test_streams_of_events_do_not_hold_up_a_stop(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, DRAINS_LONG) as server:
        url = f"http://127.0.0.1:{server.port('http')}"
        event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
        assert (
            httpx2.post(f"{url}/topics/t:publish", headers=event, trust_env=False, timeout=PATIENCE_SECONDS).status_code
            == 200
        )
        with httpx2.stream(
            "GET", f"{url}/topics/t/events?start=earliest", trust_env=False, timeout=PATIENCE_SECONDS
        ) as stream:
            lines = stream.iter_lines()
            assert any(line.startswith("data: ") for line in lines)
            begun = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - begun < DRAIN_SECONDS
