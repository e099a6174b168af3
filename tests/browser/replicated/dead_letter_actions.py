"""Actions on dead letters."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page

from tests.browser.group_steps import DEAD
from tests.browser.replicated.acting import Action, dialog, press, select
from tests.browser.replicated.message_steps import are_dead, come_again, gives_up

AT: Final = "dead-letters/{name}"
RESEND: Final = ("UPDATE Group:{name}",)
DELETE: Final = ("DELETE Group:{name}",)
RESENT: Final = "dead letters resent"
DELETED: Final = "dead letters deleted"
REJECTED: Final = 3
"""Dead letters of that reason."""


def resend_one(page: Page, name: str) -> None:
    select(page, "1")
    press(page, "Resend 1")
    press(dialog(page), "Resend 1")


def resend_some(page: Page, name: str) -> None:
    select(page, "1")
    select(page, "3")
    press(page, "Resend 2")
    press(dialog(page), "Resend 2")


def resend_all_of_a_reason(page: Page, name: str) -> None:
    press(page, "Resend all: rejected")
    press(dialog(page), f"Resend {REJECTED}")


def resend_all(page: Page, name: str) -> None:
    press(page, "Resend all dead letters")
    press(dialog(page), f"Resend {DEAD}")


def delete_some(page: Page, name: str) -> None:
    select(page, "1")
    select(page, "3")
    press(page, "Delete 2")
    press(dialog(page), "Delete 2")


def delete_all_of_a_reason(page: Page, name: str) -> None:
    press(page, "rejected")
    press(page, "Delete all: rejected")
    press(dialog(page), f"Delete {REJECTED}")


def delete_all(page: Page, name: str) -> None:
    press(page, "Delete all dead letters")
    asked = dialog(page)
    asked.get_by_label(f"Type {name} to go on").fill(name)
    press(asked, f"Delete {DEAD}")


DEAD_LETTER_ACTIONS: Final = (
    Action("letters-resend-one", AT, resend_one, come_again(1), RESEND, RESENT, gives_up),
    Action("letters-resend-some", AT, resend_some, come_again(1, 3), RESEND, RESENT, gives_up),
    Action("letters-resend-reason", AT, resend_all_of_a_reason, come_again(0, 1, 2), RESEND, RESENT, gives_up),
    Action("letters-resend-all", AT, resend_all, come_again(0, 1, 2, 3, 4), RESEND, RESENT, gives_up),
    Action("letters-delete-some", AT, delete_some, are_dead(0, 2, 4), DELETE, DELETED, gives_up),
    Action("letters-delete-reason", AT, delete_all_of_a_reason, are_dead(3, 4), DELETE, DELETED, gives_up),
    Action("letters-delete-all", AT, delete_all, are_dead(), DELETE, DELETED, gives_up),
)
