"""A broker is drained under load and leaves: nothing is refused, nothing is lost, and what it kept moves."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx2
import pytest

from tests.support.processes.deployment import ClusterProcesses
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

HEADERS = {"ce-specversion": "1.0", "ce-type": "t", "ce-source": "/s", "content-type": "text/plain"}
GROUP = "/topics/orders/eventsubscriptions/workers"

pytestmark = pytest.mark.xdist_group("cluster")


class Load:
    """Publishes without a key, and consumes, until it is stopped."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop, self._is_all_sent = threading.Event(), threading.Event()
        self.sent: list[str] = []
        self.refused: list[str] = []
        self.consumed: set[str] = set()
        self._threads = [threading.Thread(target=work) for work in (self._publish, self._consume)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        publishing, consuming = self._threads
        self._stop.set()
        publishing.join(PATIENCE_SECONDS)
        assert not publishing.is_alive()
        self._is_all_sent.set()
        consuming.join(3 * PATIENCE_SECONDS)  # what a pop at the leaving broker had claimed comes when its lease ends

    def _publish(self) -> None:
        with httpx2.Client(base_url=self._url, trust_env=False, timeout=PATIENCE_SECONDS) as client:
            while not self._stop.is_set():
                name = str(len(self.sent))
                answer = client.post("/topics/orders:publish", headers={**HEADERS, "ce-id": name}, content=name)
                if answer.status_code != 200:
                    self.refused.append(answer.text)
                self.sent.append(name)

    def _consume(self) -> None:
        with httpx2.Client(base_url=self._url, trust_env=False, timeout=PATIENCE_SECONDS) as client:
            while not self._is_all_sent.is_set() or len(self.consumed) < len(self.sent):
                found = client.post(f"{GROUP}:receive?maxWaitTime=1&maxEvents=20").json()["value"]
                if not found:
                    continue
                tokens = [each["brokerProperties"]["lockToken"] for each in found]
                done = client.post(f"{GROUP}:acknowledge", json={"lockTokens": tokens}).json()
                assert done["succeededLockTokens"] == tokens
                self.consumed |= {each["event"]["id"] for each in found}


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["broker-0", "broker-1"])
def test_a_broker_leaves_under_load(tmp_path: Path, name: str) -> None:
    """broker-0 keeps the key-values, and hands them over."""
    with ClusterProcesses(tmp_path) as cluster:
        url = f"http://{cluster.gateways[0].address('http')}"
        leaving = next(broker for broker in cluster.brokers if broker.broker_name == name)
        with httpx2.Client(base_url=url, trust_env=False, timeout=PATIENCE_SECONDS) as client:

            def status() -> dict[str, object]:
                found = client.get("/api/v1/brokers").json()["value"]
                return next((broker for broker in found if broker["name"] == name), {})

            wait_until(
                lambda: any(b["keepsKeyValues"] for b in client.get("/api/v1/brokers").json()["value"]), "a keeper"
            )
            for topic in ("orders", "other"):
                assert client.put(f"/api/v1/topics/{topic}", json={}).status_code in (200, 201)
            member = client.post("/api/v1/groups/pullers/topics/other/members/one", json={"leaseSeconds": 600}).json()
            load = Load(url)
            load.start()
            try:
                wait_until(lambda: len(load.consumed) > 50, "messages are consumed")
                assert client.delete(f"/api/v1/brokers/{name}").status_code == 409, "it is not even draining"
                assert client.put(f"/api/v1/brokers/{name}", json={"isDraining": True}).json()["isDraining"]
                before = len(load.sent)
                wait_until(lambda: len(load.sent) > before + 50, "messages go on")
                wait_until(lambda: client.delete(f"/api/v1/brokers/{name}").status_code == 204, "it is empty")
                assert leaving.wait() == 0, leaving.log_text()
                before = len(load.sent)
                wait_until(lambda: len(load.sent) > before + 50, "messages go on")
            finally:
                load.stop()
            tell(
                f"{name} leaves under load",
                messages=len(load.sent),
                lost=len(set(load.sent) - load.consumed),
                phantom=len(load.consumed - set(load.sent)),
                faults=1,
            )
            assert load.refused == []
            assert load.consumed == set(load.sent)
            assert status() == {}, "it is forgotten"
            members = client.get("/api/v1/groups/pullers/topics/other/members").json()
            assert "one" in str(members), (members, member)


def test_the_last_broker_cannot_be_drained(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, brokers=1) as cluster:
        url = f"http://{cluster.gateways[0].address('http')}"
        with httpx2.Client(base_url=url, trust_env=False, timeout=PATIENCE_SECONDS) as client:
            answer = client.put("/api/v1/brokers/broker-0", json={"isDraining": True})
            assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (409, "precondition-failed")
            assert client.put("/api/v1/brokers/no", json={"isDraining": True}).status_code == 400
