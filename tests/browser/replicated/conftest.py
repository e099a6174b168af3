"""A replicated cluster for each module, whose `server` is its first gateway, and pages of it as a user."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Opened
from tests.browser.group_steps import log_in
from tests.browser.replicated.acting import Shown
from tests.browser.replicated.site import ROOT, Site, filled_site
from tests.support.processes.server import Process

REFUSED = re.compile("Failed to load resource: the server responded with a status of 403")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with filled_site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="module")
def server(site: Site) -> Process:
    return site.gateways[0]


@pytest.fixture
def shown(open_page: Opened, expected: list[re.Pattern[str]]) -> Shown:
    """Opens a page as a user, at a gateway: `shown("groups", LOOKER, at=site.gateways[1])`.  What the browser says of
    refusals is no fault: these users are refused."""

    def opened(address: str, user: tuple[str, str] = ROOT, **options: Any) -> Page:
        page = log_in(open_page(address, answers=None, **options), user)
        expect(page.locator("nav.nav")).to_be_attached()
        return page

    expected.append(REFUSED)
    return opened
