"""What stands in front of every HTTP route: pages of other origins are refused, and bodies that a page may send without
asking first.

Publishes that the connection takes at once pass by here: one that a page may have sent is never among them.
"""

from __future__ import annotations

from typing import Final

from entrepot.gateway.events.webhooks.handshake import CALLBACK_PATH
from entrepot.gateway.http.asgi import AsgiApp, Receive, Scope, Send, declared_length
from entrepot.gateway.http.problems import ForeignPageError, FormBodyError, send_what_is_wrong
from entrepot.gateway.http.publish import is_publish
from entrepot.gateway.transport.web_origin import RequestHeaders, WebOrigins

FORM_TYPES: Final = frozenset({b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain"})
"""Content types that a page may send anywhere without a preflight (Fetch 2.2.2, CORS-safelisted request header)."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_CONSENT: Final = f"{CALLBACK_PATH}/"
_LINKED: Final = ("/docs", "/openapi.json", _CONSENT)
"""Paths to which links of other pages may lead: what is public, and the consent, whose token is the right."""


def guarded(app: AsgiApp, origins: WebOrigins) -> AsgiApp:
    """The app, which hears of no request that is refused here.  WebSockets ask by themselves: they refuse otherwise."""

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
    """Raise ForeignPageError where a page of another origin asks."""
    page = origins.foreign_page(headers)
    if page is not None:
        raise ForeignPageError(page)


def _check(scope: Scope, origins: WebOrigins) -> None:
    headers, path = scope["headers"], scope["path"]
    if not (path.startswith(_LINKED) and _is_link(scope)):
        check_page(headers, origins)
    if scope["method"] in _SAFE_METHODS or is_publish(scope.get("raw_path") or b"") or path.startswith(_CONSENT):
        return
    if declared_length(headers) == 0:  # libraries call an empty body a form, and nothing is read of it
        return
    for name, value in headers:
        if name == b"content-type":
            media_type = value.partition(b";")[0].strip().lower()
            if media_type in FORM_TYPES:
                raise FormBodyError(media_type.decode())


def _is_link(scope: Scope) -> bool:
    """Whether a person has followed a link, as the browser says: nobody but that person sees the answer."""
    said = {name: value for name, value in scope["headers"] if name.startswith(b"sec-fetch-")}
    is_navigation = (said.get(b"sec-fetch-mode"), said.get(b"sec-fetch-dest")) == (b"navigate", b"document")
    return scope["method"] == "GET" and is_navigation
