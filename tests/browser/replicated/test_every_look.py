"""Every look at messages: told what it takes without SUB, shown with it, and in the audit where bodies were seen."""

from __future__ import annotations

import uuid
from typing import Final

import pytest
from playwright.sync_api import expect

from tests.browser.replicated.acting import Shown
from tests.browser.replicated.looks import LOOKS, Look
from tests.browser.replicated.site import TYPES, Site
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop
UNSEEING: Final = {"effect": "ALLOW", "actions": ["GET", "LIST"], "resources": [f"{each}:*" for each in TYPES]}


@pytest.mark.parametrize("at", [0, 1], ids=["first-gateway", "second-gateway"])
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.id)
def test_it_takes_the_right_to_read(shown: Shown, site: Site, look: Look, at: int) -> None:
    name = f"look{look.id}{uuid.uuid4().hex[:6]}"
    look.prepare(site, name)
    here = site.gateways[at]
    blind = site.user(f"blind-{name}", UNSEEING)
    page = shown(look.at.format(name=name), blind, at=here)
    look.open(page, name)
    expect(page.locator("main").get_by_text(look.hidden.format(name=name)).first).to_be_visible()
    expect(page.get_by_role("link", name="Download").or_(page.get_by_role("link", name="Export"))).to_have_count(0)
    assert has_seen(site, blind[0]) == []
    page.close()
    rights = [right.format(name=name).partition(" ")[::2] for right in look.rights]
    statements = [{"effect": "ALLOW", "actions": [action], "resources": [resource]} for action, resource in rights]
    reader = site.user(f"reader-{name}", UNSEEING, *statements)
    page = shown(look.at.format(name=name), reader, at=here)
    look.open(page, name)
    look.sees(site, page, name)
    wait_until(lambda: is_noted(site, look, reader[0]), lambda: f"the audit has {has_seen(site, reader[0])}")
    page.close()


def has_seen(site: Site, user: str) -> list[str]:
    """Details of the user's looks at bodies, of all gateways."""
    asked = {"event": "contents seen", "subject": user}
    entries = site.roots[0].get("/api/v1/audit", params=asked).json()["value"]
    return [each["detail"] for each in entries]


def is_noted(site: Site, look: Look, user: str) -> bool:
    """True if the look is in the audit, or, where it shows no body, nothing is."""
    found = has_seen(site, user)
    return any(look.seen in each for each in found) if look.seen else found == []
