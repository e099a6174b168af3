"""Publish in the three modes and pull, by plain HTTP, curl and the CloudEvents SDK."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time

import httpx2
import pytest
from cloudevents.core.bindings.http import to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from entrepot.domain.message import Message
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer
from tests.support.waiting import PATIENCE_SECONDS, wait_until

HEADERS = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/line1", "ce-type": "reading"}
BATCH = "application/cloudevents-batch+json; charset=utf-8"


def event(number: int = 1, **members: object) -> dict[str, object]:
    return {"specversion": "1.0", "id": str(number), "source": "/line1", "type": "reading", **members}


def publish(client: httpx2.Client, topic: str, count: int = 1) -> None:
    answer = client.post(
        f"/topics/{topic}:publish",
        content=json.dumps([event(n, data={"n": n}) for n in range(count)]),
        headers={"content-type": BATCH},
    )
    assert (answer.status_code, answer.json()) == (200, {})


def receive(client: httpx2.Client, topic: str, group: str = "g", count: int = 100, wait: float = 0) -> list[dict]:
    answer = client.post(
        f"/topics/{topic}/eventsubscriptions/{group}:receive", params={"maxEvents": count, "maxWaitTime": wait}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["value"]


def tokens(received: list[dict]) -> list[str]:
    return [one["brokerProperties"]["lockToken"] for one in received]


def settle(
    client: httpx2.Client, verb: str, topic: str, group: str, lock_tokens: list[str], **query: str | float
) -> dict:
    answer = client.post(
        f"/topics/{topic}/eventsubscriptions/{group}:{verb}", json={"lockTokens": lock_tokens}, params=query
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_binary_mode(client, topic):
    headers = {**HEADERS, "ce-subject": "line1/temp", "content-type": "application/json"}
    answer = client.post(
        f"/topics/{topic}:publish?api-version=2024-06-01", content=b'{"celsius":21.50}', headers=headers
    )
    assert (answer.status_code, answer.content) == (200, b"{}")
    assert answer.headers["content-type"] == "application/json"
    answer = client.post(f"/topics/{topic}/eventsubscriptions/g:receive?maxWaitTime=0&api-version=2024-06-01")
    assert b'"data":{"celsius":21.50}' in answer.content  # as it was sent
    [received] = answer.json()["value"]
    assert received["brokerProperties"]["deliveryCount"] == 1
    expected = event(subject="line1/temp", datacontenttype="application/json", data={"celsius": 21.5})
    assert received["event"] == expected


def test_structured_mode(client, topic):
    sent = event(subject="ä/b", count=3, flag=True, data=[1, None])
    headers = {"content-type": "application/cloudevents+json"}
    assert client.post(f"/topics/{topic}:publish", content=json.dumps(sent), headers=headers).status_code == 200
    [received] = receive(client, topic)
    assert received["event"] == sent


@pytest.mark.everywhere
def test_batched_mode_keeps_every_event(client, topic):
    publish(client, topic, 100)
    received = receive(client, topic)
    assert sorted(one["event"]["data"]["n"] for one in received) == list(range(100))
    assert settle(client, "acknowledge", topic, "g", tokens(received))["failedLockTokens"] == []
    assert receive(client, topic) == []


def test_an_empty_batch_is_fine(client, topic):
    publish(client, topic, 0)
    assert receive(client, topic) == []


@pytest.mark.interop
def test_curl_publishes_in_binary_mode(server, client, topic):
    command = ["curl", "-sS", "-w", "%{http_code}", f"{server.url}/topics/{topic}:publish"]
    for name, value in {**HEADERS, "content-type": "text/plain"}.items():
        command += ["-H", f"{name}: {value}"]
    done = subprocess.run(
        [*command, "-d", "hello"], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert done.stdout == "{}200"
    assert receive(client, topic)[0]["event"]["data"] == "hello"


@pytest.mark.interop
def test_curl_sends_a_big_body_that_waits_for_continue(server, client, topic, tmp_path):
    (tmp_path / "body").write_bytes(bytes(range(256)) * 8192)
    command = ["curl", "-sS", "--expect100-timeout", "10", f"{server.url}/topics/{topic}:publish"]
    for name, value in {**HEADERS, "content-type": "application/octet-stream", "expect": "100-continue"}.items():
        command += ["-H", f"{name}: {value}"]
    command += ["--data-binary", f"@{tmp_path}/body"]
    assert subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True).stdout == "{}"
    [received] = receive(client, topic)
    assert len(received["event"]["data_base64"]) == (2 << 20) // 3 * 4 + 4


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_the_sdk_makes_and_parses_events(client, topic, mode):
    made = CloudEvent(
        {"id": "1", "source": "/x", "type": "t", "subject": "a b", "datacontenttype": "application/json"}, {"k": [1, 2]}
    )
    message = (to_binary if mode == "binary" else to_structured)(made, JSONFormat())
    headers = {name: str(value) for name, value in message.headers.items()}
    assert client.post(f"/topics/{topic}:publish", content=message.body, headers=headers).status_code == 200
    [received] = receive(client, topic)
    parsed = JSONFormat().read(CloudEvent, json.dumps(received["event"]))
    assert (parsed.get_id(), parsed.get_subject(), parsed.get_data()) == ("1", "a b", {"k": [1, 2]})


def test_a_message_of_another_door_is_an_event(server: HttpServer, client, topic):
    publish(client, topic, 0)
    message = Message(topic=topic, body=b"21.5", sub_topic=f"{topic}/line1", properties=(("unit", "C"),))
    assert server.run(server.parts.sender.send_and_wait([message])) is None
    [received] = receive(client, topic)
    got = received["event"]
    assert (got["type"], got["source"], got["subject"], got["unit"], got["data"]) == (
        "dev.entrepot.message",
        f"/default/{topic}",
        "line1",
        "C",
        21.5,
    )


@pytest.mark.everywhere
def test_released_comes_back_at_once_with_a_raised_count(client, topic):
    publish(client, topic)
    first = tokens(receive(client, topic))
    assert receive(client, topic) == []
    assert settle(client, "release", topic, "g", first)["succeededLockTokens"] == first
    [again] = receive(client, topic)
    assert again["brokerProperties"]["deliveryCount"] == 2


@pytest.mark.everywhere
def test_release_with_a_short_delay_wakes_a_long_poll(client, topic):
    publish(client, topic)
    settle(client, "release", topic, "g", tokens(receive(client, topic)), releaseDelayInSeconds=0.05)
    assert len(receive(client, topic, wait=10)) == 1


def test_an_endless_delay_is_taken(client, topic):
    publish(client, topic)
    held = tokens(receive(client, topic))
    assert settle(client, "release", topic, "g", held, releaseDelayInSeconds="1e300")["succeededLockTokens"] == held
    assert receive(client, topic) == []


@pytest.mark.everywhere
def test_rejected_is_read_from_the_dead_letter_topic(client, topic):
    publish(client, topic)
    group = f"workers-{topic}"
    held = tokens(receive(client, topic, group))
    assert settle(client, "reject", topic, group, held)["succeededLockTokens"] == held
    dead = f"%25DLQ%25{group}"
    [received] = receive(client, dead, "undertaker")
    assert received["event"]["deadlettertopic"] == topic
    assert settle(client, "acknowledge", dead, "undertaker", tokens([received]))["failedLockTokens"] == []


@pytest.mark.everywhere
def test_renewed_lock_stays_valid(client, topic):
    publish(client, topic)
    held = tokens(receive(client, topic))
    assert settle(client, "renewLock", topic, "g", held)["succeededLockTokens"] == held
    assert settle(client, "acknowledge", topic, "g", held)["succeededLockTokens"] == held


@pytest.mark.everywhere
def test_stale_forged_and_foreign_tokens_fail_one_by_one(client, topic):
    publish(client, topic, 2)
    good, other = tokens(receive(client, topic, "g", 2))
    foreign = tokens(receive(client, topic, "h", 1))[0]
    bad = ["", "x", good[:-1] + ("A" if good[-1] != "A" else "B"), foreign, "ü\u0000", "A" * 5000]
    for verb in ("acknowledge", "release", "reject", "renewLock"):
        outcome = settle(client, verb, topic, "g", bad)
        assert outcome["succeededLockTokens"] == []
        assert [one["lockToken"] for one in outcome["failedLockTokens"]] == bad
        assert {one["error"]["code"] for one in outcome["failedLockTokens"]} == {"INVALID_RECEIPT_HANDLE"}
    outcome = settle(client, "acknowledge", topic, "g", [good, "nonsense", other])
    assert outcome["succeededLockTokens"] == [good, other]
    assert len(settle(client, "acknowledge", topic, "g", [good])["failedLockTokens"]) == 1  # stale now
    assert len(settle(client, "acknowledge", "never-seen", "g", [good])["failedLockTokens"]) == 1


@pytest.mark.everywhere
def test_a_long_poll_gets_what_is_published_meanwhile(server: HttpServer, client, topic):
    publish(client, topic, 0)
    received: list[dict] = []
    with http_client(server.url) as other:
        waiting = threading.Thread(target=lambda: received.extend(receive(other, topic, wait=20)))
        before = server.call(lambda: len(server.listener._server.server_state.tasks))
        waiting.start()
        wait_until(
            lambda: server.call(lambda: len(server.listener._server.server_state.tasks)) > before, "the long poll"
        )
        publish(client, topic)
        waiting.join(PATIENCE_SECONDS)
    assert len(received) == 1


@pytest.mark.everywhere
def test_nothing_is_claimed_for_a_client_that_has_gone(server: HttpServer, client, topic):
    publish(client, topic, 0)

    def tasks() -> int:
        return server.call(lambda: len(server.listener._server.server_state.tasks))

    before = tasks()
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        path = f"/topics/{topic}/eventsubscriptions/g:receive?maxWaitTime=100"
        raw.sendall(f"POST {path} HTTP/1.1\r\nhost: [::1]\r\ncontent-length: 0\r\n\r\n".encode())
        wait_until(lambda: tasks() > before, "the long poll")
    wait_until(lambda: tasks() <= before, "the end of the long poll")
    publish(client, topic)
    [received] = receive(client, topic)
    assert received["brokerProperties"]["deliveryCount"] == 1


def test_an_empty_wait_takes_its_time(client, topic):
    start = time.monotonic()
    assert receive(client, topic, wait=0.2) == []
    assert time.monotonic() - start > 0.15


def test_a_slow_body_does_not_disturb_others(server: HttpServer, client, topic):
    head = "\r\n".join(f"{name}: {value}" for name, value in HEADERS.items())
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as slow:
        slow.sendall(
            f"POST /topics/{topic}:publish HTTP/1.1\r\nhost: [::1]\r\n{head}\r\ncontent-length: 4\r\n\r\nab".encode()
        )
        publish(client, topic, 3)
        assert len(receive(client, topic)) == 3
        slow.sendall(b"cd")
        assert slow.recv(4096).startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as half:
        half.sendall(
            f"POST /topics/{topic}:publish HTTP/1.1\r\nhost: [::1]\r\n{head}\r\ncontent-length: 4\r\n\r\nab".encode()
        )
    assert [one["event"]["data_base64"] for one in receive(client, topic)] == ["YWJjZA=="]


def test_pipelined_publishes_are_answered_in_order(server: HttpServer, client, topic):
    requests = b""
    for number in range(5):
        head = "".join(f"{name}: {value}\r\n" for name, value in {**HEADERS, "ce-id": number}.items())
        requests += (
            f"POST /topics/{topic}:publish HTTP/1.1\r\nhost: [::1]\r\n{head}content-length: 1\r\n\r\n{number}".encode()
        )
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(requests)
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 5:
            answers += raw.recv(65536)
    assert len(receive(client, topic)) == 5
