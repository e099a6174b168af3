"""Queues, exchanges, bindings and policies in a browser, of a running server that pika filled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PHONE, WIDE, Opened
from tests.browser.moving import HOSTILE, SETTINGS, amqp, declare_shop, root_of
from tests.browser.real import assert_fits, assert_in_the_audit, log_in_as, new_user, settled, walk
from tests.browser.test_shell import assert_accessible
from tests.support.processes.server import ServerProcess

pytestmark = pytest.mark.interop

PAGES = (
    "queues",
    "exchanges",
    "bindings",
    "bindings?view=table",
    "queue-policies",
    "queues/%2F/billing",
    "exchanges/%2F/orders",
    "exchanges/%2F/amq.default",
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
def channel(server: ServerProcess, browser: Browser) -> Iterator[Any]:
    with amqp(server) as channel:
        declare_shop(channel)
        yield channel


@pytest.fixture
def show(open_page: Opened, channel: Any) -> Shown:
    def shown(address: str, **more: Any) -> Page:
        return log_in_as(open_page(address, answers=None, **more))

    return shown


def row(page: Page, name: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))


def test_queues_are_listed_with_their_messages(show: Shown) -> None:
    page = show("queues")
    expect(row(page, "billing").locator("td")).to_have_text(["", "/", "classic", "3", "0", "0", "–"])
    page.get_by_label("Name contains").fill("sto")
    expect(page.get_by_role("rowheader")).to_have_text(["stock"])


def test_pages_and_order_are_those_of_the_server(show: Shown, channel: Any, root: httpx2.Client) -> None:
    for number in range(60):
        channel.queue_declare(f"many-{number:03}", durable=True)
    channel.basic_publish("", "many-031", b"1")
    page = show("queues?q=many-")
    expect(page.get_by_role("rowheader")).to_have_count(50)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("rowheader")).to_have_text([f"many-{number:03}" for number in range(50, 60)])
    page.get_by_role("button", name="Ready").click()
    expect(page.get_by_role("rowheader").first).to_have_text("many-031")
    for number in range(60):
        channel.queue_delete(f"many-{number:03}")


def test_a_queue_shows_its_consumers_and_takes_nothing(show: Shown, channel: Any, root: httpx2.Client) -> None:
    channel.queue_declare("watched", durable=True, arguments={"x-max-length": 99})
    for number in range(4):
        channel.basic_publish("", "watched", b"%d" % number)
    channel.basic_qos(prefetch_count=3)
    tag = channel.basic_consume("watched", lambda *_: None)
    channel.connection.process_data_events(0.2)
    page = show("queues/%2F/watched")
    numbers = page.locator(".kpis dd.num")
    expect(numbers).to_have_text(["1messages", "3messages", "4messages", "1"])
    expect(row(page, tag).locator("td").nth(2)).to_have_text("3")
    expect(page.get_by_role("region", name="Arguments").get_by_text("99")).to_be_visible()
    channel.basic_cancel(tag)
    channel.queue_delete("watched")


def test_a_queue_is_created_bound_purged_and_deleted(show: Shown, channel: Any, root: httpx2.Client) -> None:
    page = show("queues")
    page.get_by_role("button", name="Create a queue").click()
    dialog = page.get_by_role("dialog", name="Create a queue")
    dialog.get_by_label("Name", exact=True).fill("new one")
    dialog.get_by_label("Most messages").fill("5")
    expect(dialog.get_by_role("group", name="CLI")).to_contain_text("declare queue 'name=new one' durable=true")
    dialog.get_by_label("More arguments").fill("[")
    dialog.get_by_role("button", name="Create queue").click()
    expect(dialog.get_by_text("arguments: a JSON object")).to_be_visible()
    dialog.get_by_label("More arguments").fill("")
    dialog.get_by_role("button", name="Create queue").click()
    expect(page.get_by_text("The queue new one was created.")).to_be_visible()
    assert root.get("/api/queues/%2F/new%20one").json()["arguments"] == {"x-queue-type": "classic", "x-max-length": 5}
    page.get_by_role("link", name="new one").click()
    page.get_by_role("button", name="Bind", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Exchange").fill("orders")
    dialog.get_by_label("Routing key").fill("x.#")
    dialog.get_by_role("button", name="Bind", exact=True).click()
    expect(row(page, "orders")).to_contain_text("x.#")
    channel.basic_publish("orders", "x.y", b"1")
    expect(page.locator(".kpis dd.num").first).to_have_text("1messages")
    page.get_by_role("button", name="Purge").click()
    dialog = page.get_by_role("dialog")
    act = dialog.get_by_role("button", name="Purge queue")
    expect(act).to_be_disabled()
    dialog.get_by_label("Type new one to go on").fill("new one")
    act.click()
    expect(page.get_by_text("The queue new one was purged.")).to_be_visible()
    expect(page.locator(".kpis dd.num").first).to_have_text("0messages")
    page.get_by_role("button", name="Unbind new one from orders").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete binding").click()
    expect(row(page, "orders")).to_have_count(0)
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type new one to go on").fill("new one")
    dialog.get_by_role("button", name="Delete queue").click()
    expect(page.get_by_role("heading", level=1, name="Queues and exchanges")).to_be_visible()
    assert root.get("/api/queues/%2F/new%20one").status_code == 404
    events = ("queue declared", "binding created", "queue purged", "binding deleted", "queue deleted")
    assert_in_the_audit(root, *events)


def test_several_queues_are_deleted_and_refusals_are_told(
    show: Shown, channel: Any, server: ServerProcess, messages: list[str]
) -> None:
    with amqp(server) as other:
        other.queue_declare("bulk-own", exclusive=True)
        channel.queue_declare("bulk-a")
        page = show("queues?q=bulk-")
        page.get_by_label("Select all rows shown").check()
        page.get_by_role("button", name="Delete 2 queues").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Type delete 2 to go on").fill("delete 2")
        dialog.get_by_role("button", name="Delete 2 queues").click()
        expect(page.get_by_text("1 queue of 2 was deleted.")).to_be_visible()
        expect(page.get_by_text("bulk-own: ")).to_be_visible()
        expect(page.get_by_role("rowheader")).to_have_text(["bulk-own transient exclusive"])
    assert messages.pop().startswith("error: Failed to load resource")


def test_an_exchange_is_created_bound_and_deleted(show: Shown, root: httpx2.Client) -> None:
    page = show("exchanges")
    page.get_by_role("button", name="Create an exchange").click()
    dialog = page.get_by_role("dialog", name="Create an exchange")
    dialog.get_by_label("Name", exact=True).fill("fresh")
    dialog.get_by_label("Type").select_option("headers")
    dialog.get_by_role("button", name="Create exchange").click()
    page.get_by_role("link", name="fresh").click()
    page.get_by_role("button", name="Bind", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Its name").fill("archive")
    dialog.get_by_label("Arguments").fill('{"x-match": "all", "n": 1}')
    dialog.get_by_role("button", name="Bind", exact=True).click()
    expect(row(page, "queue archive")).to_contain_text("x-match = all, n = 1")
    page.get_by_role("button", name="Unbind archive from fresh").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete binding").click()
    expect(page.get_by_text("It gives its messages to nobody.")).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type fresh to go on").fill("fresh")
    dialog.get_by_role("button", name="Delete exchange").click()
    expect(page.get_by_role("heading", level=1, name="Queues and exchanges")).to_be_visible()
    assert root.get("/api/exchanges/%2F/fresh").status_code == 404
    assert_in_the_audit(root, "exchange declared", "binding created", "binding deleted", "exchange deleted")


def test_policies_are_created_changed_and_deleted(show: Shown, root: httpx2.Client) -> None:
    page = show("queue-policies")
    page.get_by_role("button", name="Create a policy").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("limits")
    dialog.get_by_label("Pattern of names").fill("^sto")
    dialog.get_by_role("button", name="Create policy").click()
    expect(row(page, "limits")).to_contain_text("max-length = 10000")
    page.get_by_role("button", name="Change limits").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Definition").fill('{"max-length": 7}')
    expect(dialog.get_by_role("group", name="REST")).to_contain_text("PUT /api/policies/%2F/limits")
    dialog.get_by_role("button", name="Change policy").click()
    expect(row(page, "limits")).to_contain_text("max-length = 7")
    assert root.get("/api/queues/%2F/stock").json()["policy"] == "limits"
    page.get_by_label("Select / limits").check()
    page.get_by_role("button", name="Delete 1 policy").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete 1 policy").click()
    expect(page.get_by_text("1 policy was deleted.")).to_be_visible()
    assert root.get("/api/policies").json() == []
    assert_in_the_audit(root, "queue policy changed", "queue policy deleted")


def test_the_drawing_has_every_end_and_leads_there(show: Shown) -> None:
    page = show("bindings")
    drawing = page.get_by_role("group", name="Drawing of bindings")
    expect(drawing.get_by_role("link")).to_have_count(5)
    names = drawing.get_by_role("link").evaluate_all("(all) => all.map((each) => each.getAttribute('aria-label'))")
    assert names == [
        "exchange orders, topic, 4 out",
        "exchange audit, fanout, 1 in, 1 out",
        "queue archive, 1 in",
        "queue billing, 1 in",
        "queue stock, 2 in",
    ]
    place = "(node) => node.getBoundingClientRect().x"
    left: list[float] = [drawing.get_by_role("link", name=each).evaluate(place) for each in names[:3]]
    assert left[0] < left[1] < left[2], "exchanges left, queues right"
    drawing.get_by_role("link", name="exchange audit").focus()
    expect(drawing.locator(".edge.lit")).to_have_count(2)
    drawing.get_by_role("link", name="queue stock").focus()
    expect(drawing.locator(".edge.lit .key")).to_have_text(["*.placed", "*.paid"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="stock")).to_be_visible()


def test_too_many_bindings_are_a_list_with_a_count(show: Shown, root: httpx2.Client, channel: Any) -> None:
    assert root.put("/api/vhosts/crowd").status_code == 201
    assert root.put("/api/exchanges/crowd/hub", json={"type": "topic"}).status_code == 201
    for number in range(201):
        assert root.put(f"/api/queues/crowd/q{number:03}", json={}).status_code == 201
        bound = root.post(f"/api/bindings/crowd/e/hub/q/q{number:03}", json={"routing_key": f"k{number}"})
        assert bound.status_code == 201
    page = show("bindings?vhost=crowd")
    expect(page.get_by_text("More than 200 exchanges and queues have bindings: too many to draw.")).to_be_visible()
    page.get_by_role("link", name="List 201 bindings").click()
    expect(page.get_by_role("group", name="Bindings", exact=True).get_by_role("row")).to_have_count(51)
    for number in (199, 200):
        assert root.delete(f"/api/bindings/crowd/e/hub/q/q{number}/k{number}").status_code == 204
    page.get_by_role("button", name="Drawing").click()
    expect(page.get_by_role("group", name="Drawing of bindings").get_by_role("link")).to_have_count(200)
    assert root.delete("/api/vhosts/crowd").status_code == 204


def test_hostile_names_are_text(show: Shown, channel: Any, root: httpx2.Client) -> None:
    channel.queue_declare(HOSTILE, durable=True)
    channel.queue_bind(HOSTILE, "orders", HOSTILE)
    words = "a<b>U+202EgnpU+0001"
    page = show("queues")
    expect(page.get_by_role("rowheader").first).to_have_text(words)
    page.get_by_role("rowheader").first.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(words)
    expect(row(page, "orders")).to_contain_text(words)
    assert page.locator("main b b, main bdi b").count() == 0
    page.get_by_role("button", name="Unbind").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete binding").click()
    expect(row(page, "orders")).to_have_count(0)
    channel.queue_delete(HOSTILE)


def test_who_may_not_list_is_told_the_right(
    open_page: Opened, channel: Any, root: httpx2.Client, messages: list[str]
) -> None:
    name = new_user(root, [{"effect": "ALLOW", "actions": ["GET"], "resources": ["Topic:billing"]}])
    page = log_in_as(open_page("queues", answers=None), name)
    expect(page.get_by_text("LIST on Topic")).to_be_visible()
    page.goto(page.url.partition("#")[0] + "#/queues/%2F/billing")
    expect(page.get_by_role("heading", level=1, name="billing")).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type billing to go on").fill("billing")
    dialog.get_by_role("button", name="Delete queue").click()
    expect(dialog.get_by_text("DELETE on Topic")).to_be_visible()
    assert {message.partition(":")[0] for message in messages} == {"error"}
    messages.clear()
    assert root.get("/api/queues/%2F/billing").status_code == 200


@pytest.mark.parametrize("address", PAGES)
def test_pages_are_accessible_and_fit_a_phone(show: Shown, address: str) -> None:
    page = show(address)
    settled(page)
    assert_accessible(page)
    page.emulate_media(color_scheme="dark")
    assert_accessible(page)
    walk(page)
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert_fits(page, PHONE[0])
    page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
