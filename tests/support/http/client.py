"""HTTP clients of tests: one patience, no proxies, and no certificates, which take longer to load than a request."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.support.waiting import PATIENCE_SECONDS


def http_client(url: str = "", **options: Any) -> httpx2.Client:
    """A client of the server at `url`; `options` as of httpx2.Client."""
    return httpx2.Client(base_url=url, **{"timeout": PATIENCE_SECONDS, "trust_env": False, "verify": False, **options})


def http_request(method: str, url: str, **options: Any) -> httpx2.Response:
    """One request over a connection of its own."""
    with http_client() as client:
        return client.request(method, url, **options)
