"""Every action of the dashboard but those on the cluster: refused without its right, and done with it alone."""

from __future__ import annotations

import pytest

from tests.browser.replicated.acting import Action, Shown, try_action
from tests.browser.replicated.amqp_actions import AMQP_ACTIONS
from tests.browser.replicated.clients_actions import CLIENTS_ACTIONS
from tests.browser.replicated.govern_actions import GOVERN_ACTIONS
from tests.browser.replicated.message_actions import MESSAGE_ACTIONS
from tests.browser.replicated.site import Site

pytestmark = pytest.mark.interop
ACTIONS = (*MESSAGE_ACTIONS, *AMQP_ACTIONS, *CLIENTS_ACTIONS, *GOVERN_ACTIONS)


@pytest.mark.parametrize("at", [0, 1], ids=["first-gateway", "second-gateway"])
@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.id)
def test_it_takes_its_right_and_is_known_everywhere(
    shown: Shown, site: Site, messages: list[str], action: Action, at: int
) -> None:
    try_action(shown, site, action, at)
    if action.vanishes:
        messages[:] = [each for each in messages if not each.endswith("status of 404 (Not Found)")]
