"""Pages of MQTT, AMQP and RocketMQ clients before a real server with real clients: what they show, and what they do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]
import pytest
from playwright.sync_api import Page, expect

from entrepot.gateway.cli.app import run
from tests.browser.client_steps import (
    ADMIN,
    HOSTILE,
    HOSTILE_SHOWN,
    ROOT,
    SIGNER,
    WHOLE,
    WINDOW,
    MqttClient,
    amqp,
    ask,
    assert_accessible,
    audited,
    fill,
    go,
    log_in,
    mqtt,
    press_danger,
    rocketmq,
    row,
    same_from_outside,
    settled,
)
from tests.browser.conftest import PHONE, Opened
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

ADMINISTRATIVE_ACTION = 0x98
CLERK, NOBODY = ("clerk", "clerkpw"), ("nobody", "nobodypw")
LISTS = (
    "clients",
    "sessions",
    "subscriptions",
    "slow-subscribers",
    "amqp-connections",
    "rocketmq-clients",
    "connected-clients",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("clients"), ADMIN) as running, ExitStack() as stack:
        ask(running, "PUT", f"users/{SIGNER[0]}", {"signingSecret": SIGNER[1], "super": True})
        fill(stack, running)
        for name, password in (CLERK, NOBODY):
            ask(running, "PUT", f"users/{name}", {"password": password})
        statement = {"effect": "ALLOW", "resources": ["Cluster:*"], "actions": ["LIST", "GET"]}
        ask(running, "PUT", f"acls/{CLERK[0]}", {"statements": [statement]})
        yield running


def connection_of(server: ServerProcess, queue: str) -> str:
    """The name of the AMQP connection that consumes a queue."""
    [found] = ask(server, "GET", f"amqp/consumers?queue={queue}")["value"]
    name: str = found["channel_details"]["connection_name"]
    return name


def details(server: ServerProcess) -> tuple[str, ...]:
    connection = quote(connection_of(server, "work"), safe="")
    return (
        "clients/line-1",
        f"clients/{quote(HOSTILE)}",
        "clients/away-1",
        "clients/none",
        f"amqp-connections/{connection}",
    )


def run_command(server: ServerProcess, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command that a dialog shows."""
    monkeypatch.setenv("ENTREPOT_USER", ROOT[0])
    monkeypatch.setenv("ENTREPOT_PASSWORD", ROOT[1])
    program, *arguments = shlex.split(command)
    assert program == "entrepot"
    at = 2 if "--" in arguments else len(arguments)
    assert run([*arguments[:at], "--server", f"http://{server.address('http')}", *arguments[at:]]) == 0


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_connected_clients(open_page: Opened) -> None:
    page = log_in(open_page("clients", answers=None))
    shown = row(page, "MQTT clients", "line-1")
    expect(shown.get_by_role("link", name="line-1")).to_be_visible()
    expect(shown).to_contain_text(f"{WINDOW}{WHOLE - WINDOW}")
    menu = page.get_by_role("navigation", name="Pages").get_by_role("link", name="MQTT clients")
    expect(menu).to_have_attribute("aria-current", "page")
    expect(menu).to_contain_text("3")


def test_a_client_that_gets_no_more(open_page: Opened) -> None:
    page = log_in(open_page("clients/line-1", answers=None))
    expect(page.get_by_text(f"{WINDOW} messages wait for its acknowledgement, all that may")).to_be_visible()
    expect(row(page, "In flight", "orders/a")).to_have_count(WINDOW)
    expect(row(page, "Subscriptions", "prices/+/shop")).to_be_visible()
    expect(page.locator(".hist")).to_contain_text("Connected to")
    expect(page.get_by_text("It is not traced")).to_be_visible()
    expect(page.locator(".sub")).to_contain_text("user root")


def test_sessions_that_are_away(open_page: Opened) -> None:
    page = log_in(open_page("sessions", answers=None))
    shown = row(page, "Sessions", "away-1")
    expect(shown).to_be_visible()
    expect(row(page, "Sessions", "line-1")).to_have_count(0)
    shown.get_by_role("link").click()
    expect(page.locator(".sub")).to_contain_text("not connected")
    expect(row(page, "Subscriptions", "orders/#")).to_be_visible()


def test_subscriptions_and_slow_subscribers(open_page: Opened) -> None:
    page = log_in(open_page("subscriptions", answers=None))
    expect(row(page, "Subscriptions", "prices/+/shop")).to_contain_text("line-1")
    page.get_by_role("link", name="Slow subscribers").click()
    expect(row(page, "Slow subscribers", "line-1")).to_contain_text(str(WHOLE - WINDOW))


def test_amqp_connections(open_page: Opened, server: ServerProcess) -> None:
    name = connection_of(server, "work")
    page = log_in(open_page("amqp-connections", answers=None))
    shown = row(page, "AMQP connections", name)
    expect(shown).to_contain_text("<i>workU+202E")
    shown.get_by_role("link").click()
    expect(row(page, "Consumers", "tag-work")).to_contain_text("20")
    expect(row(page, "Channels", "publisher confirms")).to_be_visible()
    expect(page.get_by_text("Pika Python Client Library")).to_be_visible()


def test_rocketmq_clients(open_page: Opened) -> None:
    page = log_in(open_page("rocketmq-clients", answers=None))
    shown = row(page, "RocketMQ clients", "rocket-1")
    for text in ("push-consumer", "workers", "rockets (a || b)", "java 5.0.8", "hostU+202E1"):
        expect(shown).to_contain_text(text)


def test_clients_of_all_doors(open_page: Opened, server: ServerProcess) -> None:
    page = log_in(open_page("connected-clients", answers=None))
    expect(row(page, "All clients", "line-1")).to_contain_text("MQTT")
    expect(row(page, "All clients", "rocket-1")).to_contain_text("rockets")
    page.get_by_label("Door").select_option("amqp")
    expect(row(page, "All clients", "rocket-1")).to_have_count(0)
    shown = row(page, "All clients", connection_of(server, "work"))
    expect(shown).to_contain_text("work")
    shown.get_by_role("link").click()
    expect(row(page, "Consumers", "tag-work")).to_be_visible()


def test_filters_and_the_finder(open_page: Opened) -> None:
    page = log_in(open_page("clients", answers=None))
    page.get_by_label("Client id contains").fill("line-")
    expect(row(page, "MQTT clients", "sender")).to_have_count(0)
    expect(row(page, "MQTT clients", "line-1")).to_be_visible()
    go(page, "subscriptions?client=line-1")
    expect(row(page, "Subscriptions", "orders/#")).to_have_count(1)
    expect(row(page, "Subscriptions", "gnp")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("away-1")
    page.keyboard.press("Enter")
    page.locator("main").get_by_role("link", name="MQTT client away-1").click()
    expect(page.get_by_role("heading", level=1, name="away-1")).to_be_visible()
    page.get_by_role("searchbox", name="Find").fill("away-")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing has this name")).to_be_visible()


def test_names_are_text(open_page: Opened) -> None:
    page = log_in(open_page("clients", answers=None))
    row(page, "MQTT clients", "gnp").get_by_role("link").click()
    expect(page.locator("h1 bdi")).to_have_text(HOSTILE_SHOWN)
    expect(row(page, "Subscriptions", "gnp").locator("bdi").first).to_have_text("<b>x</b>/U+202Egnp/#")
    page.get_by_role("button", name="Disconnect").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("h2 bdi")).to_have_text(HOSTILE_SHOWN)
    expect(dialog.get_by_role("group", name="CLI")).to_contain_text("'<img src=x>")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert page.locator("main img, main b b").count() == 0
    assert "\u202e" not in page.title()


# -- what is done ------------------------------------------------------------------------------------------------------


def test_mqtt_clients_are_disconnected(open_page: Opened, server: ServerProcess, messages: list[str]) -> None:
    page = log_in(open_page("clients?contains=cut-", answers=None))
    expect(page.get_by_text("No mqtt clients fit the filter")).to_be_visible()
    with mqtt(server, "cut-1") as one, mqtt(server, "cut-2") as two, mqtt(server, "cut-3") as three:
        page.reload()
        page.get_by_label("Select all rows shown").check()
        page.get_by_label("Select cut-3").uncheck()
        page.get_by_role("button", name="Disconnect 2").click()
        dialog = page.get_by_role("dialog", name="Disconnect 2 MQTT clients?")
        assert same_from_outside(dialog, "CLI") == "entrepot client kick cut-1 cut-2"
        assert same_from_outside(dialog, "REST").startswith("POST /api/v1/clients:disconnect")
        press_danger(dialog, "Disconnect 2")
        expect(page.get_by_role("status").get_by_text("2 MQTT clients were disconnected.")).to_be_visible()
        wait_until(lambda: bool(one.ended and two.ended), "both are told")
        assert (one.ended, two.ended, three.ended) == ([ADMINISTRATIVE_ACTION], [ADMINISTRATIVE_ACTION], [])
        expect(row(page, "MQTT clients", "cut-")).to_have_count(1)
        go(page, "clients/cut-3")
        page.get_by_role("button", name="Disconnect").click()
        press_danger(page.get_by_role("dialog", name="Disconnect cut-3?"), "Disconnect")
        wait_until(lambda: bool(three.ended), "it is told")
        expect(page.locator(".sub")).to_contain_text("not connected")
        expect(page.locator(".hist")).to_contain_text("Closed by")
    _forget_gone(messages)
    told = {("client disconnected", f"MQTT client cut-{each}") for each in (1, 2, 3)}
    assert told <= audited(server)


def test_what_is_gone_meanwhile_is_said(open_page: Opened, server: ServerProcess) -> None:
    with mqtt(server, "quick-1") as one, mqtt(server, "quick-2"):
        page = log_in(open_page("clients?contains=quick-", answers=None))
        page.get_by_label("Select all rows shown").check()
        page.get_by_role("button", name="Disconnect 2").click()
        one.leave()
        wait_until(lambda: not ask(server, "GET", "sessions/quick-1")["connected"], "it has gone")
        press_danger(page.get_by_role("dialog"), "Disconnect 2")
        told = page.get_by_role("status")
        expect(told.get_by_text("1 of 2 MQTT clients was disconnected.")).to_be_visible()
        expect(told).to_contain_text("quick-1: 'quick-1' is not connected.")


def test_sessions_are_ended(open_page: Opened, server: ServerProcess, messages: list[str]) -> None:
    for number in (1, 2, 3):
        MqttClient(server, f"past-{number}", "orders/#").leave()
        wait_until(lambda number=number: not ask(server, "GET", f"sessions/past-{number}")["connected"], "away")  # type: ignore[misc]
    page = log_in(open_page("sessions?prefix=past-", answers=None))
    page.get_by_label("Select past-1").check()
    page.get_by_label("Select past-2").check()
    page.get_by_role("button", name="End 2 sessions").click()
    dialog = page.get_by_role("dialog", name="End 2 MQTT sessions?")
    expect(dialog.get_by_text("2 subscriptions are gone.")).to_be_visible()
    press_danger(dialog, "End 2 sessions")
    expect(page.get_by_text("2 sessions were ended.")).to_be_visible()
    expect(row(page, "Sessions", "past-")).to_have_count(1)
    go(page, "clients/past-3")
    page.get_by_role("button", name="End session").click()
    press_danger(page.get_by_role("dialog", name="End the session of past-3?"), "End session")
    expect(page.get_by_text("No gateway has this client, and it has no session.")).to_be_visible()
    _forget_gone(messages)
    assert {each for _, each in audited(server)} >= {f"MQTT session past-{number}" for number in (1, 2, 3)}


def test_amqp_connections_are_closed(open_page: Opened, server: ServerProcess, messages: list[str]) -> None:
    with amqp(server, "shut-1") as one, amqp(server, "shut-2") as two:
        names = [connection_of(server, f"shut-{number}") for number in (1, 2)]
        page = log_in(open_page("amqp-connections", answers=None))
        page.get_by_label(f"Select {names[0]}").check()
        page.get_by_role("button", name="Close 1").click()
        dialog = page.get_by_role("dialog", name=f"Close {names[0]}?")
        dialog.get_by_label("Reason that the clients are told").fill("moves to 'there'")
        assert same_from_outside(dialog, "CLI").startswith("entrepot amqp close --reason 'moves to")
        press_danger(dialog, "Close")
        expect(page.get_by_text(f"{names[0]} was closed.")).to_be_visible()
        wait_until(lambda: _is_closed(one), "it is told")
        go(page, f"amqp-connections/{quote(names[1], safe='')}")
        page.get_by_role("button", name="Close").click()
        press_danger(page.get_by_role("dialog"), "Close")
        wait_until(lambda: _is_closed(two), "it is told")
        expect(page.get_by_text("No gateway has this connection.")).to_be_visible()
    _forget_gone(messages)
    assert {("connection closed", f"AMQP connection {name}") for name in names} <= audited(server)


def _forget_gone(messages: list[str]) -> None:
    """What ends between the list and the question for it is not found."""
    messages[:] = [each for each in messages if not each.endswith("status of 404 (Not Found)")]


def _is_closed(connection: pika.BlockingConnection) -> bool:
    try:
        connection.process_data_events(0)
    except pika.exceptions.AMQPConnectionError:
        return True
    return False


def test_rocketmq_clients_are_disconnected(open_page: Opened, server: ServerProcess) -> None:
    with rocketmq(server, "rocket-2") as stream:
        page = log_in(open_page("rocketmq-clients", answers=None))
        page.get_by_label("Select rocket-2").check()
        page.get_by_role("button", name="Disconnect 1").click()
        dialog = page.get_by_role("dialog", name="Disconnect rocket-2?")
        assert same_from_outside(dialog, "CLI") == "entrepot rocketmq disconnect rocket-2"
        press_danger(dialog, "Disconnect")
        assert stream.is_ended_by_the_server()
        expect(page.get_by_text("rocket-2 was disconnected.")).to_be_visible()
        expect(row(page, "RocketMQ clients", "rocket-2")).to_have_count(0)
    assert ("client disconnected", "RocketMQ client rocket-2") in audited(server)


def test_a_trace_is_started_shown_and_stopped(open_page: Opened, server: ServerProcess, messages: list[str]) -> None:
    with mqtt(server, "spied-on", "spied/#") as client:
        page = log_in(open_page("clients/spied-on", answers=None))
        page.get_by_role("button", name="Start trace").click()
        dialog = page.get_by_role("dialog", name="Trace the packets of spied-on?")
        dialog.get_by_label("With payloads").check()
        shown = same_from_outside(dialog, "CLI")
        assert shown == "entrepot client trace --seconds 60 --payloads spied-on"
        dialog.get_by_label("Seconds").fill("4000")
        dialog.get_by_role("button", name="Start trace").click()
        expect(dialog.get_by_text("seconds: Input should be less than")).to_be_visible()
        assert messages.pop().endswith("the server responded with a status of 400 (Bad Request)")
        dialog.get_by_label("Seconds").fill("90")
        press_danger(dialog, "Start trace")
        expect(page.get_by_text("spied-on is traced until")).to_be_visible()
        client.publish("spied/<i>", 1)
        packet = row(page, "Packet trace", "from client").filter(has_text="PUBLISH")
        expect(packet).to_contain_text("spied/<i>, QoS 1, 1 B, payload 0")
        expect(row(page, "Packet trace", "to client").filter(has_text="PUBACK")).to_be_visible()
        page.get_by_role("button", name="Stop trace").click()
        press_danger(page.get_by_role("dialog", name="Stop the trace of spied-on?"), "Stop trace")
        expect(page.get_by_text("It is not traced")).to_be_visible()
    assert {("trace started", "MQTT client spied-on"), ("trace ended", "MQTT client spied-on")} <= audited(server)


def test_the_commands_shown_do_the_same(
    open_page: Opened, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = "-it's <odd>"
    with mqtt(server, odd) as client, rocketmq(server, "rocket-3") as stream, amqp(server, "shown") as connection:
        page = log_in(open_page(f"clients/{quote(odd)}", answers=None))
        page.get_by_role("button", name="Disconnect").click()
        run_command(server, same_from_outside(page.get_by_role("dialog"), "CLI"), monkeypatch)
        wait_until(lambda: bool(client.ended), "it is told")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="End session").click()
        run_command(server, same_from_outside(page.get_by_role("dialog"), "CLI"), monkeypatch)
        assert ask(server, "GET", f"sessions?prefix={quote(odd)}")["value"] == []
        go(page, "rocketmq-clients")
        page.get_by_label("Select rocket-3").check()
        page.get_by_role("button", name="Disconnect 1").click()
        run_command(server, same_from_outside(page.get_by_role("dialog"), "CLI"), monkeypatch)
        assert stream.is_ended_by_the_server()
        go(page, f"amqp-connections/{quote(connection_of(server, 'shown'), safe='')}")
        page.get_by_role("button", name="Close").click()
        run_command(server, same_from_outside(page.get_by_role("dialog"), "CLI"), monkeypatch)
        wait_until(lambda: _is_closed(connection), "it is told")


# -- who may not -------------------------------------------------------------------------------------------------------


def test_who_may_only_look_is_told_what_is_missing(open_page: Opened) -> None:
    page = log_in(open_page("clients", answers=None), CLERK)
    expect(row(page, "MQTT clients", "line-1")).to_be_visible()
    expect(page.get_by_text("Disconnecting takes UPDATE on the cluster")).to_be_visible()
    assert page.get_by_role("checkbox", name="Select").count() == 0
    go(page, "clients/line-1")
    expect(page.get_by_text("Traces are for super users")).to_be_visible()
    for name in ("Disconnect", "End session", "Start trace"):
        assert page.get_by_role("button", name=name).count() == 0
    for address in LISTS[1:]:
        go(page, address)
        assert page.get_by_role("checkbox", name="Select").count() == 0


@pytest.mark.parametrize("address", [*LISTS, "clients/line-1", "amqp-connections/x"])
def test_who_may_not_look_is_told_the_right(open_page: Opened, messages: list[str], address: str) -> None:
    page = log_in(open_page("overview", answers=None), NOBODY)
    menu = page.get_by_role("navigation", name="Pages")
    assert menu.get_by_role("link", name="MQTT clients").count() == 0
    go(page, address)
    expect(page.locator("main").get_by_text("on Cluster").first).to_be_visible()
    assert {each.rpartition(" of ")[2] for each in messages} == {"403 (Forbidden)"}
    messages.clear()


# -- eyes and hands ----------------------------------------------------------------------------------------------------


def test_the_keyboard_is_enough(open_page: Opened, server: ServerProcess) -> None:
    with mqtt(server, "keyed") as client:
        page = log_in(open_page("clients?contains=keyed", answers=None))
        page.get_by_label("Client id contains").focus()
        wanted = page.get_by_label("Select keyed")
        expect(wanted).to_be_visible()
        _tab_to(page, "Select keyed")
        page.keyboard.press("Space")
        opener = page.get_by_role("button", name="Disconnect 1")
        expect(opener).to_be_visible()
        page.keyboard.press("Shift+Tab")
        for _ in range(8):
            if page.evaluate("document.activeElement.textContent") == "Disconnect 1":
                break
            page.keyboard.press("Shift+Tab")
        expect(opener).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Escape")
        expect(opener).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        expect(page.get_by_role("dialog").get_by_role("button", name="Disconnect")).to_be_focused()
        page.keyboard.press("Enter")
        wait_until(lambda: bool(client.ended), "it is told")


def _tab_to(page: Page, label: str) -> None:
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('aria-label')") == label:
            return
    raise AssertionError(f"no Tab reaches {label}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page: Opened, server: ServerProcess, scheme: str) -> None:
    page = log_in(open_page(LISTS[0], answers=None, scheme=scheme))
    for address in (*LISTS, *details(server)):
        go(page, address)
        assert_accessible(page)


def test_a_phone_scrolls_in_one_direction(open_page: Opened, server: ServerProcess) -> None:
    page = log_in(open_page(LISTS[0], answers=None, size=PHONE))
    for address in (*LISTS, *details(server)):
        go(page, address)
        settled(page)
        assert (address, page.evaluate("document.documentElement.scrollWidth")) == (address, PHONE[0])
