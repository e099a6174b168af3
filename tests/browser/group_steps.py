"""A shop whose groups fall behind and give messages up, by real doors; and steps of the tests of its pages."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx2
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from playwright.sync_api import Locator, Page, expect

from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.headers import Credentials
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.http.client import http_client
from tests.support.processes.server import Process
from tests.support.rocketmq.client import GrpcClient
from tests.support.waiting import wait_until

ROOT: Final = ("root", "correct horse battery")
TILL: Final = ("till", "correct horse battery")
"""A user without rights."""
SIGNING: Final = Credentials("signer", "a-signing-secret")
SETTINGS: Final = {
    "security.initial_admin": ROOT[0],
    "security.initial_admin_password": ROOT[1],
    **CHEAP_FLAGS,
}
HOSTILE: Final = "<img src=x>\u202egnp"
HOSTILE_SHOWN: Final = "<img src=x>U+202Egnp"
BATCH: Final = "application/cloudevents-batch+json"
DEAD: Final = 5
"""Dead letters of billing: three were rejected, of the others every attempt failed."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def client_of(server: Process, user: tuple[str, str] = ROOT) -> httpx2.Client:
    return http_client(f"http://127.0.0.1:{server.port('http')}", auth=user)


def event(number: int | str, **members: object) -> dict[str, object]:
    return {"specversion": "1.0", "id": str(number), "source": "/shop", "type": "order", **members}


def publish(root: httpx2.Client, topic: str, *events: dict[str, object], below: str = "") -> None:
    answer = root.post(f"{below}/topics/{topic}:publish", json=list(events), headers={"content-type": BATCH})
    assert answer.status_code == 200, answer.text


def receive(root: httpx2.Client, topic: str, group: str, most: int = 100) -> list[dict[str, Any]]:
    path = f"/topics/{topic}/eventsubscriptions/{group}:receive"
    answer = root.post(path, params={"maxEvents": most, "maxWaitTime": 0})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["value"]
    return found


def settle(root: httpx2.Client, verb: str, topic: str, group: str, received: list[dict[str, Any]]) -> None:
    tokens = [each["brokerProperties"]["lockToken"] for each in received]
    answer = root.post(f"/topics/{topic}/eventsubscriptions/{group}:{verb}", json={"lockTokens": tokens})
    assert answer.json()["failedLockTokens"] == [], answer.text


def make(root: httpx2.Client, path: str, **body: object) -> None:
    assert root.put(f"/api/v1/{path}", json=body).is_success


def fill(root: httpx2.Client, server: Process) -> None:
    """What the pages tell of."""
    make(root, "users/till", password=TILL[1])
    make(root, "users/signer", password=ROOT[1], super=True, signingSecret=SIGNING.secret)
    fall_behind(root)
    give_up(root, "billing")
    keep(server, {f"plant/{number}": b"%d" % number for number in range(3)} | {f"shop/{HOSTILE}": b"\x00\xff\x01"})
    schedule(root, "reminders", 1, 2, HOSTILE)
    prepare(server, "payments")


def fall_behind(root: httpx2.Client, group: str = "stock", topic: str = "orders-in") -> None:
    """A group with seven of ten settled, and one in flight."""
    make(root, f"topics/{topic}", queues=1)
    make(root, f"groups/{group}")
    publish(root, topic, *map(event, range(10)))
    settle(root, "acknowledge", topic, group, receive(root, topic, group, 7))
    assert len(receive(root, topic, group, 1)) == 1


def give_up(root: httpx2.Client, group: str) -> None:
    """DEAD dead letters of two reasons; a name and the bytes of one are hostile."""
    topic = f"of-{group}"
    make(root, f"topics/{topic}", queues=1)
    make(root, f"groups/{group}", maxAttempts=1, retry={"kind": "immediate"})
    events = [event(HOSTILE, data={"text": HOSTILE}), *(event(number, data={"n": number}) for number in range(1, DEAD))]
    publish(root, topic, *events)
    received = receive(root, topic, group)
    settle(root, "reject", topic, group, received[:3])
    settle(root, "release", topic, group, received[3:])
    wait_until(lambda: len(letters(root, group)) == DEAD, "all are dead")


def letters(root: httpx2.Client, group: str) -> list[dict[str, Any]]:
    answer = root.get(f"/api/v1/groups/{group}/dead-letters")
    return answer.json()["value"] if answer.is_success else []


def keep(server: Process, bodies: dict[str, bytes]) -> None:
    """Retained messages, by MQTT."""
    client = paho.Client(CallbackAPIVersion.VERSION2, "keeper", protocol=paho.MQTTv5)
    client.username_pw_set(*ROOT)
    client.connect("127.0.0.1", server.port("mqtt"))
    client.loop_start()
    for name, body in bodies.items():
        client.publish(name, body, 1, retain=True).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


def schedule(root: httpx2.Client, topic: str, *numbers: int | str) -> None:
    at = (datetime.now(UTC) + timedelta(hours=2)).isoformat(timespec="milliseconds")
    publish(root, topic, *(event(number, deliverytime=at) for number in numbers))


def prepare(server: Process, topic: str) -> None:
    """A half message, by RocketMQ."""
    with GrpcClient(server.address("grpc"), SIGNING, now_ms=now_ms()) as client:
        with client_of(server) as root:
            make(root, f"topics/{topic}", queues=1)
        [entry] = client.send(client.message(topic, b"half", message_type=v2.TRANSACTION)).entries
        assert entry.status.code == v2.OK, entry.status


# -- steps -------------------------------------------------------------------------------------------------------------


def log_in(page: Page, user: tuple[str, str] = ROOT) -> Page:
    page.get_by_label("User").fill(user[0])
    page.get_by_label("Password").fill(user[1])
    page.get_by_role("button", name="Log in", exact=True).last.click()
    expect(page.locator(".foot")).to_contain_text(user[0])
    settled(page)
    return page


def settled(page: Page) -> None:
    expect(page.locator("main h1")).to_be_visible()
    if "#/components" not in page.url:  # the sheet shows how waiting looks
        expect(page.locator("[aria-busy=true]")).to_have_count(0)


def row(page: Page, region: str, text: str) -> Locator:
    return page.get_by_role("group", name=region, exact=True).locator("tbody tr").filter(has_text=text)


def in_audit(root: httpx2.Client) -> dict[str, str]:
    """The newest entries: details by event."""
    entries = root.get("/api/v1/audit", params={"limit": 100}).json()["value"]
    return {f"{each['event']} {each['resource']}": each["detail"] for each in reversed(entries)}
