"""Groups, dead letters, timers, transactions, retained messages and alarms, at a real server with real data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PHONE, Opened
from tests.browser.group_steps import (
    DEAD,
    HOSTILE_SHOWN,
    SETTINGS,
    SIGNING,
    TILL,
    client_of,
    event,
    fall_behind,
    fill,
    give_up,
    in_audit,
    keep,
    letters,
    log_in,
    make,
    now_ms,
    publish,
    receive,
    row,
    schedule,
    settled,
)
from tests.support.gateways.bridges import bridge_settings, remote
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient
from tests.support.rocketmq.telemetry import push_consumer, telemetry
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

PAGES: Final = {
    "groups": "Groups",
    "groups/stock": "stock",
    "dead-letters": "Dead letters",
    "dead-letters/billing": "Dead letters of billing",
    "timers": "Timers",
    "transactions": "Transactions",
    "retained": "Retained messages",
    "alarms": "Alarms",
}
REFUSED: Final = re.compile(r"Failed to load resource: the server responded with a status of 403")

Shown: TypeAlias = Callable[..., Page]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    silent = bridge_settings(remote("mqtt://127.0.0.1:9", {"direction": "both", "filter": "far/#"}, name="far-west"))
    with ServerProcess(tmp_path_factory.mktemp("groups"), {**SETTINGS, **silent}) as running:
        with client_of(running) as root:
            fill(root, running)
        yield running


@pytest.fixture
def root(server: ServerProcess) -> Iterator[httpx2.Client]:
    with client_of(server) as client:
        yield client


@pytest.fixture
def shown(open_page: Opened) -> Shown:
    """Opens a page as a user: `shown("groups", user=TILL)`."""

    def opened(address: str, **options: Any) -> Page:
        user = {name: options.pop(name) for name in ("user",) if name in options}
        return log_in(open_page(address, answers=None, **options), **user)

    return opened


def go(page: Page, address: str) -> None:
    page.evaluate("(address) => { location.hash = `#/${address}`; }", address)
    expect(page.get_by_role("heading", level=1, name=PAGES.get(address, ""))).to_be_visible()
    settled(page)


def dialog_of(page: Page, title: str | re.Pattern[str]) -> Locator:
    found = page.get_by_role("dialog", name=title)
    expect(found).to_be_visible()
    return found


def press(dialog: Locator, label: str) -> None:
    dialog.get_by_role("button", name=label, exact=True).click()
    expect(dialog).to_have_count(0)


def outside(dialog: Locator, kind: str) -> str:
    return dialog.get_by_role("group", name=kind, exact=True).inner_text()


def told(page: Page, text: str) -> None:
    expect(page.locator(".results")).to_contain_text(text)


def test_every_page_has_its_data(shown: Shown, root: httpx2.Client) -> None:
    wait_until(lambda: root.get("/api/v1/overview").json()["alarms"], "an alarm")
    page = shown("groups")
    expect(row(page, "Groups", "stock").locator("td.n").last).to_have_text("3")
    go(page, "groups/stock")
    queue = row(page, "Queues", "orders-in")
    expect(queue).to_contain_text("710")
    expect(queue.locator("td").last).to_have_text(re.compile(r"\d+(\.\d)? (s|ms|min)"))
    go(page, "dead-letters")
    expect(row(page, "Groups with dead letters", "billing").locator("td.n")).to_have_text(str(DEAD))
    go(page, "dead-letters/billing")
    expect(row(page, "Dead letters by reason", "rejected").locator("td.n").first).to_have_text("3")
    expect(row(page, "Dead letters", HOSTILE_SHOWN)).to_have_count(1)
    go(page, "timers")
    expect(row(page, "Timers", "reminders")).to_have_count(3)
    go(page, "transactions")
    expect(row(page, "Half messages", "payments")).to_contain_text("4 B")
    go(page, "retained")
    expect(row(page, "Retained messages", "plant/")).to_have_count(3)
    go(page, "alarms")
    expect(row(page, "Alarms", "Bridge far-west is not connected")).to_contain_text("warning")


# -- groups ------------------------------------------------------------------------------------------------------------


def test_a_group_is_created_changed_and_deleted(shown: Shown, root: httpx2.Client, messages: list[str]) -> None:
    page = shown("groups")
    page.get_by_role("button", name="Create a group").click()
    dialog = dialog_of(page, "Create a group")
    dialog.get_by_label("Name", exact=True).fill("stock")
    dialog.get_by_role("button", name="Create the group").click()
    expect(dialog.get_by_text("A group of this name exists")).to_be_visible()
    dialog.get_by_label("Name", exact=True).fill("new one")
    dialog.get_by_role("button", name="Create the group").click()
    expect(dialog.get_by_text("is not a group name")).to_be_visible()
    assert "400 (Bad Request)" in messages.pop()
    dialog.get_by_label("Name", exact=True).fill("made")
    dialog.get_by_label("Attempts").fill("7")
    assert outside(dialog, "CLI") == "entrepot group create made --max-attempts 7"
    press(dialog, "Create the group")
    told(page, "The group made was created.")
    assert root.get("/api/v1/groups/made").json()["maxAttempts"] == 7
    go(page, "groups/made")
    page.get_by_role("button", name="Change settings").click()
    dialog = dialog_of(page, "Change made")
    dialog.get_by_label("Retries wait").select_option("list")
    dialog.get_by_label("Waits, ms").fill("1000, 5000")
    dialog.get_by_label("Most in flight").fill("20")
    assert "--retry list:1000,5000 --max-in-flight 20" in outside(dialog, "CLI")
    press(dialog, "Change the group")
    told(page, "The settings of made were changed.")
    expect(page.locator(".facts")).to_contain_text("after 1,000, 5,000 ms")
    found = root.get("/api/v1/groups/made").json()
    assert (found["retry"]["delaysMs"], found["maxInFlight"], found["maxAttempts"]) == ([1000, 5000], 20, 7)
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = dialog_of(page, "Delete 1 group?")
    act = dialog.get_by_role("button", name="Delete 1 group")
    expect(act).to_be_disabled()
    dialog.get_by_label("Type made to go on").fill("made")
    act.click()
    expect(page.get_by_role("heading", level=1, name="Groups")).to_be_visible()
    assert root.get("/api/v1/groups/made").status_code == 404
    assert {"group changed group made", "group deleted group made"} <= set(in_audit(root))


@pytest.mark.parametrize(
    ("choice", "value", "again", "skipped", "left"),
    [
        ("earliest", None, "7", "0", 10),
        ("latest", None, "0", "3", 0),
        ("offset", "2", "5", "0", 8),
        ("offset", "9", "0", "2", 1),
        ("time", "2020-01-01T00:00:00", "7", "0", 10),
    ],
)
def test_a_reset_says_what_comes_again_and_does_it(
    shown: Shown, root: httpx2.Client, choice: str, value: str | None, again: str, skipped: str, left: int
) -> None:
    name = f"reset-{choice}-{value or ''}"[:20].replace(":", "")
    fall_behind(root, name, name)
    page = shown(f"groups/{name}")
    page.get_by_role("button", name="Reset offsets").click()
    dialog = dialog_of(page, f"Reset {name}")
    dialog.get_by_label("Go on at").select_option(choice)
    if value is not None:
        dialog.get_by_label("Time, UTC" if choice == "time" else "Offset", exact=True).fill(value)
    words = dialog.get_by_text(f"{again} messages come again; {skipped} that wait are skipped, in 1 queue.")
    expect(words).to_be_visible()
    to = {"offset": value, "time": f"{value}Z"}.get(choice, choice)
    assert outside(dialog, "CLI") == f"entrepot group reset {name} {name} --to {to}"
    assert outside(dialog, "REST") == f'POST /api/v1/groups/{name}:reset\n{{"topic":"{name}","to":"{to}"}}'
    press(dialog, f"Reset {name}")
    told(page, f"{name} goes on at {to} in {name}.")
    expect(row(page, "Queues", name).locator("td.n").nth(4)).to_have_text(str(left))
    assert root.get(f"/api/v1/groups/{name}/lag").json()["lag"] == str(left)
    assert in_audit(root)[f"group reset group {name}"].startswith(f"on topic {name} to {to}")


def test_the_consumers_of_a_group_are_named(shown: Shown, server: ServerProcess, root: httpx2.Client) -> None:
    sink = "https://sink.example/x"
    body = {"source": "hooked", "sink": sink, "protocol": "HTTP", "config": {}}
    assert root.post("/subscriptions", json=body).status_code == 201
    with (
        GrpcClient(server.address("grpc"), SIGNING, client_id="<b>rocket", now_ms=now_ms()) as client,
        telemetry(client, push_consumer("stock", "orders-in")),
    ):
        page = shown("groups/stock")
        found = row(page, "Consumers", "<b>rocket")
        expect(found).to_contain_text("RocketMQ gRPC")
        expect(found).to_contain_text("signer")
    names = [each["name"] for each in root.get("/api/v1/groups", params={"kind": "subscription"}).json()["value"]]
    found_at = [each for each in names if root.get(f"/api/v1/groups/{quote(each)}/consumers").json()["value"]]
    go(page, f"groups/{quote(found_at[0], safe='')}")
    expect(row(page, "Consumers", "webhook")).to_contain_text("hooked https://sink.example")
    expect(page.locator("main")).not_to_contain_text(sink)  # paths of sinks may hold secrets


def test_the_find_box_finds_groups(shown: Shown) -> None:
    page = shown("overview")
    page.keyboard.press("/")
    page.keyboard.type("stock")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="group stock").click()
    expect(page.get_by_role("heading", level=1, name="stock", exact=True)).to_be_visible()


# -- dead letters ------------------------------------------------------------------------------------------------------


def test_a_dead_letter_is_looked_at_and_some_are_resent(shown: Shown, root: httpx2.Client) -> None:
    give_up(root, "look")
    page = shown("dead-letters/look")
    page.get_by_role("button", name="Show 0", exact=True).click()
    detail = page.locator("section.panel", has=page.get_by_role("heading", name="Offset 0"))
    expect(detail).to_contain_text("of-look, queue 0, offset 0")
    expect(page.locator(".message")).to_contain_text("U+202E")
    page.locator(".message").get_by_role("button", name="Headers").click()
    expect(page.locator(".message")).to_contain_text("ce_source")
    detail.get_by_role("button", name="Close").focus()
    page.keyboard.press("Enter")
    expect(detail).to_have_count(0)
    page.get_by_label("Select 1", exact=True).check()
    page.get_by_label("Select 3", exact=True).check()
    page.get_by_role("button", name="Resend 2").click()
    dialog = dialog_of(page, "Resend 2 of look?")
    assert outside(dialog, "CLI") == "entrepot group resend look 1 3"
    assert outside(dialog, "REST") == 'POST /api/v1/groups/look/dead-letters:resend\n{"offsets":[1,3]}'
    press(dialog, "Resend 2")
    told(page, "2 dead letters were resent.")
    assert sorted(each["event"]["id"] for each in receive(root, "of-look", "look")) == ["1", "3"]
    assert in_audit(root)["dead letters resent group look"].startswith("2, 0 failed")


def test_all_of_a_reason_are_resent_and_deleted(shown: Shown, root: httpx2.Client) -> None:
    give_up(root, "reasons")
    page = shown("dead-letters/reasons")
    page.get_by_role("button", name="Resend all: rejected").click()
    press(dialog_of(page, "Resend 3 of reasons?"), "Resend 3")
    told(page, "3 dead letters were resent, of the reason rejected.")
    assert len(receive(root, "of-reasons", "reasons")) == 3
    page.get_by_role("button", name="max attempts reached", exact=True).click()
    expect(page.get_by_role("group", name="Dead letters", exact=True).locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Delete all: max attempts reached").click()
    dialog = dialog_of(page, "Delete 2 of reasons?")
    assert outside(dialog, "CLI") == "entrepot group delete-dead-letters reasons --reason 'max attempts reached'"
    press(dialog, "Delete 2")
    told(page, "2 dead letters were deleted, of the reason max attempts reached.")
    assert {each["reason"] for each in letters(root, "reasons")} == {"rejected"}
    assert in_audit(root)["dead letters deleted group reasons"].startswith("2 of reason 'max attempts reached'")


def test_failures_are_told_in_numbers_and_all_are_deleted(shown: Shown, root: httpx2.Client) -> None:
    give_up(root, "failing")
    page = shown("dead-letters/failing")
    page.get_by_label("Select 1", exact=True).check()
    page.get_by_label("Select 2", exact=True).check()
    answer = root.post("/api/v1/groups/failing/dead-letters:delete", json={"offsets": [2]})
    assert answer.json()["deleted"] == 1
    page.get_by_role("button", name="Delete 2").click()
    press(dialog_of(page, "Delete 2 of failing?"), "Delete 2")
    told(page, "1 dead letter of 2 were deleted.")
    told(page, "Offset 2: no dead letter at 2: it is deleted already.")
    page.get_by_role("button", name="Delete all dead letters").click()
    dialog = dialog_of(page, "Delete 3 of failing?")
    dialog.get_by_label("Type failing to go on").fill("failing")
    press(dialog, "Delete 3")
    told(page, "3 dead letters were deleted.")
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()
    assert letters(root, "failing") == []


# -- what waits, and what is kept --------------------------------------------------------------------------------------


def test_a_timer_gets_another_time_and_is_taken_back(shown: Shown, root: httpx2.Client, messages: list[str]) -> None:
    schedule(root, "meetings", 1, 2)
    page = shown("timers?topic=meetings")
    expect(row(page, "Timers", "meetings")).to_have_count(2)
    row(page, "Timers", "meetings").first.get_by_role("button").click()
    dialog = dialog_of(page, "Change the time")
    dialog.get_by_label("Comes at, UTC").fill("2137-01-02T03:04:05")
    dialog.get_by_role("button", name="Change the time").click()
    expect(dialog.locator(".wrong, .failure")).to_be_visible()
    assert "400 (Bad Request)" in messages.pop()
    wanted = (datetime.now(UTC) + timedelta(hours=5)).strftime("%Y-%m-%dT%H:%M:%S")
    dialog.get_by_label("Comes at, UTC").fill(wanted)
    assert outside(dialog, "CLI").startswith("entrepot timer retime ")
    press(dialog, "Change the time")
    told(page, f"comes at {wanted.replace('T', ' ')}.000 UTC.")
    last = root.get("/api/v1/timers", params={"topic": "meetings"}).json()["value"][-1]
    assert last["deliverAt"].startswith(wanted)
    page.get_by_label("Select all rows shown").check()
    page.get_by_role("button", name="Take back 2").click()
    dialog = dialog_of(page, "Take back 2 messages?")
    lines = outside(dialog, "CLI").splitlines()
    assert len(lines) == 2 and all(each.endswith(" --yes") for each in lines)  # the second is no answer to the first
    press(dialog, "Take back 2 messages")
    told(page, "2 messages were taken back.")
    expect(page.get_by_role("heading", name="No timers fit the filter")).to_be_visible()
    assert root.get("/api/v1/timers", params={"topic": "meetings"}).json()["value"] == []
    assert {"timer changed topic meetings", "timer recalled topic meetings"} <= set(in_audit(root))


def test_retained_messages_are_shown_and_deleted(shown: Shown, root: httpx2.Client, server: ServerProcess) -> None:
    keep(server, {f"hall/{number}": b'{"n": %d}' % number for number in range(5)} | {"hall/raw": b"\x00\xff"})
    page = shown("retained")
    page.get_by_label("MQTT filter").fill("hall/+")
    expect(row(page, "Retained messages", "hall/")).to_have_count(6)
    page.get_by_role("button", name="hall/3").click()
    dialog = dialog_of(page, "Retained message")
    expect(dialog.get_by_role("group", name="Body")).to_have_text('{"n": 3}')
    press(dialog, "Close")
    page.get_by_role("button", name="hall/raw").click()
    expect(page.get_by_role("dialog").get_by_role("group", name="Body")).to_contain_text("000000  00 ff")
    page.keyboard.press("Escape")
    page.get_by_label("Select hall/1").check()
    page.get_by_role("button", name="Delete 1", exact=True).click()
    press(dialog_of(page, "Delete 1 retained message?"), "Delete 1 retained message")
    told(page, "1 retained message was deleted.")
    expect(row(page, "Retained messages", "hall/")).to_have_count(5)
    page.get_by_role("button", name="Delete all that match").click()
    dialog = dialog_of(page, "Delete 5 retained messages that match hall/+?")
    assert outside(dialog, "REST") == "DELETE /api/v1/retained?filter=hall%2F%2B"
    dialog.get_by_label("Type hall/+ to go on").fill("hall/+")
    press(dialog, "Delete 5")
    told(page, "5 retained messages that matched hall/+ were deleted.")
    assert root.get("/api/v1/retained", params={"filter": "hall/+"}).json()["value"] == []
    assert in_audit(root)["retained messages deleted retained hall/+"].startswith("5 deleted")


# -- rights, names, eyes and hands -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "right"),
    [
        ("groups/stock", "GET"),
        ("dead-letters/billing", "SUB"),
        ("timers", "SUB"),
        ("transactions", "SUB"),
        ("retained", "SUB"),
        ("alarms", "LIST"),
    ],
)
def test_who_may_not_look_is_told_the_right(shown: Shown, messages: list[str], address: str, right: str) -> None:
    page = shown("groups", user=TILL)
    expect(page.get_by_role("heading", name="No groups")).to_be_visible()
    go(page, address)
    expect(page.locator("main .empty").first).to_contain_text(right)
    assert [each for each in messages if not REFUSED.search(each)] == []
    assert messages
    messages.clear()


def test_who_may_look_and_not_change_is_told_the_right(shown: Shown, root: httpx2.Client, messages: list[str]) -> None:
    make(root, "users/looker", password=TILL[1])
    statement = {"effect": "ALLOW", "actions": ["GET", "LIST", "SUB"], "resources": ["Group:*"]}
    assert root.put("/api/v1/acls/looker", json={"statements": [statement]}).is_success
    page = shown("dead-letters/billing", user=("looker", TILL[1]))
    page.get_by_role("button", name="Resend all: rejected").click()
    dialog = dialog_of(page, "Resend 3 of billing?")
    dialog.get_by_role("button", name="Resend 3").click()
    expect(dialog.get_by_role("alert")).to_contain_text("UPDATE")
    press(dialog, "Cancel")
    page.get_by_role("button", name="Show 0", exact=True).click()
    expect(page.get_by_text("The body was not shown")).to_be_visible()
    assert [each for each in messages if not REFUSED.search(each)] == []
    messages.clear()


def test_hostile_names_are_text(shown: Shown) -> None:
    page = shown("retained")
    page.get_by_role("button", name="shop/<img src=x>").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"shop/{HOSTILE_SHOWN}")
    page.keyboard.press("Escape")
    for address in ("retained", "timers", "dead-letters/billing"):
        go(page, address)
        expect(page.locator("main").get_by_text(HOSTILE_SHOWN).first).to_be_visible()
        assert page.locator("main img").count() == 0


def test_the_keyboard_is_enough(shown: Shown) -> None:
    page = shown("groups/stock")
    page.get_by_role("button", name="Reset offsets").focus()
    page.keyboard.press("Enter")
    dialog = dialog_of(page, "Reset stock")
    expect(dialog.get_by_label("Go on at")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Reset offsets")).to_be_focused()
    go(page, "dead-letters/billing")
    reason = page.get_by_role("button", name="rejected", exact=True)
    reason.focus()
    page.keyboard.press("Enter")
    expect(reason).to_be_focused()
    expect(reason).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("location.hash").endswith("?reason=rejected")


@pytest.mark.parametrize("address", PAGES)
def test_axe_finds_nothing_in_light_and_dark(shown: Shown, address: str) -> None:
    page = shown(address)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []


@pytest.mark.parametrize("address", PAGES)
def test_a_phone_scrolls_in_one_direction(shown: Shown, address: str) -> None:
    page = shown(address, size=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]


def test_a_silent_server_leaves_numbers_unknown(shown: Shown, messages: list[str]) -> None:
    page = shown("overview")
    page.route("**/api/v1/groups/stock/lag?**", lambda route: route.fulfill(status=503, json={"detail": "no broker"}))
    go(page, "groups/stock")
    expect(page.get_by_text("Queues: not loaded")).to_be_visible()
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    page.unroute("**/api/v1/groups/stock/lag?**")
    page.get_by_role("button", name="Try again").click()
    expect(row(page, "Queues", "orders-in")).to_be_visible()
    assert all("503" in each for each in messages)
    messages.clear()


def test_a_group_of_a_namespace_has_the_same_pages(shown: Shown, root: httpx2.Client) -> None:
    make(root, "namespaces/team")
    make(root, "namespaces/team/topics/tasks", queues=1)
    make(root, "namespaces/team/groups/crew")
    publish(root, "tasks", event(1), below="/namespaces/team")
    path = "/namespaces/team/topics/tasks/eventsubscriptions/crew"
    received = root.post(f"{path}:receive", params={"maxWaitTime": 0}).json()["value"]
    tokens = [each["brokerProperties"]["lockToken"] for each in received]
    assert root.post(f"{path}:reject", json={"lockTokens": tokens}).json()["failedLockTokens"] == []
    page = shown("groups")
    page.get_by_label("Namespace").fill("team")
    row(page, "Groups", "crew").get_by_role("link", name="crew").click()
    expect(row(page, "Queues", "tasks")).to_be_visible()
    page.get_by_role("link", name="Dead letters", exact=True).last.click()
    page.get_by_role("button", name="Resend all dead letters").click()
    dialog = dialog_of(page, "Resend 1 of crew?")
    assert outside(dialog, "CLI") == "entrepot group resend crew --all --namespace team"
    press(dialog, "Resend 1")
    told(page, "1 dead letter was resent.")
