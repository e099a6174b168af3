"""Addresses of all pages of the dashboard at a filled site, and outlines of what they show to those who listen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import quote

from playwright.sync_api import Page

from tests.browser.replicated.site import Site

MENU: Final = Path(__file__).parents[3] / "gateway/http/dashboard/page/menu.js"
OUTLINES: Final = Path(__file__).parent / "outlines"
PAGES: Final = {
    "overview": "overview",
    "cluster": "cluster",
    "alarms": "alarms",
    "settings": "settings",
    "topics": "topics",
    "topics/:name": "topics/orders-in",
    "groups": "groups",
    "groups/:name": "groups/stock",
    "queues": "queues",
    "queues/:vhost/:name": "queues/%2F/billing",
    "exchanges": "exchanges",
    "exchanges/:vhost/:name": "exchanges/%2F/orders",
    "bindings": "bindings",
    "queue-policies": "queue-policies",
    "journey": "journey",
    "journey/:id": "journey/{message}",
    "dead-letters": "dead-letters",
    "dead-letters/:name": "dead-letters/billing",
    "timers": "timers",
    "transactions": "transactions",
    "retained": "retained",
    "clients": "clients",
    "clients/:id": "clients/line-1",
    "sessions": "sessions",
    "subscriptions": "subscriptions",
    "slow-subscribers": "slow-subscribers",
    "connected-clients": "connected-clients?contains=rocket",
    "amqp-connections": "amqp-connections",
    "amqp-connections/:name": "amqp-connections/{connection}",
    "rocketmq-clients": "rocketmq-clients",
    "webhooks": "webhooks",
    "webhooks/:id": "webhooks/{webhook}",
    "bridges": "bridges",
    "bridges/:name": "bridges/plant-west",
    "event-rules": "event-rules",
    "event-rules/:topic": "event-rules/orders-in",
    "ingest-jobs": "ingest-jobs",
    "access": "access?subject=looker&action=SUB&type=Topic&resource=orders-in",
    "users": "users",
    "users/:name": "users/till",
    "policies": "policies",
    "policies/:subject": "policies/looker",
    "namespaces": "namespaces",
    "audit": "audit",
    "components": "components",
    "find/:text": "find/orders-in",
}
"""Addresses by route; names in braces are those that the site has made."""
_SHOWN: Final = re.compile(r"^\s*- '?(heading|columnheader|region|group|tab|navigation|textbox|combobox|button)\b.*")
_CHANGING: Final = re.compile(r"\S+/job/lake|[0-9A-Fa-f]{8,}|(?<!level=)\d[\d,.:]*")


def routes() -> list[str]:
    """The routes that the menu has."""
    return re.findall(r'\{ route: "([^"]+)"', MENU.read_text())


def address(site: Site, route: str) -> str:
    return PAGES[route].format(**{key: quote(value, safe="") for key, value in site.names.items()})


def outline(page: Page) -> list[str]:
    """Headings, heads of tables, fields and buttons in their order, each once, without what changes."""
    found = []
    for line in page.locator("main").aria_snapshot().splitlines():
        if _SHOWN.match(line):
            plain = _CHANGING.sub("#", line.strip().removeprefix("- ").strip("':"))
            if plain not in found:
                found.append(plain)
    return found
