"""Actions on namespaces, users, their secrets, and policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import httpx2
from playwright.sync_api import Page

from tests.browser.replicated.acting import SUPER, Action, dialog, everywhere, has, is_gone, is_there, press
from tests.browser.replicated.site import ROOT, Site
from tests.support.http.client import http_client

NAMESPACE: Final = "/api/v1/namespaces/{name}"
USER: Final = "/api/v1/users/{name}"
POLICY: Final = "/api/v1/acls/{name}"
SECOND: Final = "another horse battery"
"""A password that a test sets."""


def create_namespace(page: Page, name: str) -> None:
    press(page, "Create a namespace")
    form = dialog(page, "Create a namespace")
    form.get_by_label("Name", exact=True).fill(name)
    press(form, "Create the namespace")


def delete_namespace(page: Page, name: str) -> None:
    press(page, f"Delete {name}")
    press(dialog(page), "Delete namespace")


def make_namespace(site: Site, name: str) -> None:
    site.put(NAMESPACE.format(name=name))


def create_user(page: Page, name: str) -> None:
    press(page, "Create a user")
    form = dialog(page, "Create a user")
    form.get_by_label("Name", exact=True).fill(name)
    form.get_by_label("Password", exact=True).fill(ROOT[1])
    form.get_by_label("Password again").fill(ROOT[1])
    press(form, "Create the user")


def change_password(page: Page, name: str) -> None:
    press(page, "Change password")
    form = dialog(page)
    form.get_by_label("New password", exact=True).fill(SECOND)
    form.get_by_label("New password again").fill(SECOND)
    press(form, "Change password")


def has_password(root: httpx2.Client, name: str) -> bool:
    """The user may log in with the second password."""
    with http_client(str(root.base_url)) as client:
        return client.post("/api/v1/session", json={"name": name, "password": SECOND}).is_success


def set_secret(page: Page, name: str) -> None:
    press(page, "Set a signing secret")
    press(dialog(page), "Set signing secret")
    press(dialog(page, f"New signing secret of {name}"), "I have copied it")


def make_signer(site: Site, name: str) -> None:
    site.user(name)
    site.put(USER.format(name=name), signingSecret="a-signing-secret")
    everywhere(site, has(USER, hasSigningSecret=True), name)


def confirmed(label: str, verb: str = "") -> Callable[[Page, str], None]:
    """A button, and the same word or `verb` in the question."""

    def pressed(page: Page, name: str) -> None:
        press(page, label)
        press(dialog(page), verb or label)

    return pressed


def delete_user(page: Page, name: str) -> None:
    press(page, "Delete")
    asked = dialog(page)
    asked.get_by_label(f"Type {name} to go on").fill(name)
    press(asked, "Delete user")


def write_policy(page: Page, name: str) -> None:
    first = page.get_by_role("group", name="Statement 1")
    first.get_by_label("GET").check()
    first.get_by_label("Resources, one a line").fill("Topic:orders-in")
    press(page, "Save the policy")
    press(dialog(page), "Save policy")


def has_policy(resource: str) -> Callable[[httpx2.Client, str], bool]:
    """The first statement is about a resource."""

    def is_so(root: httpx2.Client, name: str) -> bool:
        answer = root.get(POLICY.format(name=name))
        return answer.is_success and answer.json()["statements"][0]["resources"] == [resource]

    return is_so


def make_policy(site: Site, name: str) -> None:
    site.user(name, {"effect": "ALLOW", "actions": ["PUB"], "resources": ["Topic:a"]})


def make_user(site: Site, name: str) -> None:
    site.user(name)


def make_disabled(site: Site, name: str) -> None:
    site.user(name)
    site.put(USER.format(name=name), enabled=False)
    everywhere(site, has(USER, enabled=False), name)


def make_super(site: Site, name: str) -> None:
    site.user(name, is_super=True)


ONE_USER: Final = "users/{name}"
GOVERN_ACTIONS: Final[tuple[Action, ...]] = (
    Action("namespace-create", "namespaces", create_namespace, is_there(NAMESPACE), ("CREATE Namespace:{name}",),
           "namespace created", refusal="is not allowed"),
    Action("namespace-delete", "namespaces", delete_namespace, is_gone(NAMESPACE), ("DELETE Namespace:{name}",),
           "namespace deleted", make_namespace),
    Action("user-create", "users", create_user, is_there(USER), (SUPER,), "user created", button="Create a user"),
    Action("user-password", ONE_USER, change_password, has_password, (SUPER,), "user changed", make_user,
           "Change password"),
    Action("user-secret", ONE_USER, set_secret, has(USER, hasSigningSecret=True), (SUPER,), "user changed", make_user,
           "Set a signing secret"),
    Action("user-secret-remove", ONE_USER, confirmed("Remove signing secret"), has(USER, hasSigningSecret=False),
           (SUPER,), "user changed", make_signer, "Remove signing secret"),
    Action("user-super", ONE_USER, confirmed("Make a super user"), has(USER, super=True), (SUPER,), "user changed",
           make_user, "Make a super user"),
    Action("user-no-super", ONE_USER, confirmed("Take super rights"), has(USER, super=False), (SUPER,), "user changed",
           make_super, "Take super rights"),
    Action("user-disable", ONE_USER, confirmed("Disable"), has(USER, enabled=False), (SUPER,), "user changed",
           make_user, "Disable"),
    Action("user-enable", ONE_USER, confirmed("Enable"), has(USER, enabled=True), (SUPER,), "user changed",
           make_disabled, "Enable"),
    Action("user-delete", ONE_USER, delete_user, is_gone(USER), (SUPER,), "user deleted", make_user, "Delete"),
    Action("policy-create", "policies/{name}?new=1", write_policy, has_policy("Topic:orders-in"), (SUPER,),
           "policy changed", make_user),
    Action("policy-change", "policies/{name}", write_policy, has_policy("Topic:orders-in"), (SUPER,), "policy changed",
           make_policy, "Save the policy"),
    Action("policy-delete", "policies/{name}", confirmed("Delete", "Delete policy"), is_gone(POLICY),
           (SUPER,), "policy deleted", make_policy, "Delete"),
)  # fmt: skip
