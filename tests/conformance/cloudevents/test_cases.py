"""Each case is played against a running server; each statement has a proof; the page is up to date."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.conformance.cloudevents import report
from tests.conformance.cloudevents.case import NULL, Case
from tests.conformance.cloudevents.cases import CASES
from tests.conformance.cloudevents.deliveries import DELIVERIES
from tests.conformance.cloudevents.differences import DEVIATIONS, UNBOUND
from tests.conformance.cloudevents.statements import STATEMENTS
from tests.e2e.http.steps import receive, settle
from tests.support.cases import cases
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving("embedded", tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: HttpServer) -> Iterator[httpx2.Client]:
    with http_client(server.url) as running:
        yield running


@cases("case", CASES, ids=lambda case: case.name)
def test_case(server: HttpServer, client: httpx2.Client, case: Case) -> None:
    headers = [*case.headers.items(), *case.more_headers]
    answer = client.post("/topics/conformance:publish", headers=headers, content=case.body)
    assert answer.status_code == case.status, answer.text
    found = receive(client, "conformance") if server.store.topology.topic("conformance") is not None else []
    if found:
        settle(client, "acknowledge", "conformance", found)
    if case.status != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert all(word in answer.json()["detail"] for word in case.words), answer.text
        assert found == []
        return
    assert (answer.headers["content-type"], answer.json()) == ("application/json", {})
    assert len(found) == case.count
    for name, value in case.event.items():
        if value is None:
            assert name not in found[0]["event"]
        elif value is NULL:
            assert found[0]["event"][name] is None
        else:
            assert found[0]["event"][name] == value and type(found[0]["event"][name]) is type(value)


def test_names_and_numbers_are_there_once() -> None:
    names = Counter([case.name for case in CASES] + [case.name for case in DELIVERIES])
    assert [name for name, times in names.items() if times > 1] == []
    numbers = Counter([one.number for one in STATEMENTS] + [one.number for one in UNBOUND])
    assert [number for number, times in numbers.items() if times > 1] == []
    assert set(DEVIATIONS) <= {one.number for one in STATEMENTS}


def test_no_statement_without_a_proof() -> None:
    proofs = report.proofs()
    assert [one.number for one in STATEMENTS if one.number not in proofs and not one.tests] == []


def test_cases_prove_statements_that_exist() -> None:
    assert set(report.proofs()) <= {one.number for one in STATEMENTS}


@cases("test", sorted({test for one in STATEMENTS for test in one.tests}))
def test_named_tests_exist(test: str) -> None:
    path, _, name = test.partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), test
