"""A body of 100 MB at the page of its topic: the page shows its beginning, and the download is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Response, expect

from tests.browser.conftest import Opened
from tests.support.http.client import http_client
from tests.support.processes.server import ServerProcess

pytestmark = pytest.mark.interop
SIZE: Final = 100_000_000
MOST: Final = str(128 << 20)
LARGEST_ANSWER: Final = 256 << 10
"""Largest answer that a page may ask for without a download, in bytes."""
SETTINGS: Final = {"store.max_message_bytes": MOST, "http.max_body_bytes": MOST}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("large"), SETTINGS) as running:
        yield running


def test_its_beginning_is_shown_and_the_download_is_whole(open_page: Opened, server: ServerProcess) -> None:
    body = b'{"lines": "' + bytes(range(32, 127)).replace(b'"', b"'").replace(b"\\", b"/") * (SIZE // 95)
    body = body[: SIZE - 2] + b'"}'
    identity = {"specversion": "1.0", "id": "1", "type": "t", "source": "/s"}
    headers = {"content-type": "application/json", **{f"ce-{key}": value for key, value in identity.items()}}
    with http_client(f"http://127.0.0.1:{server.port('http')}", timeout=60) as client:
        answer = client.post("/topics/huge:publish", headers=headers, content=body)
        assert answer.status_code == 200, answer.text
    page = open_page("topics/huge", answers=None)
    answers: list[Response] = []
    page.on("response", lambda each: answers.append(each))
    page.get_by_role("group", name="Messages").locator("tbody button").first.click()
    message = page.locator(".message")
    expect(message.get_by_text("first 1 KiB of 95.4 MiB")).to_be_visible()
    message.get_by_role("button", name="Show 64 KiB").click()
    expect(message.get_by_text("first 64 KiB of 95.4 MiB")).to_be_visible()
    sizes = [len(each.body()) for each in answers if "/api/v1/topics/" in each.url]
    assert sizes
    assert max(sizes) <= LARGEST_ANSWER
    with page.expect_download() as download:
        message.get_by_role("link", name="Download").click()
    found = Path(download.value.path()).read_bytes()
    assert hashlib.sha256(found).digest() == hashlib.sha256(body).digest()
