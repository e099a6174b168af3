"""`/docs` in a browser, under the dashboard's policy: what it lists, its search, and trying an operation."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from entrepot.gateway.http.dashboard.page_headers import CONTENT_SECURITY_POLICY
from tests.support.http.chromium import is_installed
from tests.support.processes.server import ServerProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not is_installed(), reason="Chromium is not installed (make peers)"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        yield running
        running.close()


@pytest.fixture
def messages() -> list[str]:
    """What the page said on the console, and its errors."""
    return []


@pytest.fixture
def docs(browser: Browser, server: ServerProcess, messages: list[str]) -> Iterator[Page]:
    page = browser.new_page()
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(f"http://{server.address('http')}/docs")
    expect(page.locator("body")).to_have_attribute("data-state", "shown")
    yield page
    page.close()


def test_it_is_whole_under_the_policy(docs: Page, messages: list[str]) -> None:
    answer = docs.request.get(docs.url)
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    document = docs.request.get(docs.url.replace("/docs", "/openapi.json")).json()
    count = sum(len(item) for item in document["paths"].values())
    assert docs.locator("section > details").count() == count
    for one in docs.locator("section > details").all()[:30]:
        one.locator("summary").first.click()
    expect(docs.locator("section > details[open] > div")).to_have_count(30)
    assert messages == []


def test_its_search_narrows_the_list(docs: Page, messages: list[str]) -> None:
    docs.keyboard.press("/")
    expect(docs.locator("#find")).to_be_focused()
    docs.keyboard.type("delete topics/{name} event")
    visible = docs.locator("section > details:visible")
    expect(visible).to_have_count(2)  # the plain one, and that of namespaces
    expect(docs.locator("#found")).to_have_text("2 operations")
    docs.locator("#find").fill("nothing of that kind")
    expect(visible).to_have_count(0)
    docs.locator("#find").fill("")
    expect(docs.locator("#found")).to_have_text("")
    assert messages == []


def test_the_page_tries_an_operation(docs: Page, messages: list[str]) -> None:
    one = docs.locator("#putTopic")
    one.locator("summary").first.click()
    one.locator("label", has_text="name").locator("input").first.fill("<b>'tried'")
    one.locator("textarea").fill('{"queues": 2}')
    one.get_by_role("button", name="Send").click()
    shown = one.locator("pre[role=status]")
    expect(shown).to_contain_text("400 Bad Request")
    one.locator("label", has_text="name").locator("input").first.fill("tried")
    one.get_by_role("button", name="Send").click()
    expect(shown).to_contain_text("201 Created")
    text = shown.inner_text()
    assert text.startswith("curl -X PUT 'http://")
    assert "/api/v1/topics/tried' -H 'Content-Type: application/json' --data-binary '{\"queues\": 2}'" in text
    messages[:] = [each for each in messages if "400 (Bad Request)" not in each]
    assert messages == []
