"""Texts of operations on the page: the kept commands and requests, to the letter."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from tests.browser.conftest import Opened
from tests.support.gateways.kept_commands import KEPT

pytestmark = pytest.mark.interop

SAID = """(kept) => import("/dashboard/parts/operations.js").then(({ same }) =>
    kept.map(({ id, names, body, how }) => {
      const { cli, rest } = same(id, names, body ?? undefined, how);
      return [cli, `${rest.method} ${rest.path}`, rest.body ?? null];
    }))"""


def test_the_page_says_what_is_kept(open_page: Opened) -> None:
    page = open_page()
    page.get_by_role("heading", level=1).wait_for()
    said = page.evaluate(SAID, [asdict(each) for each in KEPT])
    assert said == [[each.cli, each.rest, each.body] for each in KEPT]
