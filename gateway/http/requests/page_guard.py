"""A guard in front of every route against pages of other origins, and bodies that need no preflight.

Fast-path publishes bypass it: they exclude any request that a page may have sent.
"""

from __future__ import annotations

from typing import Final

from entrepot.gateway.events.webhooks.handshake import CALLBACK_PATH
from entrepot.gateway.http.dashboard.page_paths import DASHBOARD, ROOT
from entrepot.gateway.http.requests.asgi import AsgiApp, Receive, Scope, Send, declared_length
from entrepot.gateway.http.requests.problems import ForeignPageError, FormBodyError, send_what_is_wrong
from entrepot.gateway.http.requests.publish import is_publish
from entrepot.gateway.transport.web_origin import RequestHeaders, WebOrigins

FORM_TYPES: Final = frozenset({b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain"})
"""Content types that a page may send anywhere without a preflight (Fetch 2.2.2, CORS-safelisted request header)."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_CONSENT: Final = f"{CALLBACK_PATH}/"
_LINKED: Final = ("/docs", "/openapi.json", DASHBOARD, _CONSENT)
"""Paths that other pages may link to, with the root: public ones, and the consent, whose token is the right."""


def guarded(app: AsgiApp, origins: WebOrigins) -> AsgiApp:
    """The app behind the guard.  WebSockets make the check themselves, because they are refused differently."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                _check(scope, origins)
            except (ForeignPageError, FormBodyError) as refusal:
                await send_what_is_wrong(scope, send, refusal)
                return
        await app(scope, receive, send)

    return guard


def check_page(headers: RequestHeaders, origins: WebOrigins) -> None:
    """Raise ForeignPageError for a request of a page of another origin."""
    page = origins.foreign_page(headers)
    if page is not None:
        raise ForeignPageError(page)


def _check(scope: Scope, origins: WebOrigins) -> None:
    headers, path = scope["headers"], scope["path"]
    if not ((path == ROOT or path.startswith(_LINKED)) and _is_link(scope)):
        check_page(headers, origins)
    if scope["method"] in _SAFE_METHODS or is_publish(scope.get("raw_path") or b"") or path.startswith(_CONSENT):
        return
    if declared_length(headers) == 0:  # libraries label an empty body as a form; it is never read
        return
    for name, value in headers:
        if name == b"content-type":
            media_type = value.partition(b";")[0].strip().lower()
            if media_type in FORM_TYPES:
                raise FormBodyError(media_type.decode())


def _is_link(scope: Scope) -> bool:
    """True for a followed link, according to the browser: only the user sees the answer."""
    said = {name: value for name, value in scope["headers"] if name.startswith(b"sec-fetch-")}
    is_navigation = (said.get(b"sec-fetch-mode"), said.get(b"sec-fetch-dest")) == (b"navigate", b"document")
    return scope["method"] == "GET" and is_navigation
