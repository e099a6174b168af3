"""Actions of the pages: each is refused without its right, and with only that right it is done at every gateway."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import httpx2
from playwright.sync_api import Locator, Page, expect

from tests.browser.replicated.site import GLANCER, GLANCING, LOOKER, LOOKING, Site
from tests.support.waiting import wait_until

Shown: TypeAlias = Callable[..., Page]
"""Opens a page as a user, at a gateway."""

SUPER: Final = "super user"
"""Right that only super users have."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a page, on a thing of its own.

    `at`: the page, where `{name}` is the thing.  `press`: from the shown page to the last button, and nothing of the
    outcome.  `is_done`: asked by a super user at another gateway than the page's.  `rights`: what it takes beside
    looking, as "UPDATE Topic:{name}", or SUPER.  `button`: the first button or box, where it is not offered without the
    right.  `shows`: what the page has then, which tells that it is complete.  `refusal`: what a refusal says, where it
    does not name the right.  `event`: of the audit.  `vanishes`: the page may ask for the thing when it has just ended.
    `undo`: makes the cluster as it was, for those after it.
    """

    id: str
    at: str
    press: Callable[[Page, str], None]
    is_done: Callable[[httpx2.Client, str], bool]
    rights: tuple[str, ...]
    event: str
    prepare: Callable[[Site, str], None] = lambda site, name: None
    button: str | re.Pattern[str] = ""
    refusal: str = ""
    shows: tuple[str, ...] = ()
    vanishes: bool = False
    undo: Callable[[Site, str], None] = lambda site, name: None

    def statements(self, name: str) -> list[dict[str, object]]:
        """A policy of these rights alone."""
        found: list[dict[str, object]] = []
        for right in self.rights:
            action, _, resource = right.format(name=name).partition(" ")
            found.append({"effect": "ALLOW", "actions": [action], "resources": [resource]})
        return found

    @property
    def is_for_super_users(self) -> bool:
        return SUPER in self.rights

    @property
    def takes_reading(self) -> bool:
        """True for what SUB allows: who may only look has none then."""
        return any(right.startswith("SUB ") for right in self.rights)

    @property
    def told(self) -> str:
        """Text that the refusal has in it."""
        return self.refusal or (SUPER if self.is_for_super_users else self.rights[0].partition(" ")[0])


def dialog(page: Page, title: str = "") -> Locator:
    """The open dialog, whose title has this text."""
    found = page.get_by_role("dialog", name=title) if title else page.get_by_role("dialog")
    expect(found).to_be_visible()
    return found


def press(place: Page | Locator, label: str, exact: bool = True) -> None:
    place.get_by_role("button", name=label, exact=exact).click()


def select(page: Page, name: str) -> None:
    """Mark the row of a list."""
    page.get_by_label(f"Select {name}", exact=True).check()


def is_gone(path: str) -> Callable[[httpx2.Client, str], bool]:
    """True once a path with `{name}` is not found."""
    return lambda root, name: root.get(path.format(name=name)).status_code == 404


def is_there(path: str) -> Callable[[httpx2.Client, str], bool]:
    return lambda root, name: root.get(path.format(name=name)).is_success


def has(path: str, **wanted: object) -> Callable[[httpx2.Client, str], bool]:
    """True once the answer of a path has these members."""

    def is_so(root: httpx2.Client, name: str) -> bool:
        answer = root.get(path.format(name=name))
        return answer.is_success and all(answer.json().get(key) == value for key, value in wanted.items())

    return is_so


def everywhere(site: Site, is_so: Callable[[httpx2.Client, str], bool], name: str) -> None:
    """Wait until it is so of the name at both gateways."""
    wait_until(lambda: all(is_so(root, name) for root in site.roots), f"both gateways know {name}")


def try_action(shown: Shown, site: Site, action: Action, at: int) -> None:
    """At a page of one gateway: refused to who may look, done by who has the rights, and known at the other gateway."""
    name = f"{action.id.replace('-', '')}{uuid.uuid4().hex[:6]}"
    site.page_at = at
    action.prepare(site, name)
    name = site.names.get(name, name)
    here, there = site.gateways[at], site.roots[1 - at]
    assert not action.is_done(there, name)
    address = action.at.format(name=quote(name, safe=""))
    refused(shown(address, GLANCER if action.takes_reading else LOOKER, at=here), action, name)
    assert not action.is_done(there, name)
    doer = a_doer(site, action, name)
    page = shown(address, doer, at=here)
    action.press(page, name)
    wait_until(lambda: action.is_done(there, name), lambda: page.locator("body").inner_text())
    wait_until(lambda: is_in_the_audit(site.roots[at], action.event, doer[0]), f"the audit has {action.event}")
    page.close()
    action.undo(site, name)


def refused(page: Page, action: Action, name: str) -> None:
    """The user may look: it is not offered, or the server's refusal is shown and says what it takes."""
    if action.button:
        for text in action.shows:
            expect(page.get_by_role("main").get_by_text(text.format(name=name)).first).to_be_visible()
        label = action.button.format(name=name) if isinstance(action.button, str) else action.button
        box = page.get_by_role("checkbox", name=label, exact=True)
        expect(page.get_by_role("button", name=label, exact=True).or_(box)).to_have_count(0)
    else:
        action.press(page, name)
        told = re.compile(re.escape(action.told))  # a text alone would match in any case: DELETE in "0 were deleted"
        said = page.get_by_role("alert").or_(page.get_by_role("status")).filter(has_text=told)
        expect(said.first).to_be_visible()
    page.close()


def a_doer(site: Site, action: Action, name: str) -> tuple[str, str]:
    """A user who has what it takes, beside looking."""
    user = f"doer-{uuid.uuid4().hex[:8]}"
    if action.is_for_super_users:
        return site.user(user, is_super=True)
    looking = GLANCING if action.takes_reading else LOOKING
    return site.user(user, looking, *action.statements(name))


def is_in_the_audit(root: httpx2.Client, event: str, user: str) -> bool:
    entries: list[dict[str, Any]] = root.get("/api/v1/audit", params={"limit": 100}).json()["value"]
    return any(each["event"] == event and each["subject"] == user for each in entries)
