"""Plain requests to receive and to acknowledge pass by the framework; what they are answered is the same."""

from __future__ import annotations

import httpx2
import pytest

from entrepot.gateway.http.access import HttpAccess
from entrepot.gateway.http.app import build_rest
from entrepot.gateway.http.hot_routes import HotRoutes
from entrepot.gateway.http.publish import Publishing
from tests.support.cases import cases
from tests.support.http_server import HttpServer

CE = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
SUBSCRIPTION = "/topics/some.topic/eventsubscriptions/some-group"


@pytest.fixture
def hot(server: HttpServer) -> HotRoutes:
    context = server.context

    def build() -> HotRoutes:
        access = HttpAccess(context.security, context.clock)
        return HotRoutes(context, access, build_rest(context, access, Publishing(context, access))[1].routes)

    return server.call(build)


@cases(
    "path, query, is_hot",
    [
        (f"{SUBSCRIPTION}:receive", "", True),
        (f"{SUBSCRIPTION}:receive", "maxEvents=100", True),
        (f"{SUBSCRIPTION}:receive", "maxWaitTime=0", True),
        (f"{SUBSCRIPTION}:receive", "maxEvents=1&maxWaitTime=10", True),
        (f"{SUBSCRIPTION}:acknowledge", "", True),
        (f"{SUBSCRIPTION}:receive", "maxWaitTime=10&maxEvents=1", False),
        (f"{SUBSCRIPTION}:receive", "maxEvents=0", False),
        (f"{SUBSCRIPTION}:receive", "maxEvents=9999", False),
        (f"{SUBSCRIPTION}:receive", "maxWaitTime=9999", False),
        (f"{SUBSCRIPTION}:receive", "maxWaitTime=0.5", False),
        (f"{SUBSCRIPTION}:receive", "maxEvents=1maxWaitTime=0", False),
        (f"{SUBSCRIPTION}:receive", "maxEvents=1&cesql=true", False),
        (f"{SUBSCRIPTION}:receive", "access_token=x", False),
        (f"{SUBSCRIPTION}:acknowledge", "x=1", False),
        (f"{SUBSCRIPTION}:release", "", False),
        ("/topics/some%20topic/eventsubscriptions/g:receive", "", False),
        ("/namespaces/n/topics/t/eventsubscriptions/g:receive", "", True),
        ("/namespaces/n%20/topics/t/eventsubscriptions/g:receive", "", False),
        ("/topics/t:publish", "", True),
        ("/topics/t%20t:publish", "a=b", True),
        ("/namespaces/n/topics/t:publish", "", True),
        ("/topics/t/x:publish", "", False),
        ("/topics/:publish", "", True),
    ],
)
def test_which_way_a_request_takes(hot: HotRoutes, path: str, query: str, is_hot: bool):
    scope = {"type": "http", "method": "POST", "raw_path": path.encode(), "query_string": query.encode(), "headers": []}
    assert (hot.route_of(scope) is not None) == is_hot
    assert hot.route_of({**scope, "method": "GET"}) is None


@pytest.mark.parametrize("further", ["", "&x=1"])
def test_both_ways_answer_the_same(client: httpx2.Client, topic: str, further: str):
    client.post(f"/topics/{topic}:publish", headers=CE, content=b"{}").raise_for_status()
    path = f"/topics/{topic}/eventsubscriptions/g"
    got = client.post(f"{path}:receive?maxEvents=5&maxWaitTime=5{further}")
    (only,) = got.json()["value"]
    assert (got.headers["content-type"], only["event"]["id"]) == ("application/json", "1")
    tokens = [only["brokerProperties"]["lockToken"], "junk"]
    settled = client.post(f"{path}:acknowledge?{further}", json={"lockTokens": tokens}).json()
    assert settled["succeededLockTokens"] == tokens[:1]
    assert [failed["lockToken"] for failed in settled["failedLockTokens"]] == ["junk"]
    answer = client.post(f"{path}:acknowledge?{further}", content=b"junk")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    refused = client.post(f"/topics/{topic}/eventsubscriptions/{'g' * 300}:receive?maxEvents=1{further}")
    assert refused.status_code == 400
