"""The guard in front of every route: pages of other origins, and bodies that any page may send."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.gateway.http.requests.asgi import Receive, Scope, Send
from entrepot.gateway.http.requests.page_guard import guarded
from entrepot.gateway.transport.web_origin import WebOrigins

PASSED = 200


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": PASSED, "headers": []})


async def status_of(method: str, path: str, **headers: str) -> int:
    """The status of a request behind the guard; names of headers with `_` for `-`."""
    raw = [(b"host", b"broker.example"), (b"content-length", b"7")]
    given = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    scope: Any = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "headers": [*((name, value) for name, value in raw if name not in given), *given.items()],
        "query_string": b"",
        "http_version": "1.1",
    }
    statuses: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    await guarded(app, WebOrigins(["https://page.example"]))(scope, receive, send)
    (status,) = statuses
    return status


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "Text/Plain",
        "TEXT/PLAIN;charset=UTF-8",
        " text/plain ; charset=utf-8",
        "multipart/form-data; boundary=x",
        "Application/X-WWW-Form-urlencoded",
    ],
)
async def test_a_body_that_any_page_may_send_changes_nothing(content_type: str) -> None:
    path = "/api/v1/topics/t"
    assert await status_of("POST", path, content_type=content_type) == 415
    assert await status_of("PUT", path, content_type=content_type) == 415
    assert await status_of("DELETE", path, content_type=content_type, content_length="0") == PASSED, "never read"
    assert await status_of("GET", path, content_type=content_type) == PASSED
    assert await status_of("POST", "/topics/t:publish", content_type=content_type) == PASSED, "any body is an event"
    assert await status_of("POST", "/webhooks/consent/token", content_type=content_type) == PASSED


async def test_a_body_that_needs_a_preflight_passes() -> None:
    for content_type in ("application/json", "text/plainer", "application/cloudevents+json"):
        assert await status_of("POST", "/api/v1/topics/t", content_type=content_type) == PASSED


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"origin": "https://page.example"}, PASSED),
        ({"origin": "http://broker.example"}, PASSED),
        ({"sec_fetch_site": "same-origin"}, PASSED),
        ({}, PASSED),
    ],
)
async def test_pages_of_other_origins_are_refused(headers: dict[str, str], status: int) -> None:
    for method, path in (("GET", "/api/v1/topics"), ("PUT", "/api/v1/topics/t"), ("POST", "/topics/t:publish")):
        assert await status_of(method, path, **headers) == status


async def test_a_link_of_another_page_leads_to_what_people_look_at_alone() -> None:
    followed = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    for path, status in (
        ("/", PASSED),
        ("/docs", PASSED),
        ("/webhooks/consent/token", PASSED),
        ("/api/v1/topics", 403),
    ):
        assert await status_of("GET", path, **followed) == status
    assert await status_of("POST", "/webhooks/consent/token", **followed) == 403
    assert (
        await status_of("GET", "/", sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="iframe")
        == 403
    )
