"""The documents that a running server makes of itself, OpenAPI and AsyncAPI, and the page that shows them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from entrepot.gateway.http.dashboard.page_headers import CONTENT_SECURITY_POLICY
from entrepot.gateway.http.requests.problems import MISSING, problem_types
from tests.e2e.http.documented import Described, operations, own_schema, resolved
from tests.e2e.http.every_route import every_route
from tests.e2e.http.everything import ROOT, ask_everything
from tests.e2e.http.kept_document import PAGE, laid_out
from tests.e2e.http.steps import event, publish
from tests.support.cases import cases
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer
from tests.support.processes.server import ServerProcess

SCHEMA = {"type": "object", "required": ["celsius"]}
EXTERNAL = re.compile(r"https?://|//[a-z]+\.")


@pytest.fixture(scope="module")
def every_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    cheap = CHEAP_FLAGS
    admin = {"security.initial_admin": ROOT[0], "security.initial_admin_password": ROOT[1]}
    settings = {"mqtt.ws_port": "0", **cheap, **admin}
    with ServerProcess(tmp_path_factory.mktemp("server"), settings) as running:
        yield running


@pytest.fixture
def document(client: httpx2.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        found = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return found + [each for value in node.values() for each in references(value)]
    return [each for value in node for each in references(value)] if isinstance(node, list) else []


def contents(told: dict[str, Any], document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Where, media type and description of all bodies of an operation."""
    found = [("body", *each) for each in told.get("requestBody", {}).get("content", {}).items()]
    for status, response in told["responses"].items():
        found += [(status, *each) for each in resolved(document, response).get("content", {}).items()]
    return found


def test_the_kept_document_is_current(document: dict[str, Any]) -> None:
    kept = (Path(__file__).parents[3] / "docs" / PAGE).read_text(encoding="utf-8")
    assert json.loads(kept) == document, "make docs writes it anew"
    assert kept == laid_out(document) + "\n", "the order of its members is the server's"


def test_openapi_is_valid(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    assert [str(each) for each in own_schema("openapi-3.1").iter_errors(document)] == []
    assert all(resolved(document, {"$ref": each}) is not None for each in references(document))
    for name, schema in document["components"]["schemas"].items():
        assert jsonschema_rs.meta.is_valid(schema), name
    ids = Counter(told["operationId"] for _, _, told in operations(document))
    assert [name for name, count in ids.items() if count > 1] == []
    tags = {each["name"] for each in document["tags"]}
    for method, path, told in operations(document):
        parameters = Counter((each["name"].lower(), each["in"]) for each in told["parameters"])
        assert max(parameters.values(), default=1) == 1, (method, path)
        in_path = {name for name, where in parameters if where == "path"}
        assert in_path == set(re.findall(r"\{([a-z_]+)\}", path)), (method, path)
        assert tags >= set(told["tags"]), (method, path)
    assert tags == {tag for _, _, told in operations(document) for tag in told["tags"]}


def test_every_route_is_described(server: HttpServer, document: dict[str, Any]) -> None:
    """A route without a name, an answer, a schema or an example fails here, or in the document's making."""
    routes = {(route.method, route.path) for route in every_route()}
    described = {(method, path): told for method, path, told in operations(document)}
    assert described.keys() == routes
    examples: list[tuple[str, Any, Any]] = []
    for (method, path), told in described.items():
        where = (method, path)
        assert told["summary"] and re.fullmatch(r"[a-z][A-Za-z]+", told["operationId"]), where
        successes = {status: each for status, each in told["responses"].items() if status[0] == "2"}
        assert successes and "default" in told["responses"], where
        for status, answer in successes.items():
            assert answer["description"], where
            assert status in ("201", "204") or method == "OPTIONS" or answer.get("content"), where
        for at, media_type, content in contents(told, document):
            is_bytes = content["schema"].get("format") == "binary"
            assert content["schema"] and (is_bytes or content["example"] is not None), (*where, at, media_type)
            if not is_bytes and "json" in media_type and "ndjson" not in media_type:
                examples.append((f"{method} {path} {at}", content["schema"], content["example"]))
            if at[0] in "45d" and "/health" not in path:  # RabbitMQ's checks fail with 503 and a status
                assert media_type == "application/problem+json", where
    together = {"prefixItems": [schema for _, schema, _ in examples], "components": document["components"]}
    errors = jsonschema_rs.iter_errors(together, [example for _, _, example in examples])
    assert [(examples[int(each.instance_path[0])][0], each.message) for each in errors] == []


def test_operations_have_the_names_of_those_apis(document: dict[str, Any]) -> None:
    named = {told["operationId"]: (method, path) for method, path, told in operations(document)}
    subscription = "/topics/{topic}/eventsubscriptions/{group}"
    assert named["publishCloudEvents"] == ("POST", "/topics/{topic}:publish")
    assert named["receiveCloudEvents"] == ("POST", f"{subscription}:receive")
    assert named["renewCloudEventLocks"] == ("POST", f"{subscription}:renewLock")
    assert named["listQueues"] == ("GET", "/api/queues")
    assert named["acknowledgeCloudEventsInNamespace"][1] == f"/namespaces/{{namespace}}{subscription}:acknowledge"


def test_how_to_show_credentials(document: dict[str, Any]) -> None:
    schemes = document["components"]["securitySchemes"]
    assert {"basic", "bearer", "sharedAccessKey", "accessToken"} == set(schemes)
    assert [set(each) for each in document["security"]] == [{name} for name in schemes] + [set()]
    consent = document["paths"]["/webhooks/consent/{namespace}/{id}/{token}"]
    assert all(told["security"] == [] for told in consent.values())
    assert "security" not in document["paths"]["/api/v1/users"]["get"]


def test_the_example_of_a_subscription_is_taken(client: httpx2.Client, document: dict[str, Any]) -> None:
    content = document["paths"]["/subscriptions"]["post"]["requestBody"]["content"]["application/json"]
    assert client.post("/subscriptions", json={**content["example"], "filters": []}).status_code == 201


def test_what_is_missing_has_its_problem_type() -> None:
    told = set()
    for source in set(Path("gateway").rglob("*.py")) - {
        Path("gateway/http/requests/problem_types.py")
    }:  # of the store's codes
        told |= set(re.findall(r'"([a-z]+)-not-found"', source.read_text()))
    assert told == set(MISSING)
    assert len(problem_types()) == len(set(problem_types()))


@cases("path", ["/docs", "/docs/page.js", "/docs/page.css"])
def test_the_page_asks_nobody_else(client: httpx2.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200 and not EXTERNAL.search(answer.text)
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY and "require-trusted-types-for 'script'" in CONTENT_SECURITY_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    for link in re.findall(r'(?:href|src)="(?!data:,")([^"]+)"', answer.text):
        assert client.get(f"/{link}").status_code == 200, link


def test_asyncapi_tells_the_topics(client: httpx2.Client, topic: str) -> None:
    publish(client, topic, event(1))
    assert client.put(f"/api/v1/topics/{topic}/event-rules", json={"schema": SCHEMA}).status_code == 200
    assert client.put("/api/v1/namespaces/docs", json={}).status_code in (200, 201)
    assert client.put(f"/api/v1/namespaces/docs/topics/{topic}", json={"permission": "READ"}).status_code == 201
    answer = client.get("/asyncapi.json")
    document = answer.json()
    assert answer.headers["content-type"].startswith("application/vnd.aai.asyncapi+json")
    assert document["asyncapi"] == "3.0.0" and document["servers"]["http"]["protocol"] == "http"
    assert [str(each) for each in own_schema("asyncapi-3.0.0").iter_errors(document)] == []
    assert document["channels"][topic]["address"] == f"/topics/{topic}"
    stream = document["channels"][f"{topic}.stream"]
    assert stream["address"] == f"/topics/{topic}/eventsubscriptions/{{group}}:stream"
    assert {f"publish_{topic}", f"consume_{topic}", f"consume_{topic}.stream"} <= set(document["operations"])
    assert document["components"]["schemas"][f"{topic}_data"] == SCHEMA
    below = f"docs.2f.{topic}"
    assert document["channels"][below]["address"] == f"/namespaces/docs/topics/{topic}"
    assert f"consume_{below}" in document["operations"] and f"publish_{below}" not in document["operations"]
    assert all(resolved(document, {"$ref": each}) is not None for each in references(document))
    assert not any("%" in each for each in document["channels"])


def test_asyncapi_tells_the_doors_as_they_are_bound(every_door: ServerProcess) -> None:
    with http_client(f"http://localhost:{every_door.port('http')}", auth=ROOT) as client:
        assert client.put("/api/v1/topics/bound", json={}).status_code == 201
        document = client.get("/asyncapi.json").json()
    assert [str(each) for each in own_schema("asyncapi-3.0.0").iter_errors(document)] == []
    servers = {name: (each["protocol"], each["host"]) for name, each in document["servers"].items()}
    http = f"localhost:{every_door.port('http')}"
    assert servers == {
        "http": ("http", http),
        "events": ("ws", http),
        "mqtt-http": ("ws", http),
        **{door: (door, f"localhost:{every_door.port(door)}") for door in ("mqtt", "ws", "amqp", "grpc")},
    }
    named = document["channels"]["bound.name"]
    assert named["address"] == "bound"
    assert {each["$ref"].rpartition("/")[2] for each in named["servers"]} == {"mqtt-http", "mqtt", "ws", "amqp", "grpc"}
    assert json.dumps(document).count(":0/") == 0


def test_answers_are_as_described(every_door: ServerProcess) -> None:
    """Whatever is asked, the answer looks as the document says, with no member that it does not name."""
    with http_client(f"http://{every_door.address('http')}", auth=ROOT) as client:
        described = Described(client.get("/openapi.json").json())
        ask_everything(every_door, client, described)
        successes = {(method, path) for method, path, status in described.seen if status[0] == "2"}
        wanted = {(method, path) for method, path, _ in operations(described.document)}
        unasked = {each for each in wanted - successes if NOT_HERE.search(each[1]) is None}
        assert unasked == set(), "tests/e2e/http/everything.py asks for each, and it is answered"


NOT_HERE = re.compile(
    r"/namespaces/\{namespace\}|/webhooks/consent|/topics/\{topic\}/events$|/brokers/\{name\}|/controllers(/|$)"
    r"|:watch$|/topics/\{name\}:restore$|/tiering:(attach|accept)$|/ingest-jobs/\{id\}$"
)
"""Those of namespaces are the same; the others have tests of their own, or need a cluster or a receiver."""
