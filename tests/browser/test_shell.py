"""The dashboard's shell in a browser: its policy, the keyboard, both schemes, a phone, and what it says of trouble.

`answers.py` gives fixed answers of `/api/v1`; the files come from a running server.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from tests.browser.answers import HOSTILE, LOGGED_OUT, OVERVIEW, SESSION, serve_answers
from tests.browser.conftest import PHONE, Opened
from tests.support.waiting import wait_until

PAGES = ("overview", "cluster", "components", "nothing/here")
WITHOUT_MOTION = {"resultTypes": ["violations"]}


def heading(page: Page, text: str) -> Any:
    return page.get_by_role("heading", level=1, name=text, exact=True)


def assert_accessible(page: Page) -> None:
    found = Axe().run(page, options=WITHOUT_MOTION).response["violations"]
    assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []


def shown(page: Page) -> None:
    """Wait until the page has its data."""
    expect(page.locator("h1")).to_be_visible()
    if "#/components" not in page.url:  # the sheet shows how waiting looks
        expect(page.locator("[aria-busy=true]")).to_have_count(0)


def test_it_loads_under_its_policy_and_asks_below_its_own_root(open_page: Opened) -> None:
    page = open_page()
    expect(heading(page, "Overview")).to_be_visible()
    doors = page.get_by_role("group", name="Rates by door")
    expect(doors.get_by_role("row", name="MQTT ≥ 61,204 ≥ 5,640")).to_be_visible()
    expect(page.get_by_text("live · 20:41")).to_be_visible()
    assert urlsplit(page.evaluate("window.streamAddress")).path == "/api/v1/overview:watch"
    assert page.title() == "Overview · nordhafen · Entrepôt"


def test_unknown_is_never_0(open_page: Opened) -> None:
    doors = [{"door": "mqtt", "connections": None, "in": None, "out": None, "bytesIn": None, "refused": None}]
    nothing = {**OVERVIEW, "doors": doors, "confirm": {"p50": None, "p99": None}, "furthest": None, "disk": []}
    page = open_page(answers={"GET overview": nothing, "GET overview:watch": nothing})
    row = page.get_by_role("group", name="Rates by door").get_by_role("row", name="MQTT")
    expect(row.get_by_text("unknown")).to_have_count(5)
    expect(row.get_by_text("0", exact=True)).to_have_count(0)
    expect(page.locator(".kpis").get_by_text("nothing confirmed")).to_have_count(2)


def test_names_are_text_and_their_hidden_signs_are_named(open_page: Opened) -> None:
    named = {**OVERVIEW, "gateways": [{**OVERVIEW["gateways"][0], "name": HOSTILE}]}
    page = open_page("cluster", answers={"GET overview": named, "GET overview:watch": named})
    cell = page.get_by_role("group", name="Gateways").locator("bdi").last
    expect(cell).to_have_text("a<b>U+202EgnpU+0000")
    assert page.locator("main b b").count() == 0


def test_the_keyboard_reaches_everything(open_page: Opened) -> None:
    page = open_page()
    shown(page)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Cluster").focus()
    page.keyboard.press("Enter")
    expect(heading(page, "Cluster")).to_be_focused()
    current = page.locator("nav [aria-current=page]")
    expect(current).to_have_text("Cluster")
    page.keyboard.press("p")
    expect(page.get_by_text("Updates are paused.")).to_be_visible()
    page.keyboard.press("p")
    expect(page.get_by_text("Updates are paused.")).to_have_count(0)
    page.get_by_label("Keys / p").uncheck()
    heading(page, "Cluster").focus()
    page.keyboard.press("p")
    expect(page.get_by_text("Updates are paused.")).to_have_count(0)


def test_who_goes_on_while_a_page_comes_keeps_the_focus(open_page: Opened) -> None:
    page, held = open_page(), list[Route]()
    shown(page)
    page.route("**/api/v1/overview*", lambda route: held.append(route))
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Cluster").click()
    expect(heading(page, "Cluster")).to_be_focused()
    find = page.get_by_role("searchbox", name="Find")
    find.focus()
    wait_until(lambda: page.evaluate("1") and held, "the page asks")
    for route in held:
        route.fallback()
    expect(page.get_by_role("group", name="Gateways").locator("tbody tr").first).to_be_visible()
    expect(find).to_be_focused()


@pytest.mark.interop
@pytest.mark.parametrize("address", PAGES)
def test_axe_finds_nothing_in_light_and_dark(open_page: Opened, address: str) -> None:
    page = open_page(address)
    shown(page)
    assert_accessible(page)
    page.emulate_media(color_scheme="dark")
    assert_accessible(page)


@pytest.mark.interop
@pytest.mark.parametrize("address", PAGES)
def test_a_phone_scrolls_in_one_direction(open_page: Opened, address: str) -> None:
    page = open_page(address, size=PHONE)
    shown(page)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
    small = page.evaluate(
        """() => [...document.querySelectorAll("button, .btn, .keys, input:not(label input), select, summary")]
             .filter((each) => each.checkVisibility() && each.getBoundingClientRect().width > 1)
             .map((each) => [each.outerHTML.slice(0, 80), each.getBoundingClientRect()])
             .filter(([, box]) => box.width < 24 || box.height < 24).map(([text]) => text)"""
    )
    assert small == []


def test_the_menu_of_a_phone_opens_and_closes(open_page: Opened) -> None:
    page = open_page(size=PHONE)
    shown(page)
    menu = page.get_by_role("navigation", name="Pages")
    expect(menu).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(menu).to_be_visible()
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    menu.get_by_role("link", name="Cluster").click()
    expect(menu).to_be_hidden()
    expect(heading(page, "Cluster")).to_be_focused()


def test_the_choice_of_colours_stays(open_page: Opened) -> None:
    page = open_page()
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    page.locator("label", has_text="Dark").click()
    assert page.evaluate(ground) == "rgb(14, 20, 22)"
    page.reload()
    shown(page)
    assert page.evaluate(ground) == "rgb(14, 20, 22)"
    page.locator("label", has_text="Light").click()
    assert page.evaluate(ground) == "rgb(243, 245, 245)"


def test_a_lost_connection_is_said_and_recovers_by_itself(open_page: Opened) -> None:
    page = open_page()
    expect(page.get_by_text("live · 20:41")).to_be_visible()
    page.evaluate("window.refuseStreams = true; window.lose()")
    page.clock.fast_forward(12_000)
    expect(page.get_by_text("The connection is lost.")).to_be_visible()
    expect(page.get_by_text("last answer 1")).to_be_visible()
    expect(page.get_by_role("row", name="MQTT ≥ 61,204")).to_be_visible()
    page.evaluate("window.refuseStreams = false")
    page.clock.fast_forward(40_000)
    expect(page.get_by_text("The connection is lost.")).to_have_count(0)
    expect(page.get_by_text("live · 20:42")).to_be_visible()


def test_tabs_share_one_stream(open_page: Opened) -> None:
    first = open_page()
    shown(first)
    second = first.context.new_page()
    serve_answers(second, {})
    second.goto(first.url)
    shown(second)
    assert [page.evaluate("window.streams.length") for page in (first, second)] == [1, 0]
    first.evaluate("(told) => window.tell(told)", {**OVERVIEW, "version": "9.9.9"})
    for page in (first, second):
        expect(page.get_by_text("version 9.9.9")).to_be_visible()
    first.close()
    # not wait_for_function, whose second look is an eval in the page, which its policy forbids
    wait_until(lambda: second.evaluate("window.streams.length") == 1 or None, "the stream of the second tab")


def test_behind_a_path_prefix(open_page: Opened) -> None:
    page = open_page()
    shown(page)
    own = urlsplit(page.url)

    def without_prefix(route: Route) -> None:
        answer = route.fetch(url=route.request.url.replace("/behind/proxy/", "/"))
        route.fulfill(response=answer)

    page.route("**/behind/proxy/dashboard/**", without_prefix)
    page.goto(f"http://{own.netloc}/behind/proxy/dashboard/#/cluster")
    expect(page.get_by_role("group", name="Gateways")).to_be_visible()
    assert urlsplit(page.evaluate("window.streamAddress")).path == "/behind/proxy/api/v1/overview:watch"


def test_login(open_page: Opened, messages: list[str]) -> None:
    session = {"now": LOGGED_OUT}

    def log_in(body: dict[str, Any]) -> Any:
        if body != {"name": "ops-2", "password": "right"}:
            return 401, {"status": 401, "code": "UNAUTHORIZED", "detail": "user or password is wrong"}
        session["now"] = SESSION
        return SESSION

    page = open_page(answers={"GET session": lambda body: session["now"], "POST session": log_in})
    expect(heading(page, "Log in to nordhafen")).to_be_visible()
    expect(page.get_by_label("User")).to_be_focused()
    expect(page.get_by_text("This connection is not encrypted.")).to_be_visible()
    assert_accessible(page)
    page.get_by_label("User").fill("ops-2")
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Name or password is wrong.")).to_be_visible()
    expect(page.get_by_label("User")).to_have_value("ops-2")
    assert messages.pop().startswith("error: Failed to load resource: the server responded with a status of 401")
    page.get_by_label("Password").fill("right")
    page.keyboard.press("Enter")
    expect(heading(page, "Overview")).to_be_visible()


def test_the_first_user_logs_in_with_the_token(open_page: Opened) -> None:
    sent: list[Any] = []

    def log_in(body: Any) -> Any:
        sent.append(body)
        return SESSION

    none = {**LOGGED_OUT, "setupNeeded": True, "tls": True}
    page = open_page(answers={"GET session": none, "POST session": log_in})
    token = page.get_by_label("One-time token of the start")
    expect(token).to_be_focused()
    expect(page.get_by_text("This connection is not encrypted.")).to_have_count(0)
    token.fill(" 4711 ")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_function("true")
    assert sent == [{"token": "4711"}]


def test_a_login_that_ends_keeps_what_was_typed(open_page: Opened, messages: list[str]) -> None:
    over = {"status": 401, "code": "UNAUTHORIZED", "detail": "the login is over"}
    page = open_page("components", answers={"GET overview": (401, over), "POST session": SESSION})
    typed = page.get_by_label("Name contains")
    typed.fill("till-00")
    page.evaluate("import('/dashboard/api.js').then((api) => api.get('overview').catch(() => {}))")
    dialog = page.get_by_role("dialog", name="Log in again")
    expect(dialog.get_by_text("Your login is over.")).to_be_visible()
    assert messages.pop().startswith("error: Failed to load resource: the server responded with a status of 401")
    page.keyboard.press("Escape")
    page.clock.fast_forward(1000)
    page.get_by_role("button", name="Log in again").click()
    dialog.get_by_label("User").fill("ops-2")
    dialog.get_by_label("Password").fill("right")
    dialog.get_by_role("button", name="Log in").click()
    expect(dialog).to_have_count(0)
    page.clock.fast_forward(1000)
    expect(page.get_by_text("Your login is over.")).to_have_count(0)
    expect(typed).to_have_value("till-00")


def test_who_may_not_look_is_told_the_right(open_page: Opened, messages: list[str]) -> None:
    refused = {"status": 403, "code": "FORBIDDEN", "detail": "LIST on Cluster 'nordhafen' is not allowed"}
    limited = {**SESSION, "isSuper": False, "may": []}
    page = open_page("cluster", answers={"GET overview": (403, refused), "GET session": limited})
    expect(page.get_by_text("LIST on Cluster 'nordhafen' is not allowed")).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Cluster")).to_have_count(0)
    assert messages.pop().startswith("error: Failed to load resource: the server responded with a status of 403")


def test_draining_asks_first(open_page: Opened) -> None:
    sent: list[Any] = []

    def drain(body: Any) -> Any:
        sent.append(body)
        return OVERVIEW["brokers"][1]

    page = open_page("cluster", answers={"PUT brokers/broker-1": drain})
    opener = page.get_by_role("button", name="Drain broker-1")
    opener.click()
    dialog = page.get_by_role("dialog", name="Drain broker-1?")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    expect(dialog.get_by_text("291,004 messages to settle now. You can take it back.")).to_be_visible()
    expect(dialog.get_by_role("group", name="CLI")).to_have_text("entrepot cluster drain broker-1")
    expect(dialog.get_by_role("group", name="REST")).to_have_text('PUT /api/v1/brokers/broker-1 {"isDraining":true}')
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()
    assert sent == []
    opener.click()
    with page.expect_request("**/brokers/broker-1") as asked:
        page.get_by_role("dialog").get_by_role("button", name="Drain broker-1").click()
    assert asked.value.headers["x-entrepot-dashboard"] == "1"
    expect(page.get_by_text("broker-1 is draining.")).to_be_visible()
    assert sent == [{"isDraining": True}]


def test_nothing_is_a_link_before_it_has_words(open_page: Opened) -> None:
    page = open_page("nothing/here", answers={"GET overview": (404, {}), "GET overview:watch": None})
    shown(page)
    expect(page.get_by_role("link").filter(has_not_text=re.compile(r"\S"))).to_have_count(0)
    assert_accessible(page)


def test_a_refused_action_stays_open_and_says_why(open_page: Opened, messages: list[str]) -> None:
    refused = {"status": 409, "code": "NOT_EMPTY", "detail": "controller 2 leads"}
    page = open_page("cluster", answers={"DELETE controllers/2": (409, refused)})
    page.get_by_role("button", name="Remove controller 2").click()
    dialog = page.get_by_role("dialog")
    act = dialog.get_by_role("button", name="Remove controller 2")
    expect(act).to_be_disabled()
    dialog.get_by_label("Type 2 to go on").fill("2")
    act.click()
    expect(dialog.get_by_text("409 · NOT_EMPTY")).to_be_visible()
    expect(dialog.get_by_text("controller 2 leads")).to_be_visible()
    expect(act).to_be_enabled()
    assert messages.pop().startswith("error: Failed to load resource: the server responded with a status of 409")


def test_a_replica_is_changed_by_one_choice(open_page: Opened) -> None:
    sent: list[Any] = []

    def change(body: Any) -> Any:
        sent.append(body)
        return OVERVIEW["brokers"][0]

    page = open_page("cluster", answers={"PUT brokers/broker-0/replicas/2": change})
    page.get_by_role("button", name="Change r2 of broker-0").click()
    dialog = page.get_by_role("dialog", name="Change r2 of broker-0")
    expect(dialog.get_by_role("group", name="CLI")).to_have_text("entrepot cluster elect broker-0 --to 2")
    dialog.get_by_label("Change").select_option("observer")
    expect(dialog.get_by_role("group", name="CLI")).to_have_text("entrepot cluster replica observer broker-0 2")
    dialog.get_by_role("button", name="Change r2").click()
    expect(page.get_by_text("r2 of broker-0 is to be an observer.")).to_be_visible()
    assert sent == [{"isObserver": True}]


def test_a_chart_has_a_sentence_and_a_table(open_page: Opened) -> None:
    page = open_page("overview?span=300")
    picture = page.get_by_role("img", name="Messages in, messages/s, over 5 min")
    expect(picture).to_be_visible()
    words = picture.get_attribute("aria-label")
    assert words is not None and "No data from 20:39:" in words and "broker-1: epoch 42" in words
    page.get_by_role("button", name="Messages in as a table").click()
    numbers = page.get_by_role("group", name="Messages in, messages/s")
    expect(numbers.get_by_role("row")).to_have_count(301)
    expect(numbers.get_by_text("unknown").first).to_be_attached()


def test_integers_beyond_those_of_javascript_survive(open_page: Opened) -> None:
    page = open_page()
    shown(page)
    text = '{"a": 9007199254740993, "b": -12, "c": "9007199254740993 \\" 1", "d": 0.1234567890123456789, "e": [1e30]}'
    found = page.evaluate("(text) => import('/dashboard/api.js').then((api) => api.parsed(text))", text)
    assert found == {**json.loads(text), "a": "9007199254740993"}
    said = page.evaluate("() => import('/dashboard/format.js').then((f) => f.number('9007199254740993'))")
    assert said == "9,007,199,254,740,993"
