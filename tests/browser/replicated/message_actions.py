"""Actions on topics, messages, timers and retained messages, and those on groups and dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from playwright.sync_api import Page

from tests.browser.replicated.acting import Action, dialog, has, is_gone, is_there, press, select
from tests.browser.replicated.dead_letter_actions import DEAD_LETTER_ACTIONS
from tests.browser.replicated.group_actions import GROUP_ACTIONS
from tests.browser.replicated.message_steps import (
    TIMERS,
    TOPIC,
    are_retained,
    comes_later,
    holds_a_message,
    in_future,
    makes,
    retains,
    schedules,
    values,
    waits,
)

OF_LAB: Final = "/api/v1/namespaces/lab/topics/{name}"
SETTINGS: Final = "topics/{name}?tab=settings"
TRY: Final = "topics/{name}?tab=try"
RETAINED: Final = "retained?filter={name}/%23"
TRIED: Final = "test message published"
PUBLISH: Final = ("PUB Topic:{name}",)
PUBLISH_ALL: Final = ("PUB Topic:{name}/#",)
QUEUE: Final = makes(TOPIC, queues=1)

# -- topics ------------------------------------------------------------------------------------------------------------


def create_topic(page: Page, name: str) -> None:
    press(page, "Create a topic")
    form = dialog(page, "Create a topic")
    form.get_by_label("Name", exact=True).fill(name)
    press(form, "Create topic")


def change_topic(page: Page, name: str) -> None:
    page.get_by_label("Longest backlog").fill("70")
    press(page, "Change topic")


def delete_topic(page: Page, name: str) -> None:
    press(page, "Delete")
    asked = dialog(page)
    asked.get_by_label(f"Type {name} to go on").fill(name)
    press(asked, "Delete topic")


def publish(door: str, body: str = "Body", **fields: str) -> Callable[[Page, str], None]:
    """A test message by the rules of a door.  `body`: the label of its field.  `fields`: others, by label."""

    def pressed(page: Page, name: str) -> None:
        press(page, door)
        page.get_by_label(body, exact=True).fill(f'{{"to": "{name}"}}')
        for label, value in fields.items():
            page.get_by_label(label).fill(value)
        press(page, f"Publish to {name}")

    return pressed


def publish_retained(page: Page, name: str) -> None:
    press(page, "MQTT")
    page.get_by_label("Retain it").check()
    press(page, f"Publish to {name}")


def publish_for_later(page: Page, name: str) -> None:
    press(page, "RocketMQ")
    page.get_by_label("Deliver at").fill(f"{in_future(2)}Z")
    press(page, f"Publish to {name}")


TOPIC_ACTIONS: Final = (
    Action("topic-create", "topics", create_topic, is_there(TOPIC), ("CREATE Topic:{name}",), "topic created"),
    Action("topic-create-in-namespace", "topics?namespace=lab", create_topic, is_there(OF_LAB),
           ("CREATE Topic:$ns/lab/{name}",), "topic created"),
    Action("topic-change", SETTINGS, change_topic, has(TOPIC, maxBacklog=70), ("UPDATE Topic:{name}",),
           "topic changed", QUEUE),
    Action("topic-delete", SETTINGS, delete_topic, is_gone(TOPIC), ("DELETE Topic:{name}",), "topic deleted", QUEUE),
    Action("try-http", TRY, publish("HTTP, CloudEvents", "Data"), holds_a_message, PUBLISH, TRIED, QUEUE),
    Action("try-mqtt", TRY, publish("MQTT"), holds_a_message, PUBLISH, TRIED, QUEUE),
    Action("try-amqp", TRY, publish("AMQP 0-9-1"), holds_a_message, PUBLISH, TRIED, QUEUE),
    Action("try-rocketmq", TRY, publish("RocketMQ"), holds_a_message, PUBLISH, TRIED, QUEUE),
    Action("try-retained", TRY, publish_retained, is_there("/api/v1/retained/{name}"), PUBLISH, TRIED, QUEUE),
    Action("try-later", TRY, publish_for_later, waits, PUBLISH, TRIED, QUEUE),
)  # fmt: skip

# -- timers and retained messages --------------------------------------------------------------------------------------


def take_back(page: Page, name: str) -> None:
    page.get_by_label("Select all rows shown").check()
    press(page, "Take back 1")
    press(dialog(page), "Take back 1 message")


def change_the_time(page: Page, name: str) -> None:
    page.get_by_role("button", name="Change the time of").click()
    form = dialog(page, "Change the time")
    form.get_by_label("Comes at, UTC").fill(in_future(5))
    press(form, "Change the time")


def delete_one(page: Page, name: str) -> None:
    select(page, f"{name}/1")
    press(page, "Delete 1")
    press(dialog(page), "Delete 1 retained message")


def delete_two(page: Page, name: str) -> None:
    select(page, f"{name}/0")
    select(page, f"{name}/2")
    press(page, "Delete 2")
    press(dialog(page), "Delete 2 retained messages")


def delete_matching(page: Page, name: str) -> None:
    press(page, "Delete all that match")
    asked = dialog(page, f"Delete 3 retained messages that match {name}/#?")
    asked.get_by_label(f"Type {name}/# to go on").fill(f"{name}/#")
    press(asked, "Delete 3")


WAITING_ACTIONS: Final = (
    Action("timer-take-back", "timers?topic={name}", take_back, lambda root, name: values(root, TIMERS, name) == [],
           PUBLISH_ALL, "timer recalled", schedules),
    Action("timer-retime", "timers?topic={name}", change_the_time, comes_later, PUBLISH_ALL, "timer changed",
           schedules),
    Action("retained-delete-one", RETAINED, delete_one, are_retained(0, 2), ("PUB Topic:{name}/1",),
           "retained message deleted", retains),
    Action("retained-delete-two", RETAINED, delete_two, are_retained(1),
           ("PUB Topic:{name}/0", "PUB Topic:{name}/2"), "retained message deleted", retains),
    Action("retained-delete-matching", RETAINED, delete_matching, are_retained(), PUBLISH_ALL,
           "retained messages deleted", retains),
)  # fmt: skip

MESSAGE_ACTIONS: Final = (*TOPIC_ACTIONS, *GROUP_ACTIONS, *DEAD_LETTER_ACTIONS, *WAITING_ACTIONS)
