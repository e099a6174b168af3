"""Every page at a replicated cluster: its data, its rights, its outline, without rights, and on a phone."""

from __future__ import annotations

import os
import re
from typing import Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE
from tests.browser.group_steps import settled
from tests.browser.real import walk
from tests.browser.replicated.acting import Shown
from tests.browser.replicated.every_page import OUTLINES, PAGES, address, outline, routes
from tests.browser.replicated.site import LOOKER, NOBODY, Site

pytestmark = pytest.mark.interop
EVERY_PAGE: Final = pytest.mark.parametrize("route", PAGES)
BOTH_GATEWAYS: Final = pytest.mark.parametrize("at", [0, 1], ids=["first-gateway", "second-gateway"])
MOST_RIGHTS: Final = 8
"""Most rights that a page may ask for, one after the other."""
LACKING: Final = re.compile(r"([A-Z]+) on (Topic|Group|Cluster|Namespace) '([^']*)' is not allowed")
FOR_SUPER_USERS: Final = "super user"


def assert_accessible(page: Page) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []


def test_every_route_of_the_menu_is_tried() -> None:
    assert sorted(routes()) == sorted(PAGES)


@BOTH_GATEWAYS
@EVERY_PAGE
def test_it_has_its_data_and_is_accessible(shown: Shown, site: Site, route: str, at: int) -> None:
    page = shown(address(site, route), at=site.gateways[at])
    settled(page)
    if route != "components":
        expect(page.locator("main [role=alert]:visible, main .failure:visible")).to_have_count(0)
    assert_accessible(page)
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]


@EVERY_PAGE
def test_its_outline_is_the_kept_one(shown: Shown, site: Site, route: str) -> None:
    """Written anew where ENTREPOT_WRITE_OUTLINES is set: then read the difference."""
    page = shown(address(site, route))
    settled(page)
    kept = OUTLINES / f"{route.replace('/', '_').replace(':', '')}.txt"
    found = "\n".join(outline(page)) + "\n"
    if os.environ.get("ENTREPOT_WRITE_OUTLINES"):
        kept.write_text(found)
    assert found == kept.read_text()


@EVERY_PAGE
def test_every_control_is_reached_by_the_keyboard(shown: Shown, site: Site, route: str) -> None:
    page = shown(address(site, route))
    settled(page)
    page.get_by_role("button", name="Pause", exact=True).click()
    walk(page)


@EVERY_PAGE
def test_it_opens_with_the_rights_that_it_names(shown: Shown, site: Site, route: str, messages: list[str]) -> None:
    """Somebody without rights is given each right that the page asks for, until it shows all, or is for super users."""
    rights: list[str] = []
    while True:
        statements = [{"effect": "ALLOW", "actions": [one], "resources": [on]} for one, _, on in map(parted, rights)]
        user = site.user(f"n{route.replace('/', '-').replace(':', '')}{len(rights)}", *statements)
        page = shown(address(site, route), user)
        settled(page)
        said = " ".join(page.locator("main").get_by_role("alert").all_inner_texts())
        page.close()
        lacking = LACKING.search(said)
        if lacking is None:
            break
        action, kind, name = lacking.groups()
        right = f"{action} {kind}:{name or '*'}"
        assert right not in rights, said
        rights.append(right)
        assert len(rights) <= MOST_RIGHTS
    assert said == "" or FOR_SUPER_USERS in said or route == "components"  # the sheet shows how refusals look
    hide_unknown(route, messages)


def hide_unknown(route: str, messages: list[str]) -> None:
    """Take out what the browser says of a message that a user may not know of: to them it is not there."""
    if route == "journey/:id":
        messages[:] = [each for each in messages if "status of 404" not in each]


def parted(right: str) -> tuple[str, str, str]:
    return right.partition(" ")


@EVERY_PAGE
@pytest.mark.parametrize("user", [LOOKER, NOBODY], ids=["looker", "nobody"])
def test_it_has_no_fault_for_those_with_fewer_rights(
    shown: Shown, site: Site, route: str, user: tuple[str, str], messages: list[str]
) -> None:
    page = shown(address(site, route), user)
    settled(page)
    hide_unknown(route, messages)
    expect(page.get_by_text("The page has a fault of its own")).to_have_count(0)
    if user == LOOKER and route != "components":
        for said in page.locator("main").get_by_role("alert").all_inner_texts():
            assert FOR_SUPER_USERS in said, said
