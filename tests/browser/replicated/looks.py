"""Looks at messages: each takes SUB, beside GET and LIST, and those at bodies are in the audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from playwright.sync_api import Locator, Page, expect

from tests.browser import group_steps
from tests.browser.group_steps import DEAD, row
from tests.browser.replicated.acting import press
from tests.browser.replicated.message_steps import TOPIC, gives_up, known, makes, retains, schedules
from tests.browser.replicated.site import Site

LONG: Final = "x" * 100_000
"""Text of a body that is longer than what is shown of it."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at what a user may get and list.

    `at`: the page, where `{name}` is the thing.  `open`: from the shown page to what the right decides.  `hidden`: what
    is said without it.  `sees`: expects what is seen with it.  `seen`: detail of the audit; empty: none, of no body.
    """

    id: str
    at: str
    prepare: Callable[[Site, str], None]
    rights: tuple[str, ...]
    hidden: str
    sees: Callable[[Site, Page, str], None]
    seen: str = ""
    open: Callable[[Page, str], None] = lambda page, name: None


def keeps_a_message(site: Site, name: str) -> None:
    """A topic with a message that names it."""
    makes(TOPIC, queues=1)(site, name)
    group_steps.publish(site.roots[0], name, group_steps.event(1, data={"to": name, "text": LONG}))


def prepares(site: Site, name: str) -> None:
    """A half message."""
    group_steps.prepare(site.gateways[0], name)
    known(site, TOPIC.format(name=name), f"/api/v1/transactions?topic={name}")


def choose(page: Page, name: str) -> None:
    page.get_by_role("group", name="Messages").locator("tbody button").first.click()


def body(page: Page) -> Locator:
    return page.locator(".message").get_by_role("group", name="Body")


def downloaded(page: Page, label: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("link", name=label).click()
    return Path(download.value.path()).read_text()


def sees_the_body(site: Site, page: Page, name: str) -> None:
    expect(body(page)).to_contain_text(name)
    expect(page.get_by_text("first 1 KiB of")).to_be_visible()


def sees_more(site: Site, page: Page, name: str) -> None:
    press(page.locator(".message"), "Show 64 KiB")
    expect(page.get_by_text("first 64 KiB of")).to_be_visible()


def downloads_it(site: Site, page: Page, name: str) -> None:
    text = downloaded(page, "Download")
    assert name in text
    assert LONG in text


def finds_it(site: Site, page: Page, name: str) -> None:
    expect(page.get_by_role("group", name="Messages").locator("tbody tr")).to_have_count(1)


def sees_new_ones(site: Site, page: Page, name: str) -> None:
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    group_steps.publish(site.roots[0], name, group_steps.event(2))
    expect(page.get_by_role("group", name="New messages").locator("tbody tr")).to_have_count(1)


def sees_dead_letters(site: Site, page: Page, name: str) -> None:
    expect(row(page, "Dead letters", "rejected")).to_have_count(3)


def exports_them(site: Site, page: Page, name: str) -> None:
    assert len(downloaded(page, "Export as NDJSON").splitlines()) == DEAD


def sees_a_dead_body(site: Site, page: Page, name: str) -> None:
    press(page, "Show 1")
    expect(body(page)).to_contain_text('"n": 1')


def sees_a_retained_body(site: Site, page: Page, name: str) -> None:
    press(page, f"{name}/1")
    expect(page.get_by_role("dialog").get_by_role("group", name="Body")).to_have_text(name)


def sees_a_row(region: str) -> Callable[[Site, Page, str], None]:
    return lambda site, page, name: expect(row(page, region, name)).to_have_count(1)


OF_TOPIC: Final = ("SUB Topic:{name}/#",)
OF_GROUP: Final = ("SUB Group:{name}",)
NEEDS: Final = "need the right SUB on all of the topic"
TOPIC_REFUSED: Final = "SUB on Topic '{name}/#' is not allowed"
GROUP_REFUSED: Final = "SUB on Group '{name}' is not allowed"
RETAINED: Final = "retained?filter={name}/%23"

LOOKS: Final = (
    Look("body", "topics/{name}", keeps_a_message, OF_TOPIC, NEEDS, sees_the_body, "1 body", choose),
    Look("more", "topics/{name}", keeps_a_message, OF_TOPIC, NEEDS, sees_more, "1 body", choose),
    Look("download", "topics/{name}", keeps_a_message, OF_TOPIC, NEEDS, downloads_it, ": download", choose),
    Look("search", "topics/{name}?bodyText={name}", keeps_a_message, OF_TOPIC, TOPIC_REFUSED, finds_it, "1 body"),
    Look("live", "topics/{name}?tab=live", keeps_a_message, OF_TOPIC, TOPIC_REFUSED, sees_new_ones, "watch, at most"),
    Look("letters", "dead-letters/{name}", gives_up, OF_GROUP, GROUP_REFUSED, sees_dead_letters),
    Look("export", "dead-letters/{name}", gives_up, OF_GROUP, GROUP_REFUSED, exports_them, f"export of {DEAD} bodies"),
    Look("letter", "dead-letters/{name}", gives_up, (*OF_GROUP, "SUB Topic:%DLQ%{name}/#"), GROUP_REFUSED,
         sees_a_dead_body, "1 body"),
    Look("retained", RETAINED, retains, OF_TOPIC, TOPIC_REFUSED, sees_a_retained_body, "1 retained body"),
    Look("timers", "timers?topic={name}", schedules, OF_TOPIC, TOPIC_REFUSED, sees_a_row("Timers")),
    Look("transactions", "transactions?topic={name}", prepares, OF_TOPIC, TOPIC_REFUSED, sees_a_row("Half messages")),
)  # fmt: skip
