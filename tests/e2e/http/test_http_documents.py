"""The documents that a running server makes of itself: OpenAPI and AsyncAPI."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2

from gateway.http.problems import MISSING, problem_types
from tests.e2e.http.steps import event, publish

SCHEMA = {"type": "object", "required": ["celsius"]}


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        found = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return found + [each for value in node.values() for each in references(value)]
    return [each for value in node for each in references(value)] if isinstance(node, list) else []


def resolved(document: dict, reference: str) -> Any:
    node: Any = document
    for step in reference.removeprefix("#/").split("/"):
        node = node[step]
    return node


def test_every_operation_tells_how_it_refuses(client: httpx2.Client) -> None:
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            refusals = [
                answer["content"]["application/problem+json"]
                for status, answer in operation["responses"].items()
                if status == "default" or status[0] in "45"
            ]
            assert refusals and all("example" in each for each in refusals), (method, path)
    assert all(resolved(document, each) for each in references(document))
    problem = document["components"]["schemas"]["Problem"]
    assert "urn:entrepot:problem:topic-not-found" in problem["properties"]["type"]["examples"]
    for path in ("/subscriptions", "/topics/{topic}/events", "/topics/{topic}:publish", "/subscriptions/{id}"):
        assert path in document["paths"]
    body = document["paths"]["/subscriptions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert client.post("/subscriptions", json={**body["examples"][0], "filters": []}).status_code in (201, 400)


def test_what_is_missing_has_its_problem_type() -> None:
    told = set()
    for source in Path("gateway").rglob("*.py"):
        told |= set(re.findall(r'"([a-z]+)-not-found"', source.read_text()))
    assert told == set(MISSING)
    assert len(problem_types()) == len(set(problem_types()))


def test_docs_are_shown(client: httpx2.Client) -> None:
    assert "swagger" in client.get("/docs").text.lower()


def test_asyncapi_tells_the_topics(client: httpx2.Client, topic: str) -> None:
    publish(client, topic, event(1))
    assert client.put(f"/api/v1/topics/{topic}/event-rules", json={"schema": SCHEMA}).status_code == 200
    assert client.put("/api/v1/namespaces/docs", json={}).status_code in (200, 201)
    assert client.put(f"/api/v1/namespaces/docs/topics/{topic}", json={"permission": "READ"}).status_code == 201
    answer = client.get("/asyncapi.json")
    document = answer.json()
    assert answer.headers["content-type"].startswith("application/vnd.aai.asyncapi+json")
    assert document["asyncapi"] == "3.0.0" and document["servers"]["http"]["protocol"] == "http"
    assert document["channels"][topic]["address"] == f"/topics/{topic}"
    assert {f"publish_{topic}", f"consume_{topic}"} <= set(document["operations"])
    assert document["components"]["schemas"][f"{topic}_data"] == SCHEMA
    below = f"docs.2f.{topic}"
    assert document["channels"][below]["address"] == f"/namespaces/docs/topics/{topic}"
    assert f"consume_{below}" in document["operations"] and f"publish_{below}" not in document["operations"]
    assert all(resolved(document, each) is not None for each in references(document))
    assert not any("%" in each for each in document["channels"])
