"""Administration, health, metrics, documentation, and stopping."""

from __future__ import annotations

import json
import threading

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from entrepot.domain.errors import Code, EntrepotError, StorageFullError, StoreFailedError
from entrepot.gateway.http.server import HttpListener
from entrepot.gateway.messaging.send import OnSent, Sender
from tests.e2e.http.steps import metrics_now
from tests.support.http.client import http_client, http_request
from tests.support.http.server import STORES, HttpServer, serving
from tests.support.rocketmq.in_front import ROCKETMQ
from tests.support.waiting import PATIENCE_SECONDS, wait_until

CE = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}


def test_a_topic_from_put_to_delete(client, topic):
    path = f"/api/v1/topics/{topic}"
    answer = client.put(path, json={})
    shape = {
        "name": topic,
        "namespace": "default",
        "queues": 4,
        "writeQueues": None,
        "type": "NORMAL",
        "permission": "READ_WRITE",
        "cleanup": "DELETE",
        "retentionSeconds": None,
        "retentionBytes": None,
        "maxMessageBytes": None,
        "maxBacklog": None,
        "confirm": "RULE",
        "tierSeconds": None,
        "trace": 0.0,
        "placement": None,
        "offsets": [{"queueId": n, "minOffset": 0, "maxOffset": 0} for n in range(4)],
    }
    assert (answer.status_code, answer.json()) == (201, shape)
    assert client.put(path, json={"retentionSeconds": 60}).json()["retentionSeconds"] == 60
    answer = client.put(path, json={"queues": 5, "permission": "READ"})
    assert answer.status_code == 200
    assert (answer.json()["queues"], answer.json()["permission"], answer.json()["retentionSeconds"]) == (5, "READ", 60)
    assert client.put(path, json={"retentionSeconds": None}).json()["retentionSeconds"] is None
    assert client.put(path).json() == client.get(path).json()  # nothing said, nothing changed
    assert client.post(f"/topics/{topic}:publish", headers=CE).status_code == 403
    assert topic in [one["name"] for one in client.get("/api/v1/topics").json()["value"]]
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


def test_a_group_from_put_to_delete(client, topic):
    path = f"/api/v1/groups/{topic}"
    answer = client.put(path, json={"maxAttempts": 3})
    shape = {
        "name": topic,
        "namespace": "default",
        "maxAttempts": 3,
        "invisibleSeconds": 30,
        "start": "earliest",
        "retry": {"kind": "immediate", "initialMs": 1000, "maxMs": 7_200_000, "multiplier": 2.0, "delaysMs": []},
        "maxInFlight": None,
        "fifo": False,
        "filter": None,
        "progress": [],
    }
    assert (answer.status_code, answer.json()) == (201, shape)
    answer = client.put(path, json={"invisibleSeconds": 5, "start": "2026-01-01T00:00:00Z"})
    assert answer.status_code == 200
    assert (answer.json()["maxAttempts"], answer.json()["invisibleSeconds"]) == (3, 5)
    assert topic in [one["name"] for one in client.get("/api/v1/groups").json()["value"]]
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


def test_progress_and_lag_are_told(client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    for _ in range(3):
        assert client.post(f"/topics/{topic}:publish", headers=CE).status_code == 200
    base = f"/topics/{topic}/eventsubscriptions/{topic}"
    received = client.post(f"{base}:receive?maxEvents=2&maxWaitTime=0").json()["value"]
    client.post(f"{base}:acknowledge", json={"lockTokens": [received[0]["brokerProperties"]["lockToken"]]})
    [progress] = client.get(f"/api/v1/groups/{topic}").json()["progress"]
    expected = {"topic": topic, "queueId": 0, "committedOffset": 1, "maxOffset": 3, "inFlight": 1, "lag": 2}
    assert progress == expected
    samples = _samples(client)
    labels = (("consumer_group", topic), ("topic", topic))
    assert samples["rocketmq_consumer_lag_messages", labels] == 2
    assert samples["rocketmq_consumer_inflight_messages", labels] == 1
    assert samples["entrepot_topic_max_offset", (("queue_id", "0"), ("topic", topic))] == 3


def _topic_count(client) -> int:
    """All of them: the system makes some of its own, whenever it needs one."""
    return client.get("/api/v1/topics", params={"limit": 1}).json()["total"]


def test_what_comes_in_and_goes_out_is_counted(client, topic):
    headers = {"content-type": "application/cloudevents-batch+json"}
    events = [{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": "abc"} for _ in range(3)]
    for name in (topic, f"{topic}-2"):
        assert client.post(f"/topics/{name}:publish", content=json.dumps(events), headers=headers).status_code == 200
    base = f"/topics/{topic}/eventsubscriptions/{topic}"
    received = client.post(f"{base}:receive?maxEvents=2&maxWaitTime=0").json()["value"]
    client.post(f"{base}:reject", json={"lockTokens": [received[0]["brokerProperties"]["lockToken"]]})
    samples = _samples(client)
    of_topic, of_group = (("topic", topic),), (("consumer_group", topic), ("topic", topic))
    assert samples["rocketmq_messages_in_total", of_topic] == 3
    assert samples["rocketmq_throughput_in_total", of_topic] == 15
    assert samples["rocketmq_messages_in_total", (("topic", f"{topic}-2"),)] == 3
    assert samples["rocketmq_messages_out_total", of_group] == 2
    assert samples["rocketmq_throughput_out_total", of_group] == 10
    assert samples["rocketmq_consumer_inflight_messages", of_group] == 1
    assert (
        samples["rocketmq_consumer_lag_messages", of_group] == 1 + samples["rocketmq_consumer_ready_messages", of_group]
    )
    assert samples["rocketmq_send_to_dlq_messages_total", (("consumer_group", topic),)] == 1
    wait_until(lambda: _samples(client)["rocketmq_topic_number", ()] == _topic_count(client), "all topics are counted")
    assert samples["rocketmq_consumer_group_number", ()] >= 1
    client.delete(f"/api/v1/topics/{topic}")
    assert ("rocketmq_messages_in_total", of_topic) not in _samples(client)


def test_what_is_refused_is_not_counted(client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"maxMessageBytes": 5})
    headers = {"content-type": "application/cloudevents-batch+json"}
    events = [
        {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": data} for data in ("abc", "far too long")
    ]
    assert client.post(f"/topics/{topic}:publish", content=json.dumps(events), headers=headers).status_code == 413
    assert client.post(f"/topics/{topic}:publish", content=json.dumps(events[:1]), headers=headers).status_code == 200
    assert _samples(client)["rocketmq_messages_in_total", (("topic", topic),)] == 1


def test_metrics_tell_of_the_process_too(client):
    samples = _samples(client)
    assert samples["entrepot_connections", (("door", "http"),)] >= 1
    assert samples["process_resident_memory_bytes", ()] > 0
    assert ("entrepot_messages_in_total", ()) in samples


def test_metrics_tell_of_the_store(server, client, topic):
    for number in range(3):
        assert client.post(f"/topics/{topic}:publish", headers={**CE, "ce-id": str(number)}).status_code == 200
    assert client.post(f"/topics/{topic}/eventsubscriptions/g:receive?maxWaitTime=0").json()["value"]
    samples = _samples(client)
    assert samples["rocketmq_timing_messages", ()] == samples["rocketmq_half_messages", ()] == 0
    if not server.run(server.store.condition.measurements()):
        return
    for name, least in (("append", 3), ("sync", 1), ("pop", 1)):
        family = f"entrepot_store_{name}_seconds"
        buckets = [value for (found, _), value in samples.items() if found == f"{family}_bucket"]
        assert sorted(buckets) == buckets and buckets[-1] == samples[f"{family}_bucket", (("le", "+Inf"),)]
        assert samples[f"{family}_count", ()] == buckets[-1] >= least
        assert 0 < samples[f"{family}_sum", ()] < 60
    assert samples["rocketmq_storage_size", ()] > 0
    behind = [("rocketmq_storage_flush_behind_bytes", ()), ("rocketmq_storage_dispatch_behind_bytes", ())]
    wait_until(lambda: {_samples(client)[name] for name in behind} == {0}, "all is flushed and dispatched")
    for name in (
        "entrepot_checkpoint_behind_bytes",
        "entrepot_disk_state",
        "entrepot_deleted_segments",
        "entrepot_trace_dropped_hops",
    ):
        assert samples[name, ()] >= 0


def test_health_and_readiness(server: HttpServer, client):
    assert (client.get("/healthz").status_code, client.get("/readyz").status_code) == (200, 200)
    server.ready = False
    try:
        assert client.get("/healthz").status_code == 200
        answer = client.get("/readyz")
        assert answer.status_code == 503 and answer.headers["retry-after"]
        assert answer.headers["content-type"] == "application/problem+json"
    finally:
        server.ready = True


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (StoreFailedError("the disk is gone"), 503),
        (StorageFullError(), 507),
        (EntrepotError(Code.TOO_MANY_REQUESTS, "slowly"), 429),
    ],
)
def test_a_store_that_refuses_is_told_with_retry_after(server: HttpServer, client, topic, monkeypatch, failure, status):
    client.put(f"/api/v1/topics/{topic}")

    def refuse(*_: object) -> None:
        raise failure

    monkeypatch.setattr(server.store.messages, "append", refuse)
    answer = client.post(f"/topics/{topic}:publish", headers=CE)
    assert answer.status_code == status and int(answer.headers["retry-after"]) > 0
    assert answer.json()["detail"] == failure.message


def test_a_failed_store_fails_the_health_check(server: HttpServer, client, monkeypatch):
    gone = StoreFailedError("the disk is gone")
    monkeypatch.setattr(type(server.store.condition), "failure", property(lambda _: gone))
    assert (client.get("/healthz").status_code, client.get("/readyz").status_code) == (503, 503)


def test_a_partly_refused_batch_names_the_first_refusal(server: HttpServer, client, topic, monkeypatch):
    client.put(f"/api/v1/topics/{topic}")
    send, refusals = type(server.parts.sender).send, [None, EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, "too large")]

    def refusing(self: Sender, messages: list, on_sent: OnSent) -> None:
        send(self, messages[:1], lambda failure, _: on_sent(failure, refusals))

    monkeypatch.setattr(type(server.parts.sender), "send", refusing)
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    headers = {"content-type": "application/cloudevents-batch+json"}
    answer = client.post(f"/topics/{topic}:publish", content=json.dumps([event, event]), headers=headers)
    assert answer.status_code == 413
    assert "event 1 of the batch" in answer.json()["detail"] and "1 of 2 were refused" in answer.json()["detail"]


def test_every_operation_is_documented(client):
    assert client.get("/docs").status_code == 200
    document = client.get("/openapi.json").json()
    operations = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    subscription = "POST /topics/{topic}/eventsubscriptions/{group}"
    assert operations >= {
        "POST /topics/{topic}:publish",
        *(f"{subscription}:{verb}" for verb in ("receive", "acknowledge", "release", "reject", "renewLock")),
        *(f"{verb} /api/v1/{kind}s/{{name}}" for verb in ("GET", "PUT", "DELETE") for kind in ("topic", "group")),
        *(f"GET /api/v1/{kind}" for kind in ("topics", "groups", "namespaces", "messages", "timers")),
        "PUT /api/v1/topics",
        "POST /api/v1/groups/{name}:reset",
        *(f"{verb} /api/v1/groups/{{name}}/topics/{{topic}}/members/{{member}}" for verb in ("POST", "DELETE")),
        "GET /api/v1/groups/{name}/topics/{topic}/members",
        "POST /api/v1/groups/{name}/topics/{topic}/offsets",
        "GET /api/v1/topics/{name}/queues/{queue}/messages",
        "GET /api/v1/groups/{name}/dead-letters",
        "GET /api/v1/groups/{name}/dead-letters:export",
        "POST /api/v1/groups/{name}/dead-letters:resend",
        "GET /api/v1/messages/{id}",
        "GET /api/v1/messages/{id}/consumers",
        "GET /api/v1/messages/{id}/trace",
        "GET /api/v1/journeys",
        *(f"{verb} /api/v1/timers/{{handle}}" for verb in ("PUT", "DELETE")),
        *(f"{verb} /api/v1/namespaces/{{name}}" for verb in ("GET", "PUT", "DELETE")),
        "PUT /api/v1/namespaces/{namespace}/topics/{name}",
        "POST /api/v1/namespaces/{namespace}/groups/{name}:reset",
        "POST /namespaces/{namespace}/topics/{topic}:publish",
        "POST /namespaces/{namespace}/topics/{topic}/eventsubscriptions/{group}:receive",
        "GET /healthz",
        "GET /readyz",
        "GET /metrics",
    }
    assert "422" not in json.dumps(document)  # what is not valid is answered with 400


@pytest.mark.everywhere
@pytest.mark.parametrize("store_kind", STORES)
def test_stopping_answers_the_waiting_and_ends_the_idle(store_kind, tmp_path, request):
    answers: list[httpx2.Response] = []
    cluster = request.getfixturevalue("rocketmq_cluster") if store_kind == ROCKETMQ else None
    with serving(store_kind, tmp_path, cluster=cluster) as server:
        url = f"{server.url}/topics/t/eventsubscriptions/g:receive?maxWaitTime=100"
        waiting = threading.Thread(target=lambda: answers.append(http_request("POST", url)))
        idle = http_client(server.url)
        assert idle.get("/healthz").status_code == 200
        waiting.start()
        wait_until(lambda: _busy(server.listener) == 1, "the long poll")
    waiting.join(PATIENCE_SECONDS)
    assert (answers[0].status_code, answers[0].json()) == (200, {"value": []})
    with pytest.raises(httpx2.TransportError):
        idle.get("/healthz")
    idle.close()


def _busy(listener: HttpListener) -> int:
    return len(listener._server.server_state.tasks)


def _samples(client: httpx2.Client) -> dict[tuple[str, tuple], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics_now(client))
        for sample in family.samples
    }
