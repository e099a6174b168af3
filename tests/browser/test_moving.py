"""Webhooks, bridges, event rules and Spark jobs in a browser, of a running server with a real receiver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from entrepot.store_client.blocking import StoreLocation
from tests.browser.conftest import PHONE, Opened
from tests.browser.moving import SETTINGS, publish, report_job, root_of, subscribe
from tests.browser.real import assert_fits, assert_in_the_audit, log_in_as, new_user, settled, walk
from tests.browser.test_shell import assert_accessible
from tests.support.http.webhook_receiver import WebhookReceiver
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

PAGES = (
    "webhooks",
    "webhooks/{id}",
    "bridges",
    "bridges/plant-west",
    "event-rules",
    "event-rules/ruled",
    "ingest-jobs",
)
Shown: TypeAlias = Callable[..., Page]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: ServerProcess) -> Iterator[httpx2.Client]:
    with root_of(server) as client:
        yield client


@pytest.fixture(scope="module")
def receiver() -> Iterator[WebhookReceiver]:
    running = WebhookReceiver()
    running.behave("failing", then={"status": 503})
    yield running
    running.stop()


@pytest.fixture(scope="module")
def failing(root: httpx2.Client, receiver: WebhookReceiver, browser: Browser) -> str:
    """A subscription whose sink fails; its circuit is open."""
    found = subscribe(root, receiver.hook("failing"), handshake="off")
    for number in range(3):
        publish(root, "orders-out", number)

    def is_open() -> bool:
        deliveries = root.get(f"/api/v1/webhooks/{found}").json()["deliveries"]
        return any(each["circuit"]["state"] == "open" for each in deliveries)

    wait_until(is_open, lambda: root.get(f"/api/v1/webhooks/{found}").text)
    return found


@pytest.fixture
def show(open_page: Opened) -> Shown:
    return lambda address, **more: log_in_as(open_page(address, answers=None, **more))


def row(page: Page, name: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))


def test_a_failing_webhook_is_seen(show: Shown, failing: str) -> None:
    page = show("webhooks")
    expect(row(page, failing)).to_contain_text("orders-out")
    expect(row(page, failing)).to_contain_text("open: pauses")
    page.get_by_role("link", name=failing).click()
    expect(page.locator(".kpis dd.num").first).to_have_text("3events")
    expect(page.get_by_role("group", name="Last answers").get_by_text("503").first).to_be_visible()
    expect(page.get_by_text("1 s, 2 s, 4 s, 8 s")).to_be_visible()


def test_a_webhook_is_created_changed_and_deleted(show: Shown, root: httpx2.Client, receiver: WebhookReceiver) -> None:
    page = show("webhooks")
    page.get_by_role("button", name="Create a webhook").first.click()
    dialog = page.get_by_role("dialog", name="Create a webhook")
    dialog.get_by_label("Topic", exact=True).fill("made")
    dialog.get_by_label("Sink", exact=True).fill(receiver.hook("made"))
    dialog.get_by_label("Login at the sink").select_option("PLAIN")
    dialog.get_by_label("Name or client id").fill("ann")
    dialog.get_by_label("Password or token").fill("geheim")
    expect(dialog.get_by_role("group", name="REST")).to_contain_text('"secret":"***"')
    expect(dialog.get_by_role("group", name="REST")).not_to_contain_text("geheim")
    dialog.get_by_role("button", name="Create webhook").click()
    page.get_by_role("link", name="Show it").click()
    expect(page.get_by_text("PLAIN")).to_be_visible()
    publish(root, "made", 1)
    [request] = receiver.wait("made", 1)
    assert request["headers"]["authorization"].startswith("Basic ")
    expect(page.get_by_role("group", name="Last answers").get_by_text("200", exact=True)).to_be_visible()
    page.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Attempts").fill("3")
    dialog.get_by_role("button", name="Change webhook").click()
    expect(page.get_by_text("1 s, 2 s; after 3 attempts")).to_be_visible()
    expect(page.get_by_text("PLAIN")).to_be_visible()
    publish(root, "made", 2)
    assert len({each["headers"]["authorization"] for each in receiver.wait("made", 2)}) == 1, "the login stays"
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete webhook").click()
    expect(page.get_by_role("heading", level=1, name="Webhooks")).to_be_visible()
    assert root.get("/api/v1/webhooks", params={"source": "made"}).json()["value"] == []
    assert_in_the_audit(root, "subscription created", "subscription changed", "subscription deleted")


def test_a_bridge_tells_why_it_is_not_connected(show: Shown) -> None:
    page = show("bridges")
    expect(row(page, "plant-west")).to_contain_text("mqtt://127.0.0.1:9")
    expect(row(page, "old-cluster")).to_contain_text("127.0.0.1:9")
    expect(page.get_by_text("entrepot shovel rabbitmq --from")).to_be_visible()
    page.get_by_role("link", name="plant-west").click()
    expect(page.get_by_text("cannot connect")).to_be_visible()
    expect(page.get_by_role("group", name="Counts by gateway").get_by_role("row")).to_have_count(2)


def test_an_event_rule_is_created_changed_and_deleted(show: Shown, root: httpx2.Client) -> None:
    assert root.put("/api/v1/topics/strict", json={}).status_code == 201
    page = show("event-rules")
    page.get_by_role("button", name="Create an event rule").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Topic", exact=True).fill("strict")
    dialog.get_by_label("JSON Schema of the data").fill('{"maximum": 12345678901234567890}')
    dialog.get_by_role("button", name="Create rule").click()
    page.get_by_role("link", name="strict").click()
    expect(page.get_by_role("group", name="JSON Schema")).to_have_text('{"maximum":12345678901234567890}')
    page.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Known events are dropped for, s").fill("60")
    dialog.get_by_role("button", name="Change rule").click()
    expect(page.get_by_text("are dropped for 1 min")).to_be_visible()
    rule = root.get("/api/v1/topics/strict/event-rules").json()
    assert (rule["dedupSeconds"], rule["schema"]) == (60, {"maximum": 12345678901234567890})
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete rule").click()
    expect(page.get_by_role("heading", level=1, name="Event rules")).to_be_visible()
    assert root.get("/api/v1/topics/strict/event-rules").json()["schema"] is None


def test_jobs_are_shown_and_forgotten(
    show: Shown, server: ServerProcess, root: httpx2.Client, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for number in range(2):
        publish(root, "lake", number)
    folder = tmp_path_factory.mktemp("jobs")
    location = StoreLocation(brokers=(server.address("broker"),))
    report_job(location, folder / "one", "lake")
    report_job(location, folder / "two", "lake", failure="DATA_LOSS: messages are gone")
    page = show("ingest-jobs")
    expect(row(page, f"{folder}/two/lake")).to_contain_text("failed2")
    page.get_by_role("button", name=f"Details of {folder}/two/lake").click()
    expect(page.get_by_role("dialog").get_by_text("DATA_LOSS: messages are gone")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_label("Select job-two").check()
    page.get_by_role("button", name="Forget 1 job").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("group", name="CLI")).to_have_text("entrepot job forget job-two")
    dialog.get_by_role("button", name="Forget 1 job").click()
    expect(page.get_by_text("1 job was forgotten.")).to_be_visible()
    assert [each["id"] for each in root.get("/api/v1/ingest-jobs").json()["value"]] == ["job-one"]
    assert_in_the_audit(root, "job forgotten")


def test_who_has_no_rights_is_told_which(
    open_page: Opened, root: httpx2.Client, failing: str, messages: list[str]
) -> None:
    page = log_in_as(open_page("bridges", answers=None), new_user(root, []))
    expect(page.get_by_text("LIST on Cluster")).to_have_count(2)  # of either kind
    page.goto(page.url.partition("#")[0] + "#/webhooks")
    expect(page.get_by_role("heading", name="No webhooks")).to_be_visible()
    page.goto(page.url.partition("#")[0] + f"#/webhooks/{failing}")
    expect(page.get_by_text("to consume the topic of subscription")).to_be_visible()
    assert {message.partition(":")[0] for message in messages} == {"error"}
    messages.clear()


@pytest.mark.parametrize("address", PAGES)
def test_pages_are_accessible_and_fit_a_phone(show: Shown, root: httpx2.Client, failing: str, address: str) -> None:
    root.put("/api/v1/topics/ruled", json={})
    assert root.put("/api/v1/topics/ruled/event-rules", json={"schema": {"type": "object"}}).status_code == 200
    page = show(address.format(id=failing))
    settled(page)
    assert_accessible(page)
    page.emulate_media(color_scheme="dark")
    assert_accessible(page)
    walk(page)
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert_fits(page, PHONE[0])
