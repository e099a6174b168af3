"""Azure's published Event Grid Namespaces clients against these paths."""

from __future__ import annotations

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridConsumerClient, EventGridPublisherClient

CREDENTIAL = AzureKeyCredential("key")


@pytest.fixture
def publisher(server, topic):
    with EventGridPublisherClient(server.url, CREDENTIAL, namespace_topic=topic) as client:
        yield client


@pytest.fixture
def consumer(server, topic):
    with EventGridConsumerClient(server.url, CREDENTIAL, namespace_topic=topic, subscription="workers") as client:
        yield client


def event(number: int) -> CloudEvent:
    return CloudEvent(source="/s", type="reading", data={"n": number}, subject="line1/temp", extensions={"unit": "c"})


def test_publish_receive_acknowledge(publisher, consumer):
    sent = [event(n) for n in range(3)]
    publisher.send(sent)
    publisher.send(event(3))
    received = consumer.receive(max_events=100, max_wait_time=10)
    assert sorted(details.event.data["n"] for details in received) == [0, 1, 2, 3]
    assert {details.event.id for details in received} >= {one.id for one in sent}
    assert received[0].event.subject == "line1/temp" and received[0].event.extensions == {"unit": "c"}
    assert {details.broker_properties.delivery_count for details in received} == {1}
    tokens = [details.broker_properties.lock_token for details in received]
    done = consumer.acknowledge(lock_tokens=tokens)
    assert sorted(done.succeeded_lock_tokens) == sorted(tokens) and done.failed_lock_tokens == []
    again = consumer.acknowledge(lock_tokens=tokens[:1])
    assert again.failed_lock_tokens[0].lock_token == tokens[0] and again.failed_lock_tokens[0].error.code


def test_release_renew_reject(publisher, consumer):
    publisher.send(event(1))
    [first] = consumer.receive(max_events=1, max_wait_time=10)
    token = first.broker_properties.lock_token
    assert consumer.renew_locks(lock_tokens=[token]).succeeded_lock_tokens == [token]
    assert consumer.release(lock_tokens=[token], release_delay=0).succeeded_lock_tokens == [token]
    [second] = consumer.receive(max_events=1, max_wait_time=10)
    assert second.broker_properties.delivery_count == 2
    token = second.broker_properties.lock_token
    assert consumer.reject(lock_tokens=[token]).succeeded_lock_tokens == [token]


def test_binary_data(publisher, consumer):
    publisher.send(CloudEvent(source="/s", type="t", data=b"\x00\xff", datacontenttype="application/octet-stream"))
    [received] = consumer.receive(max_wait_time=10)
    assert received.event.data == b"\x00\xff"


def test_a_refusal_is_an_http_error(server):
    with (
        EventGridPublisherClient(server.url, CREDENTIAL, namespace_topic="no.topic") as client,
        pytest.raises(HttpResponseError) as refused,
    ):
        client.send(event(1))
    assert refused.value.status_code == 400
    assert "no.topic" in refused.value.response.text()
