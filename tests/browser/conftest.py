"""A running server and a real browser for each test module.  A console message or an error of a page fails its test."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.answers import NOW, serve_answers
from tests.support.processes.one_worker import keep_file_together
from tests.support.processes.server import Process, ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

CHROMIUM = shutil.which("chromium")
WIDE = (1400, 1000)
PHONE = (320, 640)

Opened: TypeAlias = Callable[..., Page]


def pytest_itemcollected(item: pytest.Item) -> None:
    keep_file_together(item)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each module: while it lives, its event loop runs in this thread, where other tests need their own."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (make peers)")
    expect.set_options(timeout=PATIENCE_SECONDS * 1000)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield running
        running.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def messages() -> list[str]:
    """What pages said on the console, and their errors.  A test takes out what it expects."""
    return []


@pytest.fixture
def expected() -> list[re.Pattern[str]]:
    """Messages of the browser that are no fault in this test, however late they come."""
    return []


@pytest.fixture
def open_page(
    browser: Browser, server: ServerProcess, messages: list[str], expected: list[re.Pattern[str]]
) -> Iterator[Opened]:
    """Opens the dashboard at an address, in a context of its own: `open_page("overview", size=PHONE, scheme="dark")`.
    `answers` are the fixed answers of a page, by path, over those of `serve_answers`; None asks the server itself.
    `at`: another process than the server."""
    contexts: list[BrowserContext] = []

    def opened(
        address: str = "overview",
        *,
        size: tuple[int, int] = WIDE,
        scheme: str = "light",
        answers: dict[str, Any] | None = {},  # noqa: B006 - never changed
        prefix: str = "/dashboard/",
        at: Process | None = None,
    ) -> Page:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
            timezone_id="UTC",
            locale="en-US",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: messages.append(f"error: {error}"))
        if answers is not None:
            page.clock.install(time=NOW)
            serve_answers(page, answers)
        page.goto(f"http://127.0.0.1:{(at or server).port('http')}{prefix}#/{address}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [each for each in messages if not any(known.search(each) for known in expected)] == []
