"""One running door for each test module and store, and a client of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx2
import pytest

from tests.support.http_server import STORES, HttpServer, serving


@pytest.fixture(scope="module", params=STORES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving(request.param, tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture
def client(server: HttpServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, timeout=20, trust_env=False) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"t{uuid.uuid4().hex[:12]}"
