"""Steps at pages whose answers are a running server's own."""

from __future__ import annotations

import uuid
from typing import Any

import httpx2
from playwright.sync_api import Page, expect

from tests.browser.moving import ADMIN

MOST_STOPS = 200
"""Most stops of a walk by Tab through one page."""


def log_in_as(page: Page, name: str = ADMIN[0], password: str = ADMIN[1]) -> Page:
    page.get_by_label("User").fill(name)
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")
    expect(page.locator(".foot").get_by_text(name)).to_be_visible()
    return page


def new_user(root: httpx2.Client, statements: list[dict[str, Any]]) -> str:
    """A user with the password of the first one."""
    name = f"u{uuid.uuid4().hex[:8]}"
    assert root.put(f"/api/v1/users/{name}", json={"password": ADMIN[1]}).status_code == 201
    assert root.put(f"/api/v1/acls/{name}", json={"statements": statements}).status_code in (200, 201)
    return name


def settled(page: Page) -> None:
    """Wait until the page has its data."""
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator("main [aria-busy=true]:visible")).to_have_count(0)
    expect(page.locator("main .panel, main .empty").first).to_be_visible()


def walk(page: Page) -> None:
    """Go through the page by Tab: every link, button and field of it is reached once, and visibly."""
    focusable = "a[href], button:not(:disabled), input, select, textarea, [tabindex='0']"
    wanted = page.locator("main").locator(focusable).locator("visible=true").count()
    page.locator("main h1").focus()
    reached = 0
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        is_in_main = page.evaluate("document.activeElement.closest('main') !== null")
        if not is_in_main:
            break
        assert page.evaluate("document.activeElement.matches(':focus-visible')")
        reached += 1
    before = page.evaluate(
        """(wanted) => [...document.querySelectorAll('main ' + wanted.split(', ').join(', main '))]
             .filter((each) => each.checkVisibility()
               && each.compareDocumentPosition(document.querySelector('main h1')) & Node.DOCUMENT_POSITION_FOLLOWING)
             .length""",
        focusable,
    )
    assert reached == wanted - before


def assert_fits(page: Page, width: int) -> None:
    """No horizontal scrolling of the page itself."""
    assert page.evaluate("document.documentElement.scrollWidth") == width


def assert_in_the_audit(root: httpx2.Client, *events: str) -> None:
    found = {each["event"] for each in root.get("/api/v1/audit", params={"limit": 200}).json()["value"]}
    assert set(events) <= found
