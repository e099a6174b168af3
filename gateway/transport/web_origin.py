"""WebOrigins: a check of requests by web pages, by their origin and the host name they ask for.

Each listener that browsers reach asks it first. A browser lets every page send requests anywhere, and a page that has
its own name resolve to our address reads the answers too (DNS rebinding). Browsers name the page in headers that no
page can set or leave out: `Origin` (Fetch 3.1) and `Sec-Fetch-Site` (Fetch Metadata 2.3). A request without both comes
from no page.

`Origin` with neither a scheme nor `null` is not a browser's: senders of webhooks name themselves so.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

EVERY: Final = "*"
"""Entry of a list of origins or hosts that stands for all."""
PAGE_HEADERS: Final = frozenset({b"origin", b"sec-fetch-site"})
"""Headers that name a page."""
MAX_REMEMBERED_HOSTS: Final = 256
MAX_HOST_BYTES: Final = 256
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})
"""`none`: a person, by the address bar or a bookmark. `same-site`: another port or a sibling name, so foreign."""
_DEFAULT_PORTS: Final = {b"http": b":80", b"https": b":443"}

RequestHeaders = Iterable[tuple[bytes, bytes]]


class WebOrigins:
    """The `allowed` origins of pages, such as `https://app.example`, and the server's names `hosts`, without ports.
    `localhost` and all addresses are its names, too."""

    def __init__(self, allowed: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        self._allowed = frozenset(each.lower().encode() for each in allowed)
        self._allows_all = EVERY.encode() in self._allowed
        self._hosts = frozenset(each.lower().rstrip(".") for each in hosts)
        self._is_known = lru_cache(MAX_REMEMBERED_HOSTS)(self._looked_up)

    def foreign_page(self, headers: RequestHeaders) -> str | None:
        """The page to refuse, or None where no page asks, or one of ours or an allowed one. `headers` has names in
        lower case."""
        if self._allows_all:
            return None
        host, site, origins = b"", b"", []
        for name, value in headers:
            if name == b"origin":
                origins.append(value.strip().lower())
            elif name == b"sec-fetch-site":
                site = value.strip().lower()
            elif name == b"host":
                host = host or value.strip().lower()
        pages = [origin for origin in origins if origin == b"null" or b"://" in origin]
        for origin in pages:
            if origin not in self._allowed and not _is_same(origin, host):
                return f"the page {origin[:120].decode('latin-1')}"
        if not pages and site and site not in _OWN_SITES:
            return f"a page of another origin ({site[:20].decode('latin-1')})"
        return None

    def knows_host(self, headers: RequestHeaders) -> bool:
        """True if the request names a host of this server, or none. An address is always ours: a page cannot come from
        the name that it is."""
        for name, value in headers:
            if name == b"host":
                return len(value) <= MAX_HOST_BYTES and self._is_known(value)
        return True

    def _looked_up(self, host: bytes) -> bool:
        name = _without_port(host.decode("latin-1").strip().lower()).rstrip(".")
        return name == "localhost" or name in self._hosts or EVERY in self._hosts or _is_address(name)


def _is_same(origin: bytes, host: bytes) -> bool:
    """True if a page's origin is the host that it asks, by name and port; a proxy may change the scheme."""
    scheme, _, authority = origin.partition(b"://")
    port = _DEFAULT_PORTS.get(scheme)
    if port is not None:
        authority, host = authority.removesuffix(port), host.removesuffix(port)
    return bool(authority) and authority == host


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
