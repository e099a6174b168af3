"""Actions on groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from playwright.sync_api import Page

from tests.browser.replicated.acting import Action, dialog, has, is_gone, is_there, press, select
from tests.browser.replicated.message_steps import (
    GROUP,
    RESET_TO,
    falls_behind,
    has_read_nothing,
    is_behind,
    makes,
    reads_two_queues,
)

OF_LAB: Final = "/api/v1/namespaces/lab/groups/{name}"
AT: Final = "groups/{name}"
UPDATE: Final = ("UPDATE Group:{name}",)
DELETE: Final = ("DELETE Group:{name}",)
BOTH: Final = ("DELETE Group:{name}-a", "DELETE Group:{name}-b")


def create(namespace: str) -> Callable[[Page, str], None]:
    def pressed(page: Page, name: str) -> None:
        press(page, "Create a group")
        form = dialog(page, "Create a group")
        form.get_by_label("Name", exact=True).fill(name)
        form.get_by_label("Namespace").fill(namespace)
        press(form, "Create the group")

    return pressed


def change(page: Page, name: str) -> None:
    press(page, "Change settings")
    form = dialog(page, f"Change {name}")
    form.get_by_label("Attempts").fill("7")
    press(form, "Change the group")


def delete(page: Page, name: str) -> None:
    """The question of a deletion, from the group's own page or the list."""
    asked = dialog(page, "Delete 1 group?")
    asked.get_by_label(f"Type {name} to go on").fill(name)
    press(asked, "Delete 1 group")


def delete_in_the_list(page: Page, name: str) -> None:
    page.get_by_label("Name contains").fill(name)
    select(page, name)
    press(page, "Delete 1")
    delete(page, name)


def delete_two_in_the_list(page: Page, name: str) -> None:
    page.get_by_label("Name contains").fill(name)
    select(page, f"{name}-a")
    select(page, f"{name}-b")
    press(page, "Delete 2")
    asked = dialog(page, "Delete 2 groups?")
    asked.get_by_label("Type delete 2 to go on").fill("delete 2")
    press(asked, "Delete 2 groups")


def delete_on_its_page(page: Page, name: str) -> None:
    press(page, "Delete")
    delete(page, name)


def reset(position: str, topic: bool = False, **fields: str) -> Callable[[Page, str], None]:
    """A reset of that form.  `topic`: the name is typed, where the group has read none.  `fields`: others, by label."""

    def pressed(page: Page, name: str) -> None:
        press(page, "Reset offsets")
        form = dialog(page, f"Reset {name}")
        if topic:
            form.get_by_label("Topic", exact=True).fill(name)
        form.get_by_label("Go on at").select_option(position)
        for label, value in fields.items():
            form.get_by_label(label).fill(value)
        press(form, f"Reset {name}")

    return pressed


GROUP_ACTIONS: Final = (
    Action("group-create", "groups", create("default"), is_there(GROUP), ("CREATE Group:{name}",), "group created"),
    Action("group-create-in-namespace", "groups", create("lab"), is_there(OF_LAB), ("CREATE Group:$ns/lab/{name}",),
           "group created"),
    Action("group-change", AT, change, has(GROUP, maxAttempts=7), UPDATE, "group changed", makes(GROUP)),
    Action("group-delete", "groups", delete_in_the_list, is_gone(GROUP), DELETE, "group deleted", makes(GROUP)),
    Action("group-delete-two", "groups", delete_two_in_the_list,
           lambda root, name: all(is_gone(GROUP)(root, f"{name}-{each}") for each in "ab"), BOTH, "group deleted",
           makes(GROUP, "-a", "-b")),
    Action("group-delete-on-its-page", AT, delete_on_its_page, is_gone(GROUP), DELETE, "group deleted", makes(GROUP)),
    Action("group-reset-earliest", AT, reset("earliest"), is_behind(10), UPDATE, "group reset", falls_behind),
    Action("group-reset-latest", AT, reset("latest"), is_behind(0), UPDATE, "group reset", falls_behind),
    Action("group-reset-time", AT, reset("time", Time="2020-01-01T00:00:00"), is_behind(10), UPDATE, "group reset",
           falls_behind),
    Action("group-reset-offset", AT, reset("offset", Offset=str(RESET_TO)), is_behind(10 - RESET_TO), UPDATE,
           "group reset", falls_behind),
    Action("group-reset-queue", AT, reset("earliest", Queue="1"), is_behind(0, 5), UPDATE, "group reset",
           reads_two_queues),
    Action("group-reset-unread", AT, reset("offset", True, Offset=str(RESET_TO)), is_behind(10 - RESET_TO), UPDATE,
           "group reset", has_read_nothing),
)  # fmt: skip
