"""Azure's published Event Grid Namespaces clients against these paths."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.core.messaging import CloudEvent
from azure.eventgrid import EventGridConsumerClient, EventGridPublisherClient, aio

from tests.e2e.http.test_http_security import CHEAP
from tests.support.http.server import HttpServer
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.interop
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
    error = refused.value.error
    assert error is not None and error.code == "ILLEGAL_TOPIC" and "no.topic" in str(error.message)
    assert "no.topic" in refused.value.message


def test_a_key_is_a_name_and_its_password(tmp_path: Path) -> None:
    settings = {**CHEAP, "security.initial_admin": "admin", "security.initial_admin_password": "p:w"}
    with ServerProcess(tmp_path, settings) as server:
        url = f"http://{server.address('http')}"
        for key, status in (("admin:p:w", 200), ("admin:pw", 401), ("admin", 401)):
            with EventGridPublisherClient(url, AzureKeyCredential(key), namespace_topic="keyed") as publisher:
                if status == 200:
                    publisher.send(event(1))
                    continue
                with pytest.raises(ClientAuthenticationError) as refused:
                    publisher.send(event(1))
                error = refused.value.error
                assert error is not None and error.code == "UNAUTHORIZED" and error.message


async def test_azure_s_asynchronous_clients(server: HttpServer, topic: str) -> None:
    async with (
        aio.EventGridPublisherClient(server.url, CREDENTIAL, namespace_topic=topic) as publisher,
        aio.EventGridConsumerClient(server.url, CREDENTIAL, namespace_topic=topic, subscription="workers") as consumer,
    ):
        sent = [CloudEvent(source="/s", type="reading", data={"n": n}) for n in range(5)]
        await publisher.send(sent)
        await publisher.send(CloudEvent(source="/s", type="reading", data=b"\x00\xff"))
        received: list[Any] = []
        while len(received) < 6:
            received += await consumer.receive(max_events=10, max_wait_time=10)
        tokens = [each.broker_properties.lock_token for each in received]
        assert (await consumer.renew_locks(lock_tokens=tokens[:2])).succeeded_lock_tokens == tokens[:2]
        assert (await consumer.release(lock_tokens=tokens[:1], release_delay=0)).failed_lock_tokens == []
        assert (await consumer.reject(lock_tokens=tokens[1:2])).failed_lock_tokens == []
        assert (await consumer.acknowledge(lock_tokens=tokens[2:])).succeeded_lock_tokens == tokens[2:]
        [again] = await consumer.receive(max_events=10, max_wait_time=10)
        assert again.broker_properties.delivery_count == 2
        assert {each.event.id for each in received} >= {each.id for each in sent}
        waiting = asyncio.ensure_future(consumer.receive(max_events=1, max_wait_time=30))
        await publisher.send(sent[0])
        assert len(await asyncio.wait_for(waiting, PATIENCE_SECONDS)) == 1
