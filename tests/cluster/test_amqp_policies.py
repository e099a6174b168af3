"""Policies, permissions and virtual hosts that one gateway was told of hold at another."""

from __future__ import annotations

from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.load import parameters
from tests.support.processes.deployment import ClusterProcesses, GatewayProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.timeout(180)]


def api(gateway: GatewayProcess, method: str, path: str, **options: Any) -> Any:
    url = f"http://{gateway.address('http')}/api{path}"
    answer = httpx2.request(method, url, timeout=PATIENCE_SECONDS, trust_env=False, **options)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def test_what_one_gateway_is_told_holds_at_the_other(shared: ClusterProcesses) -> None:
    here, there = shared.gateways
    api(here, "PUT", "/queues/%2F/q", json={"durable": True})
    api(here, "PUT", "/policies/%2F/p", json={"pattern": "^q$", "definition": {"max-length": 2}})
    wait_until(lambda: [each["name"] for each in api(there, "GET", "/policies")] == ["p"], "the policy is known")
    assert api(there, "GET", "/queues/%2F/q")["effective_policy_definition"] == {"max-length": 2}
    connection = pika.BlockingConnection(parameters(there.port("amqp")))
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(6):
        channel.basic_publish("", "q", b"%d" % number)
    wait_until(lambda: api(here, "GET", "/queues/%2F/q")["messages"] == 2, "the oldest are dropped")
    got = api(here, "POST", "/queues/%2F/q/get", json={"count": 5, "ackmode": "ack_requeue_false"})
    assert [each["payload"] for each in got] == ["4", "5"]
    api(here, "DELETE", "/policies/%2F/p")
    wait_until(lambda: api(there, "GET", "/policies") == [], "it is gone")
    for number in range(6):
        channel.basic_publish("", "q", b"%d" % number)
    wait_until(lambda: api(here, "GET", "/queues/%2F/q")["messages"] == 6, "there is no limit")
    connection.close()
    api(there, "PUT", "/vhosts/plant")
    wait_until(lambda: "plant" in [each["name"] for each in api(here, "GET", "/vhosts")], "the vhost is known")
    definitions = {
        "exchanges": [{"name": "x", "type": "fanout", "durable": True, "arguments": {}}],
        "queues": [{"name": f"q{n}", "durable": True, "arguments": {}} for n in range(20)],
        "bindings": [{"source": "x", "destination": f"q{n}", "destination_type": "queue"} for n in range(20)],
    }
    report = api(here, "POST", "/definitions/plant?report=true", json=definitions)
    assert report == {"done": {"exchanges": 1, "queues": 20, "bindings": 20}, "left_out": []}
    wait_until(lambda: len(api(there, "GET", "/exchanges/plant/x/bindings/source")) == 20, "all of it is known")
    api(there, "POST", "/exchanges/plant/x/publish", json={"routing_key": "", "payload": "x"})
    assert sum(each["messages"] for each in api(here, "GET", "/queues/plant")) == 20
    api(there, "DELETE", "/vhosts/plant")
    wait_until(lambda: "plant" not in [each["name"] for each in api(here, "GET", "/vhosts")], "it is gone")
