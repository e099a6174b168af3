"""Pages in trouble: 5 s of latency, brokers that are away, a gateway that is lost, and ten tabs."""

from __future__ import annotations

import re
from typing import Final

import pytest
from playwright.sync_api import BrowserContext, Page, Request, expect

from tests.browser.group_steps import settled
from tests.browser.replicated.acting import Shown
from tests.browser.replicated.every_page import PAGES, address
from tests.browser.replicated.site import Site, in_sync
from tests.support.processes.slow_proxy import SlowProxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop
LATENCY_SECONDS: Final = 5.0
FORMS: Final = (
    "topics",
    "topics/:name",
    "groups/:name",
    "cluster",
    "clients",
    "journey/:id",
    "access",
    "queues",
    "users",
)
"""Pages of each kind: lists, one thing, a timeline, a tester."""
TABS: Final = 10
NO_ANSWER: Final = re.compile(r"status of 50[0-4]|net::ERR_(CONNECTION|EMPTY_RESPONSE|INCOMPLETE)")
TROUBLE: Final = ".banner, [role=alert]"
AWAY: Final = re.compile("broker-0 is away|^away: broker 'broker-0'")


@pytest.fixture
def quiet(expected: list[re.Pattern[str]]) -> None:
    """The browser tells of answers that failed, as the pages do."""
    expected.append(NO_ANSWER)


def tab(context: BrowserContext, first: Page, where: str, messages: list[str]) -> Page:
    """One more tab of a browser that is logged in."""
    page = context.new_page()
    page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: messages.append(f"error: {error}"))
    page.goto(f"{first.url.partition('#')[0]}#/{where}", wait_until="commit")
    return page


@pytest.mark.parametrize("route", FORMS)
def test_a_slow_way_is_said_and_waited_for(shown: Shown, site: Site, route: str) -> None:
    with SlowProxy(site.gateways[0].port("http")) as way:
        page = shown("components", at=way)
        page.get_by_role("button", name="Pause", exact=True).click()
        way.delay_seconds = LATENCY_SECONDS
        page.evaluate("(address) => { location.hash = `#/${address}`; }", address(site, route))
        expect(page.locator("main [aria-busy=true]:visible").first).to_contain_text(re.compile(r"asking .+, \d\.\d s"))
        settled(page)
        expect(page.locator("main [role=alert]:visible")).to_have_count(0)
        page.close()


BATCH: Final = 12
"""Tabs that are open at one time."""
BATCHES: Final = [list(PAGES)[at : at + BATCH] for at in range(0, len(PAGES), BATCH)]
OF_THE_GATEWAYS: Final = frozenset(
    {
        "settings", "exchanges", "exchanges/:vhost/:name", "bindings", "queue-policies", "journey", "clients",
        "connected-clients", "clients/:id", "subscriptions", "slow-subscribers", "amqp-connections",
        "amqp-connections/:name", "rocketmq-clients", "webhooks", "webhooks/:id", "bridges", "bridges/:name",
        "event-rules", "event-rules/:topic", "access", "users", "users/:name", "policies", "policies/:subject",
        "namespaces", "audit",
    }
)  # fmt: skip
"""Pages whose data gateways have themselves: they go on without brokers."""


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("routes", BATCHES, ids=["a", "b", "c", "d"])
def test_without_brokers_each_page_says_so_and_comes_back_by_itself(
    shown: Shown, site: Site, routes: list[str], messages: list[str]
) -> None:
    first = shown("access")
    [slave, *_] = [each for each in site.cluster.brokers if each is not master_of(site)]
    slave.kill()
    tabs = {route: tab(first.context, first, address(site, route), messages) for route in routes}
    for page in tabs.values():
        settled(page)
    without_trouble(tabs)
    for broker in site.cluster.brokers:
        broker.kill()
    for page in tabs.values():
        page.reload(wait_until="commit")
    for route, page in tabs.items():
        settled(page)
        expect(page.get_by_text("The page has a fault of its own")).to_have_count(0)
        if route not in OF_THE_GATEWAYS and route != "components":
            said = page.locator("main").locator(TROUBLE).or_(page.locator("main").get_by_text(AWAY))
            expect(said.first).to_be_visible()
    for broker in site.cluster.brokers:
        broker.begin()
    for broker in site.cluster.brokers:
        broker.wait_ready()
    wait_until(lambda: in_sync(site.roots[0]) == 3, "all replicas are in sync")
    without_trouble(tabs)


def master_of(site: Site) -> object:
    [broker] = site.roots[0].get("/api/v1/brokers").json()["value"]
    [master] = [each["replica"] for each in broker["replicas"] if each["role"] == "master"]
    return site.cluster.replica(master)


def without_trouble(tabs: dict[str, Page]) -> None:
    """No page lacks an answer, though one may tell of a replica that is away."""
    for route, page in tabs.items():
        if route != "components":
            said = page.locator("main").locator(TROUBLE).locator("visible=true")
            wait_until(lambda said=said: said.count() == 0, lambda page=page: f"{page.url}: {said_on(page)}")  # type: ignore[misc]


def said_on(page: Page) -> str:
    return page.locator("main").inner_text()


@pytest.mark.usefixtures("quiet")
def test_ten_tabs_share_one_stream_and_come_back_with_their_gateway(
    shown: Shown, site: Site, messages: list[str]
) -> None:
    first = shown("overview", at=site.gateways[1])
    open_streams: list[Request] = []
    first.context.on("request", lambda each: open_streams.append(each) if "overview:watch" in each.url else None)
    for ending in ("requestfinished", "requestfailed"):
        first.context.on(ending, lambda each: open_streams.remove(each) if each in open_streams else None)
    tabs = [first, *(tab(first.context, first, "overview", messages) for _ in range(TABS - 1))]
    for page in tabs:
        expect(page.get_by_text(re.compile("^live · "))).to_be_visible()
    assert len(open_streams) <= 1  # the first tab's began before anybody counted
    site.cluster.gateways[1].kill()
    for page in tabs:
        expect(page.get_by_text("The connection is lost.")).to_be_visible()
    site.cluster.gateways[1].start()
    for page in tabs:
        expect(page.get_by_text(re.compile("^live · "))).to_be_visible()
        expect(page.get_by_text("The connection is lost.")).to_have_count(0)
    assert len(open_streams) == 1
