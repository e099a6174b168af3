"""Lists of the dashboard: order, filter, pages, selection, and rows that stay where they are."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Opened

pytestmark = pytest.mark.interop

LIST = """
async ([rows, more]) => {
  const { table } = await import("/dashboard/parts/table.js");
  window.rows = rows;
  const list = table({
    label: "Tills", signal: new AbortController().signal, seconds: 5, inAddress: false, key: (row) => row.name,
    columns: [{ id: "name", label: "Till", isHead: true, cell: (row) => row.name },
              { id: "lag", label: "Lag", align: "n", cell: (row) => row.lag }],
    load: async () => ({ value: window.rows, next: null, answered: more }),
    actions: [{ label: (chosen) => `Drop ${chosen.length}`,
                act: async (chosen) => (window.dropped = chosen.map((row) => row.name), true) }],
  });
  document.querySelector(".place").prepend(list.element);
}
"""


def names(page: Page) -> list[str]:
    return page.get_by_role("group", name="Tills").first.locator("tbody th").all_text_contents()


def test_order_filter_and_pages(open_page: Opened) -> None:
    page = open_page("components")
    region = page.get_by_role("group", name="Tills")
    expect(region.locator("tbody tr")).to_have_count(8)
    page.get_by_role("button", name="Lag, messages").click()
    header = region.get_by_role("columnheader", name="Lag, messages")
    expect(header).to_have_attribute("aria-sort", "descending")
    expect(page.get_by_role("button", name="Lag, messages")).to_be_focused()
    expect(region.locator("tbody td.n").first).to_have_text("499")
    page.get_by_role("button", name="Lag, messages").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    page.get_by_label("Name contains").fill("till-001")
    page.clock.fast_forward(1000)
    expect(region.locator("tbody tr")).to_have_count(8)
    page.get_by_role("button", name="Next").click()
    expect(region.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Back to start").click()
    expect(region.locator("tbody tr")).to_have_count(8)
    page.get_by_label("Name contains").fill("nothing")
    page.clock.fast_forward(1000)
    expect(page.get_by_role("heading", name="No tills fit the filter")).to_be_visible()
    page.get_by_role("button", name="Clear the filter").click()
    expect(region.locator("tbody tr")).to_have_count(8)
    expect(page.get_by_label("Name contains")).to_have_value("")


def test_new_rows_wait_while_one_is_selected(open_page: Opened) -> None:
    page = open_page("cluster")
    expect(page.get_by_role("group", name="Gateways")).to_be_visible()
    whole = {"asked": 1, "answered": 1, "missing": []}
    page.evaluate(LIST, [[{"name": "b", "lag": 1}, {"name": "c", "lag": 2}], whole])
    assert names(page) == ["b", "c"]
    page.evaluate("window.rows = [{name: 'a', lag: 0}, {name: 'b', lag: 7}, {name: 'c', lag: 2}]")
    page.get_by_label("Select c").check()
    page.get_by_label("Select c").evaluate("(box) => box.blur()")
    page.clock.fast_forward(5000)
    fresh = page.get_by_role("button", name="Show 1 new")
    expect(fresh).to_be_visible()
    assert names(page) == ["b", "c"]
    expect(page.get_by_role("group", name="Tills").locator("tbody td.n").first).to_have_text("7")
    fresh.click()
    assert names(page) == ["a", "b", "c"]
    page.get_by_role("button", name="Drop 1").click()
    expect(page.get_by_text("1 selected")).to_be_hidden()
    assert page.evaluate("window.dropped") == ["c"]


def test_a_list_says_which_part_is_missing(open_page: Opened) -> None:
    page = open_page("components")
    part = {"asked": 3, "answered": 2, "missing": [{"name": "gw-9", "reason": "gave no answer within 1.5 s"}]}
    page.evaluate(LIST, [[{"name": "b", "lag": None}], part])
    expect(page.get_by_text("2 of 3 gateways answered.")).to_be_visible()
    expect(page.get_by_text("gw-9 gave no answer within 1.5 s.")).to_be_visible()
