"""Pages of clients at one of two gateways: they show and disconnect the other's, and name a killed one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import expect

from tests.browser.client_steps import amqp, ask, audited, go, mqtt, press_danger, rocketmq, row
from tests.browser.conftest import Opened
from tests.support.processes.deployment import ClusterProcesses
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop
ADMINISTRATIVE_ACTION = 0x98
BOTH = {"asked": 2, "answered": 2, "missing": []}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """By its first gateway."""
    with ClusterProcesses(tmp_path_factory.mktemp("two"), brokers=1, gateways=2) as running:
        wait_until(lambda: ask(running, "GET", "gateways", auth=None)["answered"] == BOTH, "both know each other")
        yield running


def test_clients_of_the_other_gateway(open_page: Opened, server: ClusterProcesses, messages: list[str]) -> None:
    there = server.gateways[1]
    name = ask(there, "GET", "session", auth=None)["gateway"]
    with ExitStack() as stack:
        far = stack.enter_context(mqtt(there, "far", "orders/#", user=None))
        stack.enter_context(mqtt(server, "near", user=None))
        stack.enter_context(amqp(there, "far-work", user=None))
        rocket = stack.enter_context(rocketmq(there, "far-rocket", user=None))
        page = open_page("clients", answers=None)
        expect(row(page, "MQTT clients", "far")).to_contain_text(name)
        page.get_by_label("Gateway").select_option(name)
        expect(row(page, "MQTT clients", "near")).to_have_count(0)
        go(page, "amqp-connections")
        expect(row(page, "AMQP connections", "<i>far-work")).to_contain_text(name)
        go(page, "rocketmq-clients")
        page.get_by_label("Select far-rocket").check()
        page.get_by_role("button", name="Disconnect 1").click()
        press_danger(page.get_by_role("dialog"), "Disconnect")
        assert rocket.is_ended_by_the_server()
        go(page, "clients/far")
        expect(page.locator(".sub")).to_contain_text(f"connected to {name}")
        expect(page.locator(".hist")).to_contain_text(f"Connected to {name}")
        page.get_by_role("button", name="Disconnect").click()
        press_danger(page.get_by_role("dialog", name="Disconnect far?"), "Disconnect")
        wait_until(lambda: far.ended == [ADMINISTRATIVE_ACTION], "it is told")
        expect(page.get_by_text("far was disconnected.")).to_be_visible()
        expect(page.locator(".sub")).to_contain_text("not connected")
    messages[:] = [each for each in messages if "404" not in each]  # it ends between the list and the question for it
    assert ("client disconnected", "MQTT client far") in audited(server, auth=None)


def test_a_killed_gateway_is_said(open_page: Opened, server: ClusterProcesses) -> None:
    there = server.gateways[1]
    name = ask(there, "GET", "session", auth=None)["gateway"]
    with ExitStack() as stack:
        stack.enter_context(mqtt(there, "lost", "orders/#", user=None))
        stack.enter_context(mqtt(server, "stays", user=None))
        page = open_page("clients", answers=None)
        expect(row(page, "MQTT clients", "lost")).to_be_visible()
        there.kill()
        page.reload()
        expect(page.get_by_text("1 of 2 gateways answered.")).to_be_visible()
        expect(page.locator(".banner", has_text=name)).to_contain_text("Rows of what did not answer are missing.")
        expect(row(page, "MQTT clients", "stays")).to_be_visible()
        go(page, "clients/lost")
        expect(page.get_by_text("not known if it is connected")).to_be_visible()
        expect(page.locator(".banner", has_text=name).first).to_contain_text("It may be connected there.")
        expect(page.locator(".panel", has_text="History")).to_contain_text("its events are not here")
        expect(row(page, "Subscriptions", "orders/#")).to_be_visible()
        go(page, "clients/never")
        expect(page.get_by_text("No gateway that answered has this client")).to_be_visible()
