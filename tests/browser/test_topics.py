"""Topics in a browser, of a real server that its doors filled: the list, the viewer, groups, settings, watches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.answers import HOSTILE
from tests.browser.conftest import PHONE, Opened
from tests.browser.test_real_login import log_in
from tests.browser.test_shell import assert_accessible, shown
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.http.client import http_client
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until

ROOT: Final = "root"
PASSWORD: Final = "correct horse battery"
SETTINGS: Final = {
    "security.initial_admin": ROOT,
    "security.initial_admin_password": PASSWORD,
    **CHEAP_FLAGS,
    "http.masked_fields": '[{"topic": "cards", "fields": ["pan"]}]',
}
LONG: Final = b'{"lines": ["' + b"x" * 200_000 + b'"]}'
NO_UTF8: Final = bytes(range(256)) * 8
BIG: Final = b'{"order": 12345678901234567890, "lines": [{"sku": "a<b>"}, []]}'
TABS: Final = ("messages", "groups", "queues", "settings", "try", "live")
PAGES: Final = ("topics", *(f"topics/orders?tab={tab}" for tab in TABS))

Shown = Callable[..., Page]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: ServerProcess) -> Iterator[httpx2.Client]:
    with http_client(f"http://127.0.0.1:{server.port('http')}", auth=(ROOT, PASSWORD)) as client:
        for topic in ("orders", "cards", "bodies", "long"):
            assert client.put(f"/api/v1/topics/{topic}", json={"queues": 1}).status_code == 201
        publish(client, "orders", 1, BIG)
        publish(client, "orders", HOSTILE.replace("\x00", ""), b"plain text")
        publish(client, "orders", 3, b'{"total": 120}', colour="red")
        publish(client, "cards", 1, b'{"pan": "4111", "name": "***"}')
        publish(client, "cards", 2, b"pan=4111", "text/plain")
        publish(client, "bodies", 1, LONG)
        publish(client, "bodies", 2, NO_UTF8, "application/octet-stream")
        receive(client, "orders", "billing")
        user(client, "eye", "GET")
        user(client, "reader", "GET", "SUB")
        user(client, "nobody")
        yield client


def publish(
    client: httpx2.Client, topic: str, key: object, body: bytes, kind: str = "application/json", **more: str
) -> None:
    identity = {"specversion": "1.0", "id": quoted(str(key)), "type": "t", "source": "/shop", **more}
    headers = {f"ce-{name}": value for name, value in identity.items()}
    answer = client.post(f"/topics/{topic}:publish", headers={**headers, "content-type": kind}, content=body)
    assert answer.is_success, answer.text


def quoted(text: str) -> str:
    """A CloudEvents attribute in a header: what is not ASCII is percent-encoded."""
    return "".join(sign if sign.isascii() else "".join(f"%{byte:02X}" for byte in sign.encode()) for sign in text)


def receive(client: httpx2.Client, topic: str, group: str) -> None:
    answer = client.post(f"/topics/{topic}/eventsubscriptions/{group}:receive", params={"maxEvents": 1})
    assert len(answer.json()["value"]) == 1, answer.text


def user(client: httpx2.Client, name: str, *actions: str) -> None:
    assert client.put(f"/api/v1/users/{name}", json={"password": PASSWORD}).status_code == 201
    statements = [{"effect": "ALLOW", "actions": list(actions), "resources": ["Topic:#", "Topic:*"]}] if actions else []
    assert client.put(f"/api/v1/acls/{name}", json={"statements": statements}).is_success


@pytest.fixture
def show(open_page: Opened, root: httpx2.Client) -> Shown:
    """Opens a page as a user: `show("topics", user="eye")`."""

    def opened(address: str, user: str = ROOT, **options: Any) -> Page:
        page = open_page(address, answers=None, **options)
        log_in(page, user, PASSWORD)
        expect(page.locator("nav.nav")).to_be_attached()
        return page

    return opened


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))


def choose(page: Page, at: int) -> Locator:
    """Choose the message at a line of the list; the panel of it."""
    page.get_by_role("group", name="Messages").locator("tbody button").nth(at).click()
    return page.locator(".message")


def look(page: Page, **values: str) -> Locator:
    """Fill in what to look for, and look; the lines of the list."""
    for label, value in values.items():
        field = page.get_by_label(label.replace("_", " "), exact=True)
        if field.evaluate("each => each.localName") == "select":
            field.select_option(value)
        else:
            field.fill(value)
    page.get_by_role("button", name="Look").click()
    return page.get_by_role("group", name="Messages").locator("tbody tr")


def take_refusals(messages: list[str]) -> int:
    """Take out what the browser says of refusals: those of the test, and those of the overview, which needs a right."""
    refused = [said for said in messages if "status of 403" in said]
    messages[:] = [said for said in messages if said not in refused]
    return len(refused)


def audited(root: httpx2.Client, text: str) -> bool:
    return text in root.get("/api/v1/audit", params={"limit": 200}).text


def test_a_topic_is_found_in_the_list_and_its_messages_are_read(show: Shown) -> None:
    page = show("topics")
    expect(row(page, "bodies").locator("td").nth(4)).to_have_text("2")
    page.get_by_label("Name contains").fill("ord")
    expect(page.get_by_role("rowheader")).to_have_text(["orders"])
    page.get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", level=1, name="orders")).to_be_visible()
    message = choose(page, 2)
    expect(message.locator("pre")).to_have_text(
        '{\n  "order": 12345678901234567890,\n  "lines": [\n    {\n      "sku": "a<b>"\n    },\n    []\n  ]\n}'
    )
    expect(message.get_by_role("heading")).to_be_focused()
    message.get_by_role("button", name="Back to the list").click()
    expect(page.locator("tr.sel button")).to_be_focused()


@pytest.mark.interop
def test_pages_order_and_kinds_are_those_of_the_server(show: Shown, root: httpx2.Client) -> None:
    for number in range(60):
        assert root.put(f"/api/v1/topics/many-{number:03}", json={"queues": 1}).status_code == 201
    publish(root, "many-031", 1, b"1")
    page = show("topics?contains=many-")
    expect(page.get_by_role("rowheader")).to_have_count(50)
    expect(page.get_by_text("60 topics fit the filter")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("rowheader")).to_have_text([f"many-{number:03}" for number in range(50, 60)])
    page.get_by_role("button", name="Messages", exact=True).click()
    expect(page.get_by_role("rowheader").first).to_have_text("many-031")
    page.get_by_label("Type").select_option("PRIORITY")
    expect(page.get_by_role("heading", name="No topics fit the filter")).to_be_visible()
    page.get_by_role("button", name="Clear the filter").click()
    expect(page.get_by_label("Kind")).to_have_value("normal")
    expect(page.get_by_role("rowheader")).to_have_count(50)
    page.get_by_label("Kind").select_option("deadLetter")
    expect(page.get_by_role("heading", name="No topics fit the filter")).to_be_visible()


@pytest.mark.interop
def test_rates_are_those_between_two_answers(show: Shown, root: httpx2.Client) -> None:
    page = show("topics?contains=orders")
    rate = row(page, "orders").locator("td").nth(2)
    expect(rate).to_have_text("counting")
    for number in range(50):
        publish(root, "orders", f"r{number}", b"1")
    wait_until(lambda: rate.inner_text() not in ("counting", "0") or None, "a rate above 0")
    assert 0 < float(rate.inner_text()) <= 50


@pytest.mark.interop
def test_a_topic_is_created_changed_and_deleted(show: Shown, root: httpx2.Client) -> None:
    page = show("topics")
    page.get_by_role("button", name="Create a topic").click()
    dialog = page.get_by_role("dialog", name="Create a topic")
    dialog.get_by_label("Name").fill("orders")
    dialog.get_by_role("button", name="Create topic").click()
    expect(dialog.get_by_text("there is a topic orders already")).to_be_visible()
    dialog.get_by_label("Name").fill("returns")
    dialog.get_by_label("Queues", exact=True).fill("3")
    dialog.get_by_label("Longest backlog").fill("70")
    expect(dialog.get_by_label("CLI", exact=True)).to_have_text(
        "entrepot topic create returns --queues 3 --max-backlog 70"
    )
    dialog.get_by_role("button", name="Create topic").click()
    page.get_by_role("link", name="Show it").click()
    page.locator("main").get_by_role("link", name="Settings").click()
    page.get_by_label("Longest backlog").fill("")
    page.get_by_label("Retention, seconds").fill("3600")
    page.get_by_label("Permission").select_option("READ")
    page.get_by_label("Placement").fill("broker")
    page.get_by_role("button", name="Change topic").click()
    expect(page.get_by_text("placement: must be brokers with their queues")).to_be_visible()
    page.get_by_label("Placement").fill("")
    calls = page.get_by_label("CLI", exact=True)
    expect(calls).to_have_text(
        "entrepot topic update returns --permission READ --retention-seconds 3600 --max-backlog none"
    )
    page.get_by_role("button", name="Change topic").click()
    expect(page.get_by_text("3 fields of the topic changed")).to_be_visible()
    expect(page.get_by_text("kept 1 h")).to_be_visible()
    found = root.get("/api/v1/topics/returns").json()
    kept = (found["queues"], found["retentionSeconds"], found["maxBacklog"], found["permission"])
    assert kept == (3, 3600, None, "READ")
    page.get_by_role("button", name="Delete").click()
    question = page.get_by_role("dialog")
    expect(question.get_by_text("It holds 0 messages.")).to_be_visible()
    act = question.get_by_role("button", name="Delete topic")
    expect(act).to_be_disabled()
    question.get_by_label("Type returns to go on").fill("returns")
    act.click()
    expect(page.get_by_text("The topic returns was deleted.")).to_be_visible()
    assert root.get("/api/v1/topics/returns").status_code == 404
    events = {each["event"] for each in root.get("/api/v1/audit").json()["value"] if "returns" in json.dumps(each)}
    assert len(events) == 3, events


@pytest.mark.interop
def test_messages_are_found_by_place_key_id_text_and_filter(show: Shown, root: httpx2.Client) -> None:
    page = show("topics/orders")
    expect(page.get_by_role("group", name="Messages")).to_be_visible()
    page.get_by_role("button", name="Offset", exact=True).click()
    expect(look(page, Queue="0", Offset="1", Order="forward").first).to_contain_text("plain text")
    expect(page.get_by_text("the queue has offsets 0 to ")).to_be_visible()
    assert "offset=1" in page.url
    page.get_by_role("button", name="Key", exact=True).click()
    expect(look(page, Key="3")).to_have_count(1)
    expect(page.get_by_text("that is all")).to_be_visible()
    page.get_by_role("button", name="Newest").click()
    expect(look(page, Queue="", Text_in_bodies="PLAIN")).to_have_count(1)
    expect(look(page, Text_in_bodies="", Text_in_headers="RED")).to_have_count(1)
    expect(look(page, Text_in_headers="", Filter_by="SQL92", Filter="ce_colour = 'red'")).to_have_count(1)
    found = root.get("/api/v1/topics/orders/messages", params={"key": "3"}).json()["value"][0]
    page.get_by_role("button", name="Id", exact=True).click()
    expect(look(page, Message_id=found["id"])).to_have_count(1)
    page.get_by_role("button", name="Time", exact=True).click()
    expect(look(page, Stored_before="2020-01-01T00:00:00Z", Filter="")).to_have_count(0)
    expect(page.get_by_role("heading", name="No message was found")).to_be_visible()


@pytest.mark.interop
def test_a_search_goes_on_where_it_ended(show: Shown, root: httpx2.Client) -> None:
    events = [
        {"specversion": "1.0", "id": str(number), "type": "t", "source": "/shop", "data": {"n": number}}
        for number in range(1200)
    ]
    for at in range(0, len(events), 600):
        kind = {"content-type": "application/cloudevents-batch+json"}
        answer = root.post("/topics/long:publish", json=events[at : at + 600], headers=kind)
        assert answer.is_success, answer.text
    page = show("topics/long?bodyText=%7B%22n%22%3A7%7D")
    expect(page.get_by_text("looked at 1,000")).to_be_visible()
    expect(page.get_by_text("There are more to look at: go on.")).to_be_visible()
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("group", name="Messages").locator("tbody tr")).to_have_count(1)
    expect(page.get_by_text("looked at 1,200")).to_be_visible()
    page.goto(page.url.partition("?")[0])
    lines = page.get_by_role("group", name="Messages").locator("tbody tr")
    expect(lines).to_have_count(50)
    page.get_by_role("button", name="Go on").focus()
    page.keyboard.press("Enter")
    expect(lines).to_have_count(100)
    expect(page.get_by_role("button", name="Go on")).to_be_focused()


@pytest.mark.interop
def test_a_long_body_is_shown_in_part_and_downloaded_whole(show: Shown, root: httpx2.Client, tmp_path: Path) -> None:
    page = show("topics/bodies")
    message = choose(page, 1)
    expect(message.get_by_text("first 1 KiB of 195 KiB")).to_be_visible()
    expect(message.locator("pre")).to_contain_text('"lines": [\n    "xxx')
    message.get_by_role("button", name="Show 64 KiB").click()
    expect(message.get_by_text("first 64 KiB of 195 KiB")).to_be_visible()
    assert len(message.locator("pre").inner_text()) > 60_000
    with page.expect_download() as download:
        message.get_by_role("link", name="Download").click()
    saved = tmp_path / "body"
    download.value.save_as(saved)
    assert saved.read_bytes() == LONG
    assert audited(root, "download")


@pytest.mark.interop
def test_bytes_that_are_no_text_are_shown_in_hex(show: Shown) -> None:
    page = show("topics/bodies")
    message = choose(page, 0)
    expect(message.locator("pre")).to_contain_text("000010  10 11 12 13")
    message.get_by_role("button", name="Text").click()
    expect(message.get_by_text("The bytes are not text in UTF-8: see Hex.")).to_be_visible()
    message.get_by_role("button", name="JSON").click()
    expect(message.get_by_text("The bytes are not text")).to_be_visible()
    message.get_by_role("button", name="Headers").click()
    expect(message.get_by_role("row", name="ce_source /shop")).to_be_visible()
    message.get_by_role("button", name="Attributes").click()
    expect(message.get_by_role("group", name="Attributes")).to_contain_text("application/octet-stream")


@pytest.mark.interop
def test_names_of_others_are_text(show: Shown) -> None:
    page = show("topics/orders?by=offset&queue=0&offset=1&direction=forward")
    expect(page.get_by_role("group", name="Messages").locator("tbody tr").first).to_contain_text("a<b>U+202Egnp")
    message = choose(page, 0)
    message.get_by_role("button", name="Headers").click()
    expect(message.get_by_role("row", name="ce_id")).to_contain_text("a<b>U+202Egnp")
    assert page.locator("main b b, main script").count() == 0


@pytest.mark.interop
def test_masked_and_hidden_bodies_are_said(show: Shown, messages: list[str]) -> None:
    page = show("topics/cards", user="reader")
    expect(choose(page, 0).get_by_text("A rule masks fields of it")).to_be_visible()
    masked = choose(page, 1)
    expect(masked.locator("pre .masked").first).to_have_text("masked")
    expect(masked.locator("pre")).not_to_contain_text("4111")
    expect(masked.get_by_text("Fields are masked by a rule of the settings.")).to_be_visible()
    page = show("topics/cards", user=ROOT)
    expect(choose(page, 1).locator("pre")).to_contain_text('"pan": "4111"')
    take_refusals(messages)


@pytest.mark.interop
def test_who_may_not_is_told_the_right(show: Shown, messages: list[str]) -> None:
    page = show("topics/orders", user="eye")
    message = choose(page, 0)
    expect(message.get_by_text("need the right SUB on all of the topic").first).to_be_visible()
    assert message.get_by_role("link", name="Download").count() == 0
    look(page, Text_in_bodies="x")
    expect(page.get_by_role("alert").get_by_text("SUB")).to_be_visible()
    page.get_by_role("link", name="Live").click()
    expect(page.get_by_role("alert").get_by_text("SUB")).to_be_visible()
    page.get_by_role("link", name="Try one").click()
    page.get_by_role("button", name="Publish to orders").click()
    expect(page.get_by_role("alert").get_by_text("PUB")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("Type orders to go on").fill("orders")
    page.get_by_role("button", name="Delete topic").click()
    expect(page.get_by_role("alert").get_by_text("DELETE")).to_be_visible()
    page = show("topics", user="nobody")
    expect(page.get_by_text("0 topics")).to_be_visible()
    page.goto(f"{page.url.partition('#')[0]}#/topics/orders")
    expect(page.get_by_role("alert").get_by_text("GET")).to_be_visible()
    assert take_refusals(messages) >= 5


@pytest.mark.interop
def test_groups_and_queues_of_a_topic(show: Shown, root: httpx2.Client) -> None:
    receive(root, "orders", "reports")  # now: what is in flight comes back after a while
    page = show("topics/orders?tab=groups")
    reports = row(page, "reports")
    expect(reports.locator("td").nth(2)).to_have_text("1")
    expect(reports.locator("svg rect")).to_have_count(1)
    expect(row(page, "billing")).to_be_visible()
    page.get_by_role("link", name="Queues", exact=True).click()
    expect(row(page, "0").locator("td").nth(0)).to_have_text("0")
    page.get_by_role("link", name="Look").click()
    expect(page.get_by_text("the queue has offsets 0 to ")).to_be_visible()
    page = show("topics/bodies?tab=groups")
    expect(page.get_by_role("heading", name="No group reads this topic")).to_be_visible()


@pytest.mark.interop
@pytest.mark.parametrize("door", ["HTTP, CloudEvents", "MQTT", "AMQP 0-9-1", "RocketMQ"])
def test_a_test_message_by_each_door(show: Shown, root: httpx2.Client, door: str) -> None:
    page = show("topics/orders?tab=try")
    page.get_by_role("button", name=door).click()
    text = f"by {door}"
    data = page.get_by_label("Data" if door.startswith("HTTP") else "Body", exact=True)
    data.fill(json.dumps({"text": text}))
    expect(page.get_by_label("REST", exact=True)).to_contain_text("POST /api/v1/messages:try")
    page.get_by_role("button", name="Publish to orders").click()
    expect(page.get_by_text("1 message was published.")).to_be_visible()
    page.get_by_role("status").get_by_role("link", name="orders queue 0").click()
    expect(page.get_by_role("group", name="Messages").locator("tbody tr").first).to_contain_text(text)
    assert audited(root, "test message published")


@pytest.mark.interop
def test_a_test_message_that_cannot_be_is_refused_at_its_field(show: Shown) -> None:
    page = show("topics/orders?tab=try")
    page.get_by_label("Data").fill("{")
    page.get_by_role("button", name="Publish to orders").click()
    expect(page.locator(".field.wrong")).to_contain_text("is not JSON")
    page.get_by_role("button", name="AMQP").click()
    page.get_by_label("Exchange").fill("")
    page.get_by_label("Routing key").fill("no-such-queue")
    page.get_by_role("button", name="Publish to orders").click()
    expect(page.get_by_text("No queue took the message.")).to_be_visible()


@pytest.mark.interop
def test_new_messages_are_watched_live(show: Shown, root: httpx2.Client) -> None:
    page = show("topics/orders?tab=live")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    lines = page.get_by_role("group", name="New messages").locator("tbody tr")
    publish(root, "orders", "l1", b'{"new": 1}')
    expect(lines).to_have_count(1)
    lines.locator("button").first.click()
    expect(page.locator(".message pre")).to_contain_text('"new": 1')
    lines.first.hover()
    publish(root, "orders", "l2", b'{"new": 2}')
    page.get_by_role("button", name="Show 1 new").click()
    expect(lines).to_have_count(2)
    page.get_by_role("button", name="Pause the watch").click()
    expect(page.get_by_text("paused: what comes now is not shown")).to_be_visible()
    publish(root, "orders", "l3", b'{"new": 3}')
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.get_by_label("Only messages with this text").fill("wanted")
    expect(page.get_by_label("CLI", exact=True)).to_have_text("entrepot message watch orders --rate 10 --text wanted")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    publish(root, "orders", "l4", b'{"new": 4}')
    publish(root, "orders", "l5", b'{"wanted": 5}')
    expect(lines).to_have_count(3)
    expect(lines.first).to_contain_text("wanted")
    page.get_by_label("Only messages with this text").fill("")
    wait_until(lambda: flooded(page, root) or None, "messages that are left out")


def flooded(page: Page, root: httpx2.Client) -> bool:
    """Publish more than are shown in a second; True once the page says so."""
    for number in range(60):
        publish(root, "orders", f"f{number}", b"1")
    return "left out" in page.locator("main").inner_text()


@pytest.mark.interop
def test_a_lost_watch_is_begun_again(show: Shown, root: httpx2.Client, messages: list[str]) -> None:
    page = show("topics/orders")
    page.route("**/orders:watch*", lambda route: route.fulfill(status=503, json={"status": 503, "detail": "it drains"}))
    page.get_by_role("link", name="Live").click()
    expect(page.get_by_text("lost: tries again at")).to_be_visible()
    page.unroute("**/orders:watch*")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    publish(root, "orders", "again", b'{"again": 1}')
    expect(page.get_by_role("group", name="New messages").locator("tbody tr").first).to_contain_text("again")
    assert all("status of 503" in said for said in messages)
    messages.clear()


@pytest.mark.interop
def test_topics_of_a_namespace(show: Shown, root: httpx2.Client) -> None:
    assert root.put("/api/v1/namespaces/team", json={}).status_code == 201
    assert root.put("/api/v1/namespaces/team/topics/tasks", json={"queues": 1}).status_code == 201
    page = show("topics?namespace=team")
    page.get_by_role("link", name="tasks").click()
    page.get_by_role("link", name="Try one").click()
    page.get_by_role("button", name="Publish to tasks").click()
    page.get_by_role("status").get_by_role("link", name="tasks queue 0").click()
    message = choose(page, 0)
    expect(message.get_by_text("tasks of team, queue 0")).to_be_visible()
    expect(message.locator("pre")).to_contain_text('"test": true')


@pytest.mark.interop
def test_the_find_box_finds_a_topic(show: Shown) -> None:
    page = show("overview")
    page.get_by_role("searchbox").first.fill("orders")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="topic orders")).to_be_visible()


@pytest.mark.interop
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(show: Shown, scheme: str) -> None:
    page = show(PAGES[0], scheme=scheme)
    for address in PAGES:
        page.goto(f"{page.url.partition('#')[0]}#/{address}")
        shown(page)
        expect(page.locator(".panel").first).to_be_visible()
        if address.endswith("messages"):
            choose(page, 0)
        assert_accessible(page)


@pytest.mark.interop
def test_a_phone_scrolls_in_one_direction(show: Shown) -> None:
    page = show(PAGES[0], size=PHONE)
    for address in PAGES:
        page.goto(f"{page.url.partition('#')[0]}#/{address}")
        shown(page)
        expect(page.locator(".panel").first).to_be_visible()
        if address.endswith("messages"):
            choose(page, 0)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0], address


@pytest.mark.interop
def test_the_viewer_is_used_by_keyboard(show: Shown) -> None:
    page = show("topics/orders")
    expect(page.get_by_role("group", name="Messages")).to_be_visible()
    page.get_by_role("button", name="Look").focus()
    for _ in range(3):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.matches(':focus-visible')")
    page.keyboard.press("Tab")
    expect(page.get_by_role("group", name="Messages").locator("tbody button").nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".message h2")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("group", name="Messages").locator("tbody button").nth(1)).to_be_focused()
