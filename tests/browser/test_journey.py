"""The page of a message's journey, at a real server: its look-up, lanes and hops, and what is hidden or not known."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, Route, expect

from entrepot.gateway.cli.app import run
from tests.browser.conftest import PHONE, Opened
from tests.browser.test_real_login import log_in
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.http.client import http_client
from tests.support.http.webhook_receiver import WebhookReceiver
from tests.support.processes.command_line import build_commands_once
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until

PASSWORD: Final = "correct horse battery"
SETTINGS: Final = {
    **CHEAP_FLAGS,
    "security.initial_admin": "root",
    "security.initial_admin_password": PASSWORD,
    "server.name": "gw-1",
    "webhooks.allow_http": "true",
    "webhooks.allowed_networks": '["127.0.0.0/8"]',
}
HOSTILE: Final = "a<b>\u202egnp"
SHOWN: Final = "a<b>U+202Egnp"
BOB: Final = ["SUB@Topic:orders/#", "GET@Group:wall"]
EVENT: Final = {"specversion": "1.0", "type": "sale", "source": "/till/0417"}
SCALE: Final = """
async (times) => {
  const { brokenScale } = await import("/dashboard/parts/journey_scale.js");
  const { at, ticks, breaks, stretches } = brokenScale(times, 100);
  const [labels, places] = [ticks.map(({ label }) => label), ticks.map((tick) => tick.at)];
  return { at: times.map(at), labels, ticks: places, breaks, stretches };
}
"""
Shown = Callable[..., Page]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("journeys"), SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: ServerProcess) -> Iterator[httpx2.Client]:
    with http_client(f"http://127.0.0.1:{server.port('http')}", auth=("root", PASSWORD)) as client:
        yield client


def publish(root: httpx2.Client, topic: str, **attributes: str) -> None:
    content = json.dumps({**EVENT, "data": {"n": 1}, **attributes}).encode()
    headers = {"content-type": "application/cloudevents+json"}
    root.post(f"/topics/{topic}:publish", headers=headers, content=content).raise_for_status()


def taken(root: httpx2.Client, group: str, action: str) -> None:
    """Receive the one message of a group, and settle it."""
    path = f"/topics/orders/eventsubscriptions/{group}"
    [event] = wait_until(lambda: root.post(f"{path}:receive?maxEvents=1").json()["value"], f"{group} gets it")
    tokens = {"lockTokens": [event["brokerProperties"]["lockToken"]]}
    assert root.post(f"{path}:{action}", json=tokens).json()["failedLockTokens"] == []


@pytest.fixture(scope="module")
def travelled(root: httpx2.Client) -> Iterator[dict[str, Any]]:
    """A message that a group gave back and took, that another rejected, and that a webhook refused twice, buried, and
    took when it was sent again."""
    receiver = WebhookReceiver()
    receiver.behave("billing", steps=[{"status": 503}, {"status": 500}])
    root.put("/api/v1/topics/orders", json={"trace": 1.0}).raise_for_status()
    config = {"handshake": "off", "initialbackoffseconds": 0.05, "maxbackoffseconds": 0.1, "maxattempts": 2}
    body = {"source": "orders", "sink": receiver.hook("billing"), "protocol": "HTTP", "config": config}
    made = root.post("/subscriptions", json=body).json()
    publish(root, "orders", id=HOSTILE, subject="shop-17")
    for group, action in (("wall", "release"), ("wall", "acknowledge"), ("secret-group", "reject")):
        taken(root, group, action)
    letters = f"/api/v1/groups/{quote('webhook~' + made['id'], safe='')}/dead-letters"
    [letter] = wait_until(lambda: root.get(letters).json().get("value"), "the webhook's dead letter")
    assert root.post(f"{letters}:resend", json={"offsets": [letter["offset"]]}).json()["failedOffsets"] == []
    receiver.wait("billing", 3)
    [message] = root.get("/api/v1/messages?topic=orders").json()["value"]

    def journey() -> dict[str, Any] | None:
        found: dict[str, Any] = root.get("/api/v1/journeys", params={"id": message["id"]}).json()
        lane = f"group/webhook~{made['id']}"
        is_settled = any(hop["lane"] == lane and hop["kind"] == "acknowledged" for hop in found["hops"])
        return found if is_settled else None

    yield {"id": message["id"], "webhook": made["id"], "journey": wait_until(journey, "the webhook has it")}
    receiver.stop()


@pytest.fixture
def shown(open_page: Opened, travelled: dict[str, Any]) -> Shown:
    """Opens a page as a user: `shown("journey?id=...", user="bob")`."""

    def opened(address: str, user: str = "root", **options: Any) -> Page:
        page = open_page(address, answers=None, **options)
        log_in(page, user, PASSWORD)
        expect(page.locator("nav.nav")).to_be_attached()
        return page

    return opened


def hops(page: Page) -> Locator:
    return page.locator("ol.hops > li:not(.day)")


def refused(messages: list[str]) -> list[str]:
    """The states of the answers that the console tells of; takes them out."""
    found = sorted(text.rpartition("status of ")[2][:3] for text in messages)
    messages.clear()
    return found


def settled(page: Page) -> Page:
    expect(page.get_by_role("heading", level=1, name="Message journey")).to_be_visible()
    expect(page.locator("main [aria-busy=true]")).to_have_count(0)
    return page


def new_user(root: httpx2.Client, name: str, *allowed: str) -> None:
    statements = [
        {"effect": "ALLOW", "actions": [action], "resources": [resource]}
        for action, resource in (each.split("@", 1) for each in allowed)
    ]
    assert root.put(f"/api/v1/users/{name}", json={"password": PASSWORD}).status_code == 201
    assert root.put(f"/api/v1/acls/{name}", json={"statements": statements}).is_success


def titles(journey: dict[str, Any]) -> list[str]:
    words = {
        "takenIn": "Taken in",
        "deadLettered": "Dead-lettered",
        "moved": "Moved aside",
    }
    return [
        f"Attempt {hop['attempt']} failed" if hop["kind"] == "failed" else words.get(hop["kind"], hop["kind"].title())
        for hop in journey["hops"]
    ]


def test_from_the_find_box_to_every_hop(shown: Shown, travelled: dict[str, Any], messages: list[str]) -> None:
    page = shown("overview")
    page.get_by_label("Find a message, topic, group or client").fill(travelled["id"])
    page.keyboard.press("Enter")
    page.get_by_role("link", name=f"message {travelled['id']}").click()
    settled(page)
    expect(page.get_by_label("Id", exact=True)).to_have_value(travelled["id"])
    journey = travelled["journey"]
    expect(hops(page).locator(".what")).to_have_text(titles(journey))
    times = [hop["time"][11:23] for hop in journey["hops"] if hop["time"]]
    assert times == sorted(times)
    expect(hops(page).locator(".when").filter(has_text=":")).to_have_text(times)
    assert len(times) < len(journey["hops"])
    expect(hops(page).last.locator(".when")).to_have_text("not known")
    failed = hops(page).filter(has_text="HTTP 503").first
    expect(failed).to_contain_text(f"Webhook {travelled['webhook']}")
    lanes = page.locator(".jl-names li b")
    expect(lanes).to_have_text([each["name"] if each["id"] != "log" else "orders" for each in journey["lanes"]])
    trouble = sum(hop["isKnown"] and hop["kind"] in ("failed", "deadLettered") for hop in journey["hops"])
    expect(page.locator(".jl .fail")).to_have_count(trouble)
    without_time = {(hop["lane"], hop["isKnown"]) for hop in journey["hops"] if not hop["time"] or not hop["isKnown"]}
    timed = [hop for hop in journey["hops"] if hop["time"] and hop["isKnown"]]
    expect(page.locator(".jl .hop")).to_have_count(len(timed) - trouble + sum(is_known for _, is_known in without_time))
    expect(page.locator(".jl-un")).to_have_count(sum(not is_known for _, is_known in without_time))
    assert messages == []


@pytest.mark.interop
def test_it_leads_to_what_its_hops_are_about(shown: Shown, travelled: dict[str, Any]) -> None:
    page = settled(shown(f"journey?id={travelled['id']}"))
    webhook = travelled["webhook"]
    headings = {
        "orders": "orders",
        "wall": "wall",
        webhook: webhook,
        f"%DLQ%webhook~{webhook}": f"webhook~{webhook}",
    }
    for text, heading in headings.items():
        hops(page).get_by_role("link", name=text, exact=True).first.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
        expect(page.locator("main [aria-busy=true]")).to_have_count(0)
        expect(page.locator("main .failure")).to_have_count(0)
        page.go_back()
        settled(page)
    dispatcher = page.locator(".jl-names").get_by_role("link", name="dispatcher")
    expect(dispatcher).to_have_attribute("href", re.compile("^#/groups/dispatch~"))


@pytest.mark.interop
def test_names_are_text(shown: Shown, travelled: dict[str, Any]) -> None:
    page = settled(shown(f"journey?{urlencode({'by': 'event', 'id': HOSTILE, 'source': '/till/0417'})}"))
    names = page.get_by_role("region", name="Names of it")
    expect(names.locator("bdi").filter(has_text=SHOWN).first).to_have_text(SHOWN)
    expect(names.get_by_text("none given")).to_have_count(3)
    assert page.locator("main bdi b").count() == 0
    expect(page.get_by_role("group", name="REST")).to_contain_text("/api/v1/journeys?id=a%3Cb%3E%E2%80%AEgnp&by=event")


@pytest.mark.interop
def test_looking_up_and_choosing_among_several(shown: Shown, root: httpx2.Client) -> None:
    for _ in range(3):
        publish(root, "several", id="same")
    page = settled(shown("journey"))
    expect(page.get_by_text("No message is chosen")).to_be_visible()
    source = page.get_by_label("Source", exact=True)
    expect(source).to_be_hidden()
    page.get_by_role("button", name="Show journey").click()
    expect(page.get_by_text("Id is needed.")).to_be_visible()
    page.get_by_label("Id", exact=True).fill("same")
    page.get_by_label("Look by").select_option("MQTT correlation data")
    page.get_by_role("button", name="Show journey").click()
    expect(page.get_by_text("Topic is needed.")).to_be_visible()
    page.get_by_label("Look by").select_option("CloudEvents source and id")
    source.fill("/till/0417")
    page.get_by_label("Topic", exact=True).fill("several")
    page.keyboard.press("Enter")
    same = page.get_by_role("region", name="Same name")
    expect(same.get_by_text("3 messages have it")).to_be_visible()
    assert page.url.endswith("#/journey?id=same&by=event&source=%2Ftill%2F0417&topic=several")
    first = page.locator(".head .sub .mono").text_content()
    same.get_by_role("link").nth(2).click()
    expect(page.locator(".head .sub .mono")).not_to_have_text(first or "")
    assert "&at=" in page.url
    expect(same.locator("[aria-current=true]")).to_have_count(1)
    page.go_back()
    expect(page.locator(".head .sub .mono")).to_have_text(first or "")


@pytest.mark.interop
def test_a_time_window_and_a_name_that_nothing_has(
    shown: Shown, travelled: dict[str, Any], messages: list[str]
) -> None:
    early = {"id": HOSTILE, "by": "key", "topic": "orders", "to": "2020-01-01T00:00:00Z"}
    page = settled(shown(f"journey?{urlencode(early)}"))
    expect(page.get_by_text("No message has this name")).to_be_visible()
    expect(page.get_by_role("link", name="Download JSON")).to_have_count(0)
    page.get_by_label("Stored before").fill("yesterday")
    page.get_by_role("button", name="Show journey").click()
    expect(page.get_by_text("to: must be an RFC 3339 time")).to_be_visible()
    assert refused(messages) == ["400", "404"]


@pytest.mark.interop
def test_what_one_may_not_know_is_counted(
    shown: Shown, root: httpx2.Client, travelled: dict[str, Any], messages: list[str]
) -> None:
    new_user(root, "bob", *BOB)
    page = settled(shown(f"journey?id={travelled['id']}", user="bob"))
    with http_client(str(root.base_url), auth=("bob", PASSWORD)) as bob:
        hidden = bob.get("/api/v1/journeys", params={"id": travelled["id"]}).json()["hidden"]["hops"]
    last = hops(page).last
    expect(last).to_contain_text(f"{hidden} hops hidden")
    expect(last).to_contain_text("No right to know: it takes GET or SUB on the group or the topic")
    expect(page.get_by_text("secret-group")).to_have_count(0)
    expect(page.locator(".kpis div").filter(has_text="Failed attempts").locator(".num")).to_contain_text("≥")
    assert refused(messages) == ["403"]  # the overview in the bar


@pytest.mark.interop
def test_without_rights_the_message_does_not_exist(
    shown: Shown, root: httpx2.Client, travelled: dict[str, Any], messages: list[str]
) -> None:
    new_user(root, "eve", "SUB@Topic:others/#")
    page = settled(shown(f"journey?id={travelled['id']}", user="eve"))
    expect(page.get_by_text("No message has this name")).to_be_visible()
    page.get_by_label("Look by").select_option("Key")
    page.get_by_label("Topic", exact=True).fill("orders")
    page.get_by_role("button", name="Show journey").click()
    expect(page.get_by_role("alert")).to_contain_text("SUB on Topic 'orders/#' is not allowed")
    assert refused(messages) == ["403", "403", "404"]


@pytest.mark.interop
def test_filters_are_in_the_address(shown: Shown, travelled: dict[str, Any]) -> None:
    page = settled(shown(f"journey?id={travelled['id']}"))
    journey = travelled["journey"]
    trouble = [hop for hop in journey["hops"] if hop["kind"] in ("failed", "deadLettered")]
    which = page.get_by_role("group", name="Which hops")
    which.get_by_role("button", name="Failed").click()
    expect(hops(page)).to_have_count(len(trouble))
    page.get_by_label("Receiver").select_option("wall")
    expect(hops(page)).to_have_count(sum(hop["group"] == "wall" for hop in trouble))
    assert page.url.endswith(f"#/journey?id={travelled['id']}&show=failed&lane=group%2Fwall")
    page.reload()
    settled(page)
    expect(hops(page)).to_have_count(sum(hop["group"] == "wall" for hop in trouble))
    which.get_by_role("button", name="Not known").click()
    expect(page.get_by_text("No such hop")).to_be_visible()


@pytest.mark.interop
def test_parts_that_do_not_answer_are_named(shown: Shown, travelled: dict[str, Any]) -> None:
    page = shown("overview")
    asked: list[str] = []

    def partly(route: Route) -> None:
        asked.append(route.request.url)
        answer = route.fetch()
        missing = [] if len(asked) > 1 else [{"name": "broker-2", "reason": "no answer within 1.5 s"}]
        searched = {"topics": 1, "messages": 20000, "bytes": 1, "until": "2026-01-31T12:00:00Z", "isComplete": False}
        route.fulfill(response=answer, json={**answer.json(), "missing": missing, "searched": searched, "cutCopies": 2})

    page.route("**/api/v1/journeys?*", partly)
    page.evaluate(f"location.hash = '#/journey?id={travelled['id']}'")
    banner = page.locator(".banner").filter(has_text="1 part gave no answer.")
    expect(banner).to_contain_text("broker-2: no answer within 1.5 s. Hops may be missing.")
    expect(
        page.get_by_text("Only the newest 20,000 messages were looked at, down to 2026-01-31 12:00:00")
    ).to_be_visible()
    expect(page.get_by_text("2 more copies of it were not asked about.")).to_be_visible()
    banner.get_by_role("button", name="Ask again").click()
    expect(banner).to_have_count(0)


@pytest.mark.interop
def test_the_command_and_the_call_show_the_same(
    shown: Shown,
    server: ServerProcess,
    root: httpx2.Client,
    travelled: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    page = settled(
        shown(f"journey?{urlencode({'by': 'event', 'id': HOSTILE, 'source': '/till/0417', 'topic': 'orders'})}")
    )
    command = page.get_by_role("group", name="CLI").text_content() or ""
    verb, path = (page.get_by_role("group", name="REST").text_content() or "").split(" ", 1)
    assert verb == "GET" and root.get(path).json()["message"]["id"] == travelled["id"]
    build_commands_once(monkeypatch)
    for key, value in (("SERVER", str(root.base_url)), ("USER", "root"), ("PASSWORD", PASSWORD)):
        monkeypatch.setenv(f"ENTREPOT_{key}", value)
    capfd.readouterr()
    assert run([*shlex.split(command.replace("U+202E", "\u202e"))[1:], "--json"]) == 0
    assert travelled["id"] in capfd.readouterr().out
    with page.expect_download() as download:
        page.get_by_role("link", name="Download JSON").click()
    assert json.loads(download.value.path().read_text())["message"]["id"] == travelled["id"]


@pytest.mark.interop
def test_long_waits_are_left_out_of_the_scale(shown: Shown, travelled: dict[str, Any]) -> None:
    page = shown("overview")
    short = [0, 1, 3, 12]
    apart = [*short, 812, 1500, 31_000, 358_000, 580_000, 680_000]
    found = page.evaluate(SCALE, [1_700_000_000_000 + each for each in apart])
    assert found["stretches"] == 4 and len(found["breaks"]) == 3
    assert found["at"] == sorted(set(found["at"])) and found["at"][0] > 0 and found["at"][-1] < 100
    assert all(not any(abs(tick - each) < 1 for tick in found["ticks"]) for each in found["breaks"])
    assert found["labels"][0] == "22:13:20.000"
    assert "+12 ms" not in found["labels"] and any(str(each).startswith("+5 min") for each in found["labels"])
    whole = page.evaluate(SCALE, [1_700_000_000_000 + each for each in short])
    assert whole["stretches"] == 1 and whole["breaks"] == []
    assert page.evaluate(SCALE, [])["stretches"] == 0
    alone = page.evaluate(SCALE, [1_700_000_000_000])
    assert alone["stretches"] == 1 and alone["labels"] == ["22:13:20.000"]


@pytest.mark.interop
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(shown: Shown, travelled: dict[str, Any], scheme: str) -> None:
    page = settled(shown(f"journey?id={travelled['id']}", scheme=scheme))
    expect(page.locator(".jl")).to_be_visible()
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []


@pytest.mark.interop
def test_a_phone_scrolls_in_one_direction(shown: Shown, travelled: dict[str, Any]) -> None:
    page = settled(shown(f"journey?id={travelled['id']}", size=PHONE))
    expect(page.locator(".jl")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]


@pytest.mark.interop
def test_the_keyboard_reaches_everything(shown: Shown, travelled: dict[str, Any]) -> None:
    page = settled(shown(f"journey?id={travelled['id']}"))
    drawing = page.get_by_role("group", name="Journey over time")
    expect(drawing).to_be_visible()
    page.locator("h1").focus()
    for name in ("Copy link", "Download JSON"):
        page.keyboard.press("Tab")
        expect(page.get_by_text(name, exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".head .sub").get_by_role("link", name="orders")).to_be_focused()
    for label in ("Id", "Look by", "Topic", "Stored at or after", "Stored before", "Namespace"):
        page.keyboard.press("Tab")
        expect(page.get_by_label(label, exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Show journey")).to_be_focused()
    page.keyboard.press("Tab")
    expect(drawing).to_be_focused()
    for link in page.locator(".jl-names a").all():
        page.keyboard.press("Tab")
        expect(link).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Receiver")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Failed")).to_have_attribute("aria-pressed", "true")
