"""Steps at pages whose answers are a running server's own."""

from __future__ import annotations

import uuid
from typing import Any, Final

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
    expect(page.locator("main [aria-busy=true]")).to_have_count(0)
    expect(page.locator("main .panel, main .empty").first).to_be_visible()


_FOCUSABLE: Final = "a[href], button:not(:disabled), input, select, textarea, [tabindex='0']"
_BEGIN: Final = """(focusable) => {
  const main = document.querySelector('main');
  const heading = main.querySelector('h1');
  const isStop = (each) => each.type !== 'radio' || each.checked
    || !main.querySelector(`input[name="${each.name}"]:checked`);
  const isBehind = (each) => heading.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING;
  const found = [...main.querySelectorAll(focusable)];
  window.unreached = new Set(found.filter((each) => each.checkVisibility() && isStop(each) && isBehind(each)));
  heading.focus();
}"""
_STOP: Final = """() => {
  const at = document.activeElement;
  window.unreached.delete(at);
  const isSeen = at.matches(':focus-visible') || at.type === 'datetime-local';  // the ring is on its picker's button
  return { isInMain: at.closest('main') !== null, isSeen, what: at.outerHTML.slice(0, 200) };
}"""


def walk(page: Page) -> None:
    """Go through the page by Tab: every link, button and field behind its heading is reached, and visibly."""
    page.evaluate(_BEGIN, _FOCUSABLE)
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop = page.evaluate(_STOP)
        if not stop["isInMain"]:
            break
        assert stop["isSeen"], stop["what"]
    assert page.evaluate("[...window.unreached].map((each) => each.outerHTML.slice(0, 200))") == []


def assert_fits(page: Page, width: int) -> None:
    """No horizontal scrolling of the page itself."""
    assert page.evaluate("document.documentElement.scrollWidth") == width


def assert_in_the_audit(root: httpx2.Client, *events: str) -> None:
    found = {each["event"] for each in root.get("/api/v1/audit", params={"limit": 200}).json()["value"]}
    assert set(events) <= found
