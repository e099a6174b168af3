"""The cookie of a login: its name, its value in a request, and the header that goes with it."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.requests.asgi import Scope

COOKIE: Final = "entrepot-login"
HOST_PREFIX: Final = "__Host-"
"""Prefix of cookies that are bound to one host and to TLS (RFC 6265bis 4.1.3.2)."""
HEADER: Final = b"x-entrepot-dashboard"
"""Header of the dashboard's requests. A page of another origin cannot set it without a preflight."""
MAX_COOKIE_BYTES: Final = 8192
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def cookie_name(scope: Scope) -> str:
    """The cookie's name for a request."""
    return HOST_PREFIX + COOKIE if is_https(scope) else COOKIE


def is_https(scope: Scope) -> bool:
    """True if the browser asked by TLS, here or at a trusted proxy."""
    return bool(scope.get("scheme") == "https")


def login_token(scope: Scope) -> str | None:
    """The token in a request's cookie, or None. Raises FORBIDDEN for a write without our header: another page may have
    sent it."""
    if scope["type"] != "http":
        return None
    token, has_header = None, False
    wanted = f"{cookie_name(scope)}=".encode()
    for name, value in scope["headers"]:
        if name == b"cookie" and len(value) <= MAX_COOKIE_BYTES:
            for part in value.split(b";"):
                if part.strip().startswith(wanted):
                    token = part.strip()[len(wanted) :].decode("latin-1")
        elif name == HEADER:
            has_header = True
    if token and scope["method"] not in _SAFE_METHODS and not has_header:
        raise EntrepotError(Code.FORBIDDEN, "changes by a login in a browser need the header X-Entrepot-Dashboard")
    return token or None


def cookie_headers(scope: Scope, token: str, seconds: int) -> dict[str, str]:
    """The headers that set the cookie to a token for so many seconds; 0: that end it."""
    cookie: SimpleCookie = SimpleCookie()
    name = cookie_name(scope)
    cookie[name] = token
    told = {"max-age": seconds, "path": "/", "secure": is_https(scope), "httponly": True, "samesite": "strict"}
    for attribute, value in told.items():
        cookie[name][attribute] = value
    return {"set-cookie": cookie[name].OutputString(), "cache-control": "no-store"}


def is_by_script(scope: Scope) -> bool:
    """True for a request of a page's script, by our header or the browser's word (Fetch Metadata, section 2.2)."""
    said = {name: value for name, value in scope["headers"] if name in (HEADER, b"sec-fetch-mode")}
    return HEADER in said or said.get(b"sec-fetch-mode", b"navigate") != b"navigate"
