"""Settings of bridges, and how to look at bridges of a server."""

from __future__ import annotations

import json
from typing import Any

from tests.support.http.pull import http_json
from tests.support.waiting import PATIENCE_SECONDS, wait_until

LEASE_PATIENCE_SECONDS = 2 * PATIENCE_SECONDS
"""A bridge whose gateway was killed goes on when its lease has ended; what it held when those leases have."""


def remote(url: str, *rules: dict[str, Any], name: str = "old", **options: Any) -> dict[str, Any]:
    """The settings of one remote."""
    return {"name": name, "url": url, "max_backoff_seconds": 1, "rules": list(rules), **options}


def bridge_settings(*remotes: dict[str, Any]) -> dict[str, str]:
    return {"bridge.remotes": json.dumps(remotes)}


def bridge(server: Any, name: str = "old") -> dict[str, Any]:
    """How a bridge is, as the server tells."""
    found = http_json(server, "GET", "/api/v1/bridges")["value"]
    shape: dict[str, Any] = next(each for each in found if each["name"] == name)
    return shape


def await_state(server: Any, state: str, name: str = "old", timeout: float = LEASE_PATIENCE_SECONDS) -> None:
    wait_until(
        lambda: bridge(server, name)["state"] == state, lambda: f"{state}: {bridge(server, name)}", timeout=timeout
    )
