"""The pages of a gateway in front of Apache RocketMQ, with its own answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Opened
from tests.browser.real import settled
from tests.support.http.pull import http_json
from tests.support.processes.deployment import Deployment
from tests.support.rocketmq.in_front import AT_ROCKETMQ, deployment_of

BATCH = {"content-type": "application/cloudevents-batch+json"}
EVENT = {"specversion": "1.0", "id": "e-1", "type": "hello", "source": "/me", "data": {"n": 17}}


@pytest.fixture(scope="module", params=[AT_ROCKETMQ])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployment_of(request)(tmp_path_factory.mktemp("pages")) as running:
        http_json(running, "PUT", "/api/v1/topics/orders", {})
        http_json(running, "PUT", "/api/v1/groups/workers", {})
        http_json(running, "POST", "/topics/orders:publish", [EVENT], BATCH)
        yield running


def test_every_page_of_the_menu_opens_without_a_fault(
    open_page: Opened, server: Deployment, messages: list[str]
) -> None:
    """Messages on the console fail the test, too.  Pages say in words that the engine cannot list something."""
    page = open_page(answers=None)
    settled(page)
    links = page.locator("nav a[href^='#/']").evaluate_all("(all) => all.map((each) => each.getAttribute('href'))")
    links.remove("#/components")
    assert len(links) > 20
    for link in links:
        page.locator(f"nav a[href='{link}']").first.click()
        settled(page)
        if link in ("#/timers", "#/transactions"):
            expect(page.locator("main")).to_contain_text("RocketMQ")
            messages[:] = [said for said in messages if "status of 501" not in said]


def test_a_topic_with_its_message(open_page: Opened, server: Deployment) -> None:
    page = open_page("topics/orders", answers=None)
    settled(page)
    expect(page.get_by_role("heading", level=1)).to_contain_text("orders")
    expect(page.locator("main")).to_contain_text("e-1")
