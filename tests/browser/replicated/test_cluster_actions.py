"""Actions on brokers, replicas and controllers, at the page of the cluster; and the truth that the page tells of it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import httpx2
import pytest
from playwright.sync_api import Page

from tests.browser.replicated.acting import Action, Shown, dialog, press, try_action
from tests.browser.replicated.site import Site, in_sync
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop
BROKER: Final = "broker-0"
CHANGE: Final = re.compile(r"^Change r\d of broker-0$")
BEGUN: Final[dict[str, Any]] = {}
"""State before an action, by its thing."""


def brokers(root: httpx2.Client) -> dict[str, Any]:
    return {each["name"]: each for each in root.get("/api/v1/brokers").json()["value"]}


def replicas(root: httpx2.Client) -> dict[int, Any]:
    return {each["replica"]: each for each in brokers(root)[BROKER]["replicas"]}


def controllers(root: httpx2.Client) -> dict[int, Any]:
    return {each["controller"]: each for each in root.get("/api/v1/controllers").json()["value"]}


def a_slave(site: Site) -> int:
    wait_until(lambda: in_sync(site.roots[0]) == 3, lambda: str(brokers(site.roots[0])))
    return next(number for number, each in replicas(site.roots[0]).items() if each["role"] == "slave")


# -- replicas ----------------------------------------------------------------------------------------------------------


def remember_epoch(site: Site, name: str) -> None:
    wait_until(lambda: in_sync(site.roots[0]) == 3, lambda: str(brokers(site.roots[0])))
    BEGUN[name] = brokers(site.roots[0])[BROKER]["epoch"]


def elect(page: Page, name: str) -> None:
    press(page, f"Elect a master of {BROKER}")
    press(dialog(page), "Elect")


def remember_slave(site: Site, name: str) -> None:
    BEGUN[name] = a_slave(site)


def observing(site: Site, name: str) -> None:
    remember_slave(site, name)
    path = f"/api/v1/brokers/{BROKER}/replicas/{BEGUN[name]}"
    assert site.roots[0].put(path, json={"isObserver": True}).is_success
    wait_until(lambda: all(replicas(root)[BEGUN[name]]["isObserver"] for root in site.roots), "it observes")


def stopped(site: Site, name: str) -> None:
    remember_slave(site, name)
    site.cluster.replica(BEGUN[name]).stop()
    wait_until(lambda: all(replicas(root)[BEGUN[name]]["role"] == "away" for root in site.roots), "it is away")


def change(to: str) -> Any:
    def pressed(page: Page, name: str) -> None:
        press(page, f"Change r{BEGUN[name]} of {BROKER}")
        form = dialog(page)
        form.get_by_label("Change").select_option(to)
        press(form, f"Change r{BEGUN[name]}")

    return pressed


def count_again(site: Site, name: str) -> None:
    replica = site.cluster.replica(BEGUN[name])
    if not replica.is_running:
        replica.start()
    path = f"/api/v1/brokers/{BROKER}/replicas/{BEGUN[name]}"
    wait_until(lambda: site.roots[0].put(path, json={"isObserver": False}).is_success, "it counts")
    wait_until(lambda: in_sync(site.roots[0]) == 3, lambda: str(brokers(site.roots[0])))


def is_master(root: httpx2.Client, name: str) -> bool:
    return bool(replicas(root)[BEGUN[name]]["role"] == "master")


def observes(root: httpx2.Client, name: str) -> bool:
    return bool(replicas(root)[BEGUN[name]]["isObserver"])


# -- brokers -----------------------------------------------------------------------------------------------------------


def make_broker(site: Site, name: str) -> None:
    broker = site.cluster.add_broker(name)
    broker.settings = {"broker.heartbeat_seconds": "0.2"}
    broker.start()
    wait_until(lambda: all(is_there(root, name) for root in site.roots), "the gateways have it")


def is_there(root: httpx2.Client, name: str) -> bool:
    return name in brokers(root) and bool(brokers(root)[name]["isAvailable"])


def make_draining(site: Site, name: str) -> None:
    make_broker(site, name)
    drain(site, name)


def drain(site: Site, name: str) -> None:
    assert site.roots[0].put(f"/api/v1/brokers/{name}", json={"isDraining": True}).is_success
    wait_until(lambda: all(is_draining(root, name) for root in site.roots), "the gateways know it")


def is_draining(root: httpx2.Client, name: str) -> bool:
    return bool(brokers(root)[name]["isDraining"])


def take_broker(site: Site, name: str) -> None:
    drain(site, name)
    answer = site.roots[0].delete(f"/api/v1/brokers/{name}")
    assert answer.is_success, answer.text


def remove_broker(page: Page, name: str) -> None:
    press(page, f"Remove {name}")
    asked = dialog(page)
    asked.get_by_label(f"Type {name} to go on").fill(name)
    press(asked, f"Remove {name}")


def of_broker(verb: str) -> Any:
    def pressed(page: Page, name: str) -> None:
        press(page, f"{verb} {name}")
        press(dialog(page), f"{verb} {name}")

    return pressed


# -- controllers -------------------------------------------------------------------------------------------------------


def run_controller(site: Site, name: str) -> None:
    made = site.cluster.add_controller()
    made.start()
    BEGUN[name] = (int(made.settings["controller.id"]), made.place)


def add_controller(page: Page, name: str) -> None:
    number, place = BEGUN[name]
    press(page, "Add a controller")
    form = dialog(page, "Add a controller")
    form.get_by_label("Id", exact=True).fill(str(number))
    form.get_by_label("Address").fill(place)
    press(form, "Add controller")


def take_in_controller(site: Site, name: str) -> None:
    run_controller(site, name)
    number, place = BEGUN[name]
    answer = site.roots[0].post("/api/v1/controllers", json={"controller": number, "address": place}, timeout=60)
    assert answer.is_success, answer.text
    wait_until(lambda: all(counts(root, name) for root in site.roots), "the gateways know it")


def counts(root: httpx2.Client, name: str) -> bool:
    return controllers(root).get(BEGUN[name][0], {}).get("state") in ("leads", "follows")


def remove_controller(page: Page, name: str) -> None:
    number = BEGUN[name][0]
    press(page, f"Remove controller {number}")
    asked = dialog(page)
    asked.get_by_label(f"Type {number} to go on").fill(str(number))
    press(asked, f"Remove controller {number}")


def is_no_controller(root: httpx2.Client, name: str) -> bool:
    return controllers(root)[BEGUN[name][0]]["state"] == "outside"


def drop_controller(site: Site, name: str) -> None:
    path = f"/api/v1/controllers/{BEGUN[name][0]}"
    wait_until(lambda: site.roots[0].delete(path, timeout=60).is_success, "no other change is under way")


UPDATE: Final = ("UPDATE Cluster:*",)
DELETE: Final = ("DELETE Cluster:*", "UPDATE Cluster:*")
"""Removal is offered beside the changes."""
ACTIONS: Final[tuple[Action, ...]] = (
    Action("elect", "cluster", elect, lambda root, name: brokers(root)[BROKER]["epoch"] > BEGUN[name], UPDATE,
           "master elected", remember_epoch, f"Elect a master of {BROKER}"),
    Action("elect-one", "cluster", change("elect"), is_master, UPDATE, "master elected", remember_slave, CHANGE),
    Action("observer", "cluster", change("observer"), observes, UPDATE, "replicas changed", remember_slave, CHANGE,
           undo=count_again),
    Action("count", "cluster", change("add"), lambda root, name: not observes(root, name), UPDATE, "replicas changed",
           observing, CHANGE, undo=count_again),
    Action("replica-remove", "cluster", change("remove"), observes, DELETE,
           "replicas changed", stopped, CHANGE, undo=count_again),
    Action("drain", "cluster", of_broker("Drain"), is_draining, UPDATE, "broker changed", make_broker,
           re.compile("^Drain"), undo=take_broker),
    Action("undrain", "cluster", of_broker("Undrain"), lambda root, name: not is_draining(root, name), UPDATE,
           "broker changed", make_draining, re.compile("^Undrain"), undo=take_broker),
    Action("broker-remove", "cluster", remove_broker, lambda root, name: name not in brokers(root), DELETE,
           "broker removed", make_draining, re.compile("^Remove")),
    Action("controller-add", "cluster", add_controller, counts, UPDATE, "controller added", run_controller,
           "Add a controller", undo=drop_controller),
    Action("controller-remove", "cluster", remove_controller, is_no_controller, DELETE, "controller removed",
           take_in_controller, re.compile("^Remove")),
)  # fmt: skip


@pytest.mark.parametrize("at", [0, 1], ids=["first-gateway", "second-gateway"])
@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.id)
def test_it_takes_its_right_and_is_known_everywhere(shown: Shown, site: Site, action: Action, at: int) -> None:
    try_action(shown, site, replace(action, shows=("SyncStateSet",)), at)
