"""The fixed answers of pages, held against the description that a running server gives of its own."""

from __future__ import annotations

import pytest

from tests.browser.answers import LOGGED_OUT, OVERVIEW, SESSION, history
from tests.e2e.http.documented import Described
from tests.support.http.client import http_client
from tests.support.processes.server import ServerProcess


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("overview", OVERVIEW),
        ("session", SESSION),
        ("session", LOGGED_OUT),
        ("overview/history", history(300)),
        ("overview/history", history(3600)),
    ],
    ids=["overview", "session", "logged-out", "minutes", "hour"],
)
def test_answers_of_pages_are_as_the_document_describes_them(server: ServerProcess, path: str, value: object) -> None:
    with http_client(f"http://127.0.0.1:{server.port('http')}") as client:
        document = Described(client.get("/openapi.json").json())
    document.check_value("GET", f"/api/v1/{path}", value)
