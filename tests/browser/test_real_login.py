"""Logins of a browser at a server: the open gateway, the one-time token, a user, and the end of a login.

What the pages show besides is fixed.
"""

from __future__ import annotations

from typing import Any, Final

from playwright.sync_api import Page, expect

from tests.browser.answers import ASK_THE_SERVER, OVERVIEW
from tests.browser.conftest import Opened
from tests.support.http.client import http_client
from tests.support.processes.server import ServerProcess

REAL: Final[dict[str, Any]] = {f"{method} session": ASK_THE_SERVER for method in ("GET", "POST", "DELETE")}
PASSWORD = "correct horse battery"


def log_in(page: Page, name: str, password: str) -> None:
    page.get_by_label("User").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in", exact=True).last.click()


def test_from_the_open_gateway_to_a_logout(open_page: Opened, server: ServerProcess, messages: list[str]) -> None:
    page = open_page(answers=REAL)
    expect(page.get_by_text("This gateway is open to all")).to_be_visible()
    page.get_by_role("button", name="Log in").click()
    dialog = page.get_by_role("dialog", name="Log in")
    dialog.get_by_label("One-time token of the start").fill(server.setup_token)
    dialog.get_by_role("button", name="Log in").click()
    foot = page.locator(".foot")
    expect(foot.get_by_text("setup, super user")).to_be_visible()
    with http_client(f"http://127.0.0.1:{server.port('http')}") as client:
        bearer = {"authorization": f"Bearer {server.setup_token}"}
        body = {"password": PASSWORD, "super": True}
        assert client.put("/api/v1/users/root", json=body, headers=bearer).status_code == 201
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Log in to")).to_be_visible()
    log_in(page, "root", "wrong")
    expect(page.get_by_text("Name or password is wrong.")).to_be_visible()
    assert messages.pop().startswith("error: Failed to load resource: the server responded with a status of 401")
    log_in(page, "root", PASSWORD)
    expect(foot.get_by_text("root, super user")).to_be_visible()
    expect(page.get_by_role("row", name=f"MQTT ≥ {OVERVIEW['doors'][0]['connections']:,}")).to_be_visible()
    cookies = page.context.cookies()
    assert [(each["httpOnly"], each["sameSite"]) for each in cookies] == [(True, "Strict")]
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1, name="Log in to")).to_be_visible()
    assert page.context.cookies() == []
