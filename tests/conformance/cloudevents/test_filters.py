"""CESQL through a running server: each case of the language as the filter of a request, and of a subscription."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx2
import pytest

from entrepot.gateway.settings import Settings
from tests.e2e.http.steps import event, ids, is_problem, publish
from tests.e2e.webhooks.conftest import WEBHOOKS
from tests.support.cases import cases
from tests.support.http.client import http_client
from tests.support.http.server import serving
from tests.unit.expression.cesql_cases import CASES, FAULTS
from tests.unit.expression.cesql_tck import PARSE, TckCase, tck_cases

_NUMBERS = count()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    settings = Settings(webhooks=WEBHOOKS)  # type: ignore[arg-type]
    with serving("memory", tmp_path_factory.mktemp("data"), settings) as server, http_client(server.url) as running:
        yield running


@pytest.fixture(scope="module")
def topics() -> dict[str, str]:
    """Topics with one event each, by the attributes that it has beside the required ones."""
    return {}


def _topic_with(client: httpx2.Client, topics: dict[str, str], attributes: dict[str, Any]) -> str:
    name = topics.setdefault(json.dumps(attributes), f"cesql-{len(topics)}")
    if client.get(f"/api/v1/topics/{name}").status_code == 404:
        publish(client, name, {**event(1), **attributes})
    return name


def _received(client: httpx2.Client, topic: str, expression: str) -> httpx2.Response:
    path = f"/topics/{topic}/eventsubscriptions/g{next(_NUMBERS)}:receive"
    return client.post(path, params={"cesql": expression, "maxWaitTime": 0})


def _subscribe(client: httpx2.Client, expression: str) -> httpx2.Response:
    body = {"source": "cesql-0", "sink": "http://127.0.0.1:1/", "protocol": "HTTP", "config": {"handshake": "off"}}
    return client.post("/subscriptions", json={**body, "filters": [{"sql": expression}]})


@cases("section, text, value, error, attributes", CASES, ids=lambda each: each[:50] if type(each) is str else "")
def test_an_event_passes_where_the_expression_is_true(
    client: httpx2.Client,
    topics: dict[str, str],
    section: str,
    text: str,
    value: object,
    error: str | None,
    attributes: dict[str, Any],
) -> None:
    topic = _topic_with(client, topics, attributes)
    answer = _received(client, topic, text)
    depends_on_the_event = error == "missingAttribute" and type(value) is bool
    if (type(value) is bool and error is None) or depends_on_the_event:
        assert answer.status_code == 200, answer.text
    if answer.status_code == 200:
        passed = [attributes.get("id", "e1")] if value is True and error is None else []
        assert ids(answer.json()["value"]) == passed
    else:
        is_problem(answer, 400, "cesql")


def test_a_subscription_takes_what_a_request_takes(client: httpx2.Client) -> None:
    for expression in (
        "TRUE OR (1 != 1 / 0)",
        "FALSE AND nofunction()",
        "1 IN (1, 1 / 0)",
        "type = 'a' OR 10 < INT(a)",
    ):
        made = _subscribe(client, expression)
        assert made.status_code == 201, made.text
        client.delete(made.headers["location"])
    for expression in (
        "TRUE AND (1 != 1 / 0)",
        "FALSE OR nofunction()",
        "1 IN (2, 1 / 0)",
        "type = 'a' OR 10 < INT('a')",
    ):
        is_problem(_subscribe(client, expression), 400, "filters[0].sql", "an error with every event")


@cases("text, offset, expected", FAULTS)
def test_what_is_no_expression_is_refused_with_its_place(
    client: httpx2.Client, text: str, offset: int, expected: str
) -> None:
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    is_problem(_subscribe(client, text), 400, "filters[0].sql", f"column {column}", expected)


def _filters(case: TckCase) -> dict[str, bool]:
    """Filters of a case, and whether each passes the event: one wants what the suite says, one the opposite.

    An error passes neither.
    """
    text, result = case.expression, case.result
    if type(result) is bool or result is None:
        both = {text: result is True, f"NOT ({text})": result is False}
    else:
        literal = "'" + result.replace("'", "\\'") + "'" if type(result) is str else str(result)
        both = {f"({text}) = {literal}": True, f"({text}) != {literal}": False}
    return both if case.error is None else dict.fromkeys(both, False)


@pytest.mark.parametrize("case", tck_cases())
def test_the_suite_of_the_language_passes_through_a_server(
    client: httpx2.Client, topics: dict[str, str], case: TckCase
) -> None:
    topic = _topic_with(client, topics, case.attributes)
    if case.error == PARSE:
        is_problem(_received(client, topic, case.expression), 400, "cesql: illegal CESQL expression")
        return
    for expression, passes in _filters(case).items():
        answer = _received(client, topic, expression)
        if case.error is not None and answer.status_code == 400:
            is_problem(answer, 400, "cesql", "an error with every event")
            continue
        assert answer.status_code == 200, answer.text
        assert ids(answer.json()["value"]) == [case.attributes.get("id", "e1")] * passes, expression
