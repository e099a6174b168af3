"""One running door for each test module and store, and a client of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx2
import pytest

from tests.support.http.client import http_client
from tests.support.http.server import STORES, HttpServer, serving_of
from tests.support.processes.one_worker import keep_file_together


def pytest_itemcollected(item: pytest.Item) -> None:
    keep_file_together(item)


@pytest.fixture(scope="module", params=STORES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving_of(request, tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture
def client(server: HttpServer) -> Iterator[httpx2.Client]:
    with http_client(server.url) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"t{uuid.uuid4().hex[:12]}"
