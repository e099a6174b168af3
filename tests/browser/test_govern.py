"""The pages that govern, at a real server: users, policies, the access tester, namespaces, audit, settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser.answers import HOSTILE
from tests.browser.conftest import PHONE, Opened
from tests.browser.test_real_login import log_in
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.http.client import http_client
from tests.support.processes.deployment import ClusterProcesses
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

PASSWORD: Final = "correct horse battery"
CHEAP: Final = CHEAP_FLAGS
OWN: Final = {"security.initial_admin": "root", "security.initial_admin_password": PASSWORD}
TESTED: Final = "access?subject=till&action=SUB&type=Topic&resource=config/secret/keys&on=Topic:config/secret"
PAGES: Final = {
    "users": "Users",
    "users/till": "till",
    "policies": "Policies",
    "policies/till": "Policy of till",
    TESTED: "Access tester",
    "namespaces": "Namespaces",
    "audit": "Audit",
    "settings": "Settings",
}
TILL: Final = [
    ("ALLOW", ["PUB"], ["Topic:orders/${username}/#"], []),
    ("ALLOW", ["SUB"], ["Topic:config/#"], []),
    ("DENY", ["ALL"], ["Topic:config/secret/#"], []),
    ("ALLOW", ["SUB"], ["Group:wall"], ["10.0.0.0/8"]),
]

Shown = Callable[..., Page]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("governed"), {**CHEAP, **OWN}) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: ServerProcess) -> Iterator[httpx2.Client]:
    url = f"http://127.0.0.1:{server.port('http')}"
    with http_client(url, auth=("root", PASSWORD)) as client:
        for name in ("till", "guest", "<img src=x onerror=alert(1)>"):
            assert client.put(f"/api/v1/users/{httpx2.URL(path=name).path}", json={"password": PASSWORD}).is_success
        say(client, "till", *TILL)
        assert client.put("/api/v1/namespaces/team", json={}).status_code == 201
        assert client.put("/api/v1/namespaces/team/topics/orders", json={}).status_code == 201
        yield client


def say(client: httpx2.Client, subject: str, *statements: tuple[str, list[str], list[str], list[str]]) -> None:
    keys = ("effect", "actions", "resources", "sources")
    body = {"statements": [dict(zip(keys, each, strict=True)) for each in statements]}
    assert client.put(f"/api/v1/acls/{subject}", json=body).is_success


@pytest.fixture
def shown(open_page: Opened, root: httpx2.Client) -> Shown:
    """Opens a page as a user: `shown("users", user="till")`."""

    def opened(address: str, user: str = "root", **options: Any) -> Page:
        page = open_page(address, answers=None, **options)
        log_in(page, user, PASSWORD)
        expect(page.locator("nav.nav")).to_be_attached()
        return page

    return opened


def heading(page: Page, text: str) -> Locator:
    return page.get_by_role("heading", level=1, name=text, exact=True)


def go(page: Page, address: str) -> None:
    page.evaluate("(address) => { location.hash = `#/${address}`; }", address)


def settled(page: Page, title: str) -> None:
    expect(heading(page, title)).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


def rows(page: Page, label: str) -> Locator:
    return page.get_by_role("group", name=label, exact=True).locator("tbody tr")


def audited(root: httpx2.Client, event: str, resource: str) -> list[dict[str, Any]]:
    query = {"event": event, "resource": resource, "kind": "changes"}
    found: list[dict[str, Any]] = root.get("/api/v1/audit", params=query).json()["value"]
    return found


def expect_refusal(messages: list[str], *statuses: int) -> None:
    """Take out what the browser says of refused requests."""
    found = [message for message in messages if "Failed to load resource" in message]
    assert [int(re.findall(r"status of (\d+)", each)[0]) for each in found] == list(statuses)
    for each in found:
        messages.remove(each)


def test_every_page_has_its_data(shown: Shown) -> None:
    page = shown("users")
    settled(page, "Users")
    expect(rows(page, "Users").filter(has_text="till")).to_contain_text("by policy")
    go(page, "users/till")
    expect(page.locator(".trail li")).to_have_count(4)
    go(page, "policies")
    expect(rows(page, "Policies").filter(has_text="till")).to_contain_text("DENY ALL on Topic:config/secret/#")
    go(page, "policies/till")
    expect(page.get_by_role("group", name="Statement 3").get_by_label("Effect")).to_have_value("DENY")
    go(page, TESTED)
    expect(page.locator(".verdict")).to_contain_text("Denied: till may not SUB Topic:config/secret/keys")
    go(page, "namespaces")
    expect(rows(page, "Namespaces").filter(has_text="team").locator("td.n").first).to_have_text("1")
    go(page, "audit")
    expect(rows(page, "Entries").filter(has_text="policy changed").filter(has_text="till").first).to_be_visible()
    go(page, "settings?only=set")
    secret = rows(page, "Settings").filter(has_text="security.initial_admin_password")
    expect(secret).to_contain_text("flag --set security.initial_admin_password")
    expect(page.get_by_text(PASSWORD)).to_have_count(0)


def test_a_user_from_the_first_to_the_last_day(shown: Shown, root: httpx2.Client) -> None:
    page = shown("users")
    page.get_by_role("button", name="Create a user").click()
    dialog = page.get_by_role("dialog", name="Create a user")
    dialog.get_by_label("Name", exact=True).fill("cashier")
    dialog.get_by_label("Password", exact=True).fill("a first password")
    dialog.get_by_label("Password again").fill("a frist password")
    expect(dialog.get_by_role("group", name="CLI")).to_have_text("entrepot user create cashier")
    expect(dialog.get_by_role("group", name="REST")).to_contain_text('"password":"<password>"')
    assert "first password" not in dialog.inner_text()
    dialog.get_by_role("button", name="Create the user").click()
    expect(dialog.get_by_text("The two passwords are not the same.")).to_be_visible()
    dialog.get_by_label("Password again").fill("a first password")
    dialog.get_by_role("button", name="Create the user").click()
    expect(page.get_by_text("The user cashier is there.")).to_be_visible()
    assert may_log_in(root, "cashier", "a first password")
    rows(page, "Users").get_by_role("link", name="cashier").click()
    settled(page, "cashier")
    change_password(page, "a second password")
    assert may_log_in(root, "cashier", "a second password")
    assert not may_log_in(root, "cashier", "a first password")
    change_signing_secret(page)
    for verb, said in (
        ("Make a super user", "cashier is a super user"),
        ("Take super rights", "cashier is bound by policies"),
        ("Disable", "cashier is disabled."),
        ("Enable", "cashier is enabled."),
    ):
        page.get_by_role("button", name=verb, exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name=verb, exact=True).click()
        expect(page.get_by_text(said)).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog", name="Delete the user cashier?")
    expect(dialog.get_by_role("button", name="Delete user")).to_be_disabled()
    dialog.get_by_label("Type cashier to go on").fill("cashier")
    dialog.get_by_role("button", name="Delete user").click()
    expect(page.get_by_role("heading", name="This user was deleted")).to_be_visible()
    page.get_by_role("link", name="Show the audit").click()
    expect(rows(page, "Entries").filter(has_text="user deleted")).to_have_count(1)
    told = [each["detail"] for each in audited(root, "user changed", "cashier")]
    assert told == [
        "enabled: True",
        "enabled: False",
        "super: False",
        "super: True",
        "signing secret changed",
        "signing secret changed",
        "password changed",
    ]


def may_log_in(root: httpx2.Client, name: str, password: str) -> bool:
    status = http_client(str(root.base_url)).post("/api/v1/session", json={"name": name, "password": password})
    assert status.status_code in (200, 401), status.text
    return status.status_code == 200


def change_password(page: Page, password: str) -> None:
    page.get_by_role("button", name="Change password").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("New password", exact=True).fill(password)
    dialog.get_by_label("New password again").fill(password)
    expect(dialog.get_by_role("group", name="CLI")).to_have_text("entrepot user password cashier")
    assert password not in dialog.inner_text()
    dialog.get_by_role("button", name="Change password").click()
    expect(page.get_by_text("cashier has another password.")).to_be_visible()


def change_signing_secret(page: Page) -> None:
    page.get_by_role("button", name="Set a signing secret").click()
    page.get_by_role("dialog").get_by_role("button", name="Set signing secret").click()
    secret = page.get_by_role("group", name="Secret", exact=True)
    expect(secret).to_have_text(re.compile(r"^[\w-]{32}$"))
    page.get_by_role("button", name="I have copied it").click()
    expect(page.get_by_text("cashier has a new signing secret.")).to_be_visible()
    page.get_by_role("button", name="Remove signing secret").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("group", name="CLI")).to_have_text("entrepot user signing-secret cashier --remove")
    dialog.get_by_role("button", name="Remove signing secret").click()
    expect(page.get_by_text("cashier has no signing secret.")).to_be_visible()


def test_an_existing_user_is_not_created_over(shown: Shown, root: httpx2.Client, messages: list[str]) -> None:
    page = shown("users")
    page.get_by_role("button", name="Create a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("till")
    dialog.get_by_label("Password", exact=True).fill("of somebody else")
    dialog.get_by_label("Password again").fill("of somebody else")
    dialog.get_by_role("button", name="Create the user").click()
    expect(dialog.get_by_text("there is a user 'till' already")).to_be_visible()
    expect(dialog.get_by_label("Name", exact=True)).to_be_focused()
    expect_refusal(messages, 409)
    assert may_log_in(root, "till", PASSWORD)


def test_own_rights_are_lost_only_by_typing_the_name(shown: Shown, root: httpx2.Client, messages: list[str]) -> None:
    assert root.put("/api/v1/users/boss", json={"password": PASSWORD, "super": True}).is_success
    page = shown("users/boss", user="boss")
    page.get_by_role("button", name="Take super rights").click()
    dialog = page.get_by_role("dialog", name="Take super rights: boss?")
    expect(dialog.get_by_text("This is your own user: you lose your rights at once.")).to_be_visible()
    expect(dialog.get_by_role("group", name="CLI")).to_have_text("entrepot user update boss --no-super --own")
    expect(dialog.get_by_role("group", name="REST")).to_contain_text("PUT /api/v1/users/boss?confirm=own-rights")
    act = dialog.get_by_role("button", name="Take super rights")
    expect(act).to_be_disabled()
    dialog.get_by_label("Type boss to go on").fill("boss")
    act.click()
    expect(page.get_by_text("boss is bound by policies now.")).to_be_visible()
    expect(page.get_by_role("dialog", name="Log in again")).to_be_visible()
    assert root.get("/api/v1/users/boss").json()["super"] is False
    messages[:] = [each for each in messages if "status of 401" not in each]


def test_the_last_super_user_stays(shown: Shown, root: httpx2.Client, messages: list[str]) -> None:
    page = shown("users/root")
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type root to go on").fill("root")
    dialog.get_by_role("button", name="Delete user").click()
    expect(dialog.get_by_text("'root' is the last super user")).to_be_visible()
    expect_refusal(messages, 409)


def test_a_policy_is_written_changed_and_deleted(shown: Shown, root: httpx2.Client, messages: list[str]) -> None:
    page = shown("policies")
    page.get_by_role("button", name="Write a policy").click()
    page.get_by_label("Subject", exact=True).fill("clerk")
    page.get_by_role("button", name="Go on").click()
    settled(page, "Policy of clerk")
    page.get_by_role("button", name="Save the policy").click()
    expect(page.get_by_text("Choose an action.")).to_be_visible()
    first = page.get_by_role("group", name="Statement 1")
    first.get_by_label("SUB").check()
    first.get_by_label("Resources, one a line").fill("Topic:a/#\nGroup:b\n")
    first.get_by_label("Only from these networks, one a line").fill("10.0.0.0/8")
    page.get_by_role("button", name="Add a statement").click()
    second = page.get_by_role("group", name="Statement 2")
    expect(second.get_by_label("ALL")).to_be_focused()
    second.get_by_label("Effect").select_option("DENY")
    second.get_by_label("ALL").check()
    second.get_by_label("Resources, one a line").fill("Topic:a/secret/#")
    page.get_by_role("button", name="Save the policy").click()
    dialog = page.get_by_role("dialog", name="Save the policy of clerk?")
    command = "entrepot acl set clerk --allow 'SUB@Topic:a/#,Group:b@10.0.0.0/8' --deny 'ALL@Topic:a/secret/#'"
    expect(dialog.get_by_role("group", name="CLI")).to_have_text(command)
    dialog.get_by_role("button", name="Save policy").click()
    expect(page.get_by_text("The policy of clerk has 2 statements.")).to_be_visible()
    assert len(root.get("/api/v1/acls/clerk").json()["statements"]) == 2
    assert "new=" not in page.url
    expect(page.get_by_role("button", name="Delete", exact=True)).to_be_visible()
    say(root, "clerk", ("ALLOW", ["GET"], ["Topic:meanwhile"], []))
    page.get_by_role("button", name="Remove statement 2").click()
    page.get_by_role("button", name="Save the policy").click()
    page.get_by_role("dialog").get_by_role("button", name="Save policy").click()
    expect(page.get_by_role("dialog").get_by_text("The policy was changed since it was shown here.")).to_be_visible()
    page.keyboard.press("Escape")
    go(page, "policies/clerk?new=1")
    again = page.get_by_role("group", name="Statement 1")
    again.get_by_label("PUB").check()
    again.get_by_label("Resources, one a line").fill("Topic:over")
    page.get_by_role("button", name="Save the policy").click()
    page.get_by_role("dialog").get_by_role("button", name="Save policy").click()
    expect(page.get_by_role("dialog").get_by_text("there is a policy of 'clerk' already")).to_be_visible()
    expect_refusal(messages, 409)
    page.keyboard.press("Escape")
    go(page, "policies/clerk")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete policy").click()
    expect(page.get_by_text("The policy of clerk was deleted.")).to_be_visible()
    assert root.get("/api/v1/acls/clerk").status_code == 404
    assert len(audited(root, "policy", "clerk")) == 3


def test_a_wrong_statement_is_refused_in_the_servers_words(shown: Shown, messages: list[str]) -> None:
    page = shown("policies/till")
    page.get_by_role("group", name="Statement 1").get_by_label("Resources, one a line").fill("Planet:mars")
    page.get_by_role("button", name="Save the policy").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Save policy").click()
    expect(dialog.get_by_text("Planet").last).to_be_visible()
    expect(dialog.get_by_role("alert")).to_be_visible()
    expect_refusal(messages, 400)


def test_the_tester_names_the_deciding_statement(shown: Shown) -> None:
    page = shown("access")
    page.get_by_label("User, anonymous, or a name from a token").fill("till")
    page.get_by_text("SUB", exact=True).first.click()
    page.get_by_label("Name", exact=True).fill("config/secret/keys")
    page.get_by_label("Source address").fill("10.4.17.20")
    page.get_by_role("button", name="Test").click()
    answer = page.get_by_role("region", name="Answer")
    expect(answer.locator(".verdict")).to_contain_text("Denied: till may not SUB Topic:config/secret/keys")
    said = "Statement 3 of the policy of till denies it. Without it, statement 2 of the policy of till would allow it."
    expect(answer.get_by_text(said)).to_be_visible()
    parts = answer.locator(".trail li > :last-child")
    expect(parts).to_have_text(["is for another action", "would allow it", "denies it", "is for another resource"])
    command = "entrepot acl explain till SUB Topic:config/secret/keys --source 10.4.17.20"
    expect(answer.get_by_role("group", name="CLI")).to_have_text(command)
    expect(page.get_by_role("region", name="Statements that decide about till").locator("li")).to_have_count(4)
    page.reload()
    expect(answer.locator(".verdict")).to_contain_text("Denied: till may not SUB")
    page.get_by_label("Resource", exact=True).last.fill("Topic:config/secret")
    found = page.get_by_role("group", name="Rights")
    expect(found.get_by_role("row", name=re.compile("^root")).get_by_text("allowed")).to_have_count(7)
    expect(found.get_by_role("row", name=re.compile("^till")).get_by_text("denied")).to_have_count(7)
    expect(found.get_by_role("row", name=re.compile("^guest"))).to_have_count(0)
    page.get_by_label("Subjects").select_option("all")
    nothing = found.get_by_role("row", name=re.compile("^guest")).get_by_text("no statement allows it")
    expect(nothing).to_have_count(7)


def test_namespaces_are_created_and_deleted(shown: Shown, root: httpx2.Client, messages: list[str]) -> None:
    page = shown("namespaces")
    page.get_by_role("button", name="Create a namespace").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("plant")
    expect(dialog.get_by_role("group", name="CLI")).to_have_text("entrepot namespace create plant")
    dialog.get_by_role("button", name="Create the namespace").click()
    expect(page.get_by_text("The namespace plant is there.")).to_be_visible()
    expect(rows(page, "Namespaces")).to_have_count(3)
    expect(page.get_by_role("button", name="Delete default")).to_have_count(0)
    page.get_by_role("button", name="Delete team").click()
    dialog = page.get_by_role("dialog", name="Delete the namespace team?")
    dialog.get_by_role("button", name="Delete namespace").click()
    expect(dialog.get_by_role("alert")).to_contain_text("It was not done")
    expect_refusal(messages, 409)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete plant").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete namespace").click()
    expect(page.get_by_text("The namespace plant was deleted.")).to_be_visible()
    expect(rows(page, "Namespaces")).to_have_count(2)
    assert [each["event"] for each in audited(root, "namespace", "plant")] == ["namespace deleted", "namespace created"]


def test_the_audit_is_filtered_and_paged(shown: Shown, root: httpx2.Client) -> None:
    for number in range(60):
        say(root, f"many-{number:02}", ("ALLOW", ["GET"], ["Topic:x"], []))
    page = shown("audit?resource=many-")
    expect(rows(page, "Entries")).to_have_count(50)
    expect(rows(page, "Entries").first).to_contain_text("many-59")
    page.get_by_role("button", name="Next").click()
    expect(rows(page, "Entries")).to_have_count(10)
    expect(rows(page, "Entries").last).to_contain_text("many-00")
    page.get_by_role("button", name="Back to start").click()
    expect(rows(page, "Entries")).to_have_count(50)
    http_client(str(root.base_url), auth=(HOSTILE, "wrong")).get("/api/v1/topics")
    go(page, "audit?kind=refusals&subject=gnp")
    refused = rows(page, "Entries").first
    expect(refused.get_by_text("login refused")).to_be_visible()
    expect(refused.locator("bdi .chip").first).to_have_text("U+202E")
    page.get_by_label("Until, UTC").fill("2020-01-01T00:00")
    expect(page.get_by_role("heading", name="No entries fit the filter")).to_be_visible()


def test_settings_are_found(shown: Shown) -> None:
    page = shown("settings")
    page.get_by_label("Key or description contains").fill("argon2_memory")
    expect(rows(page, "Settings")).to_have_count(1)
    row = rows(page, "Settings").first
    expect(row).to_contain_text("65536")
    expect(row).to_contain_text("flag --set security.argon2_memory_bytes")
    expect(page.get_by_role("group", name="CLI")).to_have_text("entrepot config running --find argon2_memory")
    page.get_by_label("Only").select_option("different")
    expect(page.get_by_role("heading", name="No settings fit the filter")).to_be_visible()


@pytest.mark.parametrize("address", [*PAGES])
def test_who_has_no_right_is_told_which(shown: Shown, messages: list[str], address: str) -> None:
    page = shown(address, user="guest")
    right = {"namespaces": "LIST on Namespace", "settings": "GET on Cluster"}.get(address, "are for super users")
    expect(page.get_by_role("main").get_by_text(re.compile(right)).first).to_be_visible()
    if address != "namespaces":
        expect(page.get_by_role("button", name=re.compile("^(Create|Write|Delete|Save)"))).to_have_count(0)
    assert {each.partition("status of ")[2][:3] for each in messages} == {"403"}
    messages.clear()


def test_a_name_with_markup_is_text_everywhere(shown: Shown) -> None:
    markup = "<img src=x onerror=alert(1)>"
    page = shown("users")
    rows(page, "Users").get_by_role("link", name=markup).click()
    settled(page, markup)
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("heading", name=f"Delete the user {markup}?")).to_be_visible()
    quoted = f"entrepot user delete '{markup}'"
    expect(page.get_by_role("dialog").get_by_role("group", name="CLI")).to_have_text(quoted)
    page.keyboard.press("Escape")
    page.get_by_role("link", name="none: write one").click()
    settled(page, f"Policy of {markup}")
    expect(page.locator("main img")).to_have_count(0)


def test_the_keyboard_is_enough(shown: Shown, root: httpx2.Client) -> None:
    page = shown("namespaces")
    settled(page, "Namespaces")
    opener = page.get_by_role("button", name="Create a namespace")
    page.locator("#main").focus()
    for _ in range(6):
        page.keyboard.press("Tab")
        if opener.evaluate("(button) => button === document.activeElement"):
            break
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("typed")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The namespace typed is there.")).to_be_visible()
    expect(opener).to_be_focused()
    assert root.delete("/api/v1/namespaces/typed").status_code == 204


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible(shown: Shown, scheme: str) -> None:
    page = shown("users", scheme=scheme)
    for address, title in PAGES.items():
        go(page, address)
        settled(page, title)
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == [], address


def test_a_phone_scrolls_down_only(shown: Shown) -> None:
    page = shown("users", size=PHONE)
    for address, title in PAGES.items():
        go(page, address)
        settled(page, title)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0], address


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    made = ClusterProcesses(tmp_path_factory.mktemp("two"), brokers=1, gateways=0)
    made.add_gateway(**CHEAP, **OWN, **{"server.name": "gw-a"})
    made.add_gateway(**CHEAP, **{"server.name": "gw-b", "mqtt.receive_maximum": "7"})
    with made:
        yield made


def test_two_gateways_tell_what_differs_and_who_is_missing(
    open_page: Opened, server: ServerProcess, cluster: ClusterProcesses, messages: list[str]
) -> None:
    first, second = (f"http://{gateway.address('http')}" for gateway in cluster.gateways)
    with http_client(first, auth=("root", PASSWORD)) as root, http_client(second, auth=("root", PASSWORD)) as other:
        wait_until(lambda: root.get("/api/v1/settings").json()["answered"]["answered"] == 2, "both gateways answer")
        wait_until(lambda: other.put("/api/v1/acls/at-b", json={"statements": []}).is_success, "gw-b knows the user")
    page = open_page("audit", answers=None)
    page.goto(f"{first}/dashboard/#/settings?only=different&find=receive_maximum")
    log_in(page, "root", PASSWORD)
    expect(rows(page, "Settings")).to_have_count(1)
    expect(rows(page, "Settings").first).to_contain_text("gw-b: 7")
    expect(page.get_by_text("1 not the same at all gateways")).to_be_visible()
    go(page, "audit?resource=at-b")
    expect(rows(page, "Entries").first).to_contain_text("gw-b")
    cluster.gateways[1].kill()
    go(page, "audit")
    expect(page.get_by_text("1 of 2 gateways answered.").first).to_be_visible()
    expect(page.get_by_text(re.compile("gw-b no connection")).first).to_be_visible()
    expect(rows(page, "Entries").filter(has_text="root").first).to_be_visible()
